"""What came of an attempt to schedule a pod group, pod by pod, and what is said about it.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupAlgorithmResult, submitPodGroupAlgorithmResult) and
`framework/plugins/gangscheduling` (PlacementFeasible).
"""

from dataclasses import dataclass, field

from scheduler.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE
from scheduler.engine.pod_groups.entry import Ended, Entry
from scheduler.engine.queued import QueuedPod
from scheduler.framework.decision import Decision
from scheduler.model.pod_group import PodGroup

GROUP_UNSCHEDULABLE = "pod group is unschedulable"


@dataclass(slots=True, eq=False)
class Member:
    """One pod of the group that is being tried."""

    queued: QueuedPod
    fits: bool = False
    """It is assumed on a node, and its Reserve plugins have let it go on."""
    reason: str = ""
    """Why it found no node: Unschedulable or SchedulerError. Empty: it fits, or was not tried."""
    message: str = ""
    plugins: frozenset[str] = frozenset()
    decision: Decision | None = None
    nominated: str | None = None
    """What becomes of its nomination: as in `Outbox.failed`."""

    def forget(self) -> None:
        """It is tried again from the start."""
        self.fits, self.reason, self.message = False, "", ""
        self.plugins, self.decision, self.nominated = frozenset(), None, None


@dataclass(slots=True, eq=False)
class GroupAttempt:
    """The attempt to schedule a group, as far as it has come."""

    entry: Entry
    group: PodGroup
    members: dict[str, Member]
    """By UID, in the order in which they are tried."""
    next: int = 0
    """How many of them were tried."""
    ended: Ended | None = None
    reasons: list[str] = field(default_factory=list)
    """Why it failed."""
    early: bool = False
    """It failed before any pod was tried, or found no node for any of the others."""
    spent: int = 0
    """Steps beyond those of ordinary pods."""
    asking: str = ""
    """UID of the pod for which extenders are being asked."""
    again: bool = False
    """It begins again from the start, once all pods have given back what they hold."""
    holding: list[str] = field(default_factory=list)
    """UIDs of the pods that are still to give back what they hold."""
    said: bool = False
    """It was said of the group why it failed."""
    told: int = 0
    """Of how many pods it was said as well."""
    missed: bool = False
    """Something happened meanwhile that may help."""
    events: int = 0
    """The number of the last event before others had their share."""
    untried: str = ""
    """What is said of the pods that were not tried."""

    @property
    def pods(self) -> list[Member]:
        """Its pods, in the order in which they are tried."""
        return list(self.members.values())

    def fail(self, reason: str, *, early: bool = False) -> None:
        """It has failed: not enough pods can find a node."""
        self.ended, self.reasons, self.early = Ended.REJECTED, [reason] if reason else [], early

    def break_off(self, message: str) -> None:
        """It has failed with an error."""
        self.ended, self.reasons = Ended.BROKEN, [message]

    @property
    def message(self) -> str:
        """The message of the group's condition, and of pods without one of their own."""
        return ", ".join([GROUP_UNSCHEDULABLE, *self.reasons] if self.early else self.reasons)

    @property
    def of_those_that_fit(self) -> str:
        """The message for pods that found a node in vain."""
        return f"{GROUP_UNSCHEDULABLE}, {self.message}"


def unsatisfied(group: PodGroup, scheduled: int, remaining: int) -> str:
    """Why no more than this can find a node, so that the group fails; empty: it can still fit (PlacementFeasible)."""
    if scheduled + remaining >= group.needed:
        return ""
    return f"minCount ({group.needed}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


def verdict(attempt: GroupAttempt, member: Member) -> tuple[str, str, str | None]:
    """(reason, message, nomination) for a pod of a group that failed, or that found no node itself."""
    if attempt.ended in (Ended.BROKEN, Ended.TOO_COSTLY):
        own = member.reason == SCHEDULER_ERROR
        return SCHEDULER_ERROR, member.message if own else attempt.message, ""
    if member.fits:
        return UNSCHEDULABLE, attempt.of_those_that_fit, ""
    if member.reason:
        return member.reason, member.message, member.nominated
    return UNSCHEDULABLE, attempt.untried, None
