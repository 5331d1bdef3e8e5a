"""Claims made ready for the allocator: requests with their classes, alternatives and capacities.

Upstream: `structured/internal/incubating`, allocator_incubating.go (validateDeviceRequest) and consumable_capacity.go.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from podberth.model.devices import (
    ALL,
    EXACT_COUNT,
    Amounts,
    Capacity,
    CapacityRange,
    ClaimSpec,
    DeviceClass,
    DeviceRequest,
)
from podberth.model.devices import Request as ModelRequest
from podberth.model.quantity import NANO, Quantity, of_milli, of_whole

_MOST = (1 << 63) - 1


class AllocationError(Exception):
    """Something is wrong with a claim, a class or what drivers publish: it fails the pod, whatever other nodes have."""


class CapacityError(ValueError):
    """A request for capacity that can't be served by any device, and fails its pod."""


def taken(asked: Amounts | None, capacity: Mapping[str, Capacity], *, thousandths: bool) -> dict[str, Quantity] | None:
    """Capacity → what the request would take of it; None if the device does not offer that.

    `thousandths`: ranges are counted in these where they can be; without it, in whole numbers, rounded up.

    Raises CapacityError.
    """
    asked = asked or {}
    if any(name not in capacity for name in asked):
        return None
    found = {}
    for name, one in capacity.items():
        try:
            amount = found[name] = _rounded(asked.get(name), one, thousandths)
            if amount.nano < 0:
                raise CapacityError("capacity value is negative")
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
    if any(_violates(amount, capacity[name], thousandths) for name, amount in found.items()):
        return None
    return found


def _rounded(asked: Quantity | None, capacity: Capacity, thousandths: bool) -> Quantity:
    """Return what is taken when so much is asked for (calculateConsumedCapacity)."""
    if asked is None:
        return capacity.value if capacity.default is None else capacity.default
    span = capacity.valid_range
    if span is not None and span.min is not None:
        return _up_to_step(asked, span, span.min, thousandths)
    for valid in capacity.valid_values or ():
        if asked.nano <= valid.nano:
            return valid
    return asked


def _up_to_step(asked: Quantity, span: CapacityRange, least: Quantity, thousandths: bool) -> Quantity:
    if asked.nano < least.nano:
        return least
    step = span.step
    if step is None:
        return asked
    unrepresentable = "capacity request cannot be represented in the device's range arithmetic: "
    if thousandths and _in_milli(span):
        if asked.milli is None:
            raise CapacityError(f"{unrepresentable}request {asked} is not a representable milli value")
        amount = _next(asked.milli, _thousandths(least), _thousandths(step))
        if amount > _MOST:
            text = f"rounding request {asked} up to the next step passes the milli-value range"
            raise CapacityError(unrepresentable + text)
        return of_milli(amount, step.notation)
    if asked.nano > _MOST * NANO:
        raise CapacityError(f"{unrepresentable}request {asked} exceeds MaxInt64")
    amount = _next(asked.whole, least.whole, max(step.whole, 1))
    if amount > _MOST:
        raise CapacityError(f"{unrepresentable}rounding request {asked} up to the next step passes MaxInt64")
    return of_whole(amount, step.notation)


def _next(asked: int, least: int, step: int) -> int:
    """The first of least, least + step, … that is enough."""
    return least - (least - asked) // step * step


def _in_milli(span: CapacityRange) -> bool:
    """Return whether the range can be counted in thousandths (useMilli)."""
    said = [one for one in (span.min, span.max, span.step) if one is not None]
    return all(one.milli is not None for one in said) and (span.step is None or span.step.nano > 0)


def _thousandths(amount: Quantity) -> int:
    """Return those of an amount of which they are exact."""
    assert amount.milli is not None
    return amount.milli


def _violates(amount: Quantity, capacity: Capacity, thousandths: bool) -> bool:
    """Return whether the device's policy does not allow to take so much (violatesPolicy)."""
    if not capacity.has_policy or amount == capacity.default:
        return False
    span = capacity.valid_range
    if span is None:
        return bool(capacity.valid_values) and all(amount.nano != valid.nano for valid in capacity.valid_values or ())
    if span.max is not None and amount.nano > span.max.nano:
        return True
    if span.step is None:
        return False
    least = span.min or Quantity(0, span.step.notation)
    if thousandths and _in_milli(span):
        return amount.milli is None or (amount.milli - _thousandths(least)) % _thousandths(span.step) != 0
    return (amount.whole - least.whole) % max(span.step.whole, 1) != 0


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


def requested_claim(
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
