"""The pods that are in their binding cycle, what is held for them, and how it is given back.

Next stage: `scheduler.engine.binding_cycle` says when. Mirrors kube-scheduler `schedule_one.go` (unreserveAndForget).
"""

import sys
from collections.abc import Container
from typing import Any

from scheduler.engine import instructions, story_writer
from scheduler.engine.binding_record import BindingCycle
from scheduler.engine.binding_table import CALLING, MAY_BE_BOUND, Event, State
from scheduler.engine.binding_waits import Deadlines, ObjectWaits
from scheduler.engine.instructions import UNSCHEDULABLE, Misbehaved
from scheduler.engine.outbox import Outbox
from scheduler.engine.pod_groups.gathering import AT_ONCE, Gathering
from scheduler.engine.queue import queueing_hints
from scheduler.engine.queue.queued import QueuedPod
from scheduler.engine.queue.scheduling_queue import SchedulingQueue
from scheduler.engine.stimuli import BindFailed, PreBindWriteFailed, PreBindWritten
from scheduler.engine.story import Story
from scheduler.framework.events import ClusterEvent
from scheduler.framework.status import SUCCESS
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

TIMED = (State.WAITING_ON_PERMIT, State.PRE_BIND_WAITING, State.GROUP_GATHERING)
IDLE = frozenset((*TIMED, State.GROUP_DECIDING, *CALLING))


class BindingPods:
    """All pods in their binding cycle, by UID, with what is held for them."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, outbox: Outbox) -> None:
        self._cluster = cluster
        self._queue = queue
        self._outbox = outbox
        self._cycles: dict[str, BindingCycle] = {}
        self._on_node: dict[str, dict[str, BindingCycle]] = {}
        """The same by the node's name: a tenant may have placed thousands of other pods there."""
        self.waiting_pods = WaitingPods()
        """Pods that wait on Permit."""
        self.spoken_for = self.waiting_pods.spoken_for
        """Pods that `settle` has to look at."""
        self.gathering = Gathering(cluster.pod_groups)
        """Pods of groups that wait for each other before they are bound."""
        self.let_go_beside = sys.maxsize
        """Pods whose group lets them go wait with their Bindings while writes for so many pods are under way."""
        self._went_ahead = 0
        """How many other pods were assumed since some of them were let go last: they do not wait for ever."""
        self._waits = ObjectWaits()
        self.waits = self._waits.uids
        """Not empty while somebody waits for an object to change."""
        self._deadlines = Deadlines(self._deadline, self._cycles.__len__)
        self._idle = 0
        self.left_deciding = 0
        """How many pods have left the state in which they wait for what is decided of their group."""
        self._assuming = ""
        """UID of the pod that is being assumed: nobody has noticed yet that it takes room, and nobody is woken."""

    @property
    def writing(self) -> int:
        """Pods for which a write is under way."""
        return len(self._cycles) - self._idle

    @property
    def ours(self) -> Container[str]:
        """The names of this scheduler's profiles."""
        return self._queue.frameworks

    def queued(self, uid: str) -> QueuedPod | None:
        """A pod that is about to be bound, as the queue knew it."""
        cycle = self._cycles.get(uid)
        return None if cycle is None else cycle.queued

    def entries(self) -> int:
        """How much is kept here, for tests of what a tenant can make grow."""
        return len(self._cycles) + len(self.waiting_pods) + len(self._deadlines) + self.gathering.entries()

    def state(self, uid: str) -> State | None:
        """The state of a pod; None: it is in no binding cycle."""
        cycle = self._cycles.get(uid)
        return None if cycle is None else cycle.state

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something to do."""
        return bool(self.spoken_for) or (bool(self.gathering.released) and self._may_go > 0)

    @property
    def _may_go(self) -> int:
        """How many of the pods that their groups let go may be bound now."""
        if self._went_ahead < AT_ONCE:
            return min(len(self.gathering.released), AT_ONCE, self.let_go_beside - self.writing)
        return min(len(self.gathering.released), AT_ONCE)

    def next_tick(self) -> float | None:
        """Engine time at which `tick`, or `settle`, has something to do."""
        return 0.0 if self.unsettled else self._deadlines.next()

    def note_assumed(self, uid: str) -> bool:
        """Bring the story of a pod in its binding cycle up to date; returns whether a Binding of ours may be under way.

        An ordinary decision has no time to write the story: that the pod was assumed is noted later, or here.
        """
        cycle = self._cycles.get(uid)
        if cycle is None:
            return False
        self._story(cycle)
        return cycle.state in MAY_BE_BOUND

    def _put(self, cycle: BindingCycle) -> None:
        uid = cycle.queued.pod.uid
        self._cycles[uid] = cycle
        there = self._on_node.get(cycle.node)
        if there is None:
            there = self._on_node[cycle.node] = {}
        there[uid] = cycle

    def _drop(self, cycle: BindingCycle) -> None:
        uid = cycle.queued.pod.uid
        del self._cycles[uid]
        there = self._on_node[cycle.node]
        del there[uid]
        if not there:
            del self._on_node[cycle.node]

    def _story(self, cycle: BindingCycle) -> Story:
        if not cycle.noted:
            cycle.noted = True
            story_writer.assumed(cycle.queued, cycle.node, cycle.decision, cycle.assumed_at)
        return cycle.queued.story

    def _revert(self, cycle: BindingCycle, now: float, cause: Any = None) -> bool:
        """Unreserve and forget. True: the pod has to be tried again, as it is neither placed nor terminating."""
        uid = cycle.queued.pod.uid
        self._unreserve(cycle, cause, now)
        forgotten = self._cluster.forget(uid)
        if forgotten is not None and uid != self._assuming:
            queueing_hints.for_room(self._queue, self._cluster, forgotten.pod, forgotten.row, now, real=False)
        return self._cluster.placement(uid) is None and not cycle.queued.pod.terminating

    def _unreserve(self, cycle: BindingCycle, cause: Any, now: float) -> None:
        """Have plugins give back what they reserved for the pod; a pod that waits for a volume may get it.

        A pod that others have bound uses what is written of it: nothing of that is taken back. One that the API server
        does not know (404) is gone, whatever the watch shows.
        """
        pod = cycle.queued.pod
        status = cause.status if isinstance(cause, BindFailed) else None
        elsewhere = isinstance(cause, Pod) or status == 409
        leaves = cycle.leaves or pod.terminating or status == 404
        if isinstance(cause, (PreBindWritten, PreBindWriteFailed)):
            cycle.plugins.wrote(cause.written, cause.status if isinstance(cause, PreBindWriteFailed) else None)
        self._story(cycle)
        self.left_deciding += cycle.state is State.GROUP_DECIDING
        self._drop(cycle)
        if cycle.group is not None:
            self.gathering.leaves(cycle.group, pod.uid)
        version, given = self._cluster.storage.version, self._cluster.devices.log.version
        writes, errors = cycle.plugins.unreserve(self._cluster, leaves=leaves)
        placement = self._cluster.placement(pod.uid)
        if writes and not elsewhere and (placement is None or placement.assumed):
            self._outbox.add(instructions.UnreserveWrite(pod, tuple(writes)))
        for error in errors:
            self._outbox.add(Misbehaved(pod, error))
        if self._cluster.storage.version != version and pod.uid != self._assuming:
            queueing_hints.for_object(self._queue, ClusterEvent.VOLUME_UPDATED, None, None, now, real=False)
        if self._cluster.devices.log.version != given and pod.uid != self._assuming:
            queueing_hints.for_object(self._queue, ClusterEvent.DEVICE_CLAIM_GONE, None, None, now, real=False)

    def _waits_no_longer(self, cycle: BindingCycle, event: Event, state: State, now: float) -> None:
        """An idle pod does not wait any more: what it waited for has happened, or the pod is reverted."""
        self._idle -= 1
        self.left_deciding += cycle.state is State.GROUP_DECIDING
        pod = cycle.queued.pod
        if cycle.state is State.WAITING_ON_PERMIT:
            waited = now - self.waiting_pods.remove(pod.uid).since
            self._outbox.add(
                instructions.PermitWaited(pod, UNSCHEDULABLE if state is State.REVERTED else SUCCESS, waited)
            )
        elif cycle.wait is not None:
            self._waits.remove(pod.uid, cycle.wait.on)
            cycle.wait = None
        elif cycle.call is not None:
            if event not in (Event.CALL_ENDED, Event.CALL_FAILED):
                self._outbox.add(instructions.CancelCall(pod, cycle.call))
            cycle.call = None

    def _nominate(self, cycle: BindingCycle) -> None:
        """Set status.nominatedNodeName to the pod's node, once (NominatedNodeNameForExpectation)."""
        queued = cycle.queued
        if cycle.nominated or queued.pod.nominated_node_name == cycle.node:
            return
        cycle.nominated = True
        reason, message, _ = queued.written or ("", "", "")
        queued.written = (reason, message, cycle.node)
        self._outbox.add(instructions.Nominate(queued.pod, cycle.node))

    def _deadline(self, uid: str) -> float | None:
        cycle = self._cycles.get(uid)
        return cycle.deadline if cycle is not None and cycle.state in TIMED else None
