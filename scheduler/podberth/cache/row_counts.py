"""How many of each numbered thing are on each row, with a log of changes, so that sums can be kept up to date.

A sum over some of the things remembers the version that it has seen, and applies the later changes when it is needed.
So placing or removing a pod costs the same however many sums there are, and the attempt that needs a sum pays for it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podberth.cache.column import Bools, Codes

_CATCH_UP = 512
"""Up to this many changes are applied one by one; with more of them, adding up everything may cost less."""
REMEMBERED = 4096
"""At least this many changes are remembered, and up to twice as many. Beyond that, adding up everything costs less."""

LET_GO = 2_000
"""So many entries are let go of in one go."""

Change = tuple[int, int, int]
"""(thing, row, how many more, or fewer)."""


class Placed(NamedTuple):
    """Parallel arrays: so many of a thing on a row."""

    numbers: Codes
    rows: Codes
    counts: Codes

    def at(self, which: Bools) -> "Placed":
        """Some of them."""
        return Placed(self.numbers[which], self.rows[which], self.counts[which])


def let_go(*containers: dict[Any, Any] | list[Any]) -> Iterator[int]:
    """Empty large containers that nobody needs any more, in steps; yields how many entries have gone."""
    for one in containers:
        while one:
            some = min(LET_GO, len(one))
            if isinstance(one, list):
                del one[-some:]
            else:
                for _ in range(some):
                    one.popitem()
            yield some


class RowCounts:
    """Counts by (thing, row), as arrays to add up and as lists of each thing."""

    def __init__(self) -> None:
        self._numbers: Codes = np.zeros(64, dtype=np.int32)
        self._rows: Codes = np.zeros(64, dtype=np.int32)
        self._counts: Codes = np.zeros(64, dtype=np.int32)
        self._used = 0
        self._free: list[int] = []
        self._slots: dict[int, dict[int, int]] = {}
        """Thing → row → place in the arrays."""
        self.version = 0
        """Counts every change ever."""
        self._changes: list[Change] = []
        self._before: list[int] = []
        """For each remembered change, the version of the same thing's change before."""
        self._latest: dict[int, int] = {}
        """Thing → version of its latest remembered change."""
        self._base = 0
        self._last_on: dict[int, int] = {}
        """Row → version of its latest remembered change."""

    def __len__(self) -> int:
        """Return how many (thing, row) there are."""
        return self._used - len(self._free)

    def worth_following(self, version: int) -> bool:
        """Return whether a sum of this version is brought up to date by the changes since, rather than added up again.

        All of them have to be known, and few against what there is to add up.
        """
        behind = self.version - version
        return version >= self._base and (behind <= _CATCH_UP or 20 * behind < len(self))

    def since(self, version: int) -> list[Change]:
        """Return what changed after a version that is remembered."""
        return self._changes[version - self._base :]

    def since_of(self, number: int, version: int) -> list[Change]:
        """The changes of one thing after a version, the latest first: no other thing's changes are looked at."""
        found = []
        base = self._base
        at = self._latest.get(number, -1)
        while at >= version:
            found.append(self._changes[at - base])
            at = self._before[at - base]
        return found

    def changed_lately(self, row: int) -> bool:
        """Return whether a remembered change was on a row."""
        return self._last_on.get(row, -1) >= self._base

    def forget_changes(self) -> None:
        """Forget all changes: every sum that has not seen them is added up again."""
        self.version += 1
        self._base = self.version
        self._changes.clear()
        self._before.clear()
        self._latest.clear()
        self._last_on.clear()

    def add(self, number: int, row: int, amount: int) -> None:
        """So many more of a thing on a row; fewer where negative."""
        slots = self._slots.get(number)
        if slots is None:
            slots = self._slots[number] = {}
        slot = slots.get(row)
        if slot is None:
            slot = slots[row] = self._slot(number, row)
            left = amount
        else:
            left = self._counts.item(slot) + amount
        self._counts[slot] = left
        if not left:
            self._free.append(slot)
            del slots[row]
            if not slots:
                del self._slots[number]
        version = self._last_on[row] = self.version
        self.version = version + 1
        self._changes.append((number, row, amount))
        self._before.append(self._latest.get(number, -1))
        self._latest[number] = version
        if version - self._base >= 2 * REMEMBERED:
            del self._changes[:REMEMBERED], self._before[:REMEMBERED]
            self._base += REMEMBERED
            self._latest = {number: last for number, last in self._latest.items() if last >= self._base}
            self._last_on = {row: last for row, last in self._last_on.items() if last >= self._base}

    def containers(self) -> tuple[dict[Any, Any] | list[Any], ...]:
        """Return what grows with what is counted."""
        return self._slots, self._latest, self._last_on, self._changes, self._before

    def has(self, number: int) -> bool:
        """Return whether a thing is on any row."""
        return number in self._slots

    def rows_of(self, number: int) -> Iterator[tuple[int, int]]:
        """(row, count) of one thing."""
        for row, slot in self._slots.get(number, {}).items():
            yield row, int(self._counts[slot])

    def spread_of(self, number: int) -> int:
        """On how many rows a thing is."""
        return len(self._slots.get(number, ()))

    def of(self, numbers: Iterable[int]) -> Placed:
        """Return where some things are, one after the other."""
        slots: list[int] = []
        for number in numbers:
            slots += self._slots.get(number, {}).values()
        return self._at(np.array(slots, dtype=np.intp))

    def everywhere(self) -> Placed:
        """Return where all things are; some counts may be 0."""
        used = self._used
        return Placed(self._numbers[:used], self._rows[:used], self._counts[:used])

    def _at(self, slots: NDArray[np.intp]) -> Placed:
        return Placed(self._numbers[slots], self._rows[slots], self._counts[slots])

    def _slot(self, number: int, row: int) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._used
            if slot == len(self._counts):
                self._grow()
            self._used += 1
        self._numbers[slot], self._rows[slot] = number, row
        return slot

    def _grow(self) -> None:
        def grown(array: Codes) -> Codes:
            return np.concatenate((array, np.zeros_like(array)))

        self._numbers, self._rows, self._counts = map(grown, (self._numbers, self._rows, self._counts))
