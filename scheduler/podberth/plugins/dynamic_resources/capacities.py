"""What a request takes of a device's capacities (upstream: `structured/internal/incubating/consumable_capacity.go`)."""

from collections.abc import Mapping

from podberth.model.devices import Amounts, Capacity, CapacityRange
from podberth.model.notation import Quantity, of_milli, of_whole
from podberth.model.quantity import NANO

_MOST = (1 << 63) - 1


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
        amount = _next(asked.milli, least.milli or 0, step.milli or 1)
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
        return amount.milli is None or (amount.milli - (least.milli or 0)) % (span.step.milli or 1) != 0
    return (amount.whole - least.whole) % max(span.step.whole, 1) != 0
