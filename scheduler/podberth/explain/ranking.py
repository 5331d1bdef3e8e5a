"""The nodes by their totals, while equal pods take the best of them one after the other."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import compress

import numpy as np

from podberth.explain.crowd.ahead import Ahead
from podberth.explain.crowd.following import Kinds
from podberth.model.pod import Pod

_Kind = tuple[int, int]
"""The kind of a row while it had none of the pods, and how many it has, where that matters."""


class Ranking:
    """Rows by kind and total. Rows of equal totals are in ascending order, as in a decision."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._taken: dict[int, int] = {}
        self._kinds: dict[_Kind, _Rows] = {}
        self._best: list[list[int]] = []
        self._offsets: tuple[list[_Kind], list[int]] = ([], [])
        self._there: tuple[list[_Kind], list[_Rows], Kinds] | None = None
        """The kinds that have rows; None once that may have changed."""
        passes, totals = ahead.level(0)
        for row, total in enumerate(totals):
            if passes[row]:
                self._of(row, 0).add(row, total)

    def places(self, pods: Iterable[Pod], pick: Callable[[str, int], int]) -> Iterator[tuple[Pod, int]]:
        """Each pod and the row that it takes, until no row takes one.

        `pick`: (uid, how many rows are equally good) → which of them. Raises PluginError.
        """
        if self._ahead.plain and len(self._kinds) == 1:
            yield from self._plain_places(pods, pick)
            return
        for pod in pods:
            best = self.best()
            if not best:
                return
            yield pod, self.take(pick(pod.uid, best))

    def _plain_places(self, pods: Iterable[Pod], pick: Callable[[str, int], int]) -> Iterator[tuple[Pod, int]]:
        """`places` where a row's own total is all that counts. There may be a million pods, so every call counts."""
        (rows,) = self._kinds.values()
        taken, level = self._taken, self._ahead.level
        levels = [level(0)]
        for pod in pods:
            best = rows.best()
            if not best:
                return
            row = best.pop(pick(pod.uid, len(best)))
            rows.size -= 1
            number = taken[row] = taken.get(row, 0) + 1
            if number == len(levels):
                levels.append(level(number))
            passes, totals = levels[number]
            if passes[row]:
                rows.add(row, totals[row])
            yield pod, row

    def best(self) -> int:
        """Return how many rows have the highest total; 0 when no row takes another pod."""
        if self._ahead.plain:
            self._best = [rows.best() for rows in self._kinds.values()]
        else:
            self._best = self._best_of_kinds()
        return sum(map(len, self._best))

    def take(self, which: int) -> int:
        """One of the best rows gets a pod, and a new place in the ranking."""
        row = _nth(self._best, which)
        number = self._taken.get(row, 0)
        self._of(row, number).take(row)
        number = self._taken[row] = number + 1
        passes, totals = self._ahead.level(number)
        if passes[row]:
            self._of(row, number).add(row, totals[row])
        if not passes[row] or self._ahead.by_pods:
            self._there = None
        self._ahead.placed(row)
        return row

    def _of(self, row: int, number: int) -> "_Rows":
        kind = (self._ahead.kinds[row], number if self._ahead.by_pods else 0)
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Rows()
        return found

    def _best_of_kinds(self) -> list[list[int]]:
        names, there, kinds = self._there = self._there or self._with_rows()
        passes = self._ahead.passing(kinds)
        if passes is not None and not passes.all():
            kinds = kinds.of(passes)
            names, there = list(compress(names, passes)), list(compress(there, passes))
        if not there:
            return []
        offsets = self._offsets_of(names, kinds)
        totals = [rows.total + offset for rows, offset in zip(there, offsets, strict=True)]
        highest = max(totals)
        return [rows.best() for rows, total in zip(there, totals, strict=True) if total == highest]

    def _with_rows(self) -> "tuple[list[_Kind], list[_Rows], Kinds]":
        """The kinds that have rows, by the first of their best rows."""
        there = sorted((rows.best()[0], kind, rows) for kind, rows in self._kinds.items() if rows.size)
        if len(there) < len(self._kinds):
            self._kinds = {kind: rows for _, kind, rows in there}
        first = np.fromiter((row for row, _, _ in there), dtype=np.intp, count=len(there))
        sizes = np.fromiter((rows.size for _, _, rows in there), dtype=np.int64, count=len(there))
        return [kind for _, kind, _ in there], [rows for _, _, rows in there], Kinds(first, sizes)

    def _offsets_of(self, names: list[_Kind], kinds: Kinds) -> list[int]:
        if len(names) == 1:
            return [0]
        if self._ahead.moves or self._offsets[0] != names:
            self._offsets = (names, self._ahead.offsets(kinds))
        return self._offsets[1]


class _Rows:
    """The rows of one kind by total."""

    __slots__ = ("_by_total", "_order", "size")

    def __init__(self) -> None:
        self._by_total: dict[int, list[int]] = {}
        self._order: list[int] = []
        self.size = 0

    @property
    def total(self) -> int:
        """The highest; there is one."""
        self.best()  # the total of the last row that left is still in the order
        return -self._order[0]

    def best(self) -> list[int]:
        """The rows of the highest total; do not change it."""
        while self._order:
            rows = self._by_total[-self._order[0]]
            if rows:
                return rows
            del self._by_total[-heappop(self._order)]
        return []

    def add(self, row: int, total: int) -> None:
        """One row more."""
        self.size += 1
        rows = self._by_total.get(total)
        if rows is None:
            self._by_total[total] = [row]
            heappush(self._order, -total)
        else:
            insort(rows, row)

    def take(self, row: int) -> None:
        """One of the best rows goes."""
        self.size -= 1
        rows = self.best()
        del rows[bisect_left(rows, row)]


def _nth(lists: list[list[int]], which: int) -> int:
    """The row at a place in all lists together, each of which is in ascending order."""
    if len(lists) == 1:
        return lists[0][which]
    low, high = min(rows[0] for rows in lists), max(rows[-1] for rows in lists)
    while low < high:
        middle = (low + high) // 2
        if sum(bisect_right(rows, middle) for rows in lists) > which:
            high = middle
        else:
            low = middle + 1
    return low
