"""A pod whose promise is followed, and one whose promise is broken."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from podberth.engine.placement_conflicts import Conflict
from podberth.model.pod import Pod
from podberth.model.promise import NodeRequirement


class Stage(StrEnum):
    """How far a broken promise is."""

    GRACE = "grace"
    """Seen once; may be mended."""
    READING = "reading"
    """The API is read: the second observation."""
    HELD = "held"
    """A gate is shut: the breaker, the owner, tokens, no target, or what the API answered."""
    EVICTING = "evicting"
    """The API was asked and has not answered."""
    LEAVING = "leaving"
    """The API said yes, and the pod is still there."""


PATIENT = (Stage.GRACE, Stage.READING, Stage.HELD)
"""Nothing has been asked of the API yet: the grace may start anew."""


class Gate(StrEnum):
    """What only time opens, or somebody who puts labels back."""

    BREAKER = "breaker"
    OWNER = "owner"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A gate that is shut for some `seconds` at least; `why` is for the operator."""

    gate: Gate
    seconds: float
    why: str


@dataclass(slots=True, eq=False)
class Followed:
    """A placed pod that asks something of its node. `pod` is a copy with its own shape; `placed_at`: engine time."""

    pod: Pod
    wanted: NodeRequirement
    row: int
    placed_at: float


@dataclass(slots=True, eq=False)
class Broken:
    """A promise that is broken since `since` (engine time of the first observation)."""

    followed: Followed
    reason: str
    before: Mapping[str, str] | None
    """The node's labels before they changed, where that was seen."""
    since: float = 0.0
    stage: Stage = Stage.GRACE
    due: float = 0.0
    ticket: int = 0
    """Tells a live heap entry from a stale one."""
    tries: int = 0
    breach: str = ""
    confirmed: bool = False
    """Whether the second observation was made since the grace began."""
    closed_gate: ClosedGate | None = None
    """The gate that it is held before."""
    conflict: Conflict | None = None
    """What another scheduler broke, as it was when it was looked at last."""
    others_read: bool = False
    """In a conflict: whether one of the other scheduler's pods was read from the API since the grace began."""
    told: set[str] = field(default_factory=set)
    """Reasons of the Events that were posted of it."""
    told_until: dict[Gate, float] = field(default_factory=dict)
    """Gates that were told of, and until when (engine time) they were said to be shut."""
