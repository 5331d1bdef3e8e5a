"""Reads a CPU profile of a Go process, as /debug/pprof/profile gives it: which functions the samples were in.

The format is pprof's profile.proto: sample 2 (location ids 1, values 2), location 4 (id 1, lines 4), line (function 1),
function 5 (id 1, name 2), strings 6.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class MalformedError(ValueError):
    """Bytes that are no protobuf message."""


@dataclass(frozen=True)
class Profile:
    """Every stack that was seen (outermost function last) with its CPU in nanoseconds."""

    stacks: list[tuple[tuple[str, ...], int]]

    @property
    def total(self) -> int:
        """All of its CPU."""
        return sum(spent for _, spent in self.stacks)

    def within(self, *words: str) -> int:
        """CPU of the stacks in which each of the words occurs in a function's name."""
        return sum(spent for names, spent in self.stacks if all(any(word in name for name in names) for word in words))


def read(body: bytes) -> Profile:
    """Raises MalformedError for what is no profile."""
    strings: list[str] = []
    functions: dict[int, int] = {}
    locations: dict[int, list[int]] = {}
    samples: list[tuple[list[int], int]] = []
    for number, value in fields(gzip.decompress(body)):
        if not isinstance(value, bytes):
            continue
        if number == 6:
            strings.append(value.decode())
        elif number == 5:
            function = dict(fields(value))
            functions[_int(function[1])] = _int(function.get(2, 0))
        elif number == 4:
            lines = [dict(fields(line)) for at, line in fields(value) if at == 4 and isinstance(line, bytes)]
            locations[_int(dict(fields(value))[1])] = [_int(line[1]) for line in lines]
        elif number == 2:
            ids = [each for at, part in fields(value) if at == 1 for each in _numbers(part)]
            values = [each for at, part in fields(value) if at == 2 for each in _numbers(part)]
            samples.append((ids, values[-1]))
    return Profile(
        [
            (tuple(strings[functions[function]] for place in ids for function in locations[place]), spent)
            for ids, spent in samples
        ]
    )


def _int(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _numbers(part: int | bytes) -> Iterator[int]:
    """A repeated number: one a field, or all packed into one."""
    if isinstance(part, int):
        yield part
        return
    found = shift = 0
    for byte in part:
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield found
            found = shift = 0


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order: (number, a number or bytes).

    Raises MalformedError.
    """
    at, end = 0, len(body)
    while at < end:
        key, at = _number(body, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _number(body, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            length, at = _number(body, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise MalformedError(f"wire type {kind} at byte {at}")
        if at + length > end:
            raise MalformedError(f"cut off at byte {end}")
        yield key >> 3, body[at : at + length]
        at += length


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    found = 0
    for i in range(10):
        if at + i >= len(body):
            break
        byte = body[at + i]
        found |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return found, at + i + 1
    raise MalformedError(f"no number at byte {at}")
