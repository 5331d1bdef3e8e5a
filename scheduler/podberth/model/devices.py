"""Devices, what offers them, and what claims them: the fields that a decision reads, and those that it writes back.

They are made from bytes in `podberth.model.devices_parse`. Upstream: `k8s.io/api/resource/v1`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

from podberth.model.quantity import Quantity
from podberth.model.selectors import NodeSelector

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler has made for a pod's extended resources."""
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a device class: an extended resource that the class serves without naming it."""
MOST_DEVICES = 32
"""Devices of one claim (AllocationResultsMaxSize)."""
MOST_ALTERNATIVES = 8
"""Sub-requests of one request (FirstAvailableDeviceRequestMaxSize)."""
EXACT_COUNT, ALL = "ExactCount", "All"

ClaimKey = tuple[str, str]
"""(namespace, name)."""
PoolID = tuple[str, str]
"""(driver, pool)."""
Attribute = tuple[str, Any]
"""(kind of value: string, int, bool, version, or empty for one that is not known; the value).

Of what is not known, the value says whether it is a list, which can't be compared, but is no error either.
"""
Amounts = Mapping[str, Quantity]


class DeviceID(NamedTuple):
    """One device of the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class CapacityRange(Struct, gc=False, frozen=True):
    """Amounts that may be asked for: from `min` on, by steps."""

    min: Quantity | None
    max: Quantity | None
    step: Quantity | None


class Capacity(Struct, gc=False, frozen=True):
    """An amount that a device has of something, and the amounts of it that a claim may ask for."""

    value: Quantity
    text: str = "0"
    """The value as it was written."""
    has_policy: bool = False
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] | None = None
    valid_range: CapacityRange | None = None


class DeviceTaint(NamedTuple):
    """Keeps claims off a device that do not tolerate it."""

    key: str
    value: str
    effect: str


class DeviceToleration(NamedTuple):
    """A request's permission to use devices that have a taint."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Return whether it is about this taint (resourceclaim.ToleratesTaint)."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


class Place(NamedTuple):
    """The nodes that reach a slice, or one device of it. `raw`: the selector as it was written."""

    node: str
    everywhere: bool
    selector: NodeSelector | None
    raw: Any

    @property
    def said(self) -> bool:
        """Return whether it says anything."""
        return bool(self.node) or self.everywhere or self.selector is not None


class DeviceTraits:
    """The part of a device that selectors can read. Devices with equal traits share one object and its kept results."""

    __slots__ = ("attributes", "capacity", "driver", "edition", "number", "shared")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Attribute],
        capacity: Mapping[str, Capacity],
        *,
        shared: bool | None,
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.shared = shared
        """It may be allocated more than once (allowMultipleAllocations); None: not said."""
        self.edition = -1
        """In which edition of numbers it has its own."""
        self.number = 0
        """Its place among the results of expressions."""

    def attribute(self, name: str) -> Attribute | None:
        """The value of a fully qualified name; the driver's own attributes need not be (lookupAttribute)."""
        found = self.attributes.get(name)
        if found is None:
            domain, slash, own = name.partition("/")
            if slash and domain == self.driver:
                return self.attributes.get(own)
        return found


class Device(Struct, gc=False, frozen=True, eq=False):
    """One device as its driver publishes it."""

    name: str
    traits: DeviceTraits
    consumes: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """(counter set, (counter, nano-units) pairs)."""
    place: Place
    taints: tuple[DeviceTaint, ...]
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]


class ResourceSlice(Struct, gc=False, frozen=True, eq=False):
    """Some devices of a pool, or its counters."""

    name: str
    uid: str
    resource_version: str
    driver: str
    pool: str
    generation: int
    count: int
    """Its generation of the pool has so many slices."""
    place: Place
    by_device: bool
    """Each device says itself which nodes reach it (perDeviceNodeSelection)."""
    devices: tuple[Device, ...]
    counters: tuple[tuple[str, Mapping[str, int]], ...]
    """(counter set, counter → nano-units)."""
    uses_groups: bool
    """It uses compatibility groups, an alpha feature that kube-scheduler refuses by default."""

    namespace: ClassVar[str] = ""
    """Empty: slices are cluster-scoped."""

    @property
    def pool_id(self) -> PoolID:
        """(driver, pool)."""
        return self.driver, self.pool


class DeviceClass(Struct, gc=False, frozen=True, eq=False):
    """A kind of device that requests name."""

    name: str
    uid: str
    resource_version: str
    created: str
    selectors: tuple[str | None, ...]
    """CEL expressions; None: a selector of a kind that is not known."""
    config: tuple[bytes, ...]
    extended_resource: str | None

    namespace: ClassVar[str] = ""
    """Empty: classes are cluster-scoped."""


class DeviceTaintRule(Struct, gc=False, frozen=True, eq=False):
    """An administrator's taint for devices of some driver, pool or name (None: any)."""

    name: str
    uid: str
    resource_version: str
    driver: str | None
    pool: str | None
    device: str | None
    taint: DeviceTaint

    namespace: ClassVar[str] = ""
    """Empty: rules are cluster-scoped."""


class DeviceRequest(Struct, gc=False, frozen=True, eq=False):
    """One request for devices of a class, or one alternative of it."""

    name: str
    device_class: str
    selectors: tuple[str | None, ...]
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    raw_tolerations: tuple[bytes, ...]
    capacity: Amounts | None
    derives_attributes: bool


class Request(Struct, gc=False, frozen=True, eq=False):
    """A request of a claim: exactly one thing, or the first of several that is available."""

    name: str
    exactly: DeviceRequest | None
    first_available: tuple[DeviceRequest, ...]

    @property
    def alternatives(self) -> tuple[DeviceRequest, ...]:
        """Return what would serve it."""
        return self.first_available if self.exactly is None else (self.exactly,)


class Constraint(Struct, gc=False, frozen=True, eq=False):
    """An attribute that the devices of some requests (none: of all) have to share, or to differ in."""

    requests: frozenset[str]
    match: str | None
    distinct: str | None

    def __str__(self) -> str:
        what = f"distinctAttribute {self.distinct}" if self.match is None else f"matchAttribute {self.match}"
        return f"{what} for {', '.join(sorted(self.requests))}" if self.requests else what


class ClaimSpec(Struct, gc=False, frozen=True, eq=False):
    """The requests of a claim. Compared by identity: equal bytes give the same object."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    config: tuple[bytes, ...]


class AllocatedDevice(Struct, gc=False, frozen=True):
    """One device that a claim was given."""

    request: str
    id: DeviceID
    admin_access: bool = False
    share: str | None = None
    consumed: Amounts | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    skips_node: bool = False
    """The driver is not to be called on the node: an alpha feature, for which the node has to be ready."""


class Allocation(Struct, gc=False, frozen=True):
    """The devices that a claim was given, and the nodes that can use them (None: all)."""

    devices: tuple[AllocatedDevice, ...]
    selector: NodeSelector | None
    timestamp: str | None = None

    @property
    def binds_later(self) -> bool:
        """Return whether a device has conditions that have to come true before a pod is bound."""
        return any(device.binding_conditions for device in self.devices)


class DeviceCondition(NamedTuple):
    """A condition that a driver has set on an allocated device."""

    type: str
    status: str
    reason: str
    message: str


class ResourceClaim(Struct, gc=False, frozen=True, eq=False):
    """A claim for devices."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    terminating: bool
    controller: str
    """UID of its controller."""
    owner: tuple[str, str] | None
    """(name, UID) of the pod for whose extended resources the scheduler made it."""
    finalizers: tuple[str, ...]
    spec: ClaimSpec
    allocation: Allocation | None
    reserved_for: tuple[str, ...]
    """UIDs."""
    raw_reserved_for: tuple[bytes, ...]
    conditions: Mapping[DeviceID, tuple[DeviceCondition, ...]]
    raw_status: bytes
    """The status as it was written."""

    @property
    def key(self) -> ClaimKey:
        """(namespace, name)."""
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


DeviceKind = ResourceClaim | ResourceSlice | DeviceClass | DeviceTaintRule
CLAIM = "ResourceClaim"
EVERY_CLAIM = (CLAIM, "", "")
"""For whoever waits until all claims are known."""
DEVICE_KINDS = (CLAIM, "ResourceSlice", "DeviceClass", "DeviceTaintRule")
