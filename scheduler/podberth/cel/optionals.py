"""Functions of optional values."""

from collections.abc import Callable

from podberth.cel.errors import EvaluationError
from podberth.cel.gotext import shown
from podberth.cel.values import LISTS, MAPS, NONE, Duration, Optional, Timestamp, Uint, Value

_EPOCH = -62135596800 * 10**9
"""What Go takes for the zero of a time: the first moment of year 1."""


def _is_zero(value: Value) -> bool:
    kind = type(value)
    if value is None:
        return True
    if kind in LISTS or kind in MAPS:
        return len(value) == 0
    if kind is Duration:
        return bool(value.nanos == 0)
    if kind is Timestamp:
        return bool(value.nanos == _EPOCH)
    if kind in (bool, int, Uint, float, str, bytes):
        return not value
    return False


def _non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _value(optional: Optional) -> Value:
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrapped(values: list[Value]) -> list[Value]:
    for value in values:
        if type(value) is not Optional:
            raise EvaluationError(f"value {shown(value)} is not optional")
    return [value.value for value in values if value is not NONE]


OVERLOADS: dict[str, Callable[..., Value]] = {
    "optional_of": Optional,
    "optional_ofNonZeroValue": _non_zero,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda optional: optional is not NONE,
    "optional_unwrap": _unwrapped,
    "optional_unwrapOpt": _unwrapped,
    "list_first": lambda values: Optional(values[0]) if values else NONE,
    "list_last": lambda values: Optional(values[-1]) if values else NONE,
}
