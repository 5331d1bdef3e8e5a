"""Which victims can stay, once a pod group has found its nodes in a cluster without any of them.

Mirrors kube-scheduler `framework/preemption/podgrouppreemption.go` (selectVictimsOnDomain): one victim after the other
is put back, and goes again if any pod of the group does not fit its node any more. Where the amounts on each node
decide, they are compared by sums, and only victims on nodes of the group are looked at.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np

from scheduler.framework.filters import FilterPlugins
from scheduler.framework.spare import Spare
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.plugins.default_preemption.budgets import Budgets
from scheduler.plugins.default_preemption.victims_in_groups import Victim, held_against_budgets, in_order
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver

_AT_ONCE = 64
"""How many pods are placed, or rows prepared, in one go."""
_LONGEST = 10_000
"""Steps after which filters are interrupted. What they have found is kept."""
_EVERYWHERE = 50
"""Steps of asking the filters about one row."""
Found = TypeVar("Found")
Steps = Generator[int, None, Found]


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

    def going(self, victims: list[Victim], budgets: Budgets, real: Cluster) -> Steps[list[Victim]]:
        """The victims that can't be spared; yields the steps that it took. `real`: where the budgets are.

        Raises PluginError.
        """
        # Who stands in for pods of the group may leave no place for them with any victim, wherever that is.
        elsewhere = self._stand_ins() or (yield from asking(self._cluster, self._looks_elsewhere))
        budgets.renew(real)
        if not elsewhere and not budgets.any:
            victims = [victim for victim in victims if self._concerns(victim)]
        order = yield from in_order(victims)
        violating, others = yield from held_against_budgets(order, budgets, real)
        order = (victim for some in (violating, others) for victim in some if elsewhere or self._concerns(victim))
        sums = None if elsewhere or self._yields() else (yield from self._sums())
        going: list[Victim] = []
        while some := list(islice(order, 1 if sums is None else _AT_ONCE)):
            for victim in some:
                spared = (
                    (yield from self._tried(victim.pods, elsewhere=elsewhere)) if sums is None else sums.spare(victim)
                )
                if not spared:
                    going.append(victim)
            yield 1 + 5 * sum(len(victim.pods) for victim in some)
        return going

    def _concerns(self, victim: Victim) -> bool:
        return any(row in self._on_row for _, row in victim.pods)

    def _looks_elsewhere(self) -> bool:
        """Whether a victim may matter to a pod of the group on another node."""
        alike = {id(pod.shape): pod for pod, _ in self._assigned}
        filters, cluster = self._filters, self._cluster
        return any(
            not filters.goes_by_shape(pod) or filters.looks_elsewhere(pod, cluster, self._kinds)
            for pod in alike.values()
        )

    def _stand_ins(self) -> bool:
        """Whether somebody stands in for a pod of the group, which is nominated for a node already."""
        nominations = self._cluster.nominations
        return bool(nominations) and any(nominations.counts(pod.uid) for pod, _ in self._assigned)

    def _yields(self) -> bool:
        """Whether other pods are nominated for nodes of the group."""
        names, nominations = self._cluster.nodes.names, self._cluster.nominations
        return bool(nominations) and any(nominations.on(names[row] or "") for row in self._on_row)

    # -- by sums -----------------------------------------------------------------------------------------------------

    def _sums(self) -> Steps["_Sums | None"]:
        """What is left on each node of the group; None if more than amounts decides there."""
        spares: dict[PodShape, Spare] = {}
        for pod, _ in self._assigned:
            if pod.shape not in spares:
                spare = yield from asking(self._cluster, partial(self._filters.spare, pod, self._cluster))
                if not spare.exact:
                    return None
                spares[pod.shape] = spare
        sums = _Sums(spares)
        rows = iter(self._on_row.items())
        while some := list(islice(rows, _AT_ONCE)):
            for row, pods in some:
                sums.fill(row, pods)
            yield 10 * sum(1 + len(pods) for _, pods in some)
        return sums

    # -- with the filters' help --------------------------------------------------------------------------------------

    def _tried(self, victims: Sequence[tuple[Pod, int]], *, elsewhere: bool) -> Steps[bool]:
        """Put a victim's pods back; whether they can stay."""
        cluster = self._cluster
        pods = iter(victims)
        while some := list(islice(pods, _AT_ONCE)):
            for pod, row in some:
                cluster.assume(pod, row)
            yield 20 * len(some)
        rows = {row for _, row in victims}
        fits = True
        tried: list[Pod] = []
        for pod, row in self._assigned:
            if not elsewhere and row not in rows:
                continue
            fits = yield from asking(cluster, partial(self._fits, pod, row))
            if not fits:
                break
            cluster.assume(pod, row)
            tried.append(pod)
            yield _EVERYWHERE + cluster.nodes.rows // 10
        for pod in reversed(tried):
            cluster.forget(pod.uid)
        if not fits:
            for pod, _ in victims:
                cluster.forget(pod.uid)
        yield 20 * (len(tried) + (0 if fits else len(victims)))
        return fits

    def _fits(self, pod: Pod, row: int) -> bool:
        among = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        among[row] = True
        passed, _ = self._filters.passing(pod, self._cluster, among, trying=True)
        return bool(passed[row])


class _Sums:
    """What each node of a group has left beside the group, of all that its pods need."""

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
        """What a pod of this shape takes of all that counts on a row."""
        shapes = self._shapes[row]
        found = self._takes.get((shapes, shape))
        if found is None:
            amounts = [amount for one in shapes for amount in self._spares[one].takes(shape)]
            found = self._takes[shapes, shape] = amounts
        return found


def asking(cluster: Cluster, ask: Callable[[], Found]) -> Steps[Found]:
    """The answer of plugins, asked again as long as it takes more than a slice; yields the steps that it took.

    Raises PluginError.
    """
    effort = cluster.effort
    while True:
        effort.begin(_LONGEST)
        try:
            found = ask()
            over = effort.over
        except SliceOver:
            over = True
        finally:
            steps = effort.end()
        yield steps
        if not over:
            return found
