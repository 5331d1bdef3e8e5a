"""Results of dry runs: for each node the victims and their cost, and the choice of the node to preempt on.

Upstream: framework/preemption (preemption.go, util.go).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster, Placement
from podberth.cache.column import Bools
from podberth.cache.groups import GroupState
from podberth.cache.kept_results import KeptResult, SeveralLogs
from podberth.cache.nodes import Nodes
from podberth.framework.decision import Rejected, Rows
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.model.selectors import EVERYTHING
from podberth.model.shape import PodShape
from podberth.plugins.default_preemption.victims import importance, rows_of_groups, started

PRIORITY_OFFSET = 1 << 31
_NAMESPACES = 16
"""If budgets of more namespaces changed, all rows where preemption helps are tried again, whosever pods they have."""


class Candidate(Struct):
    """A node and the pods that would have to leave it, most important first."""

    row: int
    victims: list[Pod] = field(default_factory=list)
    violations: int = 0
    """Victims whose disruption budget would be overdrawn."""
    cost: tuple[int, int, int, int] = (0, 0, 0, 0)
    """The lowest is preferred: violations, highest priority, sum of priorities, number of victims."""
    start: str = ""
    """When the first of the most important victims started."""

    def settle(self) -> None:
        """Compute the cost, once all victims are known."""
        self.victims.sort(key=importance)
        if self.victims:
            total = sum(victim.priority + PRIORITY_OFFSET for victim in self.victims)
            highest = self.victims[0].priority
            self.cost = self.violations, highest, total, len(self.victims)
            self.start = started(self.victims[0])


def pick(candidates: Iterable[Candidate], names: list[str | None]) -> Candidate:
    """Return the node to preempt on (pickOneNodeForPreemption); the name decides what would be anyone's choice."""
    found = list(candidates)
    lowest = min(candidate.cost for candidate in found)
    cheapest = [candidate for candidate in found if candidate.cost == lowest]
    latest = max(candidate.start for candidate in cheapest)
    return min(
        (candidate for candidate in cheapest if candidate.start == latest),
        key=lambda candidate: names[candidate.row] or "",
    )


_MOST = 1_000
"""The number of groups whose sums are kept from attempt to attempt."""


class Together:
    """Pods that go together, the most important first, and what they cost."""

    __slots__ = ("highest", "placements", "start", "total")

    def __init__(self, placements: list[Placement]) -> None:
        self.placements = placements
        """Not to be changed by whoever asks."""
        pods = [placement.pod for placement in placements]
        self.highest = max((pod.priority for pod in pods), default=0)
        """The highest priority."""
        self.total = sum(pod.priority + PRIORITY_OFFSET for pod in pods)
        """The sum of the priorities."""
        self.start = min((started(pod) for pod in pods if pod.priority == self.highest), default="")
        """When the first of those with the highest priority started."""


class Whole(Struct, eq=False):
    """A victim on a row: a pod, or all pods of a group that goes as a whole."""

    key: GroupKey | None
    """The group; None: it is a pod."""
    here: list[Placement]
    """Its pods on this row."""
    group: Together | None
    """All pods of the group."""

    @property
    def everywhere(self) -> list[Placement]:
        """All its pods."""
        return self.here if self.group is None else self.group.placements

    def together(self) -> Together:
        """Return the pods that go together, and what they cost."""
        return Together(self.here) if self.group is None else self.group


class WholeGroups:
    """Keeps the sums of groups, each for one version of the group."""

    def __init__(self) -> None:
        self._known: dict[GroupKey, tuple[int, Together]] = {}
        """By group: its version, and the sums."""

    def make_room(self) -> None:
        """Forget all sums if there are too many."""
        if len(self._known) > _MOST:
            self._known.clear()

    def of_row(self, lower: list[Placement], cluster: Cluster) -> list[Whole] | None:
        """Return the victims that these pods of a row are, in the same order; None: each goes for itself."""
        groups = cluster.pod_groups
        if not len(groups):
            return None
        found: list[Whole] = []
        known: dict[GroupKey, Whole] = {}
        for placement in lower:
            state = groups.whole(placement.pod)
            if state is None:
                found.append(Whole(None, [placement], None))
                continue
            whole = known.get(state.key)
            if whole is None:
                whole = known[state.key] = Whole(state.key, [], self._sums(state, cluster))
                found.append(whole)
            whole.here.append(placement)
        return found if known else None

    def _sums(self, state: GroupState, cluster: Cluster) -> Together:
        """Return the sums of all pods of a group that have a node."""
        known = self._known.get(state.key)
        if known is not None and known[0] == state.version:
            return known[1]
        there = (cluster.placement(pod.uid) for pod in cluster.pod_groups.with_node_in(state.key))
        sums = Together([one for one in there if one is not None])
        self._known[state.key] = state.version, sums
        return sums


TODO, WITHOUT_VICTIMS, SPARED, FAILS, HELPS = range(5)
"""Not tried; no pod has a lower priority; all of these may stay; it does not fit even an emptied node; it helps."""


class DryRunResults(KeptResult[set[int]]):
    """Keeps for each row its state and, where preemption helps, the victims and their cost."""

    def __init__(self, pod: Pod, nodes: Nodes) -> None:
        self.pod = pod
        self._ahead: dict[int, tuple[tuple[str, PodShape], ...]] = {}
        """Row → UIDs and shapes of the nominated pods that were taken into account."""
        self._begin(nodes.rows)

    def _begin(self, size: int) -> None:
        self._of_group: dict[GroupKey, set[int]] = {}
        """Rows whose results go by the pods of a group that goes as a whole."""
        self.states: NDArray[np.int8] = np.zeros(size, dtype=np.int8)
        self._costs: NDArray[np.int64] = np.zeros((4, size), dtype=np.int64)
        """Violations of budgets, highest priority, sum of priorities, number of victims."""
        self._starts: NDArray[np.object_] = np.full(size, "", dtype=np.object_)
        """When the first of the most important victims started."""
        self._victims: dict[int, tuple[list[Placement], ...]] = {}
        """By row: lists with its victims, which rows share. Those of a group that goes as a whole are one list."""
        self._spans: NDArray[np.int64] = np.zeros((2, size), dtype=np.int64)
        """The row's victims are those from here to there in its lists."""
        self._explained: Bools = np.zeros(size, dtype=np.bool_)
        self._reasons: dict[tuple[str, str], Bools] = {}
        """(plugin, text) → rows that it rejects even when they are emptied."""

    def follow(self, cluster: Cluster, ahead: Mapping[int, Sequence[Pod]]) -> None:
        """Have rows tried again where something changed. `ahead`: row → nominated pods that come before these pods."""
        nodes, groups = cluster.nodes, cluster.pod_groups
        self._grow(nodes.rows - len(self.states))
        self.renew((nodes,), SeveralLogs(nodes.log, groups.log, groups.members_log, cluster.budget_log), cluster)
        before = self._ahead
        self._ahead = {row: tuple([(pod.uid, pod.shape) for pod in pods]) for row, pods in ahead.items()}
        moved = before.keys() | self._ahead.keys()
        self.again([row for row in moved if before.get(row) != self._ahead.get(row)])

    def changes(self, log: SeveralLogs, asked: Any) -> set[int] | None:
        """Return the rows that changed, those with pods of groups that did, and where budgets are different."""
        cluster: Cluster = asked
        nodes_version, groups_version, members_version, budgets_version = self.version
        changed, of_groups = cluster.nodes.log.since(nodes_version), rows_of_groups(cluster, groups_version)
        members = cluster.pod_groups.members_log.since(members_version)
        if changed is None or of_groups is None or members is None:
            return None
        return changed | of_groups | self._with_pods_of(members) | self._where_budgets_changed(cluster, budgets_version)

    def apply(self, changes: set[int], asked: Any) -> None:
        """Have these rows tried again."""
        self.again(changes)

    def compute(self, asked: Any) -> None:
        """Have all rows tried again."""
        cluster: Cluster = asked
        self._begin(cluster.nodes.rows)

    def _where_budgets_changed(self, cluster: Cluster, version: int) -> set[int]:
        """Return the rows where preemption helps, and that have pods of namespaces whose budgets changed."""
        if version == cluster.budget_log.version:
            return set()
        changed = cluster.budget_log.since(version)
        rows = np.flatnonzero(self.states == HELPS)
        namespaces = set() if changed is None else {namespace for namespace, _ in changed}
        if changed is not None and len(namespaces) <= _NAMESPACES:
            rows = rows[_with_pods_in(namespaces, cluster)[rows]]
        return set(rows.tolist())

    def _grow(self, more: int) -> None:
        """Have room for so many more rows."""
        if more <= 0:
            return
        self.states = np.concatenate((self.states, np.zeros(more, dtype=np.int8)))
        self._explained = _longer(self._explained, more)
        self._costs = np.concatenate((self._costs, np.zeros((4, more), dtype=np.int64)), axis=1)
        self._spans = np.concatenate((self._spans, np.zeros((2, more), dtype=np.int64)), axis=1)
        self._starts = np.concatenate((self._starts, np.full(more, "", dtype=np.object_)))
        self._reasons = {reason: _longer(where, more) for reason, where in self._reasons.items()}

    def again(self, rows: Iterable[int]) -> None:
        """Have these rows tried again."""
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
        """Note that the result of a row goes by all pods of a group."""
        self._of_group.setdefault(group, set()).add(row)

    def _with_pods_of(self, groups: Iterable[GroupKey]) -> set[int]:
        """Return the rows whose results go by the pods of these groups."""
        return set().union(*(self._of_group.pop(group, ()) for group in groups))

    def note(self, rows: Sequence[int] | Rows, state: int) -> None:
        """Set the state of some rows where preemption does not help."""
        self.states[rows] = state

    def helps(self, row: int, victims: Sequence[Together], violations: int) -> None:
        """Note that preemption helps on a row, if these pods leave, the most important first."""
        self.states[row] = HELPS
        parts = self._victims[row] = tuple([some.placements for some in victims])
        highest = max(some.highest for some in victims)
        total, number = sum(some.total for some in victims), sum(map(len, parts))
        self._costs[:, row] = violations, parts[0][0].pod.priority, total, number
        self._spans[:, row] = 0, number
        self._starts[row] = min(some.start for some in victims if some.highest == highest)

    def helps_on_rows(self, rows: Rows, victims: list[Placement], first: Rows, violations: NDArray[np.int64]) -> None:
        """Do what `helps` does for many rows: `victims` are those of all rows, `first` is where those of each begin.

        `violations`: for each row, how many of its victims overdraw a budget.
        """
        self.states[rows] = HELPS
        priorities = np.fromiter([victim.pod.priority for victim in victims], np.int64, len(victims))
        numbers = np.diff(first, append=len(victims))
        totals = np.add.reduceat(priorities + PRIORITY_OFFSET, first)
        self._costs[:, rows] = violations, priorities[first], totals, numbers
        self._spans[:, rows] = first, first + numbers
        self._victims.update(dict.fromkeys(rows.tolist(), (victims,)))
        self._starts[rows] = [started(victims[begin].pod) for begin in first.tolist()]

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
        """Return the rows that the pod does not fit, without a reason so far."""
        return np.flatnonzero((self.states == FAILS) & ~self._explained & among)

    def helpful(self, among: Bools) -> Rows:
        """Return the rows where preemption helps."""
        return np.flatnonzero((self.states == HELPS) & among)

    def spared(self, among: Bools) -> Rows:
        """Return the rows that the pod fits although none of its possible victims leaves."""
        return np.flatnonzero((self.states == SPARED) & among)

    def victims(self, row: int) -> tuple[Pod, ...]:
        """Return the victims on a row."""
        return _pods(self._victims[row], self._spans[:, row])

    def pick(self, rows: Rows, ranks: NDArray[np.intp]) -> int:
        """Return the row that the function `pick` would take, where preemption helps. `ranks`: places by name."""
        for costs in self._costs:
            there = costs[rows]
            rows = rows[there == there.min()]
        starts = self._starts[rows]
        rows = rows[starts == max(starts.tolist())]
        return int(rows[ranks[rows].argmin()])

    def offers(self, rows: Rows, names: list[str | None]) -> "Offers":
        """Return all nodes where preemption helps, as extenders are asked about them."""
        return Offers(rows, list(names), dict(self._victims), self._spans.copy(), self._costs[0].copy())

    def counts(self, among: Bools) -> tuple[dict[str, int], frozenset[str], int]:
        """Return (reason → number of rows that it rejects even when emptied, the plugins with these reasons, the number
        of rows in all).
        """
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
        """Return the number of rows on which no pod has a lower priority."""
        return int(np.count_nonzero((self.states == WITHOUT_VICTIMS) & among))


class Offers(Mapping[str, tuple[tuple[Pod, ...], int]]):
    """Node → (victims, how many of them overdraw a disruption budget); put together when it is read."""

    def __init__(
        self,
        rows: Rows,
        names: list[str | None],
        victims: dict[int, tuple[list[Placement], ...]],
        spans: NDArray[np.int64],
        violations: NDArray[np.int64],
    ) -> None:
        self._rows = rows
        self._names = names
        self._victims = victims
        self._spans = spans
        self._violations = violations

    @cached_property
    def _where(self) -> dict[str, int]:
        return {self._names[row] or "": row for row in self._rows.tolist()}

    def __getitem__(self, node: str) -> tuple[tuple[Pod, ...], int]:
        row = self._where[node]
        return _pods(self._victims[row], self._spans[:, row]), int(self._violations[row])

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._rows)


def _pods(parts: tuple[list[Placement], ...], span: NDArray[np.int64]) -> tuple[Pod, ...]:
    begin, end = span.tolist()
    placements = parts[0] if len(parts) == 1 else [placement for some in parts for placement in some]
    return tuple([placement.pod for placement in placements[begin:end]])


def _with_pods_in(namespaces: Iterable[str], cluster: Cluster) -> Bools:
    """Return bool[rows]: which have a pod of one of these namespaces, however often their budgets are written."""
    rows = cluster.nodes.rows
    there: Bools = np.zeros(rows, dtype=np.bool_)
    for namespace in namespaces:
        there |= cluster.affinity.on_rows(namespace, EVERYTHING, leaving=True).by_row(rows) > 0
    return there


def _longer(mask: Bools, more: int) -> Bools:
    return np.concatenate((mask, np.zeros(more, dtype=np.bool_)))
