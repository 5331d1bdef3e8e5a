"""What is remembered of the devices reserved for a pod, from Reserve until the pod is bound or they are given back."""

from typing import Any

from msgspec import Struct, field

from podberth.framework.binding import ObjectKey
from podberth.model.devices import CLAIM, Allocation, ClaimKey
from podberth.model.pod_group import GroupKey, PodGroup
from podberth.plugins.dynamic_resources.extended import ExtendedClaim

NOTHING = {"allocation": None, "reservedFor": None, "devices": None}
"""Status of a claim that has no device."""
ROUNDS = 4
"""How many rounds of writes a reservation asks for: claims to create, finalizers, statuses, the pod's status."""


class ReservationError(Exception):
    """The reserved devices are not to be had any more."""


class ReservedClaim(Struct):
    """One claim of the pod. `allocation`: the reserved devices; None: the claim was allocated before."""

    key: ClaimKey
    uid: str
    allocation: Allocation | None
    document: dict[str, Any] | None
    """The allocation, as it will be written."""
    extended: ExtendedClaim | None = None
    """What a claim asks for that has to be created first."""
    over: str | None = None
    """The resourceVersion on which the allocation is being written; None: no write was asked for yet."""
    asked_for: tuple[str, ...] = ()
    """UIDs of those for whom that write reserves the claim, and for whom it was not reserved before."""
    is_written: bool = False
    """The API has the allocation."""
    shared: bool = False
    """Other pods of the group may use the claim as well: one of them writes it, and the others wait for that."""
    of_group: bool = False
    """Whether it is a claim of the pod's group, and reserved for that."""
    found: bool = False
    """It was reserved for the pod before this attempt."""
    joined: bool = False
    """The devices were reserved for another pod of the group."""

    @property
    def object_key(self) -> ObjectKey:
        """The claim, as writes and waits name it."""
        return (CLAIM, *self.key)


class Reservation(Struct):
    """All claims of a pod."""

    claims: list[ReservedClaim] = field(default_factory=list)
    asked: int = 0
    """How many of the `ROUNDS` of writes were asked for."""
    announced: bool = False
    """It was said that the pod waits for devices to get ready."""
    further: bool = False
    """kube-scheduler's search finds no devices on the node: looking further did."""
    shown: bool = False
    """The watch has shown a write of a claim, and another one was asked for."""
    paused: bool = False
    """Other schedulers have had time to see what was written."""
    lost: str = ""
    """Why the written allocations are being taken back; empty: they are not."""
    group: GroupKey | None = None
    """The pod group with which the pod is bound."""
    claiming: PodGroup | None = None
    """The object of that group, if claims of groups are heeded and it has some."""


def latest(stored: str, written: str | None) -> str:
    """The later of two versions of one object."""
    if written is None or (stored.isdigit() and written.isdigit() and int(stored) > int(written)):
        return stored
    return written
