"""Work that is done a part at a time: generators that yield about how many steps each part took."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Parts = Generator[int, None, T]
_AT_ONCE = 250
_RUN = 2_000
"""So many items are sorted at once."""


def whole(parts: Parts[T]) -> T:
    """What comes of all parts, one right after the other."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            found: T = end.value
            return found


def some_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, some hundred at a time."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def in_order(items: Sequence[Any]) -> Parts[list[Any]]:
    """The items sorted. Sorting two sorted lists, one behind the other, takes one pass."""
    runs = []
    for start in range(0, len(items), _RUN):
        runs.append(sorted(items[start : start + _RUN]))
        yield len(runs[-1]) // 4
    while len(runs) > 1:
        longer = []
        for i in range(0, len(runs), 2):
            longer.append(sorted([item for run in runs[i : i + 2] for item in run]))
            yield len(longer[-1]) // 8
        runs = longer
    return runs[0] if runs else []
