"""Devices, what offers them, and what claims them: the fields that a decision reads, and those that it writes back.

`READERS` make them from an object's JSON. Upstream: `k8s.io/api/resource/v1`.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from podberth.model import devices_wire, wire
from podberth.model.metadata import ClusterScoped, Namespaced
from podberth.model.pod import Interner
from podberth.model.quantity import DECIMAL, Quantity, QuantityError, parse_quantity
from podberth.model.selectors import NodeSelector, parse_node_selector
from podberth.model.taints import Taint, Toleration

CLAIM = "ResourceClaim"
EVERY_CLAIM = (CLAIM, "", "")
"""An object key that stands for all claims, for whoever waits until they are known."""
FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler has made for a pod's extended resources."""
MOST_DEVICES = 32
"""Devices of one claim (AllocationResultsMaxSize)."""
MOST_ALTERNATIVES = 8
"""Sub-requests of one request (FirstAvailableDeviceRequestMaxSize)."""
EXACT_COUNT, ALL = "ExactCount", "All"
_NOTHING = Quantity(0, DECIMAL)
_TOO_MUCH = Quantity(1 << 200, DECIMAL)
"""An amount that no device has. It stands for one that can't be read, so that its request is not served."""

ClaimKey = tuple[str, str]
"""(namespace, name)."""
PoolID = tuple[str, str]
"""(driver, pool)."""
Attribute = tuple[str, Any]
"""(kind of value: string, int, bool, version, or empty for one that is not known; the value).

With an empty kind, the value is True for a list, which matches nothing but is no error, and else False.
"""
Amounts = Mapping[str, Quantity]


class DeviceID(NamedTuple):
    """One device of the cluster."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolID:
        """(driver, pool)."""
        return self.driver, self.pool

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


class NodeAccess(NamedTuple):
    """The nodes that reach a slice, or one device of it: nodeName, allNodes and nodeSelector, of which one is given."""

    node_name: str = ""
    all_nodes: bool = False
    selector: NodeSelector | None = None
    raw_selector: Any = None
    """The selector as it was written."""

    @property
    def is_given(self) -> bool:
        """Return whether one of them is given."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None


class DeviceTraits(Struct, eq=False):
    """The part of a device that selectors can read. Devices with equal traits share one object and its kept results."""

    driver: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Capacity]
    shared: bool | None
    """It may be allocated more than once (allowMultipleAllocations); None: not said."""
    edition: int = -1
    """The edition of `selecting.py` in which it got its `number`; -1: it has none."""
    number: int = 0
    """Its place in the kept results of every expression."""

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
    access: NodeAccess
    taints: tuple[Taint, ...]
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]


class ResourceSlice(ClusterScoped, gc=False, frozen=True, eq=False):
    """Some devices of a pool, or its counters."""

    driver: str
    pool: str
    generation: int
    count: int
    """The number of slices in this generation of the pool (resourceSliceCount)."""
    access: NodeAccess
    per_device_nodes: bool
    """Each device says itself which nodes reach it (perDeviceNodeSelection)."""
    devices: tuple[Device, ...]
    counters: tuple[tuple[str, Mapping[str, int]], ...]
    """(counter set, counter → nano-units)."""
    uses_groups: bool
    """It uses compatibility groups, an alpha feature that kube-scheduler refuses by default."""

    @property
    def pool_id(self) -> PoolID:
        """(driver, pool)."""
        return self.driver, self.pool


class DeviceClass(ClusterScoped, gc=False, frozen=True, eq=False):
    """A kind of device that requests name."""

    created: str
    selectors: tuple[str | None, ...]
    """CEL expressions; None: a selector of a kind that is not known."""
    config: tuple[bytes, ...]
    extended_resource: str | None


class DeviceTaintRule(ClusterScoped, gc=False, frozen=True, eq=False):
    """An administrator's taint for devices of some driver, pool or name (None: any)."""

    driver: str | None
    pool: str | None
    device: str | None
    taint: Taint


class DeviceRequest(Struct, gc=False, frozen=True, eq=False):
    """One request for devices of a class, or one alternative of it."""

    name: str
    device_class: str
    selectors: tuple[str | None, ...]
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[Toleration, ...]
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


class ResourceClaim(Namespaced, gc=False, frozen=True, eq=False):
    """A claim for devices."""

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
    conditions: Mapping[DeviceID, tuple[devices_wire.Condition, ...]]
    raw_status: bytes
    """The status as it was written."""


DeviceKind = ResourceClaim | ResourceSlice | DeviceClass | DeviceTaintRule
_listed = msgspec.json.Decoder(list[devices_wire.Device])
_spec = msgspec.json.Decoder(devices_wire.ClaimSpec)
_status = msgspec.json.Decoder(devices_wire.ClaimStatus)
_consumer = msgspec.json.Decoder(devices_wire.Consumer)
_toleration = msgspec.json.Decoder(Toleration)


def _quantity(text: wire.Amount, otherwise: Quantity = _NOTHING) -> Quantity:
    """An amount, as the API server has let it pass. `otherwise`: what counts where it can't be read."""
    try:
        return parse_quantity(text)
    except QuantityError:
        return otherwise


def _slice(wired: devices_wire.ResourceSlice, interner: Interner) -> ResourceSlice:
    meta, spec = wired.metadata, wired.spec
    devices, uses_groups = _devices(wire.present(spec.devices), spec.driver, interner)
    return ResourceSlice(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        count=spec.pool.resource_slice_count,
        access=_node_access(spec),
        per_device_nodes=bool(spec.per_device_node_selection),
        devices=devices,
        counters=tuple([(one.name, _counters(one.counters)) for one in spec.shared_counters or ()]),
        uses_groups=uses_groups,
    )


def _devices(raw: bytes, driver: str, interner: Interner) -> tuple[tuple[Device, ...], bool]:
    """The devices, and whether one uses compatibility groups: one object for all slices with the same bytes."""
    if not raw:
        return (), False
    key = driver, hashlib.blake2b(raw, digest_size=16).digest()  # they may be long, and all different
    found: tuple[tuple[Device, ...], bool] | None = interner.device_lists.get(key)
    if found is None:
        said = _listed.decode(raw)
        uses_groups = any(use.compatibility_groups for device in said for use in device.consumes_counters or ())
        found = tuple([_device(device, driver, interner) for device in said]), uses_groups
        interner.device_lists.put(key, found, len(raw))
    return found


def _node_access(said: devices_wire.SliceSpec | devices_wire.Device) -> NodeAccess:
    if not (said.node_name or said.all_nodes or said.node_selector):
        return _NOT_GIVEN
    selector = said.node_selector
    return NodeAccess(
        node_name=said.node_name or "",
        all_nodes=bool(said.all_nodes),
        selector=None if selector is None else parse_node_selector(selector, "spec.nodeSelector"),
        raw_selector=None if selector is None else msgspec.to_builtins(selector),
    )


_NOT_GIVEN = NodeAccess()
"""One object for the devices of all slices that say it themselves."""


def _counters(counters: Mapping[str, devices_wire.Counter] | None) -> dict[str, int]:
    return {name: _quantity(counter.value).nano for name, counter in (counters or {}).items()}


def _device(device: devices_wire.Device, driver: str, interner: Interner) -> Device:
    return Device(
        name=device.name,
        traits=_traits(device, driver, interner),
        consumes=tuple(
            [(use.counter_set, tuple(_counters(use.counters).items())) for use in device.consumes_counters or ()]
        ),
        access=_node_access(device),
        taints=tuple(device.taints or ()),
        binds_to_node=bool(device.binds_to_node),
        binding_conditions=tuple(device.binding_conditions or ()),
        binding_failure_conditions=tuple(device.binding_failure_conditions or ()),
    )


def _traits(device: devices_wire.Device, driver: str, interner: Interner) -> DeviceTraits:
    """Return what selectors see of the device: one object for all devices of which they see the same."""
    said = (driver, device.allow_multiple_allocations, device.attributes or {}, device.capacity or {})
    key = msgspec.json.encode(said)
    found: DeviceTraits | None = interner.traits.get(key)
    if found is None:
        found = DeviceTraits(
            driver,
            {name: _attribute(value) for name, value in (device.attributes or {}).items()},
            {name: _capacity(value) for name, value in (device.capacity or {}).items()},
            shared=device.allow_multiple_allocations,
        )
        interner.traits.put(key, found, len(key))
    return found


def _attribute(said: devices_wire.Attribute) -> Attribute:
    """Type and value, tried in the order of upstream's allocator. For lists, which are off by default: ("", any)."""
    if said.string_value is not None:
        return "string", said.string_value
    if said.int_value is not None:
        return "int", said.int_value
    if said.bool_value is not None:
        return "bool", said.bool_value
    if said.version_value is not None:
        return "version", said.version_value
    return "", any(map(wire.present, (said.ints, said.bools, said.strings, said.versions)))


def _capacity(said: devices_wire.Capacity) -> Capacity:
    policy = said.request_policy
    if policy is None:
        return Capacity(_quantity(said.value), str(said.value))
    span = policy.valid_range

    def optional(text: wire.Amount | None) -> Quantity | None:
        return None if text is None else _quantity(text)

    return Capacity(
        _quantity(said.value),
        str(said.value),
        True,
        optional(policy.default),
        None if policy.valid_values is None else tuple(map(_quantity, policy.valid_values)),
        None if span is None else CapacityRange(optional(span.min), optional(span.max), optional(span.step)),
    )


def _device_class(wired: devices_wire.DeviceClass, interner: Interner) -> DeviceClass:
    meta, spec = wired.metadata, wired.spec
    return DeviceClass(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        created=meta.creation_timestamp or "",
        selectors=_selectors(spec.selectors),
        config=_raws(spec.config),
        extended_resource=spec.extended_resource_name,
    )


def _selectors(selectors: Iterable[devices_wire.Selector] | None) -> tuple[str | None, ...]:
    return tuple([selector.cel.expression if selector.cel is not None else None for selector in selectors or ()])


def _raws(raws: Iterable[Raw] | None) -> tuple[bytes, ...]:
    return tuple([bytes(raw) for raw in raws or ()])


def _taint_rule(wired: devices_wire.DeviceTaintRule, interner: Interner) -> DeviceTaintRule:
    meta, spec = wired.metadata, wired.spec
    about = spec.device_selector or devices_wire.TaintSelector()
    return DeviceTaintRule(
        meta.name, meta.uid, meta.resource_version, about.driver, about.pool, about.device, spec.taint
    )


def _resource_claim(wired: devices_wire.ResourceClaim, interner: Interner) -> ResourceClaim:
    meta = wired.metadata
    owners = meta.owner_references or ()
    controller = next((owner for owner in owners if owner.controller), None)
    annotations = bytes(meta.annotations)
    extended = False
    if EXTENDED_RESOURCE_CLAIM.encode() in annotations:
        extended = interner.labels(meta.annotations).get(EXTENDED_RESOURCE_CLAIM) == "true"
    raw_status = wire.present(wired.status)
    status = _status.decode(raw_status) if raw_status else devices_wire.ClaimStatus()
    reserved = _raws(status.reserved_for)
    return ResourceClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        terminating=meta.deletion_timestamp is not None,
        controller=controller.uid if controller is not None else "",
        owner=(controller.name, controller.uid) if controller is not None and extended else None,
        finalizers=tuple(meta.finalizers or ()),
        spec=parse_claim_spec(wire.present(wired.spec), interner),
        allocation=None if status.allocation is None else _allocation(status.allocation),
        reserved_for=tuple([_consumer.decode(one).uid for one in reserved]),
        raw_reserved_for=reserved,
        conditions={
            DeviceID(one.driver, one.pool, one.device): tuple(one.conditions or ())
            for one in reversed(status.devices or ())  # of two that name the same device, the first counts
        },
        raw_status=raw_status,
    )


def parse_claim_spec(raw: bytes, interner: Interner) -> ClaimSpec:
    """Return what a claim asks for: one object for all claims that ask for the same in the same bytes."""
    found: ClaimSpec | None = interner.claim_specs.get(raw)
    if found is None:
        said = _spec.decode(raw).devices if raw else devices_wire.ClaimDevices()
        found = ClaimSpec(
            requests=tuple(map(_request, said.requests or ())),
            constraints=tuple(
                [
                    Constraint(frozenset(one.requests or ()), one.match_attribute, one.distinct_attribute)
                    for one in said.constraints or ()
                ]
            ),
            config=_raws(said.config),
        )
        interner.claim_specs.put(raw, found, len(raw))
    return found


def _request(said: devices_wire.Request) -> Request:
    exactly = None if said.exactly is None else _device_request(said.exactly, said.name)
    alternatives = tuple([_device_request(one, one.name) for one in said.first_available or ()])
    return Request(said.name, exactly, alternatives)


def _device_request(said: devices_wire.DeviceRequest, name: str) -> DeviceRequest:
    """A request as the API server would keep it: a claim that comes from elsewhere has no defaults yet."""
    mode = said.allocation_mode or EXACT_COUNT
    raw_tolerations = _raws(said.tolerations)
    asked = said.capacity.requests if said.capacity is not None else None
    return DeviceRequest(
        name=name,
        device_class=said.device_class_name,
        selectors=_selectors(said.selectors),
        mode=mode,
        count=0 if mode == ALL else said.count or 1,
        admin_access=bool(said.admin_access),
        tolerations=tuple(map(_toleration.decode, raw_tolerations)),
        raw_tolerations=raw_tolerations,
        capacity=None if asked is None else {key: _quantity(value, _TOO_MUCH) for key, value in asked.items()},
        derives_attributes=bool(said.derived_attributes),
    )


def _allocation(said: devices_wire.Allocation) -> Allocation:
    selector = said.node_selector
    return Allocation(
        devices=tuple(map(_allocated, said.devices.results or ())),
        selector=None if selector is None else parse_node_selector(selector, "status.allocation.nodeSelector"),
        timestamp=said.allocation_timestamp,
    )


def _allocated(said: devices_wire.Result) -> AllocatedDevice:
    consumed: Amounts | None = None
    if said.consumed_capacity is not None:
        consumed = {name: _quantity(amount) for name, amount in said.consumed_capacity.items()}
    return AllocatedDevice(
        request=said.request,
        id=DeviceID(said.driver, said.pool, said.device),
        admin_access=bool(said.admin_access),
        share=said.share_id,
        consumed=consumed,
        binding_conditions=tuple(said.binding_conditions or ()),
        binding_failure_conditions=tuple(said.binding_failure_conditions or ()),
        skips_node=bool(said.skip_node_operations),
    )


READERS: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any, Interner], DeviceKind]]] = {
    CLAIM: (msgspec.json.Decoder(devices_wire.ResourceClaim), _resource_claim),
    "ResourceSlice": (msgspec.json.Decoder(devices_wire.ResourceSlice), _slice),
    "DeviceClass": (msgspec.json.Decoder(devices_wire.DeviceClass), _device_class),
    "DeviceTaintRule": (msgspec.json.Decoder(devices_wire.DeviceTaintRule), _taint_rule),
}
"""Kind → the decoder of its wire form, and what makes the model of it."""
DEVICE_KINDS = tuple(READERS)
