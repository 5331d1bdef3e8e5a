"""A waiting pod and its history."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.engine.story import Story
from scheduler.framework.attempt_record import Trace
from scheduler.model.pod import Pod


class Place(StrEnum):
    """Where a pod waits, under the names of the pending_pods metric."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


@dataclass(slots=True)
class Cost:
    """What an attempt has taken so far that did not end within one slice."""

    spent: int = 0
    """Steps."""
    slices: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    """What it had to look at, and how much of it."""
    answer: Any = None
    """What extenders said, if the attempt goes on from there."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A waiting pod and its history. Times are engine seconds."""

    pod: Pod
    queued_at: float
    story: Story
    place: Place = Place.ACTIVE
    attempts: int = 0
    first_active: float | None = None
    """When it was first ready to be scheduled."""
    rejections: int = 0
    """Attempts that ended without a node."""
    errors: int = 0
    """Attempts in a row that ended with an error; while there are any, its backoff goes by them."""
    overruns: int = 0
    """Attempts in a row that cost too much; while there are any, its backoff goes by them."""
    returned_at: float = 0.0
    """When its last attempt came to nothing; backoff runs from then on."""
    left_at: int = 0
    """The number of the last event before its last attempt began."""
    plugins: frozenset[str] = frozenset()
    """Who rejected it last."""
    flushed: bool = False
    """Its next attempt comes for no other reason than that it waited long (WasFlushedFromUnschedulable)."""
    written: tuple[str, str, str] | None = None
    """(reason, message, nominated node) that the API has of it from us."""
    group: Any = None
    """The `Group` that it waits in, while it waits for an event."""
    ticket: int = 0
    """Tells a live heap entry from a stale one."""
    early: bool = True
    """It may be taken once before its backoff is over, when nothing else is active.

    True again when something real that may help it happens outside, or a backoff was waited out. Room that our own
    attempts give back is no such thing: pods that hand it to each other would be tried without end.
    """
    patient: bool = False
    """Waits out its backoff among those that may be taken early."""
    key: tuple[Any, ...] = ()
    """Its place among the active pods."""
    cost: Cost | None = None
    """Of an attempt that is under way and goes on later."""
    steps: int = 0
    """What its last attempt took."""
    trace: Trace | None = None
    """What its last attempt has passed, if somebody measures."""
