"""Which nodes waiting pods are nominated for, and which pods are woken when a nomination ends.

Mirrors kube-scheduler `backend/queue/nominator.go` and, in part, `framework/preemption` (prepareCandidate).
"""

from scheduler.engine import wakes
from scheduler.engine.instructions import ClearNomination
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue import Queue
from scheduler.engine.queued import QueuedPod
from scheduler.engine.story_writer import StoryWriter
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

_EACH = 8
"""Up to this many pods that were nominated for one node, others are asked about each; beyond, about all at once."""


class Nominator:
    """Ends nominations, and follows the nominations that the API shows."""

    def __init__(self, cluster: Cluster, queue: Queue, outbox: Outbox, story_writer: StoryWriter) -> None:
        self._cluster = cluster
        self._queue = queue
        self._outbox = outbox
        self._story_writer = story_writer

    def end(self, pod: Pod, now: float, *, real: bool = True) -> None:
        """End a pod's nomination. If the pod was not placed there, others may fit now. `real`: as in `Queue.wake`."""
        node = self._cluster.nominations.drop(pod.uid)
        row = None if node is None or node == pod.node_name else self._cluster.nodes.live_row(node)
        if row is not None:
            wakes.for_room(self._queue, self._cluster, pod, row, now, real=real)

    def end_all(self, pods: list[Pod], row: int | None, now: float) -> None:
        """End the nominations of these pods for a node, and try them again at once (prepareCandidate).

        `row`: the node's, where other pods may fit now; None when the node is being deleted.
        """
        for pod in pods:
            self._cluster.nominations.drop(pod.uid)
        self._story_writer.passed_over(
            pods, "the node went" if row is None else "a pod of higher priority needs it", now
        )
        if row is not None and len(pods) > _EACH:
            wakes.for_any_room(self._queue, self._cluster, row, now)
        elif row is not None:
            for pod in pods:
                wakes.for_room(self._queue, self._cluster, pod, row, now, real=False)
        self._queue.retry([pod.uid for pod in pods], now)
        for pod in pods:
            self._outbox.add(ClearNomination(pod))

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
