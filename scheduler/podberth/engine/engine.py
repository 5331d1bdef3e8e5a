"""The scheduler as a state machine: `handle(stimulus, now)` returns instructions.

It owns the cluster's columns and the queue, runs one cycle at a time, and assumes what it decides.
It never reads a clock, never logs and never waits. Mirrors kube-scheduler `eventhandlers.go`,
`schedule_one.go` and `scheduler.go`.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import Event
from podberth.engine.device_conflicts import DeviceConflicts
from podberth.engine.event_handlers import EventHandlers
from podberth.engine.extender_calls import ExtenderCalls
from podberth.engine.history import History
from podberth.engine.instructions import Instruction, Outbox
from podberth.engine.no_fits import NoFits
from podberth.engine.observers import Observer, Observers
from podberth.engine.orphaned_claims import OrphanedClaims
from podberth.engine.placement_conflicts import PlacementConflicts, PlacementObserver
from podberth.engine.pod_groups.cycle import GroupCycles
from podberth.engine.preemption import Nominator, Victims
from podberth.engine.queue.queued import QueuedGroup, QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import Choice, SchedulingCycle
from podberth.engine.stimuli import (
    Broke,
    Compared,
    Cycle,
    ExtendersAnswered,
    ExtendersFailed,
    Follows,
    Gone,
    OfBindingCycle,
    PostFilterWriteFailed,
    Put,
    Refreshed,
    Stimulus,
    TakenOut,
    TakingOut,
    Tick,
    Unwritten,
    VictimStays,
)
from podberth.framework.binding import Patch
from podberth.framework.config import Extender
from podberth.framework.extenders import NodesAnswer, Question, VictimsAnswer, in_order
from podberth.framework.runtime import Framework, Rotation
from podberth.framework.verify import Verifier
from podberth.model.devices import EVERY_CLAIM


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
        extenders: Iterable[Extender] = (),
        binders: Iterable[Any] = (),
        cluster: Cluster | None = None,
        verify: int = 0,
        let_go_beside: int = sys.maxsize,
    ) -> None:
        """`in_full`: keep in each decision who rejected what and how every plugin scored, at the cost of speed.

        `binders`: Bind plugins for the extenders that bind; each has its `extender`. `cluster`: the columns to start
        from; empty ones without it. `verify`: every so many decisions, one is verified; 0: none. `let_go_beside`: pods
        of a gang that may be bound wait with their Bindings while writes for so many pods are under way.
        """
        self.cluster = cluster if cluster is not None else Cluster()
        self.epoch: float | None = None
        """Seconds since the epoch at engine time 0, where a shell knows them."""
        self._outbox, self._observers = Outbox(), Observers()
        no_fits = NoFits(self.cluster)
        self.queue = SchedulingQueue(
            frameworks, initial_backoff, max_backoff, self._outbox, self.cluster, no_fits, self._observers
        )
        self.choice = Choice(seed)
        rotation = Rotation()
        self._extender_calls = ExtenderCalls(self.cluster, frameworks, rotation, in_order(extenders))
        self._nominator = Nominator(self.cluster, self.queue, self._outbox, self._observers)
        self.binding = BindingCycles(self.cluster, self.queue, self._outbox, self._observers)
        self.binding.let_go_beside = let_go_beside
        self._victims = Victims(self.cluster, self.queue, self.binding, self._nominator, self._outbox, self._observers)
        self.scheduling = SchedulingCycle(
            self.cluster,
            self.queue,
            self._extender_calls,
            rotation,
            self.binding,
            self._nominator,
            self._victims,
            self._outbox,
            self._observers,
            no_fits,
            self.choice,
            binders=tuple(binders),
            in_full=in_full,
            verifier=Verifier(frameworks, verify) if verify else None,
        )
        self.groups = GroupCycles(
            self.cluster,
            self.queue,
            self.scheduling,
            self.binding,
            self._outbox,
            self._observers,
            self.choice.pick,
            self._nominator,
            self._victims,
        )
        self.history = History(self.queue)
        self.placement_conflicts = PlacementConflicts(self.cluster, frameworks)
        self.orphaned_claims = OrphanedClaims(self.cluster, self._outbox)
        for observer in (
            self.history,
            PlacementObserver(self.placement_conflicts, self.queue, self._outbox),
            DeviceConflicts(self.cluster, self.binding, self._outbox),
            self.orphaned_claims,
        ):
            self._observers.register(observer)
        self._events = EventHandlers(
            self.cluster,
            self.queue,
            self.binding,
            self.groups,
            self._extender_calls,
            self._nominator,
            self._victims,
            self._observers,
        )
        self._bindings_known_at: float | None = None

    def observe(self, observer: Observer) -> None:
        """Have one more observer hear of what happens."""
        self._observers.register(observer)

    @property
    def in_flight(self) -> int:
        """Return how many writes for pods in their binding cycle, and questions to extenders, have no answer yet."""
        return self.binding.writing + len(self._extender_calls.waiting)

    @property
    def has_work(self) -> bool:
        """Return whether a Cycle would schedule a pod."""
        under_way = self.groups.attempt is not None and self.groups.has_work
        return self.queue.has_active or under_way or self._preemption_goes_on

    @property
    def _preemption_goes_on(self) -> bool:
        """Return whether victims are still to be told to go, or nominations to end: a node may have thousands."""
        return bool(self._victims.leaving or self._nominator.ending)

    def next_tick(self) -> float | None:
        """Return the engine time at which a Tick has something to do."""
        times = (
            self.queue.next_tick(),
            self.binding.next_tick(),
            *(observer.next_tick for observer in self._observers.ticking),
            self.groups.reservations.next_tick() if self.cluster.reservations.by_profile else None,
            self._bindings_known_at,
        )
        return min((time for time in times if time is not None), default=None)

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Decide by other profiles from the next cycle on. Pods in their binding cycle go on as they were decided."""
        self.scheduling.follow(frameworks)
        for observer in self._observers.all:
            observer.follow(frameworks)
        self.cluster.pod_groups.keep(frameworks)
        self.groups.reconfigure()
        self.cluster.nominations.keep(frameworks)
        self.queue.reconfigure(frameworks, initial_backoff, max_backoff, now)
        self.groups.reservations.follow(frameworks, now)

    def takes_over(self, now: float, unknown_seconds: float, comparing: bool = False) -> list[Patch]:
        """This process leads from now on, and another one has led before: its last writes may not be known yet.

        `unknown_seconds`: how long it takes at most until its Bindings are over, and the watch has shown them.
        `comparing`: no devices are given until `Compared` says that what is known of claims is what there is.
        Returns what is to be written at once, each for itself.
        """
        devices = self.cluster.devices
        devices.taken_over = devices.late_bindings = True
        devices.uncompared = comparing
        self._bindings_known_at = now + unknown_seconds
        self.queue.places.tell_limits()
        return [write for observer in self._observers.all for write in observer.takes_over(self.queue)]

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Apply one stimulus at engine time `now` (seconds, monotonic).

        Returns everything that is to be done about it, in the order in which it was decided.
        """
        if self.epoch is not None:
            self.cluster.devices.wall = self.epoch + now
        if self.groups.attempt is not None and not isinstance(stimulus, Cycle):
            self.groups.let_others_see()
        match stimulus:
            case Cycle():
                self._cycle(now)
            case OfBindingCycle():
                self.binding.handle(stimulus, now)
            case Put(thing):
                self._events.put(thing, now)
            case Gone():
                self._events.gone(stimulus, now)
            case Follows(api, followed):
                self._events.change_groups(api, now, followed=followed)
            case VictimStays(victim):
                self._victims.stays(victim, now)
            case ExtendersAnswered(question, answer):
                self._extenders_answered(question, answer, now)
            case ExtendersFailed(question, message):
                self._extenders_answered(question, message, now)
            case Unwritten(uid):
                queued = self._scheduled(uid)
                if queued is not None:
                    queued.written = None
            case PostFilterWriteFailed(uid, writes):
                self.cluster.devices.not_written(one.uid for one in writes if isinstance(one, Patch))
                self.queue.try_again(uid, now)
            case Compared():
                self.cluster.devices.uncompared = False
                self.binding.changed(EVERY_CLAIM, now)
            case TakingOut(uid):
                self.cluster.devices.take_out(uid)
            case TakenOut(uid, written):
                self.cluster.devices.taken_out(uid, written)
                self.binding.happens(uid, Event.OBJECT_CHANGED, None, now)
            case Refreshed(profile, plugin):
                self.queue.wake_for_source(profile, plugin, now)
            case Broke(message):
                if not self.scheduling.broke(message, now):
                    self.groups.broke(message, now)
            case Tick():
                self.queue.tick(now)
                self.binding.tick(now)
                self._look_for_late_bindings(now)
                for observer in self._observers.ticking:
                    if observer.next_tick is not None and observer.next_tick <= now:
                        observer.tick(now)
        if self.cluster.reservations.by_profile:
            self.groups.reservations.look(now, self.queue.groups.entry)
        if self.cluster.devices.users.released:
            self.binding.go_on_sharing(now)
        if self.binding.unsettled:
            self.binding.settle(now)
        return self._outbox.take()

    def take_undone(self) -> bool:
        """Return whether a placed pod was shown without its node since this was asked last: a backup was restored."""
        undone, self._events.undone = self._events.undone, False
        return undone

    def _scheduled(self, uid: str) -> QueuedPod | None:
        """Return a pod that is to be scheduled, wherever it is: in the queue, tried with its group, asked about, or
        about to be bound.
        """
        waits = self.queue.get(uid) or self.groups.trying(uid) or self.binding.queued(uid)
        call = None if waits is not None else self._extender_calls.waiting.get(uid)
        return waits if call is None else call.queued

    def _cycle(self, now: float) -> None:
        """Decide what runs next, and run it. Nothing else decides that.

        1. Every other turn, some more victims are told to leave, while there are any.
        2. A group that is being tried goes on while its turn lasts (`GroupCycles.due`).
        3. The next pod of the queue is tried, or the next group is begun; while there is none, the group goes on.
        """
        self.scheduling.at_hand = None
        if self._preemption_goes_on and self._victims.take_turn():
            self._victims.remove_more(now)
            return
        groups = self.groups
        if groups.attempt is not None:
            if groups.due:
                groups.go_on(now)
                return
            groups.others_come()
        queued = self.scheduling.run(now)
        if queued is None:
            if groups.has_work:
                groups.go_on(now)
        elif isinstance(queued, QueuedGroup):
            groups.begin(queued, now)

    def _extenders_answered(self, question: Question, answer: NodesAnswer | VictimsAnswer | str, now: float) -> None:
        """Go on with the pod that waited, or its group. `answer`: a text if an extender failed that is not ignored."""
        self.scheduling.at_hand = None
        call = self._extender_calls.take(question)
        if call is None:
            return
        pod = call.queued.pod
        grouped = self.groups.trying(pod.uid) is not None
        self.scheduling.at_hand = None if grouped else call.queued
        if grouped:
            self.groups.go_on(now, (call, answer))
        elif pod.scheduler_name not in self.queue.frameworks:
            self.queue.places.profile_gone(call.queued, now)
        elif isinstance(answer, str):
            self.scheduling.extenders_failed(call, answer, now)
        else:
            self.scheduling.extenders_answered(call, answer, now)

    def _look_for_late_bindings(self, now: float) -> None:
        """Once earlier leaders' Bindings are known, try the pods whose claims were not freed because of them."""
        if self._bindings_known_at is None or now < self._bindings_known_at:
            return
        devices, self._bindings_known_at = self.cluster.devices, None
        devices.late_bindings = False
        for uid in devices.kept_for:
            self.queue.try_again(uid, now)
        devices.kept_for.clear()
        devices.reserved_here.clear()
