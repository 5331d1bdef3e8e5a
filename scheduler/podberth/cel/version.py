"""Semantic versions as blang/semver reads and orders them."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from podberth.cel.errors import quoted

_NUMERIC = re.compile(r"[0-9]+")
_ALLOWED = re.compile(r"[0-9A-Za-z-]+")
_MOST = (1 << 64) - 1


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
        return _parsed(text) if len(text) <= 64 else _parse(text)

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
def _parsed(text: str) -> Version:
    return _parse(text)


def _parse(text: str) -> Version:
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major")
    minor = _number(parts[1], "minor")
    rest, plus, after = parts[2].partition("+")
    builds = after.split(".") if plus else []
    patch, dash, before = rest.partition("-")
    pres = before.split(".") if dash else []
    number = _number(patch, "patch")
    pre = tuple(map(_prerelease, pres))
    for build in builds:
        if not build:
            raise VersionError("Build meta data is empty")
        if _ALLOWED.fullmatch(build) is None:
            raise VersionError(f"Invalid character(s) found in build meta data {quoted(build)}")
    return Version(major, minor, number, pre, tuple(builds))


def _number(text: str, what: str) -> int:
    if _NUMERIC.fullmatch(text) is None:
        if not text:
            raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
        raise VersionError(f"Invalid character(s) found in {what} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        word = what.capitalize()
        raise VersionError(f'{word} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > _MOST:
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
    if len(text) > 20 or int(text) > _MOST:
        raise VersionError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)
