"""What claims ask for, made ready for the allocator: requests with their classes and alternatives.

Upstream: `structured/internal/incubating/allocator_incubating.go` (validateDeviceRequest).
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from podberth.model.devices import ALL, EXACT_COUNT, Capacity, ClaimSpec, DeviceClass, DeviceRequest
from podberth.model.devices import Request as ModelRequest
from podberth.model.notation import Quantity
from podberth.plugins.dynamic_resources.capacities import taken


class AllocationError(Exception):
    """Something is wrong with a claim, a class or what drivers publish: it fails the pod, whatever other nodes have."""


class Alternative(Struct, frozen=True, eq=False):
    """One thing that would serve a request."""

    asked: DeviceRequest
    parent: str
    """The name of the request of which this is one of several; empty: it is the only one."""
    place: int
    """Its place among those."""
    of: DeviceClass
    selectors: tuple[tuple[str, str], ...]
    """(CEL expression, whose it is, for messages): of the class, then of the request."""
    thousandths: bool = False
    """Ranges of capacity are counted in these."""

    def takes(self, capacity: Mapping[str, Capacity]) -> dict[str, Quantity] | None:
        """Capacity → what it would take of a device's; None: the device does not offer that. Raises CapacityError."""
        return taken(self.asked.capacity, capacity, thousandths=self.thousandths)

    @property
    def name(self) -> str:
        """The name that results have for the request."""
        return f"{self.parent}/{self.asked.name}" if self.parent else self.asked.name

    @property
    def base(self) -> str:
        """The name of the request."""
        return self.parent or self.asked.name

    @property
    def sub(self) -> str:
        """Its own name, if it is one of several."""
        return self.asked.name if self.parent else ""

    @property
    def wants_all(self) -> bool:
        """Return whether it asks for all devices that there are."""
        return self.asked.mode == ALL


class RequestedClaim(Struct, frozen=True, eq=False):
    """A claim to allocate. `requests`: the alternatives of each."""

    name: str
    spec: ClaimSpec
    requests: tuple[tuple[Alternative, ...], ...]


def wanted(
    name: str, spec: ClaimSpec, classes: Mapping[str, DeviceClass], *, thousandths: bool = False
) -> RequestedClaim:
    """Make a claim ready. `name`: namespace/name; `thousandths`: ranges of capacity are counted in these.

    Raises AllocationError.
    """
    requests = tuple([tuple(_alternatives(name, request, classes, thousandths)) for request in spec.requests])
    for i, constraint in enumerate(spec.constraints):
        if constraint.match is None and constraint.distinct is None:
            raise AllocationError(f"claim {name}, constraint #{i}: empty constraint (unsupported constraint type?)")
    return RequestedClaim(name, spec, requests)


def _alternatives(
    claim: str, request: ModelRequest, classes: Mapping[str, DeviceClass], thousandths: bool
) -> Iterator[Alternative]:
    if request.first_available:
        for place, one in enumerate(request.first_available):
            yield _alternative(claim, one, request.name, place, classes, thousandths)
    elif request.exactly is not None:
        yield _alternative(claim, request.exactly, "", 0, classes, thousandths)


def _alternative(
    claim: str,
    asked: DeviceRequest,
    parent: str,
    place: int,
    classes: Mapping[str, DeviceClass],
    thousandths: bool,
) -> Alternative:
    where = f"claim {claim}, request {asked.name}"
    if asked.derives_attributes:
        raise AllocationError(f"{where}: cannot handle request with derived attributes, the feature is disabled")
    if None in asked.selectors:
        i = asked.selectors.index(None)
        raise AllocationError(f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)")
    if not asked.device_class:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    of = classes.get(asked.device_class)
    if of is None:
        name = asked.device_class
        missing = f'deviceclass.resource.k8s.io "{name}" not found'
        raise AllocationError(f"{where}: could not retrieve device class {name}: {missing}")
    if asked.mode not in (ALL, EXACT_COUNT):
        raise AllocationError(f"{where}: unsupported count mode {asked.mode}")
    selectors = (
        *_named(of.selectors, f"class {of.name}"),
        *_named(asked.selectors, f"claim {claim}"),
    )
    return Alternative(asked, parent, place, of, selectors, thousandths)


def _named(selectors: Sequence[str | None], whose: str) -> Iterator[tuple[str, str]]:
    for i, expression in enumerate(selectors):
        if expression is None:
            raise AllocationError(f"{whose}: selector #{i}: CEL expression empty (unsupported selector type?)")
        yield expression, f"{whose}: selector #{i}"
