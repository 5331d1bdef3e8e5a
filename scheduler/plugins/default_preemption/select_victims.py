"""One dry run of preemption: on which nodes it helps, and with which victims (upstream: SelectVictimsOnNode).

Next stage: `scheduler.plugins.default_preemption.dry_run` keeps what is found here.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.decision import Rejected, Rows
from scheduler.framework.plugin import Filters
from scheduler.framework.spare import Spare
from scheduler.model.pod import Pod
from scheduler.model.pod_group import GroupKey
from scheduler.model.shape import PodShape
from scheduler.plugins.default_preemption.dry_run_results import (
    FAILS,
    HELPS,
    SPARED,
    TODO,
    WITHOUT_VICTIMS,
    DryRunResults,
)
from scheduler.plugins.default_preemption.in_copy import Answer, Victims
from scheduler.plugins.default_preemption.victims import (
    CHUNK,
    CHUNK_ASKED,
    Batch,
    NodeDryRun,
    all_give_back,
    gather_pods,
    order_of,
)
from scheduler.plugins.default_preemption.whole_groups import Together, Whole
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools, Ints

if TYPE_CHECKING:
    from scheduler.plugins.default_preemption.dry_run import DryRuns

_CHUNK_WHOLE = 500
"""As CHUNK, where pods of groups that go as a whole are among the victims: such rows are tried one by one."""
_ROWS_A_STEP = 256
"""Rows of which one step tells that nobody on them may be preempted, where that is known."""
_A_VICTIM = 12
"""Steps of a victim on a row with pods of groups that go as a whole: such rows are tried without arrays."""
MOVED_AT_ONCE = 250
"""Rows that need more pods to be taken away and given back are tried in a copy of the cluster."""
_ONE_BY_ONE = 2
"""Up to so many rows, plain integers are quicker than arrays."""


class DryRun:
    """One call of `DryRuns.find`: tries the rows that are still to be tried, and picks one."""

    def __init__(
        self,
        dry_runs: "DryRuns",
        results: DryRunResults,
        pod: Pod,
        cluster: Cluster,
        filters: Filters,
        ahead: dict[int, list[Pod]],
        *,
        lasting: bool,
    ) -> None:
        """`ahead`: row → nominated pods to which the pod yields there. `lasting`: results hold for all equal pods, as
        verdicts on a row depend on the pod's shape and that row only."""
        self._dry_runs = dry_runs
        self._results = results
        self._pod = pod
        self._cluster = cluster
        self._filters = filters
        self._lasting = lasting
        self._made: Spare | None = None
        """What `_spare` returns, once it is made."""
        self._codes: dict[PodShape, int] = {}
        """A number for each shape of placed pods."""
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
            nobody = self._dry_runs.ranking.none_below(todo, self._pod.priority, self._cluster)
            if nobody.any():
                results.note(todo[nobody], WITHOUT_VICTIMS)
                effort.charge(10 + len(todo) // _ROWS_A_STEP)
                continue
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
            batch = self._gather(todo, ask_filters=True)
            if not self._lasting and self._apart(batch):
                batch = batch.first()
            if batch.in_copy:
                for row, victims in batch.whole.items():
                    _, rejected = self._begin_in_copy(row, victims)[0]
                    self._results.explain([row], rejected)
                continue
            these = [*batch.rows, *batch.whole]
            apart = (one for some in batch.whole.values() for whole in some for one in self._move(whole))
            once = {id(one): one for one in chain((one for lower in batch.lower for one in lower), apart)}
            placements = list(once.values())
            self._count(placements, -1)
            try:
                _, rejected = self._asked(these)
            finally:
                self._count(placements, 1)
            self._results.explain(these, rejected)
            self._cluster.effort.charge(self._price(1, batch))

    def _advance(self, todo: Rows) -> tuple[int, bool]:
        """Try some of these rows: (steps taken, whether they have to be tried one by one)."""
        before = self._dry_runs.steps
        exact = self._lasting and self._spare.exact
        batch = self._gather(todo, ask_filters=not exact)
        apart = False
        if not exact and not self._lasting and self._apart(batch):
            apart = True
            batch = batch.first()
        results = self._results
        results.unsure[batch.rows] = False
        results.note(batch.without, WITHOUT_VICTIMS)
        self._dry_runs.tried += len(batch.rows) + len(batch.whole)
        asked = self._try_wholes(batch, ask_filters=not exact)
        if not batch.rows:
            pass
        elif exact and len(batch.rows) > _ONE_BY_ONE:
            self._try_together(batch)
        else:
            asked += self._try_each(batch, ask_filters=not exact)
        return self._price(asked, batch) + self._dry_runs.steps - before, apart

    def _price(self, asked: int, batch: Batch) -> int:
        """Steps that it took to try, when filters were asked so many times."""
        everywhere = 100 + self._cluster.nodes.rows // 10
        moved = 0 if not asked else batch.victims if self._lasting else 20 * batch.victims
        tried = 2 * len(batch.rows) + batch.victims + _A_VICTIM * batch.one_by_one
        return 50 + len(batch.without) + tried + asked * everywhere + moved

    def _apart(self, batch: Batch) -> bool:
        """Whether these rows have to be tried one after the other."""
        if self._filters.looks_elsewhere(self._pod, self._cluster, ()):
            return True
        victims = [placement.pod for lower in batch.lower for placement in lower]
        victims += [one.pod for some in batch.whole.values() for whole in some for one in whole.everywhere]
        return self._filters.looks_elsewhere(self._pod, self._cluster, victims)

    def _gather(self, todo: Rows, *, ask_filters: bool) -> Batch:
        dry_runs, cluster, priority = self._dry_runs, self._cluster, self._pod.priority
        found = Batch()
        before = dry_runs.steps
        groups = bool(len(cluster.pod_groups))
        if not groups and not dry_runs.budgets.any:
            return gather_pods(dry_runs, todo[:CHUNK].tolist(), priority, cluster, ask_filters=ask_filters)
        for row in todo[:CHUNK].tolist():
            lower = dry_runs.ranking.below(row, priority, cluster)
            whole = dry_runs.whole_groups.of_row(lower, cluster) if groups else None
            if whole is not None:
                moved = sum(len(self._move(one)) for one in whole)
                found.in_copy = ask_filters and not self._lasting and moved > MOVED_AT_ONCE
                found.whole[row] = whole
                found.victims += len(lower) if found.in_copy else moved
                found.one_by_one += len(whole)
            elif lower:
                over = dry_runs.overdrawing(lower, cluster)
                found.rows.append(row)
                found.lower.append(lower)
                found.over.append(over)
                found.victims += len(lower)
            else:
                found.without.append(row)
            steps = found.victims + _A_VICTIM * found.one_by_one + dry_runs.steps - before
            enough = steps >= CHUNK or (steps >= _CHUNK_WHOLE and bool(found.whole))
            if enough or (ask_filters and found.victims >= CHUNK_ASKED) or found.in_copy:
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
            results.helps_on_rows(rows[helped], [placements[i] for i in victims.tolist()], first, violations)

    # -- with the filters' help ----------------------------------------------------------------------------------

    def _try_wholes(self, batch: Batch, *, ask_filters: bool) -> int:
        """As `_try_each`, on rows with pods of groups that go as a whole, and then go from other rows as well."""
        spare, asked = self._spare if batch.whole else None, 0
        for row, victims in batch.whole.items():
            assert spare is not None
            over = self._dry_runs.violations(victims, self._cluster)
            taken = []
            for victim in victims:
                if isinstance(victim.key, GroupKey):
                    self._results.goes_by(victim.key, row)
                each = [self._takes[code] for code in self._coded(victim.here)]
                taken.append([sum(amounts) for amounts in zip(*each, strict=True)])
            free = self._free([row])[:, 0].tolist()
            one = NodeDryRun(row, victims, list(map(bool, over)), taken, free, spare.needs.tolist())
            if not (spare.allowed[row] and one.fits()):
                self._results.note([row], FAILS)
                continue
            one.violations = over
            # One after the other, since two rows may have pods of the same group.
            if batch.in_copy and row == next(reversed(batch.whole)):
                self._ask_in_copy(one, victims)
            else:
                asked += self._ask_about([one]) if ask_filters else all_give_back([one])
            self._note(one, [victims[i].together() for i in sorted(one.victims)])
        return asked

    def _note(self, one: NodeDryRun, victims: list[Together]) -> None:
        if one.failed:
            self._results.note([one.row], FAILS)
        elif not victims:
            self._results.note([one.row], SPARED)
        else:
            self._results.helps(one.row, victims, sum(one.violations[i] for i in one.victims))

    def _try_each(self, batch: Batch, *, ask_filters: bool) -> int:
        """As `_try_together`, with plain integers. `ask_filters`: about whatever sums can't tell.

        Returns how often they were asked.
        """
        spare, results = self._spare, self._results
        needs = spare.needs.tolist()
        tried, gathered = [], []
        for i, column in enumerate(self._free(batch.rows).T.tolist()):
            lower, over = batch.lower[i], batch.over[i]
            taken = [self._takes[code] for code in self._coded(lower)]
            one = NodeDryRun(batch.rows[i], lower, over, taken, column, needs)
            if spare.allowed[one.row] and one.fits():
                one.violations = [0] * len(lower) if over is None else [int(flag) for flag in over]
                tried.append(one)
                gathered.append(lower)
            else:
                results.note([one.row], FAILS)
        asked = self._ask_about(tried) if ask_filters else all_give_back(tried)
        for i, one in enumerate(tried):
            lower = gathered[i]
            self._note(one, [Together([lower[k] for k in sorted(one.victims)])] if one.victims else [])
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
            lift([placement for one in tried for victim in one.lower for placement in self._move(victim)])
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
                lower([placement for one in back for placement in self._move(one.at(step))])
                fits, _ = self._asked([one.row for one in back])
                asked += 1
                again = [one for one in back if not fits[one.row]]
                lift([placement for one in again for placement in self._move(one.at(step))])
                for one in again:
                    one.keep_away(step)
        finally:
            lower(list(lifted.values()))
        return asked

    def _begin_in_copy(self, row: int, victims: Sequence[Whole]) -> tuple[Answer, Victims]:
        """What the filters say of a row without any of these victims, and all pods that they are.

        Raises SliceOver; asked again, it gets further.
        """
        in_copy, going = self._dry_runs.in_copy, dict[Hashable, Sequence[Placement]]()
        going |= {some.key: some.everywhere for some in victims}
        here = tuple([one.pod.uid for some in victims for one in some.here])
        in_copy.begin(self._pod, self._cluster, self._filters, (row, here))
        return in_copy.ask(self._pod, row, 0, going), going

    def _ask_in_copy(self, one: NodeDryRun, victims: Sequence[Whole]) -> None:
        """As `_ask_about`, for one row, in a copy of the cluster."""
        in_copy, number = self._dry_runs.in_copy, 1
        (fits, rejected), going = self._begin_in_copy(one.row, victims)
        one.failed = not fits
        if one.failed:
            self._results.explain([one.row], rejected)
            return
        for step in range(len(one.lower)):
            if not one.can_give_back(step):
                continue
            back = one.at(step)
            assert isinstance(back, Whole)
            without = {key: pods for key, pods in going.items() if key != back.key}
            fits, _ = in_copy.ask(self._pod, one.row, number, without)
            number += 1
            if fits:
                going = without
            else:
                one.keep_away(step)

    def _asked(self, rows: list[int]) -> tuple[Bools, list[Rejected]]:
        """What the filters say of these rows."""
        among = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        among[rows] = True
        return self._filters.passing(self._pod, self._cluster, among, trying=True)

    def _move(self, victim: Placement | Whole) -> list[Placement]:
        """The pods of a victim that are taken away where filters are asked: the others are of no account to them."""
        if not isinstance(victim, Whole):
            return [victim]
        return victim.here if self._lasting else victim.everywhere

    def _count(self, placements: list[Placement], sign: int) -> None:
        """Take placed pods away (-1) or give them back (1); where only their usage matters, in `nodes` alone."""
        cluster = self._cluster
        if self._lasting:
            cluster.nodes.suppose_all([(placement.row, placement.pod.shape) for placement in placements], sign)
        else:
            for placement in placements:
                (cluster.leave_out if sign < 0 else cluster.put_back)(placement)
