"""Exact Kubernetes quantities: Python integers of nano-units, never floats.

Mirrors the grammar of apimachinery `pkg/api/resource/quantity.go`: a signed decimal
number followed by a binary suffix (Ki … Ei), a decimal suffix (n u m "" k M G T P E)
or a decimal exponent (e3, E-2). Anything finer than nano is rounded up, and no digits at all are zero, as there.
"""

import re
from functools import lru_cache

from podberth.model.mistakes import as_json

NANO = 10**9
MILLI = 10**6

# A bound that leaves room for a node full of such pods, times 100 for a score, inside int64.
# Real machines are far below (32 PiB of memory, 36 million million cores).
BOUND = 1 << 55

_NUMBER = re.compile(r"([+-]?)(\d*\.?\d*)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?")
_SCALE = {
    None: NANO,
    "n": 1,
    "u": 10**3,
    "m": 10**6,
    "k": 10**12,
    "M": 10**15,
    "G": 10**18,
    "T": 10**21,
    "P": 10**24,
    "E": 10**27,
} | {name: NANO << (10 * power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_MAX_EXPONENT = 64
_DIGITS = 2 * _MAX_EXPONENT
_REMEMBERED_LENGTH = 32
"""Longer texts are not worth remembering: they may be a megabyte each."""


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity."""


def parse_nano(text: str | int | float) -> int:
    """Return the quantity as an integer number of nano-units, rounded away from zero.

    Raises QuantityError when the text is not a quantity.
    """
    if isinstance(text, str) and len(text) > _REMEMBERED_LENGTH:
        return _parse(text)
    return remembered(text)


@lru_cache(maxsize=8192)
def remembered(text: str | int | float) -> int:
    """Nano-units of a short quantity, which is parsed once. Raises QuantityError."""
    return _parse(text)


def _parse(text: str | int | float) -> int:
    source = text if isinstance(text, str) else repr(text)
    match = _NUMBER.fullmatch(source)
    if match is None or not source or not source.isascii():
        raise QuantityError(
            f"{as_json(source)} is not a quantity: want a number with an optional suffix such as 500m, 2Gi"
        )
    sign, digits, suffix = match.groups()
    whole, _, fraction = digits.partition(".")
    # Nobody has 10¹²⁸ of anything, and of digits so small it only counts for rounding whether there is one.
    whole = whole.lstrip("0")[:_DIGITS]
    fraction = fraction[:_DIGITS] + ("1" if fraction[_DIGITS:].strip("0") else "")
    mantissa = int(whole + fraction or "0")
    divisor = 10 ** len(fraction)
    if suffix is not None and suffix not in _SCALE:
        exponent = int(suffix[1:])
        if abs(exponent) > _MAX_EXPONENT:
            raise QuantityError(f"{as_json(source)} is not a quantity: exponent beyond ±{_MAX_EXPONENT}")
        scale = NANO * 10 ** max(exponent, 0)
        divisor *= 10 ** max(-exponent, 0)
    else:
        scale = _SCALE[suffix]
    nano: int = -(-mantissa * scale // divisor)
    return -nano if sign == "-" else nano


def units(nano: int) -> int:
    """Whole units, rounded away from zero (Quantity.Value), bounded so that sums stay inside int64."""
    return _rounded(nano, NANO)


def milli_units(nano: int) -> int:
    """Thousandths, rounded away from zero (Quantity.MilliValue), bounded so that sums stay inside int64."""
    return _rounded(nano, MILLI)


def _rounded(nano: int, unit: int) -> int:
    """Rounded away from zero, within the bound."""
    amount = min(BOUND, -(-abs(nano) // unit))
    return -amount if nano < 0 else amount


def is_absurd(nano: int) -> bool:
    """Return whether the bound of this module cut the quantity (or it is negative)."""
    return nano < 0 or nano // NANO > BOUND


_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def show(resource: str, amount: int) -> str:
    """Write an amount for people: `cpu` is milli-cores, everything else plain units."""
    if resource == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, shift in _BINARY:
            if abs(amount) >= 1 << shift:
                return f"{amount / (1 << shift):.4g}{suffix}"
    return str(amount)


def exact(resource: str, amount: int) -> str:
    """As `show`, in the largest unit of which the amount is a whole number: nothing is rounded."""
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, shift in _BINARY:
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{suffix}"
        return str(amount)
    return show(resource, amount)
