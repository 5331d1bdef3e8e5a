"""The devices reserved for a pod, which are remembered from Reserve until it is bound or they are given back.

Pods of a group may share a claim: one of them writes what all of them were promised, and the others wait for that.
Upstream lets each of them write the allocation: those that come second fail with "got allocated elsewhere in the
meantime" (kubernetes/kubernetes#140053), and are tried again one by one.

Beside another scheduler, what was given here and there at the same moment is taken back before the pod is bound.
"""

from collections.abc import Collection, Container, Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from podberth.cache.devices import MOST, ClaimUser, Devices, held
from podberth.framework.binding import AssumedPod, ObjectKey, Patch, Wait, Write
from podberth.model.devices import CLAIM, AllocatedDevice, Allocation, ClaimKey, ResourceClaim
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey, PodGroup
from podberth.plugins.dynamic_resources.claims import ExtendedClaim, consumer

NOTHING = {"allocation": None, "reservedFor": None, "devices": None}
"""Status of a claim that has no device."""
ROUNDS = 4
"""A reservation asks for so many rounds of writes: claims to create, finalizers, statuses, the pod's status."""


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
    """The claim, if it has to be created first."""
    over: str | None = None
    """The resourceVersion on which the allocation is being written; None: no write was asked for yet."""
    asked_for: tuple[str, ...] = ()
    """UIDs of those for whom that write reserves the claim, and for whom it was not reserved before."""
    is_written: bool = False
    """The API has the allocation."""
    shared: bool = False
    """Other pods of the group may use the claim as well: one of them writes it, and the others wait for that."""
    of_group: bool = False
    """It is a claim of the pod's group, and reserved for that."""
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
    """So many of the `ROUNDS` of writes were asked for."""
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


LATE = "another pod of the group did not write the claim that they share"
TELLS_SECONDS = 1.0
"""After a write was refused: how long the watch has to tell why, before the claim is written once more."""


def share(reservation: Reservation, pod: Pod, devices: Devices, group: GroupKey) -> None:
    """Note that the pod counts on its claims."""
    for one in reservation.claims:
        if one.extended is None:
            one.shared = True
            devices.users.add(one.uid, pod.uid, ClaimUser(pod.name, group))


def part(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> None:
    """The claims are written, or the pod does not need them any more: it neither writes nor counts on them."""
    for one in reservation.claims:
        version = assumed.written.get(one.object_key)
        if version is not None and one.extended is None:
            devices.users.moved_on.add(one.uid)
        reserved = version is not None and one.over is not None and latest(one.over, version) != one.over
        if devices.late_bindings and reserved and not one.found:
            devices.reserved_here.update((one.key, uid) for uid in one.asked_for)
        if one.shared:
            if version is not None:
                devices.note_written(one.key, one.uid, version)
            devices.users.remove(one.uid, one.key, assumed.pod.uid)


def turn(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Wait until no other pod writes one of the claims, and the watch shows what was written; then it is our turn.

    So it is when a write was refused and the watch does not tell why. All claims are taken at once, so that no two pods
    wait for each other.
    """
    me = assumed.pod.uid
    shared = [one for one in reservation.claims if one.shared]
    if not shared or reservation.asked >= ROUNDS or all(devices.users.writer(one.uid) == me for one in shared):
        return None
    waited, assumed.expired = assumed.expired, False
    refused = [one for one in shared if devices.is_refused(one.uid)]
    busy = [
        one
        for one in shared
        if devices.users.writer(one.uid) not in ("", me) or not (one in refused or devices.may_be_written(one.uid))
    ]
    if busy:
        return Wait(seconds, on=frozenset(one.object_key for one in busy), expired=LATE)
    if refused and not waited:
        return Wait(TELLS_SECONDS, on=frozenset(one.object_key for one in refused), pause=True)
    for one in shared:
        devices.users.write(one.uid, me)
    return None


def is_other(one: ReservedClaim, claim: ResourceClaim) -> bool:
    """Return whether the API shows another allocation than the one that was promised."""
    if one.document is None or claim.allocation is None:
        return False
    if not one.shared or one.allocation is None:
        return True
    return list(map(_said, claim.allocation.devices)) != list(map(_said, one.allocation.devices))


def _said(device: AllocatedDevice) -> tuple[AllocatedDevice, dict[str, int]]:
    """Return what is said of a device. An amount may come back in another notation: 0.5Ki as 512."""
    amounts = {name: amount.nano for name, amount in (device.consumed or {}).items()}
    return replace(device, consumed=None), amounts


def consumers(
    one: ReservedClaim, reservation: Reservation, pod: Pod, devices: Devices, there: Collection[str]
) -> Iterator[dict[str, Any]]:
    """For whom the claim is to be reserved as well: the group, if it is one of its own; else those that share it."""
    if one.of_group and reservation.claiming is not None:
        yield consumer(reservation.claiming)
        return
    yield _consumer(pod.uid, pod.name)
    if reservation.group is None or not one.shared:
        return
    room = MOST - len(there) - 1
    for uid, user in devices.users.of(one.uid, reservation.group):
        if uid != pod.uid and uid not in there and room > 0:
            room -= 1
            yield _consumer(uid, user.name)


def is_reserved(one: ReservedClaim, reservation: Reservation, pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether the API shows the claim as reserved for whom it is to be."""
    group = reservation.claiming
    return pod.uid in claim.reserved_for or (one.of_group and group is not None and group.uid in claim.reserved_for)


def _consumer(uid: str, name: str) -> dict[str, Any]:
    return {"resource": "pods", "name": name, "uid": uid}


SECONDS = 1.0
"""The pause between a written claim and its pod's Binding, in pools where another scheduler is active."""


def pause(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Return a Wait until the watch shows the written claims, and then one of `SECONDS`; None: the pod may be bound.

    It is needed only in pools where another scheduler is active: that one may have given the same device to another
    claim, and the API server refuses neither write. Once the watch shows what was written here, it has shown all that
    was written before. What another scheduler decided before it saw our write comes a moment later.
    Conflicts that come later than that are found by `Devices.take_conflicts`.
    """
    given = [one for one in reservation.claims if one.allocation is not None]
    pools = {
        (device.id.driver, device.id.pool)
        for one in given
        if one.allocation is not None
        for device in held(one.allocation.devices)
    }
    if not given or not devices.rivals.near(pools, devices.wall):
        return None
    unseen = frozenset(one.object_key for one in given if devices.is_unseen(one.uid))
    if unseen:
        return Wait(seconds, on=unseen, expired="the watch does not show what claims were given")
    if reservation.paused:
        return None
    if not assumed.expired:
        on: frozenset[ObjectKey] = frozenset(one.object_key for one in given)
        return Wait(SECONDS, on=on, pause=True)
    reservation.paused, assumed.expired = True, False
    return None


def give_way(
    reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float, peers: Container[str]
) -> Wait | None:
    """Take the pod's allocations back if another claim has one of the devices as well. None: none has.

    `peers`: UIDs of pods of its group that are not bound either: they give way with it.
    Raises ReservationError, once nothing is left to be taken back.
    """
    pod = assumed.pod
    if reservation.lost:
        raise ReservationError(reservation.lost)
    writes: list[Write] = []
    for one in reservation.claims:
        claim = devices.claim(one.key)
        allocation = one.allocation if claim is None or claim.allocation is None else claim.allocation
        used = () if claim is None else claim.reserved_for
        if allocation is None or any(other != pod.uid and other not in peers for other in used):
            continue
        uid = one.uid if claim is None or claim.allocation is None else claim.uid
        rival = devices.rival_of(one.uid if devices.is_unseen(one.uid) else uid, allocation)
        if rival is None:
            continue
        device, other = rival
        mine, theirs = "/".join(one.key), devices.name_of(other)
        reservation.lost = f"device {device} of claim {mine} was given to claim {theirs} by another scheduler"
        version = latest(claim.resource_version if claim is not None else "", assumed.written.get(one.object_key))
        if one.is_written or one.allocation is None:
            uid = one.uid if one.extended is None else ""
            writes.append(Patch(one.object_key, uid, version, {"status": NOTHING}, "status"))
    if reservation.lost and not writes:
        raise ReservationError(reservation.lost)
    return Wait(seconds, tuple(writes)) if writes else None
