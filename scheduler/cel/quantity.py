"""Kubernetes quantities in expressions: exact numbers of nano-units, parsed with apimachinery's messages."""

import re
from dataclasses import dataclass
from functools import lru_cache

_NANO = 10**9
_TEXT = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?(.*)", re.DOTALL | re.ASCII)
_SUFFIX = re.compile(r"[eEinumkKMGTP]*[+-]?[0-9]*", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MOST = ((1 << 63) - 1) * _NANO
_LONGEST = 512


class QuantityError(ValueError):
    """A text that is no quantity; the message is apimachinery's."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in nano-units.

    `exponent`: apimachinery holds it as an int64 times that power of ten; None where it holds a decimal of any length.
    Whether a quantity can be asked for as an integer depends on that.
    """

    nano: int
    exponent: int | None = 0
    computed: bool = False
    """A sum or difference: to the right of `==`, cel-go takes it for another type."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    @staticmethod
    def parse(text: str) -> "Quantity":
        """The quantity that a text means. Raises QuantityError."""
        return _parsed(text) if len(text) <= 32 else _parse(text)

    @staticmethod
    def of(number: int) -> "Quantity":
        """So many whole units."""
        return Quantity(number * _NANO)

    def integer(self) -> int | None:
        """The whole units, where apimachinery has them at hand."""
        if self.exponent is None or self.exponent < 0:
            return None
        number = self.nano // _NANO
        return number if _fits(number) else None

    def approximate(self) -> float:
        """The nearest float64 that apimachinery comes to."""
        if self.exponent is None:
            return float(self.nano) * 1e-9
        return float(self.unscaled(self.exponent)) * float(f"1e{self.exponent}")

    def plus(self, other: "Quantity") -> "Quantity":
        """The sum, held as apimachinery would hold it."""
        nano = self.nano + other.nano
        if self.exponent is None or other.exponent is None:
            return Quantity(nano, None, True)
        if other.nano == 0 or self.nano == 0:
            return Quantity(nano, self.exponent if other.nano == 0 else other.exponent, True)
        exponent = min(self.exponent, other.exponent)
        held = Quantity(nano, exponent, True)
        fits = all(_fits(part.unscaled(exponent)) for part in (self, other, held))
        return held if fits else Quantity(nano, None, True)

    def minus(self, other: "Quantity") -> "Quantity":
        """The difference."""
        if other.exponent is not None and other.unscaled(other.exponent) == -(1 << 63):
            return self.plus(other)  # as in int64, where this number has no opposite
        return self.plus(Quantity(-other.nano, other.exponent))

    def unscaled(self, exponent: int) -> int:
        """The number that times a power of ten is the quantity."""
        return self.nano // int(10 ** (9 + exponent))


def _fits(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63


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
    unscaled = int(digits + fraction or "0") << shift
    if shift:
        precision = 15 - len(digits or "0") - shift * 3 // 10 - 1 if not fraction else -1
    else:
        precision = 18 - len(digits or "0") - len(fraction)
    power -= len(fraction)
    nano = unscaled * 10 ** (9 + power) if power >= -9 else -(-unscaled // 10 ** -(9 + power))
    held = power if precision >= 0 and power >= -9 and _fits(unscaled) else None
    if shift and held is None:
        nano = min(nano, _MOST)
    return Quantity(-nano if sign == "-" else nano, held)


def _scale(suffix: str) -> tuple[int, int]:
    """Power of ten and power of two."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    found = _EXPONENT.fullmatch(suffix)
    if found is None or len(found.group(1)) > 4:
        raise QuantityError("unable to parse quantity's suffix")
    return int(found.group(1)), 0
