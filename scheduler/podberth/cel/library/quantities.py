"""Quantities and semantic versions, with their functions.

A quantity is an exact number of nano-units, parsed with apimachinery's messages. A version is read and ordered as
blang/semver does.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

from podberth.cel.errors import EvaluationError, quoted, works

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
_LONGEST = 128
"""The most characters of a quantity. Upstream has no limit."""
_MOST_ZEROS = 128
"""The largest power of ten that may be written. Upstream has no limit, and may add for minutes."""


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

    def __str__(self) -> str:
        """Return the number. Upstream keeps the suffix that was written, and shortens by it."""
        whole, rest = divmod(abs(self.nano), _NANO)
        text = f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
        return f"-{text}" if self.nano < 0 else text

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
    unscaled = int(digits + fraction or "0") << shift
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


def _scale(suffix: str) -> tuple[int, int]:
    """Return the power of ten and the power of two of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    found = _EXPONENT.fullmatch(suffix)
    if found is None or abs(int(found.group(1))) > _MOST_ZEROS:
        raise QuantityError(_NO_SUFFIX)
    return int(found.group(1)), 0


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _integer(value: Quantity) -> int:
    number = value.integer()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


_NUMERIC = re.compile(r"[0-9]+")
_ALLOWED = re.compile(r"[0-9A-Za-z-]+")
_MOST_UINT = (1 << 64) - 1


class VersionError(ValueError):
    """A text that is no semantic version; the message is the library's."""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A semantic version. What is built (after +) counts for nothing in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def parse(text: str) -> "Version":
        """Return the version that a text means. Raises VersionError."""
        return _parsed_version(text) if len(text) <= 64 else _parse_version(text)

    def compare(self, other: "Version") -> int:
        """Return -1, 0 or 1."""
        one, two = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if one != two:
            return -1 if one < two else 1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre)
        for left, right in zip(self.pre, other.pre, strict=False):
            if left == right:
                continue
            if type(left) is type(right):
                return -1 if left < right else 1  # type: ignore[operator]
            return -1 if isinstance(left, int) else 1
        return (len(self.pre) > len(other.pre)) - (len(self.pre) < len(other.pre))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.pre))

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(map(str, self.pre))
        return text + ("+" + ".".join(self.build) if self.build else "")


@lru_cache(maxsize=4096)
def _parsed_version(text: str) -> Version:
    return _parse_version(text)


def _parse_version(text: str) -> Version:
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    major = _part(parts[0], "major")
    minor = _part(parts[1], "minor")
    rest, plus, after = parts[2].partition("+")
    builds = after.split(".") if plus else []
    patch, dash, before = rest.partition("-")
    pres = before.split(".") if dash else []
    number = _part(patch, "patch")
    pre = tuple(map(_prerelease, pres))
    for build in builds:
        if not build:
            raise VersionError("Build meta data is empty")
        if _ALLOWED.fullmatch(build) is None:
            raise VersionError(f"Invalid character(s) found in build meta data {quoted(build)}")
    return Version(major, minor, number, pre, tuple(builds))


def _part(text: str, what: str) -> int:
    if _NUMERIC.fullmatch(text) is None:
        if not text:
            raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
        raise VersionError(f"Invalid character(s) found in {what} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        word = what.capitalize()
        raise VersionError(f'{word} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > _MOST_UINT:
        raise VersionError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise VersionError("Prerelease is empty")
    if _NUMERIC.fullmatch(text) is None:
        if _ALLOWED.fullmatch(text) is None:
            raise VersionError(f"Invalid character(s) found in prerelease {quoted(text)}")
        return text
    if len(text) > 1 and text[0] == "0":
        raise VersionError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > _MOST_UINT:
        raise VersionError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


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


OVERLOADS: dict[str, Callable[..., Any]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": works(_quantity),
    "quantity_sign": lambda value: (value.nano > 0) - (value.nano < 0),
    "quantity_is_greater_than": lambda left, right: left.nano > right.nano,
    "quantity_is_less_than": lambda left, right: left.nano < right.nano,
    "quantity_compare_to": _compare,
    "quantity_get_float": Quantity.approximate,
    "quantity_get_int": _integer,
    "quantity_is_integer": lambda value: value.integer() is not None,
    "quantity_add": Quantity.plus,
    "quantity_add_int": lambda left, right: left.plus(Quantity.of(right)),
    "quantity_sub": Quantity.minus,
    "quantity_sub_int": lambda left, right: left.minus(Quantity.of(right)),
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
