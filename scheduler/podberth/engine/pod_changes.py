"""Pods that come, change, get a node and go: what follows for the queue, the binding cycle and those that wait.

Mirrors the handlers of pods in kube-scheduler `eventhandlers.go`.
"""

from collections.abc import Sequence

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import Event
from podberth.engine.changes import placed_pod_changes, waiting_pod_changes
from podberth.engine.extender_calls import ExtenderCalls
from podberth.engine.nominator import Nominator
from podberth.engine.observers import Observer
from podberth.engine.pod_groups.cycle import GroupCycles
from podberth.engine.queue import queueing_hints
from podberth.engine.queue.headroom import room_on
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import Gone
from podberth.engine.story_writer import StoryWriter
from podberth.framework.events import ClusterEvent
from podberth.model.pod import Pod


class PodChanges:
    """Follows what the watch shows of pods."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        binding: BindingCycles,
        groups: GroupCycles,
        extender_calls: ExtenderCalls,
        nominator: Nominator,
        story_writer: StoryWriter,
        observers: Sequence[Observer],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._groups = groups
        self._extender_calls = extender_calls
        self._nominator = nominator
        self._story_writer = story_writer
        self._observers = observers
        self.undone = False
        """Whether a placed pod was shown without a node since this was last set to False."""

    def put(self, pod: Pod, now: float) -> None:
        """A pod was added or updated.

        No pod leaves its node. One that has done so is shown from a backup, in which it was not bound yet, and which
        has passed the versions that were known, so that nobody has noticed.
        """
        if not pod.node_name and self._cluster.is_confirmed(pod.uid):
            self.undone = True
            self.gone(Gone("Pod", pod.namespace, pod.name, pod.uid), now, "its binding was undone by a restore of etcd")
        if pod.finished:
            self.gone(Gone("Pod", pod.namespace, pod.name, pod.uid), now, "finished")
        elif pod.node_name:
            self._put_placed(pod, now)
        elif pod.scheduler_name in self._queue.frameworks:
            self._put_waiting(pod, now)
        elif pod.shape.claims:
            self._cluster.devices.rivals.has_pod(self._cluster.devices.wall)

    def leave(self, pod: Pod, now: float) -> None:
        """Take a waiting pod out of the queue and its group: it comes again as a member of another group or none."""
        if self._groups.drop(pod.uid) is not None:
            self._binding.give_back(pod.uid, now, quietly=False)
        self._extender_calls.drop(pod.uid)
        self._queue.remove(pod.uid)
        self._nominator.end(pod, now)

    def _not_ours(self, pod: Pod) -> None:
        """A pod has its node: it does not wait any more."""
        self._queue.remove(pod.uid)
        self._groups.drop(pod.uid)
        self._extender_calls.drop(pod.uid)

    def _put_placed(self, pod: Pod, now: float) -> None:
        self._not_ours(pod)
        self._story_writer.placed(pod, now, ours=self._binding.note_assumed(pod.uid))
        self._binding.happens(pod.uid, Event.PLACED, pod, now)
        before = self._cluster.put_pod(pod)
        self._nominator.end(pod, now)
        if before is None:
            self._binding.look_again(pod.node_name, now)
        for observer in self._observers:
            observer.placed(pod, before, now)
        if before is None or before.assumed:
            queueing_hints.for_pod(self._queue, ClusterEvent.POD_PLACED, pod, now)
            if pod.scheduling_group is not None:
                self._binding.gathering.leaves(pod.scheduling_group, pod.uid)
                self._binding.gathering.look(pod.scheduling_group)
                self._queue.groups.changed(pod.scheduling_group, now, helps=before is None)
        row = self._cluster.nodes.row_of(pod.node_name)
        if before is not None:
            changes, room = placed_pod_changes(before.pod, pod), room_on(self._cluster, row)
            queueing_hints.for_pod(self._queue, changes, pod, now, room)
        if before is not None and before.row != row:
            # We had chosen another node for it.
            queueing_hints.for_room(self._queue, self._cluster, before.pod, before.row, now)

    def _put_waiting(self, pod: Pod, now: float) -> None:
        queued = self._queue.get(pod.uid)
        placement = self._cluster.placement(pod.uid)
        tried = self._groups.trying(pod.uid)
        if queued is not None and queued.pod.scheduling_group != pod.scheduling_group:
            self.leave(queued.pod, now)
            queued = None
        if pod.scheduling_group is not None or pod.uid in self._cluster.pod_groups:
            self._cluster.pod_groups.waits(pod)
        event = Event.TERMINATING if pod.terminating else Event.UPDATED
        if tried is not None:
            tried.pod = pod
            if pod.terminating:
                self._groups.drop(pod.uid)
        if self._binding.happens(pod.uid, event, pod, now) or (
            self._extender_calls.update(pod) and not pod.terminating
        ):
            return
        if pod.terminating:
            if placement is None:
                self._left_unbound(pod, now)
            self._queue.remove(pod.uid)
            self._story_writer.left(pod.uid, "terminating", now)
            self._nominator.end(pod, now)
        elif queued is not None:
            before = queued.pod
            self._queue.update(pod, waiting_pod_changes(before, pod), now)
            self._nominator.follow(queued, before, now)
        elif placement is None and tried is None:
            if pod.nominated_node_name:
                self._cluster.nominations.put(pod, pod.nominated_node_name)
            self._queue.add(pod, now)
            if pod.scheduling_group is not None:
                self._queue.groups.changed(pod.scheduling_group, now, helps=True)

    def gone(self, gone: Gone, now: float, why: str = "deleted") -> None:
        """A pod is gone, or finished."""
        group = self._cluster.pod_groups.group_of(gone.uid)
        tried = self._groups.drop(gone.uid)
        waiting = self._extender_calls.drop(gone.uid) or self._queue.remove(gone.uid) or tried
        self._binding.happens(gone.uid, Event.GONE, None, now)
        self._story_writer.left(gone.uid, why, now)
        placement = self._cluster.drop_pod(gone.uid)
        if group is not None:
            self._binding.gathering.leaves(group, gone.uid)
            self._queue.groups.changed(group, now, helps=True)
        if placement is not None:
            queueing_hints.for_room(self._queue, self._cluster, placement.pod, placement.row, now)
        elif waiting is not None:
            self._nominator.end(waiting.pod, now)
        else:
            self._cluster.nominations.drop(gone.uid)
        unbound = waiting or (placement if placement is not None and placement.assumed else None)
        if unbound is not None:
            self._left_unbound(unbound.pod, now)

    def _left_unbound(self, pod: Pod, now: float) -> None:
        for observer in self._observers:
            observer.left_unbound(pod, now)
