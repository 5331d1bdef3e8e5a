"""Victims that can stay, once a pod group has found its nodes in a cluster without any of them.

Mirrors kube-scheduler `framework/preemption`: podgrouppreemption.go (selectVictimsOnDomain), types.go and util.go
(getCrossNodesVictims, FilterVictimsWithPDBViolation). One victim after the other is put back, and goes again if any
pod of the group does not fit its node any more. Pods of a group with `disruptionMode: all` go all together, or none of
them. Where the amounts on each node decide, they are compared by sums, and only victims on nodes of the group are
looked at.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from operator import attrgetter
from typing import TypeVar

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.groups import PodGroups
from podberth.framework.filters import FilterPlugins
from podberth.framework.interface import Spare
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.model.shape import PodShape
from podberth.plugins.default_preemption.victims import Budgets, Drawn, rank_of, started

_EVERYWHERE, _ROWS_A_STEP, _MOVED = 50, 50, 10
"""Steps of asking the filters about one row of how many rows in a step, and of placing a pod."""
_AT_ONCE = 64
"""Steps that are taken in one turn, or a few more; of a group that goes as a whole, so many pods are held against the
budgets in one go."""
_GATHERED, _SORTED, _HELD = 1_000, 2_000, 2_000
"""The number of pods that are gathered in one turn, of victims that are sorted, and the steps of holding victims
against budgets."""
_FILLED, _FILLING = 100, 20
"""The number of nodes whose sums are made in one turn, and the steps of each."""
_IMPORTANCE = attrgetter("importance")
Importance = tuple[int, int, int, str]
Found = TypeVar("Found")
Steps = Generator[int, None, Found]


class Victim(Struct, eq=False):
    """A pod, or the pods of a group, with the rows they are on."""

    pods: list[tuple[Pod, int]]
    priority: int
    """The priority of the group, if the victim is one."""
    rank: int
    """The number that `rank_of` returns."""
    start: str
    """When the first of its pods started."""
    violations: int = 0
    """The number of its pods that would overdraw a disruption budget."""

    @property
    def importance(self) -> Importance:
        """Sort key, the most important first: higher priority, higher rank, more pods, the longer running."""
        return -self.priority, -self.rank, -len(self.pods), self.start


def gathered(by_row: Mapping[int, Sequence[Pod]], groups: PodGroups) -> Steps[Iterator[Victim]]:
    """Return the victims that these pods are, the most important first; yield the steps that this took."""
    victims: list[Victim] = []
    whole: dict[GroupKey, Victim] = {}
    taken = 0
    for row, there in by_row.items():
        for pod in there:
            group = None if pod.scheduling_group is None else groups.whole(pod)
            victim = None if group is None else whole.get(group.key)
            if victim is not None:
                victim.pods.append((pod, row))
                victim.start = min(victim.start, started(pod))
                continue
            victim = Victim([(pod, row)], groups.priority_of(pod), rank_of(pod), started(pod))
            victims.append(victim)
            if group is not None:
                whole[group.key] = victim
        taken += len(there)
        if taken >= _GATHERED:
            yield taken
            taken = 0
    yield taken
    return (yield from _ordered(victims))


def _ordered(victims: Sequence[Victim]) -> Steps[Iterator[Victim]]:
    """Return the victims, the most important first. Equal ones stay in their order."""
    parts: list[Iterator[Victim]] = []
    for begin in range(0, len(victims), _SORTED):
        parts.append(_one_by_one(sorted(victims[begin : begin + _SORTED], key=_IMPORTANCE)))
        yield _SORTED
    return merge(*parts, key=_IMPORTANCE)


def _one_by_one(victims: list[Victim]) -> Iterator[Victim]:
    """Yield all of them, and keep none that was yielded: to free 50,000 at once takes 20 ms."""
    victims.reverse()
    while victims:
        yield victims.pop()


class Sparing:
    """Spares victims of one group. Nobody else looks at the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        filters: FilterPlugins,
        assigned: Sequence[tuple[Pod, int]],
        kinds: Iterable[Pod],
    ) -> None:
        """`cluster`: without the victims, and without the group. `assigned`: the group's pods with their rows, in the
        order in which they were tried. `kinds`: of the victims, one pod of each shape."""
        self._cluster = cluster
        self._filters = filters
        self._assigned = assigned
        self._kinds = list(kinds)
        self._on_row: dict[int, list[Pod]] = {}
        for pod, row in assigned:
            self._on_row.setdefault(row, []).append(pod)

    def victims(
        self, left_out: Mapping[int, Sequence[Pod]], budgets: Budgets, real: Cluster
    ) -> Steps[Iterator[Victim]]:
        """Return the victims that may have to go, the most important first; yield the steps that this took.

        `left_out`: row → the pods that may leave. `real`: where the budgets and the groups are. Raises PluginError.
        """
        budgets.follow(real)
        if not self._elsewhere and not budgets.any:
            left_out = self._concerned(left_out, real.pod_groups)
        return (yield from gathered(left_out, real.pod_groups))

    def going(self, victims: Iterable[Victim], budgets: Budgets, real: Cluster) -> Steps[list[Victim]]:
        """Return the victims that can't be spared; yield the steps that this took. `real`: where the budgets are.

        `victims`: the most important first. Raises PluginError.
        """
        elsewhere = self._elsewhere
        violating, others = yield from self._held_against_budgets(victims, budgets, real)
        sums = None if elsewhere or self._yields() else (yield from self._sums())
        going: list[Victim] = []
        taken = 0
        for victim in (*violating, *others):
            if sums is None:
                spared, steps = self._tried(victim.pods, elsewhere=elsewhere)
            else:
                spared, steps = sums.spare(victim), 2 * len(victim.pods)
            if not spared:
                going.append(victim)
            taken += steps
            if taken >= _AT_ONCE:
                yield taken
                taken = 0
        if taken:
            yield taken
        return going

    def _held_against_budgets(
        self, victims: Iterable[Victim], budgets: Budgets, real: Cluster
    ) -> Steps[tuple[list[Victim], list[Victim]]]:
        """Return, of the victims that matter, those that would overdraw a budget, and the others.

        All victims draw on the budgets, one after the other. Budgets that change meanwhile count as they are by then.
        """
        violating: list[Victim] = []
        others: list[Victim] = []
        drawn: Drawn = {}
        budgets.follow(real)
        taken = 0
        for victim in victims:
            pods = [pod for pod, _ in victim.pods]
            for begin in range(0, len(pods) if budgets.any else 0, _AT_ONCE):
                before = budgets.steps
                flags = budgets.overdrawing(pods[begin : begin + _AT_ONCE], real, drawn)
                victim.violations += sum(flags or ())
                taken += budgets.steps - before
                if taken >= _HELD:
                    yield taken
                    taken = 0
                    budgets.follow(real)
            if self._elsewhere or self._concerns(victim):
                (violating if victim.violations else others).append(victim)
            taken += 1
        return violating, others

    @cached_property
    def _elsewhere(self) -> bool:
        """Return whether a victim may matter on any node, not just on its own.

        Who stands in for pods of the group may leave no place for them with any victim, wherever that is.
        """
        return self._stand_ins() or self._looks_elsewhere()

    def _concerned(self, left_out: Mapping[int, Sequence[Pod]], groups: PodGroups) -> Mapping[int, Sequence[Pod]]:
        """Return the pods on nodes of the group; all, if one of these belongs to a group that goes as a whole."""
        here = {row: there for row, there in left_out.items() if row in self._on_row}
        pods = (pod for there in here.values() for pod in there)
        whole = any(pod.scheduling_group is not None and groups.whole(pod) is not None for pod in pods)
        return left_out if whole else here

    def _concerns(self, victim: Victim) -> bool:
        return any(row in self._on_row for _, row in victim.pods)

    def _looks_elsewhere(self) -> bool:
        """Return whether a victim may matter to a pod of the group on another node."""
        alike = {id(pod.shape): pod for pod, _ in self._assigned}
        filters, cluster = self._filters, self._cluster
        return any(
            not filters.goes_by_shape(pod) or filters.looks_elsewhere(pod, cluster, self._kinds)
            for pod in alike.values()
        )

    def _stand_ins(self) -> bool:
        """Return whether somebody stands in for a pod of the group, which is nominated for a node already."""
        nominations = self._cluster.nominations
        return bool(nominations) and any(nominations.counts(pod.uid) for pod, _ in self._assigned)

    def _yields(self) -> bool:
        """Return whether other pods are nominated for nodes of the group."""
        names, nominations = self._cluster.nodes.names, self._cluster.nominations
        return bool(nominations) and any(nominations.on(names[row] or "") for row in self._on_row)

    # -- by sums -----------------------------------------------------------------------------------------------------

    def _sums(self) -> "Steps[_Sums | None]":
        """Return what is left on each node of the group; None if more than amounts decides there."""
        spares: dict[PodShape, Spare] = {}
        for pod, _ in self._assigned:
            if pod.shape not in spares:
                spare = self._filters.spare(pod, self._cluster)
                if not spare.exact:
                    return None
                spares[pod.shape] = spare
        sums = _Sums(spares)
        for number, (row, pods) in enumerate(self._on_row.items(), 1):
            sums.fill(row, pods)
            if number % _FILLED == 0:
                yield _FILLED * _FILLING
        return sums

    # -- with the filters' help --------------------------------------------------------------------------------------

    def _tried(self, victims: Sequence[tuple[Pod, int]], *, elsewhere: bool) -> tuple[bool, int]:
        """Put a victim's pods back; return whether they can stay, and the steps that it took."""
        cluster = self._cluster
        for pod, row in victims:
            cluster.assume(pod, row)
        rows = {row for _, row in victims}
        fits, asked = True, 0
        tried: list[Pod] = []
        for pod, row in self._assigned:
            if not elsewhere and row not in rows:
                continue
            asked += 1
            fits = self._fits(pod, row)
            if not fits:
                break
            cluster.assume(pod, row)
            tried.append(pod)
        for pod in reversed(tried):
            cluster.forget(pod.uid)
        if not fits:
            for pod, _ in victims:
                cluster.forget(pod.uid)
        everywhere = _EVERYWHERE + cluster.nodes.rows // _ROWS_A_STEP
        return fits, asked * everywhere + _MOVED * (asked + len(victims))

    def _fits(self, pod: Pod, row: int) -> bool:
        among = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        among[row] = True
        passed, _ = self._filters.passing(pod, self._cluster, among, trying=True)
        return bool(passed[row])


class _Sums:
    """The amounts that each node of a group has left beside the group, of all that its pods need."""

    def __init__(self, spares: Mapping[PodShape, Spare]) -> None:
        self._spares = spares
        self._left: dict[int, list[int]] = {}
        self._shapes: dict[int, tuple[PodShape, ...]] = {}
        """By row: the shapes of the group's pods there. What they need is in `_left`, in this order."""
        self._takes: dict[tuple[tuple[PodShape, ...], PodShape], list[int]] = {}

    def fill(self, row: int, pods: Sequence[Pod]) -> None:
        """These pods of the group are on a row, in this order."""
        last = {pod.shape: i for i, pod in enumerate(pods)}
        left: list[int] = []
        for shape, i in last.items():
            spare = self._spares[shape]
            free = spare.free(np.array([row], dtype=np.intp))[:, 0] - spare.needs
            for before in pods[:i]:
                free = free - np.array(spare.takes(before.shape), dtype=np.int64)
            left += free.tolist()
        self._left[row], self._shapes[row] = left, tuple(last)

    def spare(self, victim: Victim) -> bool:
        """Put a victim back if there is room for it everywhere; otherwise leave things as they are."""
        taken: dict[int, list[int]] = {}
        for pod, row in victim.pods:
            left = taken.get(row, self._left.get(row))
            if left is None:
                continue
            after = [have - amount for have, amount in zip(left, self._taken(row, pod.shape), strict=True)]
            taken[row] = after
        if any(amount < 0 for left in taken.values() for amount in left):
            return False
        self._left |= taken
        return True

    def _taken(self, row: int, shape: PodShape) -> list[int]:
        """Return what a pod of this shape takes of all that counts on a row."""
        shapes = self._shapes[row]
        found = self._takes.get((shapes, shape))
        if found is None:
            amounts = [amount for one in shapes for amount in self._spares[one].takes(shape)]
            found = self._takes[shapes, shape] = amounts
        return found
