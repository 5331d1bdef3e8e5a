"""Which nodes are kept for waiting pods, and who hears when one is not any more.

Mirrors kube-scheduler `backend/queue/nominator.go` and, in part, `framework/preemption` (prepareCandidate).
"""

from scheduler.engine import wakes
from scheduler.engine.chronicle import Chronicle
from scheduler.engine.instructions import ClearNomination
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue import Queue
from scheduler.engine.queued import QueuedPod
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

_EACH = 8
"""Pods for which one node was kept that others are asked about one by one; more of them are taken together."""


class Nominator:
    """Ends nominations and follows those that the API shows."""

    def __init__(self, cluster: Cluster, queue: Queue, outbox: Outbox, chronicle: Chronicle) -> None:
        self._cluster = cluster
        self._queue = queue
        self._outbox = outbox
        self._chronicle = chronicle

    def end(self, pod: Pod, now: float, *, real: bool = True) -> None:
        """No node is kept for a pod any more: if it did not come there, somebody else may. `real`: as in `wake`."""
        node = self._cluster.nominations.drop(pod.uid)
        row = None if node is None or node == pod.node_name else self._cluster.nodes.live_row(node)
        if row is not None:
            wakes.for_room(self._queue, self._cluster, pod, row, now, real=real)

    def end_all(self, pods: list[Pod], row: int | None, now: float) -> None:
        """These pods have to look for another node than this one, and may do so at once (prepareCandidate).

        `row`: the node's, where others may come instead; None when the node is going.
        """
        for pod in pods:
            self._cluster.nominations.drop(pod.uid)
        self._chronicle.passed_over(pods, "the node went" if row is None else "a pod of higher priority needs it", now)
        if row is not None and len(pods) > _EACH:
            wakes.for_any_room(self._queue, self._cluster, row, now)
        elif row is not None:
            for pod in pods:
                wakes.for_room(self._queue, self._cluster, pod, row, now, real=False)
        self._queue.retry([pod.uid for pod in pods], now)
        for pod in pods:
            self._outbox.say(ClearNomination(pod))

    def follow(self, queued: QueuedPod, before: Pod, now: float) -> None:
        """Follow nominatedNodeName; what we decided and the API does not show yet holds until it shows a change."""
        pod, nominations = queued.pod, self._cluster.nominations
        ours = kept = nominations.node_of(pod.uid)
        changed = pod.nominated_node_name != before.nominated_node_name
        if changed:
            kept = pod.nominated_node_name or None
        if ours != kept:
            queued.written = None  # somebody else's word
        if ours != kept or pod.shape is not before.shape:
            self.end(pod, now)
        if changed and (ours != kept or kept is None):
            # Whatever victims leave the node that was named, it does not wait for them any more.
            self._queue.retry([pod.uid], now)
        if kept is not None:
            nominations.put(pod, kept)
