"""What the engine wants done."""

from msgspec import Struct

from scheduler.framework.decision import Decision
from scheduler.framework.extenders import Question
from scheduler.framework.reservation import Call, Patch
from scheduler.framework.status import PluginError
from scheduler.framework.verify import Difference
from scheduler.model.pod import Pod

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


class Bind(Struct, frozen=True):
    """Post the Binding of an assumed pod, then its Scheduled event. Answer with Bound or BindFailed."""

    pod: Pod
    node: str
    attempts: int
    first_seen: float
    """Engine time, in seconds, at which the pod was first ready to be scheduled."""
    decision: Decision
    flushed: bool = False
    """Nothing that happened had woken the pod: its time among the unschedulable was over."""


class Prepare(Struct, frozen=True):
    """Write what has to be there before an assumed pod can be bound, in order. Answer with Prepared or NotPrepared."""

    pod: Pod
    node: str
    plugin: str
    writes: tuple[Patch, ...]


class Announce(Struct, frozen=True):
    """Say in status.nominatedNodeName where a pod will be bound once it is prepared: autoscalers look there."""

    pod: Pod
    node: str


class Failed(Struct, frozen=True):
    """A pod found no node (reason Unschedulable) or an attempt broke (SchedulerError): log and count it."""

    pod: Pod
    reason: str
    message: str
    plugins: frozenset[str]
    attempts: int
    decision: Decision | None
    repeated: bool = False
    """The same has been said of the pod before, so there is nothing more to write about it."""


class PatchCondition(Struct, frozen=True):
    """Set PodScheduled=False on a pod, and its nominatedNodeName (None: leave it, empty: clear it)."""

    pod: Pod
    reason: str
    message: str
    nominated: str | None = None


class RecordFailure(Struct, frozen=True):
    """Post a FailedScheduling event for a pod."""

    pod: Pod
    message: str


class Preempt(Struct, frozen=True):
    """Remove victims from a node for a pod: condition, deletion by UID, event. Answer failures with VictimStays."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...]
    turned_back: tuple[Pod, ...] = ()
    """Those that were not bound yet and wait in the queue again: the event says why."""


class ClearNomination(Struct, frozen=True):
    """Clear status.nominatedNodeName of a pod that has to look for another node."""

    pod: Pod


class RunCall(Struct, frozen=True):
    """Run a plugin's coroutine, within its time. Answer with Answered or NotAnswered."""

    call: Call


class AskExtenders(Struct, frozen=True):
    """Put a question to HTTP extenders. Answer with Consulted or NotConsulted."""

    question: Question


class CancelCall(Struct, frozen=True):
    """Nobody waits for this coroutine any more: the pod is gone or has turned back."""

    call: Call


class BoundByPlugin(Struct, frozen=True):
    """A Bind plugin has bound the pod itself: post the Scheduled event, as for a Bind."""

    pod: Pod
    node: str
    plugin: str
    attempts: int
    first_seen: float
    decision: Decision
    flushed: bool = False


class Misbehaved(Struct, frozen=True):
    """A plugin failed where no pod fails with it (PostBind, Unreserve, a queueing hint): log and count it."""

    pod: Pod
    error: PluginError


class Verified(Struct, frozen=True):
    """A decision was taken again on a cluster made anew; None: with the same outcome. Else log and count it.

    The second decision was followed, and what was kept is made anew.
    """

    pod: Pod
    difference: Difference | None
    given_up: bool = False
    """The second decision would have cost too much, with nothing kept: there is none."""


Instruction = (
    Bind
    | Prepare
    | Announce
    | Failed
    | PatchCondition
    | RecordFailure
    | Preempt
    | ClearNomination
    | RunCall
    | CancelCall
    | BoundByPlugin
    | AskExtenders
    | Misbehaved
    | Verified
)
