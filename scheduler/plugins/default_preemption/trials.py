"""Upstream: framework/preemption and defaultpreemption (SelectVictimsOnNode): where preemption helps, and with whom.

Nodes are tried many at a time, by sums of what their pods take. Only what sums can't tell is asked of the filters, and
where what happens on one node can change the verdict on another (affinity, spread), one node after the other. All that
is found is kept by row, so an attempt that used up its slice goes on where it was, and the next of many equal
preemptors tries only the rows that changed.
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
from scheduler.plugins.default_preemption.findings import FAILS, HELPS, SPARED, TODO, WITHOUT_VICTIMS, Findings
from scheduler.plugins.default_preemption.importance import Ranking
from scheduler.plugins.default_preemption.rows_on_trial import Gathered, Trial, all_give_back, order_of
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes

_KEPT_MOST = 16
_CHUNK = 1000
"""Steps after which rows are tried and kept; what is gathered of them is lost when the slice ends before."""
_CHUNK_PLAIN = 64
"""Victims, where filters are asked."""
_DELAYS = 3
"""Rows are tried again for changed budgets so many times; after that, only the one that is chosen."""
_ONE_BY_ONE = 2
"""Up to so many rows, plain integers are quicker than arrays."""


class Trials:
    """What trying gave, kept from attempt to attempt."""

    def __init__(self) -> None:
        self._kept: dict[object, Findings] = {}
        self._ranking = Ranking()
        self.budgets = Budgets()
        self._ranks: tuple[Nodes, tuple[int, int], NDArray[np.intp]] | None = None
        self.tried = 0
        """How often a row was tried."""

    def find(
        self, pod: Pod, cluster: Cluster, filters: Filters, rows: Bools, at_most: int
    ) -> tuple[Findings, int | None]:
        """What trying the given rows gives, and the row to preempt on: None where it helps on none.

        `at_most`: how many candidates are enough where nodes have to be tried one by one. Raises SliceOver.
        """
        self._ranking.renew(cluster)
        self.budgets.renew(cluster)
        lasting = filters.goes_by_shape(pod) and not filters.looks_elsewhere(pod, cluster, ())
        key = (pod.shape, pod.priority) if lasting else pod.uid
        ahead = dict(_rows_ahead(pod, cluster)) if rows.any() else {}
        findings = self._findings(key, pod, cluster, ahead, lasting=lasting)
        attempt = _Attempt(self, findings, pod, cluster, filters, ahead, lasting=lasting)
        attempt.go_on(rows, at_most)
        chosen = attempt.choose(rows)
        if chosen is None:
            attempt.explain(rows)
        findings.complete, findings.delays = True, 0
        if not lasting or pod.shape.heavy:
            del self._kept[key]
        return findings, chosen

    def _findings(
        self, key: object, pod: Pod, cluster: Cluster, pods_ahead: dict[int, list[Pod]], *, lasting: bool
    ) -> Findings:
        """What is known for a pod, up to date. `pods_ahead`: row → nominated pods that it has to yield to."""
        findings = self._kept.pop(key, None)
        nodes = cluster.nodes
        ahead = {row: tuple([other.uid for other in pods]) for row, pods in pods_ahead.items()}
        changed = None
        if findings is not None and findings.nodes is nodes and (lasting or _same(findings.pod, pod)):
            changed = nodes.log.since(findings.version)
        if findings is None or changed is None:
            findings = Findings(pod, nodes)
        else:
            findings.grow(nodes.rows)
            moved = ahead.keys() | findings.ahead.keys()
            findings.again(changed | {row for row in moved if ahead.get(row) != findings.ahead.get(row)})
            if not lasting:
                findings.unsure |= findings.states != TODO
            self._heed_budgets(findings, cluster)
        findings.version, findings.ahead, findings.budgets = nodes.log.version, ahead, cluster.budget_log.version
        findings.complete = False
        self._make_room()
        self._kept[key] = findings
        return findings

    def _heed_budgets(self, findings: Findings, cluster: Cluster) -> None:
        """Have the rows tried again where budgets changed: whoever changes them all the time can't hold anybody up."""
        if findings.budgets == cluster.budget_log.version:
            return
        changed = cluster.budget_log.since(findings.budgets)
        rows = np.flatnonzero(findings.states == HELPS).tolist()
        if changed is not None:
            namespaces = {namespace for namespace, _ in changed}
            priority = findings.pod.priority
            below = self._ranking.below
            rows = [row for row in rows if any(p.pod.namespace in namespaces for p in below(row, priority, cluster))]
        if not findings.complete:
            findings.delays += 1
        if findings.delays > _DELAYS:
            findings.unsure[rows] = True
        else:
            findings.again(rows)

    def _make_room(self) -> None:
        """Forget what is complete, the oldest first; then of what is not, the newest, so that some get to their end."""
        while len(self._kept) >= _KEPT_MOST:
            complete = (key for key, findings in self._kept.items() if findings.complete)
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


class _Attempt:
    """One call of `Trials.find`."""

    def __init__(
        self,
        trials: Trials,
        findings: Findings,
        pod: Pod,
        cluster: Cluster,
        filters: Filters,
        ahead: dict[int, list[Pod]],
        *,
        lasting: bool,
    ) -> None:
        self._trials = trials
        self._findings = findings
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
        findings, effort = self._findings, self._cluster.effort
        while True:
            todo = np.flatnonzero((findings.states[: len(rows)] == TODO) & rows)
            if not len(todo):
                return
            steps, apart = self._advance(todo)
            effort.charge(steps)
            if apart and len(findings.helpful(rows)) >= at_most:
                return

    def choose(self, rows: Bools) -> int | None:
        """The row to preempt on, which helps now whenever it was tried."""
        findings = self._findings
        while True:
            helpful = findings.helpful(rows)
            if not len(helpful):
                return None
            chosen = findings.pick(helpful, self._trials.name_ranks(self._cluster.nodes))
            if not findings.unsure[chosen]:
                return chosen
            findings.again((chosen,))
            steps, _ = self._advance(np.array([chosen]))
            if findings.states[chosen] == HELPS:
                # At what price does not matter: what was found is old, and to look for ever would help nobody.
                return chosen
            self._cluster.effort.charge(steps)

    def explain(self, rows: Bools) -> None:
        """Find out why the pod does not fit the rows where removing everybody does not help."""
        while True:
            todo = self._findings.unexplained(rows)
            if not len(todo):
                return
            gathered = self._gather(todo, plain=True)
            if not self._lasting and self._apart(gathered):
                gathered = gathered.first()
            placements = [placement for lower in gathered.lower for placement in lower]
            self._count(placements, -1)
            try:
                _, rejected = self._asked(gathered.rows)
            finally:
                self._count(placements, 1)
            self._findings.explain(gathered.rows, rejected)
            self._cluster.effort.charge(self._price(1, gathered))

    def _advance(self, todo: Rows) -> tuple[int, bool]:
        """Try some of these rows: (steps taken, whether they have to be tried one by one)."""
        before = self._trials.steps
        exact = self._lasting and self._spare.exact
        gathered = self._gather(todo, plain=not exact)
        apart = False
        if not exact and not self._lasting and self._apart(gathered):
            apart = True
            gathered = gathered.first()
        findings = self._findings
        findings.unsure[gathered.rows] = False
        findings.note(gathered.without, WITHOUT_VICTIMS)
        self._trials.tried += len(gathered.rows)
        asked = 0
        if not gathered.rows:
            pass
        elif exact and len(gathered.rows) > _ONE_BY_ONE:
            self._try_together(gathered)
        else:
            asked = self._try_each(gathered, plain=not exact)
        return self._price(asked, gathered) + self._trials.steps - before, apart

    def _price(self, asked: int, gathered: Gathered) -> int:
        """Steps that it took to try, when filters were asked so many times."""
        everywhere = 100 + self._cluster.nodes.rows // 10
        moved = 0 if not asked else gathered.victims if self._lasting else 20 * gathered.victims
        return 50 + len(gathered.without) + 2 * len(gathered.rows) + gathered.victims + asked * everywhere + moved

    def _apart(self, gathered: Gathered) -> bool:
        """Whether these rows have to be tried one after the other."""
        victims = (placement.pod for lower in gathered.lower for placement in lower)
        return self._filters.looks_elsewhere(self._pod, self._cluster, victims)

    def _gather(self, todo: Rows, *, plain: bool) -> Gathered:
        trials, cluster, priority = self._trials, self._cluster, self._pod.priority
        found = Gathered()
        before = trials.steps
        for row in todo[:_CHUNK].tolist():
            lower = trials.below(row, priority, cluster)
            if lower:
                over = trials.overdrawing(lower, cluster)
                found.rows.append(row)
                found.lower.append(lower)
                found.over.append(over)
                found.victims += len(lower)
            else:
                found.without.append(row)
            if found.victims + trials.steps - before >= _CHUNK or (plain and found.victims >= _CHUNK_PLAIN):
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

    def _try_together(self, gathered: Gathered) -> None:
        """Take all victims away; where the pod then fits, give back one by one whoever need not go."""
        spare, findings = self._spare, self._findings
        rows, counts = np.array(gathered.rows), np.array([len(lower) for lower in gathered.lower])
        placements = [placement for lower in gathered.lower for placement in lower]
        codes = self._coded(placements)
        taken = np.array(self._takes, dtype=np.int64).T[:, codes]
        begins = np.cumsum(counts) - counts
        needs = spare.needs[:, np.newaxis]
        free = self._free(gathered.rows) + np.add.reduceat(taken, begins, axis=1)
        fits = (free >= needs).all(axis=0) & spare.allowed[rows]
        order, violating = order_of(gathered, begins, len(placements))
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
        findings.note(rows[~fits], FAILS)
        victims = np.flatnonzero(going)
        owners = np.repeat(np.arange(len(rows)), counts)[victims]
        helped, first = np.unique(owners, return_index=True)
        fits[helped] = False
        findings.note(rows[fits], SPARED)
        if len(helped):
            violations = np.bincount(owners, weights=violating[victims], minlength=len(rows))[helped].astype(np.int64)
            findings.help(rows[helped], [placements[i] for i in victims.tolist()], first, violations)

    # -- with the filters' help ----------------------------------------------------------------------------------

    def _try_each(self, gathered: Gathered, *, plain: bool) -> int:
        """As `_try_together`, with plain integers; `plain`: ask the filters whatever sums can't tell.

        Returns how often they were asked.
        """
        spare, findings = self._spare, self._findings
        needs = spare.needs.tolist()
        tried = []
        for i, column in enumerate(self._free(gathered.rows).T.tolist()):
            lower, over = gathered.lower[i], gathered.over[i]
            taken = [self._takes[code] for code in self._coded(lower)]
            one = Trial(gathered.rows[i], lower, over, taken, column, needs)
            if spare.allowed[one.row] and one.fits():
                tried.append(one)
            else:
                findings.note([one.row], FAILS)
        asked = self._ask_about(tried) if plain else all_give_back(tried)
        for one in tried:
            if one.failed:
                findings.note([one.row], FAILS)
            elif not one.victims:
                findings.note([one.row], SPARED)
            else:
                victims = [one.lower[i] for i in sorted(one.victims)]
                findings.helps(one.row, victims, sum(one.over[i] for i in one.victims) if one.over else 0)
        return asked

    def _ask_about(self, tried: list["Trial"]) -> int:
        """Go through some trials, asking the filters about all of them at a time."""
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
            self._findings.explain(failed, rejected)
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
                (cluster.lift if sign < 0 else cluster.lower)(placement)


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
