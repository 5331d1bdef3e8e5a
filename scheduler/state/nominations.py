"""Waiting pods that a node is kept for while victims leave it (kube-scheduler `backend/queue/nominator.go`)."""

from collections.abc import Iterator

from scheduler.model.pod import Pod


class Nominations:
    """Pod UID → node name, and back."""

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}

    def __bool__(self) -> bool:
        return bool(self._node)

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod for a node, instead of any other; or bring the pod up to date."""
        self.drop(pod.uid)
        self._node[pod.uid] = node
        self._pods.setdefault(node, {})[pod.uid] = pod

    def drop(self, uid: str) -> str | None:
        """End a nomination; returns the node it was for."""
        node = self._node.pop(uid, None)
        if node is not None:
            pods = self._pods[node]
            del pods[uid]
            if not pods:
                del self._pods[node]
        return node

    def node_of(self, uid: str) -> str | None:
        """The node a pod is nominated for."""
        return self._node.get(uid)

    def on(self, node: str) -> list[Pod]:
        """The pods nominated for a node."""
        return list(self._pods.get(node, {}).values())

    def ahead_of(self, pod: Pod) -> Iterator[tuple[str, list[Pod]]]:
        """(node, pods nominated for it) that a pod has to yield to: those of equal or higher priority."""
        for node, pods in self._pods.items():
            ahead = [other for other in pods.values() if other.priority >= pod.priority and other.uid != pod.uid]
            if ahead:
                yield node, ahead
