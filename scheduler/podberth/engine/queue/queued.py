"""Waiting pods, and heaps of them."""

import heapq
from enum import StrEnum
from typing import Any

from msgspec import Struct

from podberth.framework.decision import Trace
from podberth.model.pod import Pod

_FEW = 1024


class Place(StrEnum):
    """Where a pod waits, under the names of the pending_pods metric."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class QueuedPod(Struct, eq=False):
    """A waiting pod and its history. Times are engine seconds."""

    pod: Pod
    queued_at: float
    story: Any = None
    """Its story, which the history writes."""
    place: Place = Place.ACTIVE
    attempts: int = 0
    first_active: float | None = None
    """When it was first ready to be scheduled."""
    rejections: int = 0
    """Attempts that ended without a node."""
    errors: int = 0
    """Attempts in a row that ended with an error. If there are any, the backoff depends on them."""
    returned_at: float = 0.0
    """When its last attempt failed: the backoff begins then."""
    left_at: int = 0
    """The number of the last event before its last attempt began."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected it last."""
    flushed: bool = False
    """Whether it is tried next only because it waited long (WasFlushedFromUnschedulable)."""
    written: tuple[str, str, str] | None = None
    """(reason, message, nominated node) that we wrote to the API last."""
    equals: Any = None
    """The `EqualPods` that it waits with, while it waits for an event."""
    ticket: int = 0
    """Tells a live heap entry from a stale one."""
    early: bool = True
    """It may be taken once before its backoff is over, when no other pod is active.

    Set again by each real event that may help it, by the end of its nomination, and after a full backoff. Room that our
    own attempts give back does not count: pods that pass it to each other would be tried forever.
    """
    patient: bool = False
    """It backs off among the pods that may be taken early."""
    key: tuple[Any, ...] = ()
    """Its sort key among the active pods."""
    trace: Trace | None = None
    """The points that its last attempt passed, if that is measured."""
    entry: Any = None
    """The `pod_groups.entry.Entry` of its pod group; None: it is scheduled by itself."""
    arrival: int = 0
    """Which pod of a group came to the queue first."""


class Heap:
    """Waiting pods in an order. When a pod leaves, its entry becomes stale, and is dropped when it comes up.

    An entry is live while the pod waits with the ticket that it had. Stale entries never outnumber the live ones by
    much, however often pods are added, updated and deleted.
    """

    __slots__ = ("_entries", "_most")

    def __init__(self) -> None:
        self._entries: list[tuple[Any, int, str, QueuedPod]] = []
        self._most = _FEW

    def __len__(self) -> int:
        """Return how many entries there are, stale ones included."""
        return len(self._entries)

    def push(self, order: Any, queued: QueuedPod) -> None:
        """A pod waits here from now on, with the ticket that it has."""
        heapq.heappush(self._entries, (order, queued.ticket, queued.pod.uid, queued))
        if len(self._entries) > self._most:
            live = [entry for entry in self._entries if entry[3].ticket == entry[1]]
            if 2 * len(live) < len(self._entries):
                heapq.heapify(live)
                self._entries = live
            self._most = 2 * len(self._entries) + _FEW

    def peek(self) -> QueuedPod | None:
        """Return the first pod, which stays; None when there is none."""
        entries = self._entries
        while entries:
            _, ticket, _, queued = entries[0]
            if queued.ticket == ticket:
                return queued
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedPod | None:
        """Return the first pod; None when there is none."""
        queued = self.peek()
        if queued is not None:
            heapq.heappop(self._entries)
        return queued

    def pop_due(self, now: float) -> QueuedPod | None:
        """Return the first pod if its time has come."""
        due = self.first()
        return self.pop() if due is not None and due <= now else None

    def first(self) -> Any:
        """Return the order of the first pod; None when there is none."""
        return None if self.peek() is None else self._entries[0][0]

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
