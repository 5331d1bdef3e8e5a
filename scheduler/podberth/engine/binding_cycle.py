"""From the decision for a node to the Binding: a pod is assumed, its plugins are asked, and it is bound or reverted.

What can happen, and what follows from it, is in `podberth.engine.binding_table`; here it is carried out. Mirrors
kube-scheduler `schedule_one.go` (assumeAndReserve, bindingCycle, handleBindingCycleError, unreserveAndForget), where
each binding cycle is a goroutine.
"""

import heapq
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.view import row_with
from podberth.engine import instructions
from podberth.engine.binding_table import ASKING, CALLING, MAY_BE_BOUND, TABLE, Action, Event, State
from podberth.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    WAITING_FOR_GROUP,
    Misbehaved,
    Outbox,
    PatchCondition,
)
from podberth.engine.observers import Observers
from podberth.engine.pod_groups.gathering import AT_ONCE, GANG_SCHEDULING, Gathering
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import (
    BindFailed,
    BindWithdrawn,
    CallEnded,
    CallFailed,
    OfBindingCycle,
    PreBindWriteFailed,
    PreBindWritten,
)
from podberth.framework.binding import (
    BindingPlugins,
    BindResult,
    Call,
    Holds,
    ObjectKey,
    PointAnswer,
    Refusal,
    Wait,
    WaitingPods,
    not_none,
    timeout_text,
)
from podberth.framework.decision import Decision
from podberth.framework.events import ClusterEvent
from podberth.framework.runtime import Framework
from podberth.framework.status import SUCCESS, PluginError, Reason, printable
from podberth.model.devices import CLAIM
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey

TIMED = (State.WAITING_ON_PERMIT, State.PRE_BIND_WAITING, State.GROUP_GATHERING)
"""States in which a pod has a deadline."""
IDLE = frozenset((*TIMED, State.GROUP_DECIDING, *CALLING))
"""States in which no write of ours is under way for a pod."""
_GIVEN_UP_AT_ONCE = 64
"""The number of pods that are given up in one turn because their time is over."""
_TOLD_AFTER = 5.0
"""Seconds after which a pod that waits for its group says so: hardly any does for so long, and it costs a write."""
_POINTS = ("reserve", "permit", "pre_bind", "bind")
_STEPS = [(point, TABLE[state][Event.SUCCESS].next) for point, state in zip(_POINTS, ASKING, strict=True)]
_STEPS_FROM = {state: tuple(_STEPS[i:]) for i, state in enumerate(ASKING)}
"""State → the points whose plugins are asked from there on, and the state after each."""
_LOOK_STEPS, _A_LOOK = 10_000, 50
"""Steps of a last look at a node: those that all pods may cost together, and those of an ordinary pod."""
_FEW = 1024
_UNTOLD = object()
"""The cause for which a pod of a group gives back what it holds, if its story does not say so."""
_POST, _POSTS = BindResult.POST, Event.POSTS
_EVENTS = {type(None): Event.SUCCESS, Refusal: Event.REJECTED, Holds: Event.HELD, Call: Event.CALLS}


class BindingCycle(Struct):
    """One pod between the decision for its node and the end of its attempt."""

    queued: QueuedPod
    node: str
    decision: Decision
    plugins: BindingPlugins
    first_seen: float
    assumed_at: float
    state: State = State.RESERVING
    call: Call | None = None
    """The coroutine under way."""
    wait: Wait | None = None
    """The objects or the pause that a PreBind plugin waits for."""
    waits: str = ""
    """The name of that plugin, since its last write."""
    deadline: float = 0.0
    gathers_on: float = 0.0
    """For how many seconds after its deadline it waits on for its group: at the deadline it only says that it waits."""
    group: GroupKey | None = None
    """The pod group with which it is bound."""
    stop: State | None = None
    """Before the plugins of this state are asked, the other pods of its group have to come as far."""
    refused: "Refusal | PluginError | None" = None
    """The answer of the Reserve plugin that kept it from its node, for the group that is being tried."""
    leaves: bool = False
    """The pod is gone."""
    nominated: bool = False
    """status.nominatedNodeName was asked to be set to this node."""
    waited: bool = False
    """A plugin had it wait: its Binding is not posted in the turn in which it was assumed."""
    contested: str = ""
    """The note for people if the pod is bound all the same: it names the device that another claim has, too."""

    def failure(self, cause: Any) -> tuple[str, str]:
        """(reason, message) of the condition, for what ended the attempt."""
        match cause:
            case Refusal():
                return UNSCHEDULABLE, printable(cause.reason.text)
            case PreBindWriteFailed() | CallFailed() | BindFailed():
                return SCHEDULER_ERROR, str(self.plugins.error(cause.message))
            case BindWithdrawn():
                return SCHEDULER_ERROR, cause.message
            case PluginError() | str():
                return SCHEDULER_ERROR, str(cause)
        return SCHEDULER_ERROR, ""


class ObjectWaits:
    """The pods that wait for objects to change."""

    def __init__(self) -> None:
        self.uids: dict[ObjectKey | None, dict[str, None]] = {}
        """The object, or None for any → the UIDs of the pods that wait for it."""

    def add(self, uid: str, on: frozenset[ObjectKey]) -> None:
        """A pod waits for these objects; for any, if there are none."""
        for key in on or (None,):
            self.uids.setdefault(key, {})[uid] = None

    def remove(self, uid: str, on: frozenset[ObjectKey]) -> None:
        """A pod waits for these objects no longer."""
        for key in on or (None,):
            uids = self.uids[key]
            del uids[uid]
            if not uids:
                del self.uids[key]

    def concerned(self, key: ObjectKey) -> tuple[str, ...]:
        """Return the pods that wait for an object."""
        return (*self.uids.get(key, ()), *self.uids.get(None, ()))


class Deadlines:
    """The times at which pods are given up. The entry of a pod that has another deadline, or none, is dropped later."""

    def __init__(self, cycles: Mapping[str, BindingCycle]) -> None:
        """`cycles`: all that there are, by the pod's UID."""
        self._cycles = cycles
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, uid: str, deadline: float) -> None:
        """A pod may wait until then."""
        heapq.heappush(self._heap, (deadline, uid))
        if len(self._heap) > 4 * len(self._cycles) + _FEW:
            self._heap = sorted({entry for entry in self._heap if self._holds(entry)})

    def next(self) -> float | None:
        """Return the first deadline."""
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def over(self, now: float) -> Iterator[str]:
        """Yield the pods whose time is over."""
        while (deadline := self.next()) is not None and deadline <= now:
            yield heapq.heappop(self._heap)[1]

    def _holds(self, entry: tuple[float, str]) -> bool:
        """Return whether the pod still waits until then."""
        deadline, uid = entry
        cycle = self._cycles.get(uid)
        return cycle is not None and cycle.state in TIMED and cycle.deadline == deadline


class BindingCycles:
    """Takes all pods through their binding cycles, and keeps what is held for each, by UID."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, outbox: Outbox, observers: Observers) -> None:
        self._cluster = cluster
        self._queue = queue
        self._outbox = outbox
        self._observers = observers
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
        """The number of other pods that were assumed since some of them were let go last: they do not wait for ever."""
        self._waits = ObjectWaits()
        self.waits = self._waits.uids
        """Not empty while somebody waits for an object to change."""
        self._deadlines = Deadlines(self._cycles)
        self._idle = 0
        self.left_deciding = 0
        """The number of pods that have left the state in which they wait for what is decided of their group."""
        self._assuming = ""
        """UID of the pod that is being assumed: nobody has noticed yet that it takes room, and nobody is woken."""

    @property
    def writing(self) -> int:
        """Return the number of pods for which a write is under way."""
        return len(self._cycles) - self._idle

    @property
    def ours(self) -> Container[str]:
        """The names of this scheduler's profiles."""
        return self._queue.frameworks

    def queued(self, uid: str) -> QueuedPod | None:
        """Return a pod that is about to be bound, as the queue knew it; None: it is in no binding cycle."""
        cycle = self._cycles.get(uid)
        return None if cycle is None else cycle.queued

    def entries(self) -> int:
        """Return how much is kept here, for tests of what a tenant can make grow."""
        return len(self._cycles) + len(self.waiting_pods) + len(self._deadlines) + self.gathering.entries()

    def state(self, uid: str) -> State | None:
        """Return the state of a pod; None: it is in no binding cycle."""
        cycle = self._cycles.get(uid)
        return None if cycle is None else cycle.state

    @property
    def unsettled(self) -> bool:
        """Return whether `settle` has something to do."""
        return bool(self.spoken_for) or (bool(self.gathering.released) and self._may_go > 0)

    @property
    def _may_go(self) -> int:
        """Return how many of the pods that their groups let go may be bound now."""
        if self._went_ahead < AT_ONCE:
            return min(len(self.gathering.released), AT_ONCE, self.let_go_beside - self.writing)
        return min(len(self.gathering.released), AT_ONCE)

    def next_tick(self) -> float | None:
        """Return the engine time at which `tick`, or `settle`, has something to do."""
        return 0.0 if self.unsettled else self._deadlines.next()

    def may_be_bound(self, uid: str) -> bool:
        """Return whether a Binding of ours may be under way for a pod."""
        cycle = self._cycles.get(uid)
        return cycle is not None and cycle.state in MAY_BE_BOUND

    def assume(
        self,
        queued: QueuedPod,
        framework: Framework,
        decision: Decision,
        row: int,
        now: float,
        binders: tuple[Any, ...] = (),
        group: GroupKey | None = None,
    ) -> BindingCycle:
        """Place the pod on its row at once and begin to bind it. `binders` come before the profile's own.

        `group`: the pod group that is being tried; then the pod waits after Reserve until that is decided.
        """
        pod, node = queued.pod, self._cluster.nodes.names[row] or ""
        leaving = self._cycles.get(pod.uid)
        if leaving is not None:
            self._unreserve(leaving, None, now)  # the API shows it again, after it had shown that it was gone
        plugins = framework.binding_plugins(pod, row, node, self.waiting_pods, binders)
        cycle = BindingCycle(queued, node, decision, plugins, queued.first_active or now, now)
        self._put(cycle)
        if group is not None:
            cycle.group, cycle.stop = group, State.PERMITTING
        elif self.gathering.released:
            self._went_ahead += 1
        nominations = self._cluster.nominations
        nominated = nominations.drop(pod.uid) if pod.uid in nominations.node_of else None
        self._cluster.assume(pod, row)
        for hear in self._observers.assumed:
            hear(queued, node, decision, now)
        other = None if nominated is None or nominated == node else self._cluster.nodes.live_row(nominated)
        if other is not None:
            self._queue.wake_for_room(pod, other, now, real=False)
        self._assuming = pod.uid
        try:
            self._ask(cycle, None, now)
        finally:
            self._assuming = ""
        return cycle

    def give_back(self, uid: str, now: float, *, quietly: bool, untold: bool = False) -> None:
        """The group of a pod is not bound: the pod gives back what it holds. `quietly`: nobody has noticed it there.

        `untold`: the pod's story does not say so, since it is tried on many nodes in a row.
        """
        cycle = self._cycles.get(uid)
        if cycle is None:
            return
        self._assuming = uid if quietly else ""
        try:
            self._take(cycle, Event.GROUP_BACK, _UNTOLD if untold else None, now)
        finally:
            self._assuming = ""

    def handle(self, stimulus: OfBindingCycle, now: float) -> None:
        """Go on with a pod after the answer to an instruction."""
        cycle = self._cycles.get(stimulus.uid)
        if isinstance(stimulus, (CallEnded, CallFailed)) and (cycle is None or cycle.call is not stimulus.call):
            # The pod is bound, or this attempt is over.
            over = State.BOUND if stimulus.call.point == "post_bind" else State.REVERTED
            if TABLE[over][stimulus.event].action is Action.REPORT:
                self._report(cycle, stimulus, now)
        elif cycle is None:
            if isinstance(stimulus, (PreBindWritten, PreBindWriteFailed)):
                self._cluster.devices.answered(stimulus.uid, stimulus.written)
        else:
            # 404, 409: the pod is gone, replaced or bound by others. Its watch event will show which.
            conflict = isinstance(stimulus, BindFailed) and (stimulus.quietly or stimulus.status in (404, 409))
            self._take(cycle, Event.BIND_CONFLICT if conflict else stimulus.event, stimulus, now)

    def happens(self, uid: str, event: Event, cause: Any, now: float) -> bool:
        """Something happens to a pod. False: it is in no binding cycle, or nothing follows from it."""
        cycle = self._cycles.get(uid)
        if cycle is None:
            return False
        cycle.leaves |= event is Event.GONE
        return self._take(cycle, event, cause, now)

    def changed(self, key: ObjectKey, now: float) -> None:
        """An object was added, updated or deleted."""
        for uid in self._waits.concerned(key) if self.waits else ():
            self._take(self._cycles[uid], Event.OBJECT_CHANGED, None, now)

    def go_on_sharing(self, now: float) -> None:
        """A claim is not being written any more: pods of the group that waited for that are asked again."""
        users = self._cluster.devices.users
        while users.released:
            for claim in users.take_released():
                self.changed((CLAIM, *claim), now)

    def contested(self, uid: str, why: str, now: float) -> bool:
        """A device of the pod is somebody else's as well: its plugins are asked again, or its Binding is withdrawn.

        If it is bound all the same, people are told `why`. False: the pod is in no binding cycle.
        """
        cycle = self._cycles.get(uid)
        if cycle is None:
            return False
        if cycle.state is State.BIND_POSTING:
            cycle.contested = why
        if cycle.state in (State.BIND_POSTING, State.GROUP_GATHERING):
            self._take(cycle, Event.UNFIT, why, now)
        else:
            self._take(cycle, Event.OBJECT_CHANGED, None, now)
        return True

    def look_again(self, node: str, now: float) -> None:
        """A node has changed, went, or somebody else's pod has come there: withdraw pods that it does not take now.

        The pods that are withdrawn do not count against the others. Once `_LOOK_STEPS` are used up nobody else is
        withdrawn: each pod was right when it was assumed, and the API server and the kubelet still have their say.
        """
        there = self._on_node.get(node)
        if there is None:
            return
        gone, left = self._cluster.nodes.live_row(node) is None, _LOOK_STEPS
        going: list[Pod] = []
        for uid, cycle in list(there.items()):
            placement = self._cluster.placement(uid) if uid in there else None
            if placement is None or not placement.assumed or not (gone or left > 0):
                continue
            left -= _A_LOOK + placement.pod.shape.steps
            why = self._objection(cycle, going)
            if not why:
                continue
            self._take(cycle, Event.UNFIT, why, now)
            if cycle.state is State.BIND_POSTING:
                going.append(placement.pod)

    def _objection(self, cycle: BindingCycle, going: Sequence[Pod] = ()) -> str:
        """Return why the node takes an assumed pod no longer; empty: it does. `going`: pods there that do not count.

        Between the decision and the Binding a pod may wait, on Permit, for its turn or for a server that says 429. The
        filters that look at one node are asked again, on what is known now.
        """
        cluster, pod, node = self._cluster, cycle.queued.pod, cycle.node
        row = cluster.nodes.live_row(node)
        if row is None:
            return f"node {node} is gone"
        framework, placement = self._queue.frameworks.get(pod.scheduler_name), cluster.placement(pod.uid)
        if framework is None or placement is None:
            return ""
        try:
            plugin = framework.filters.rejecting(pod, row_with(cluster, row, [placement.pod, *going], ()))
        except PluginError:
            return ""  # it was right there when the pod was assumed, and nobody can say that it is not any more
        return f"node {node} has changed, and {plugin} rejects the pod there" if plugin else ""

    def tick(self, now: float) -> None:
        """Give up pods that have waited too long. If there are many, the others follow with the next ticks."""
        for uid in islice(self._deadlines.over(now), _GIVEN_UP_AT_ONCE):
            cycle, waiting = self._cycles[uid], self.waiting_pods.get(uid)
            if cycle.state is State.GROUP_GATHERING:
                if self.gathering.has_let_go(uid):
                    continue
                if cycle.gathers_on:
                    self._tell_that_it_waits(cycle)
                else:
                    self._give_up(cycle, now)
            elif waiting is None:
                wait, cycle.waits = cycle.wait, ""
                cycle.plugins.time_over()
                if wait is not None and wait.pause:
                    self._take(cycle, Event.OBJECT_CHANGED, None, now)  # the one that changed is the clock
                    continue
                expired = "" if wait is None else wait.expired
                self._take(cycle, Event.TIME_OVER, str(cycle.plugins.error(expired)), now)
            elif (timed_out := waiting.timed_out()) is not None:
                self._take(cycle, Event.TIME_OVER, _rejected(*timed_out), now)

    def settle(self, now: float) -> None:
        """Go on with pods that a plugin has allowed or rejected while they waited on Permit, or that need not wait for
        their group any more: with some of these, as the others wait until some are bound."""
        if self.gathering.released and (going := self._may_go) > 0:
            self._went_ahead = 0
            for uid in self.gathering.take_released(going):
                self.happens(uid, Event.GROUP_ON, None, now)
        for waiting in self.waiting_pods.settled():
            cycle = self._cycles[waiting.pod.uid]
            if waiting.rejected is not None:
                self._take(cycle, Event.REJECTED, _rejected(*waiting.rejected), now)
            else:
                self._take(cycle, Event.PARTLY_ALLOWED if waiting.pending else Event.ALLOWED, None, now)

    def preempt(self, uid: str, now: float) -> bool:
        """Revert a pod for one of higher priority. False: the pod is or may be bound, so it has to be deleted."""
        cycle = self._cycles.get(uid)
        if cycle is None:
            return False
        message = str(cycle.plugins.error("preempted by DefaultPreemption"))
        if cycle.state is State.WAITING_ON_PERMIT:
            message = "waiting on permit for pod: preempted"
        return self._take(cycle, Event.PREEMPTED, message, now)

    def broke(self, uid: str, message: str, now: float) -> None:
        """The scheduling cycle of this pod raised. It is reverted, and so are pods whose plugins were being asked.

        `uid`: empty if it was the cycle of a pod group. Pods that went on before it raised are none of its business any
        more: their Bindings may be under way.
        """
        broken = {other: cycle for other, cycle in self._cycles.items() if other == uid or cycle.state in ASKING}
        self._outbox.retract(broken)
        for cycle in broken.values():
            self._take(cycle, Event.BROKE, message, now)

    def _take(self, cycle: BindingCycle, event: Event, cause: Any, now: float) -> bool:
        """Do what the table says, and return whether it says to do anything."""
        action, state, _ = TABLE[cycle.state][event]
        if state is not cycle.state:
            if cycle.state in IDLE:
                self._waits_no_longer(cycle, event, state, now)
            cycle.state = state
        do = _DO.get(action)
        if do is not None:
            do(self, cycle, cause, now)
        return do is not None

    def _ask(self, cycle: BindingCycle, cause: Any, now: float) -> None:
        if cause is not None:
            if isinstance(cause, CallEnded):
                cycle.plugins.call_ended(cause.answer)
            elif isinstance(cause, PreBindWritten):
                cycle.plugins.wrote(cause.written)
                if cycle.queued.pod.terminating:
                    self._take(cycle, Event.TERMINATING, cycle.queued.pod, now)
                    return
                why = self._objection(cycle)
                if why:
                    self._take(cycle, Event.UNFIT, why, now)
                    return
        answer: PointAnswer | PluginError = None
        try:
            for point, after in _STEPS_FROM[cycle.state]:
                answer = cycle.plugins.ask(point, self._cluster)
                if answer is not None:
                    break
                cycle.state = after
                if after is cycle.stop and self._stops(cycle):
                    self._take(cycle, Event.STANDS_BY, None, now)
                    return
        except PluginError as error:
            answer = error
        if cycle.state is State.RESERVING and isinstance(answer, (Refusal, PluginError)) and cycle.group is not None:
            cycle.refused = answer
            self._take(cycle, Event.GROUP_BACK, None, now)
            return
        self._take(cycle, event_of(answer), answer, now)

    def _stops(self, cycle: BindingCycle) -> bool:
        """Return whether a pod has to wait for the others of its group here."""
        if cycle.stop is State.PERMITTING:
            cycle.stop = State.BINDING
            return True
        assert cycle.group is not None
        cycle.stop = None
        return not self.gathering.arrives(cycle.group, cycle.queued.pod.uid)

    def _stand_by(self, cycle: BindingCycle, _: Any, now: float) -> None:
        self._idle += 1
        if cycle.state is State.GROUP_GATHERING:
            assert cycle.group is not None
            seconds = self.gathering.seconds(cycle.group)
            cycle.deadline = now + min(seconds, _TOLD_AFTER)
            cycle.gathers_on = max(0.0, seconds - _TOLD_AFTER)
            self._deadlines.add(cycle.queued.pod.uid, cycle.deadline)

    def _tell_that_it_waits(self, cycle: BindingCycle) -> None:
        """Write a condition of a pod that holds room and waits for others; its reason has no autoscaler add a node."""
        assert cycle.group is not None
        pod, left = cycle.queued.pod, cycle.gathers_on
        message = (
            f"holds room on {cycle.node} until enough pods of its group {cycle.group} do, for {left:g} seconds more"
        )
        cycle.queued.written = None
        self._outbox.add(PatchCondition(pod, WAITING_FOR_GROUP, message))
        cycle.deadline, cycle.gathers_on = cycle.deadline + left, 0.0
        self._deadlines.add(pod.uid, cycle.deadline)

    def _give_up(self, cycle: BindingCycle, now: float) -> None:
        """The others of the group have not come: all that wait for them give back what they hold."""
        assert cycle.group is not None
        seconds = self.gathering.seconds(cycle.group)
        self._take(cycle, Event.TIME_OVER, _rejected(GANG_SCHEDULING, timeout_text(seconds, GANG_SCHEDULING)), now)
        for uid in self.gathering.waiting(cycle.group):
            other = self._cycles[uid]
            if other.deadline <= now and not other.gathers_on:
                break  # its time is over as well: it does the same for those after it
            other.gathers_on = 0.0
            other.deadline = now
            self._deadlines.add(uid, now)

    def _hold(self, cycle: BindingCycle, held: Holds, now: float) -> None:
        self._idle += 1
        self.waiting_pods.add(cycle.queued.pod, cycle.node, held.seconds, now)
        self._tell_waits(cycle, held, now)
        self._extend(cycle, None, now)
        self._nominate(cycle)

    def _extend(self, cycle: BindingCycle, _: Any, now: float) -> None:
        waiting = self.waiting_pods.get(cycle.queued.pod.uid)
        assert waiting is not None
        cycle.deadline = waiting.earliest()[0]
        self._deadlines.add(waiting.pod.uid, cycle.deadline)

    def _write(self, cycle: BindingCycle, wait: Wait, now: float) -> None:
        cycle.waits = ""
        self._tell_waits(cycle, wait, now)
        self._nominate(cycle)
        plugin, since = cycle.plugins.plugin, cycle.assumed_at
        self._outbox.add(instructions.PreBindWrite(cycle.queued.pod, cycle.node, plugin, wait.writes, since))

    def _wait(self, cycle: BindingCycle, wait: Wait, now: float) -> None:
        self._idle += 1
        uid, plugin = cycle.queued.pod.uid, cycle.plugins.plugin
        if cycle.waits != plugin or wait.pause:
            cycle.waits, cycle.deadline = "" if wait.pause else plugin, now + wait.seconds
        self._deadlines.add(uid, cycle.deadline)  # also the one of before: it was dropped if a coroutine ran meanwhile
        cycle.wait = wait
        if wait.event is not None:
            self._outbox.add(instructions.RecordEvent(cycle.queued.pod, "Normal", *wait.event))
        self._tell_waits(cycle, wait, now)
        self._waits.add(uid, wait.on)
        self._nominate(cycle)

    def _call(self, cycle: BindingCycle, call: Call, now: float) -> None:
        self._idle += 1
        cycle.call = call
        self._tell_waits(cycle, call, now)
        if cycle.state is not State.BIND_CALLING:
            self._nominate(cycle)
        self._outbox.add(instructions.RunCall(cycle.queued.pod, call))

    def _post(self, cycle: BindingCycle, _: Any, now: float) -> None:
        if cycle.waited:
            for hear in self._observers.posted:
                hear(cycle.queued, cycle.node, now)
        self._say_bound(cycle, instructions.Bind)

    def _say_bound(self, cycle: BindingCycle, kind: type[instructions.Bind] | type[instructions.BoundByPlugin]) -> None:
        queued = cycle.queued
        self._outbox.add(
            kind(
                queued.pod,
                cycle.node,
                queued.attempts,
                cycle.first_seen,
                cycle.decision,
                cycle.assumed_at,
                queued.flushed,
            )
        )

    def _finish(self, cycle: BindingCycle, cause: Any, now: float) -> None:
        pod = cycle.queued.pod
        self._drop(cycle)
        by = cycle.plugins.plugin if cause is BindResult.DONE else ""
        for hear in self._observers.bound:
            hear(cycle.queued, cycle.node, by, now)
        if cause is BindResult.DONE:
            self._say_bound(cycle, instructions.BoundByPlugin)
        calls, errors = cycle.plugins.post_bind(self._cluster)
        for call in calls:
            self._outbox.add(instructions.RunCall(pod, call))
        for error in errors:
            self._outbox.add(Misbehaved(pod, error))
        if cycle.contested:
            self._outbox.add(instructions.DeviceGivenTwice(pod, cycle.contested))

    def _report(self, _: BindingCycle | None, end: CallEnded | CallFailed, now: float) -> None:
        """A coroutine of PostBind has ended."""
        call = end.call
        error = call.error(end.message) if isinstance(end, CallFailed) else not_none(call, end.answer)
        if error is not None:
            self._outbox.add(Misbehaved(call.pod, error))

    def _park(self, cycle: BindingCycle, rejected: Refusal, now: float) -> None:
        queued, plugins = cycle.queued, frozenset((rejected.plugin,))
        # Asked before the pod gives its room back: its own room is no reason to try again at once.
        missed = self._queue.missed(queued, plugins)
        if self._revert(cycle, now):
            message = f"0/1 nodes are available: 1 {printable(rejected.reason.text)}."
            self._tell_reverted(cycle, UNSCHEDULABLE, message, plugins, now)
            self._queue.add_unschedulable(queued, plugins, now, missed=missed)
            self._outbox.failed(queued, UNSCHEDULABLE, message, plugins, nominated="")

    def _retry(self, cycle: BindingCycle, cause: Any, now: float, *, quietly: bool = False) -> None:
        if isinstance(cause, PreBindWriteFailed):
            cycle.plugins.wrote(cause.written, cause.status)
        elif isinstance(cause, BindFailed):
            for hear in self._observers.bind_failed:
                hear(cycle.queued, cause.status, cause.message, now)
        reason, message = cycle.failure(cause)
        if self._revert(cycle, now, cause if isinstance(cause, BindFailed) else None):
            self._tell_reverted(cycle, reason, message, frozenset(), now)
            self._queue.requeue(cycle.queued, now)
            self._outbox.failed(cycle.queued, reason, message, nominated="", quietly=quietly)

    def _retry_quietly(self, cycle: BindingCycle, cause: Any, now: float) -> None:
        self._retry(cycle, cause, now, quietly=True)

    def _withdraw(self, cycle: BindingCycle, why: str, now: float) -> None:
        self._outbox.add(instructions.Withdraw(cycle.queued.pod, cycle.node, why))

    def _leave(self, cycle: BindingCycle, _: Any, now: float) -> None:
        """The writes may still take place, so what the plugins hold for the pod is held until they are answered."""

    def _forget(self, cycle: BindingCycle, pod: Pod, now: float) -> None:
        cycle.queued.pod = pod
        self._revert(cycle, now)
        for hear in self._observers.left:
            hear(pod.uid, "terminating", now)

    def _give_back(self, cycle: BindingCycle, cause: Any, now: float) -> None:
        pod = cycle.queued.pod
        self._revert(cycle, now)
        if cause is not _UNTOLD:
            for hear in self._observers.reverted:
                hear(cycle.queued, cycle.node, now)
        if pod.nominated_node_name:
            self._cluster.nominations.put(pod, pod.nominated_node_name)

    def _update(self, cycle: BindingCycle, pod: Pod, now: float) -> None:
        cycle.queued.update(pod)

    # -- what is held, and how it is given back -----------------------------------------------------------------------

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

    def _tell_waits(self, cycle: BindingCycle, answer: Holds | Wait | Call, now: float) -> None:
        cycle.waited = True
        for hear in self._observers.waits:
            hear(cycle.queued, cycle.node, cycle.plugins.plugin, answer, now)

    def _tell_reverted(
        self, cycle: BindingCycle, reason: str, message: str, plugins: frozenset[str], now: float
    ) -> None:
        for reverted in self._observers.reverted:
            reverted(cycle.queued, cycle.node, now)
        for failed in self._observers.failed:
            failed(cycle.queued, reason, message, plugins, now)

    def _revert(self, cycle: BindingCycle, now: float, cause: Any = None) -> bool:
        """Unreserve and forget. True: the pod has to be tried again, as it is neither placed nor terminating."""
        pod, uid = cycle.queued.pod, cycle.queued.pod.uid
        self._unreserve(cycle, cause, now)
        forgotten = self._cluster.forget(uid)
        if forgotten is not None and forgotten.pod.scheduling_group != pod.scheduling_group:
            self._cluster.pod_groups.waits(pod)  # its label has changed since it was assumed
            if pod.scheduling_group is not None:
                self._queue.groups.changed(pod.scheduling_group, now, helps=True)
        if forgotten is not None and uid != self._assuming:
            self._queue.wake_for_room(forgotten.pod, forgotten.row, now, real=False)
        return self._cluster.placement(uid) is None and not pod.terminating

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
        self._drop(cycle)
        self.gathering.leaves(pod.uid)
        version, given = self._cluster.storage.version, self._cluster.devices.log.version
        writes, errors = cycle.plugins.unreserve(self._cluster, leaves=leaves)
        placement = self._cluster.placement(pod.uid)
        if writes and not elsewhere and (placement is None or placement.assumed):
            self._outbox.add(instructions.UnreserveWrite(pod, tuple(writes)))
        for error in errors:
            self._outbox.add(Misbehaved(pod, error))
        if self._cluster.storage.version != version and pod.uid != self._assuming:
            self._queue.wake_for_object(ClusterEvent.VOLUME_UPDATED, None, None, now, real=False)
        if self._cluster.devices.log.version != given and pod.uid != self._assuming:
            self._queue.wake_for_object(ClusterEvent.DEVICE_CLAIM_GONE, None, None, now, real=False)

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


_DO: dict[Action, Any] = {
    action: getattr(BindingCycles, f"_{action.name.lower()}") for action in Action if action is not Action.IGNORE
}
"""Action → the method of its name."""


def _rejected(plugin: str, message: str) -> Refusal:
    return Refusal(plugin, Reason(message))


def event_of(said: PointAnswer | PluginError) -> Event:
    """Return the event in the table for an answer of the plugins."""
    if said is _POST:
        return _POSTS
    if isinstance(said, Wait):
        return Event.WRITES if said.writes else Event.WAITS
    return Event.DONE if said is BindResult.DONE else _EVENTS.get(type(said), Event.ERROR)
