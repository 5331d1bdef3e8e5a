"""Waiting pods and pod groups, and heaps of them."""

import heapq
from enum import StrEnum
from math import inf
from typing import Any

from msgspec import Struct, field

from podberth.framework.decision import Trace
from podberth.framework.events import ANY, ClusterEvent
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey

_FEW = 1024


class Place(StrEnum):
    """A place in which pods wait, under its name in the pending_pods metric."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class QueuedPod(Struct, eq=False):
    """A waiting pod and its history. Times are engine seconds."""

    pod: Pod
    queued_at: float
    story: Any = None
    """The pod's history, which `podberth.engine.history` writes."""
    place: Place = Place.ACTIVE
    attempts: int = 0
    first_active: float | None = None
    """The time at which it was first ready to be scheduled."""
    rejections: int = 0
    """Attempts that ended without a node."""
    errors: int = 0
    """Attempts in a row that ended with an error. If there are any, the backoff depends on them."""
    returned_at: float = 0.0
    """The time at which its last attempt failed: the backoff begins then."""
    left_at: int = 0
    """The number of the last event before its last attempt began."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected it last."""
    flushed: bool = False
    """True if it is tried next only because it waited long (WasFlushedFromUnschedulable)."""
    written: tuple[str, str, str] | None = None
    """(reason, message, nominated node) that we wrote to the API last."""
    equals: Any = None
    """The `EqualPods` that it waits with, while it waits for an event."""
    ticket: int = 0
    """Tells a live heap entry from a stale one."""
    early: bool = True
    """True if it may be taken once before its backoff is over, when no other pod is active.

    Set again by each real event that may help it, by the end of its nomination, and after a full backoff. Room that our
    own attempts give back does not count: pods that pass it to each other would be tried forever.
    """
    patient: bool = False
    """True if it backs off among the pods that may be taken early."""
    order: tuple[Any, ...] = ()
    """Its sort key among the active pods."""
    trace: Trace | None = None
    """The points that its last attempt passed, if that is measured."""
    group: "QueuedGroup | None" = None
    """Its pod group; None: it is scheduled by itself."""
    arrival: int = 0
    """The order of arrival of a group's pods in the queue."""

    def update(self, pod: Pod) -> None:
        """Exchange the pod for its changed version. If that has another condition than we wrote, as another leader has
        written it, ours is written again with the next attempt.
        """
        shown, written = pod.condition, self.written
        if written is not None and shown != self.pod.condition and (shown is None or shown[1:3] != written[:2]):
            self.written = ("", "", written[2])
        self.pod = pod


class QueuedGroup(Struct, eq=False):
    """The waiting pods of one group, all in one place. Times are engine seconds.

    Mirrors kube-scheduler `framework/types.go` (QueuedPodGroupInfo).
    """

    key: GroupKey
    queued_at: float
    """Engine time by which entries of the same priority are in order."""
    pods: dict[str, QueuedPod] = field(default_factory=dict)
    """UID → waiting pod. While the group is being tried: the pods that came meanwhile."""
    trying: tuple[QueuedPod, ...] = ()
    """The pods that are being tried, in that order. Meanwhile the entry is in no heap."""
    place: Place = Place.GATED
    ticket: int = 0
    """Tells a live heap entry from a stale one; 0: it has no place."""
    order: Any = None
    """Its order in the heap of its place."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected it, as of a pod. It is always empty: any event may help."""
    equals: Any = None
    """The `EqualPods` that it waits with, while it waits for an event."""
    group: None = None
    """The group of the group: none, as groups are not nested."""
    held: dict[str, tuple[str, str]] = field(default_factory=dict)
    """UID → (plugin, reason) of the pods that PreEnqueue plugins hold. While there are any, all pods wait."""
    held_by_group: dict[str, None] = field(default_factory=dict)
    """UIDs of the pods that a plugin with `for_groups` holds: it is asked again when the group changes."""
    failing: set[str] = field(default_factory=set)
    """UIDs of the pods for which a PreEnqueue plugin failed: it is asked again after the backoff."""
    first_tried: float = inf
    """The time at which it was tried first."""
    attempts: int = 0
    rejections: int = 0
    """Attempts since the last success after which no pod could go on."""
    errors: int = 0
    """Attempts in a row that ended with an error. If there are any, the backoff depends on them."""
    failed: int = 0
    """Attempts in a row that gave nodes to pods of which one could not be bound, and came back while others waited. It
    may be another one each time."""
    failed_before: int = 0
    """The same without the last attempt."""
    once_more: bool = False
    """True if the group is tried although pods are missing. If they still are, it gives up the nodes that are kept for
    it.
    """
    returned_at: float = 0.0
    """The time at which its last attempt failed: the backoff begins then."""
    helped_by: ClusterEvent = ANY
    """The kinds of event that may reverse the rejection of one of its pods in its last attempt."""
    early: bool = False
    """True if one of these happened since its last attempt, other than by what our own attempts give back. Then it need
    not wait for the end of its backoff when nothing else is to be done.
    """
    early_again: float = 0.0
    """The time before which it is not tried early: the shortest backoff after it was."""

    @property
    def new(self) -> bool:
        """Return whether the entry has no place yet."""
        return not self.ticket and not self.trying

    @property
    def first(self) -> QueuedPod:
        """The first of its pods."""
        return next(iter(self.pods.values()))

    @property
    def pod(self) -> Pod:
        """The pod by which the group is asked for its namespace, profile and priority."""
        return self.first.pod


Queued = QueuedPod | QueuedGroup
"""A thing that waits for its turn: a pod, or the pods of a group together."""


class Heap:
    """A heap of waiting pods and groups. When one leaves, its entry becomes stale, and is dropped when it comes up.

    An entry is live while what it stands for waits with the ticket that it had. Stale entries never outnumber the live
    ones by much, however often pods are added, updated and deleted.
    """

    __slots__ = ("_entries", "_most")

    def __init__(self) -> None:
        self._entries: list[tuple[Any, int, Queued]] = []
        self._most = _FEW

    def __len__(self) -> int:
        """Return the number of entries, stale ones included."""
        return len(self._entries)

    def push(self, order: Any, queued: Queued) -> None:
        """Push an entry for a pod or group with its present ticket."""
        heapq.heappush(self._entries, (order, queued.ticket, queued))
        if len(self._entries) > self._most:
            live = [entry for entry in self._entries if entry[2].ticket == entry[1]]
            if 2 * len(live) < len(self._entries):
                heapq.heapify(live)
                self._entries = live
            self._most = 2 * len(self._entries) + _FEW

    def peek(self) -> Queued | None:
        """Return the first pod, which stays; None when there is none."""
        entries = self._entries
        while entries:
            _, ticket, queued = entries[0]
            if queued.ticket == ticket:
                return queued
            heapq.heappop(entries)
        return None

    def pop(self) -> Queued | None:
        """Return the first pod; None when there is none."""
        entries = self._entries
        while entries:
            _, ticket, queued = heapq.heappop(entries)
            if queued.ticket == ticket:
                return queued
        return None

    def pop_due(self, now: float) -> Queued | None:
        """Return the first pod if its time has come."""
        due = self.first()
        return self.pop() if due is not None and due <= now else None

    def first(self) -> Any:
        """Return the order of the first pod; None when there is none."""
        return None if self.peek() is None else self._entries[0][0]

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
