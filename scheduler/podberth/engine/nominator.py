"""Which nodes waiting pods are nominated for, and which pods are woken when a nomination ends.

Mirrors kube-scheduler `backend/queue/nominator.go` and, in part, `framework/preemption` (prepareCandidate).
"""

from collections import Counter, deque

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.engine.instructions import ClearNomination, Outbox
from podberth.engine.observers import Observers
from podberth.engine.queue import queueing_hints
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.model.pod import Pod

_EACH = 8
"""Up to this many pods that were nominated for one node, others are asked about each; beyond, about all at once."""
_AT_ONCE = 64
"""How many nominations for a node are ended in one turn."""
_ENDED = 20
"""Steps of each."""


class _Ending(Struct, frozen=True):
    """Pods whose nominations for a node end."""

    node: str
    row: int | None
    pods: deque[Pod]
    few: bool


class Nominator:
    """Ends nominations, and follows the nominations that the API shows."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, outbox: Outbox, observers: Observers) -> None:
        self._cluster = cluster
        self._queue = queue
        self._outbox = outbox
        self._observers = observers
        self.ending: deque[_Ending] = deque()
        """Nominations that are still to be ended."""

    def nominate(self, pod: Pod, node: str, now: float) -> None:
        """Nominate a pod for a node. Where it was nominated for another one, others may fit there now."""
        if self._cluster.nominations.node_of(pod.uid) not in (None, node):
            self.end(pod, now, real=False)
        self._cluster.nominations.put(pod, node)

    def end(self, pod: Pod, now: float, *, real: bool = True) -> None:
        """End a pod's nomination. If the pod was not placed there, others may fit now. `real`: as in `wake`."""
        node = self._cluster.nominations.drop(pod.uid)
        row = None if node is None or node == pod.node_name else self._cluster.nodes.live_row(node)
        if row is not None:
            queueing_hints.for_room(self._queue, self._cluster, pod, row, now, real=real)

    def end_all(self, pods: list[Pod], node: str, row: int | None, now: float) -> None:
        """End the nominations of these pods for a node, and try them again (prepareCandidate); of many, some in a turn.

        `row`: the node's, where other pods may fit now; None when the node is being deleted.
        """
        if pods:
            self.ending.append(_Ending(node, row, deque(pods), few=len(pods) <= _EACH))
            if len(self.ending) == 1:
                self.end_more(now)

    def end_more(self, now: float) -> None:
        """End some more of them."""
        ending = self.ending[0]
        left = ending.pods
        some = [left.popleft() for _ in range(min(_AT_ONCE, len(left)))]
        if not left:
            self.ending.popleft()
        nominations, row = self._cluster.nominations, ending.row
        pods = [pod for pod in some if nominations.node_of(pod.uid) == ending.node]
        for pod in pods:
            nominations.drop(pod.uid)
        why = "the node went" if row is None else "a pod of higher priority needs it"
        for hear in self._observers.nominations_cleared:
            hear(pods, why, now)
        if row is not None and ending.few:
            for pod in pods:
                queueing_hints.for_room(self._queue, self._cluster, pod, row, now, real=False)
        elif row is not None and not left:
            queueing_hints.for_any_room(self._queue, self._cluster, row, now)
        self._queue.retry([pod.uid for pod in pods], now)
        for pod in pods:
            queued = self._queue.get(pod.uid)
            if queued is not None and queued.written is not None:
                queued.written = (*queued.written[:2], "")
            self._outbox.add(ClearNomination(pod))
        for namespace, number in Counter(pod.namespace for pod in pods).items():
            self._queue.fair_share.charge(namespace, _ENDED * number, now)

    def follow(self, queued: QueuedPod, before: Pod, now: float) -> None:
        """Follow nominatedNodeName. A nomination of ours that the API does not show yet holds until that changes."""
        pod, nominations = queued.pod, self._cluster.nominations
        ours = kept = nominations.node_of(pod.uid)
        changed = pod.nominated_node_name != before.nominated_node_name
        if changed:
            kept = pod.nominated_node_name or None
        if ours != kept:
            queued.written = None  # another client has written the status
        if ours != kept or pod.shape is not before.shape:
            self.end(pod, now)
        if changed and (ours != kept or kept is None):
            # The pod does not wait any more for victims on the node that was named.
            self._queue.retry([pod.uid], now)
        if kept is not None:
            nominations.put(pod, kept)
