"""The queue of waiting pods and pod groups, made of parts: places, groups, unschedulable pods, events in flight.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go`. What concerns many pods is done some pods at a time, so that
the event loop can do other things in between.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.engine.instructions import UNSCHEDULABLE, Outbox
from podberth.engine.no_fits import NoFits
from podberth.engine.observers import Observers
from podberth.engine.queue.groups import QueuedGroups
from podberth.engine.queue.places import ATTEMPT_FAILED, Cause, Places
from podberth.engine.queue.queued import Place, Queued, QueuedGroup, QueuedPod
from podberth.engine.queue.unschedulable import EqualPods, Hint, Room, Woken, always, room_on
from podberth.engine.stimuli import EventObject
from podberth.framework.events import ANY, ClusterEvent
from podberth.framework.interface import OtherObject, Plugin
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.node import Node
from podberth.model.pod import Pod

_FAILED = Cause(ATTEMPT_FAILED)
_ADDED, _UPDATED = Cause("UnscheduledPodAdd"), Cause("UnscheduledPodUpdate")
_BACKED_OFF, _FLUSHED = Cause("BackoffComplete"), Cause("UnschedulableTimeout")
_HELD_AT_ONCE = 256
"""The number of pods of namespaces beyond their share that are held in one turn."""
_ASKED_BESIDE = 250
"""Steps of questions about pending events before each attempt."""
_KEPT_FOR_ASKED = 64
"""The number of pods nominated for one node that are looked at closely; the others are woken."""
AT_ONCE = 256
"""Pods that are moved from place to place in one turn; the others follow in the next ones."""
_ASKED_AT_ONCE = 2_000
"""Steps of questions about pending events in one turn, while nothing else is to be done."""
_ACTIVATED = Cause("ForceActivate")


class _Latest(NamedTuple):
    """The latest event of one kind."""

    event: ClusterEvent
    number: int
    real: int
    """The number of the latest one that was not caused by an attempt of ours which gave something back."""


class InFlightEvents:
    """Events that happen while pods are being tried: one that may help such a pod must not pass it by.

    Mirrors kube-scheduler `backend/queue/active_queue.go` (inFlightEvents), which keeps all events since the oldest
    attempt under way. Here the latest event of each kind is kept.
    """

    def __init__(self) -> None:
        self.number = 0
        """The number of the latest event."""
        self._latest: dict[int, _Latest] = {}
        """Keyed by the kind's identity: hashing a Flag takes longer than everything else that happens here."""

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, event: ClusterEvent, *, real: bool) -> None:
        """Record an event. `real`: it was not caused by an attempt of ours which gave something back."""
        self.number += 1
        known = self._latest.get(id(event))
        last = self.number if real else 0 if known is None else known.real
        self._latest[id(event)] = _Latest(event, self.number, last)

    def since(self, number: int, kinds: ClusterEvent) -> tuple[bool, bool]:
        """Return whether an event of these kinds has happened since that number, and whether a real one has."""
        latest = [one for one in self._latest.values() if one.number > number and one.event & kinds]
        return bool(latest), any(one.real > number for one in latest)


class _Set(Struct):
    """Pods that are being woken together."""

    pods: Iterator[Queued]
    equals: EqualPods | None
    """The set that is woken; None: these very pods."""
    cause: Cause
    event: ClusterEvent
    real: bool

    def has(self, queued: Queued) -> bool:
        """Return whether a pod still waits where it did when the set began."""
        if self.equals is None:
            return queued.place is Place.UNSCHEDULABLE and queued.equals is not None
        return queued.equals is self.equals


class SchedulingQueue:
    """The queue of all profiles' waiting pods, by UID. Times are engine seconds."""

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
        """`no_fits` holds the results of attempts that found no node."""
        self.frameworks = frameworks
        """The profiles, by name."""
        self.places = Places(frameworks, initial_backoff, max_backoff, outbox, cluster, observers)
        self.groups = QueuedGroups(self.places)
        self.events = InFlightEvents()
        """The events since attempts began, for the pods that are being tried."""
        self.fair_share = self.places.fair_share
        self.unschedulable = self.places.unschedulable
        self.incoming = self.places.incoming
        """(place, event) → pods that entered it by that, as the queue_incoming_pods metric counts them."""
        self._no_fits = no_fits
        self._pods = self.places.pods
        self._outbox = outbox
        self._waking: list[tuple[int, int, _Set]] = []
        """A heap of (-priority, number, set): pods that are being woken, those of higher priority first."""
        self._sets = 0
        self._entering: deque[str] = deque()
        """UIDs of pods whose place has to be found again after the profiles changed; until then no pod is popped."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """Return a waiting pod; None: it does not wait."""
        return self._pods.get(uid)

    def counts(self) -> dict[Place, int]:
        """Return the number of waiting pods by place."""
        return dict(self.places.counts)

    def entries(self) -> int:
        """Return the number of entries, for tests of what a tenant can make grow."""
        return self.places.entries() + self.groups.entries() + len(self.events)

    def _wake(self, queued: Queued, now: float, cause: Cause) -> None:
        if isinstance(queued, QueuedGroup):
            self.groups.wake(queued, now, cause)
        elif queued.group is not None:
            self.groups.ask_again(queued, now, cause)
        else:
            self.places.wake(queued, now, cause)

    def _leave(self, queued: QueuedPod) -> None:
        (self.places if queued.group is None else self.groups).leave(queued)

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """Add a pod to schedule: active, or gated if a PreEnqueue plugin holds it back, or in backoff if that fails."""
        queued = QueuedPod(pod, now)
        if pod.condition is not None and pod.condition[0] == "False":
            # The condition that the API shows need not be written again.
            queued.written = (pod.condition[1], pod.condition[2], pod.nominated_node_name)
        self._pods[pod.uid] = queued
        group = None if pod.scheduling_group is None else self.places.cluster.pod_groups.of(pod)
        if group is None:
            self.places.enter(queued, now, _ADDED)
        else:
            self.groups.join(queued, group, now, _ADDED)
        return queued

    def requeue(self, queued: QueuedPod, now: float) -> None:
        """Put a pod whose binding failed or whose attempt broke into backoff. It leaves if its profile is gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            self.places.profile_gone(queued, now)
            return
        queued.errors += 1
        if not self._joins_again(queued, now):
            self.places.to_backoff(queued, now, _FAILED)

    def add_unschedulable(
        self, queued: QueuedPod, plugins: frozenset[str], now: float, *, missed: bool = False
    ) -> None:
        """Add a pod that fits no node; it waits for an event that can help. `missed`: there was one already.

        It leaves if its profile is gone.
        """
        if queued.pod.scheduler_name not in self.frameworks:
            self.places.profile_gone(queued, now)
            return
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
        """Take a pod back from its attempt; return True if it waits with its group now."""
        queued.returned_at, queued.flushed = now, False
        pod = queued.pod
        group = None if pod.scheduling_group is None else self.places.cluster.pod_groups.of(pod)
        if group is None:
            self._pods[queued.pod.uid] = queued
            return False
        self.groups.join(queued, group, now, _FAILED)
        return True

    def missed(self, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """Return whether an event has happened since the pod's attempt began that may change these plugins' verdicts.

        The pod was not in the queue meanwhile: it was being tried, or waited for a Permit plugin or for extenders.
        """
        if queued.left_at == self.events.number:
            return False
        missed, really = self.events.since(queued.left_at, self._named_by(queued.pod.scheduler_name, plugins))
        queued.early |= really
        return missed

    def _named_by(self, profile: str, plugins: Iterable[str]) -> ClusterEvent:
        """Return the kinds of event that may reverse the verdict of one of these plugins."""
        kinds, framework = ClusterEvent.NOTHING, self.frameworks.get(profile)
        if framework is not None:
            for name in plugins:
                kinds |= framework.events(name)
        return kinds

    def note_what_helps(self, entry: QueuedGroup, back: list[QueuedPod], *, missed: bool) -> None:
        """Note which events may help a group whose attempt ends, and whether one has happened since the attempt began.

        `back`: its pods that have no node. If no plugin rejected any of them, any event may help. `missed`: there were
        events.
        """
        plugins = {name for queued in back for name in queued.plugins}
        entry.helped_by = self._named_by(back[0].pod.scheduler_name, plugins) if plugins else ANY
        if missed:
            entry.early |= self.events.since(back[0].left_at, entry.helped_by)[1]

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod that is gone or placed."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave(queued)
        return queued

    def update(self, pod: Pod, event: ClusterEvent, now: float) -> None:
        """Update a waiting pod. `event` tells what changed, as far as it may matter."""
        queued = self._pods[pod.uid]
        if queued.group is not None:
            helps = queued.place is Place.UNSCHEDULABLE and bool(event) and self._helps(queued, event)
            self.groups.update(queued, pod, now, _UPDATED, helps=helps)
        elif queued.place is Place.UNSCHEDULABLE:
            woken = queued.equals.waiting is None or (event and self._helps(queued, event))
            self.unschedulable.take(queued)
            queued.update(pod)
            self.unschedulable.put(queued)
            if woken:
                self._wake(queued, now, _UPDATED)
        elif queued.place is Place.GATED or pod.too_large is not None:
            self._leave(queued)
            queued.update(pod)
            self.places.enter(queued, now, _UPDATED)
        else:
            resort = queued.pod.priority != pod.priority and queued.place is Place.ACTIVE
            queued.update(pod)
            if resort:
                self._leave(queued)
                self.places.to_active(queued, queued.queued_at, now, _UPDATED)

    def wake(
        self,
        event: ClusterEvent,
        hint: Hint,
        now: float,
        row: int | None = None,
        *,
        real: bool = True,
        about: EventObject | None = None,
    ) -> None:
        """Move pods that an event may help to the active queue, or to backoff while that lasts.

        Gated pods are among them if their PreEnqueue plugin names such events: it is asked again. `row`: of the only
        node that changed, for plugins that look at single nodes. `real`: False if one of our own attempts caused the
        event by giving something back; then backoffs have to be waited out. `about`: the object of the event.
        """
        self.events.add(event, real=real)
        if real and self.groups.unchanged:
            self.groups.something_changed(event)
        if not (self.unschedulable.by_namespace or self._waking):
            return
        room = room_on(self.places.cluster, row)
        found = self.unschedulable.ask(event, hint, room, real=real, about=about)
        kept_for = [] if room is None or not room.kept_for else list(self._kept_for(room))
        if found:
            self._wake_all(found, now)
        cause = Cause.of(event, about) if kept_for else _FAILED
        for queued in kept_for:
            if queued.place is Place.UNSCHEDULABLE:
                (queued.group or queued).early |= real
                self._wake(queued, now, cause)

    # -- which waiting pods a change may help: the plugins that rejected them are asked (isPodWorthRequeuing) --------

    def wake_everyone(self, event: ClusterEvent, now: float, about: EventObject | None = None) -> None:
        """Wake all pods that such an event may help, without a closer look. `about`: as in `wake`."""
        self.wake(event, always, now, about=about)

    def wake_for_node(
        self, event: ClusterEvent, old: Node | None, new: Node, now: float, row: int | None = None
    ) -> None:
        """Wake pods that a node which was added or changed may help. `row`: its own."""

        def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
            return framework.hint(plugin, "node_hint", pod, old, new)

        if event:
            self.wake(event, helps, now, row, about=new)

    def wake_for_pod(
        self, event: ClusterEvent, other: Pod, now: float, row: int | None = None, *, real: bool = True
    ) -> None:
        """Wake pods that a pod which was placed, changed or removed may help. `row`: of its node; `real`: as in
        `wake`.
        """

        def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
            return framework.hint(plugin, "pod_hint", pod, event, other)

        if event:
            self.wake(event, helps, now, row, real=real, about=other)

    def wake_for_room(self, pod: Pod, row: int | None, now: float, *, real: bool = True) -> None:
        """Wake pods that may fit on a row, from which a pod is gone or a nomination was dropped. `real`: as in
        `wake`.
        """
        self.wake_for_pod(ClusterEvent.POD_GONE, pod, now, row, real=real)

    def wake_for_any_room(self, row: int, now: float) -> None:
        """Wake pods that may fit on a row after many nominations for it were dropped: checked by the room alone,
        without hints.
        """
        self.wake(ClusterEvent.POD_GONE, always, now, row, real=False)

    def wake_for_source(self, profile: str, name: str, now: float) -> None:
        """Wake the pods that a plugin rejected, one of whose sources has another value. No others can fit now by
        that.
        """

        def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
            return plugin.name == name and framework.profile.name == profile

        self.wake(ClusterEvent.SOURCE, helps, now)

    def wake_for_object(
        self, event: ClusterEvent, old: OtherObject, new: OtherObject, now: float, *, real: bool = True
    ) -> None:
        """Wake pods that an object other than a node or pod, which was added, changed or deleted, may help. `real`: as
        in `wake`.
        """

        def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
            return framework.hint(plugin, "object_hint", pod, event, old, new)

        if event:
            self.wake(event, helps, now, real=real, about=old if new is None else new)

    def try_again(self, uid: str, now: float) -> None:
        """Put a pod into backoff after a write of its failed attempt was refused: the event that it waits for will not
        come.

        The pod, or its group, waits out its backoff instead. If it is being tried, it has missed an event.
        """
        queued = self._pods.get(uid)
        if queued is None:
            self.events.add(ANY, real=False)
        elif queued.place is Place.UNSCHEDULABLE:
            (queued.group or queued).early = False  # nothing has changed
            self._wake(queued, now, _FAILED)

    def pop(self, now: float) -> Queued | None:
        """Return the next pod or group to schedule; it leaves the queue. None: there is none, or other work came first.

        If no pod is active, a pod that only waits out its backoff is taken early, since nothing else is to be done
        (SchedulerPopFromBackoffQ). That happens once for each real change that woke the pod (`QueuedPod.early`).
        """
        if self.unschedulable.taken:
            self.unschedulable.attempted()
        if self.has_pending_work and not self._goes_on(now):
            return None
        queued = self._next_active(now)
        if queued is None:
            if self.has_pending_work or self.places.counts[Place.ACTIVE]:
                return None
            queued = self.places.take_early(now)
        return None if queued is None else self._popped(queued)

    def _goes_on(self, now: float) -> bool:
        """Do some of the pending work; return True if a pod may be tried before the rest of it."""
        if self._entering:
            self._reenter(now)
            return False
        if self._waking:
            self._wake_more(now)
            if self._waking and not self._active_before(-self._waking[0][0]):
                return False  # pods of higher priority are still being woken
        if self.unschedulable.behind:
            self._ask(now, _ASKED_BESIDE)
        return True

    def _next_active(self, now: float) -> Queued | None:
        """Pop the first active pod whose namespace is within its share; else the first of the others of that
        priority.
        """
        fair_share, active = self.fair_share, self.places.active
        if not fair_share.owed:
            return active.pop()
        for _ in range(_HELD_AT_ONCE):
            if fair_share.holds:
                first = active.peek()
                behind_others = first is not None and first.pod.priority >= fair_share.highest
                within = behind_others and first is not None and first.pod.priority == fair_share.highest
                if not behind_others or within:
                    held = fair_share.pop(now, within_share=within)
                    if held is not None:
                        return held
            first = active.pop()
            if first is None or not fair_share.seconds_beyond(first.pod.namespace, now):
                return first
            fair_share.hold(first)
        return None  # pods behind them in the queue may have to come first

    def _active_before(self, priority: int) -> bool:
        """Return whether an active pod has this priority or a higher one."""
        first = self.places.active.peek()
        return first is not None and first.pod.priority >= priority

    def _popped(self, queued: Queued) -> Queued | None:
        if isinstance(queued, QueuedGroup):
            return queued if self.groups.begin(queued, self.events.number) else None
        del self._pods[queued.pod.uid]
        self.places.leave(queued)
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
        if self.unschedulable.taken and not self.places.counts[Place.ACTIVE]:
            self.unschedulable.idle()
        self.do_pending_work(now)
        left = AT_ONCE
        for heap in (self.places.backing_off, self.places.strict_backoff):
            while left and (queued := heap.pop_due(now)) is not None:
                self._wake(queued, now, _BACKED_OFF)
                left -= 1
        while left and (queued := self.places.flush.pop_due(now)) is not None:
            (queued.first if isinstance(queued, QueuedGroup) else queued).flushed = True
            self._wake(queued, now, _FLUSHED)
            left -= 1
        if len(self.places.early_groups) and self._idle:
            self.groups.take_early(now)

    def next_tick(self) -> float | None:
        """Return the engine time at which `tick` has something to do."""
        times = [heap.first() for heap in (self.places.backing_off, self.places.strict_backoff, self.places.flush)]
        if self._idle:
            times.append(self.places.early_groups.first())
        return min((time for time in times if time is not None), default=None)

    def _helps(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        """Return whether a change of the pod itself may change the verdict of a plugin that rejected it."""
        framework = self.frameworks[queued.pod.scheduler_name]
        return not queued.plugins or any(framework.events(name) & event for name in queued.plugins)

    def _kept_for(self, room: Room) -> Iterator[QueuedPod]:
        """Yield the unschedulable pods that are nominated for the node and whose victims are gone."""
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
        """Use other profiles from now on. Pods of profiles that are gone leave; all others are tried again, for those
        that are being tried it is an event.
        """
        self.frameworks = frameworks
        self.events.add(ANY, real=True)
        self.places.reconfigure(frameworks, initial_backoff, max_backoff)
        self.groups.reconfigure()
        self._entering = deque(self._pods)
        self._reenter(now)

    def _reenter(self, now: float) -> None:
        """Find the places of some of the pods that waited when the profiles changed."""
        for _ in range(min(AT_ONCE, len(self._entering))):
            queued = self._pods.get(self._entering.popleft())
            if queued is None:
                continue
            if queued.group is not None:
                self.groups.reenter(queued, now, _ACTIVATED)
            else:
                self.places.wake(queued, now, _ACTIVATED)

    def retry(self, uids: list[str], now: float) -> None:
        """Try pods again that wait for an event: their nomination has ended, so that event may never come.

        As in kube-scheduler, such a pod may be tried before its backoff is over, too. That has an end, since it is
        nominated again only after it has found victims again.
        """
        pods = [queued.group or queued for uid in uids if (queued := self._pods.get(uid)) is not None]
        if pods:
            priority = max(queued.pod.priority for queued in pods)
            self._begin_waking(priority, _Set(iter(pods), None, _ACTIVATED, ANY, real=True))
            self._wake_more(now)

    def _wake_all(self, found: list[Woken], now: float) -> None:
        """Wake these sets of equal pods, some pods at a time."""
        last, cause = None, _ACTIVATED
        for woken in found:
            if last is None or woken.event is not last.event or woken.about is not last.about:
                last, cause = woken, Cause.of(woken.event, woken.about)  # many sets are woken by one event
            equals = woken.equals
            pods = iter(list(equals.pods.values()))
            self._begin_waking(equals.pod.priority, _Set(pods, equals, cause, woken.event, woken.real))
        self._wake_more(now)

    def _begin_waking(self, priority: int, pods: _Set) -> None:
        self._sets += 1
        heapq.heappush(self._waking, (-priority, self._sets, pods))

    def _wake_more(self, now: float) -> None:
        """Move up to `AT_ONCE` of the pods that are being woken; the others follow in the next turns."""
        left = AT_ONCE
        while left and self._waking:
            woken = self._waking[0][2]
            for queued in woken.pods:
                if not woken.has(queued):
                    continue  # it has gone, or was woken, meanwhile
                if not self.waits_on(queued):
                    waits = queued.group or queued
                    helps = isinstance(waits, QueuedPod) or bool(woken.event & waits.helped_by)
                    waits.early |= woken.real and helps
                    self._wake(queued, now, woken.cause)
                left -= 1
                if not left:
                    return
            heapq.heappop(self._waking)

    def waits_on(self, queued: Queued) -> bool:
        """Keep a pod unschedulable that is about to be woken, if an attempt would fail with the message it was told
        last. Return True if it stays.
        """
        if not isinstance(queued, QueuedPod) or queued.place is not Place.UNSCHEDULABLE:
            return False
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if framework is None:
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
        return bool(self._waking or self._entering or self.unschedulable.behind)

    def do_pending_work(self, now: float) -> None:
        """Do part of the pending work."""
        if self._entering:
            self._reenter(now)
        elif self._waking:
            self._wake_more(now)
        elif self.unschedulable.behind:
            self._ask(now, _ASKED_AT_ONCE)

    def _ask(self, now: float, steps: int) -> None:
        """Ask plugins about pending events, for about so many steps or until a pod is woken; the namespaces take
        turns.
        """
        found = list[Woken]()
        while steps > 0 and not found and self.unschedulable.behind:
            found, namespace, taken = self.unschedulable.catch_up(steps)
            self.fair_share.charge(namespace, taken, now)
            self._wake_all(found, now)
            steps -= taken
