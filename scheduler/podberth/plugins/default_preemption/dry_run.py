"""Upstream: framework/preemption and defaultpreemption (SelectVictimsOnNode): where preemption helps, and with whom.

Many nodes are tried at a time, by the amounts that their pods take. Filters are asked only about what amounts can't
decide. Where one node can change the verdict on another (affinity, spread), nodes are tried one after the other.
Results that depend on the preemptor's shape and one row are kept: the next of many equal preemptors tries only the rows
that changed.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.nodes import Nodes
from podberth.cache.search_steps import SearchCapError
from podberth.framework.interface import Filters
from podberth.model.pod import Pod
from podberth.model.selectors import EVERYTHING
from podberth.model.shape import PodShape
from podberth.plugins.default_preemption.dry_run_results import (
    HELPS,
    WITHOUT_VICTIMS,
    DryRunResults,
)
from podberth.plugins.default_preemption.importance import rows_of_groups
from podberth.plugins.default_preemption.select_victims import DryRun, Known

MOST_STEPS = 300_000
"""Steps that the search for victims of one pod may take. What it has found by then counts."""
_KEPT_MOST = 16
_NAMESPACES = 16
"""If budgets of more namespaces changed, all rows where preemption helps are tried again, whosever pods they have."""


class DryRuns:
    """The dry runs of all pods."""

    def __init__(self) -> None:
        self._kept: dict[tuple[PodShape, int], DryRunResults] = {}
        """By shape and priority of the preemptors."""
        self.known = Known()
        self._ranks: tuple[Nodes, tuple[int, int], NDArray[np.intp]] | None = None

    def find(
        self, pod: Pod, cluster: Cluster, filters: Filters, rows: Bools, at_most: int
    ) -> tuple[DryRunResults, int | None, str]:
        """Return the results on the given rows, the row to preempt on, and why the search has not come to its end.

        The row is None if preemption helps on none, the text is empty if all is known that is asked for.
        `at_most`: how many candidates are enough where results are not kept for the next pod.
        """
        lowest = cluster.priorities.lowest
        if (lowest is None or lowest >= pod.priority) and not cluster.pod_groups.below(pod.priority):
            results = DryRunResults(pod, cluster.nodes)
            results.note(np.flatnonzero(rows), WITHOUT_VICTIMS)
            return results, None, ""
        self.known.renew(cluster)
        lasting = filters.goes_by_shape(pod) and not filters.looks_elsewhere(pod, cluster, ())
        ahead = dict(_rows_ahead(pod, cluster)) if rows.any() else {}
        results = self._results(pod, cluster, ahead) if lasting else DryRunResults(pod, cluster.nodes)
        steps = cluster.search_steps.capped("victims", MOST_STEPS)
        attempt = DryRun(self.known, results, pod, cluster, filters, ahead, steps, lasting=lasting)
        gave_up = ""
        try:
            attempt.search(rows, at_most)
            if not len(results.helpful(rows)):
                attempt.explain(rows)
        except SearchCapError as error:
            gave_up = str(error)
        helpful = results.helpful(rows)
        chosen = results.pick(helpful, self.name_ranks(cluster.nodes)) if len(helpful) else None
        return results, chosen, gave_up

    def _results(self, pod: Pod, cluster: Cluster, pods_ahead: dict[int, list[Pod]]) -> DryRunResults:
        """The results for pods of this shape and priority, up to date.

        `pods_ahead`: row → nominated pods that come before them.
        """
        nodes, groups = cluster.nodes, cluster.pod_groups
        key = (pod.shape, pod.priority)
        results = self._kept.pop(key, None)
        ahead = {row: tuple([other.uid for other in pods]) for row, pods in pods_ahead.items()}
        changed = None
        if results is not None and results.nodes is nodes:
            changed = nodes.log.since(results.version)
            of_groups = rows_of_groups(cluster, results.groups)
            members = groups.members_log.since(results.members)
            if changed is not None and of_groups is not None and members is not None:
                changed = changed | of_groups | results.with_pods_of(members)
            else:
                changed = None
        if results is None or changed is None:
            results = DryRunResults(pod, nodes)
        else:
            results.grow(nodes.rows)
            moved = ahead.keys() | results.ahead.keys()
            results.again(changed | {row for row in moved if ahead.get(row) != results.ahead.get(row)})
            self._heed_budgets(results, cluster)
        results.version, results.ahead, results.budgets = nodes.log.version, ahead, cluster.budget_log.version
        results.groups, results.members = groups.log.version, groups.members_log.version
        if not pod.shape.heavy:
            if len(self._kept) >= _KEPT_MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = results
        return results

    def _heed_budgets(self, results: DryRunResults, cluster: Cluster) -> None:
        """Have rows tried again where budgets changed."""
        if results.budgets == cluster.budget_log.version:
            return
        changed = cluster.budget_log.since(results.budgets)
        rows = np.flatnonzero(results.states == HELPS)
        namespaces = set() if changed is None else {namespace for namespace, _ in changed}
        if changed is not None and len(namespaces) <= _NAMESPACES:
            rows = rows[_with_pods_of(namespaces, cluster)[rows]]
        results.again(rows.tolist())

    def name_ranks(self, nodes: Nodes) -> NDArray[np.intp]:
        """The place of each row in the order of names, right for nodes that exist."""
        state = (nodes.label_changes, nodes.rows)
        if self._ranks is None or self._ranks[0] is not nodes or self._ranks[1] != state:
            names = nodes.names
            ranks = np.empty(nodes.rows, dtype=np.intp)
            ranks[sorted(range(nodes.rows), key=lambda row: names[row] or "")] = np.arange(nodes.rows)
            self._ranks = nodes, state, ranks
        return self._ranks[2]


def _rows_ahead(pod: Pod, cluster: Cluster) -> list[tuple[int, list[Pod]]]:
    """(row, nominated pods that are not placed and that the pod has to yield to)."""
    found = []
    for name, pods in cluster.nominations.ahead_of(pod):
        row = cluster.nodes.live_row(name)
        if row is not None:
            found.append((row, [other for other in pods if cluster.placement(other.uid) is None]))
    return found


def _with_pods_of(namespaces: Iterable[str], cluster: Cluster) -> Bools:
    """bool[rows]: which have a pod of one of these namespaces, however often their budgets are written."""
    rows = cluster.nodes.rows
    there: Bools = np.zeros(rows, dtype=np.bool_)
    for namespace in namespaces:
        there |= cluster.affinity.on_rows(namespace, EVERYTHING, leaving=True).by_row(rows) > 0
    return there
