"""How many pods disruption budgets still let go, while pods leave their nodes and are placed again."""

from scheduler.model.namespaced import SelectingObject
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

UNGUARDED = "no PodDisruptionBudget is known, so none is respected"


class Disruptions:
    """Counts from what the budgets' status allows. A pod that is placed again makes room for the next one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._left: dict[tuple[str, str], int] = {}
        self._of: dict[str, list[SelectingObject]] = {}

    def of(self, pod: Pod) -> list[SelectingObject]:
        """The budgets that select a pod."""
        if pod.uid not in self._of:
            budgets = self._cluster.selecting.get("PodDisruptionBudget", {}).get(pod.namespace, {})
            self._of[pod.uid] = [each for each in budgets.values() if each.selector.matches(pod.labels)]
        return self._of[pod.uid]

    def forbidding(self, pod: Pod) -> list[SelectingObject]:
        """The budgets that select the pod and allow no disruption now."""
        return [each for each in self.of(pod) if self._left.get(_key(each), each.allowed) < 1]

    def leaves(self, pod: Pod) -> None:
        """A pod leaves its node."""
        self._add(pod, -1)

    def placed_again(self, pod: Pod) -> None:
        """A pod that has left counts as healthy again."""
        self._add(pod, +1)

    def _add(self, pod: Pod, more: int) -> None:
        for each in self.of(pod):
            self._left[_key(each)] = self._left.get(_key(each), each.allowed) + more


def _key(budget: SelectingObject) -> tuple[str, str]:
    return budget.namespace, budget.name
