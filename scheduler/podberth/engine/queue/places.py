"""The places where pods wait, and how they get from one to another: active, backing off, unschedulable, gated.

Mirrors the moves between queues of kube-scheduler `backend/queue/scheduling_queue.go`. Next stage:
`podberth.engine.queue.scheduling_queue` says when they happen.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from podberth.cache.cluster import Cluster
from podberth.engine.instructions import SCHEDULER_ERROR, Outbox
from podberth.engine.observers import Observers
from podberth.engine.queue.fair_share import FairShare
from podberth.engine.queue.queued import Heap, Place, QueuedPod
from podberth.engine.queue.unschedulable import UnschedulablePods
from podberth.engine.stimuli import EventObject, named
from podberth.framework.events import LABELS, ClusterEvent
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError, shown

ATTEMPT_FAILED = "ScheduleAttemptFailure"
FLUSH_AFTER = 300.0
"""Seconds after which an unschedulable pod is tried again, whatever happened."""


class Cause(NamedTuple):
    """The cause for which pods move from one place to another."""

    event: str
    """The name that the metric queue_incoming_pods has for it."""
    about: str = ""
    """The object of the event: "Node n4". Empty: the pod itself, or none."""

    @classmethod
    def of(cls, event: ClusterEvent, about: EventObject | None) -> "Cause":
        """Return the cause for an event, as the metrics label it, and the object that it is about."""
        label = next((LABELS[part] for part in LABELS if part & event), ATTEMPT_FAILED)
        return cls(label, "" if about is None else named(about))


EARLY = Cause("PopFromBackoffQ")


class Places:
    """The waiting pods by UID, each in one place, and the moves of those that are in no group."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        initial_backoff: float,
        max_backoff: float,
        outbox: Outbox,
        cluster: Cluster,
        observers: Observers,
    ) -> None:
        self.frameworks = frameworks
        """The profiles, by name."""
        self.outbox = outbox
        self.observers = observers
        self.cluster = cluster
        """PreEnqueue plugins may look at it."""
        self.initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        self.pods: dict[str, QueuedPod] = {}
        self.active = Heap()
        self.fair_share = FairShare()
        """Active pods whose namespace has used more than its share."""
        self.backing_off = Heap()
        self.strict_backoff = Heap()
        """Pods that have to wait out their backoff even when no other pod is active."""
        self.patient = 0
        """Pods in `backing_off`, which are taken early when nothing else is active."""
        self.early_groups = Heap()
        """The groups in `strict_backoff` that may be taken early when nothing else is active."""
        self.flush = Heap()
        self.unschedulable = UnschedulablePods(frameworks, outbox)
        """Unschedulable and gated pods."""
        self._key_form: list[bool] | None = None
        self._ticket = 0
        self.counts = dict.fromkeys(Place, 0)
        self.incoming: dict[tuple[Place, str], int] = {}
        """(place, event) → pods that entered it by that, as the queue_incoming_pods metric counts them."""

    def entries(self) -> int:
        """Return the number of entries, for tests of what a tenant can make grow."""
        heaps = (self.active, self.backing_off, self.strict_backoff, self.early_groups, self.flush)
        return sum(map(len, heaps)) + len(self.pods) + self.fair_share.entries() + self.unschedulable.entries()

    def new_ticket(self) -> int:
        """Return a number that tells live heap entries from stale ones."""
        self._ticket += 1
        return self._ticket

    def reconfigure(self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float) -> None:
        """Use other profiles. Active pods are in no order until their places have been found again."""
        self.frameworks = self.unschedulable.frameworks = frameworks
        self.initial_backoff, self.max_backoff = initial_backoff, max_backoff
        self.active.clear()  # its order may be another one
        self.fair_share.release()
        self._key_form = None

    def backoff(self, queued: QueuedPod) -> float:
        """Return the seconds to wait after an attempt: doubling from the initial to the maximal backoff."""
        count = queued.errors or queued.rejections
        return float(min(self.initial_backoff * 2 ** min(max(count - 1, 0), 32), self.max_backoff))

    def wake(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Move a pod from where it waits to where it belongs now."""
        self.leave(queued)
        self.enter(queued, now, cause)

    def enter(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Move a pod to the active queue, if PreEnqueue plugins allow it and its backoff is over.

        The pod has left its old place already. It leaves the queue if its profile is gone. `cause`: the event that
        moves it.
        """
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if framework is None:
            self.profile_gone(queued, now)
            return
        try:
            held = framework.pre_enqueue(queued.pod, self.cluster)
        except PluginError as error:
            self._break(queued, error, now, cause)
            return
        if held is not None:
            queued.plugins = frozenset((held[0],))
            queued.flushed = False
            self.wait_for_event(queued, Place.GATED, now, cause, held[1].text)
            self.tell_limit(queued)
        elif queued.attempts and queued.returned_at + self.backoff(queued) > now:
            self.to_backoff(queued, now, cause)
        else:
            queued.early = True
            self.to_active(queued, queued.returned_at if queued.attempts else queued.queued_at, now, cause)

    def profile_gone(self, queued: QueuedPod, now: float) -> None:
        """Let a pod go whose profile is not configured any more, whether it waits or comes back."""
        self.pods.pop(queued.pod.uid, None)
        for hear in self.observers.left:
            hear(queued.pod.uid, "its profile is not configured any more", now)

    def tell_limits(self) -> None:
        """Report the limit of each pod that is beyond one, unless the API shows it already: a standby replica wrote
        nothing.
        """
        for queued in self.pods.values():
            limit, condition = queued.pod.too_large, queued.pod.condition
            if limit is not None and (condition is None or condition[1:3] != (SCHEDULER_ERROR, limit.text)):
                queued.written = None
                self.tell_limit(queued)

    def tell_limit(self, queued: QueuedPod) -> None:
        """Report to a pod that it is beyond a limit, with reason SchedulerError, as no node that is added would
        help.
        """
        if queued.pod.too_large is not None:
            self.outbox.failed(queued, SCHEDULER_ERROR, queued.pod.too_large.text, queued.plugins)

    def to_active(self, queued: QueuedPod, queued_at: float, now: float, cause: Cause) -> None:
        """Make a pod active. It has left its old place."""
        framework = self.frameworks[queued.pod.scheduler_name]
        try:
            key = framework.sort_key(queued.pod, queued_at)
            self.check_key(framework, key)
        except PluginError as error:
            self._break(queued, error, now, cause)
            return
        queued.queued_at = queued_at
        if queued.first_active is None:
            queued.first_active = now
        queued.order = key
        self._place(queued, Place.ACTIVE, now, cause)
        self.active.push(key, queued)

    def check_key(self, framework: Framework, key: tuple[Any, ...]) -> None:
        """Check that a sort key has the form of all others: keys that can't be compared would break the heap.

        Raises PluginError.
        """
        form = [isinstance(part, str) for part in key]
        if self._key_form is None:
            self._key_form = form
        elif form != self._key_form:
            plugin = framework.profile.plugins("queue_sort")[0].name
            raise PluginError(plugin, f"the sort key {shown(key)} can't be compared with those before it", "QueueSort")

    def _break(self, queued: QueuedPod, error: PluginError, now: float, cause: Cause) -> None:
        """Back off a pod for which a plugin failed before it was tried. That counts as an attempt, so that its backoff
        grows.
        """
        queued.attempts += 1
        queued.errors += 1
        queued.returned_at = now
        queued.trace = None
        plugins = frozenset((error.plugin,))
        for hear in self.observers.failed:
            hear(queued, SCHEDULER_ERROR, str(error), plugins, now)
        self.to_backoff(queued, now, cause)
        self.outbox.failed(queued, SCHEDULER_ERROR, str(error), plugins)

    def to_backoff(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Put a pod into backoff. It has left its old place."""
        until = max(queued.returned_at + self.backoff(queued), now)
        self._place(queued, Place.BACKOFF, now, cause, until)
        queued.patient = queued.early and not queued.errors
        self.patient += queued.patient
        (self.backing_off if queued.patient else self.strict_backoff).push(until, queued)

    def take_early(self, now: float) -> QueuedPod | None:
        """Make the first pod active that need not wait for the end of its backoff, once, and return it."""
        queued = self.backing_off.pop()
        if queued is None:
            return None
        assert isinstance(queued, QueuedPod)  # groups have a heap of their own
        queued.early = False
        self.leave(queued)
        self._place(queued, Place.ACTIVE, now, EARLY)
        return queued

    def wait_for_event(self, queued: QueuedPod, place: Place, now: float, cause: Cause, reason: str = "") -> None:
        """Keep a pod until an event wakes it, or for five minutes. `reason`: why it is gated."""
        self._place(queued, place, now, cause, 0.0, reason)
        self.unschedulable.put(queued)
        self.flush.push(now + FLUSH_AFTER, queued)

    def _place(
        self, queued: QueuedPod, place: Place, now: float, cause: Cause, until: float = 0.0, reason: str = ""
    ) -> None:
        queued.ticket = self.new_ticket()
        queued.place = place
        self.counts[place] += 1
        event, about = cause
        entered = (place, event)
        self.incoming[entered] = self.incoming.get(entered, 0) + 1
        for hear in self.observers.queued:
            hear(queued, event, about, until, reason, now, False)

    def leave(self, queued: QueuedPod) -> None:
        """Take a pod out of where it waits; its heap entries become stale."""
        self.counts[queued.place] -= 1
        if queued.place in (Place.UNSCHEDULABLE, Place.GATED):
            self.unschedulable.take(queued)
        elif queued.place is Place.BACKOFF:
            self.patient -= queued.patient
        queued.ticket = 0
