"""Beside another scheduler: what was given here and there at the same moment is taken back before the pod is bound."""

from collections.abc import Container

from podberth.cache.devices import Devices, held
from podberth.framework.binding import AssumedPod, ObjectKey, Patch, Wait, Write
from podberth.plugins.dynamic_resources.reserved import NOTHING, Reservation, ReservationError, latest

SECONDS = 1.0
"""Where another scheduler is active: how long after a claim was written its pod is bound."""


def pause(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Return where another scheduler is active in the pools, wait until the watch shows what was written, and a moment
    more.

    Another scheduler may have given the same device to another claim, which no write is refused for. Once the watch
    shows what was written here, it has shown all that was written before. What another scheduler decided before it
    saw ours comes a moment later; what comes later than that is found by `Devices.take_conflicts`.
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
    """Take back what was given if another claim has one of the devices as well.

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
