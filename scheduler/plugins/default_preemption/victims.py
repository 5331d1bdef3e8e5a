"""Rows on which preemption is tried: which pods may become victims, and in which order they are put back.

Upstream: plugins/defaultpreemption (SelectVictimsOnNode), for one row in plain integers or for many by sums.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.decision import Rows
from scheduler.plugins.default_preemption.whole_groups import Whole
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools

if TYPE_CHECKING:
    from scheduler.plugins.default_preemption.dry_run import DryRuns

CHUNK = 2_000
"""Steps after which results are kept, as many as an ordinary slice has: a batch costs 0.15 ms beside its rows. If the
slice ends earlier, the batch is gathered again."""
CHUNK_ASKED = 64
"""After so many victims, results are kept where filters are asked."""


class Batch:
    """Some rows to try, and the pods that may be preempted there, the most important first."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.lower: list[list[Placement]] = []
        """For each of `rows`, its placements of lower priority."""
        self.over: list[list[bool] | None] = []
        """For each of `rows`, which of these evictions would overdraw a budget; None: none would."""
        self.whole: dict[int, list[Whole]] = {}
        """By row, where groups go as a whole, in place of `lower`."""
        self.in_copy = False
        """The last row of `whole` is to be tried in a copy of the cluster: it has victims on many other rows."""
        self.without: list[int] = []
        """Rows without a pod that may be preempted."""
        self.victims = 0
        """Pods that are taken away to try these rows."""
        self.one_by_one = 0
        """Victims in `whole`, a group counting once on each row."""

    def first(self) -> "Batch":
        """Only the first row to try, and all rows without a pod to preempt, which are decided already."""
        first = Batch()
        first.rows, first.lower, first.over = self.rows[:1], self.lower[:1], self.over[:1]
        if not first.rows:
            first.whole = dict(islice(self.whole.items(), 1))
            first.in_copy = self.in_copy and len(self.whole) == 1
        first.without = self.without
        first.victims = sum(map(len, first.lower)) + sum(
            len(one.here if first.in_copy else one.everywhere) for some in first.whole.values() for one in some
        )
        first.one_by_one = sum(map(len, first.whole.values()))
        return first


def gather_pods(dry_runs: "DryRuns", rows: list[int], priority: int, cluster: Cluster, *, ask_filters: bool) -> Batch:
    """The first of some rows, as many as are tried at a time, where there are neither pod groups nor budgets.

    `ask_filters`: amounts do not decide alone, so that filters are asked.
    """
    found, victims, most = Batch(), 0, dry_runs.steps + CHUNK
    for row, lower in zip(rows, dry_runs.ranking.each_below(rows, priority, cluster), strict=True):
        if lower:
            found.rows.append(row)
            found.lower.append(lower)
            victims += len(lower)
        else:
            found.without.append(row)
        if victims + dry_runs.steps >= most or (ask_filters and victims >= CHUNK_ASKED):
            break
    found.over, found.victims = [None] * len(found.rows), victims
    return found


class NodeDryRun:
    """The dry run on one row, with plain integers: all victims are taken away, and then put back one by one.

    `lower`: the pods or groups of lower priority, the most important first. `over`: which of them overdraw a budget,
    None: none. `taken`: for each, the amounts that it gives back; `free`, `needs`: the amounts of the row and the pod.
    """

    def __init__(
        self,
        row: int,
        lower: Sequence[Placement | Whole],
        over: list[bool] | None,
        taken: list[list[int]],
        free: list[int],
        needs: list[int],
    ) -> None:
        self.row = row
        self.lower = lower
        self.over = over
        self.victims: list[int] = []
        """The places in `lower` of those that have to go."""
        self.violations: list[int] = []
        """How many pods of each of `lower` overdraw a budget."""
        self.failed = False
        self._order = list(range(len(lower)))
        if over is not None:
            self._order.sort(key=lambda i: not over[i])
        self._taken = taken
        self._needs = needs
        self._free = [left + sum(amounts) for left, *amounts in zip(free, *taken, strict=True)]

    def fits(self) -> bool:
        """Whether the pod fits by the amounts."""
        return all(left >= need for left, need in zip(self._free, self._needs, strict=True))

    def at(self, step: int) -> Placement | Whole:
        """What is to be put back at a step."""
        return self.lower[self._order[step]]

    def can_give_back(self, step: int) -> bool:
        """Put one pod back, unless the amounts say that it has to go: then it is a victim."""
        i = self._order[step]
        before = self._free
        self._free = [left - amount for left, amount in zip(before, self._taken[i], strict=True)]
        if self.fits():
            return True
        self._free = before
        self.victims.append(i)
        return False

    def keep_away(self, step: int) -> None:
        """It was put back, and has to go after all."""
        i = self._order[step]
        self._free = [left + amount for left, amount in zip(self._free, self._taken[i], strict=True)]
        self.victims.append(i)


def all_give_back(tried: list[NodeDryRun]) -> int:
    """Carry out dry runs that the amounts decide alone. Returns how often filters were asked: never."""
    for one in tried:
        for step in range(len(one.lower)):
            one.can_give_back(step)
    return 0


def order_of(batch: Batch, begins: NDArray[np.intp], size: int) -> tuple[Rows, Bools]:
    """(in which order placements are given back, row by row: those that overdraw a budget first; which those are)."""
    order = np.arange(size)
    violating = np.zeros(size, dtype=np.bool_)
    for begin, over in zip(begins.tolist(), batch.over, strict=True):
        if over is not None:
            flags = np.array(over)
            violating[begin : begin + len(over)] = flags
            order[begin : begin + len(over)] = begin + np.argsort(~flags, kind="stable")
    return order, violating
