"""From the decision for a node to the Binding: assume, reserve, prepare, bind; and back again when that fails.

Mirrors kube-scheduler `schedule_one.go` (assumeAndReserve, bindingCycle, handleBindingCycleError).
"""

from itertools import islice
from typing import Any

from scheduler.engine import wakes
from scheduler.engine.failures import failed
from scheduler.engine.in_flight import Flight, InFlight, Stage
from scheduler.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Announce,
    Bind,
    BoundByPlugin,
    CancelCall,
    Failed,
    Instruction,
    Misbehaved,
    Prepare,
    RunCall,
)
from scheduler.engine.queue import Queue
from scheduler.engine.queued import QueuedPod
from scheduler.engine.stimuli import Answered, BindFailed, NotAnswered, NotPrepared, Prepared
from scheduler.framework.decision import Decision
from scheduler.framework.events import ClusterEvent
from scheduler.framework.permit import WaitingPods
from scheduler.framework.reservation import Binding, Call, Holds, ObjectKey, Refused, Wait
from scheduler.framework.runtime import Framework
from scheduler.framework.status import SUCCESS, PluginError, Reason
from scheduler.framework.status import UNSCHEDULABLE as REFUSED
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

_GONE_FOR_GOOD = frozenset((404, 409))
"""Binding answers that say the pod is gone, replaced or taken: its watch event tells the rest."""

_GIVEN_UP_AT_ONCE = 64
"""Pods whose time is over that are turned back in one turn."""


class Departures:
    """Pods on their way to the node that was chosen for them."""

    def __init__(self, cluster: Cluster, queue: Queue, aside: list[Instruction]) -> None:
        """`aside`: where to put what is to be done about a pod that is not the one in hand."""
        self._cluster = cluster
        self._queue = queue
        self._aside = aside
        self._flights = InFlight()
        self._waiting = WaitingPods()
        self._setting_out = ""
        """UID of the pod that was assumed in this very stimulus.

        What it gives back if it is rejected at once nobody has missed, so nobody is woken for it (unreserveAndForget).
        """
        self.holding = self._waiting.pods
        """Pods that wait for a Permit, by UID."""
        self.waits = self._waiting.waits
        """(status, seconds) of those that did."""

    @property
    def writing(self) -> int:
        """Writes that have no answer yet."""
        return self._flights.writing

    def next_due(self) -> float | None:
        """Engine time at which `give_up`, or `settle`, has something to do."""
        return 0.0 if self._waiting.spoken else self._flights.next_due()

    def set_out(
        self,
        queued: QueuedPod,
        framework: Framework,
        decision: Decision,
        row: int,
        now: float,
        binders: tuple[Any, ...] = (),
    ) -> list[Instruction]:
        """Place the pod on its row at once and begin to bind it. `binders` come before the profile's own.

        Raises PluginError when a Reserve plugin fails; then nothing has happened.
        """
        pod, node = queued.pod, self._cluster.nodes.names[row] or ""
        kept = self._cluster.nominations.drop(pod.uid)
        self._cluster.assume(pod, row)
        kept_row = None if kept is None or kept == node else self._cluster.nodes.live_row(kept)
        if kept_row is not None:
            wakes.for_room(self._queue, self._cluster, pod, kept_row, now, real=False)
        self._setting_out = pod.uid
        try:
            return self._reserve(queued, framework, decision, (row, node), now, binders)
        finally:
            self._setting_out = ""

    def _reserve(
        self,
        queued: QueuedPod,
        framework: Framework,
        decision: Decision,
        where: tuple[int, str],
        now: float,
        binders: tuple[Any, ...],
    ) -> list[Instruction]:
        pod, (row, node) = queued.pod, where
        reservation = framework.reservation(pod, row, node, self._waiting, binders)
        flight = Flight(queued, node, decision, reservation, queued.first_active or now)
        try:
            refused = reservation.take(self._cluster)
        except PluginError:
            self._release(flight, now)
            self._forget(pod.uid, now)
            raise
        framework.reserved(SUCCESS if refused is None else REFUSED)
        if refused is not None:
            self._release(flight, now)
            self._forget(pod.uid, now)
            return self._park(queued, Refused(*refused), now)
        self._flights.add(flight)
        return self._advance(flight, now)

    def prepared(self, answer: Prepared, now: float) -> list[Instruction]:
        """What PreBind asked for is written."""
        flight = self._flights.get(answer.uid)
        if flight is None:
            return []
        flight.reservation.note(answer.written)
        return self._advance(flight, now)

    def not_prepared(self, answer: NotPrepared, now: float) -> list[Instruction]:
        """What PreBind asked for could not be written, or not all of it."""
        flight = self._flights.get(answer.uid)
        if flight is None:
            return []
        flight.reservation.note(answer.written)
        return self._turn_back(flight, str(flight.reservation.error(answer.message)), now)

    def answered(self, answered: Answered, now: float) -> list[Instruction]:
        """A plugin's coroutine has ended."""
        flight = self._calling(answered.call)
        if flight is None:
            return []
        flight.reservation.heard(answered.answer)
        return self._advance(flight, now)

    def not_answered(self, failure: NotAnswered, now: float) -> list[Instruction]:
        """A plugin's coroutine came to nothing."""
        call, error = failure.call, failure.call.error(failure.message)
        flight = self._calling(call)
        if flight is not None:
            return self._turn_back(flight, str(error), now)
        return [Misbehaved(call.pod, error)] if call.point == "post_bind" else []

    def bound(self, uid: str) -> list[Instruction]:
        """The API accepted the Binding: PostBind plugins are told."""
        flight = self._flights.pop(uid)
        return [] if flight is None else self._arrived(flight)

    def bind_failed(self, failure: BindFailed, now: float) -> list[Instruction]:
        """The API refused the Binding."""
        flight = self._flights.get(failure.uid)
        if flight is None:
            self._forget(failure.uid, now)
            return []
        message = str(flight.reservation.error(failure.message))
        return self._turn_back(flight, message, now, quiet=failure.status in _GONE_FOR_GOOD)

    def changed(self, key: ObjectKey, now: float) -> list[Instruction]:
        """An object came, changed or went: whoever waits for it goes on, if it can."""
        done: list[Instruction] = []
        for flight in self._flights.concerned(key):
            done += self._advance(flight, now)
        return done

    def give_up(self, now: float) -> list[Instruction]:
        """Turn pods back that have waited too long for what PreBind needs, or for a Permit plugin's word.

        Only some of them, if there are many.
        """
        done: list[Instruction] = []
        for flight in list(islice(self._flights.due(now), _GIVEN_UP_AT_ONCE)):
            waiting = self._waiting.get(flight.queued.pod.uid)
            if waiting is not None:
                waiting.expire(waiting.earliest()[1])
                continue
            expired = flight.wait.expired if flight.wait is not None else ""
            done += self._turn_back(flight, str(flight.reservation.error(expired)), now)
        return done

    def settle(self, now: float) -> list[Instruction]:
        """Go on with pods that a plugin has allowed or rejected while they waited for a Permit."""
        done: list[Instruction] = []
        for waiting in self._waiting.settled():
            uid = waiting.pod.uid
            flight = self._flights.get(uid)
            if flight is None:
                continue
            if waiting.rejected is not None:
                plugin, message = waiting.rejected
                done += self._refused(flight, Refused(plugin, Reason(message)), now)
            elif waiting.pending:
                self._flights.hold(flight, waiting.earliest()[0])
            else:
                self._waiting.remove(uid, SUCCESS, now)
                done += self._advance(flight, now)
        return done

    def preempt(self, uid: str, now: float) -> bool:
        """A pod of higher priority takes the room; True if the pod turned back, False if it may be bound already."""
        flight = self._flights.get(uid)
        if flight is None or flight.binding or flight.stage is Stage.WRITING:
            return False
        message = str(flight.reservation.error("preempted by DefaultPreemption"))
        if flight.stage is Stage.HELD:
            message = "waiting on permit for pod: preempted"
        self._aside += self._turn_back(flight, message, now)
        return True

    def update(self, pod: Pod, now: float) -> bool:
        """An unbound pod changed; True if it is on its way. Should that fail, it is tried again as it is now."""
        flight = self._flights.get(pod.uid)
        if flight is None:
            return False
        flight.queued.pod = pod
        if pod.terminating and not flight.binding and flight.stage is not Stage.WRITING:
            self._turn_back(flight, "", now)
        return True

    def drop(self, uid: str, now: float) -> None:
        """The pod is gone."""
        flight = self._flights.get(uid)
        if flight is None:
            return
        if flight.call is not None:
            self._aside.append(CancelCall(flight.call))
        self._waiting.remove(uid, REFUSED, now)
        self._release(self._flights.pop(uid), now)

    def bound_by_others(self, uid: str, now: float) -> None:
        """The pod is on a node; by our own Binding, or else there is nothing to prepare any more."""
        flight = self._flights.get(uid)
        if flight is not None and not flight.binding:
            self.drop(uid, now)

    def _calling(self, call: Call) -> Flight | None:
        """The flight that waited for this very call, which has ended."""
        flight = self._flights.get(call.pod.uid)
        if flight is None or flight.call is not call:
            return None
        self._flights.write(flight)
        return flight

    def _advance(self, flight: Flight, now: float) -> list[Instruction]:
        """Bind the pod; or have done, and wait for, what plugins need first."""
        queued = flight.queued
        if queued.pod.terminating:
            return self._turn_back(flight, "", now)
        try:
            step = flight.reservation.advance(self._cluster)
        except PluginError as error:
            return self._turn_back(flight, str(error), now)
        if step is Binding.POST:
            self._flights.bind(flight)
            return [Bind(queued.pod, flight.node, queued.attempts, flight.first_seen, flight.decision, queued.flushed)]
        plugin = flight.reservation.plugin
        match step:
            case Refused():
                return self._refused(flight, step, now)
            case Holds(seconds):
                waiting = self._waiting.add(queued.pod, flight.node, seconds, now)
                self._flights.hold(flight, waiting.earliest()[0])
                return self._announce(flight)
            case Call():
                self._flights.calling(flight, step)
                return [*(self._announce(flight) if step.point != "bind" else ()), RunCall(step)]
            case Wait(writes=()):
                self._flights.idle(flight, step, plugin, now)
                return self._announce(flight)
            case Wait(writes=writes):
                self._flights.write(flight)
                return [*self._announce(flight), Prepare(queued.pod, flight.node, plugin, writes)]
        self._flights.pop(queued.pod.uid)
        done = BoundByPlugin(
            queued.pod, flight.node, plugin, queued.attempts, flight.first_seen, flight.decision, queued.flushed
        )
        return [done, *self._arrived(flight)]

    def _arrived(self, flight: Flight) -> list[Instruction]:
        """The pod is bound."""
        calls, errors = flight.reservation.arrived(self._cluster)
        if not calls and not errors:
            return []
        pod = flight.queued.pod
        return [*(RunCall(call) for call in calls), *(Misbehaved(pod, error) for error in errors)]

    def _announce(self, flight: Flight) -> list[Instruction]:
        """Say once where the pod will be (NominatedNodeNameForExpectation)."""
        queued = flight.queued
        if flight.announced or queued.pod.nominated_node_name == flight.node:
            return []
        flight.announced = True
        reason, message, _ = queued.written or ("", "", "")
        queued.written = (reason, message, flight.node)
        return [Announce(queued.pod, flight.node)]

    def _turn_back(self, flight: Flight, message: str, now: float, *, quiet: bool = False) -> list[Instruction]:
        """Give back what was held for a pod and try it again later, unless it turned out to be placed or gone."""
        queued = flight.queued
        uid = queued.pod.uid
        self.drop(uid, now)
        self._forget(uid, now)
        if self._cluster.placement(uid) is not None or queued.pod.terminating:
            return []
        self._queue.put_back(queued, now)
        if quiet:
            return [Failed(queued.pod, SCHEDULER_ERROR, message, frozenset(), queued.attempts, None)]
        return failed(queued, SCHEDULER_ERROR, message, nominated="")

    def _refused(self, flight: Flight, refused: Refused, now: float) -> list[Instruction]:
        """A Permit plugin keeps the pod from its node: it waits for what may change that plugin's mind."""
        queued = flight.queued
        uid = queued.pod.uid
        # That its own room is free again is no reason to try at once: what it gives back comes after the question.
        missed = self._queue.missed(queued, frozenset((refused.plugin,)))
        self.drop(uid, now)
        self._forget(uid, now)
        if self._cluster.placement(uid) is not None or queued.pod.terminating:
            return []
        return self._park(queued, refused, now, missed=missed)

    def _park(self, queued: QueuedPod, refused: Refused, now: float, *, missed: bool = False) -> list[Instruction]:
        """A plugin keeps the pod from the node it was decided for (Reserve, Permit)."""
        message = f"0/1 nodes are available: 1 {refused.reason.text}."
        plugins = frozenset((refused.plugin,))
        self._queue.park(queued, plugins, now, missed=missed)
        return failed(queued, UNSCHEDULABLE, message, plugins, nominated="")

    def _release(self, flight: Flight | None, now: float) -> None:
        """Let plugins give back what they hold; who waits for a volume may get it."""
        if flight is None:
            return
        version, pod = self._cluster.storage.version, flight.queued.pod
        errors = flight.reservation.release(self._cluster)
        self._aside += (Misbehaved(pod, error) for error in errors)
        if self._cluster.storage.version != version and pod.uid != self._setting_out:
            wakes.for_storage(self._queue, ClusterEvent.VOLUME_UPDATED, None, None, now, real=False)

    def _forget(self, uid: str, now: float) -> None:
        forgotten = self._cluster.forget(uid)
        if forgotten is not None and uid != self._setting_out:
            wakes.for_room(self._queue, self._cluster, forgotten.pod, forgotten.row, now, real=False)
