"""A pod group as the queue knows it: one entry, however many of its pods wait.

Mirrors kube-scheduler `framework/types.go` (QueuedPodGroupInfo).
"""

from collections.abc import Iterable
from enum import Enum, auto
from math import inf
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from podberth.engine.queue.queued import Place, QueuedPod
from podberth.model.pod_group import GroupKey

_ARRIVAL, _ATTEMPTS, _PRIORITY = attrgetter("arrival"), attrgetter("attempts"), attrgetter("pod.priority")


class Ended(Enum):
    """How an attempt to schedule a group ended."""

    WITH_NODES = auto()
    """Enough pods have a node, though perhaps not all."""
    REJECTED = auto()
    BROKEN = auto()


class Entry(Struct, eq=False):
    """The waiting pods of one group, all in one place. Times are engine seconds."""

    key: GroupKey
    queued_at: float
    """Entries of the same priority are tried in this order."""
    pods: dict[str, QueuedPod] = field(default_factory=dict)
    """UID → waiting pod. While the group is being tried: the pods that came meanwhile."""
    trying: tuple[QueuedPod, ...] = ()
    """The pods that are being tried, in the order in which they are. Then the entry is in no heap."""
    place: Place = Place.GATED
    ticket: int = 0
    order: Any = None
    """Where it is in the heap of its place."""
    leader: QueuedPod | None = None
    """The pod that stands for the entry in the heaps."""
    held: dict[str, tuple[str, str]] = field(default_factory=dict)
    """UID → (plugin, reason) of the pods that PreEnqueue plugins hold. While there are any, all pods wait."""
    held_by_group: dict[str, None] = field(default_factory=dict)
    """UIDs of the pods that a plugin with `for_groups` holds: it is asked again when the group changes."""
    failing: set[str] = field(default_factory=set)
    """UIDs of the pods for which a PreEnqueue plugin failed: it is asked again after the backoff."""
    first_tried: float = inf
    """When it was tried for the first time."""
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
    """The group is tried although pods are missing. If they still are, it gives up the nodes that are kept for it."""
    returned_at: float = 0.0
    """When its last attempt failed: the backoff begins then."""
    early: bool = False
    """Something has really changed since its last attempt, so it need not wait for the end of its backoff when nothing
    else is to be done. What our own attempts give back does not count."""

    @property
    def new(self) -> bool:
        """Return whether it has no place yet."""
        return self.leader is None and not self.trying


def in_order(pods: Iterable[QueuedPod]) -> tuple[QueuedPod, ...]:
    """The order in which the pods of a group are tried (PodGroupMemberPodsOrderingFunc)."""
    ordered = sorted(pods, key=_ARRIVAL)
    ordered.sort(key=_ATTEMPTS, reverse=True)
    ordered.sort(key=_PRIORITY, reverse=True)
    return tuple(ordered)
