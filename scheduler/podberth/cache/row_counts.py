"""Counts of numbered things by row, with a log of changes, and sums of them per topology value.

A sum over some of the things remembers the version that it has seen, and applies the later changes when it is needed.
So placing or removing a pod costs the same however many sums there are, and the attempt that needs a sum pays for it.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podberth.cache.column import Bools, Codes, Column, Ints
from podberth.cache.label_index import Found

_CATCH_UP = 512
"""The largest number of changes that are applied one by one; with more of them, adding up everything may cost less."""
REMEMBERED = 4096
"""The least number of changes that are remembered; there may be twice as many. With more of them, adding up everything
costs less.
"""

_GONE = 64
"""The number of counts that went from which on a journal may be written anew."""
LET_GO = 2_000
"""The number of entries that are freed in one go."""

Journal: TypeAlias = "array[int]"
_NOTHING: Codes = np.zeros((3, 0), dtype=np.int32)

Change = tuple[int, int, int]
"""(thing, row, how many more, or fewer)."""
Moved = tuple[int, int, int]
"""(row, how many more, or fewer, what each counts for)."""


class Placed(NamedTuple):
    """Parallel arrays of things, their rows and their counts there."""

    numbers: Codes
    rows: Codes
    counts: Codes

    def at(self, which: Bools) -> "Placed":
        """Return some of the entries."""
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
    """Counts by (thing, row), as a journal of rows for each thing and a log of the latest changes of all.

    A thing's journal has a row once for each count that came there, and the row's complement (`~row`) for each that
    went. So to count costs the same however much is counted, and sums add up the journals of their things. Changes are
    remembered from the first sum on: before it, nobody can catch up with them.
    """

    def __init__(self) -> None:
        self._journals: list[Journal] = []
        """The journal of each thing, by number."""
        self._gone: list[int] = []
        """How many entries of each journal are of counts that went."""
        self._count = 0
        self._summed = False
        """Whether somebody has asked for what is counted."""
        self.version = 0
        """Counts every change ever."""
        self._changes: list[Change] = []
        self._before: list[int] = []
        """The version of the same thing's change before, of each remembered change."""
        self._latest: dict[int, int] = {}
        """Thing → version of its latest remembered change."""
        self._base = 0
        self._last_on: dict[int, int] = {}
        """Row → version of its latest remembered change."""
        self._all: Codes = _NOTHING
        """The journals of all things: their numbers, rows and counts, with room for more."""
        self._used = 0
        """How much of `_all` is used."""
        self._all_version = -1

    def __len__(self) -> int:
        """Return the sum of all counts."""
        return self._count

    def worth_following(self, version: int) -> bool:
        """Return whether a sum of this version is brought up to date by the changes since, rather than added up again.

        All of them have to be known, and few against what there is to add up.
        """
        behind = self.version - version
        return version >= self._base and (behind <= _CATCH_UP or 20 * behind < self._count)

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version that is remembered."""
        return self._changes[version - self._base :]

    def since_of(self, number: int, version: int) -> list[Change]:
        """Return the changes of one thing after a version, the latest first, without a look at those of other
        things.
        """
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

    def add(self, number: int, row: int, amount: int) -> None:
        """Count this many more of a thing on a row; fewer where negative."""
        journals = self._journals
        while number >= len(journals):
            journals.append(array("i"))
            self._gone.append(0)
        if amount == 1:
            journals[number].append(row)
        elif amount > 0:
            journals[number].extend((row,) * amount)
        else:
            self._take(number, row, -amount)
        self._count += amount
        version = self.version
        self.version = version + 1
        if not self._summed:
            self._base = version + 1
            return
        self._last_on[row] = version
        self._changes.append((number, row, amount))
        self._before.append(self._latest.get(number, -1))
        self._latest[number] = version
        if version - self._base >= 2 * REMEMBERED:
            del self._changes[:REMEMBERED], self._before[:REMEMBERED]
            self._base += REMEMBERED
            self._latest = {number: last for number, last in self._latest.items() if last >= self._base}
            self._last_on = {row: last for row, last in self._last_on.items() if last >= self._base}

    def containers(self) -> tuple[dict[Any, Any] | list[Any], ...]:
        """Return the containers that grow with what is counted."""
        return self._journals, self._gone, self._latest, self._last_on, self._changes, self._before

    def rows_of(self, number: int) -> Iterator[tuple[int, int]]:
        """Return (row, count) of one thing."""
        _, rows, counts = self.of((number,))
        by_row = np.bincount(rows, weights=counts)
        for row in np.flatnonzero(by_row).tolist():
            yield row, int(by_row[row])

    def entries_of(self, number: int) -> int:
        """Return the number of entries that `of` has for a thing."""
        return len(self._journals[number]) if number < len(self._journals) else 0

    def of(self, numbers: Iterable[int]) -> Placed:
        """Return the rows and counts of these things, one thing after the other.

        A row may be there several times, and its counts may be negative: they are to be added up.
        """
        self._summed = True
        there = [number for number in numbers if number < len(self._journals)]
        journals = [self._journals[number] for number in there]
        entries = np.frombuffer(b"".join(journals), dtype=np.int32)
        went = entries >> 31  # -1 for a complement, 0 for a row
        return Placed(
            np.array(there, dtype=np.int32).repeat([len(journal) for journal in journals]),
            entries ^ went,
            2 * went + 1,
        )

    def everywhere(self) -> Placed:
        """Return the rows and counts of all things, to be added up as those of `of`. Do not change them."""
        self._summed = True
        if self._all_version != self.version:
            if self._all_version < self._base or self._used > 2 * (self._count + REMEMBERED):
                self._all = np.array(self.of(range(len(self._journals))))
                self._used = self._all.shape[1]
            elif self._all_version < self.version:
                self._append(self.since(self._all_version))
            self._all_version = self.version
        return Placed(*self._all[:, : self._used])

    def _append(self, changes: list[Change]) -> None:
        """Append changes to the journals of all things."""
        used = self._used
        self._used += len(changes)
        if self._used > self._all.shape[1]:
            self._all = np.concatenate((self._all, np.zeros((3, self._used), dtype=np.int32)), axis=1)
        self._all[:, used : self._used] = np.array(changes, dtype=np.int32).T

    def _take(self, number: int, row: int, amount: int) -> None:
        """Take counts back. Now and then the journal is written anew without what went."""
        journal = self._journals[number]
        journal.extend((~row,) * amount)
        gone = self._gone[number] = self._gone[number] + amount
        if 2 * gone == len(journal):
            left: Sequence[int] = ()
        elif gone > _GONE and 4 * gone > len(journal):
            left = [row for row, count in self.rows_of(number) for _ in range(count)]
        else:
            return
        self._journals[number] = array("i", left)
        self._gone[number] = 0


_MANY = 1024
"""The number of things from which on an array takes less room than a table."""


class Weights:
    """Thing → weight; things with weight 0 do not count."""

    __slots__ = ("_array", "_few")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._array: NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""
        return 100 * len(self._few) if self._array is None else self._array.nbytes

    def get(self, number: int) -> int:
        """Return the weight of a thing."""
        if self._array is None:
            return self._few.get(number, 0)
        return int(self._array[number]) if number < len(self._array) else 0

    def since(self, counts: RowCounts, version: int) -> list[Moved]:
        """Return the changes after a version, of things that count."""
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
        """Take the smaller form after all weights were added."""
        if self._array is not None:
            which = np.flatnonzero(self._array)
            if len(which) <= _MANY:
                self._few = dict(zip(which.tolist(), self._array[which].tolist(), strict=True))
                self._array = None

    def weighed(self, counts: RowCounts) -> tuple[Placed, NDArray[np.int64]]:
        """Return the rows and counts of the weighted things, and the weight of each entry, which may be 0."""
        if self._array is None:
            each = np.array([*self._few.values()], dtype=np.int64)
            return counts.of(self._few), each.repeat([counts.entries_of(number) for number in self._few])
        placed = counts.everywhere()
        of_each = np.zeros(max(len(self._array), int(placed.numbers.max(initial=-1)) + 1), dtype=np.int64)
        of_each[: len(self._array)] = self._array
        return placed, of_each[placed.numbers]

    def _spread(self, count: int) -> NDArray[np.int64]:
        """Change to an array of at least this many things, and return it."""
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


class ByTopology:
    """A number per value of one node label; without the label, nothing counts."""

    __slots__ = ("_above", "_dtype", "column", "counts", "total")

    def __init__(self, column: Column[str] | None, dtype: type[np.signedinteger[Any]] = np.int64) -> None:
        self.column = column
        """None: no node has the label."""
        self._dtype = dtype
        self.counts = self._room_for(0 if column is None else len(column.values))
        self._above: Bools | None = None
        """The values whose numbers are above 0, if somebody asked."""
        self.total = 0
        """The number of pods on nodes with the label."""

    def by_row(self, rows: int) -> Ints:
        """Return int64[rows]: the number of each row's value, 0 where the row has none."""
        return np.zeros(rows, dtype=np.int64) if self.column is None else self.column.gather(self.by_code(), rows)

    def anywhere(self, rows: int) -> Bools:
        """Return bool[rows]: whether the number of each row's value is above 0. Do not change it."""
        if self.column is None or not self.total:
            return np.zeros(rows, dtype=np.bool_)
        return self.column.gather(self._where(), rows)

    def everywhere(self, rows: int) -> bool:
        """Return whether `anywhere` is true of all rows, as far as that can be told by the values alone."""
        column = self.column
        return column is not None and column.filled == rows and np.count_nonzero(self._where()) == len(column.values)

    def _where(self) -> Bools:
        """Return bool[values of the column + 1]: whether the number of each value is above 0."""
        assert self.column is not None
        if self._above is None or len(self._above) != len(self.column.values) + 1:
            self._above = self.by_code() > 0
        return self._above

    def by_code(self) -> Ints:
        """Return int64[values of the column + 1]; the last is 0, as no value has that code. Do not change it."""
        values = 0 if self.column is None else len(self.column.values)
        if values > len(self.counts) - 1:
            grown = self._room_for(values)
            grown[: len(self.counts)] = self.counts
            self.counts = grown
        return self.counts[: values + 1]

    def count(self, row: int, amount: int, weight: int) -> None:
        """Count `amount` more pods on a row, each with this weight."""
        assert self.column is not None
        code = self.column.codes.item(row)
        if code >= 0:
            if code >= len(self.counts) - 1:
                self.by_code()
            number = self.counts[code] = self.counts.item(code) + amount * weight
            self.total += amount
            if self._above is not None and code < len(self._above):
                self._above[code] = number > 0

    def times(self, weight: int) -> "ByTopology":
        """Return these sums, each multiplied by a weight."""
        if weight == 1:
            return self
        made = ByTopology(self.column)
        made.counts, made.total = np.multiply(self.by_code(), weight, dtype=np.int64), self.total
        return made

    def start(self, column: Column[str] | None) -> None:
        """Start at 0, with a column."""
        self.column = column
        self.counts = self._room_for(0 if column is None else len(column.values))
        self._above = None
        self.total = 0

    def add_all(self, rows: Codes, numbers: Any, pods: int) -> None:
        """Count `pods` more on these rows with the label; `numbers` are what each counts for."""
        if self.column is None:
            return
        size = len(self.column.values)
        self.by_code()
        self._above = None
        self.counts[:size] += np.bincount(self.column.codes[rows], weights=numbers, minlength=size).astype(self._dtype)
        self.total += pods

    def _room_for(self, values: int) -> Ints:
        """Return zeros for this many values, some more, and one for rows that have none."""
        return np.zeros(values + values // 4 + 2, dtype=self._dtype)


def summed(sums: Sequence[ByTopology], rows: int) -> Ints | None:
    """Return int64[rows]: the sum of each row's numbers; None where there is nothing to sum."""
    by_column: dict[int, tuple[Column[str], Ints]] = {}
    for one in sums:
        if one.column is None or not one.total:
            continue
        before = by_column.get(id(one.column))
        counts = one.by_code().astype(np.int64, copy=False)
        if before is not None:
            counts = before[1] + counts
        by_column[id(one.column)] = (one.column, counts)
    total: Ints | None = None
    for column, counts in by_column.values():
        by_row = column.gather(counts, rows)
        total = by_row if total is None else total + by_row
    return total
