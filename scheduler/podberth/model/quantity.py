"""Exact Kubernetes quantities: Python integers of nano-units, never floats; and how they are written back.

Mirrors the grammar of apimachinery `pkg/api/resource/quantity.go`: a signed decimal
number followed by a binary suffix (Ki … Ei), a decimal suffix (n u m "" k M G T P E)
or a decimal exponent (e3, E-2). Anything finer than nano is rounded up, and no digits at all are zero, as there.
"""

import re
from functools import lru_cache

from msgspec import Struct

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
    return max(-BOUND, min(_rounded(nano, NANO), BOUND))


def milli_units(nano: int) -> int:
    """Thousandths, rounded away from zero (Quantity.MilliValue), bounded so that sums stay inside int64."""
    return max(-BOUND, min(_rounded(nano, MILLI), BOUND))


def _rounded(nano: int, unit: int) -> int:
    """Return an amount in units of so many nano-units, rounded away from zero."""
    return nano // unit if nano < 0 else -(-nano // unit)


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
    """Return what `show` does, in the largest unit of which the amount is a whole number: nothing is rounded."""
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, shift in _BINARY:
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{suffix}"
        return str(amount)
    return show(resource, amount)


DECIMAL, BINARY, EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"
_KIBI = 1024
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_MOST = (1 << 63) - 1
_MOST_DIGITS = 18
_ODD = re.compile(r"[+.eE]|^-?0")
_PARTS = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_POWERS = {suffix: 3 * i - 9 for i, suffix in enumerate(_DECIMAL)}


class Quantity(Struct, gc=False, frozen=True):
    """An amount in nano-units, with the notation in which it is shown."""

    nano: int
    notation: str
    text: str = ""
    """The text as written, where apimachinery shows it so though the canonical form is another: `2e0`, `1.500`."""

    @property
    def whole(self) -> int:
        """Units, rounded away from zero (Quantity.Value)."""
        return _rounded(self.nano, NANO)

    @property
    def milli(self) -> int | None:
        """Thousandths; None when they are not exact, or too many for 64 bits (safeMilliValue)."""
        milli, rest = divmod(self.nano, MILLI)
        return None if rest or abs(milli) > _MOST else milli

    def __str__(self) -> str:
        """Return the canonical form (CanonicalizeBytes), or the text that is remembered."""
        if self.text:
            return self.text
        if not self.nano:
            return "0"
        notation = self.notation
        small = abs(self.nano) < _KIBI * NANO
        if notation == BINARY and (small or self.nano % NANO):
            notation = DECIMAL
        if notation == BINARY:
            amount, power = self.nano // NANO, 0
            while amount % _KIBI == 0 and power < len(_BINARY_SUFFIXES) - 1:
                amount //= _KIBI
                power += 1
            return f"{amount}{_BINARY_SUFFIXES[power]}"
        amount, power = self.nano, 0
        while amount % 1000 == 0 and (notation == EXPONENT or power < len(_DECIMAL) - 1):
            amount //= 1000
            power += 1
        if notation == DECIMAL:
            return f"{amount}{_DECIMAL[power]}"
        exponent = 3 * power - 9
        return f"{amount}e{exponent}" if exponent else str(amount)


def parse_quantity(text: str | int | float) -> Quantity:
    """Read a quantity. Raises QuantityError."""
    nano = parse_nano(text)
    written = text if isinstance(text, str) else repr(text)
    is_binary = written.endswith("i")
    if is_binary:
        notation = DECIMAL if 0 < nano < NANO else BINARY
    else:
        notation = EXPONENT if any(letter in written[:-1] for letter in "eE") else DECIMAL
    found = Quantity(nano, notation)
    if _ODD.search(written) is None or str(found) == written:
        return found
    text = _remembered_binary(written) if is_binary else _remembered(written)
    return Quantity(nano, notation, text) if text else found


def _remembered(text: str) -> str:
    """Return the text of a decimal, where ParseQuantity takes it to be canonical; empty: it does not."""
    found = _PARTS.fullmatch(text)
    assert found is not None
    number, decimals, suffix = found[1] or "0", found[2] or "", found[3]
    digits = number + decimals
    power = _POWERS[suffix] if suffix in _POWERS else int(suffix[1:])
    scale = power - len(decimals)
    if len(digits) > _MOST_DIGITS or scale < _POWERS["n"] or scale % 3:
        return ""
    return "" if digits.startswith("0") or digits.endswith("000") else text


def _remembered_binary(text: str) -> str:
    """The same for units of 1,024."""
    found = _PARTS.fullmatch(text)
    if found is None or found[2] or found[3] not in _BINARY_SUFFIXES:
        return ""
    number, power = found[1] or "0", _BINARY_SUFFIXES.index(found[3])
    fits = len(number) + 3 * power < _MOST_DIGITS - 3 and int(number) * _KIBI**power <= _MOST
    return text if fits and int(number) % 8 else ""


def of_whole(amount: int, notation: str) -> Quantity:
    """Return a quantity of this many units (NewQuantity)."""
    return Quantity(amount * NANO, notation)


def of_milli(amount: int, notation: str) -> Quantity:
    """Return a quantity of this many thousandths (NewMilliQuantity)."""
    return Quantity(amount * MILLI, notation)
