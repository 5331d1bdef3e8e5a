"""A pod whose promise is followed, one whose promise is broken, and the words for either."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from podberth.engine.placement_conflicts import Conflict
from podberth.model.pod import Pod
from podberth.model.promise import ANNOTATION, NO_TERM, NodeRequirement
from podberth.model.selectors import Requirement


class Stage(StrEnum):
    """The stages of a broken promise."""

    GRACE = "grace"
    """Seen once; may be mended."""
    READING = "reading"
    """The API is read for the second observation."""
    HELD = "held"
    """A gate holds it: the breaker, the owner, tokens, no target, or the API's answer."""
    EVICTING = "evicting"
    """The API was asked and has not answered."""
    LEAVING = "leaving"
    """The API said yes, and the pod is still there."""


PATIENT = (Stage.GRACE, Stage.READING, Stage.HELD)
"""The stages before anything was asked of the API: in these the grace may start again."""


class Gate(StrEnum):
    """A gate that opens in time, or when the labels are put back."""

    BREAKER = "breaker"
    OWNER = "owner"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A gate that stays closed for at least `seconds`; `why` is a text for the operator."""

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

    @property
    def node(self) -> str:
        """Return the name of the pod's node. It stays the same when the node is gone, and its row is another's."""
        return self.pod.node_name


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
    """True if the second observation was made since the grace began."""
    closed_gate: ClosedGate | None = None
    """The gate that it is held before."""
    conflicts: bool = False
    """True if it was seen in a conflict, whatever else it is broken for."""
    conflict: Conflict | None = None
    """The conflict that another scheduler made, as it was when it was looked at last."""
    others_read: bool = False
    """True in a conflict if one of the other scheduler's pods was read from the API since the grace began."""
    told: set[str] = field(default_factory=set)
    """The reasons of the Events that were posted about it."""
    told_until: dict[Gate, float] = field(default_factory=dict)
    """Gate → engine time until which it was reported as closed."""


Labels = Mapping[str, str]
SYSTEM_CRITICAL = 2_000_000_000
"""Priority of system-cluster-critical and above (scheduling.SystemCriticalPriority)."""
_MOST_MISSED, _LENGTH = 5, 300
"""The largest number of requirements that are named, and the characters of each: a pod may ask for thousands of
values.
"""


def breach(wanted: NodeRequirement, node: str, labels: Labels, before: Labels | None = None) -> str:
    """Return the requirements that a node does not meet, with the label's value now, and `before` where that is
    known.
    """
    parts = []
    broken = wanted.broken(node, labels)
    for missed in broken[:_MOST_MISSED]:
        if missed is NO_TERM:
            parts.append("no term can match a node")
        elif isinstance(missed, Requirement):
            parts.append(f"{_cut(str(missed))}: {_change(missed.key, labels, before)}")
        else:
            parts.append(_cut(str(missed)))
    if len(broken) > _MOST_MISSED:
        parts.append(f"and {len(broken) - _MOST_MISSED} more")
    return "; ".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def _change(key: str, labels: Labels, before: Labels | None) -> str:
    now = _value(labels, key)
    if before is None or before.get(key) == labels.get(key):
        return f"the label is {now}" if key in labels else "the label is absent"
    return f"the label was {_value(before, key)}, is {now}"


def _value(labels: Labels, key: str) -> str:
    return f'"{labels[key]}"' if key in labels else "absent"


def source(pod: Pod) -> str:
    """Return the source of a pod's promise: its annotation or its profile."""
    promise = pod.shape.promise
    return ANNOTATION if promise is not None else "the profile's allPods"


def left_alone(pod: Pod, *, bare_pods: bool) -> str:
    """Return the reason for which a pod is never evicted; empty: it may be."""
    if pod.belongs_to_node:
        if pod.owner is not None and pod.owner[0] == "DaemonSet":
            return "a DaemonSet's pod: it would come back to the same node"
        return "a mirror pod: its kubelet would bring it back"
    if pod.priority >= SYSTEM_CRITICAL:
        return "a system-critical pod"
    if pod.owner is None and not bare_pods:
        return "a pod without a controller: nothing would create it again"
    return ""
