"""Functions of quantities and semantic versions."""

from collections.abc import Callable

from podberth.cel.errors import METER, EvaluationError, works
from podberth.cel.quantity import Quantity, QuantityError
from podberth.cel.values import Value
from podberth.cel.version import Version, VersionError


def _quantity(text: str) -> Quantity:
    try:
        found = Quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None
    METER.spend(_size(found))
    return found


def _size(value: Quantity) -> int:
    """Return the steps of reading a quantity, or of making a number of it: one may have 20,000 digits (`1e9999`)."""
    return value.nano.bit_length() >> 6


def _float(value: Quantity) -> float:
    METER.spend(_size(value))
    return value.approximate()


def _plus(left: Quantity, right: Quantity) -> Quantity:
    METER.spend(2 * (_size(left) + _size(right)))
    return left.plus(right)


def _minus(left: Quantity, right: Quantity) -> Quantity:
    METER.spend(2 * (_size(left) + _size(right)))
    return left.minus(right)


def _integer(value: Quantity) -> int:
    number = value.integer()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


def _version(text: str, normalize: bool = False) -> Version:
    try:
        return Version.parse(_normalized(text) if normalize else text)
    except VersionError as error:
        raise EvaluationError(str(error)) from None


def _normalized(text: str) -> str:
    """Return the version without a leading v and leading zeros, and with the missing parts."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part.encode()) > 1:
            stripped = part.lstrip("0")
            if not stripped or stripped[0] not in "0123456789":
                stripped = "0" + stripped
            parts[index] = stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise VersionError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


OVERLOADS: dict[str, Callable[..., Value]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": works(_quantity),
    "quantity_sign": lambda value: (value.nano > 0) - (value.nano < 0),
    "quantity_is_greater_than": lambda left, right: left.nano > right.nano,
    "quantity_is_less_than": lambda left, right: left.nano < right.nano,
    "quantity_compare_to": _compare,
    "quantity_get_float": _float,
    "quantity_get_int": _integer,
    "quantity_is_integer": lambda value: value.integer() is not None,
    "quantity_add": _plus,
    "quantity_add_int": lambda left, right: _plus(left, Quantity.of(right)),
    "quantity_sub": _minus,
    "quantity_sub_int": lambda left, right: _minus(left, Quantity.of(right)),
    "string_to_semver": _version,
    "string_bool_to_semver": _version,
    "is_semver_string": works(_version),
    "is_semver_string_bool": works(_version),
    "semver_is_greater_than": lambda left, right: left.compare(right) == 1,
    "semver_is_less_than": lambda left, right: left.compare(right) == -1,
    "semver_compare_to": lambda left, right: left.compare(right),
    "semver_major": lambda value: _signed(value.major),
    "semver_minor": lambda value: _signed(value.minor),
    "semver_patch": lambda value: _signed(value.patch),
}


def _signed(number: int) -> int:
    """Return the number as int64, in which a huge one turns negative."""
    return number - (1 << 64) if number >= 1 << 63 else number
