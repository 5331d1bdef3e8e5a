"""Conversions between types, `size`, `type` and `dyn`; values as texts, as Go's fmt and strconv write them."""

import re
from collections.abc import Callable
from math import isinf, isnan
from typing import Final

from podberth.cel.errors import METER, EvaluationError
from podberth.cel.library import times
from podberth.cel.library.operators import no_overload
from podberth.cel.values import (
    INT_MAX,
    INT_MIN,
    LISTS,
    MAPS,
    NONE,
    UINT_MAX,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)

_LONG: Final = 6
"""The decimal exponent from which on, and below -4, numbers are written with an exponent."""


def number(value: float) -> str:
    """Return `%g` and `%v` of a float64: the shortest digits that read back as it."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, point = _digits(value)
    exponent = point - 1
    if exponent < -4 or exponent >= _LONG:
        return f"{sign}{_scientific(digits, exponent)}"
    return sign + _plain(digits, point)


def fixed(value: float) -> str:
    """Return the shortest digits without an exponent, as strconv.FormatFloat(x, 'f', -1, 64) writes them."""
    if isnan(value) or isinf(value):
        return number(value)
    sign, digits, point = _digits(value)
    return sign + _plain(digits, point)


def _digits(value: float) -> tuple[str, str, int]:
    """Return the sign, the significant digits, and the number of them before the point."""
    text = repr(value)
    sign = ""
    if text[0] == "-":
        sign, text = "-", text[1:]
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return sign, stripped or "0", point if stripped else 1


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def _scientific(digits: str, exponent: int) -> str:
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def shown(value: Value) -> str:
    """Return `%v` of a value, as messages show keys and elements."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return number(value)
    if value is None:
        return "NULL_VALUE"
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    if kind in LISTS:
        METER.spend(len(value))
        return "[" + ", ".join(map(shown, value)) + "]"
    if kind in MAPS:
        return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.pairs()) + "}"
    if kind is Optional:
        return "optional.none()" if value is NONE else f"optional({shown(value.value)})"
    if kind is TypeValue:
        return str(value.name)
    if kind is Duration:
        return go_duration(value.nanos)
    if kind is Timestamp:
        return times.rfc3339(value)
    return str(value)


def go_duration(nanos: int) -> str:
    """Return a time.Duration's text: 1h2m3.5s."""
    if nanos == 0:
        return "0s"
    sign, left = ("-" if nanos < 0 else ""), abs(nanos)
    for unit, size in (("ns", 1), ("µs", 1000), ("ms", 1000000)):
        if left < size * 1000 and left < 10**9:
            return f"{sign}{_fraction(left, size)}{unit}"
    minutes, left = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    text = _fraction(left, 10**9) + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return sign + (f"{hours}h{text}" if hours else text)


def _fraction(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    if not rest:
        return str(whole)
    digits = str(rest).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"


_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE | re.ASCII)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _failed(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def _bounded(number: int, low: int, high: int, text: str) -> int:
    if low <= number <= high:
        return number
    raise EvaluationError(text)


def _string_to_int(text: str) -> int:
    if _DECIMAL.fullmatch(text) and len(text.lstrip("+-0")) < 20 and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    raise _failed("string", "int")


def _string_to_uint(text: str) -> Uint:
    if text.isascii() and text.isdigit() and len(text.lstrip("0")) < 21 and int(text) <= UINT_MAX:
        return Uint(int(text))
    raise _failed("string", "uint")


def _string_to_double(text: str) -> float:
    if _FLOAT.fullmatch(text) or _SPECIAL.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")) and not _SPECIAL.fullmatch(text):
            raise _failed("string", "double")
        return number
    if _HEX_FLOAT.fullmatch(text) and len(text) < 64:
        try:
            return float.fromhex(text)
        except OverflowError:
            raise _failed("string", "double") from None
    raise _failed("string", "double")


def _string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _failed("string", "bool")


def _string_to_duration(text: str) -> Duration:
    found = times.parse_duration(text)
    if found is None:
        raise _failed("string", "google.protobuf.Duration")
    return found


def _string_to_timestamp(text: str) -> Timestamp:
    found = times.parse_timestamp(text)
    if found is None:
        raise _failed("string", "google.protobuf.Timestamp")
    return found


def _double_to_int(number: float) -> int:
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> Uint:
    if not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(number))


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _same(value: Value) -> Value:
    return value


def string_of(value: Value) -> str:
    """Return the text of a value that has one."""
    kind = type(value)
    convert = _TO_STRING.get(kind)
    if convert is None:
        raise _failed(type_name(value), "string")
    return convert(value)


def duration_text(value: Duration) -> str:
    """Return the text of a duration: its seconds and an s."""
    whole, rest = divmod(abs(value.nanos), times.SECOND)
    seconds = float(whole) + rest / 1e9
    return ("-" if value.nanos < 0 else "") + fixed(seconds) + "s"


_TO_STRING: dict[type, Callable[[Value], str]] = {
    str: _same,
    bool: lambda value: "true" if value else "false",
    bytes: _bytes_to_string,
    float: number,
    Duration: duration_text,
    int: str,
    Uint: lambda value: str(int(value)),
    Timestamp: times.rfc3339,
    type(None): lambda value: "null",
    TypeValue: lambda value: str(value.name),
}


def _size(value: Value) -> int:
    kind = type(value)
    if kind is str or kind is bytes or kind in LISTS or kind in MAPS:
        return len(value)
    if kind in (Duration, Timestamp):
        raise no_overload()
    raise EvaluationError("no such overload: size")


OVERLOADS: dict[str, Callable[..., Value]] = {
    "bool_to_bool": _same,
    "string_to_bool": _string_to_bool,
    "bytes_to_bytes": _same,
    "string_to_bytes": lambda text: text.encode(),
    "double_to_double": _same,
    "int64_to_double": float,
    "string_to_double": _string_to_double,
    "uint64_to_double": float,
    "duration_to_duration": _same,
    "string_to_duration": _string_to_duration,
    "int64_to_int64": _same,
    "double_to_int64": _double_to_int,
    "duration_to_int64": lambda span: span.nanos,
    "string_to_int64": _string_to_int,
    "timestamp_to_int64": lambda when: when.nanos // times.SECOND,
    "uint64_to_int64": lambda number: _bounded(int(number), INT_MIN, INT_MAX, "integer overflow"),
    "string_to_string": _same,
    "bool_to_string": string_of,
    "bytes_to_string": _bytes_to_string,
    "double_to_string": string_of,
    "duration_to_string": string_of,
    "int64_to_string": string_of,
    "timestamp_to_string": string_of,
    "uint64_to_string": string_of,
    "timestamp_to_timestamp": _same,
    "int64_to_timestamp": times.from_unix,
    "string_to_timestamp": _string_to_timestamp,
    "uint64_to_uint64": _same,
    "double_to_uint64": _double_to_uint,
    "int64_to_uint64": lambda number: Uint(_bounded(number, 0, UINT_MAX, "unsigned integer overflow")),
    "string_to_uint64": _string_to_uint,
}
SINGLE: dict[str, Callable[..., Value]] = {
    "dyn": _same,
    "type": lambda value: TypeValue(type_name(value)),
    "size": _size,
}
