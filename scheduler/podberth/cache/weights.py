"""The weight of each numbered thing in a sum: a dict for a few things, an array for many."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from podberth.cache.column import Codes
from podberth.cache.label_index import Found
from podberth.cache.row_counts import Placed, RowCounts

_MANY = 1024
"""From so many things on, an array takes less room than a table."""


class Weights:
    """Thing → weight; things with weight 0 do not count."""

    __slots__ = ("_array", "_few")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._array: NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        """Bytes, about."""
        return 100 * len(self._few) if self._array is None else self._array.nbytes

    def get(self, number: int) -> int:
        """The weight of a thing."""
        if self._array is None:
            return self._few.get(number, 0)
        return int(self._array[number]) if number < len(self._array) else 0

    def since(self, counts: RowCounts, version: int) -> list[tuple[int, int, int]]:
        """(row, how many more, weight) of what changed after a version, of things that count."""
        few = self._few
        if self._array is not None:
            changes = counts.since(version)
            return [(row, more, weight) for number, row, more in changes if (weight := self.get(number))]
        if len(few) < counts.version - version:
            return [(row, more, few[thing]) for number in few for thing, row, more in counts.since_of(number, version)]
        return [(row, more, few[number]) for number, row, more in counts.since(version) if number in few]

    def set(self, number: int, weight: int) -> None:
        """Give a thing another weight."""
        if self._array is not None:
            if number >= len(self._array):
                self._array = np.concatenate((self._array, np.zeros(number + 64, dtype=np.int64)))
            self._array[number] = weight
        elif weight:
            self._few[number] = weight
            if len(self._few) > _MANY:
                self._spread(max(self._few) + 1)
        else:
            self._few.pop(number, None)

    def add(self, found: Found, weight: int) -> None:
        """Add to the weight of some things."""
        if isinstance(found, list):
            for number in found:
                self.set(number, self.get(number) + weight)
        else:
            array = self._spread(len(found))
            array[: len(found)] += found * np.int64(weight)

    def add_each(self, numbers: Codes, weights: NDArray[np.signedinteger[Any]]) -> None:
        """Add to the weight of each of these things, some of which are there more than once."""
        if len(numbers) <= _MANY:
            for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True):
                self.set(number, self.get(number) + weight)
            return
        array = self._spread(int(numbers.max()) + 1)
        # Sums of integers below 2^53, so the doubles that bincount adds up are exact.
        array += np.bincount(numbers, weights=weights, minlength=len(array)).astype(np.int64)

    def keep(self, found: Found) -> None:
        """Leave only some things their weight."""
        if isinstance(found, list):
            kept = {number: weight for number in found if (weight := self.get(number))}
            self._few, self._array = kept, None
        elif self._array is None:
            self._few = {number: weight for number, weight in self._few.items() if found[number]}
        else:
            there = min(len(found), len(self._array))  # things that came since are set when they are met
            self._array[:there] *= found[:there]

    def settle(self) -> None:
        """All are added: take the smaller form."""
        if self._array is not None:
            which = np.flatnonzero(self._array)
            if len(which) <= _MANY:
                self._few = dict(zip(which.tolist(), self._array[which].tolist(), strict=True))
                self._array = None

    def weighed(self, counts: RowCounts) -> tuple[Placed, NDArray[np.int64]]:
        """Return where things that count are, and their weights; some may count for nothing."""
        if self._array is None:
            each = np.array([*self._few.values()], dtype=np.int64)
            return counts.of(self._few), each.repeat([counts.spread_of(number) for number in self._few])
        placed = counts.everywhere()
        of_each = np.zeros(max(len(self._array), int(placed.numbers.max(initial=-1)) + 1), dtype=np.int64)
        of_each[: len(self._array)] = self._array
        return placed, of_each[placed.numbers]

    def _spread(self, count: int) -> NDArray[np.int64]:
        """Go over to an array of at least so many things; returns it."""
        array = self._array
        if array is None:
            array = np.zeros(max(count, max(self._few, default=-1) + 1), dtype=np.int64)
            for number, weight in self._few.items():
                array[number] = weight
            self._few = {}
        elif len(array) < count:
            array = np.concatenate((array, np.zeros(count - len(array), dtype=np.int64)))
        self._array = array
        return array
