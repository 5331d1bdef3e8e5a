"""Pods that wait: active, backing off, unschedulable, gated.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go`. Unschedulable pods are kept by what
rejected them and by shape, so that an event asks each kind of waiting pod once, not each pod.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scheduler.engine.budget import Budget
from scheduler.engine.heaps import Heap
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.room import Room
from scheduler.engine.turns import ORDINARY, SHARE, Turns
from scheduler.framework.events import LABELS, ClusterEvent
from scheduler.framework.plugin import Plugin
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod

ATTEMPT_FAILED = "ScheduleAttemptFailure"
_PUT_OFF_AT_ONCE = 256
"""Pods of namespaces in debt that are sent to their lanes in one turn."""
FLUSH_AFTER = 300.0
"""Seconds after which an unschedulable pod is tried again, whatever happened."""


Hint = Callable[[Framework, Plugin, Pod], bool]
_Bucket = tuple[str, frozenset[str]]


class Queue:
    """All waiting pods of all profiles, by UID."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        initial_backoff: float,
        max_backoff: float,
        budget: Budget | None = None,
    ) -> None:
        """`budget`: what an attempt may cost."""
        self.frameworks = frameworks
        self._budget = Budget() if budget is None else budget
        self.initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._active = Heap(self._pods)
        self.turns = Turns(self._pods)
        """Active pods that cost much, or whose namespace did."""
        self._backoff = Heap(self._pods)
        self._strict_backoff = Heap(self._pods)
        """Of pods that have to wait out their backoff, whatever else there is to do."""
        self._patient = 0
        """Pods in `_backoff`, which are taken early when nothing else is active."""
        self._flush = Heap(self._pods)
        self._unschedulable: dict[_Bucket, dict[Any, dict[str, QueuedPod]]] = {}
        self.broken: list[tuple[QueuedPod, PluginError]] = []
        """Pods that a PreEnqueue or QueueSort plugin failed for since the list was last emptied; they back off."""
        self.misled: dict[str, tuple[Pod, PluginError]] = {}
        """Plugin → the first of its hints that failed since this was last emptied, and the pod that it was asked about.

        Such pods were woken to be on the safe side.
        """
        self._key_form: list[bool] | None = None
        self._events = 0
        self._latest: dict[int, tuple[ClusterEvent, int]] = {}
        """The latest event of each kind and its number, by the kind's identity (inFlightEvents).

        Somebody who is away may wait for it. Hashing a Flag takes longer than all else that happens here.
        """
        self._latest_real: dict[int, tuple[ClusterEvent, int]] = {}
        """The same of events that happened outside, and not by what one of our attempts gave back."""
        self._ticket = 0
        self._counts = dict.fromkeys(Place, 0)
        self.incoming: dict[tuple[Place, str], int] = {}
        """Pods that entered each place, by what sent them there, in the words of the queue_incoming_pods metric."""
        self._cause = ""

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
        """How many pods wait where."""
        return dict(self._counts)

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """A pod to schedule: active, gated when a PreEnqueue plugin holds it back, backing off if that one breaks."""
        queued = QueuedPod(pod, now)
        if pod.condition is not None and pod.condition[0] == "False":
            # What the API already says of the pod need not be written again.
            queued.written = (pod.condition[1], pod.condition[2], pod.nominated_node_name)
        self._pods[pod.uid] = queued
        self._cause = "UnscheduledPodAdd"
        self._enter(queued, now)
        return queued

    def put_back(self, queued: QueuedPod, now: float) -> None:
        """A pod whose binding failed or whose attempt broke: wait out its backoff, unless its profile has gone."""
        if queued.pod.scheduler_name not in self.frameworks:
            return
        queued.errors += 1
        queued.returned_at = now
        queued.flushed = False
        self._cause = ATTEMPT_FAILED
        self._pods[queued.pod.uid] = queued
        self._to_backoff(queued, now)

    def park(self, queued: QueuedPod, plugins: frozenset[str], now: float, *, missed: bool = False) -> None:
        """A pod that no node takes: wait for an event that can help. `missed`: there was one already."""
        queued.plugins = plugins
        queued.rejections += 1
        queued.errors = 0
        queued.returned_at = now
        queued.flushed = False
        self._cause = ATTEMPT_FAILED
        self._pods[queued.pod.uid] = queued
        if missed:
            self._enter(queued, now)
        else:
            self._shelve(queued, Place.UNSCHEDULABLE, now)

    def missed(self, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """Whether something has happened since the pod's attempt began that may make these plugins think again.

        The pod was away meanwhile: it waited for a Permit plugin, or for extenders.
        """
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if queued.left_at == self._events or framework is None:
            return False
        wakes = ClusterEvent.NOTHING
        for name in plugins:
            wakes |= framework.wakes(name)
        if not any(number > queued.left_at and event & wakes for event, number in self._latest.values()):
            return False
        queued.early |= any(number > queued.left_at and event & wakes for event, number in self._latest_real.values())
        return True

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Other profiles from now on: pods of those that are gone leave, all others may fit now and are tried again."""
        self.frameworks, self.initial_backoff, self.max_backoff = frameworks, initial_backoff, max_backoff
        self._active.clear()  # its order may be another one
        self.turns.clear()
        self._key_form = None
        self._cause = "ForceActivate"
        for queued in list(self._pods.values()):
            if queued.pod.scheduler_name not in frameworks:
                self.remove(queued.pod.uid)
            elif queued.place is Place.UNSCHEDULABLE:
                self._wake(queued, now)
            elif queued.place is Place.BACKOFF:
                self._leave(queued)
                self._to_backoff(queued, now)
            else:
                self._leave(queued)
                self._enter(queued, now)

    def remove(self, uid: str) -> QueuedPod | None:
        """A pod that is gone, or placed."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave(queued)
        return queued

    def update(self, pod: Pod, event: ClusterEvent, now: float) -> None:
        """A waiting pod changed; `event` says how, as far as it may matter."""
        queued = self._pods[pod.uid]
        self._cause = "UnscheduledPodUpdate"
        if queued.place is Place.UNSCHEDULABLE:
            self._leave_group(queued)
            queued.pod = pod
            self._group(queued)[pod.uid] = queued
            if event and self._helps(queued, event, _always):
                self._wake(queued, now)
        elif queued.place is Place.GATED:
            self._leave(queued)
            queued.pod = pod
            self._enter(queued, now)
        else:
            resort = queued.pod.priority != pod.priority and queued.place is Place.ACTIVE
            queued.pod = pod
            if resort:
                self._leave(queued)
                self._to_active(queued, queued.queued_at, now)

    def retry(self, uid: str, now: float) -> None:
        """A pod that waits for an event need not: what it waited for was taken from it."""
        queued = self._pods.get(uid)
        if queued is not None and queued.place is Place.UNSCHEDULABLE:
            self._cause = "ForceActivate"
            self._wake(queued, now)

    def wake(self, event: ClusterEvent, hint: Hint, now: float, room: Room | None = None, *, real: bool = True) -> int:
        """Move pods that an event may help to the active queue, or to backoff while that lasts. Returns how many.

        Gated pods are among them, if their PreEnqueue plugin names such events: it is asked again. `room`: the node
        where something was made free; plugins that look at single nodes mind nothing else. `real`: it happened
        outside; otherwise one of our own attempts gave something back, and backoffs have to be waited out.
        """
        self._events += 1
        self._latest[id(event)] = (event, self._events)
        if real:
            self._latest_real[id(event)] = (event, self._events)
        woken: dict[str, QueuedPod] = {}
        for (profile, plugins), groups in self._unschedulable.items():
            framework = self.frameworks[profile]
            asked = [framework.plugin(name) for name in plugins if framework.wakes(name) & event]
            if plugins and not asked:
                continue
            for group in groups.values():
                pod = next(iter(group.values())).pod
                if not plugins or self._worth_it(hint, framework, asked, plugins, pod, room):
                    woken.update(group)
        if room is not None:
            woken.update((queued.pod.uid, queued) for queued in self._kept_for(room))
        self._cause = next((LABELS[part] for part in LABELS if part & event), ATTEMPT_FAILED) if woken else ""
        for queued in woken.values():
            queued.early |= real
            self._wake(queued, now)
        return len(woken)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule; it leaves the queue. None, now and then, when there is one further back.

        With nothing active, a pod that was woken and only waits out its backoff is taken early: waiting would help
        nobody (SchedulerPopFromBackoffQ). Each is so once for every real change that woke it (`QueuedPod.early`).
        """
        turns = self.turns
        if turns.due and (queued := turns.pop()) is not None:
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
        queued = turns.pop()
        if queued is None:
            queued = self._backoff.pop()
            if queued is None:
                return None
            queued.early = False
        return self._popped(queued)

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
        """Whether a pod can be popped."""
        return self._counts[Place.ACTIVE] > 0 or self._patient > 0

    def tick(self, now: float) -> None:
        """End backoffs that are over and flush pods that waited long."""
        self._cause = "BackoffComplete"
        for heap in (self._backoff, self._strict_backoff):
            while (queued := heap.pop_due(now)) is not None:
                self._leave(queued)
                self._enter(queued, now)
        self._cause = "UnschedulableTimeout"
        while (queued := self._flush.pop_due(now)) is not None:
            queued.flushed = True
            self._wake(queued, now)

    def next_tick(self) -> float | None:
        """Engine time at which `tick` has something to do."""
        times = (heap.first() for heap in (self._backoff, self._strict_backoff, self._flush))
        return min((time for time in times if time is not None), default=None)

    def backoff(self, queued: QueuedPod) -> float:
        """Seconds to wait after an attempt: doubling from the initial to the maximal."""
        if queued.overruns:
            return self._budget.backoff(queued.overruns)
        count = queued.errors or queued.rejections
        return float(min(self.initial_backoff * 2 ** min(max(count - 1, 0), 32), self.max_backoff))

    def _helps(self, queued: QueuedPod, event: ClusterEvent, hint: Hint) -> bool:
        framework = self.frameworks[queued.pod.scheduler_name]
        for name in queued.plugins:
            if framework.wakes(name) & event and self._says(hint, framework, framework.plugin(name), queued.pod):
                return True
        return not queued.plugins

    def _says(self, hint: Hint, framework: Framework, plugin: Plugin | None, pod: Pod) -> bool:
        """Whether a plugin thinks that the pod may fit now. One that can't say must not keep the pod waiting."""
        if plugin is None:
            return True
        try:
            return hint(framework, plugin, pod)
        except PluginError as error:
            self.misled.setdefault(error.plugin, (pod, error))
            return True

    def _worth_it(
        self,
        hint: Hint,
        framework: Framework,
        asked: list[Plugin | None],
        plugins: frozenset[str],
        pod: Pod,
        room: Room | None,
    ) -> bool:
        """Whether one of the asked plugins thinks so; and there is room, where all of them look at single nodes."""
        willing = None
        for plugin in asked:
            if self._says(hint, framework, plugin, pod):
                if room is None or plugin is None or not framework.looks_at_one_node(plugin.name):
                    return True
                willing = plugin
        if room is None or willing is None:
            return False
        return self._says(lambda framework, _, pod: not room.shut(framework, plugins, pod), framework, willing, pod)

    def _kept_for(self, room: Room) -> Iterator[QueuedPod]:
        """The unschedulable pods that the node with the room is kept for, unless they have to wait for more."""
        for pod in room.kept_for:
            queued = self._pods.get(pod.uid)
            if queued is None or queued.place is not Place.UNSCHEDULABLE:
                continue
            framework = self.frameworks[pod.scheduler_name]
            try:
                waits = room.waits_on(framework, queued.plugins, pod)
            except PluginError as error:
                self.misled.setdefault(error.plugin, (pod, error))
                waits = False
            if not waits:
                yield queued

    def _wake(self, queued: QueuedPod, now: float) -> None:
        self._leave(queued)
        self._enter(queued, now)

    def _enter(self, queued: QueuedPod, now: float) -> None:
        """To the active queue, if PreEnqueue plugins let the pod and its backoff is over."""
        framework = self.frameworks[queued.pod.scheduler_name]
        try:
            held = framework.pre_enqueue(queued.pod)
        except PluginError as error:
            self._break(queued, error, now)
            return
        if held is not None:
            queued.plugins = frozenset((held[0],))
            queued.flushed = False
            self._shelve(queued, Place.GATED, now)
        elif queued.attempts and queued.returned_at + self.backoff(queued) > now:
            self._to_backoff(queued, now)
        else:
            queued.early = True
            self._to_active(queued, now, now)

    def _to_active(self, queued: QueuedPod, queued_at: float, now: float) -> None:
        framework = self.frameworks[queued.pod.scheduler_name]
        try:
            key = framework.sort_key(queued.pod, queued_at)
            self._check_key(framework, key)
        except PluginError as error:
            self._break(queued, error, now)
            return
        queued.queued_at = queued_at
        if queued.first_active is None:
            queued.first_active = now
        queued.key = key
        self._place(queued, Place.ACTIVE)
        self._active.push(key, queued)

    def _check_key(self, framework: Framework, key: tuple[Any, ...]) -> None:
        """All keys must be alike: one that can't be compared would lose another pod its place.

        Raises PluginError.
        """
        form = [isinstance(part, str) for part in key]
        if self._key_form is None:
            self._key_form = form
        elif form != self._key_form:
            plugin = framework.profile.plugins("queue_sort")[0].name
            raise PluginError(plugin, f"the sort key {key!r} can't be compared with those before it", "QueueSort")

    def _break(self, queued: QueuedPod, error: PluginError, now: float) -> None:
        """A plugin failed before the pod was even tried: that counts as an attempt, so that its backoff grows."""
        queued.attempts += 1
        queued.errors += 1
        queued.returned_at = now
        self.broken.append((queued, error))
        self._to_backoff(queued, now)

    def _to_backoff(self, queued: QueuedPod, now: float) -> None:
        self._place(queued, Place.BACKOFF)
        until = max(queued.returned_at + self.backoff(queued), now)
        queued.patient = queued.early and not queued.errors
        self._patient += queued.patient
        (self._backoff if queued.patient else self._strict_backoff).push(until, queued)

    def _shelve(self, queued: QueuedPod, place: Place, now: float) -> None:
        """Keep a pod until an event wakes it, or for five minutes."""
        self._place(queued, place)
        self._group(queued)[queued.pod.uid] = queued
        self._flush.push(now + FLUSH_AFTER, queued)

    def _place(self, queued: QueuedPod, place: Place) -> None:
        self._ticket += 1
        queued.ticket = self._ticket
        queued.place = place
        self._counts[place] += 1
        entered = (place, self._cause)
        self.incoming[entered] = self.incoming.get(entered, 0) + 1

    def _leave(self, queued: QueuedPod) -> None:
        """Take a pod out of where it waits; its heap entries become stale."""
        self._counts[queued.place] -= 1
        if queued.place in (Place.UNSCHEDULABLE, Place.GATED):
            self._leave_group(queued)
        elif queued.place is Place.BACKOFF:
            self._patient -= queued.patient
        queued.ticket = 0

    def _group(self, queued: QueuedPod) -> dict[str, QueuedPod]:
        pod = queued.pod
        bucket = self._unschedulable.setdefault((pod.scheduler_name, queued.plugins), {})
        return bucket.setdefault(_alike(pod), {})

    def _leave_group(self, queued: QueuedPod) -> None:
        pod = queued.pod
        bucket = (pod.scheduler_name, queued.plugins)
        groups = self._unschedulable[bucket]
        key = _alike(pod)
        group = groups[key]
        del group[pod.uid]
        if not group:
            del groups[key]
            if not groups:
                del self._unschedulable[bucket]


def _alike(pod: Pod) -> tuple[Any, ...]:
    """What pods have in common that are asked as one. Claims made for a pod have its name."""
    own = pod.uid if pod.shape.volumes.ephemeral else ""
    return pod.shape, pod.namespace, frozenset(pod.labels.items()), own, pod.priority, pod.preempts


def _always(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
    return True
