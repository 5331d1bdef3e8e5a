"""The queue of waiting pods and pod groups, made of parts: places, groups, unschedulable pods, events in flight.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go`. What concerns many pods is done some pods at a time, so that
the event loop can do other things in between.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from podberth.cache.cluster import Cluster
from podberth.engine.instructions import UNSCHEDULABLE, Outbox
from podberth.engine.no_fits import NoFits
from podberth.engine.observers import Observers
from podberth.engine.queue.groups import QueuedGroups
from podberth.engine.queue.headroom import Room
from podberth.engine.queue.in_flight_events import InFlightEvents
from podberth.engine.queue.places import ATTEMPT_FAILED, Cause, Places
from podberth.engine.queue.queued import Place, QueuedPod
from podberth.engine.queue.unschedulable import Hint, Woken
from podberth.engine.queue.waking import Waking
from podberth.engine.stimuli import EventObject
from podberth.framework.events import ClusterEvent
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod

_FAILED = Cause(ATTEMPT_FAILED)
_ADDED, _UPDATED = Cause("UnscheduledPodAdd"), Cause("UnscheduledPodUpdate")
_BACKED_OFF, _FLUSHED = Cause("BackoffComplete"), Cause("UnschedulableTimeout")
_HELD_AT_ONCE = 256
"""How many pods of namespaces beyond their share are held in one turn."""
_ASKED_BESIDE = 250
"""Steps of questions about pending events before each attempt."""
_KEPT_FOR_ASKED = 64
"""How many of the pods nominated for one node are looked at closely; the others are woken."""
AT_ONCE = 256
"""Pods that are moved from place to place in one turn; the others follow in the next ones."""
_ASKED_AT_ONCE = 2_000
"""Steps of questions about pending events in one turn, while nothing else is to be done."""
_ACTIVATED = Cause("ForceActivate")


class SchedulingQueue:
    """All waiting pods of all profiles, by UID. Times are engine seconds."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        initial_backoff: float,
        max_backoff: float,
        outbox: Outbox,
        cluster: Cluster,
        no_fits: NoFits,
        observers: Observers,
    ) -> None:
        """`no_fits`: what attempts have found that gave no node."""
        self.places = Places(frameworks, initial_backoff, max_backoff, outbox, cluster, observers)
        self.groups = QueuedGroups(self.places)
        self.events = InFlightEvents()
        """For pods that are being tried."""
        self.fair_share = self.places.fair_share
        self.unschedulable = self.places.unschedulable
        self.incoming = self.places.incoming
        """How many pods entered each place by which event, as the queue_incoming_pods metric counts them."""
        self._no_fits = no_fits
        self._pods = self.places.pods
        self._outbox = outbox
        self.waking = Waking(self._wake, self._waits_on)
        self._entering: deque[str] = deque()
        """UIDs of pods whose place has to be found again after the profiles changed; until then no pod is popped."""

    @property
    def frameworks(self) -> Mapping[str, Framework]:
        """The profiles, by name."""
        return self.places.frameworks

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """A waiting pod."""
        return self._pods.get(uid)

    def counts(self) -> dict[Place, int]:
        """Return how many pods wait where."""
        return dict(self.places.counts)

    def backoff(self, queued: QueuedPod) -> float:
        """Seconds that a pod has to wait after its last attempt."""
        return self.places.backoff(queued)

    def entries(self) -> int:
        """Return how much is kept here, for tests of what a tenant can make grow."""
        return self.places.entries() + self.groups.entries() + len(self.events)

    def _wake(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        (self.places if queued.entry is None else self.groups).wake(queued, now, cause)

    def _leave(self, queued: QueuedPod) -> None:
        (self.places if queued.entry is None else self.groups).leave(queued)

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """A pod to schedule: active, gated if a PreEnqueue plugin holds it back, or backing off if that fails."""
        queued = QueuedPod(pod, now)
        if pod.condition is not None and pod.condition[0] == "False":
            # The condition that the API shows need not be written again.
            queued.written = (pod.condition[1], pod.condition[2], pod.nominated_node_name)
        self._pods[pod.uid] = queued
        group = self.groups.group_of(pod)
        if group is None:
            self.places.enter(queued, now, _ADDED)
        else:
            self.groups.join(queued, group, now, _ADDED)
        return queued

    def requeue(self, queued: QueuedPod, now: float) -> None:
        """A pod whose binding failed or whose attempt broke: it waits out its backoff, unless its profile is gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            return
        queued.errors += 1
        if not self._joins_again(queued, now):
            self.places.to_backoff(queued, now, _FAILED)

    def add_unschedulable(
        self, queued: QueuedPod, plugins: frozenset[str], now: float, *, missed: bool = False
    ) -> None:
        """A pod that fits no node: it waits for an event that can help. `missed`: there was one already."""
        queued.plugins = plugins
        queued.rejections += 1
        queued.errors = 0
        if self._joins_again(queued, now):
            return
        if missed:
            self.places.enter(queued, now, _FAILED)
        else:
            self.places.wait_for_event(queued, Place.UNSCHEDULABLE, now, _FAILED)

    def _joins_again(self, queued: QueuedPod, now: float) -> bool:
        """A pod comes back from an attempt: whether it waits with its group now."""
        queued.returned_at, queued.flushed = now, False
        group = self.groups.group_of(queued.pod)
        if group is None:
            self._pods[queued.pod.uid] = queued
            return False
        self.groups.join(queued, group, now, _FAILED)
        return True

    def missed(self, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """Return whether an event has happened since the pod's attempt began that may change these plugins' verdicts.

        The pod was not in the queue meanwhile: it was being tried, or waited for a Permit plugin or for extenders.
        """
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if queued.left_at == self.events.number or framework is None:
            return False
        wakes = ClusterEvent.NOTHING
        for name in plugins:
            wakes |= framework.events(name)
        missed, really = self.events.since(queued.left_at, wakes)
        queued.early |= really
        return missed

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod that is gone or placed."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave(queued)
        return queued

    def update(self, pod: Pod, event: ClusterEvent, now: float) -> None:
        """A waiting pod changed; `event` says how, as far as it may matter."""
        queued = self._pods[pod.uid]
        if queued.entry is not None:
            helps = queued.place is Place.UNSCHEDULABLE and bool(event) and self._helps(queued, event)
            self.groups.update(queued, pod, now, _UPDATED, helps=helps)
        elif queued.place is Place.UNSCHEDULABLE:
            woken = queued.equals.waiting is None or (event and self._helps(queued, event))
            self.unschedulable.take(queued)
            queued.pod = pod
            self.unschedulable.put(queued)
            if woken:
                self._wake(queued, now, _UPDATED)
        elif queued.place is Place.GATED or pod.too_large is not None:
            self._leave(queued)
            queued.pod = pod
            self.places.enter(queued, now, _UPDATED)
        else:
            resort = queued.pod.priority != pod.priority and queued.place is Place.ACTIVE
            queued.pod = pod
            if resort:
                self._leave(queued)
                self.places.to_active(queued, queued.queued_at, now, _UPDATED)

    def wake(
        self,
        event: ClusterEvent,
        hint: Hint,
        now: float,
        room: Room | None = None,
        *,
        real: bool = True,
        about: EventObject | None = None,
    ) -> None:
        """Move pods that an event may help to the active queue, or to backoff while that lasts.

        Gated pods are among them if their PreEnqueue plugin names such events: it is asked again. `room`: the only node
        that changed, for plugins that look at single nodes. `real`: False if one of our own attempts caused the event
        by giving something back; then backoffs have to be waited out. `about`: the object that the event is about.
        """
        self.events.add(event, real=real)
        found = self.unschedulable.ask(event, hint, room, real=real, about=about)
        kept_for = [] if room is None or not room.kept_for else list(self._kept_for(room))
        if found:
            self._wake_all(found, now)
        cause = Cause.of(event, about) if kept_for else _FAILED
        for queued in kept_for:
            if queued.place is Place.UNSCHEDULABLE:
                (queued.entry or queued).early |= real
                self._wake(queued, now, cause)

    def try_again(self, uid: str, now: float) -> None:
        """What a failed attempt wanted written was refused. The event for which the pod waits does not come of it.

        The pod, or its group, waits out its backoff instead. If it is being tried, it has missed an event.
        """
        queued = self._pods.get(uid)
        if queued is None:
            self.events.add(ClusterEvent.NOTHING, real=False)
        elif queued.place is Place.UNSCHEDULABLE:
            (queued.entry or queued).early = False  # nothing has changed
            self._wake(queued, now, _FAILED)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule; it leaves the queue. May be None although pods are active: other work came first.

        If no pod is active, a pod that only waits out its backoff is taken early, since nothing else is to be done
        (SchedulerPopFromBackoffQ). That happens once for each real change that woke the pod (`QueuedPod.early`).
        """
        self.unschedulable.attempted()
        if self.has_pending_work and not self._goes_on(now):
            return None
        queued = self._next_active(now)
        if queued is None:
            if self.has_pending_work:
                return None
            queued = self.places.backing_off.pop()
            if queued is None:
                return None
            queued.early = False
        return self._popped(queued)

    def _goes_on(self, now: float) -> bool:
        """Do some of the pending work; whether a pod may be tried before the rest of it."""
        if self._entering:
            self._reenter(now)
            return False
        if self.waking.under_way:
            self.waking.go_on(now, AT_ONCE)
            if self.waking.under_way and not self._active_before(self.waking.priority):
                return False  # pods of higher priority are still being woken
        if self.behind:
            self._ask(now, _ASKED_BESIDE)
        return True

    def _next_active(self, now: float) -> QueuedPod | None:
        """The first active pod whose namespace is within its share; else the first of others of that priority."""
        fair_share = self.fair_share
        for _ in range(_HELD_AT_ONCE):
            first = self.places.active.peek()
            if fair_share.holds:
                behind_others = first is not None and first.pod.priority >= fair_share.highest
                within = behind_others and first is not None and first.pod.priority == fair_share.highest
                if not behind_others or within:
                    held = fair_share.pop(now, within_share=within)
                    if held is not None:
                        return held
            if first is None:
                return None
            self.places.active.pop()
            if not fair_share.seconds_beyond(first.pod.namespace, now):
                return first
            fair_share.hold(first)
        return None  # pods behind them in the queue may have to come first

    def _active_before(self, priority: int) -> bool:
        """Return whether an active pod has at least this priority."""
        first = self.places.active.peek()
        return first is not None and first.pod.priority >= priority

    def _popped(self, queued: QueuedPod) -> QueuedPod | None:
        if queued.entry is not None:
            return queued if self.groups.begin(queued.entry, self.events.number) else None
        del self._pods[queued.pod.uid]
        self._leave(queued)
        queued.attempts += 1
        queued.left_at = self.events.number
        return queued

    @property
    def _idle(self) -> bool:
        """Return whether a group that backs off could be tried now, as nothing else is to be done."""
        return not (self.has_active or self.groups.under_way)

    @property
    def has_active(self) -> bool:
        """Return whether `pop` has something to do."""
        return self.places.counts[Place.ACTIVE] > 0 or self.places.patient > 0 or self.has_pending_work

    def tick(self, now: float) -> None:
        """End backoffs that are over and flush pods that waited long. If there are many, the others follow later."""
        if not self.places.counts[Place.ACTIVE]:
            self.unschedulable.idle()
        if self._idle:
            self.groups.take_early(now)
        self.do_pending_work(now)
        left = AT_ONCE
        for heap in (self.places.backing_off, self.places.strict_backoff):
            while left and (queued := heap.pop_due(now)) is not None:
                self._wake(queued, now, _BACKED_OFF)
                left -= 1
        while left and (queued := self.places.flush.pop_due(now)) is not None:
            queued.flushed = True
            self._wake(queued, now, _FLUSHED)
            left -= 1

    def next_tick(self) -> float | None:
        """Engine time at which `tick` has something to do."""
        times = [heap.first() for heap in (self.places.backing_off, self.places.strict_backoff, self.places.flush)]
        if self._idle:
            times.append(self.places.early_groups.first())
        return min((time for time in times if time is not None), default=None)

    def _helps(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        """Return whether a change of the pod itself may change the verdict of a plugin that rejected it."""
        framework = self.frameworks[queued.pod.scheduler_name]
        return not queued.plugins or any(framework.events(name) & event for name in queued.plugins)

    def _kept_for(self, room: Room) -> Iterator[QueuedPod]:
        """The unschedulable pods that are nominated for the node, without those whose victims are still there."""
        for i, pod in enumerate(room.kept_for):
            queued = self._pods.get(pod.uid)
            framework = self.frameworks.get(pod.scheduler_name)
            if queued is None or queued.place is not Place.UNSCHEDULABLE or framework is None:
                continue
            try:
                waits = i < _KEPT_FOR_ASKED and room.waits_on(framework, queued.plugins, pod)
            except PluginError as error:
                self._outbox.hint_failed(pod, error)
                waits = False
            if not waits:
                yield queued

    # -- work for many pods, some at a time --------------------------------------------------------------------------

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Use other profiles from now on. Pods of profiles that are gone leave; all others are tried again."""
        self.places.reconfigure(frameworks, initial_backoff, max_backoff)
        self._entering = deque(self._pods)
        self._reenter(now)

    def _reenter(self, now: float) -> None:
        """Find the places of some of the pods that waited when the profiles changed."""
        for _ in range(min(AT_ONCE, len(self._entering))):
            queued = self._pods.get(self._entering.popleft())
            if queued is None:
                continue
            if queued.entry is not None:
                self.groups.reenter(queued, now, _ACTIVATED)
            elif queued.place is Place.BACKOFF and queued.pod.scheduler_name in self.frameworks:
                self._leave(queued)
                self.places.to_backoff(queued, now, _ACTIVATED)
            else:
                self._wake(queued, now, _ACTIVATED)

    def retry(self, uids: list[str], now: float) -> None:
        """Try pods again that wait for an event: their nomination has ended, so that event may never come.

        As in kube-scheduler, such a pod may be tried before its backoff is over, too. That has an end, since it is
        nominated again only after it has found victims again.
        """
        pods = [queued for uid in uids if (queued := self._pods.get(uid)) is not None]
        if pods:
            self.waking.begin_with(pods, _ACTIVATED)
            self.waking.go_on(now, AT_ONCE)

    def _wake_all(self, found: list[Woken], now: float) -> None:
        """Wake these sets of equal pods, some pods at a time."""
        last, cause = None, _ACTIVATED
        for woken in found:
            if last is None or woken.event is not last.event or woken.about is not last.about:
                last, cause = woken, Cause.of(woken.event, woken.about)  # many sets are woken by one event
            self.waking.begin(woken.equals, cause, real=woken.real)
        self.waking.go_on(now, AT_ONCE)

    def _waits_on(self, queued: QueuedPod) -> bool:
        """Have a pod that is about to be woken wait on, if an attempt would only tell it what it was told last."""
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if framework is None or queued.place is not Place.UNSCHEDULABLE:
            return False
        found = self._no_fits.known(queued.pod, framework)
        if found is None or queued.written != (UNSCHEDULABLE, found.message, ""):
            return False
        self.unschedulable.take(queued)
        queued.plugins = found.waits_for
        self.unschedulable.put(queued)
        return True

    @property
    def has_pending_work(self) -> bool:
        """Return whether pods are still being woken, or events are pending."""
        return bool(self.waking.under_way or self._entering) or self.behind

    @property
    def behind(self) -> bool:
        """Return whether events are pending."""
        return bool(self.unschedulable.behind)

    def do_pending_work(self, now: float) -> None:
        """Do some of this work."""
        if self._entering:
            self._reenter(now)
        elif self.waking.under_way:
            self.waking.go_on(now, AT_ONCE)
        elif self.behind:
            self._ask(now, _ASKED_AT_ONCE)

    def _ask(self, now: float, steps: int) -> None:
        """Ask about pending events, until somebody is woken or for about so many steps; the namespaces take turns."""
        found = list[Woken]()
        while steps > 0 and not found and self.behind:
            found, namespace, taken = self.unschedulable.catch_up(steps)
            self.fair_share.charge(namespace, taken, now)
            self._wake_all(found, now)
            steps -= taken
