"""The pod does not get to its node: its devices are free again, and its claims are reserved for it no longer.

Upstream: `dynamicresources.go` (Unreserve), `extendeddynamicresources.go` (unreserveExtendedResourceClaim).
"""

from collections.abc import Iterator

from podberth.cache.devices import Devices
from podberth.framework.binding import AssumedPod, Delete, Patch, Write
from podberth.plugins.dynamic_resources.reservation import moved_on
from podberth.plugins.dynamic_resources.reserved import Reservation, ReservedClaim, latest
from podberth.plugins.dynamic_resources.sharing import part

_CONFLICT = 409


def give_back(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> tuple[Write, ...]:
    """Free the devices, except those whose allocation is written, or may be. Returns what is to be written.

    What was written stays allocated, and the next attempt goes where the devices are; if that is impossible,
    PostFilter frees it. A claim that was made for the pod is deleted.
    """
    part(reservation, assumed, devices)
    writes: list[Write] = [] if reservation.lost else list(_taken_out(reservation, assumed, devices))
    for one in reservation.claims:
        if one.allocation is None or one.is_written:
            continue
        over, version = one.over, assumed.written.get(one.object_key)
        if over is None:
            if not devices.is_unsettled(one.uid):  # else another pod of the group has written it, or may have
                devices.restore(one.uid)
        elif version is not None and latest(over, version) != over:
            devices.written(one.uid, version)
        elif assumed.refused is None:
            devices.doubt(one.uid, over, assumed.pod.uid)
        elif assumed.refused == _CONFLICT:
            devices.doubt(one.uid, over)
            writes += _told(one, assumed, devices)
        else:
            devices.restore(one.uid)
    return tuple(writes)


def _told(one: ReservedClaim, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
    """Another version of a claim that nobody needs any more, so that its watch tells that it has nothing."""
    claim = devices.claims.get(one.key)
    if claim is not None and assumed.leaves and devices.is_refused(one.uid) and not devices.users.uids(one.uid):
        yield moved_on(claim)


def _taken_out(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
    """The pod goes from `reservedFor` of its claims, one entry of a list that others may be changing.

    A pod that is deleted stays there: when the claim controller takes it out, it frees the devices, which nobody else
    would. kube-scheduler takes it out, and the claim keeps its devices for nobody. Where our write of a claim was
    refused, and the pod is there all the same, another leader may have put it there, and be binding it: the Lease can
    be deleted. So it stays, as the next attempt can use it; so it does if an earlier leader's Binding may be late.
    """
    uid = assumed.pod.uid
    for one in reservation.claims:
        if one.extended is not None:
            if one.object_key in assumed.written:
                yield Patch(one.object_key, "", "", {"metadata": {"finalizers": None}})
                yield Delete(one.object_key, "")
            continue
        if assumed.leaves or one.of_group:
            continue  # other pods of the group may need it
        if one.found and devices.late_bindings:
            continue
        claim = devices.claims.get(one.key)
        there = claim is not None and claim.uid == one.uid and uid in claim.reserved_for
        if (there and assumed.refused != _CONFLICT) or _is_reserved(one, assumed, devices):
            change = {"status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}
            version = latest("" if claim is None else claim.resource_version, assumed.written.get(one.object_key))
            yield Patch(one.object_key, one.uid, version, change, "status", strategic=True)


def _is_reserved(one: ReservedClaim, assumed: AssumedPod, devices: Devices) -> bool:
    """Return whether the API has stored that the claim is reserved for the pod, or may be told so by another one."""
    if one.joined and devices.is_unsettled(one.uid):
        return True
    written = assumed.written.get(one.object_key)
    return one.is_written or (one.over is not None and latest(one.over, written) != one.over)
