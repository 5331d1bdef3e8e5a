"""Dry runs of preemption: the nodes on which it helps, and the victims there.

Upstream: framework/preemption and defaultpreemption (SelectVictimsOnNode).

Many nodes are tried at a time, by the amounts that their pods take; filters that look beyond one node subtract the pods
that are gone (`RemovedPods`). All filters are asked only about what neither can decide. Results that depend on the
preemptor's shape and one row are kept: the next of many equal preemptors tries only the rows that changed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, islice

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster, Placement
from podberth.cache.column import Bools, Ints
from podberth.cache.kept_results import Bounded
from podberth.cache.nodes import Nodes, capped
from podberth.cache.search_steps import CappedSearch, SearchCapError
from podberth.framework.decision import Rejected, Rows
from podberth.framework.interface import Filters, RemovedPods, Spare
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.volumes import NO_VOLUMES
from podberth.plugins.default_preemption.candidates import (
    FAILS,
    SPARED,
    TODO,
    WITHOUT_VICTIMS,
    DryRunResults,
    Together,
    Whole,
    WholeGroups,
)
from podberth.plugins.default_preemption.victims import Budgets, Drawn, Priorities

AT_ONCE = 5_000
"""The number of victims that are tried together by arrays: a batch costs 0.15 ms beside its rows."""
_HELD_AT_ONCE = 100
"""The number of pods of a group that are held against the budgets before the steps that this took are counted."""
_ONE_BY_ONE = 2
"""Up to so many rows, plain integers are quicker than arrays."""
_A_ROW, _A_VICTIM, _A_WHOLE, _A_CHANGE, _A_MOVE = 4, 1, 12, 4, 20
"""Steps of a row, of a victim on it, of one that may be a group, and of a pod that is taken away and given back: from
what it uses of its node alone, and from all counts."""
_ASKED, _ROWS_A_STEP = 40, 100
"""Steps of asking the filters, and one more for so many rows."""


class Known:
    """The facts about placed pods that dry runs share, whoever preempts."""

    def __init__(self) -> None:
        self.priorities = Priorities()
        self.budgets = Budgets()
        self.whole_groups = WholeGroups()
        self.tried = 0
        """A row was tried so many times."""

    def follow(self, cluster: Cluster) -> None:
        """Bring them up to date."""
        self.priorities.follow(cluster)
        self.budgets.follow(cluster)
        self.whole_groups.make_room()

    def violations(self, victims: Sequence[Whole], cluster: Cluster, steps: CappedSearch) -> list[int]:
        """Return for each of these how many of its pods would overdraw a disruption budget. Raises SearchCapError.

        A group may have thousands of pods, each of which draws on hundreds of budgets.
        """
        found = [0] * len(victims)
        drawn: Drawn = {}
        for i, one in enumerate(victims if self.budgets.any else ()):
            pods = [placement.pod for placement in one.everywhere]
            for begin in range(0, len(pods), _HELD_AT_ONCE):
                before = self.budgets.steps
                some = pods[begin : begin + _HELD_AT_ONCE]
                found[i] += sum(self.budgets.overdrawing(some, cluster, drawn) or ())
                steps.take(self.budgets.steps - before)
        return found


class Batch:
    """Some rows to try, and the pods that may be preempted there, the most important first."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.numbers: list[int] = []
        """For each of `rows`, how many of `placements` are its own."""
        self.placements: list[Placement] = []
        """Of lower priority, row after row."""
        self.over: list[list[bool] | None] = []
        """For each of `rows`, which of these evictions would overdraw a budget; None: none would."""
        self.whole: list[Whole] = []
        """The victims on the only row, if groups go as a whole there; in place of `placements`."""
        self.held_against_budgets = 0
        """Steps that this took."""
        self.apart = False
        """These rows have to be tried one after the other: what leaves one of them may change the verdict on another,
        and not all filters can tell how."""

    def add(
        self, rows: list[int], numbers: list[int], placements: list[Placement], over: list[list[bool] | None]
    ) -> None:
        """Add some rows."""
        self.rows += rows
        self.numbers += numbers
        self.placements += placements
        self.over += over

    def full(self) -> Iterator["Batch"]:
        """Yield the first rows with `AT_ONCE` victims, again and again, and keep the rest: nothing is held against
        budgets.
        """
        while len(self.placements) >= AT_ONCE:
            ends = list(accumulate(self.numbers))
            rows = bisect_left(ends, AT_ONCE) + 1
            first = Batch()
            first.add(self.rows[:rows], self.numbers[:rows], self.placements[: ends[rows - 1]], self.over[:rows])
            del self.rows[:rows], self.numbers[:rows], self.placements[: ends[rows - 1]], self.over[:rows]
            yield first

    def lower(self) -> Iterator[list[Placement]]:
        """Yield for each of `rows` its placements."""
        placements = iter(self.placements)
        return (list(islice(placements, number)) for number in self.numbers)

    def one_by_one(self) -> Iterator["Batch"]:
        """Yield a batch for each row, if they have to be tried one after the other."""
        if self.whole or not self.apart:
            yield self
            return
        for row, number, lower, over in zip(self.rows, self.numbers, self.lower(), self.over, strict=True):
            one = Batch()
            one.add([row], [number], lower, [over])
            one.apart = True
            yield one

    def removed(self) -> RemovedPods:
        """Return its pods, all of them gone."""
        owners = np.repeat(np.arange(len(self.rows)), self.numbers)
        return RemovedPods(np.array(self.rows), self.placements, owners)


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
        """For each of `lower`, the number of its pods that overdraw a budget."""
        self.failed = False
        self._order = list(range(len(lower)))
        if over is not None:
            self._order.sort(key=lambda i: not over[i])
        self._taken = taken
        self._needs = needs
        self._free = [left + sum(amounts) for left, *amounts in zip(free, *taken, strict=True)]

    def fits(self) -> bool:
        """Return whether the pod fits by the amounts."""
        return all(left >= need for left, need in zip(self._free, self._needs, strict=True))

    def at(self, step: int) -> Placement | Whole:
        """Return what is to be put back at a step."""
        return self.lower[self._order[step]]

    def give_back(self, step: int) -> bool:
        """Put one pod back, and return True; return False if the amounts say that it has to go: then it is a victim."""
        i = self._order[step]
        before = self._free
        self._free = [left - amount for left, amount in zip(before, self._taken[i], strict=True)]
        if self.fits():
            return True
        self._free = before
        self.victims.append(i)
        return False

    def take_back(self, step: int) -> None:
        """Take one pod away that was given back: it has to go after all."""
        i = self._order[step]
        self._free = [left + amount for left, amount in zip(self._free, self._taken[i], strict=True)]
        self.victims.append(i)


class DryRun:
    """One call of `DryRuns.find`: tries the rows that are still to be tried, and picks one."""

    def __init__(
        self,
        known: Known,
        results: DryRunResults,
        pod: Pod,
        cluster: Cluster,
        filters: Filters,
        ahead: dict[int, list[Pod]],
        steps: CappedSearch,
        *,
        lasting: bool,
    ) -> None:
        """`ahead`: row → nominated pods to which the pod yields there. `lasting`: results hold for all equal pods, as
        no filter looks elsewhere, and verdicts on a row depend on the pod's shape and that row only."""
        self._steps = steps
        self._known = known
        self._results = results
        self._pod = pod
        self._cluster = cluster
        self._filters = filters
        self._lasting = lasting
        self._codes: dict[PodShape, int] = {}
        """A number for each shape of placed pods."""
        self._takes: list[list[int]] = []
        """The amounts that placed pods take, by the code of their shape."""
        self._ahead = ahead

    @cached_property
    def _spare(self) -> Spare:
        """The amounts of the pod and of the rows, made when a row has to be tried at all."""
        return self._filters.spare(self._pod, self._cluster)

    # -- what to try ---------------------------------------------------------------------------------------------

    def search(self, rows: Bools, at_most: int) -> None:
        """Try what is still to be tried. Raises SearchCapError.

        `at_most`: how many candidates are enough where results are not kept for the next pod.
        """
        results = self._results
        todo = np.flatnonzero((results.states[: len(rows)] == TODO) & rows)
        nobody = self._known.priorities.none_below(todo, self._pod.priority, self._cluster)
        results.note(todo[nobody], WITHOUT_VICTIMS)
        exact = self._filters.goes_by_shape(self._pod) and len(todo) > 0 and self._spare.exact
        for batch in self._batches(todo[~nobody]):
            self._steps.take(batch.held_against_budgets)
            for some in batch.one_by_one():
                if not self._lasting and len(results.helpful(rows)) >= at_most:
                    return
                beyond = self._cluster.nodes.any_beyond(some.rows)  # what is free there is less than columns say
                self._try(some, exact=exact and not (some.apart or beyond))

    def explain(self, rows: Bools) -> None:
        """Find out why the pod does not fit the rows where removing all victims does not help.

        Raises SearchCapError.
        """
        for batch in self._batches(self._results.unexplained(rows)):
            for some in batch.one_by_one():
                placements = self._moved(some)
                self._count(placements, -1, apart=some.apart)
                try:
                    _, rejected = self._asked(some.rows, self._removed(some))
                finally:
                    self._count(placements, 1, apart=some.apart)
                self._results.explain(some.rows, rejected)
                self._steps.take(self._price(some, 1))

    def _batches(self, todo: Rows) -> Iterator[Batch]:
        """Yield these rows in parts, and note those that have nobody to preempt.

        Rows for which other pods are nominated come last if a filter looks elsewhere.
        """
        yielding = np.isin(todo, list(self._ahead) if not self._lasting else [])
        for some in (todo[~yielding], todo[yielding]):
            for batch in self._gathered(some) if len(some) else ():
                batch.apart = self._apart(batch)
                yield batch

    def _gathered(self, todo: Rows) -> Iterator[Batch]:
        known, cluster, priority = self._known, self._cluster, self._pod.priority
        groups, budgets = bool(len(cluster.pod_groups)), known.budgets
        found = Batch()
        before = np.cumsum(cluster.nodes.pods[todo]) - cluster.nodes.pods[todo]
        for some in np.split(todo, np.flatnonzero(np.diff(before // AT_ONCE)) + 1):
            rows, numbers, placements = known.priorities.below(some, priority, cluster)
            self._results.note(np.setdiff1d(some, rows, assume_unique=True), WITHOUT_VICTIMS)
            if not (groups or budgets.any):
                found.add(rows, numbers, placements, [None] * len(rows))
                yield from found.full()
                continue
            end = 0
            for row, number in zip(rows, numbers, strict=True):
                begin, end = end, end + number
                lower, over = placements[begin:end], None
                whole = known.whole_groups.of_row(lower, cluster) if groups else None
                if whole is not None:
                    alone = Batch()
                    alone.rows, alone.whole = [row], whole
                    yield alone
                    continue
                if budgets.any:
                    steps = budgets.steps
                    over = budgets.overdrawing([placement.pod for placement in lower], cluster)
                    found.held_against_budgets += budgets.steps - steps
                found.add([row], [number], lower, [over])
                if len(found.placements) + found.held_against_budgets >= AT_ONCE:
                    yield found
                    found = Batch()
        if found.rows:
            yield found

    def _try(self, batch: Batch, *, exact: bool) -> None:
        """Try the rows of a batch at a time. `exact`: amounts alone decide."""
        self._known.tried += len(batch.rows)
        asked = 0
        if batch.whole:
            asked = self._try_whole(batch, ask_filters=not exact)
        elif exact and (len(batch.rows) > _ONE_BY_ONE or not self._lasting):
            self._try_together(batch)
        else:
            asked = self._try_each(batch, ask_filters=not exact)
        self._steps.take(self._price(batch, asked))

    def _price(self, batch: Batch, asked: int) -> int:
        """Steps that it took to try a batch, when filters were asked so many times."""
        tried = _A_ROW * len(batch.rows) + _A_WHOLE * len(batch.whole) + _A_VICTIM * len(batch.placements)
        if not asked:
            return tried
        moves = len(self._moved(batch))
        tried += (_A_MOVE if batch.apart or not self._filters.go_by_usage else _A_CHANGE) * moves
        return tried + asked * (_ASKED + self._cluster.nodes.rows // _ROWS_A_STEP)

    def _moved(self, batch: Batch) -> list[Placement]:
        """Return the pods that are taken away to try a batch."""
        whole = (_pods_of(victim, apart=batch.apart) for victim in batch.whole)
        return [*batch.placements, *chain.from_iterable(whole)]

    def _apart(self, batch: Batch) -> bool:
        """Return whether these rows have to be tried one after the other.

        Filters can tell what the removal of pods changes where these are on the row itself, and no nominated pods are
        to be added.
        """
        if self._lasting:
            return False
        if not self._filters.go_by_usage:
            return True
        victims = [placement.pod for placement in batch.placements]
        victims += [one.pod for whole in batch.whole for one in whole.everywhere]
        here = not batch.whole and self._ahead.keys().isdisjoint(batch.rows)
        return self._filters.looks_elsewhere(self._pod, self._cluster, victims, removed=here)

    def _removed(self, batch: Batch) -> RemovedPods | None:
        """Return the pods of a batch, all of them gone, for filters that look at other rows, too; None: none does."""
        return None if self._lasting or batch.apart or batch.whole else batch.removed()

    # -- by sums -------------------------------------------------------------------------------------------------

    def _coded(self, placements: Sequence[Placement]) -> list[int]:
        """Return the codes of placed pods' shapes, as in `_takes`."""
        shapes = [placement.pod.shape for placement in placements]
        for shape in set(shapes).difference(self._codes):
            self._codes[shape] = len(self._codes)
            self._takes.append(self._spare.takes(shape))
        return list(map(self._codes.__getitem__, shapes))

    def _free(self, rows: list[int]) -> Ints:
        """Return what is left on these rows beside the nominated pods that the pod has to yield to."""
        free = self._spare.free(np.array(rows))
        if self._ahead:
            for i, row in enumerate(rows):
                others = self._ahead.get(row)
                if others:
                    each = [self._spare.takes(other.shape) for other in others]
                    free[:, i] -= [max(capped(sum(amounts)), 0) for amounts in zip(*each, strict=True)]
        return free

    def _try_together(self, batch: Batch) -> None:
        """Take all victims away; where the pod then fits, give back one by one whoever need not go."""
        spare, results = self._spare, self._results
        rows, counts, placements = np.array(batch.rows), np.array(batch.numbers), batch.placements
        codes = np.fromiter(self._coded(placements), np.intp, len(placements))
        taken = np.array(self._takes, dtype=np.int64).T.take(codes, axis=1)
        begins = np.cumsum(counts) - counts
        needs = spare.needs[:, np.newaxis]
        free = self._free(batch.rows) + np.add.reduceat(taken, begins, axis=1)
        fits = (free >= needs).all(axis=0) & spare.allowed[rows]
        removed = self._removed(batch)
        if removed is not None:
            fits = self._fit_elsewhere(rows, fits, removed, explain=True)
        order, violating = _order_of(batch, begins, len(placements))
        going = np.zeros(len(placements), dtype=np.bool_)
        left = np.flatnonzero(fits)
        step = 0
        while len(left := left[counts[left] > step]):
            back = order[begins[left] + step]
            after = free.take(left, axis=1) - taken.take(back, axis=1)
            stays = (after >= needs).all(axis=0)
            if removed is not None:
                removed.gone[back[stays]] = False
                stays = self._fit_elsewhere(rows[left], stays, removed)
                removed.gone[back[~stays]] = True
            free[:, left[stays]] = after[:, stays]
            going[back[~stays]] = True
            step += 1
        results.note(rows[~fits], FAILS)
        victims = np.flatnonzero(going)
        owners = np.repeat(np.arange(len(rows)), counts)[victims]
        helped, first = np.unique(owners, return_index=True)
        results.note(rows[fits], SPARED)
        if len(helped):
            violations = np.bincount(owners, weights=violating[victims], minlength=len(rows))[helped].astype(np.int64)
            results.helps_on_rows(rows[helped], list(compress(placements, going.tolist())), first, violations)

    def _fit_elsewhere(self, rows: Rows, fits: Bools, removed: RemovedPods, *, explain: bool = False) -> Bools:
        """Return which of these rows the pod fits by the filters that look elsewhere, too.

        `fits`: which it fits by all others. `explain`: note why the pod does not fit the rest of them.
        """
        among = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        among[rows] = fits
        passed, rejected = self._filters.passing_removed(self._pod, self._cluster, among, removed)
        if explain:
            self._results.explain(np.flatnonzero(among & ~passed), rejected)
        return passed[rows]

    # -- with the filters' help ----------------------------------------------------------------------------------

    def _try_whole(self, batch: Batch, *, ask_filters: bool) -> int:
        """Do what `_try_each` does on a row with pods of groups that go as a whole, from other rows as well."""
        (row,), victims, spare = batch.rows, batch.whole, self._spare
        over = self._known.violations(victims, self._cluster, self._steps)
        taken = []
        for victim in victims:
            if victim.key is not None:
                self._results.goes_by(victim.key, row)
            each = [self._takes[code] for code in self._coded(victim.here)]
            taken.append([sum(amounts) for amounts in zip(*each, strict=True)])
        free = self._free([row])[:, 0].tolist()
        one = NodeDryRun(row, victims, list(map(bool, over)), taken, free, spare.needs.tolist())
        if not (spare.allowed[row] and one.fits()):
            self._results.note([row], FAILS)
            return 0
        one.violations = over
        asked = self._ask_about([one], batch) if ask_filters else _all_give_back([one])
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
        """Do what `_try_together` does, with plain integers. `ask_filters`: about whatever sums can't tell.

        Returns how often they were asked.
        """
        spare, results = self._spare, self._results
        needs = spare.needs.tolist()
        tried, gathered = [], []
        columns = self._free(batch.rows).T.tolist()
        for row, lower, over, column in zip(batch.rows, batch.lower(), batch.over, columns, strict=True):
            taken = [self._takes[code] for code in self._coded(lower)]
            one = NodeDryRun(row, lower, over, taken, column, needs)
            if spare.allowed[one.row] and one.fits():
                one.violations = [0] * len(lower) if over is None else [int(flag) for flag in over]
                tried.append(one)
                gathered.append(lower)
            else:
                results.note([one.row], FAILS)
        asked = self._ask_about(tried, batch) if ask_filters else _all_give_back(tried)
        for i, one in enumerate(tried):
            lower = gathered[i]
            self._note(one, [Together([lower[k] for k in sorted(one.victims)])] if one.victims else [])
        return asked

    def _ask_about(self, tried: list["NodeDryRun"], batch: Batch) -> int:
        """Carry out some dry runs of a batch, asking the filters about all of their rows at a time."""
        if not tried:
            return 0
        lifted: dict[str, Placement] = {}
        removed = self._removed(batch)
        places = {} if removed is None else {one.pod.uid: i for i, one in enumerate(batch.placements)}

        def move(victims: Iterable[Placement | Whole], sign: int) -> None:
            """Take victims away (-1) or give them back (1)."""
            placements = [one for victim in victims for one in _pods_of(victim, apart=batch.apart)]
            self._count(placements, sign, apart=batch.apart)
            for placement in placements:
                if sign < 0:
                    lifted[placement.pod.uid] = placement
                else:
                    del lifted[placement.pod.uid]
            if removed is not None:
                removed.gone[[places[one.pod.uid] for one in placements]] = sign < 0

        try:
            move([victim for one in tried for victim in one.lower], -1)
            fits, rejected = self._asked([one.row for one in tried], removed)
            asked = 1
            for one in tried:
                one.failed = not fits[one.row]
            failed = [one.row for one in tried if one.failed]
            self._results.explain(failed, rejected)
            going = [one for one in tried if not one.failed]
            for step in range(max((len(one.lower) for one in going), default=0)):
                back = [one for one in going if step < len(one.lower) and one.give_back(step)]
                if not back:
                    continue
                move([one.at(step) for one in back], 1)
                fits, _ = self._asked([one.row for one in back], removed)
                asked += 1
                again = [one for one in back if not fits[one.row]]
                move([one.at(step) for one in again], -1)
                for one in again:
                    one.take_back(step)
        finally:
            self._count(list(lifted.values()), 1, apart=batch.apart)
        return asked

    def _asked(self, rows: list[int], removed: RemovedPods | None) -> tuple[Bools, list[Rejected]]:
        """Return what the filters say of these rows."""
        among = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        among[rows] = True
        return self._filters.passing(self._pod, self._cluster, among, trying=True, removed=removed)

    def _count(self, placements: list[Placement], sign: int, *, apart: bool) -> None:
        """Take placed pods away (-1) or give them back (1).

        Unless rows are tried one after the other, or filters look at pods, that is what they use of their nodes,
        volumes included.
        """
        cluster = self._cluster
        if apart or not self._filters.go_by_usage:
            for placement in placements:
                (cluster.leave_out if sign < 0 else cluster.put_back)(placement)
            return
        cluster.nodes.suppose_all([(placement.row, placement.pod.shape) for placement in placements], sign)
        for placement in placements:
            if placement.pod.shape.volumes is not NO_VOLUMES:
                cluster.storage.suppose(placement.pod, placement.row, sign)


def _pods_of(victim: Placement | Whole, *, apart: bool) -> list[Placement]:
    """Return the pods of a victim that are taken away where filters are asked: the others are of no account to them."""
    if not isinstance(victim, Whole):
        return [victim]
    return victim.everywhere if apart else victim.here


def _all_give_back(tried: list[NodeDryRun]) -> int:
    """Carry out dry runs that the amounts decide alone. Returns how often filters were asked: never."""
    for one in tried:
        for step in range(len(one.lower)):
            one.give_back(step)
    return 0


def _order_of(batch: Batch, begins: NDArray[np.intp], size: int) -> tuple[Rows, Bools]:
    """Return (the order in which placements are given back, row by row, those that overdraw a budget first; which of
    them do).
    """
    order = np.arange(size)
    violating = np.zeros(size, dtype=np.bool_)
    for begin, over in zip(begins.tolist(), batch.over, strict=True):
        if over is not None:
            flags = np.array(over)
            violating[begin : begin + len(over)] = flags
            order[begin : begin + len(over)] = begin + np.argsort(~flags, kind="stable")
    return order, violating


MOST_STEPS = 300_000
"""Steps that the search for victims of one pod may take. What it has found by then counts."""
_KEPT_MOST = 16


class DryRuns:
    """The dry runs of all pods."""

    def __init__(self) -> None:
        self._kept: Bounded[tuple[PodShape, int], DryRunResults] = Bounded(_KEPT_MOST)
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
        if not cluster.has_below(pod.priority):
            results = DryRunResults(pod, cluster.nodes)
            results.note(np.flatnonzero(rows), WITHOUT_VICTIMS)
            return results, None, ""
        self.known.follow(cluster)
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

    def _results(self, pod: Pod, cluster: Cluster, ahead: dict[int, list[Pod]]) -> DryRunResults:
        """Return the results for pods of this shape and priority, up to date.

        `ahead`: row → nominated pods that come before them.
        """
        key = (pod.shape, pod.priority)
        results = self._kept.recall(key)
        if results is None:
            results = DryRunResults(pod, cluster.nodes)
            if not pod.shape.heavy:
                self._kept.keep(key, results)
        results.follow(cluster, ahead)
        return results

    def name_ranks(self, nodes: Nodes) -> NDArray[np.intp]:
        """Return the place of each row in the order of names, right for nodes that exist."""
        state = (nodes.label_changes, nodes.rows)
        if self._ranks is None or self._ranks[0] is not nodes or self._ranks[1] != state:
            names = [name or "" for name in nodes.names]
            ranks = np.empty(nodes.rows, dtype=np.intp)
            ranks[sorted(range(nodes.rows), key=names.__getitem__)] = np.arange(nodes.rows)
            self._ranks = nodes, state, ranks
        return self._ranks[2]


def _rows_ahead(pod: Pod, cluster: Cluster) -> list[tuple[int, list[Pod]]]:
    """Return (row, nominated pods that are not placed and that the pod has to yield to)."""
    found = []
    for name, pods in cluster.nominations.ahead_of(pod):
        row = cluster.nodes.live_row(name)
        if row is not None:
            found.append((row, [other for other in pods if cluster.placement(other.uid) is None]))
    return found
