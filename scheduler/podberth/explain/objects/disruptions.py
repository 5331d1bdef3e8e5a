"""Says which pods the eviction API would let go, while pods leave their nodes and are placed again."""

from collections.abc import Iterable
from typing import NamedTuple

from podberth.apiserver.rules.disruption import Budget, Evicted, draws_on
from podberth.apiserver.rules.status import StatusError
from podberth.cache.cluster import Cluster
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod

UNGUARDED = "no PodDisruptionBudget is known, so none is respected"


class Refusal(NamedTuple):
    """The reason that keeps a pod from being evicted, and the budgets behind it. `overdrawn`: those that allow none."""

    text: str
    budgets: list[SelectingObject]
    overdrawn: list[SelectingObject]


class Disruptions:
    """Counts evictions against the budgets' status. A pod that is placed again makes room for the next one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._taken: dict[tuple[str, str], int] = {}
        self._of: dict[str, list[SelectingObject]] = {}
        self._drew: dict[str, list[SelectingObject]] = {}

    def refused(self, pod: Pod) -> Refusal | None:
        """Return the reason for which the eviction API would refuse the pod now; None: it would evict it."""
        found = self._budgets(pod)
        try:
            draws_on(_evicted(pod), [self._left(each) for each in found])
        except StatusError:
            overdrawn = [each for each in found if self._left(each).allowed < 1]
            return Refusal(_why([each.name for each in found]), found, overdrawn)
        return None

    def leaves(self, pod: Pod) -> None:
        """Count a pod that leaves its node, whether or not it may."""
        found = self._budgets(pod)
        try:
            drawn = draws_on(_evicted(pod), [self._left(each) for each in found])
            found = [each for each in found if drawn is not None and each.name == drawn.name]
        except StatusError:
            pass
        self._drew[pod.uid] = found
        self._count(found, +1)

    def placed_again(self, pod: Pod) -> None:
        """Count a pod that has left as healthy again."""
        self._count(self._drew.pop(pod.uid, ()), -1)

    def _budgets(self, pod: Pod) -> list[SelectingObject]:
        """Return the budgets that select a pod."""
        if pod.uid not in self._of:
            budgets = self._cluster.selecting.get("PodDisruptionBudget", {}).get(pod.namespace, {})
            self._of[pod.uid] = [each for each in budgets.values() if each.selector.matches(pod.labels)]
        return self._of[pod.uid]

    def _left(self, budget: SelectingObject) -> Budget:
        taken = self._taken.get((budget.namespace, budget.name), 0)
        return Budget(
            budget.name,
            max(budget.allowed - taken, 0) if budget.allowed >= 0 else budget.allowed,
            budget.healthy - taken,
            budget.desired,
            seen=budget.seen,
            always_allow=budget.always_allow,
            disrupted=len(budget.disrupted),
        )

    def _count(self, budgets: Iterable[SelectingObject], more: int) -> None:
        for each in budgets:
            key = each.namespace, each.name
            self._taken[key] = self._taken.get(key, 0) + more


def _evicted(pod: Pod) -> Evicted:
    return Evicted(pod.phase, pod.terminating, pod.ready)


def _why(names: list[str]) -> str:
    if len(names) > 1:
        of_both = f"the disruption budgets {' and '.join(names)} select it"
        return f"{of_both}, and the eviction API refuses a pod that has more than one"
    return f"the disruption budget {names[0]} allows no disruption"
