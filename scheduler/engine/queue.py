"""Pods that wait: active, backing off, unschedulable, gated.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go`. Work for many pods at once is done some pods at a time, so
that the event loop can do other things in between: a wake-up of all pods, the end of many backoffs, other profiles.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from scheduler.engine import unschedulable_pods
from scheduler.engine.budget import Budget
from scheduler.engine.changes import EventObject, named
from scheduler.engine.outbox import Outbox
from scheduler.engine.places import Cause
from scheduler.engine.pod_groups.places import GroupedPlaces
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.room import Room
from scheduler.engine.term_indexing import TermIndexing
from scheduler.engine.turns import FREE, ORDINARY, SHARE
from scheduler.engine.unschedulable_pods import Hint, Woken
from scheduler.engine.waves import Waves
from scheduler.framework.events import LABELS, ClusterEvent
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod

ATTEMPT_FAILED = "ScheduleAttemptFailure"
_FAILED = Cause(ATTEMPT_FAILED)
_ADDED, _UPDATED = Cause("UnscheduledPodAdd"), Cause("UnscheduledPodUpdate")
_ACTIVATED = Cause("ForceActivate")
_BACKED_OFF, _FLUSHED = Cause("BackoffComplete"), Cause("UnschedulableTimeout")
AT_ONCE = 256
"""Pods that are moved from place to place in one turn; the others follow in the next ones."""
_PUT_OFF_AT_ONCE = 256
"""How many pods of namespaces in debt are sent to their lanes in one turn."""
_STORIES_AT_ONCE = 256
"""How many stories have their entries counted in one turn, after a large group has moved."""
_KEPT_FOR_ASKED = 64
"""Of the pods nominated for one node, this many are looked at closely; the others are woken."""


class Queue(GroupedPlaces):
    """All waiting pods of all profiles, by UID."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        initial_backoff: float,
        max_backoff: float,
        outbox: Outbox,
        budget: Budget,
        term_indexing: TermIndexing,
    ) -> None:
        """As of `Places`."""
        super().__init__(frameworks, initial_backoff, max_backoff, outbox, budget, term_indexing)
        self._waves = Waves(self._wake)
        self._entering: deque[str] = deque()
        """UIDs of pods whose place has to be found again after the profiles changed; until then no pod is popped."""
        self._asks_next = False
        """The next turn of the lanes is for pending events and terms, not for an attempt."""
        self._asked_last = False
        """The last such turn was for pending events, not for terms."""
        self._events = 0
        self._latest: dict[int, tuple[ClusterEvent, int]] = {}
        """The latest event of each kind and its number, for pods that are being tried (inFlightEvents).

        Keyed by the kind's identity: hashing a Flag takes longer than everything else that happens here.
        """
        self._latest_real: dict[int, tuple[ClusterEvent, int]] = {}
        """The same without events that one of our own attempts caused by giving something back."""

    def entries(self) -> int:
        """As `Places.entries`, and the events that are remembered."""
        return super().entries() + len(self._latest) + len(self._latest_real)

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """A pod to schedule: active, gated if a PreEnqueue plugin holds it back, or backing off if that fails."""
        queued = QueuedPod(pod, now, self.stories.begin(pod.uid, pod.namespace, pod.name, pod.scheduler_name))
        if pod.condition is not None and pod.condition[0] == "False":
            # The condition that the API shows need not be written again.
            queued.written = (pod.condition[1], pod.condition[2], pod.nominated_node_name)
        self._pods[pod.uid] = queued
        group = self.group_of(pod)
        if group is None:
            self._enter(queued, now, _ADDED)
        else:
            self._join(queued, group, now, _ADDED)
        return queued

    def put_back(self, queued: QueuedPod, now: float) -> None:
        """A pod whose binding failed or whose attempt broke: it waits out its backoff, unless its profile is gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            return
        queued.errors += 1
        queued.returned_at = now
        queued.flushed = False
        group = self.group_of(queued.pod)
        if group is not None:
            self._join(queued, group, now, _FAILED)
            return
        self._pods[queued.pod.uid] = queued
        self._to_backoff(queued, now, _FAILED)

    def park(self, queued: QueuedPod, plugins: frozenset[str], now: float, *, missed: bool = False) -> None:
        """A pod that fits no node: it waits for an event that can help. `missed`: there was one already."""
        queued.plugins = plugins
        queued.rejections += 1
        queued.errors = 0
        queued.returned_at = now
        queued.flushed = False
        group = self.group_of(queued.pod)
        if group is not None:
            self._join(queued, group, now, _FAILED)
            return
        self._pods[queued.pod.uid] = queued
        if missed:
            self._enter(queued, now, _FAILED)
        else:
            self._wait_for_event(queued, Place.UNSCHEDULABLE, now, _FAILED)

    def missed(self, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """Whether an event has happened since the pod's attempt began that may change these plugins' verdicts.

        The pod was not in the queue meanwhile: it was being tried, or waited for a Permit plugin or for extenders.
        """
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if queued.left_at == self._events or framework is None:
            return False
        wakes = ClusterEvent.NOTHING
        for name in plugins:
            wakes |= framework.events(name)
        if not any(number > queued.left_at and event & wakes for event, number in self._latest.values()):
            return False
        queued.early |= any(number > queued.left_at and event & wakes for event, number in self._latest_real.values())
        return True

    @property
    def events(self) -> int:
        """How many events there were: so it can be seen whether there was one meanwhile."""
        return self._events

    def anything_since(self, queued: QueuedPod) -> bool:
        """Whether anything has happened since the pod's attempt began."""
        return queued.left_at != self._events

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Use other profiles from now on. Pods of profiles that are gone leave; all others are tried again."""
        self.unschedulable.frameworks = frameworks
        self.initial_backoff, self.max_backoff = initial_backoff, max_backoff
        self._active.clear()  # its order may be another one
        self.turns.clear()
        self._key_form = None
        self._entering = deque(self._pods)
        self._reenter(now)

    def _reenter(self, now: float) -> None:
        """Find the places of some of the pods that waited when the profiles changed."""
        for _ in range(min(AT_ONCE, len(self._entering))):
            queued = self._pods.get(self._entering.popleft())
            if queued is None:
                continue
            if queued.entry is not None:
                self._reenter_group(queued, now, _ACTIVATED)
            elif queued.place is Place.BACKOFF and queued.pod.scheduler_name in self.frameworks:
                self._leave(queued)
                self._to_backoff(queued, now, _ACTIVATED)
            else:
                self._wake(queued, now, _ACTIVATED)

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
            self._update_in_group(queued, pod, now, _UPDATED, helps=helps)
        elif queued.place is Place.UNSCHEDULABLE:
            woken = queued.group.waiting is None or (event and self._helps(queued, event))
            self.unschedulable.take(queued)
            queued.pod = pod
            self.unschedulable.put(queued)
            if woken:
                self._wake(queued, now, _UPDATED)
        elif queued.place is Place.GATED:
            self._leave(queued)
            queued.pod = pod
            self._enter(queued, now, _UPDATED)
        else:
            resort = queued.pod.priority != pod.priority and queued.place is Place.ACTIVE
            queued.pod = pod
            if resort:
                self._leave(queued)
                self._to_active(queued, queued.queued_at, now, _UPDATED)

    def retry(self, uids: list[str], now: float) -> None:
        """Try pods again that wait for an event: their nomination has ended, so that event may never come."""
        pods = [queued for uid in uids if (queued := self._pods.get(uid)) is not None]
        if pods:
            self._waves.begin_with(pods, _ACTIVATED)
            self._waves.go_on(now, AT_ONCE)

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
        self._events += 1
        self._latest[id(event)] = (event, self._events)
        if real:
            self._latest_real[id(event)] = (event, self._events)
        found = self.unschedulable.ask(event, hint, room, real=real, about=about)
        kept_for = [] if room is None or not room.kept_for else list(self._kept_for(room))
        if found:
            self._wake_groups(found, now)
        cause = cause_of(event, about) if kept_for else _FAILED
        for queued in kept_for:
            if queued.place is Place.UNSCHEDULABLE:
                queued.early |= real
                self._wake(queued, now, cause)

    def _wake_groups(self, found: list[Woken], now: float) -> None:
        """Wake these groups, some pods at a time."""
        for woken in found:
            self._waves.begin(woken.group, cause_of(woken.event, woken.about), real=woken.real)
        self._waves.go_on(now, AT_ONCE)

    @property
    def has_pending_work(self) -> bool:
        """Whether pods are still being woken, events are pending, or terms or stories are behind."""
        return bool(self._waves or self._entering) or self.wakes_groups or self.behind or self.stories.late

    @property
    def behind(self) -> bool:
        """Whether events are pending or terms are to be indexed."""
        return self.unschedulable.behind or self.term_indexing.late

    def do_pending_work(self, now: float) -> None:
        """Do some of this work."""
        if self._entering:
            self._reenter(now)
        elif self._waves:
            self._waves.go_on(now, AT_ONCE)
        elif self.wakes_groups:
            self.wake_some(now)
        elif self.behind:
            self._catch_up(now)

    def _catch_up(self, now: float) -> None:
        """Do some of the work for pending events and for terms, in turns."""
        self.turns.taken += 1
        self._asked_last = self.unschedulable.behind and not (self._asked_last and self.term_indexing.late)
        if self._asked_last:
            self._ask(now)
        else:
            steps = self.term_indexing.catch_up(self._budget.slice // 4, self.turns, now)
            self.turns.owed = SHARE * max(steps, ORDINARY)

    def _ask(self, now: float) -> None:
        """Ask about pending events in one namespace, which is charged for it."""
        found, namespace, steps = self.unschedulable.catch_up(self._budget.slice)
        self.turns.account(namespace, steps, now)
        self.turns.owed = SHARE * max(steps, ORDINARY)
        self._wake_groups(found, now)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule; it leaves the queue. May be None although pods are active: other work came first.

        If no pod is active, a pod that only waits out its backoff is taken early, since nothing else is to be done
        (SchedulerPopFromBackoffQ). That happens once for each real change that woke the pod (`QueuedPod.early`).
        """
        self.unschedulable.left = unschedulable_pods.AT_ONCE
        self.stories.catch_up(_STORIES_AT_ONCE)
        if not (self._waves or self._entering or self.wakes_groups) and self.turns.idle and not self.behind:
            queued = self._active.pop()
            if queued is not None:
                return self._popped(queued)
        return self._pop_in_turn(now)

    def _pop_in_turn(self, now: float) -> QueuedPod | None:
        """As `pop`, when there is more to do than to take the first active pod."""
        turns = self.turns
        if self._entering:
            self._reenter(now)
            return None
        if self._waves:
            self._waves.go_on(now, AT_ONCE)
            if self._waves and not self._active_before(self._waves.priority):
                return None  # pods of higher priority are still being woken
        elif self.wakes_groups:
            self.wake_some(now)
        if turns.owed <= 0 and self.behind and (self._asks_next or not turns.due):
            self._asks_next = False
            self._catch_up(now)
            return None
        if turns.due and (queued := turns.pop()) is not None:
            self._asks_next = True
            return self._popped(queued)
        for _ in range(_PUT_OFF_AT_ONCE):
            queued = self._active.pop()
            if queued is None:
                break
            if not turns.in_debt(queued.pod.namespace, now):
                turns.owed -= ORDINARY
                return self._popped(queued)
            turns.put(queued)
        else:
            return None  # pods behind them in the queue may have to come first
        if self.behind:
            turns.owed = 0  # nobody else is active
            return None
        queued = turns.pop()
        if queued is None:
            queued = self._backoff.pop()
            if queued is None:
                return None
            queued.early = False
        return self._popped(queued)

    def _active_before(self, priority: int) -> bool:
        """Whether an active pod has at least this priority."""
        first = self._active.peek()
        return first is not None and first.pod.priority >= priority

    def _popped(self, queued: QueuedPod) -> QueuedPod | None:
        if queued.entry is not None:
            return queued if self._begin(queued.entry, self._events) else None
        del self._pods[queued.pod.uid]
        self._leave(queued)
        if queued.cost is None:
            queued.attempts += 1
        if queued.cost is None or queued.cost.answer is None:
            queued.left_at = self._events
        return queued

    def account(self, queued: QueuedPod, steps: int, now: float) -> None:
        """An attempt took this many steps: the pod's namespace is charged for them."""
        turns = self.turns
        if steps <= FREE and turns.idle:
            return  # no lane waits for its share
        turns.account(queued.pod.namespace, steps, now)
        if queued.cost is not None or turns.in_debt(queued.pod.namespace, now):
            turns.owed = max(turns.owed, SHARE * steps)
        else:
            turns.owed -= steps

    def set_aside(self, queued: QueuedPod, now: float) -> None:
        """An attempt has used up its slice: it goes on when its turn comes, unless its profile is gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            return
        self._pods[queued.pod.uid] = queued
        self._ticket += 1
        queued.ticket, queued.place = self._ticket, Place.ACTIVE
        self._counts[Place.ACTIVE] += 1
        self.turns.taken += 1
        self.turns.put(queued)

    @property
    def has_active(self) -> bool:
        """Whether `pop` has something to do."""
        return self._counts[Place.ACTIVE] > 0 or self._patient > 0 or self.has_pending_work

    def tick(self, now: float) -> None:
        """End backoffs that are over and flush pods that waited long. If there are many, the others follow later."""
        self.unschedulable.left = unschedulable_pods.AT_ONCE
        self.stories.catch_up(_STORIES_AT_ONCE)
        waking = self._waves or self._entering or self.wakes_groups
        if waking or self.turns.owed <= 0 or not self._counts[Place.ACTIVE]:
            self.do_pending_work(now)
        elif self.behind:
            self.turns.owed -= ORDINARY  # others have not had their share yet; after some more ticks, they have
        left = AT_ONCE
        for heap in (self._backoff, self._strict_backoff):
            while left and (queued := heap.pop_due(now)) is not None:
                self._wake(queued, now, _BACKED_OFF)
                left -= 1
        while left and (queued := self._flush.pop_due(now)) is not None:
            queued.flushed = True
            self._wake(queued, now, _FLUSHED)
            left -= 1

    def next_tick(self) -> float | None:
        """Engine time at which `tick` has something to do."""
        times = (heap.first() for heap in (self._backoff, self._strict_backoff, self._flush))
        return min((time for time in times if time is not None), default=None)

    def _helps(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        """Whether a change of the pod itself may change the verdict of a plugin that rejected it."""
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


def cause_of(event: ClusterEvent, about: EventObject | None = None) -> Cause:
    """The metrics' label of the event, and the object that it is about."""
    label = next((LABELS[part] for part in LABELS if part & event), ATTEMPT_FAILED)
    return Cause(label, "" if about is None else named(about))
