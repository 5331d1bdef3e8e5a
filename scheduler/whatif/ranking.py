"""The nodes by their totals, while equal pods take the best of them one after the other."""

from bisect import insort
from heapq import heappop, heappush

from scheduler.framework.ahead import Ahead


class Ranking:
    """Rows by total. Rows of equal totals are in ascending order, as in a decision."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._taken: dict[int, int] = {}
        self._by_total: dict[int, list[int]] = {}
        passes, totals = ahead.level(0)
        for row, total in enumerate(totals):
            if passes[row]:
                self._by_total.setdefault(total, []).append(row)
        self._order = sorted(-total for total in self._by_total)

    def best(self) -> list[int]:
        """The rows of the highest total; none when no row takes another pod."""
        while self._order:
            rows = self._by_total.get(-self._order[0])
            if rows:
                return rows
            self._by_total.pop(-heappop(self._order), None)
        return []

    def take(self, which: int) -> int:
        """One of the best rows gets a pod, and a new place in the ranking."""
        row = self._by_total[-self._order[0]].pop(which)
        number = self._taken[row] = self._taken.get(row, 0) + 1
        passes, totals = self._ahead.level(number)
        if passes[row]:
            total = totals[row]
            rows = self._by_total.get(total)
            if rows is None:
                self._by_total[total] = [row]
                heappush(self._order, -total)
            else:
                insort(rows, row)
        return row
