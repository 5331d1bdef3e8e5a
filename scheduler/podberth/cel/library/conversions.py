"""Conversions between types, `size`, `type` and `dyn`; values as texts, as Go's fmt and strconv write them."""

import re
from collections.abc import Callable
from math import isinf, isnan
from typing import Final

from podberth.cel.errors import METER, EvaluationError
from podberth.cel.values import (
    INT_MAX,
    INT_MIN,
    LISTS,
    MAPS,
    NONE,
    UINT_MAX,
    Optional,
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
    return str(value)


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


_TO_STRING: dict[type, Callable[[Value], str]] = {
    str: _same,
    bool: lambda value: "true" if value else "false",
    bytes: _bytes_to_string,
    float: number,
    int: str,
    Uint: lambda value: str(int(value)),
    type(None): lambda value: "null",
    TypeValue: lambda value: str(value.name),
}


def _size(value: Value) -> int:
    kind = type(value)
    if kind is str or kind is bytes or kind in LISTS or kind in MAPS:
        return len(value)
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
    "int64_to_int64": _same,
    "double_to_int64": _double_to_int,
    "string_to_int64": _string_to_int,
    "uint64_to_int64": lambda number: _bounded(int(number), INT_MIN, INT_MAX, "integer overflow"),
    "string_to_string": _same,
    "bool_to_string": string_of,
    "bytes_to_string": _bytes_to_string,
    "double_to_string": string_of,
    "int64_to_string": string_of,
    "uint64_to_string": string_of,
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
