"""Texts as Go's fmt and strconv write them: numbers and whole values in messages."""

from math import isinf, isnan
from typing import Final

from podberth.cel.errors import METER
from podberth.cel.library.times import rfc3339
from podberth.cel.values import LISTS, MAPS, NONE, Duration, Optional, Timestamp, TypeValue, Value

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
        return rfc3339(value)
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
