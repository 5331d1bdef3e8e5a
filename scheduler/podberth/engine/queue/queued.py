"""A waiting pod and its history."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from podberth.framework.attempt_record import Trace
from podberth.model.pod import Pod


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
