"""The places where pods wait, and how they get from one to another: active, backing off, unschedulable, gated.

Mirrors the moves between queues of kube-scheduler `backend/queue/scheduling_queue.go`. Next stage:
`scheduler.engine.queue` says when they happen.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scheduler.engine import story_entries
from scheduler.engine.changes import EventObject, named
from scheduler.engine.fair_share import FairShare
from scheduler.engine.heaps import Heap
from scheduler.engine.instructions import SCHEDULER_ERROR
from scheduler.engine.outbox import Outbox
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.story import Stories
from scheduler.engine.unschedulable_pods import UnschedulablePods
from scheduler.framework.events import LABELS, ClusterEvent
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError, shown
from scheduler.state.cluster import Cluster

ATTEMPT_FAILED = "ScheduleAttemptFailure"
FLUSH_AFTER = 300.0
"""Seconds after which an unschedulable pod is tried again, whatever happened."""


class Cause(NamedTuple):
    """Why pods move from one place to another."""

    event: str
    """The name that the metric queue_incoming_pods has for it."""
    about: str = ""
    """The object of the event: "Node n4". Empty: the pod itself, or none."""

    @classmethod
    def of(cls, event: ClusterEvent, about: EventObject | None) -> "Cause":
        """An event, as the metrics label it, and the object that it is about."""
        label = next((LABELS[part] for part in LABELS if part & event), ATTEMPT_FAILED)
        return cls(label, "" if about is None else named(about))


class Places:
    """Waiting pods by UID, each in one place."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        initial_backoff: float,
        max_backoff: float,
        outbox: Outbox,
        cluster: Cluster,
    ) -> None:
        self._outbox = outbox
        self.cluster = cluster
        """What PreEnqueue plugins may look at."""
        self.initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._active = Heap(self._pods)
        self.fair_share = FairShare(self._pods)
        """Active pods whose namespace has used more than its share."""
        self._backoff = Heap(self._pods)
        self._strict_backoff = Heap(self._pods)
        """Pods that have to wait out their backoff even when no other pod is active."""
        self._patient = 0
        """Pods in `_backoff`, which are taken early when nothing else is active."""
        self._early_groups = Heap(self._pods)
        """Those of `_strict_backoff` that stand for a group which is taken early when nothing else is active."""
        self._flush = Heap(self._pods)
        self.unschedulable = UnschedulablePods(frameworks, outbox)
        """Unschedulable and gated pods."""
        self.stories = Stories()
        """What happened to each pod."""
        self._key_form: list[bool] | None = None
        self._ticket = 0
        self._counts = dict.fromkeys(Place, 0)
        self.incoming: dict[tuple[Place, str], int] = {}
        """How many pods entered each place by which event, as the queue_incoming_pods metric counts them."""

    def entries(self) -> int:
        """How much is kept here, for tests of what a tenant can make grow."""
        heaps = (self._active, self._backoff, self._strict_backoff, self._early_groups, self._flush)
        return sum(map(len, heaps)) + len(self._pods) + self.fair_share.entries() + self.unschedulable.entries()

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

    @property
    def frameworks(self) -> Mapping[str, Framework]:
        """The profiles, by name."""
        return self.unschedulable.frameworks

    def backoff(self, queued: QueuedPod) -> float:
        """Seconds to wait after an attempt: doubling from the initial to the maximal."""
        count = queued.errors or queued.rejections
        return float(min(self.initial_backoff * 2 ** min(max(count - 1, 0), 32), self.max_backoff))

    def _wake(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        self._leave(queued)
        self._enter(queued, now, cause)

    def _enter(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Move a pod to the active queue, if PreEnqueue plugins allow it and its backoff is over.

        The pod has left its old place already. It leaves the queue if its profile is gone. `cause`: the event that
        moves it.
        """
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if framework is None:
            del self._pods[queued.pod.uid]
            queued.story.end(story_entries.Left(now, "its profile is not configured any more"))
            return
        try:
            held = framework.pre_enqueue(queued.pod, self.cluster)
        except PluginError as error:
            self._break(queued, error, now, cause)
            return
        if held is not None:
            queued.plugins = frozenset((held[0],))
            queued.flushed = False
            self._wait_for_event(queued, Place.GATED, now, cause, held[1].text)
            self.tell_limit(queued)
        elif queued.attempts and queued.returned_at + self.backoff(queued) > now:
            self._to_backoff(queued, now, cause)
        else:
            queued.early = True
            self._to_active(queued, queued.returned_at if queued.attempts else queued.queued_at, now, cause)

    def tell_limit(self, queued: QueuedPod) -> None:
        """Tell a pod that it is beyond a limit. It is no error of Berth's, but no node that is added would help."""
        if queued.pod.too_large is not None:
            self._outbox.failed(queued, SCHEDULER_ERROR, queued.pod.too_large, queued.plugins)

    def _to_active(self, queued: QueuedPod, queued_at: float, now: float, cause: Cause) -> None:
        framework = self.frameworks[queued.pod.scheduler_name]
        try:
            key = framework.sort_key(queued.pod, queued_at)
            self._check_key(framework, key)
        except PluginError as error:
            self._break(queued, error, now, cause)
            return
        queued.queued_at = queued_at
        if queued.first_active is None:
            queued.first_active = now
        queued.key = key
        self._place(queued, Place.ACTIVE, now, cause)
        self._active.push(key, queued)

    def _check_key(self, framework: Framework, key: tuple[Any, ...]) -> None:
        """All keys must have the same form: a key that can't be compared with others would break the heap.

        Raises PluginError.
        """
        form = [isinstance(part, str) for part in key]
        if self._key_form is None:
            self._key_form = form
        elif form != self._key_form:
            plugin = framework.profile.plugins("queue_sort")[0].name
            raise PluginError(plugin, f"the sort key {shown(key)} can't be compared with those before it", "QueueSort")

    def _break(self, queued: QueuedPod, error: PluginError, now: float, cause: Cause) -> None:
        """A plugin failed before the pod was tried. That counts as an attempt, so that its backoff grows."""
        queued.attempts += 1
        queued.errors += 1
        queued.returned_at = now
        message = story_entries.cut(str(error))
        plugins = frozenset((error.plugin,))
        queued.story.note(story_entries.Failed(now, queued.attempts, SCHEDULER_ERROR, message, plugins, None))
        self._to_backoff(queued, now, cause)
        self._outbox.failed(queued, SCHEDULER_ERROR, str(error), plugins)

    def _to_backoff(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        until = max(queued.returned_at + self.backoff(queued), now)
        self._place(queued, Place.BACKOFF, now, cause, until)
        queued.patient = queued.early and not queued.errors
        self._patient += queued.patient
        (self._backoff if queued.patient else self._strict_backoff).push(until, queued)

    def _wait_for_event(self, queued: QueuedPod, place: Place, now: float, cause: Cause, reason: str = "") -> None:
        """Keep a pod until an event wakes it, or for five minutes. `reason`: why it is gated."""
        self._place(queued, place, now, cause, 0.0, reason)
        self.unschedulable.put(queued)
        self._flush.push(now + FLUSH_AFTER, queued)

    def _place(
        self, queued: QueuedPod, place: Place, now: float, cause: Cause, until: float = 0.0, reason: str = ""
    ) -> None:
        self._ticket += 1
        queued.ticket = self._ticket
        queued.place = place
        self._counts[place] += 1
        event, about = cause
        entered = (place, event)
        self.incoming[entered] = self.incoming.get(entered, 0) + 1
        queued.story.note(story_entries.Queued(now, place, event, about, queued.plugins, until, reason))

    def _leave(self, queued: QueuedPod) -> None:
        """Take a pod out of where it waits; its heap entries become stale."""
        self._counts[queued.place] -= 1
        if queued.place in (Place.UNSCHEDULABLE, Place.GATED):
            self.unschedulable.take(queued)
        elif queued.place is Place.BACKOFF:
            self._patient -= queued.patient
        queued.ticket = 0
