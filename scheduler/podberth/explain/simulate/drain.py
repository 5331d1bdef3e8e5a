"""Drains nodes as `kubectl drain` does: cordoned, and their pods evicted as far as disruption budgets allow."""

from collections.abc import Container, Sequence

from msgspec.structs import replace

from podberth.explain.objects.disruptions import Disruptions
from podberth.explain.simulate.outcome import Blocked
from podberth.explain.simulate.simulation import Simulation
from podberth.model.pod import Pod


class Drain:
    """A drain of nodes that are there, and what came of it."""

    def __init__(
        self,
        simulation: Simulation,
        names: Sequence[str],
        scheduler_name: str,
        *,
        force: bool,
        only_wait: Container[str] = (),
    ) -> None:
        """`force`: remove pods whatever budgets say. `only_wait`: UIDs of pods that are on nodes in a dry run alone."""
        self.was: dict[str, str] = {}
        """UID → the node that a pod was on."""
        self.moved: list[Pod] = []
        self.lost: list[str] = []
        self.leaving: list[str] = []
        """Pods that are being deleted anyway, and that no controller waits for to create them again."""
        self.blocked: list[Blocked] = []
        self.overdrawn: dict[str, list[str]] = {}
        self._simulation = simulation
        self._profile = scheduler_name
        self._force = force
        self._only_wait = only_wait
        self._disruptions = Disruptions(simulation.cluster)
        self._run(names)

    def _run(self, names: Sequence[str]) -> None:
        nodes = self._simulation.cluster.nodes
        waiting: list[tuple[Pod, str]] = []
        for name in names:
            row = nodes.live_row(name)
            node = None if row is None else nodes.objects[row]
            assert row is not None and node is not None
            self._simulation.put(replace(node, unschedulable=True))
            pods = [pod for pod in self._simulation.cluster.pods_on(row) if not pod.belongs_to_node]
            waiting += [(pod, name) for pod in pods]
        while waiting:
            left = [(pod, name) for pod, name in waiting if not self._evict(pod, name)]
            self._simulation.work()
            if len(left) == len(waiting):
                break
            self._replenish()
            waiting = left
        self.blocked = [
            Blocked(pod.key, name, [budget.name for budget in refusal.budgets])
            for pod, name in waiting
            if (refusal := self._disruptions.refused(pod)) is not None
        ]

    def _evict(self, pod: Pod, name: str) -> bool:
        """Remove a pod, unless a budget forbids it. One that only waits goes on waiting, which is no disruption."""
        if pod.uid in self._only_wait:
            self._simulation.gone("Pod", pod.namespace, pod.name, pod.uid, comes_again=True)
            self._simulation.put(again(pod))
            return True
        if goes_anyway(pod):
            self._simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
            self.leaving.append(pod.key)
            return True
        refusal = self._disruptions.refused(pod)
        if refusal is not None and not self._force:
            return False
        for budget in refusal.overdrawn if refusal is not None else ():
            self.overdrawn.setdefault(f"{budget.namespace}/{budget.name}", []).append(pod.key)
        self._disruptions.leaves(pod)
        self._simulation.gone("Pod", pod.namespace, pod.name, pod.uid, comes_again=pod.owner is not None)
        if pod.owner is None:
            self.lost.append(pod.key)
            return True
        self.was[pod.uid] = name
        new = replace(again(pod), scheduler_name=self._profile)
        self.moved.append(new)
        self._simulation.put(new)
        return True

    def _replenish(self) -> None:
        """Count those that are placed again as healthy."""
        for uid in self._simulation.newly_bound():
            pod = self._simulation.bound[uid][0] if uid in self._simulation.bound else None
            if pod is not None and uid in self.was:
                self._disruptions.placed_again(pod)


def again(pod: Pod) -> Pod:
    """Return the pod as its controller creates it again."""
    return replace(pod, node_name="", nominated_node_name="", terminating=False)


def goes_anyway(pod: Pod) -> bool:
    """Return whether a pod is being deleted, and no StatefulSet waits for that to make a new one."""
    return pod.terminating and (pod.owner is None or pod.owner[0] != "StatefulSet")
