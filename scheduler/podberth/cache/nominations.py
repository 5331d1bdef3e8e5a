"""Nominations: waiting pods that a node is reserved for while victims leave it (kube-scheduler
`backend/queue/nominator.go`).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Iterator

from podberth.cache.kept_results import ChangeLog
from podberth.model.pod import Pod

Instead = Callable[[Pod, str], Pod | None]
"""Returns the pod of the same UID that holds a node in place of the nominated one; None: no pod does."""


class Nominations:
    """The nominated pods by UID, by node and by priority."""

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        """UID → the node that the pod is nominated for."""
        self._node: dict[str, str] = {}
        """The same of those that count now, and of the stand-ins of others."""
        self._pods: dict[str, dict[str, Pod]] = {}
        self._of_priority: dict[int, int] = {}
        """Priority → nominated pods."""
        self._priorities: list[int] = []
        """The keys of it, ascending."""
        self._aside: dict[str, tuple[Pod, str]] = {}
        """UID → pod and node, for nominations that do not count for now."""
        self._members: frozenset[str] = frozenset()
        """UIDs of the pods whose nominations do not count for now."""
        self._instead: Instead = _nobody
        """The function that gives the stand-in of each of these pods."""
        self.log: ChangeLog[str] = ChangeLog()
        """Nodes whose nominated pods changed."""

    def __len__(self) -> int:
        return len(self._node)

    def copied(self) -> "Nominations":
        """Return a copy, for a dry run that changes it."""
        made = Nominations()
        made.node_of, made._node = dict(self._node), dict(self._node)
        made._pods = {node: dict(pods) for node, pods in self._pods.items()}
        made._of_priority, made._priorities = dict(self._of_priority), list(self._priorities)
        return made

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod for a node, instead of any other; or bring the pod up to date."""
        self.node_of[pod.uid] = node
        if pod.uid in self._members:
            self._aside[pod.uid] = pod, node
            self._remove(pod.uid)
            instead = self._instead(pod, node)
            if instead is not None:
                self._add(instead, node)
            return
        before = self._pods[node].get(pod.uid) if self._node.get(pod.uid) == node else None
        if (
            before is not None
            and before.shape is pod.shape
            and before.priority == pod.priority
            and before.labels == pod.labels
            and before.terminating == pod.terminating
        ):
            return  # nothing that others go by
        self._remove(pod.uid)
        self._add(pod, node)

    def drop(self, uid: str) -> str | None:
        """End a nomination; returns the node it was for."""
        self._aside.pop(uid, None)
        self._remove(uid)
        return self.node_of.pop(uid, None)

    def keep(self, schedulers: Container[str]) -> None:
        """Keep only nominations of pods of these profiles. Call it while none is set aside."""
        nominated = [pod for pods in self._pods.values() for pod in pods.values()]
        for pod in nominated:
            if pod.scheduler_name not in schedulers:
                self.drop(pod.uid)

    def _add(self, pod: Pod, node: str) -> None:
        self._node[pod.uid] = node
        self._pods.setdefault(node, {})[pod.uid] = pod
        self.log.touch(node)
        if pod.priority not in self._of_priority:
            insort(self._priorities, pod.priority)
        self._of_priority[pod.priority] = self._of_priority.get(pod.priority, 0) + 1

    def _remove(self, uid: str) -> str | None:
        node = self._node.pop(uid, None)
        if node is not None:
            pods = self._pods[node]
            priority = pods.pop(uid).priority
            if not pods:
                del self._pods[node]
            self.log.touch(node)
            self._of_priority[priority] -= 1
            if not self._of_priority[priority]:
                del self._of_priority[priority]
                self._priorities.remove(priority)
        return node

    def set_aside(self, pods: Iterable[Pod], instead: Instead) -> None:
        """Make the nominations of these pods, a group that is being tried, not count until `bring_back`.

        `instead` returns the pod that holds the node of one of them meanwhile.
        """
        uids = [pod.uid for pod in pods]
        # By their own nodes: others may have thousands of nominated pods.
        there = [(self._pods[node][uid], node) for uid in uids if (node := self._node.get(uid)) is not None]
        self._members, self._instead = frozenset(uids), instead
        for pod, node in there:
            self.put(pod, node)

    def bring_back(self) -> None:
        """Make the nominations that were set aside count again."""
        self._members, back, self._aside = frozenset(), self._aside, {}
        for pod, node in back.values():
            self.put(pod, node)

    def counts(self, uid: str) -> bool:
        """Return whether a node is held by this pod, or by its stand-in."""
        return uid in self._node

    def number_on(self, node: str) -> int:
        """Return the number of pods that are nominated for a node."""
        return len(self._pods.get(node, ()))

    def on(self, node: str) -> list[Pod]:
        """Return the pods nominated for a node."""
        return list(self._pods.get(node, {}).values())

    def nodes(self) -> Iterable[str]:
        """Return the nodes for which any pod is nominated."""
        return self._pods

    def threshold(self, pod: Pod) -> int | None:
        """Return the lowest priority of nominated pods that a pod has to yield to; None: there are none."""
        lower = bisect_left(self._priorities, pod.priority)
        return self._priorities[lower] if lower < len(self._priorities) else None

    def above(self, node: str, threshold: int) -> list[Pod]:
        """Return the pods nominated for a node that have this priority or a higher one."""
        return [pod for pod in self._pods.get(node, {}).values() if pod.priority >= threshold]

    def ahead_of(self, pod: Pod) -> Iterator[tuple[str, list[Pod]]]:
        """Yield (node, pods nominated for it) that a pod has to yield to: those of equal or higher priority."""
        for node, pods in self._pods.items():
            ahead = [other for other in pods.values() if other.priority >= pod.priority and other.uid != pod.uid]
            if ahead:
                yield node, ahead


def _nobody(pod: Pod, node: str) -> None:
    return None
