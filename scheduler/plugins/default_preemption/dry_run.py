"""Upstream: framework/preemption and defaultpreemption (SelectVictimsOnNode): where preemption helps, and with whom.

Many nodes are tried at a time, by the amounts that their pods take. Filters are asked only about what amounts can't
decide. Where one node can change the verdict on another (affinity, spread), nodes are tried one after the other. All
results are kept by row: an attempt that used up its slice goes on where it was, and the next of many equal preemptors
tries only the rows that changed.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.plugin import Filters
from scheduler.model.pod import Pod
from scheduler.model.selectors import EVERYTHING
from scheduler.plugins.default_preemption.budgets import Budgets, Drawn
from scheduler.plugins.default_preemption.dry_run_results import (
    HELPS,
    TODO,
    WITHOUT_VICTIMS,
    DryRunResults,
)
from scheduler.plugins.default_preemption.importance import Ranking, rows_of_groups
from scheduler.plugins.default_preemption.in_copy import InCopy
from scheduler.plugins.default_preemption.select_victims import DryRun
from scheduler.plugins.default_preemption.whole_groups import Whole, WholeGroups
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools
from scheduler.state.nodes import Nodes

_KEPT_MOST = 16
_DELAYS = 3
"""How often rows are tried again because budgets changed; after that, only the chosen row is."""
_NAMESPACES = 16
"""If budgets of more namespaces changed, all rows where preemption helps are tried again, whosever pods they have."""


class DryRuns:
    """The dry runs of all pods: their results are kept from attempt to attempt."""

    def __init__(self) -> None:
        self._kept: dict[object, DryRunResults] = {}
        self.ranking = Ranking()
        self.budgets = Budgets()
        self._ranks: tuple[Nodes, tuple[int, int], NDArray[np.intp]] | None = None
        self.whole_groups = WholeGroups()
        self.in_copy = InCopy()
        self.tried = 0
        """How often a row was tried."""

    def find(
        self, pod: Pod, cluster: Cluster, filters: Filters, rows: Bools, at_most: int
    ) -> tuple[DryRunResults, int | None]:
        """The results on the given rows, and the row to preempt on; None if preemption helps on none.

        `at_most`: how many candidates are enough where nodes have to be tried one by one. Raises SliceOver.
        """
        lowest = cluster.priorities.lowest
        if (lowest is None or lowest >= pod.priority) and not cluster.pod_groups.below(pod.priority):
            results = DryRunResults(pod, cluster.nodes)
            results.note(np.flatnonzero(rows), WITHOUT_VICTIMS)
            return results, None
        self.ranking.renew(cluster)
        self.budgets.renew(cluster)
        self.whole_groups.make_room()
        self.in_copy.others_search(pod.uid, cluster)
        lasting = filters.goes_by_shape(pod) and not filters.looks_elsewhere(pod, cluster, ())
        key = (pod.shape, pod.priority) if lasting else pod.uid
        ahead = dict(_rows_ahead(pod, cluster)) if rows.any() else {}
        results = self._results(key, pod, cluster, ahead, lasting=lasting)
        attempt = DryRun(self, results, pod, cluster, filters, ahead, lasting=lasting)
        attempt.go_on(rows, at_most)
        chosen = attempt.choose(rows)
        if chosen is None:
            attempt.explain(rows)
        results.complete, results.delays = True, 0
        self.in_copy.done(pod.uid, cluster)
        if not lasting or pod.shape.heavy:
            del self._kept[key]
        return results, chosen

    def _results(
        self, key: object, pod: Pod, cluster: Cluster, pods_ahead: dict[int, list[Pod]], *, lasting: bool
    ) -> DryRunResults:
        """The results for a pod, up to date. `pods_ahead`: row → nominated pods that come before it."""
        results = self._kept.pop(key, None)
        nodes = cluster.nodes
        ahead = {row: tuple([other.uid for other in pods]) for row, pods in pods_ahead.items()}
        changed = None
        if results is not None and results.nodes is nodes and (lasting or _same(results.pod, pod)):
            changed = nodes.log.since(results.version)
            of_groups = rows_of_groups(cluster, results.groups)
            members = cluster.pod_groups.members_log.since(results.members)
            if changed is not None and of_groups is not None and members is not None:
                changed = changed | of_groups | (results.with_pods_of(members) if lasting else set())
            else:
                changed = None
        if results is None or changed is None:
            results = DryRunResults(pod, nodes)
        else:
            results.grow(nodes.rows)
            moved = ahead.keys() | results.ahead.keys()
            results.again(changed | {row for row in moved if ahead.get(row) != results.ahead.get(row)})
            if not lasting:
                results.unsure |= results.states != TODO
            self._heed_budgets(results, cluster)
        results.version, results.ahead, results.budgets = nodes.log.version, ahead, cluster.budget_log.version
        results.complete, results.groups = False, cluster.pod_groups.log.version
        results.members = cluster.pod_groups.members_log.version
        self._make_room()
        self._kept[key] = results
        return results

    def _heed_budgets(self, results: DryRunResults, cluster: Cluster) -> None:
        """Have rows tried again where budgets changed, but not without end if they change all the time."""
        if results.budgets == cluster.budget_log.version:
            return
        changed = cluster.budget_log.since(results.budgets)
        rows = np.flatnonzero(results.states == HELPS)
        namespaces = set() if changed is None else {namespace for namespace, _ in changed}
        if changed is not None and len(namespaces) <= _NAMESPACES:
            rows = rows[_with_pods_of(namespaces, cluster)[rows]]
        if not results.complete:
            results.delays += 1
        if results.delays > _DELAYS:
            results.unsure[rows] = True
        else:
            results.again(rows.tolist())

    def _make_room(self) -> None:
        """Drop complete results, the oldest first; then the newest incomplete ones, so that some can be completed."""
        while len(self._kept) >= _KEPT_MOST:
            complete = (key for key, results in self._kept.items() if results.complete)
            del self._kept[next(complete, next(reversed(self._kept)))]

    def name_ranks(self, nodes: Nodes) -> NDArray[np.intp]:
        """The place of each row in the order of names, right for nodes that exist."""
        state = (nodes.label_changes, nodes.rows)
        if self._ranks is None or self._ranks[0] is not nodes or self._ranks[1] != state:
            names = nodes.names
            ranks = np.empty(nodes.rows, dtype=np.intp)
            ranks[sorted(range(nodes.rows), key=lambda row: names[row] or "")] = np.arange(nodes.rows)
            self._ranks = nodes, state, ranks
        return self._ranks[2]

    def overdrawing(self, lower: list[Placement], cluster: Cluster) -> list[bool] | None:
        """For each of these, whether its eviction would overdraw a disruption budget; None: nobody's would."""
        if not self.budgets.any:
            return None
        return self.budgets.overdrawing([placement.pod for placement in lower], cluster)

    def violations(self, victims: Sequence[Whole], cluster: Cluster) -> list[int]:
        """For each of these, how many of its pods would overdraw a disruption budget. Raises SliceOver."""
        if not self.budgets.any:
            return [0] * len(victims)
        drawn = Drawn()
        over = []
        for one in victims:
            if one.group is None:
                flags = self.budgets.overdrawing([placement.pod for placement in one.here], cluster, drawn)
                over.append(sum(flags or ()))
            else:
                over.append(self.budgets.together(one.group.placements, one.group.drawn, cluster, drawn))
        return over

    @property
    def steps(self) -> int:
        """Steps that were taken so far besides those that were charged."""
        return self.budgets.steps + self.ranking.steps


def _same(one: Pod, other: Pod) -> bool:
    """Whether a pod is still what it was, as far as its place goes."""
    return (one.shape, one.priority, one.node_name) == (other.shape, other.priority, other.node_name) and (
        one.labels == other.labels
    )


def _rows_ahead(pod: Pod, cluster: Cluster) -> list[tuple[int, list[Pod]]]:
    """(row, nominated pods that are not placed and that the pod has to yield to)."""
    found = []
    for name, pods in cluster.nominations.ahead_of(pod):
        row = cluster.nodes.live_row(name)
        if row is not None:
            found.append((row, [other for other in pods if cluster.placement(other.uid) is None]))
    cluster.effort.count(2 * len(found))
    return found


def _with_pods_of(namespaces: Iterable[str], cluster: Cluster) -> Bools:
    """bool[rows]: which have a pod of one of these namespaces, however often their budgets are written."""
    rows = cluster.nodes.rows
    there: Bools = np.zeros(rows, dtype=np.bool_)
    end = cluster.effort.pause()
    try:
        for namespace in namespaces:
            there |= cluster.incidence.on_rows(namespace, EVERYTHING, leaving=True).by_row(rows) > 0
    finally:
        cluster.effort.resume(end)
    return there
