"""A claim that pods of a group share: one of them writes what all of them were promised, and the others wait for that.

Upstream lets each of them write the allocation: those that come second fail with "got allocated elsewhere in the
meantime" (kubernetes/kubernetes#140053), and are tried again one by one.
"""

from collections.abc import Collection, Iterator
from typing import Any

from msgspec.structs import replace

from podberth.cache.devices import MOST, ClaimUser, Devices
from podberth.framework.binding import AssumedPod, Wait
from podberth.model.devices import AllocatedDevice, ResourceClaim
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.plugins.dynamic_resources.group_claims import consumer
from podberth.plugins.dynamic_resources.reserved import ROUNDS, Reservation, ReservedClaim, latest

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
