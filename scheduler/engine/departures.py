"""From the decision for a node to the Binding: assume, reserve, prepare, bind; and back again when that fails.

Mirrors kube-scheduler `schedule_one.go` (assumeAndReserve, bindingCycle, handleBindingCycleError).
"""

from scheduler.engine import wakes
from scheduler.engine.failures import tell
from scheduler.engine.in_flight import Flight, InFlight, Stage
from scheduler.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Announce,
    Bind,
    Failed,
    Instruction,
    Prepare,
)
from scheduler.engine.queue import Queue, QueuedPod
from scheduler.engine.stimuli import BindFailed, NotPrepared, Prepared
from scheduler.framework.decision import Decision
from scheduler.framework.events import ClusterEvent
from scheduler.framework.quick import SUCCESS
from scheduler.framework.reservation import ObjectKey
from scheduler.framework.runtime import UNSCHEDULABLE as REFUSED
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError, Reason
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

_GONE_FOR_GOOD = frozenset((404, 409))
"""Binding answers that say the pod is gone, replaced or taken: its watch event tells the rest."""


class Departures:
    """Pods on their way to the node that was chosen for them."""

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        self._cluster = cluster
        self._queue = queue
        self._flights = InFlight()

    @property
    def writing(self) -> int:
        """Writes that have no answer yet."""
        return self._flights.writing

    def next_due(self) -> float | None:
        """Engine time at which `give_up` has something to do."""
        return self._flights.next_due()

    def set_out(
        self, queued: QueuedPod, framework: Framework, decision: Decision, row: int, now: float
    ) -> list[Instruction]:
        """Place the pod on its row at once and begin to bind it.

        Raises PluginError when a Reserve plugin fails; then nothing has happened.
        """
        pod, node = queued.pod, self._cluster.nodes.names[row] or ""
        self._cluster.nominations.drop(pod.uid)
        self._cluster.assume(pod, row)
        reservation = framework.reservation(pod, row, node)
        try:
            refused = reservation.take(self._cluster)
        except PluginError:
            self._forget(pod.uid, now)
            raise
        framework.reserved(SUCCESS if refused is None else REFUSED)
        if refused is not None:
            self._forget(pod.uid, now)
            return self._refused(queued, *refused, now)
        flight = Flight(queued, node, decision, reservation, queued.first_active or now)
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
        return self._turn_back(flight, _pre_bind_error(flight, answer.message), now)

    def bound(self, uid: str) -> None:
        """The API accepted the Binding."""
        self._flights.pop(uid)

    def bind_failed(self, failure: BindFailed, now: float) -> list[Instruction]:
        """The API refused the Binding."""
        flight = self._flights.get(failure.uid)
        if flight is None:
            self._forget(failure.uid, now)
            return []
        message = f'running Bind plugin "DefaultBinder": {failure.message}'
        return self._turn_back(flight, message, now, quiet=failure.status in _GONE_FOR_GOOD)

    def changed(self, key: ObjectKey, now: float) -> list[Instruction]:
        """An object came, changed or went: whoever waits for it goes on, if it can."""
        done: list[Instruction] = []
        for flight in self._flights.concerned(key):
            done += self._advance(flight, now)
        return done

    def give_up(self, now: float) -> list[Instruction]:
        """Turn pods back that have waited too long for what PreBind needs."""
        done: list[Instruction] = []
        for flight in list(self._flights.due(now)):
            expired = flight.wait.expired if flight.wait is not None else ""
            done += self._turn_back(flight, _pre_bind_error(flight, expired), now)
        return done

    def update(self, pod: Pod, now: float) -> bool:
        """An unbound pod changed; True if it is on its way. Should that fail, it is tried again as it is now."""
        flight = self._flights.get(pod.uid)
        if flight is None:
            return False
        flight.queued.pod = pod
        if pod.terminating and flight.stage is Stage.WAITING:
            self._turn_back(flight, "", now)
        return True

    def drop(self, uid: str, now: float) -> None:
        """The pod is gone."""
        self._release(self._flights.pop(uid), now)

    def bound_by_others(self, uid: str, now: float) -> None:
        """The pod is on a node; by our own Binding, or else there is nothing to prepare any more."""
        flight = self._flights.get(uid)
        if flight is not None and flight.stage is not Stage.BINDING:
            self.drop(uid, now)

    def _advance(self, flight: Flight, now: float) -> list[Instruction]:
        """Bind the pod; or have written, and wait for, what PreBind needs first."""
        queued = flight.queued
        if queued.pod.terminating:
            return self._turn_back(flight, "", now)
        try:
            wait = flight.reservation.advance(self._cluster)
        except PluginError as error:
            return self._turn_back(flight, str(error), now)
        if wait is None:
            self._flights.bind(flight)
            return [Bind(queued.pod, flight.node, queued.attempts, flight.first_seen, flight.decision)]
        plugin = flight.reservation.plugin
        if not wait.writes:
            self._flights.idle(flight, wait, plugin, now)
            return self._announce(flight)
        self._flights.write(flight)
        return [*self._announce(flight), Prepare(queued.pod, flight.node, plugin, wait.writes)]

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
        failed = Failed(queued.pod, SCHEDULER_ERROR, message, frozenset(), queued.attempts, None)
        if quiet:
            return [failed]
        nominated = "" if flight.announced or queued.pod.nominated_node_name == flight.node else None
        return [failed, *tell(queued, SCHEDULER_ERROR, message, nominated)]

    def _refused(self, queued: QueuedPod, plugin: str, reason: Reason, now: float) -> list[Instruction]:
        """A Reserve plugin keeps the pod from the node it was decided for."""
        message = f"0/1 nodes are available: 1 {reason.text}."
        plugins = frozenset((plugin,))
        self._queue.park(queued, plugins, now)
        failed = Failed(queued.pod, UNSCHEDULABLE, message, plugins, queued.attempts, None)
        return [failed, *tell(queued, UNSCHEDULABLE, message)]

    def _release(self, flight: Flight | None, now: float) -> None:
        """Let plugins give back what they hold; who waits for a volume may get it."""
        if flight is None:
            return
        version = self._cluster.storage.version
        flight.reservation.release(self._cluster)
        if self._cluster.storage.version != version:
            wakes.for_storage(self._queue, ClusterEvent.VOLUME_UPDATED, None, None, now)

    def _forget(self, uid: str, now: float) -> None:
        forgotten = self._cluster.forget(uid)
        if forgotten is not None:
            wakes.for_pod(self._queue, ClusterEvent.POD_GONE, forgotten.pod, now)


def _pre_bind_error(flight: Flight, message: str) -> str:
    return str(PluginError(flight.reservation.plugin, message, "PreBind"))
