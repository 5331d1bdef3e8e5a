"""Upstream: framework/preemption and defaultpreemption (SelectVictimsOnNode): where preemption helps, and with whom.

Many nodes are tried at a time, by the amounts that their pods take. Filters are asked only about what amounts can't
decide. Where one node can change the verdict on another (affinity, spread), nodes are tried one after the other. All
results are kept by row: an attempt that used up its slice goes on where it was, and the next of many equal preemptors
tries only the rows that changed.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.decision import Rejected, Rows
from scheduler.framework.plugin import Filters
from scheduler.framework.spare import Spare
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.plugins.default_preemption.budgets import Budgets
from scheduler.plugins.default_preemption.dry_run_results import (
    FAILS,
    HELPS,
    SPARED,
    TODO,
    WITHOUT_VICTIMS,
    DryRunResults,
)
from scheduler.plugins.default_preemption.importance import Ranking
from scheduler.plugins.default_preemption.victims import Batch, NodeDryRun, all_give_back, order_of
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes

_KEPT_MOST = 16
_CHUNK = 1000
"""Steps after which results are kept. If the slice ends earlier, the batch is gathered again."""
_CHUNK_PLAIN = 64
"""Victims, where filters are asked."""
_DELAYS = 3
"""How often rows are tried again because budgets changed; after that, only the chosen row is."""
_ONE_BY_ONE = 2
"""Up to so many rows, plain integers are quicker than arrays."""


class DryRuns:
    """The dry runs of all pods: their results are kept from attempt to attempt."""

    def __init__(self) -> None:
        self._kept: dict[object, DryRunResults] = {}
        self._ranking = Ranking()
        self.budgets = Budgets()
        self._ranks: tuple[Nodes, tuple[int, int], NDArray[np.intp]] | None = None
        self.tried = 0
        """How often a row was tried."""

    def find(
        self, pod: Pod, cluster: Cluster, filters: Filters, rows: Bools, at_most: int
    ) -> tuple[DryRunResults, int | None]:
        """The results on the given rows, and the row to preempt on; None if preemption helps on none.

        `at_most`: how many candidates are enough where nodes have to be tried one by one. Raises SliceOver.
        """
        self._ranking.renew(cluster)
        self.budgets.renew(cluster)
        lasting = filters.goes_by_shape(pod) and not filters.looks_elsewhere(pod, cluster, ())
        key = (pod.shape, pod.priority) if lasting else pod.uid
        ahead = dict(_rows_ahead(pod, cluster)) if rows.any() else {}
        results = self._results(key, pod, cluster, ahead, lasting=lasting)
        attempt = _DryRun(self, results, pod, cluster, filters, ahead, lasting=lasting)
        attempt.go_on(rows, at_most)
        chosen = attempt.choose(rows)
        if chosen is None:
            attempt.explain(rows)
        results.complete, results.delays = True, 0
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
        results.complete = False
        self._make_room()
        self._kept[key] = results
        return results

    def _heed_budgets(self, results: DryRunResults, cluster: Cluster) -> None:
        """Have rows tried again where budgets changed, but not without end if they change all the time."""
        if results.budgets == cluster.budget_log.version:
            return
        changed = cluster.budget_log.since(results.budgets)
        rows = np.flatnonzero(results.states == HELPS).tolist()
        if changed is not None:
            namespaces = {namespace for namespace, _ in changed}
            priority = results.pod.priority
            below = self._ranking.below
            rows = [row for row in rows if any(p.pod.namespace in namespaces for p in below(row, priority, cluster))]
        if not results.complete:
            results.delays += 1
        if results.delays > _DELAYS:
            results.unsure[rows] = True
        else:
            results.again(rows)

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

    def below(self, row: int, priority: int, cluster: Cluster) -> list[Placement]:
        """The placements of a row that may be preempted, the most important first."""
        return self._ranking.below(row, priority, cluster)

    def overdrawing(self, lower: list[Placement], cluster: Cluster) -> list[bool] | None:
        """For each of these, whether its eviction would overdraw a disruption budget; None: nobody's would."""
        if not self.budgets.any:
            return None
        return self.budgets.overdrawing([placement.pod for placement in lower], cluster)

    @property
    def steps(self) -> int:
        """Steps that were taken so far besides those that were charged."""
        return self.budgets.steps + self._ranking.steps


class _DryRun:
    """One call of `DryRuns.find`."""

    def __init__(
        self,
        dry_runs: DryRuns,
        results: DryRunResults,
        pod: Pod,
        cluster: Cluster,
        filters: Filters,
        ahead: dict[int, list[Pod]],
        *,
        lasting: bool,
    ) -> None:
        self._dry_runs = dry_runs
        self._results = results
        self._pod = pod
        self._cluster = cluster
        self._filters = filters
        self._lasting = lasting
        self._made: Spare | None = None
        self._codes: dict[PodShape, int] = {}
        self._takes: list[list[int]] = []
        """What placed pods take, by the code of their shape."""
        self._ahead = ahead

    @property
    def _spare(self) -> Spare:
        """Made when a row has to be tried at all."""
        if self._made is None:
            self._made = self._filters.spare(self._pod, self._cluster)
        return self._made

    # -- what to try ---------------------------------------------------------------------------------------------

    def go_on(self, rows: Bools, at_most: int) -> None:
        """Try what is still to be tried."""
        results, effort = self._results, self._cluster.effort
        while True:
            todo = np.flatnonzero((results.states[: len(rows)] == TODO) & rows)
            if not len(todo):
                return
            steps, apart = self._advance(todo)
            effort.charge(steps)
            if apart and len(results.helpful(rows)) >= at_most:
                return

    def choose(self, rows: Bools) -> int | None:
        """The row to preempt on, which helps now whenever it was tried."""
        results = self._results
        while True:
            helpful = results.helpful(rows)
            if not len(helpful):
                return None
            chosen = results.pick(helpful, self._dry_runs.name_ranks(self._cluster.nodes))
            if not results.unsure[chosen]:
                return chosen
            results.again((chosen,))
            steps, _ = self._advance(np.array([chosen]))
            if results.states[chosen] == HELPS:
                # Another row may be cheaper by now, but the results would be out of date again: searching has to end.
                return chosen
            self._cluster.effort.charge(steps)

    def explain(self, rows: Bools) -> None:
        """Find out why the pod does not fit the rows where removing all victims does not help."""
        while True:
            todo = self._results.unexplained(rows)
            if not len(todo):
                return
            batch = self._gather(todo, plain=True)
            if not self._lasting and self._apart(batch):
                batch = batch.first()
            placements = [placement for lower in batch.lower for placement in lower]
            self._count(placements, -1)
            try:
                _, rejected = self._asked(batch.rows)
            finally:
                self._count(placements, 1)
            self._results.explain(batch.rows, rejected)
            self._cluster.effort.charge(self._price(1, batch))

    def _advance(self, todo: Rows) -> tuple[int, bool]:
        """Try some of these rows: (steps taken, whether they have to be tried one by one)."""
        before = self._dry_runs.steps
        exact = self._lasting and self._spare.exact
        batch = self._gather(todo, plain=not exact)
        apart = False
        if not exact and not self._lasting and self._apart(batch):
            apart = True
            batch = batch.first()
        results = self._results
        results.unsure[batch.rows] = False
        results.note(batch.without, WITHOUT_VICTIMS)
        self._dry_runs.tried += len(batch.rows)
        asked = 0
        if not batch.rows:
            pass
        elif exact and len(batch.rows) > _ONE_BY_ONE:
            self._try_together(batch)
        else:
            asked = self._try_each(batch, plain=not exact)
        return self._price(asked, batch) + self._dry_runs.steps - before, apart

    def _price(self, asked: int, batch: Batch) -> int:
        """Steps that it took to try, when filters were asked so many times."""
        everywhere = 100 + self._cluster.nodes.rows // 10
        moved = 0 if not asked else batch.victims if self._lasting else 20 * batch.victims
        return 50 + len(batch.without) + 2 * len(batch.rows) + batch.victims + asked * everywhere + moved

    def _apart(self, batch: Batch) -> bool:
        """Whether these rows have to be tried one after the other."""
        victims = (placement.pod for lower in batch.lower for placement in lower)
        return self._filters.looks_elsewhere(self._pod, self._cluster, victims)

    def _gather(self, todo: Rows, *, plain: bool) -> Batch:
        dry_runs, cluster, priority = self._dry_runs, self._cluster, self._pod.priority
        found = Batch()
        before = dry_runs.steps
        for row in todo[:_CHUNK].tolist():
            lower = dry_runs.below(row, priority, cluster)
            if lower:
                over = dry_runs.overdrawing(lower, cluster)
                found.rows.append(row)
                found.lower.append(lower)
                found.over.append(over)
                found.victims += len(lower)
            else:
                found.without.append(row)
            if found.victims + dry_runs.steps - before >= _CHUNK or (plain and found.victims >= _CHUNK_PLAIN):
                break
        return found

    # -- by sums -------------------------------------------------------------------------------------------------

    def _coded(self, placements: Iterable[Placement]) -> list[int]:
        """The codes of placed pods' shapes."""
        shapes = [placement.pod.shape for placement in placements]
        for shape in set(shapes).difference(self._codes):
            self._codes[shape] = len(self._codes)
            self._takes.append(self._spare.takes(shape))
        return list(map(self._codes.__getitem__, shapes))

    def _free(self, rows: list[int]) -> Ints:
        """What is left on these rows beside the nominated pods that the pod has to yield to."""
        free = self._spare.free(np.array(rows))
        if self._ahead:
            for i, row in enumerate(rows):
                others = self._ahead.get(row)
                if others:
                    taken = np.sum([self._spare.takes(other.shape) for other in others], axis=0)
                    free[:, i] -= np.maximum(taken, 0)
        return free

    def _try_together(self, batch: Batch) -> None:
        """Take all victims away; where the pod then fits, give back one by one whoever need not go."""
        spare, results = self._spare, self._results
        rows, counts = np.array(batch.rows), np.array([len(lower) for lower in batch.lower])
        placements = [placement for lower in batch.lower for placement in lower]
        codes = self._coded(placements)
        taken = np.array(self._takes, dtype=np.int64).T[:, codes]
        begins = np.cumsum(counts) - counts
        needs = spare.needs[:, np.newaxis]
        free = self._free(batch.rows) + np.add.reduceat(taken, begins, axis=1)
        fits = (free >= needs).all(axis=0) & spare.allowed[rows]
        order, violating = order_of(batch, begins, len(placements))
        going = np.zeros(len(placements), dtype=np.bool_)
        left = np.flatnonzero(fits)
        step = 0
        while len(left := left[counts[left] > step]):
            back = order[begins[left] + step]
            after = free[:, left] - taken[:, back]
            stays = (after >= needs).all(axis=0)
            free[:, left[stays]] = after[:, stays]
            going[back[~stays]] = True
            step += 1
        results.note(rows[~fits], FAILS)
        victims = np.flatnonzero(going)
        owners = np.repeat(np.arange(len(rows)), counts)[victims]
        helped, first = np.unique(owners, return_index=True)
        fits[helped] = False
        results.note(rows[fits], SPARED)
        if len(helped):
            violations = np.bincount(owners, weights=violating[victims], minlength=len(rows))[helped].astype(np.int64)
            results.help(rows[helped], [placements[i] for i in victims.tolist()], first, violations)

    # -- with the filters' help ----------------------------------------------------------------------------------

    def _try_each(self, batch: Batch, *, plain: bool) -> int:
        """As `_try_together`, with plain integers; `plain`: ask the filters whatever sums can't tell.

        Returns how often they were asked.
        """
        spare, results = self._spare, self._results
        needs = spare.needs.tolist()
        tried = []
        for i, column in enumerate(self._free(batch.rows).T.tolist()):
            lower, over = batch.lower[i], batch.over[i]
            taken = [self._takes[code] for code in self._coded(lower)]
            one = NodeDryRun(batch.rows[i], lower, over, taken, column, needs)
            if spare.allowed[one.row] and one.fits():
                tried.append(one)
            else:
                results.note([one.row], FAILS)
        asked = self._ask_about(tried) if plain else all_give_back(tried)
        for one in tried:
            if one.failed:
                results.note([one.row], FAILS)
            elif not one.victims:
                results.note([one.row], SPARED)
            else:
                victims = [one.lower[i] for i in sorted(one.victims)]
                results.helps(one.row, victims, sum(one.over[i] for i in one.victims) if one.over else 0)
        return asked

    def _ask_about(self, tried: list["NodeDryRun"]) -> int:
        """Carry out some dry runs, asking the filters about all of their rows at a time."""
        if not tried:
            return 0
        lifted: dict[str, Placement] = {}

        def lift(placements: list[Placement]) -> None:
            self._count(placements, -1)
            lifted.update((placement.pod.uid, placement) for placement in placements)

        def lower(placements: list[Placement]) -> None:
            self._count(placements, 1)
            for placement in placements:
                del lifted[placement.pod.uid]

        try:
            lift([placement for one in tried for placement in one.lower])
            fits, rejected = self._asked([one.row for one in tried])
            asked = 1
            for one in tried:
                one.failed = not fits[one.row]
            failed = [one.row for one in tried if one.failed]
            self._results.explain(failed, rejected)
            going = [one for one in tried if not one.failed]
            for step in range(max((len(one.lower) for one in going), default=0)):
                back = [one for one in going if step < len(one.lower) and one.can_give_back(step)]
                if not back:
                    continue
                lower([one.at(step) for one in back])
                fits, _ = self._asked([one.row for one in back])
                asked += 1
                again = [one for one in back if not fits[one.row]]
                lift([one.at(step) for one in again])
                for one in again:
                    one.keep_away(step)
        finally:
            lower(list(lifted.values()))
        return asked

    def _asked(self, rows: list[int]) -> tuple[Bools, list[Rejected]]:
        """What the filters say of these rows."""
        among = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        among[rows] = True
        return self._filters.passing(self._pod, self._cluster, among)

    def _count(self, placements: list[Placement], sign: int) -> None:
        """Take placed pods away (-1) or give them back (1); where only their usage matters, in `nodes` alone."""
        cluster = self._cluster
        if self._lasting:
            cluster.nodes.suppose_all([(placement.row, placement.pod.shape) for placement in placements], sign)
        else:
            for placement in placements:
                (cluster.leave_out if sign < 0 else cluster.put_back)(placement)


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
