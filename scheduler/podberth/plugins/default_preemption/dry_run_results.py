"""The results of dry runs on each node, for one pod or for all pods of one shape and priority. Filled by dry_run.py."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Placement
from podberth.cache.column import Bools
from podberth.cache.nodes import Nodes
from podberth.framework.decision import Rejected, Rows
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.plugins.default_preemption.candidates import PRIORITY_OFFSET
from podberth.plugins.default_preemption.whole_groups import Together

TODO, WITHOUT_VICTIMS, SPARED, FAILS, HELPS = range(5)
"""Not tried; no pod has a lower priority; all of these may stay; it does not fit even an emptied node; it helps."""


class DryRunResults:
    """For each row, its state and, where preemption helps, the victims and their cost."""

    def __init__(self, pod: Pod, nodes: Nodes) -> None:
        self.pod = pod
        self.nodes = nodes
        self.version = nodes.log.version
        self.budgets = 0
        """The version of the log of disruption budgets."""
        self.groups = 0
        """The version of the log of pod groups."""
        self.members = 0
        """The version of the log of their members."""
        self._of_group: dict[GroupKey, set[int]] = {}
        """Rows whose results go by the pods of a group that goes as a whole."""
        self.ahead: dict[int, tuple[str, ...]] = {}
        """Row → UIDs of the nominated pods that were taken into account."""
        size = nodes.rows
        self.states: NDArray[np.int8] = np.zeros(size, dtype=np.int8)
        self._costs: NDArray[np.int64] = np.zeros((4, size), dtype=np.int64)
        """Violations of budgets, highest priority, sum of priorities, number of victims."""
        self._starts: list[str] = [""] * size
        """When the first of the most important victims started."""
        self._victims: dict[int, tuple[list[Placement], ...]] = {}
        """By row, in parts: those of a group that goes as a whole are one list on all its rows."""
        self._explained: Bools = np.zeros(size, dtype=np.bool_)
        self._reasons: dict[tuple[str, str], Bools] = {}
        """(plugin, text) → rows that it rejects even when they are emptied."""

    def grow(self, rows: int) -> None:
        """Have room for so many rows."""
        more = rows - len(self.states)
        if more <= 0:
            return
        self.states = np.concatenate((self.states, np.zeros(more, dtype=np.int8)))
        self._explained = _longer(self._explained, more)
        self._costs = np.concatenate((self._costs, np.zeros((4, more), dtype=np.int64)), axis=1)
        self._starts += [""] * more
        self._reasons = {reason: _longer(where, more) for reason, where in self._reasons.items()}

    def again(self, rows: Iterable[int]) -> None:
        """These rows have to be tried again."""
        where = list(rows)
        if not where:
            return
        for row in where:
            self._victims.pop(row, None)
        self.states[where] = TODO
        if self._explained[where].any():
            self._explained[where] = False
            for mask in self._reasons.values():
                mask[where] = False

    def goes_by(self, group: GroupKey, row: int) -> None:
        """The result of a row goes by all pods of a group."""
        self._of_group.setdefault(group, set()).add(row)

    def with_pods_of(self, groups: Iterable[GroupKey]) -> set[int]:
        """Rows whose results go by the pods of these groups."""
        return set().union(*(self._of_group.pop(group, ()) for group in groups))

    def note(self, rows: Sequence[int] | Rows, state: int) -> None:
        """Set the state of some rows where preemption does not help."""
        self.states[rows] = state

    def helps(self, row: int, victims: Sequence[Together], violations: int) -> None:
        """Preemption helps on a row, if these pods leave, the most important first."""
        self.states[row] = HELPS
        parts = self._victims[row] = tuple([some.placements for some in victims])
        highest = max(some.highest for some in victims)
        total = sum(some.total for some in victims)
        self._costs[:, row] = violations, parts[0][0].pod.priority, total, sum(map(len, parts))
        self._starts[row] = min(some.start for some in victims if some.highest == highest)

    def helps_on_rows(self, rows: Rows, victims: list[Placement], first: Rows, violations: NDArray[np.int64]) -> None:
        """As `helps`, for many rows: `victims` are those of all rows, `first` is where those of each row begin.

        `violations`: for each row, how many of its victims overdraw a budget.
        """
        self.states[rows] = HELPS
        priorities = np.array([victim.pod.priority for victim in victims], dtype=np.int64)
        numbers = np.diff(first, append=len(victims))
        totals = np.add.reduceat(priorities + PRIORITY_OFFSET, first)
        self._costs[:, rows] = violations, priorities[first], totals, numbers
        begins = first.tolist()
        for row, begin, end in zip(rows.tolist(), begins, [*begins[1:], len(victims)], strict=True):
            self._victims[row] = (victims[begin:end],)
            self._starts[row] = victims[begin].pod.started or "~"

    def explain(self, rows: Sequence[int] | Rows, rejected: Iterable[Rejected]) -> None:
        """Note why the pod does not fit these rows even when they are emptied."""
        self._explained[rows] = True
        for one in rejected:
            for reason, where in one.reasons:
                key = (one.plugin, reason.text)
                mask = self._reasons.get(key)
                if mask is None:
                    mask = self._reasons[key] = np.zeros(len(self.states), dtype=np.bool_)
                mask[rows] |= where[rows]

    def unexplained(self, among: Bools) -> Rows:
        """Rows that the pod does not fit, without a reason so far."""
        return np.flatnonzero((self.states == FAILS) & ~self._explained & among)

    def helpful(self, among: Bools) -> Rows:
        """The rows where preemption helps."""
        return np.flatnonzero((self.states == HELPS) & among)

    def spared(self, among: Bools) -> Rows:
        """The rows that the pod fits although none of its possible victims leaves."""
        return np.flatnonzero((self.states == SPARED) & among)

    def victims(self, row: int) -> tuple[Pod, ...]:
        """The victims on a row."""
        return _pods(self._victims[row])

    def pick(self, rows: Rows, ranks: NDArray[np.intp]) -> int:
        """As `candidates.pick`, among rows where preemption helps. `ranks`: the places of rows by name."""
        for costs in self._costs:
            there = costs[rows]
            rows = rows[there == there.min()]
        starts = [self._starts[row] for row in rows.tolist()]
        latest = max(starts)
        if starts.count(latest) < len(starts):
            rows = rows[[start == latest for start in starts]]
        return int(rows[ranks[rows].argmin()])

    def offers(self, rows: Rows, names: list[str | None]) -> "Offers":
        """All nodes where preemption helps, as extenders are asked about them."""
        return Offers(rows, list(names), dict(self._victims), self._costs[0].copy())

    def counts(self, among: Bools) -> tuple[dict[str, int], frozenset[str], int]:
        """(reason → rows that it rejects even when emptied, the plugins with these reasons, how many rows in all)."""
        counts: dict[str, int] = {}
        plugins = set()
        rows = np.zeros(len(among), dtype=np.bool_)
        for (plugin, text), mask in self._reasons.items():
            where = mask & among
            if where.any():
                counts[text] = counts.get(text, 0) + int(np.count_nonzero(where))
                plugins.add(plugin)
                rows |= where
        return counts, frozenset(plugins), int(np.count_nonzero(rows))

    def without_victims(self, among: Bools) -> int:
        """On how many rows no pod has a lower priority."""
        return int(np.count_nonzero((self.states == WITHOUT_VICTIMS) & among))


class Offers(Mapping[str, tuple[tuple[Pod, ...], int]]):
    """Node → (victims, how many of them overdraw a disruption budget); put together when it is read."""

    def __init__(
        self,
        rows: Rows,
        names: list[str | None],
        victims: dict[int, tuple[list[Placement], ...]],
        violations: NDArray[np.int64],
    ) -> None:
        self._rows = rows
        self._names = names
        self._victims = victims
        self._violations = violations

    @cached_property
    def _where(self) -> dict[str, int]:
        return {self._names[row] or "": row for row in self._rows.tolist()}

    def __getitem__(self, node: str) -> tuple[tuple[Pod, ...], int]:
        row = self._where[node]
        return _pods(self._victims[row]), int(self._violations[row])

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._rows)


def _pods(parts: tuple[list[Placement], ...]) -> tuple[Pod, ...]:
    return tuple([placement.pod for some in parts for placement in some])


def _longer(mask: Bools, more: int) -> Bools:
    return np.concatenate((mask, np.zeros(more, dtype=np.bool_)))
