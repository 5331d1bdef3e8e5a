"""The scheduler as a state machine: `handle(stimulus, now)` returns instructions.

It owns the cluster's columns and the queue, runs one cycle at a time, and assumes what it decides.
It never reads a clock, never logs and never waits. Mirrors kube-scheduler `eventhandlers.go`,
`schedule_one.go` and `scheduler.go`.
"""

import zlib
from collections.abc import Mapping

from msgspec.structs import replace

from scheduler.engine import wakes
from scheduler.engine.changes import (
    key_of,
    node_changes,
    placed_pod_changes,
    storage_changes,
    waiting_pod_changes,
)
from scheduler.engine.departures import Departures
from scheduler.engine.failures import tell
from scheduler.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    ClearNomination,
    Failed,
    Instruction,
    Preempt,
)
from scheduler.engine.queue import Queue, QueuedPod
from scheduler.engine.stimuli import (
    BindFailed,
    Bound,
    Cycle,
    Gone,
    NotPrepared,
    Prepared,
    Put,
    Stimulus,
    Tick,
    Unwritten,
    VictimStays,
)
from scheduler.framework.decision import Decision, fit_error
from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import PostFilterResult
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.kinds import Modelled
from scheduler.model.namespaced import Namespace, Selecting
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.storage import STORAGE_KINDS
from scheduler.state.cluster import Cluster


class Engine:
    """One scheduler: several profiles, one queue, one cluster."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        *,
        seed: int = 0,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        in_full: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        """`in_full`: keep in each decision who rejected what and how every plugin scored, at the cost of speed.

        `cluster`: the columns to start from; empty ones without it.
        """
        self.cluster = cluster if cluster is not None else Cluster()
        self.queue = Queue(frameworks, initial_backoff, max_backoff)
        self._frameworks = frameworks
        self._seed = seed
        self._in_full = in_full
        self._departures = Departures(self.cluster, self.queue)

    @property
    def in_flight(self) -> int:
        """Writes for pods on their way to a node that have no answer yet."""
        return self._departures.writing

    @property
    def has_work(self) -> bool:
        """Whether a Cycle would schedule a pod."""
        return self.queue.has_active

    def next_tick(self) -> float | None:
        """Engine time at which a Tick has something to do."""
        times = (self.queue.next_tick(), self._departures.next_due())
        return min((time for time in times if time is not None), default=None)

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Decide by other profiles from the next cycle on. Pods on their way go on as they were decided."""
        self._frameworks = frameworks
        self.queue.reconfigure(frameworks, initial_backoff, max_backoff, now)

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Apply one stimulus at engine time `now` (seconds, monotonic) and return what to do about it."""
        match stimulus:
            case Cycle():
                return self._cycle(now)
            case Put(thing):
                self._put(thing, now)
                return self._departures.changed(key_of(thing), now)
            case Gone(kind, namespace, name):
                cleared = self._gone(stimulus, now)
                return cleared + self._departures.changed((kind, namespace, name), now)
            case VictimStays(victim):
                # Room that was promised does not come: whoever waits for it has to look again.
                self.cluster.replace(victim)
                self._room_was_made(victim, now)
            case Bound(uid):
                self._departures.bound(uid)
            case BindFailed():
                return self._departures.bind_failed(stimulus, now)
            case Prepared():
                return self._departures.prepared(stimulus, now)
            case NotPrepared():
                return self._departures.not_prepared(stimulus, now)
            case Unwritten(uid):
                queued = self.queue.get(uid)
                if queued is not None:
                    queued.written = None
            case Tick():
                self.queue.tick(now)
                return self._departures.give_up(now)
        return []

    def _put(self, thing: Modelled, now: float) -> None:
        match thing:
            case Pod():
                self._put_pod(thing, now)
            case Node():
                old = self.cluster.put_node(thing)
                wakes.for_node(self.queue, node_changes(old, thing), old, thing, now)
            case Namespace():
                if self.cluster.put_namespace(thing) != thing.labels:
                    wakes.everyone(self.queue, ClusterEvent.NAMESPACE, now)
            case Selecting():
                self.cluster.put_selecting(thing)
                wakes.everyone(self.queue, ClusterEvent.SELECTING, now)
            case _:
                before = self.cluster.storage.put(thing)
                wakes.for_storage(self.queue, storage_changes(before, thing), before, thing, now)

    def _gone(self, gone: Gone, now: float) -> list[Instruction]:
        match gone.kind:
            case "Pod":
                waiting = self.queue.remove(gone.uid)
                self._departures.drop(gone.uid, now)
                placement = self.cluster.drop_pod(gone.uid)
                if placement is not None:
                    self._room_was_made(placement.pod, now)
                elif self.cluster.nominations.drop(gone.uid) is not None and waiting is not None:
                    self._room_was_made(waiting.pod, now)
            case "Node":
                cleared = self._end_nominations(self.cluster.nominations.on(gone.name))
                if self.cluster.drop_node(gone.name) is not None:
                    wakes.everyone(self.queue, ClusterEvent.NODE_GONE, now)
                return cleared
            case "Namespace":
                self.cluster.drop_namespace(gone.name)
            case kind if kind in STORAGE_KINDS:
                before = self.cluster.storage.drop(kind, gone.namespace, gone.name)
                if kind == "VolumeAttachment":
                    wakes.for_storage(self.queue, ClusterEvent.ATTACHMENT_GONE, before, None, now)
            case kind:
                self.cluster.drop_selecting(kind, gone.namespace, gone.name)
                wakes.everyone(self.queue, ClusterEvent.SELECTING, now)
        return []

    def _end_nominations(self, pods: list[Pod]) -> list[Instruction]:
        """These pods have to look for another node."""
        for pod in pods:
            self.cluster.nominations.drop(pod.uid)
        return [ClearNomination(pod) for pod in pods]

    def _put_pod(self, pod: Pod, now: float) -> None:
        if pod.finished:
            self._gone(Gone("Pod", pod.namespace, pod.name, pod.uid), now)
        elif pod.node_name:
            self._put_placed(pod, now)
        elif pod.scheduler_name in self._frameworks:
            self._put_waiting(pod, now)

    def _put_placed(self, pod: Pod, now: float) -> None:
        self.queue.remove(pod.uid)
        self.cluster.nominations.drop(pod.uid)
        self._departures.bound_by_others(pod.uid, now)
        before = self.cluster.put_pod(pod)
        event = ClusterEvent.POD_PLACED
        if before is not None and not before.assumed:
            event = placed_pod_changes(before.pod, pod)
        wakes.for_pod(self.queue, event, pod, now)

    def _put_waiting(self, pod: Pod, now: float) -> None:
        queued = self.queue.get(pod.uid)
        if self._departures.update(pod, now):
            return
        if pod.terminating:
            self.queue.remove(pod.uid)
            self.cluster.nominations.drop(pod.uid)
        elif queued is not None:
            self._renominate(queued.pod, pod)
            self.queue.update(pod, waiting_pod_changes(queued.pod, pod), now)
        elif self.cluster.placement(pod.uid) is None:
            self._renominate(None, pod)
            self.queue.add(pod, now)

    def _renominate(self, old: Pod | None, new: Pod) -> None:
        """Follow nominatedNodeName; what we decided and the API does not show yet holds until it shows a change."""
        nominations = self.cluster.nominations
        if new.nominated_node_name:
            nominations.put(new, new.nominated_node_name)
        elif old is not None and old.nominated_node_name:
            nominations.drop(new.uid)
        else:
            ours = nominations.node_of(new.uid)
            if ours is not None:
                nominations.put(new, ours)

    def _cycle(self, now: float) -> list[Instruction]:
        queued = self.queue.pop(now)
        if queued is None:
            return []
        pod = queued.pod
        framework = self._frameworks[pod.scheduler_name]
        try:
            decision = (
                framework.decide(pod, self.cluster) if self._in_full else framework.decide_quickly(pod, self.cluster)
            )
            if not len(decision.feasible):
                return self._no_fit(queued, decision, framework.post_filter_result(pod, self.cluster, decision), now)
            return self._departures.set_out(queued, framework, decision, self._choose(decision), now)
        except PluginError as error:
            return self._broken(queued, str(error), frozenset((error.plugin,)), now)

    def _choose(self, decision: Decision) -> int:
        """One of the best rows; which one depends on the seed and the pod only, so a run can be repeated."""
        best = decision.best()
        if len(best) == 1:
            return int(best[0])
        return int(best[zlib.crc32(f"{self._seed}/{decision.pod.uid}".encode()) % len(best)])

    def _no_fit(self, queued: QueuedPod, decision: Decision, result: PostFilterResult, now: float) -> list[Instruction]:
        pod, plugins = queued.pod, decision.unschedulable_plugins()
        message = fit_error(decision, result.text)
        self.queue.park(queued, plugins, now)
        done: list[Instruction] = [Failed(pod, UNSCHEDULABLE, message, plugins, queued.attempts, decision)]
        done += tell(queued, UNSCHEDULABLE, message, result.node)
        if result.node:
            done += self._preempt(pod, result.node, result.victims)
        elif result.node is not None:
            self.cluster.nominations.drop(pod.uid)
        return done

    def _preempt(self, pod: Pod, node: str, victims: tuple[Pod, ...]) -> list[Instruction]:
        """Keep the node for the pod and have its victims removed; from now on they count as leaving."""
        nominations = self.cluster.nominations
        nominations.put(pod, node)
        going = tuple(victim for victim in victims if not victim.terminating)
        for victim in going:
            self.cluster.replace(replace(victim, terminating=True, preempted=True))
        ended = self._end_nominations([other for other in nominations.on(node) if other.priority < pod.priority])
        return [Preempt(pod, node, going), *ended] if going else ended

    def _broken(self, queued: QueuedPod, message: str, plugins: frozenset[str], now: float) -> list[Instruction]:
        self.queue.put_back(queued, now)
        failed = Failed(queued.pod, SCHEDULER_ERROR, message, plugins, queued.attempts, None)
        return [failed, *tell(queued, SCHEDULER_ERROR, message)]

    def _room_was_made(self, pod: Pod, now: float) -> None:
        wakes.for_pod(self.queue, ClusterEvent.POD_GONE, pod, now)
