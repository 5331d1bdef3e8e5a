"""The engine says what is to be done: the kinds of instructions, and the list of those that follow from one stimulus.

The part of the shell that has a kind in its `carries` carries it out.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any

from msgspec import Struct

from podberth.engine.queue.queued import QueuedPod
from podberth.framework.binding import Call, Write
from podberth.framework.decision import Decision
from podberth.framework.extenders import Question
from podberth.framework.status import PluginError
from podberth.framework.verify import Difference
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

UNSCHEDULABLE = "Unschedulable"
WAITING_FOR_GROUP = "WaitingForGroup"
SCHEDULER_ERROR = "SchedulerError"


class Instruction(Struct, frozen=True):
    """One thing to be done."""

    pod: Pod
    """The pod that it is about."""


Carries = Mapping[type[Instruction], Callable[[Any], None]]
"""The kinds of instructions that a part of the shell carries out, and how."""


class _ToBind(Instruction, frozen=True):
    node: str
    attempts: int
    first_seen: float
    """Engine time, in seconds, at which the pod was first ready to be scheduled."""
    decision: Decision
    since: float
    """Engine time, in seconds, at which the pod got its node: Bindings go in this order, as does what comes before."""
    flushed: bool = False
    """No event had woken the pod: it was flushed after its time among the unschedulable pods."""


class Bind(_ToBind, frozen=True):
    """Post the Binding of an assumed pod, then its Scheduled event. Answer with Bound or BindFailed."""


class Withdraw(Instruction, frozen=True):
    """Do not send the Binding of this pod, if there is still time: its node takes it no longer.

    Answer with BindWithdrawn, or with what becomes of the Binding.
    """

    node: str
    message: str


class BoundByPlugin(_ToBind, frozen=True):
    """A Bind plugin has bound the pod itself: post the Scheduled event, as for a Bind."""


class PreBindWrite(Instruction, frozen=True):
    """Write for a PreBind plugin, in this order. Answer with PreBindWritten or PreBindWriteFailed."""

    node: str
    plugin: str
    writes: tuple[Write, ...]
    since: float
    """Engine time, in seconds, at which the pod got its node: what is written for it goes in this order."""


class PostFilterWrite(Instruction, frozen=True):
    """Write for a PostFilter plugin, in this order. What comes of it, the watch tells; answer failures."""

    writes: tuple[Write, ...]


class UnreserveWrite(Instruction, frozen=True):
    """Write for plugins that gave back what they had reserved, in this order. What comes of it, the watch tells."""

    writes: tuple[Write, ...]


class RecordEvent(Instruction, frozen=True):
    """Post an event about a pod."""

    kind: str
    """Normal or Warning."""
    reason: str
    note: str


class DeviceGivenTwice(Instruction, frozen=True):
    """A pod is bound, and another claim has a device of its claim: log it, and post a Warning."""

    note: str


class Nominate(Instruction, frozen=True):
    """Set status.nominatedNodeName to the node on which an assumed pod waits to be bound: autoscalers look there."""

    node: str


class ClearNomination(Instruction, frozen=True):
    """Clear status.nominatedNodeName of a pod that has to look for another node."""


class Failed(Instruction, frozen=True):
    """A pod found no node (reason Unschedulable) or an attempt broke (SchedulerError): log and count it."""

    reason: str
    message: str
    plugins: frozenset[str]
    attempts: int
    decision: Decision | None
    repeated: bool = False
    """The API has this condition of the pod already, so nothing has to be written."""


class PatchCondition(Instruction, frozen=True):
    """Set PodScheduled=False on a pod, and its nominatedNodeName (None: leave it, empty: clear it)."""

    reason: str
    message: str
    nominated: str | None = None


class SetGroupCondition(Instruction, frozen=True):
    """Set PodGroupInitiallyScheduled of a pod group. True is final: a later False is not written.

    `pod` is one of the group.
    """

    group: PodGroup
    status: str
    """"True" or "False"."""
    reason: str
    message: str


class DisruptGroup(Instruction, frozen=True):
    """Set DisruptionTarget of a pod group whose pods are removed to make room for `pod`."""

    group: PodGroup
    message: str


class RecordFailure(Instruction, frozen=True):
    """Post a FailedScheduling event for a pod."""

    message: str


class RecordConflict(Instruction, frozen=True):
    """Another scheduler broke what a placed pod requires of pods on other nodes: log it, and post an event."""

    node: str
    constraint: str
    message: str


class Preempt(Instruction, frozen=True):
    """Remove victims from a node for a pod: condition, deletion by UID, event. Answer failures with VictimStays."""

    node: str
    victims: tuple[Pod, ...]
    reverted: tuple[Pod, ...] = ()
    """Victims that were not bound yet and are in the queue again: their event says why."""
    group: PodGroup | None = None
    """The pod's group, if it is this that needs the room."""


class RunCall(Instruction, frozen=True):
    """Run a plugin's coroutine, within its time. Answer with CallEnded or CallFailed."""

    call: Call


class CancelCall(Instruction, frozen=True):
    """Cancel this coroutine: its answer is not needed any more."""

    call: Call


class AskExtenders(Instruction, frozen=True):
    """Put a question to HTTP extenders. Answer with ExtendersAnswered or ExtendersFailed."""

    question: Question


class PermitWaited(Instruction, frozen=True):
    """A pod does not wait for Permit plugins any more: count how long it did. `result`: a status."""

    result: str
    seconds: float


class GroupTried(Instruction, frozen=True):
    """An attempt to schedule a pod group is over: count it, and how long it took. `pod` is one of the group.

    `result`: scheduled, unschedulable, waiting_on_preemption or error. `algorithm`: seconds until it was decided.
    `preempts`: whether victims were found; None: none were looked for.
    """

    result: str
    seconds: float
    algorithm: float
    preempts: bool | None


class VictimsChosen(Instruction, frozen=True):
    """Preemption has chosen victims: count them. `preemptor`: pod or podgroup.

    `groups`: how many groups go as a whole, where a group preempts. `violations`: how many pods overdraw a budget.
    """

    preemptor: str
    victims: int
    groups: int
    violations: int


class Misbehaved(Instruction, frozen=True):
    """A plugin failed where no pod fails with it (PostBind, Unreserve, a queueing hint): log and count it."""

    error: PluginError


class Verified(Instruction, frozen=True):
    """A decision was verified on a rebuilt cluster. If it differed, log and count it.

    Then the second decision counted, and the rebuilt cluster replaced the other.
    """

    difference: Difference | None
    """None: the second decision was the same."""


class Outbox:
    """Instructions in the order in which they were decided. All parts of the engine add them here, and only here."""

    def __init__(self) -> None:
        self._said: list[Instruction] = []
        self._hints: set[str] = set()
        """Plugins whose queueing hints have failed."""

    def add(self, instruction: Instruction) -> None:
        """Add an instruction, to be carried out after those that were added before."""
        self._said.append(instruction)

    def failed(
        self,
        queued: QueuedPod,
        reason: str,
        message: str,
        plugins: frozenset[str] = frozenset(),
        decision: Decision | None = None,
        nominated: str | None = None,
        *,
        quietly: bool = False,
    ) -> None:
        """An attempt failed: count and log it, and write condition and event unless the API has exactly these already.

        `nominated`: the node to name in status.nominatedNodeName, empty to clear it, None to leave it. `quietly`:
        write nothing.
        """
        known = queued.written[2] if queued.written is not None else queued.pod.nominated_node_name
        written = (reason, message, known if nominated is None else nominated)
        repeated = not quietly and queued.written == written
        self.add(Failed(queued.pod, reason, message, plugins, queued.attempts, decision, repeated))
        if quietly or repeated:
            return
        queued.written = written
        changed = nominated if nominated is not None and nominated != known else None
        self.add(PatchCondition(queued.pod, reason, message, changed))
        self.add(RecordFailure(queued.pod, message))

    def hint_failed(self, pod: Pod, error: PluginError) -> None:
        """A queueing hint failed. Reported once for each plugin, since one event may ask about thousands of pods."""
        if error.plugin not in self._hints:
            self._hints.add(error.plugin)
            self.add(Misbehaved(pod, error))

    def retract(self, uids: Container[str]) -> None:
        """Drop the instructions for these pods: their attempt broke, and none of them has been carried out."""
        self._said = [one for one in self._said if one.pod.uid not in uids]

    def take(self) -> list[Instruction]:
        """Return all instructions since the last call."""
        said, self._said = self._said, []
        if self._hints:
            self._hints.clear()
        return said
