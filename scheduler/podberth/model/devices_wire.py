"""The JSON of the kinds of `resource.k8s.io/v1`, decoded into the fields that a decision reads or writes back."""

from msgspec import Raw, field

from podberth.model.taints import Taint
from podberth.model.wire import Amount, Amounts, NodeSelector, Object, ObjectMeta


class Attribute(Object, gc=False):
    """One value, or a list of them, which is an alpha feature."""

    int_value: int | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    ints: Raw = Raw()
    bools: Raw = Raw()
    strings: Raw = Raw()
    versions: Raw = Raw()


class Range(Object, gc=False):
    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class RequestPolicy(Object, gc=False):
    default: Amount | None = None
    valid_values: list[Amount] | None = None
    valid_range: Range | None = None


class Capacity(Object, gc=False):
    value: Amount = 0
    request_policy: RequestPolicy | None = None


class Counter(Object, gc=False):
    value: Amount = 0


class Consumption(Object, gc=False):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None
    compatibility_groups: list[str] | None = None


class Device(Object, gc=False):
    name: str = ""
    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, Capacity] | None = None
    consumes_counters: list[Consumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class CounterSet(Object, gc=False):
    name: str = ""
    counters: dict[str, Counter] | None = None


class Pool(Object, gc=False):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Object, gc=False):
    driver: str = ""
    pool: Pool = field(default_factory=Pool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: Raw = Raw()
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: SliceSpec = field(default_factory=SliceSpec)


class CELSelector(Object, gc=False):
    expression: str = ""


class Selector(Object, gc=False):
    cel: CELSelector | None = None


class ClassSpec(Object, gc=False):
    selectors: list[Selector] | None = None
    config: list[Raw] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ClassSpec = field(default_factory=ClassSpec)


class TaintSelector(Object, gc=False):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RuleSpec(Object, gc=False):
    device_selector: TaintSelector | None = None
    taint: Taint = field(default_factory=Taint)


class DeviceTaintRule(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: RuleSpec = field(default_factory=RuleSpec)


class CapacityRequirements(Object, gc=False):
    requests: Amounts | None = None


class DeviceRequest(Object, gc=False):
    """The object in `exactly` and each of those in `firstAvailable`; a sub-request has a name."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[Selector] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: list[Raw] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[Raw] | None = None


class Request(Object, gc=False):
    name: str = ""
    exactly: DeviceRequest | None = None
    first_available: list[DeviceRequest] | None = None


class Constraint(Object, gc=False):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimDevices(Object, gc=False):
    requests: list[Request] | None = None
    constraints: list[Constraint] | None = None
    config: list[Raw] | None = None


class ClaimSpec(Object, gc=False):
    devices: ClaimDevices = field(default_factory=ClaimDevices)


class Result(Object, gc=False):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: Amounts | None = None
    skip_node_operations: list[str] | None = None


class AllocationDevices(Object, gc=False):
    results: list[Result] | None = None


class Allocation(Object, gc=False):
    devices: AllocationDevices = field(default_factory=AllocationDevices)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(Object, gc=False):
    name: str = ""
    uid: str = ""


class Condition(Object, gc=False):
    """A condition that a driver has set on an allocated device."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class DeviceStatus(Object, gc=False):
    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: list[Condition] | None = None


class ClaimStatus(Object, gc=False):
    allocation: Allocation | None = None
    reserved_for: list[Raw] | None = None
    devices: list[DeviceStatus] | None = None


class ClaimMeta(ObjectMeta, gc=False):
    finalizers: list[str] | None = None


class ResourceClaim(Object, gc=False):
    metadata: ClaimMeta = field(default_factory=ClaimMeta)
    spec: Raw = Raw()
    status: Raw = Raw()
