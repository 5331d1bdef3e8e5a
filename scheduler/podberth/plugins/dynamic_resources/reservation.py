"""The devices reserved for a pod: assumed, written, waited for until they are ready, or given back.

They are given back when the pod does not get to its node: they are free again, and its claims are reserved for it no
longer.

Pods of a group may share a claim: one of them writes what all of them were promised, and the others wait for that.
Upstream lets each of them write the allocation: those that come second fail with "got allocated elsewhere in the
meantime" (kubernetes/kubernetes#140053), and are tried again one by one.

Beside another scheduler, what was given here and there at the same moment is taken back before the pod is bound.

Upstream: `dynamicresources.go` (Reserve, Unreserve, bindClaim, isPodReadyForBinding) and `extendeddynamicresources.go`
(createExtendedResourceClaimInAPI, patchPodExtendedResourceClaimStatus, unreserveExtendedResourceClaim).
"""

import hashlib
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from podberth.cache.devices import MOST_USERS, ClaimUser, Devices, held, older
from podberth.framework.binding import NOW, AssumedPod, Create, Delete, ObjectKey, Patch, Wait, Write
from podberth.model.devices import (
    CLAIM,
    EVERY_CLAIM,
    EXTENDED_RESOURCE_CLAIM,
    FINALIZER,
    AllocatedDevice,
    Allocation,
    ClaimKey,
    ResourceClaim,
)
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE, NATIVE_KIND, GroupKey, PodGroup
from podberth.plugins.dynamic_resources.allocation import EXTENDED_SUFFIX, allocation_of
from podberth.plugins.dynamic_resources.claims import (
    ExtendedClaim,
    is_of_group,
    keys_of,
    late_at,
    readiness,
)
from podberth.plugins.dynamic_resources.results import PodDevices

FURTHER = "kube-scheduler's search finds no devices there, looking further did"
UNSHOWN = "the watch does not show what was written to claims"
UNCOMPARED = "it is not known yet which devices the last leader has given"
LATE = "another pod of the group did not write the claim that they share"
PENDING = "BindingConditionsPending"
"""The reason of the event that says what the pod waits for."""
RESERVED_OVER = "podberth.dev/reserved-over"
"""The annotation that makes a version of a claim another one; its value is the version over which it was written."""
NOTHING = {"allocation": None, "reservedFor": None, "devices": None}
"""Status of a claim that has no device."""
ROUNDS = 4
"""A reservation asks for so many rounds of writes: claims to create, finalizers, statuses, the pod's status."""
TELLS_SECONDS = 1.0
"""After a write was refused, the watch has so long to tell why, before the claim is written once more."""
PAUSE_SECONDS = 1.0
"""The pause between a written claim and its pod's Binding, in pools where another scheduler is active."""
_NUMBER = "\0"
"""Begins the number of a claim that has no UID yet."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST = 253
_CONFLICT = 409


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
    """The claims of one pod, all together."""

    claims: list[ReservedClaim] = field(default_factory=list)
    asked: int = 0
    """The number of the `ROUNDS` of writes that were asked for."""
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


def reserve(
    pod: Pod,
    node: Node,
    wants: PodDevices,
    row: int,
    devices: Devices,
    group: GroupKey | None,
    claiming: PodGroup | None = None,
) -> Reservation | None:
    """Reserve the devices that were found for a node. Raises AllocationError, and reserves nothing then.

    `group`: with it the pod is bound, and its other pods may share what is reserved. `claiming`: the group, if it has
    claims of its own.
    """
    found = Reservation(group=group, claiming=claiming)
    if wants.results is not None:
        request, allocated = wants.results.request, wants.results.of(row)
        found.further = allocated.further
        unallocated, extended = list(wants.unallocated), request.extended_claim_on(node)
        if extended is not None:
            unallocated.append(_to_be_made(pod, extended, devices))
        for claim, wanted, chosen in zip(unallocated, request.claims_on(node) or (), allocated.chosen, strict=True):
            seed = f"{pod.uid}/{claim.uid}/{claim.resource_version}"
            allocation, document = allocation_of(claim.name, wanted, chosen, node.name, seed)
            made = extended if claim.uid.startswith(_NUMBER) else None
            found.claims.append(ReservedClaim(claim.key, claim.uid, allocation, document, made))
    for given in found.claims:
        if given.allocation is not None:
            shared = None if given.extended else group
            key = None if given.extended else given.key
            devices.assume(given.uid, given.allocation, key, pod.uid, shared, given.document)
    found.claims += [
        _as_allocated(claim, pod, devices, group) for claim in wants.claims if claim.allocation is not None
    ]
    if group is not None:
        for given in found.claims:
            if given.extended is None:
                given.shared = True
                devices.users.add(given.uid, pod.uid, ClaimUser(pod.name, group))
    if claiming is not None:
        own = {key for key, said in keys_of(pod) if is_of_group(said, claiming)}
        for given in found.claims:
            given.of_group = given.extended is None and given.key in own
    return found if found.claims else None


def _as_allocated(claim: ResourceClaim, pod: Pod, devices: Devices, group: GroupKey | None) -> ReservedClaim:
    """A claim that was allocated before, or that was promised to another pod of the group."""
    flight = devices.in_flight.get(claim.uid)
    if flight is None or flight.version is not None or group is None or flight.group != group:
        found = pod.uid in claim.reserved_for and (claim.key, pod.uid) not in devices.reserved_here
        return ReservedClaim(claim.key, claim.uid, None, None, found=found)
    return ReservedClaim(claim.key, claim.uid, flight.allocation, flight.document, joined=True)


def _to_be_made(pod: Pod, extended: ExtendedClaim, devices: Devices) -> ResourceClaim:
    """The claim for extended resources, under a name that no claim has, or had.

    What deletes an earlier one, or is late, names that one only.
    """
    while True:
        devices.names_given += 1
        name = f"{pod.uid}/{devices.salt}/{devices.names_given}"
        digest = hashlib.blake2b(name.encode(), digest_size=5).digest()
        base = f"{pod.name}{EXTENDED_SUFFIX}"[: _LONGEST - len(digest)]
        name = base + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest)
        if (pod.namespace, name) not in devices.claims:
            break
    number = f"{_NUMBER}{pod.uid}/{devices.names_given}"
    return ResourceClaim(
        pod.namespace, name, number, "", False, pod.uid, None, (), extended.spec, None, (), (), {}, b""
    )


def _latest(stored: str, written: str | None) -> str:
    """The later of two versions of one object."""
    if written is None or (stored.isdigit() and written.isdigit() and int(stored) > int(written)):
        return stored
    return written


def next_step(
    reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float, peers: Container[str]
) -> Wait | None:
    """Return what has to be written or waited for next; None: the pod may be bound.

    `peers`: UIDs of the pods of its group that are assumed. Raises ReservationError.
    """
    for before_writing in (_taken_out, _turn, _settled, _same_group):
        if (wait := before_writing(reservation, assumed, devices, seconds)) is not None:
            return wait
    rounds = (_creations, _finalizers, _statuses, _pod_status)
    while reservation.asked < ROUNDS:
        current = rounds[reservation.asked]
        if current is _statuses:
            wait = _give_way(reservation, assumed, devices, seconds, peers)
            wait = wait or _caught_up(reservation, assumed, devices, seconds)
            if wait is not None:
                return wait
        writes = tuple(current(reservation, assumed, devices))
        reservation.asked += 1
        if reservation.asked == ROUNDS:
            _note_written(reservation, assumed, devices)
            _part(reservation, assumed, devices)
        if writes:
            return Wait(seconds, writes, note=_note(reservation) if current is _statuses else "")
    wait = _pause(reservation, assumed, devices, seconds) or _give_way(reservation, assumed, devices, seconds, peers)
    return _wait_for_devices(reservation, assumed, devices, seconds) if wait is None else wait


def _note(reservation: Reservation) -> str:
    """Return which devices each claim gets, for people."""
    given = [
        f"the claim {one.key[1]} gets {' and '.join(str(device.id) for device in one.allocation.devices)}"
        for one in reservation.claims
        if one.allocation is not None and one.over is not None
    ]
    return ", ".join([*given, FURTHER] if reservation.further else given)


def _taken_out(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Wait until it is known that an earlier attempt has taken the pod out of its claims, and the watch shows it.

    Else the claim still looks reserved for the pod, nothing is written, and what is under way takes it out of the claim
    after it was bound; or it deletes the claim that was made for the pod, after another one was.
    """
    users = devices.users
    if reservation.asked or not (users.taking_out or users.unseen):
        return None
    every = reservation.claims
    busy = every if assumed.pod.uid in users.taking_out else [one for one in every if one.uid in users.unseen]
    if not busy:
        return None
    return Wait(seconds, on=frozenset(one.object_key for one in busy), expired="the pod is not taken out of its claims")


def _turn(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
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


def _settled(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Write claims once more whose allocation was refused, and wait until the watch shows that.

    If nobody has changed them, no event would ever tell the pods of the group that share them.
    """
    if reservation.asked:
        return None
    refused = [one for one in reservation.claims if one.shared and devices.is_doubted(one.uid)]
    if not refused:
        return None
    writes = tuple(moved_on(_there(one, devices)) for one in refused if one.object_key not in assumed.written)
    if writes:
        return Wait(seconds, writes)
    return Wait(seconds, on=frozenset(one.object_key for one in refused), expired=LATE)


def _same_group(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Before anything is written of a claim of the group, make sure that the group is the one that is known."""
    group = reservation.claiming
    if reservation.asked or group is None:
        return None
    own = [(one, _there(one, devices)) for one in reservation.claims if one.of_group]
    due = any(
        not _is_reserved(one, reservation, assumed.pod, claim) or one.uid not in devices.users.moved_on
        for one, claim in own
    )
    patch = _confirmed(group)
    return Wait(seconds, (patch,)) if due and patch.key not in assumed.written else None


def _confirmed(group: PodGroup) -> Patch:
    """Change nothing of the group, which is refused if the group of its name is another one by now.

    The watch of groups may be behind. A claim that is reserved for a group that is gone loses its devices, and pods
    that are bound by then have none. While a pod names a group, it stays; so what is confirmed holds until the pod is
    bound or gone.
    """
    return Patch((NATIVE_KIND, group.namespace, group.name), group.uid, "", {}, "status")


def _give_way(
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
        version = _latest(claim.resource_version if claim is not None else "", assumed.written.get(one.object_key))
        if one.is_written or one.allocation is None:
            uid = one.uid if one.extended is None else ""
            writes.append(Patch(one.object_key, uid, version, {"status": NOTHING}, "status"))
    if reservation.lost and not writes:
        raise ReservationError(reservation.lost)
    return Wait(seconds, tuple(writes)) if writes else None


def _caught_up(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Before a new leader gives the first devices, wait until the watch shows a write of its own to a claim.

    Then it has shown all that earlier leaders have written. A watch that stands still is noticed after a minute only,
    and the API server refuses nobody a device that another claim has. The first write may be shown by a list, in which
    others' claims come after it; so there is a second one, which comes after the whole list.

    What the watch has lost before is found by comparison: wait for that as well.
    """
    given = [one for one in reservation.claims if one.allocation is not None]
    if not given:
        return None
    if not devices.taken_over:
        return Wait(seconds, on=frozenset((EVERY_CLAIM,)), expired=UNCOMPARED) if devices.uncompared else None
    written = [one for one in given if one.object_key in assumed.written]
    if not written:
        return Wait(seconds, (moved_on(_there(given[0], devices)),))
    for one in written:
        claim = devices.claims.get(one.key)
        if claim is not None and not older(claim.resource_version, assumed.written[one.object_key]):
            if not reservation.shown:
                reservation.shown = True
                return Wait(seconds, (moved_on(claim),))
            devices.taken_over = False
            return _caught_up(reservation, assumed, devices, seconds)
    return Wait(seconds, on=frozenset(one.object_key for one in written), expired=UNSHOWN)


def _creations(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
    pod = assumed.pod
    for one in reservation.claims:
        if one.extended is not None:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
            metadata = {
                "generateName": f"{pod.name}{EXTENDED_SUFFIX}",
                "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
                "ownerReferences": [owner],
                "finalizers": [FINALIZER],
            }
            requests = [
                {
                    "name": request.name,
                    "exactly": {
                        "deviceClassName": request.exactly.device_class,
                        "allocationMode": request.exactly.mode,
                        "count": request.exactly.count,
                    },
                }
                for request in one.extended.spec.requests
                if request.exactly is not None
            ]
            yield Create(one.object_key, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})


def _finalizers(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
    for one in reservation.claims:
        if one.allocation is None or one.extended is not None:
            continue
        claim = _there(one, devices)
        if FINALIZER not in claim.finalizers:
            change = {"metadata": {"finalizers": [*claim.finalizers, FINALIZER]}}
            why = f"add finalizer to claim {claim}"
            yield Patch(one.object_key, claim.uid, claim.resource_version, change, purpose=why)


def _statuses(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
    pod = assumed.pod
    for one in reservation.claims:
        beside = None if one.extended is None else devices.made_beside(one.key, pod.name, pod.uid)
        if beside is not None:
            raise ReservationError(f"claim {beside} was made for the pod as well")
        claim = None if one.extended is not None else _there(one, devices)
        if claim is not None and is_other(one, claim):
            raise ReservationError(f"claim {claim} got allocated elsewhere in the meantime")
        if claim is not None and _is_reserved(one, reservation, pod, claim):
            if one.uid not in devices.users.moved_on and one.object_key not in assumed.written:
                yield moved_on(claim)
            continue
        reserved = [] if claim is None else [msgspec.json.decode(raw) for raw in claim.raw_reserved_for]
        there = () if claim is None else claim.reserved_for
        added = list(_consumers(one, reservation, pod, devices, there))
        status: dict[str, Any] = {"reservedFor": [*reserved, *added]}
        one.asked_for = tuple(consumer["uid"] for consumer in added)
        version = _latest(claim.resource_version if claim is not None else "", assumed.written.get(one.object_key))
        one.over = version
        if one.document is not None and (claim is None or claim.allocation is None):
            if one.shared and not devices.is_unseen(one.uid):
                raise ReservationError(f"claim {claim} got deallocated elsewhere in the meantime")
            status["allocation"] = {**one.document, "allocationTimestamp": NOW}
            if one.extended is not None:
                devices.name(one.uid, one.key)
        elif claim is not None and claim.allocation is None and devices.claim(one.key) is claim:
            raise ReservationError(f"claim {claim} got deallocated elsewhere in the meantime")
        uid = one.uid if one.extended is None else ""
        what = "allocation and reservation" if "allocation" in status else "reservation"
        why = f"add {what} to claim {'/'.join(one.key)}"
        yield Patch(one.object_key, uid, version, {"status": status}, "status", purpose=why)


def is_other(one: ReservedClaim, claim: ResourceClaim) -> bool:
    """Return whether the API shows another allocation than the one that was promised."""
    if one.document is None or claim.allocation is None:
        return False
    if not one.shared or one.allocation is None:
        return True
    return list(map(_comparable, claim.allocation.devices)) != list(map(_comparable, one.allocation.devices))


def _comparable(device: AllocatedDevice) -> tuple[AllocatedDevice, dict[str, int]]:
    """Return a device with its amounts as numbers: they may come back in another notation, 0.5Ki as 512."""
    amounts = {name: amount.nano for name, amount in (device.consumed or {}).items()}
    return replace(device, consumed=None), amounts


def _is_reserved(one: ReservedClaim, reservation: Reservation, pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether the API shows the claim as reserved for whom it is to be."""
    group = reservation.claiming
    return pod.uid in claim.reserved_for or (one.of_group and group is not None and group.uid in claim.reserved_for)


def _consumers(
    one: ReservedClaim, reservation: Reservation, pod: Pod, devices: Devices, there: Collection[str]
) -> Iterator[dict[str, Any]]:
    """The entries to add to `reservedFor`: the group, if the claim is one of its own; else the pods that share it."""
    if one.of_group and reservation.claiming is not None:
        yield _group_consumer(reservation.claiming)
        return
    yield _pod_consumer(pod.uid, pod.name)
    if reservation.group is None or not one.shared:
        return
    room = MOST_USERS - len(there) - 1
    for uid, user in devices.users.of(one.uid, reservation.group):
        if uid != pod.uid and uid not in there and room > 0:
            room -= 1
            yield _pod_consumer(uid, user.name)


def _group_consumer(group: PodGroup) -> dict[str, Any]:
    """The group in `reservedFor`."""
    return {"apiGroup": NATIVE, "resource": "podgroups", "name": group.name, "uid": group.uid}


def _pod_consumer(uid: str, name: str) -> dict[str, Any]:
    return {"resource": "pods", "name": name, "uid": uid}


def _note_written(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> None:
    for one in reservation.claims:
        version = assumed.written.get(one.object_key)
        if one.allocation is not None and version is not None and one.over is not None:
            devices.written(one.uid, version)
            one.is_written = True


def _part(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> None:
    """End the pod's part in writing its claims: they are written, or it does not need them any more."""
    for one in reservation.claims:
        version, claim = assumed.written.get(one.object_key), devices.claims.get(one.key)
        if version is not None and claim is not None and claim.uid == one.uid:  # else nothing would forget it
            devices.users.moved_on.add(one.uid)
        reserved = version is not None and one.over is not None and _latest(one.over, version) != one.over
        if devices.late_bindings and reserved and not one.found:
            devices.reserved_here.update((one.key, uid) for uid in one.asked_for)
        if one.shared:
            if version is not None:
                devices.note_written(one.key, one.uid, version)
            devices.users.remove(one.uid, one.key, assumed.pod.uid)


def _pod_status(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
    pod = assumed.pod
    for one in reservation.claims:
        if one.extended is not None:
            mappings = [
                {"containerName": served.container, "resourceName": served.resource, "requestName": served.request}
                for served in one.extended.mappings
            ]
            said = {"resourceClaimName": one.key[1], "requestMappings": mappings}
            change = {"status": {"extendedResourceClaimStatus": said}}
            yield Patch(("Pod", pod.namespace, pod.name), pod.uid, "", change, "status")


def _pause(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Wait until the watch shows the written claims, and then for `PAUSE_SECONDS`. None: the pod may be bound.

    It is needed only in pools where another scheduler is active: that one may have given the same device to another
    claim, and the API server refuses neither write. Once the watch shows what was written here, it has shown all that
    was written before. What another scheduler decided before it saw our write comes a moment later.
    Conflicts that come later than that are found by `Devices.take_conflicts`.
    """
    given = [one for one in reservation.claims if one.allocation is not None]
    pools = {device.id.pool_id for one in given if one.allocation for device in held(one.allocation.devices)}
    if not given or not devices.rivals.near(pools, devices.wall):
        return None
    unseen = frozenset(one.object_key for one in given if devices.is_unseen(one.uid))
    if unseen:
        return Wait(seconds, on=unseen, expired="the watch does not show what claims were given")
    if reservation.paused:
        return None
    if not assumed.expired:
        on: frozenset[ObjectKey] = frozenset(one.object_key for one in given)
        return Wait(PAUSE_SECONDS, on=on, pause=True)
    reservation.paused, assumed.expired = True, False
    return None


def _wait_for_devices(reservation: Reservation, assumed: AssumedPod, devices: Devices, seconds: float) -> Wait | None:
    """Wait until the devices have met their binding conditions: as long as they have since they were allocated."""
    wanted: set[ObjectKey] = set()
    left = seconds
    for one in reservation.claims:
        claim = devices.claim(one.key)
        allocation = one.allocation if claim is None or claim.allocation is None else claim.allocation
        if allocation is None or not allocation.binds_later:
            continue
        if claim is None and one.extended is None:
            raise ReservationError(f'could not find ResourceClaim "{one.key[0]}/{one.key[1]}"')
        state = None if claim is None else readiness(claim)
        if state is not None and state.failed:
            raise ReservationError(state.failed)
        if state is None or not state.ready:
            wanted.add(one.object_key)
            late = None if claim is None else late_at(claim, seconds)
            left = left if late is None else min(left, max(late - devices.wall, 0.0))
    if not wanted:
        return None
    name = sorted(wanted)[0][2]
    event = None
    if not reservation.announced:
        reservation.announced = True
        event = (PENDING, f"waiting for binding conditions for device on node {assumed.node}")
    return Wait(left, on=frozenset(wanted), expired=f"device binding timeout: claim={name}", event=event)


def moved_on(claim: ResourceClaim) -> Patch:
    """Another version of a claim, so that what an earlier leader has sent over this one is refused.

    If it is reserved already, that may be a write that takes the pod out of it.
    """
    return Patch(
        (CLAIM, *claim.key),
        claim.uid,
        claim.resource_version,
        {"metadata": {"annotations": {RESERVED_OVER: claim.resource_version}}},
    )


def overtaken(claims: Iterable[ResourceClaim], devices: Devices) -> Iterator[Patch]:
    """Another version of the claims that get no devices now, though somebody was about to give them some.

    They have our finalizer, which is written first. An earlier leader may have sent an allocation over the version of
    now, and the device may be given to another claim before that arrives. So may we: if the API server refused it, and
    the claim has not changed, nothing would ever tell that it has nothing.
    """
    users = devices.users
    for claim in [devices.claims.get(one.key, one) for one in claims]:
        if claim.allocation is not None or FINALIZER not in claim.finalizers:
            continue
        if claim.uid in devices.in_flight:
            if devices.is_doubted(claim.uid):
                yield moved_on(claim)
        elif claim.uid not in users.overtaken:
            users.overtaken.add(claim.uid)
            yield moved_on(claim)


def may_be_used(claim: ResourceClaim, pod: Pod, devices: Devices) -> bool:
    """Return whether an earlier leader may have reserved this claim, and have bound a pod by it that seems to wait.

    Nothing is freed then. The pod is tried again once that leader's Bindings are known (`Devices.late_bindings`).
    """
    if not devices.late_bindings or all((claim.key, uid) in devices.reserved_here for uid in claim.reserved_for):
        return False
    devices.kept_for.add(pod.uid)
    return True


def freed(claim: ResourceClaim) -> Patch:
    """Take back what a claim was given."""
    return Patch((CLAIM, *claim.key), claim.uid, claim.resource_version, {"status": NOTHING}, "status")


def removed(claim: ResourceClaim) -> Iterator[Write]:
    """Delete a claim, which our finalizer must not hold up."""
    if FINALIZER in claim.finalizers:
        left = [one for one in claim.finalizers if one != FINALIZER]
        yield Patch((CLAIM, *claim.key), claim.uid, claim.resource_version, {"metadata": {"finalizers": left}})
    yield Delete((CLAIM, *claim.key), claim.uid)


def _there(one: ReservedClaim, devices: Devices) -> ResourceClaim:
    claim = devices.claims.get(one.key)
    if claim is None or claim.uid != one.uid:
        raise ReservationError(f'could not find ResourceClaim "{one.key[0]}/{one.key[1]}"')
    if claim.terminating:
        raise ReservationError(f"claim {claim} got deleted in the meantime")
    return claim


def give_back(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> tuple[Write, ...]:
    """Free the devices, except those whose allocation is written, or may be. Returns what is to be written.

    What was written stays allocated, and the next attempt goes where the devices are; if that is impossible,
    PostFilter frees it. A claim that was made for the pod is deleted.
    """
    _part(reservation, assumed, devices)
    writes: list[Write] = [] if reservation.lost else list(_out_of_reserved_for(reservation, assumed, devices))
    for one in reservation.claims:
        if one.allocation is None or one.is_written:
            continue
        over, version = one.over, assumed.written.get(one.object_key)
        if over is None:
            if not devices.is_unsettled(one.uid):  # else another pod of the group has written it, or may have
                devices.restore(one.uid)
        elif version is not None and _latest(over, version) != over:
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
    """Write a claim once more that nobody needs any more: the watch then shows that it has nothing."""
    claim = devices.claims.get(one.key)
    if claim is not None and assumed.leaves and devices.is_refused(one.uid) and not devices.users.uids(one.uid):
        yield moved_on(claim)


def _out_of_reserved_for(reservation: Reservation, assumed: AssumedPod, devices: Devices) -> Iterator[Write]:
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
        if (there and assumed.refused != _CONFLICT) or _may_be_reserved(one, assumed, devices):
            change = {"status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}
            version = _latest("" if claim is None else claim.resource_version, assumed.written.get(one.object_key))
            yield Patch(one.object_key, one.uid, version, change, "status", strategic=True)


def _may_be_reserved(one: ReservedClaim, assumed: AssumedPod, devices: Devices) -> bool:
    """Return whether the API has stored that the claim is reserved for the pod, or may be told so by another one."""
    if one.joined and devices.is_unsettled(one.uid):
        return True
    written = assumed.written.get(one.object_key)
    return one.is_written or (one.over is not None and _latest(one.over, written) != one.over)
