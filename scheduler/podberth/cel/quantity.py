"""Kubernetes quantities in expressions: exact numbers of nano-units, parsed with apimachinery's messages."""

import re
from dataclasses import dataclass
from functools import lru_cache
from math import inf

_NANO = 10**9
_TEXT = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?(.*)", re.DOTALL | re.ASCII)
_SUFFIX = re.compile(r"[eEinumkKMGTP]*[+-]?[0-9]*", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MOST = ((1 << 63) - 1) * _NANO
_SMALLEST = -(1 << 63)
_NO_SUFFIX = "unable to parse quantity's suffix"
_LONGEST_EXPONENT = 1_000
_LONGEST = 10 * 1024
"""Characters; upstream has no limit."""
_MOST_ZEROS = 9_999
"""The largest power of ten that may be written. Upstream has no limit, and may add for minutes."""
_AT_ONCE = 4_000
"""The largest number of digits that Python reads at once."""


class QuantityError(ValueError):
    """A text that is no quantity; the message is apimachinery's."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in nano-units."""

    nano: int
    exponent: int = 0
    """The power of ten by which apimachinery multiplies its number; it is at least -9."""
    is_decimal: bool = False
    """True if that number is of any length, not an int64. Then the quantity can't be read as an integer."""
    computed: bool = False
    """True for a sum or difference: to the right of `==`, cel-go takes it for another type."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Return the quantity that a text means. Raises QuantityError."""
        return _parsed(text) if len(text) <= 32 else _parse(text)

    @staticmethod
    def of(number: int) -> "Quantity":
        """Return the quantity of this many whole units."""
        return Quantity(number * _NANO)

    def integer(self) -> int | None:
        """Return the whole units, where apimachinery has them at hand."""
        if self.is_decimal or self.exponent < 0:
            return None
        number = self.nano // _NANO
        return number if _fits(number) else None

    def approximate(self) -> float:
        """Return the nearest float64 that apimachinery comes to."""
        number = self.unscaled(self.exponent)
        try:
            base = float(number)
        except OverflowError:
            base = inf if number > 0 else -inf
        return base * float(f"1e{self.exponent}") if self.exponent else base

    def plus(self, other: "Quantity") -> "Quantity":
        """Return the sum, held as apimachinery would hold it."""
        return self._sum(other, self.nano + other.nano)

    def minus(self, other: "Quantity") -> "Quantity":
        """Return the difference, held as apimachinery would hold it."""
        less = self.nano - other.nano
        if other.is_decimal or other.unscaled(other.exponent) != _SMALLEST:
            return self._sum(Quantity(-other.nano, other.exponent, other.is_decimal), less)
        found = self.plus(other)  # as in int64, where this number has no opposite
        return Quantity(less, found.exponent, True, True) if found.is_decimal else found

    def _sum(self, other: "Quantity", nano: int) -> "Quantity":
        is_decimal = self.is_decimal or other.is_decimal
        if not is_decimal and (other.nano == 0 or self.nano == 0):
            return Quantity(nano, self.exponent if other.nano == 0 else other.exponent, computed=True)
        exponent = min(self.exponent, other.exponent)
        parts = (self.nano, other.nano, nano)
        is_decimal = is_decimal or not all(_fits(_unscaled(part, exponent)) for part in parts)
        return Quantity(nano, exponent, is_decimal, True)

    def unscaled(self, exponent: int) -> int:
        """Return the number that times a power of ten is the quantity."""
        return _unscaled(self.nano, exponent)


def _unscaled(nano: int, exponent: int) -> int:
    return nano // int(10 ** (9 + exponent))


def _fits(number: int) -> bool:
    return _SMALLEST <= number < 1 << 63


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    return _parse(text)


def _parse(text: str) -> Quantity:
    found = _TEXT.fullmatch(text)
    if found is None or not text or len(text) > _LONGEST:
        raise QuantityError(_WRONG if len(text) <= _LONGEST else "unable to parse numeric part of quantity")
    sign, number, point, suffix = found.groups()
    if _SUFFIX.fullmatch(suffix) is None:
        raise QuantityError(_WRONG)
    digits = number.lstrip("0")
    fraction = (point or ".")[1:]
    if not digits and point is None and not suffix:
        return Quantity(0)
    power, shift = _scale(suffix)
    unscaled = _number(digits + fraction) << shift
    if shift:
        precision = 15 - len(digits or "0") - shift * 3 // 10 - 1 if not fraction else -1
    else:
        precision = 18 - len(digits or "0") - len(fraction)
    power -= len(fraction)
    nano = unscaled * 10 ** (9 + power) if power >= -9 else -(-unscaled // 10 ** -(9 + power))
    held = Quantity(nano, power) if precision >= 0 and power >= -9 and _fits(unscaled) else Quantity(nano, -9, True)
    if shift and held.is_decimal and nano > _MOST:
        held = Quantity(_MOST, 0, True)
    return Quantity(-held.nano, held.exponent, held.is_decimal) if sign == "-" else held


def _number(digits: str) -> int:
    found = 0
    for begin in range(0, len(digits), _AT_ONCE):
        part = digits[begin : begin + _AT_ONCE]
        found = found * 10 ** len(part) + int(part)
    return found


def _scale(suffix: str) -> tuple[int, int]:
    """Return the power of ten and the power of two of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    found = _EXPONENT.fullmatch(suffix)
    if found is None or len(found.group(1)) > _LONGEST_EXPONENT:
        raise QuantityError(_NO_SUFFIX)
    exponent = int(found.group(1))
    if not -(1 << 63) <= exponent < 1 << 63:
        raise QuantityError(_NO_SUFFIX)
    exponent = (exponent + (1 << 31)) % (1 << 32) - (1 << 31)  # as int32
    if abs(exponent) > _MOST_ZEROS:
        raise QuantityError(_NO_SUFFIX)
    return exponent, 0
