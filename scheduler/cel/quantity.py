"""Kubernetes quantities in expressions: exact numbers of nano-units, parsed with apimachinery's messages."""

import re
from dataclasses import dataclass
from functools import lru_cache

_NANO = 10**9
_TEXT = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?(.*)", re.DOTALL)
_SUFFIX = re.compile(r"[eEinumkKMGTP]*[+-]?[0-9]*")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MOST = ((1 << 63) - 1) * _NANO
_LONGEST = 512


class QuantityError(ValueError):
    """A text that is no quantity; the message is apimachinery's."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount in nano-units. `whole`: apimachinery holds it as an integer, so that it can be asked for as one."""

    nano: int
    whole: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    @staticmethod
    def parse(text: str) -> "Quantity":
        """The quantity that a text means. Raises QuantityError."""
        return _parsed(text) if len(text) <= 32 else _parse(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    return _parse(text)


def _parse(text: str) -> Quantity:
    found = _TEXT.fullmatch(text)
    if found is None or not text:
        raise QuantityError(_WRONG)
    sign, number, point, suffix = found.groups()
    if len(text) > _LONGEST:
        raise QuantityError("unable to parse numeric part of quantity")
    if _SUFFIX.fullmatch(suffix) is None:
        raise QuantityError(_WRONG)
    digits = number.lstrip("0")
    fraction = (point or ".")[1:]
    if not digits and point is None and not suffix:
        return Quantity(0)
    power, shift, small = _scale(suffix)
    unscaled = int(digits + fraction or "0") << shift
    power -= len(fraction)
    nano = unscaled * 10 ** (9 + power) if power >= -9 else -(-unscaled // 10 ** -(9 + power))
    if shift:
        nano = min(nano, _MOST)
    fits = unscaled == 0 or (small and power >= 0 and nano // _NANO < 1 << 63)
    return Quantity(-nano if sign == "-" else nano, fits)


def _scale(suffix: str) -> tuple[int, int, bool]:
    """Power of ten, power of two, and whether the number is held as an integer."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0, True
    if suffix in _BINARY:
        return 0, _BINARY[suffix], True
    found = _EXPONENT.fullmatch(suffix)
    if found is None or len(found.group(1)) > 4:
        raise QuantityError("unable to parse quantity's suffix")
    return int(found.group(1)), 0, True
