"""Pods that wait: active, backing off, unschedulable, gated.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go`. What concerns many pods at once is done some pods at a time,
so that the event loop has its turn in between: a wake-up of all, the end of many backoffs, other profiles.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scheduler.engine import shelves
from scheduler.engine.arrears import Arrears
from scheduler.engine.budget import Budget
from scheduler.engine.changes import Whose, named
from scheduler.engine.outbox import Outbox
from scheduler.engine.places import Cause, Places
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.room import Room
from scheduler.engine.shelves import Group, Hint, Woken
from scheduler.engine.turns import FREE, ORDINARY, SHARE
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
"""Pods of namespaces in debt that are sent to their lanes in one turn."""
_KEPT_FOR_ASKED = 64
"""Pods for which one node is kept that are asked about; beyond, they are woken."""


@dataclass(slots=True)
class _Wave:
    """Pods that are being woken together."""

    pods: Iterator[QueuedPod]
    group: Group | None
    """Whose pods they are; None: unschedulable pods of any."""
    cause: Cause
    real: bool

    def has(self, queued: QueuedPod) -> bool:
        """Whether a pod still waits where it did when this began."""
        if self.group is None:
            return queued.place is Place.UNSCHEDULABLE and queued.group is not None
        return queued.group is self.group


class Queue(Places):
    """All waiting pods of all profiles, by UID."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        initial_backoff: float,
        max_backoff: float,
        outbox: Outbox,
        budget: Budget,
        arrears: Arrears,
    ) -> None:
        """`budget`: what an attempt may cost. `arrears`: what is to be done about terms between attempts."""
        super().__init__(frameworks, initial_backoff, max_backoff, outbox, budget, arrears.cluster)
        self.arrears = arrears
        self._waves: list[tuple[int, int, _Wave]] = []
        """Pods that are being woken, highest priority first: a heap of (-priority, number, wave)."""
        self._wave = 0
        self._entering: deque[str] = deque()
        """UIDs of pods that have to find their place by the new profiles; until then none is popped."""
        self._asks_next = False
        """The next turn among the costly is for what was put off, not for an attempt."""
        self._asked_last = False
        """The last such turn was for questions, not for terms."""
        self._events = 0
        self._latest: dict[int, tuple[ClusterEvent, int]] = {}
        """The latest event of each kind and its number, by the kind's identity (inFlightEvents).

        Somebody who is away may wait for it. Hashing a Flag takes longer than all else that happens here.
        """
        self._latest_real: dict[int, tuple[ClusterEvent, int]] = {}
        """The same of events that happened outside, and not by what one of our attempts gave back."""

    def entries(self) -> int:
        """As `Places.entries`, and the events that are remembered."""
        return super().entries() + len(self._latest) + len(self._latest_real)

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """A pod to schedule: active, gated when a PreEnqueue plugin holds it back, backing off if that one breaks."""
        queued = QueuedPod(pod, now, self.stories.begin(pod.uid, pod.namespace, pod.name, pod.scheduler_name))
        if pod.condition is not None and pod.condition[0] == "False":
            # What the API already says of the pod need not be written again.
            queued.written = (pod.condition[1], pod.condition[2], pod.nominated_node_name)
        self._pods[pod.uid] = queued
        self._enter(queued, now, _ADDED)
        return queued

    def put_back(self, queued: QueuedPod, now: float) -> None:
        """A pod whose binding failed or whose attempt broke: wait out its backoff, unless its profile has gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            return
        queued.errors += 1
        queued.returned_at = now
        queued.flushed = False
        self._pods[queued.pod.uid] = queued
        self._to_backoff(queued, now, _FAILED)

    def park(self, queued: QueuedPod, plugins: frozenset[str], now: float, *, missed: bool = False) -> None:
        """A pod that no node takes: wait for an event that can help. `missed`: there was one already."""
        queued.plugins = plugins
        queued.rejections += 1
        queued.errors = 0
        queued.returned_at = now
        queued.flushed = False
        self._pods[queued.pod.uid] = queued
        if missed:
            self._enter(queued, now, _FAILED)
        else:
            self._shelve(queued, Place.UNSCHEDULABLE, now, _FAILED)

    def missed(self, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """Whether something has happened since the pod's attempt began that may make these plugins think again.

        The pod was away meanwhile: it waited for a Permit plugin, or for extenders.
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

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Other profiles from now on: pods of those that are gone leave, all others may fit now and are tried again."""
        self.shelves.frameworks = frameworks
        self.initial_backoff, self.max_backoff = initial_backoff, max_backoff
        self._active.clear()  # its order may be another one
        self.turns.clear()
        self._key_form = None
        self._entering = deque(self._pods)
        self._enter_anew(now)

    def _enter_anew(self, now: float) -> None:
        """Give some of the pods that were there when the profiles changed their new places."""
        for _ in range(min(AT_ONCE, len(self._entering))):
            queued = self._pods.get(self._entering.popleft())
            if queued is None:
                continue
            if queued.place is Place.BACKOFF and queued.pod.scheduler_name in self.frameworks:
                self._leave(queued)
                self._to_backoff(queued, now, _ACTIVATED)
            else:
                self._wake(queued, now, _ACTIVATED)

    def remove(self, uid: str) -> QueuedPod | None:
        """A pod that is gone, or placed."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave(queued)
        return queued

    def update(self, pod: Pod, event: ClusterEvent, now: float) -> None:
        """A waiting pod changed; `event` says how, as far as it may matter."""
        queued = self._pods[pod.uid]
        if queued.place is Place.UNSCHEDULABLE:
            woken = queued.group.shelf is None or (event and self._helps(queued, event))
            self.shelves.take(queued)
            queued.pod = pod
            self.shelves.put(queued)
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
        """Pods that wait for an event need not: what they waited for was taken from them."""
        pods = [queued for uid in uids if (queued := self._pods.get(uid)) is not None]
        if pods:
            priority = max(queued.pod.priority for queued in pods)
            self._wave += 1
            heapq.heappush(self._waves, (-priority, self._wave, _Wave(iter(pods), None, _ACTIVATED, real=False)))
            self._wake_some(now)

    def wake(
        self,
        event: ClusterEvent,
        hint: Hint,
        now: float,
        room: Room | None = None,
        *,
        real: bool = True,
        whose: Whose | None = None,
    ) -> None:
        """Move pods that an event may help to the active queue, or to backoff while that lasts.

        Gated pods are among them, if their PreEnqueue plugin names such events: it is asked again. `room`: the node
        where something was made free; plugins that look at single nodes mind nothing else. `real`: it happened
        outside; otherwise one of our own attempts gave something back, and backoffs have to be waited out. `whose`: the
        object that the event is about.
        """
        self._events += 1
        self._latest[id(event)] = (event, self._events)
        if real:
            self._latest_real[id(event)] = (event, self._events)
        found = self.shelves.ask(event, hint, room, real=real, whose=whose)
        kept_for = [] if room is None or not room.kept_for else list(self._kept_for(room))
        if found:
            self._begin_to_wake(found)
            self._wake_some(now)
        cause = cause_of(event, whose) if kept_for else _FAILED
        for queued in kept_for:
            if queued.place is Place.UNSCHEDULABLE:
                queued.early |= real
                self._wake(queued, now, cause)

    def _begin_to_wake(self, found: list[Woken]) -> None:
        """These groups are woken, some pods at a time; those of higher priority before others."""
        for woken in found:
            self._wave += 1
            group = woken.group
            wave = _Wave(iter(list(group.pods.values())), group, cause_of(woken.event, woken.whose), woken.real)
            heapq.heappush(self._waves, (-group.pod.priority, self._wave, wave))

    def _wake_some(self, now: float) -> None:
        left = AT_ONCE
        while left and self._waves:
            wave = self._waves[0][2]
            for queued in wave.pods:
                if not wave.has(queued):
                    continue  # it has gone, or was woken, meanwhile
                queued.early |= wave.real
                self._wake(queued, now, wave.cause)
                left -= 1
                if not left:
                    return
            heapq.heappop(self._waves)

    @property
    def has_chores(self) -> bool:
        """Whether pods are still being woken, questions are to be asked about them, or terms to be indexed."""
        return bool(self._waves or self._entering) or self.behind

    @property
    def behind(self) -> bool:
        """Whether questions or terms were put off."""
        return self.shelves.behind or self.arrears.late

    def do_chores(self, now: float) -> None:
        """Go on with them for a while."""
        if self._entering:
            self._enter_anew(now)
        elif self._waves:
            self._wake_some(now)
        elif self.behind:
            self._catch_up(now)

    def _catch_up(self, now: float) -> None:
        """Go on for a while with questions and terms that were put off, in turns."""
        self._asked_last = self.shelves.behind and not (self._asked_last and self.arrears.late)
        if self._asked_last:
            self._ask(now)
        else:
            steps = self.arrears.catch_up(self._budget.slice // 4, self.turns, now)
            self.turns.owed = SHARE * max(steps, ORDINARY)

    def _ask(self, now: float) -> None:
        """Ask one namespace what was put off; its pods are charged with that."""
        found, namespace, steps = self.shelves.catch_up(self._budget.slice)
        self.turns.account(namespace, steps, now)
        self.turns.owed = SHARE * max(steps, ORDINARY)
        self._begin_to_wake(found)
        self._wake_some(now)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule; it leaves the queue. None, now and then, when there is one further back.

        With nothing active, a pod that was woken and only waits out its backoff is taken early: waiting would help
        nobody (SchedulerPopFromBackoffQ). Each is so once for every real change that woke it (`QueuedPod.early`).
        """
        self.shelves.left = shelves.AT_ONCE
        if not (self._waves or self._entering) and self.turns.idle and not self.behind:
            queued = self._active.pop()
            if queued is not None:
                return self._popped(queued)
        return self._pop_in_turn(now)

    def _pop_in_turn(self, now: float) -> QueuedPod | None:
        """As `pop`, where there is more to do than to take one active pod after the other."""
        turns = self.turns
        if self._entering:
            self._enter_anew(now)
            return None
        if self._waves:
            self._wake_some(now)
            if self._waves and not self._active_before(-self._waves[0][0]):
                return None  # a pod is not decided while those of higher priority are still being woken
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
            return None  # there may be others behind them, who come first
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

    def _popped(self, queued: QueuedPod) -> QueuedPod:
        del self._pods[queued.pod.uid]
        self._leave(queued)
        if queued.cost is None:
            queued.attempts += 1
        if queued.cost is None or queued.cost.answer is None:
            queued.left_at = self._events
        return queued

    def account(self, queued: QueuedPod, steps: int, now: float) -> None:
        """An attempt for a pod that was popped took so many steps: its namespace is charged with them."""
        turns = self.turns
        if steps <= FREE and turns.idle:
            return  # nobody waits for a share
        turns.account(queued.pod.namespace, steps, now)
        if queued.cost is not None or turns.in_debt(queued.pod.namespace, now):
            turns.owed = max(turns.owed, SHARE * steps)
        else:
            turns.owed -= steps

    def set_aside(self, queued: QueuedPod, now: float) -> None:
        """An attempt has used up its slice: it goes on when its turn comes, unless its profile has gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            return
        self._pods[queued.pod.uid] = queued
        self._ticket += 1
        queued.ticket, queued.place = self._ticket, Place.ACTIVE
        self._counts[Place.ACTIVE] += 1
        self.turns.put(queued)

    @property
    def has_active(self) -> bool:
        """Whether `pop` has something to do."""
        return self._counts[Place.ACTIVE] > 0 or self._patient > 0 or self.has_chores

    def tick(self, now: float) -> None:
        """End backoffs that are over and flush pods that waited long; some of them, and the others the next time."""
        self.shelves.left = shelves.AT_ONCE
        self.do_chores(now)
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
        """Whether a change of a pod itself may make one of those think again that rejected it."""
        framework = self.frameworks[queued.pod.scheduler_name]
        return not queued.plugins or any(framework.events(name) & event for name in queued.plugins)

    def _kept_for(self, room: Room) -> Iterator[QueuedPod]:
        """The unschedulable pods that the node with the room is kept for, unless they have to wait for more."""
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


def cause_of(event: ClusterEvent, whose: Whose | None = None) -> Cause:
    """The event label of the metrics, and the object that the event is about."""
    label = next((LABELS[part] for part in LABELS if part & event), ATTEMPT_FAILED)
    return Cause(label, "" if whose is None else named(whose))
