"""Resource claims, slices, classes and taint rules, and which devices are allocated, or about to be.

What a claim is about to be given counts from the decision until the watch shows that it is written. Mirrors
kube-scheduler `plugins/dynamicresources/dra_manager.go` (claimTracker) and `allocateddevices.go`, and, for the
resources that classes stand for, `dynamic-resource-allocation/deviceclass/extendedresourcecache`.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from podberth.cache.kept_results import FEW, ChangeLog
from podberth.model.devices import (
    CLAIM,
    FINALIZER,
    AllocatedDevice,
    Allocation,
    ClaimKey,
    DeviceClass,
    DeviceID,
    DeviceKind,
    DeviceTaintRule,
    PoolID,
    ResourceClaim,
    ResourceSlice,
)
from podberth.model.pod_group import GroupKey
from podberth.model.resources import IMPLICIT_PREFIX

POOL_SECONDS = 300.0
"""Seconds for which another scheduler counts as active in a pool after it gave a device of it."""
POD_SECONDS = 30.0
"""Seconds for which another scheduler counts as active in all pools after a waiting pod of its own with claims was
seen.
"""
_MANY = 256


class Rivals:
    """The other schedulers that give devices as well: where they were seen, and how long ago.

    Times are in seconds since the epoch; if not known (0), what was seen counts forever.
    """

    def __init__(self) -> None:
        self._pools: dict[PoolID, float] = {}
        self._pod: float | None = None

    def gave(self, pools: Collection[PoolID], wall: float) -> None:
        """Note that another scheduler has given devices of these pools."""
        if len(self._pools) >= _MANY:
            self._pools = {pool: at for pool, at in self._pools.items() if wall - at < POOL_SECONDS}
        self._pools.update(dict.fromkeys(pools, wall))

    def has_pod(self, wall: float) -> None:
        """Note that another scheduler has a waiting pod that claims devices."""
        self._pod = wall

    def near(self, pools: Collection[PoolID], wall: float) -> bool:
        """Return whether another scheduler may be about to give a device of one of these pools."""
        if self._pod is not None and wall - self._pod < POD_SECONDS:
            return True
        seen = (self._pools.get(pool) for pool in pools)
        return any(at is not None and wall - at < POOL_SECONDS for at in seen)


MOST_USERS = 256
"""The number of pods for which a claim may be reserved (ResourceClaimReservedForMaxSize)."""


class ClaimUser(NamedTuple):
    """A pod of a group that is about to use a claim."""

    name: str
    group: GroupKey


class ClaimUsers:
    """Pods of groups that are about to use a claim, from Reserve until the writes that they need are done or undone.

    Pods of one group may share a claim before it is allocated: what one of them was promised is promised to all of
    them. One of them writes it, and the others wait for that. Upstream counts such pods in `dra_manager.go`
    (inFlightAllocation.sharers), and lets all of them write: all but the first fail.
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[str, ClaimUser]] = {}
        self._writers: dict[str, str] = {}
        """UID of a claim → UID of the pod for which it is being written."""
        self.unseen: dict[str, str] = {}
        """UID of a claim → the version with which it was written for a user, and that the watch does not show yet."""
        self.taking_out: dict[str, int] = {}
        """UID of a pod → how many writes are under way that take it out of its claims."""
        self.moved_on: set[str] = set()
        """UIDs of claims that this process has written, with no write under way over their version whose answer it does
        not wait for. What was sent over an older version is refused, so that takes no pod out of them any more.
        """
        self.overtaken: set[str] = set()
        """UIDs of claims without devices that this process has written, so that no allocation arrives any more that an
        earlier leader has sent."""
        self.released: list[ClaimKey] = []
        """Claims whose writer is done: the pods that waited for that may go on."""

    def __len__(self) -> int:
        return len(self._users)

    def of(self, claim: str, group: GroupKey) -> Iterator[tuple[str, ClaimUser]]:
        """Return (UID, pod) of the users of one group, in the order in which they came."""
        return ((uid, user) for uid, user in self._users.get(claim, _NOBODY).items() if user.group == group)

    def uids(self, claim: str) -> set[str]:
        """Return the UIDs of the pods that are about to use the claim."""
        return set(self._users.get(claim, _NOBODY))

    def add(self, claim: str, pod: str, user: ClaimUser) -> None:
        """Note that a pod is about to use the claim."""
        self._users.setdefault(claim, {})[pod] = user

    def remove(self, claim: str, key: ClaimKey, pod: str) -> None:
        """Note that a pod has what it needs of the claim, or does not need it any more."""
        users = self._users.get(claim)
        if users is not None and users.pop(pod, None) is not None and not users:
            del self._users[claim]
        if self._writers.get(claim) == pod:
            del self._writers[claim]
            self.released.append(key)

    def writer(self, claim: str) -> str:
        """Return the UID of the pod for which the claim is being written; empty: none."""
        return self._writers.get(claim, "")

    def write(self, claim: str, pod: str) -> None:
        """Note that the claim is about to be written for this pod."""
        self._writers[claim] = pod

    def forget(self, claim: str) -> None:
        """Forget a claim that is gone."""
        self.unseen.pop(claim, None)
        self.moved_on.discard(claim)
        self.overtaken.discard(claim)

    def take_released(self) -> list[ClaimKey]:
        """Return the claims whose writer is done, each once, and clear the list."""
        found, self.released = self.released, []
        return list(dict.fromkeys(found))


_NOBODY: dict[str, ClaimUser] = {}


NOTHING_USED: Mapping[str, int] = {}


class AllocatedDevices:
    """The allocated devices by the UIDs of the claims that hold them, and the capacity that each takes of them.

    Each claim's part is kept apart: a claim that is freed, replaced or seen twice takes nothing away from another one.
    """

    def __init__(self) -> None:
        self._of_claim: dict[str, Allocation] = {}
        self._exclusive: dict[DeviceID, dict[str, None]] = {}
        self._shares: dict[DeviceID, dict[str, int]] = {}
        """Device → claim → how many shares."""
        self._used: dict[DeviceID, dict[str, int]] = {}
        """Device → capacity → nano-units that shares have taken."""
        self._held: Counter[PoolID] = Counter()
        """Pool → how many devices, or shares of some, are taken; without pools of which nothing is."""
        self._changes = 0
        self.by_pool: dict[PoolID, int] = {}
        """Pool of which something is taken → a number that is another one after each change."""
        self.log: ChangeLog[DeviceID] = ChangeLog(kept=FEW)
        """Devices of which something was taken or given back."""

    def __len__(self) -> int:
        return len(self._of_claim)

    def of_claim(self, uid: str) -> Allocation | None:
        """Return the allocation that is counted for a claim."""
        return self._of_claim.get(uid)

    @property
    def claims(self) -> Mapping[str, Allocation]:
        """UID → what is counted for the claim."""
        return self._of_claim

    def is_taken(self, device: DeviceID) -> bool:
        """Return whether a claim has the device for itself."""
        return device in self._exclusive

    def is_shared(self, device: DeviceID) -> bool:
        """Return whether a claim has a share of the device."""
        return device in self._shares

    def is_allocated(self, device: DeviceID) -> bool:
        """Return whether a claim has the device for itself, or a share of it."""
        return device in self._exclusive or device in self._shares

    def used(self, device: DeviceID) -> Mapping[str, int]:
        """Return capacity → nano-units that shares have taken of a device."""
        return self._used.get(device, NOTHING_USED)

    def claims_holding(self, device: DeviceID) -> list[str]:
        """Return the UIDs of the claims that have the device, or a share of it."""
        return [*self._exclusive.get(device, ()), *self._shares.get(device, ())]

    def put(self, uid: str, allocation: Allocation | None) -> set[PoolID]:
        """Replace what is counted for a claim; return the pools in which that is a change."""
        before = self._of_claim.get(uid)
        if before is None and allocation is None:
            return set()
        if before is not None and allocation is not None and before.devices == allocation.devices:
            self._of_claim[uid] = allocation
            return set()
        touched = set()
        if before is not None:
            touched |= self._count(uid, before, -1)
            del self._of_claim[uid]
        if allocation is not None:
            touched |= self._count(uid, allocation, 1)
            self._of_claim[uid] = allocation
        for pool in touched:
            if self._held[pool]:
                self._changes += 1
                self.by_pool[pool] = self._changes
            else:
                del self._held[pool]
                self.by_pool.pop(pool, None)
        return touched

    def hand_over(self, uid: str, to: str) -> None:
        """Count for another claim, which had nothing, what is counted for one: no change for anybody else."""
        allocation = self._of_claim.pop(uid, None)
        if allocation is None:
            return
        self._of_claim[to] = allocation
        for device in held(allocation.devices):
            claims: dict[str, Any] = (self._exclusive if device.share is None else self._shares)[device.id]
            if uid in claims:  # else it was a second share of the same device
                claims[to] = claims.pop(uid)

    def _count(self, uid: str, allocation: Allocation, sign: int) -> set[PoolID]:
        touched = set()
        for device in allocation.devices:
            pool = device.id.pool_id
            touched.add(pool)
            if device.admin_access:
                continue  # nothing is taken from others, but who waits for the claim has to hear of it
            self._held[pool] += sign
            self.log.touch(device.id)
            if device.share is not None:
                self._share(uid, device, sign)
            elif sign > 0:
                self._exclusive.setdefault(device.id, {})[uid] = None
            elif device.id in self._exclusive:
                claims = self._exclusive[device.id]
                claims.pop(uid, None)
                if not claims:
                    del self._exclusive[device.id]
        return touched

    def _share(self, uid: str, device: AllocatedDevice, sign: int) -> None:
        claims = self._shares.setdefault(device.id, {})
        claims[uid] = claims.get(uid, 0) + sign
        if not claims[uid]:
            del claims[uid]
        used = self._used.setdefault(device.id, {})
        for name, amount in (device.consumed or {}).items():
            used[name] = used.get(name, 0) + sign * amount.nano
            if not used[name]:
                del used[name]
        if not claims:
            del self._shares[device.id]
        if not used:
            del self._used[device.id]


def held(devices: Iterable[AllocatedDevice]) -> Iterator[AllocatedDevice]:
    """Return the devices that a claim holds: with admin access, a claim takes nothing from others
    (foreachAllocatedDevice).
    """
    return (device for device in devices if not device.admin_access)


class InFlight(NamedTuple):
    """An allocation that the API does not show yet. Of a claim that is to be made for a pod, `key` is None."""

    allocation: Allocation
    key: ClaimKey | None
    version: str | None = None
    """The resourceVersion with which it was written; None: it was not, as far as is known."""
    doubt: str | None = None
    """The version of the claim over which the allocation may have been written, although its pod went elsewhere; None:
    no such doubt.
    """
    pod: str = ""
    """UID of the pod for which it is given."""
    group: GroupKey | None = None
    """Other pods of this group may use it before it is written."""
    document: Any = None
    """The allocation as it will be written, whichever of them writes it."""

    def is_over(self, version: str) -> bool:
        """Return whether this is over when the API shows the claim with this version and without an allocation."""
        if self.version is not None:
            return not older(version, self.version)
        return self.doubt is not None and older(self.doubt, version)


class Change(NamedTuple):
    """A change in a pool: of its allocations, or, if `rebuilt`, of its slices. Without a pool, everything changed."""

    pool: PoolID | None
    rebuilt: bool
    left: str = ""
    """The node of a slice that went, or that names another one now."""


EVERYTHING = Change(None, True)


def older(one: str, other: str, *, unknown: bool = False) -> bool:
    """Return whether a resourceVersion is older than another one; `unknown` if they can't be compared."""
    return int(one) < int(other) if one.isdigit() and other.isdigit() else unknown


_NONE: Mapping[str, ResourceSlice] = {}


class Conflict(NamedTuple):
    """A device that several claims have, each for itself."""

    device: DeviceID
    claims: tuple[str, ...]
    """The UIDs of these claims."""


class Devices:
    """Resource claims, slices, device classes and taint rules, with indexes, and who has which device."""

    def __init__(self) -> None:
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.allocated = AllocatedDevices()
        self.in_flight: dict[str, InFlight] = {}
        """UID of a claim → what it is about to be given."""
        self.users = ClaimUsers()
        """Pods of groups that are about to use claims."""
        self.log: ChangeLog[Change] = ChangeLog(kept=FEW)
        self._to_be_made: dict[ClaimKey, str] = {}
        """Claims that are being made, with the numbers under which what they get is assumed."""
        self._unanswered: dict[str, list[str]] = {}
        """UID of a pod → claims for which something was being written when it went."""
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.scored = False
        """True if plugins score nodes by the devices that are left: then kept scores have to follow each change."""
        self.rivals = Rivals()
        """Other schedulers that give devices as well."""
        self.taken_over = False
        """Another process has led before, and the watch of claims has shown no write of ours yet. It may stand still,
        and not have shown which devices that process gave."""
        self.uncompared = False
        """Another process has led before, and what is known of claims is being compared with a list of them."""
        self.late_bindings = False
        """Bindings that another process has sent may still arrive, or did and the watch has not shown it yet. So a
        pod for which a claim is reserved may have a node."""
        self.kept_for: set[str] = set()
        """UIDs of pods for which a claim was not freed because of `late_bindings`."""
        self.reserved_here: set[tuple[ClaimKey, str]] = set()
        """Claims that this process has reserved, each with the UID of the pod, or of the group, for which it did so, as
        long as there are `late_bindings`."""
        self.salt = ""
        """A text that makes the names that this process gives to claims differ from those of others."""
        self.names_given = 0
        self.begun: dict[ClaimKey, None] = {}
        """Claims that have our finalizer, which is written first, but no devices: a process may be allocating some."""
        self.wall = 0.0
        """Seconds since the epoch at the last stimulus, to compare with times in objects; 0: not known."""
        self._conflicts: list[Conflict] = []
        self._pools: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._on_node: dict[str, dict[str, ResourceSlice]] = {}
        self._shared: dict[str, ResourceSlice] = {}
        self._by_resource: dict[str, dict[str, DeviceClass]] = {}
        self.served: set[str] = set()
        """The extended resources that classes stand for."""
        self._made: dict[tuple[str, str], dict[ClaimKey, None]] = {}
        """(name, UID) of a pod → claims that were made for its extended resources."""
        self.class_changes = 0
        """The number of times that a class came, changed or went."""
        self.resource_changes = 0
        """The number of times that another class came to stand for some resource."""

    def slices_on(self, node: str) -> Iterable[ResourceSlice]:
        """Return the slices that name the node."""
        return self._on_node.get(node, _NONE).values()

    @property
    def shared_slices(self) -> Iterable[ResourceSlice]:
        """Return the slices that name no node, and may be reached from several."""
        return self._shared.values()

    def slices_of(self, pool: PoolID) -> Mapping[str, ResourceSlice]:
        """Return all slices of a pool, of all generations."""
        return self._pools.get(pool, _NONE)

    def class_of(self, resource: str) -> DeviceClass | None:
        """Return the newest class whose devices serve requests for an extended resource."""
        if resource.startswith(IMPLICIT_PREFIX):
            return self.classes.get(resource.removeprefix(IMPLICIT_PREFIX))
        found = self._by_resource.get(resource)
        if not found:
            return None
        newest = max(one.created for one in found.values())
        return found[min(name for name, one in found.items() if one.created == newest)]

    def made_for(self, name: str, uid: str) -> ResourceClaim | None:
        """Return the claim that was made for a pod's extended resources."""
        keys = self._made.get((name, uid))
        return self.claims[next(iter(keys))] if keys else None

    def made_beside(self, key: ClaimKey, name: str, uid: str) -> ResourceClaim | None:
        """Return a claim other than `key` that was made for a pod's extended resources."""
        return next((self.claims[one] for one in self._made.get((name, uid), ()) if one != key), None)

    def put(self, thing: DeviceKind) -> DeviceKind | None:
        """Add or update an object; returns what was there before."""
        match thing:
            case ResourceClaim():
                return self._put_claim(thing)
            case ResourceSlice():
                before = self._drop_slice(thing.name)
                self._put_slice(thing)
                return before
            case DeviceClass():
                return self._put_class(thing)
            case DeviceTaintRule():
                rule = self.rules.get(thing.name)
                self.rules[thing.name] = thing
                self.log.touch(EVERYTHING)
                return rule

    def drop(self, kind: str, namespace: str, name: str) -> DeviceKind | None:
        """Remove an object; returns what was there."""
        match kind:
            case "ResourceClaim":
                return self._drop_claim((namespace, name))
            case "ResourceSlice":
                return self._drop_slice(name)
            case "DeviceClass":
                gone = self.classes.pop(name, None)
                if gone is not None:
                    self._class_changed(gone, None)
                return gone
        rule = self.rules.pop(name, None)
        if rule is not None:
            self.log.touch(EVERYTHING)
        return rule

    def pods_of(self, uid: str) -> set[str]:
        """Return the UIDs of the pods that a claim is reserved for, or is being allocated for."""
        found = {pod for claim in self.claims.values() if claim.uid == uid for pod in claim.reserved_for}
        found |= self.users.uids(uid)
        flight = self.in_flight.get(uid)
        return found if flight is None or not flight.pod else found | {flight.pod}

    def name_of(self, uid: str) -> str:
        """Return the namespace and name of a claim, else its UID."""
        return next((str(claim) for claim in self.claims.values() if claim.uid == uid), uid)

    def rival_of(self, uid: str, allocation: Allocation) -> tuple[DeviceID, str] | None:
        """Return a device that a claim is given for itself while another claim has it as well, and the UID of that
        claim.
        """
        for device in held(allocation.devices):
            if device.share is None:
                for other in self.allocated.claims_holding(device.id):
                    if other != uid:
                        return device.id, other
        return None

    def take_conflicts(self) -> list[Conflict]:
        """Return the devices that turned out to be given twice, and clear the list."""
        found, self._conflicts = self._conflicts, []
        return found

    # -- objects -----------------------------------------------------------------------------------------------------

    def _put_claim(self, claim: ResourceClaim) -> ResourceClaim | None:
        before = self.claims.get(claim.key)
        if before is not None and before.uid == claim.uid and older(claim.resource_version, before.resource_version):
            return before  # what it says has been overtaken
        self.claims[claim.key] = claim
        if claim.allocation is None and FINALIZER in claim.finalizers:
            self.begun[claim.key] = None
        else:
            self.begun.pop(claim.key, None)
        if self.users.unseen:
            self._note_shown(claim)
        self._note_rivals(claim, before)
        if before is not None:
            self._unmake(before)
            if before.uid != claim.uid:
                self._let_go(before.uid)
                self.users.forget(before.uid)
        if claim.owner is not None:
            self._made.setdefault(claim.owner, {})[claim.key] = None
        if claim.allocation is not None:
            made = self._hand_over(claim)
            self.in_flight.pop(claim.uid, None)
            touched = self.allocated.put(claim.uid, claim.allocation)
            self._touch(touched)
            if touched or made:
                self._note_conflicts(claim.allocation)
        else:
            flight = self.in_flight.get(claim.uid)
            if flight is None or flight.is_over(claim.resource_version):
                if flight is not None and flight.version is None and self._is_promised(claim.uid):
                    self.restore(claim.uid)  # it was not written, and other pods of the group may write it
                else:
                    self._let_go(claim.uid)
            number = self._to_be_made.get(claim.key)
            if number is not None and self.in_flight[number].is_over(claim.resource_version):
                self._let_go(number)
        return before

    def _note_rivals(self, claim: ResourceClaim, before: ResourceClaim | None) -> None:
        """Note the pools of which another scheduler gave a claim something."""
        ours = claim.uid in self.in_flight or claim.key in self._to_be_made
        if claim.allocation is not None and not ours and before is not None and before.allocation is None:
            pools = {one.id.pool_id for one in held(claim.allocation.devices)}
            self.rivals.gave(pools, self.wall)

    def _note_conflicts(self, allocation: Allocation) -> None:
        for device in held(allocation.devices):
            holders = () if device.share is not None else self.allocated.claims_holding(device.id)
            if len(holders) > 1:
                self._conflicts.append(Conflict(device.id, tuple(holders)))

    def _drop_claim(self, key: ClaimKey) -> ResourceClaim | None:
        claim = self.claims.pop(key, None)
        self.begun.pop(key, None)
        if key in self._to_be_made:
            self._let_go(self._to_be_made.pop(key))
        if claim is not None:
            self._unmake(claim)
            self._let_go(claim.uid)
            self.users.forget(claim.uid)
        return claim

    def _unmake(self, claim: ResourceClaim) -> None:
        if claim.owner is not None:
            keys = self._made[claim.owner]
            del keys[claim.key]
            if not keys:
                del self._made[claim.owner]

    def _put_slice(self, thing: ResourceSlice) -> None:
        self.slices[thing.name] = thing
        self._pools.setdefault(thing.pool_id, {})[thing.name] = thing
        if thing.access.node_name:
            self._on_node.setdefault(thing.access.node_name, {})[thing.name] = thing
        else:
            self._shared[thing.name] = thing
        self.log.touch(Change(thing.pool_id, True))

    def _drop_slice(self, name: str) -> ResourceSlice | None:
        gone = self.slices.pop(name, None)
        if gone is None:
            return None
        _take(self._pools, gone.pool_id, name)
        if gone.access.node_name:
            _take(self._on_node, gone.access.node_name, name)
        else:
            del self._shared[name]
        self.log.touch(Change(gone.pool_id, True, gone.access.node_name))
        return gone

    def _put_class(self, thing: DeviceClass) -> DeviceClass | None:
        before = self.classes.get(thing.name)
        self.classes[thing.name] = thing
        self._class_changed(before, thing)
        return before

    def _class_changed(self, before: DeviceClass | None, after: DeviceClass | None) -> None:
        if before is not None and before.extended_resource is not None:
            _take(self._by_resource, before.extended_resource, before.name)
        if after is not None and after.extended_resource is not None:
            self._by_resource.setdefault(after.extended_resource, {})[after.name] = after
        was = None if before is None else before.extended_resource
        now = None if after is None else after.extended_resource
        if was != now or before is None or after is None:
            implicit = {f"{IMPLICIT_PREFIX}{name}" for name in self.classes}
            self.served.clear()
            self.served.update(self._by_resource, implicit)
            self.resource_changes += 1
        self.class_changes += 1
        self.log.touch(EVERYTHING)

    # -- what claims are about to be given ---------------------------------------------------------------------------

    def claim(self, key: ClaimKey, group: GroupKey | None = None) -> ResourceClaim | None:
        """Return a claim as the API has it, with its allocation as soon as that was written.

        For pods of the `group` for which it is allocated: as soon as it was decided.
        """
        found = self.claims.get(key)
        if found is None or found.uid not in self.in_flight or self.is_pending(found.uid, group):
            return found
        return replace(found, allocation=self.in_flight[found.uid].allocation)

    def is_pending(self, uid: str, group: GroupKey | None = None) -> bool:
        """Return whether a claim is about to be given something that is not written yet, and that `group` may not
        share.
        """
        flight = self.in_flight.get(uid)
        return flight is not None and flight.version is None and (group is None or flight.group != group)

    def promised_to(self, key: ClaimKey) -> InFlight | None:
        """Return the allocation that a claim is given and that the API does not show yet; also of a claim that is being
        made.
        """
        claim = self.claims.get(key)
        found = None if claim is None else self.in_flight.get(claim.uid)
        return found or self.in_flight.get(self._to_be_made.get(key, ""))

    def is_unseen(self, uid: str) -> bool:
        """Return whether a claim is given something that the API does not show yet."""
        return uid in self.in_flight

    def unshown(self) -> dict[ClaimKey, str]:
        """Return the claims that were written for a pod, or may be, but are not shown so, with the versions that were
        written.
        """
        flights = ((one.key, one.version or one.doubt) for one in self.in_flight.values())
        return {key: version for key, version in flights if key is not None and version is not None}

    def assume(
        self,
        uid: str,
        allocation: Allocation,
        key: ClaimKey | None,
        pod: str = "",
        group: GroupKey | None = None,
        document: Any = None,
    ) -> None:
        """Count an allocation for a claim before it is written, for a pod of this UID. Only pods of `group` may share
        it.
        """
        self.in_flight[uid] = InFlight(allocation, key, pod=pod, group=group, document=document)
        self._touch(self.allocated.put(uid, allocation))

    def restore(self, uid: str) -> None:
        """Drop the assumed allocation of a claim: what the API says of it counts again.

        Unless other pods of the group were promised the same: then one of them may write it.
        """
        flight = self.in_flight.get(uid)
        if flight is not None and flight.key is not None and self._is_promised(uid):
            self.in_flight[uid] = flight._replace(version=None, doubt=None)
            self.users.released.append(flight.key)
        else:
            self._restore(uid)

    def _restore(self, uid: str) -> None:
        flight = self.in_flight.pop(uid, None)
        if flight is not None:
            if flight.key is not None:
                self._to_be_made.pop(flight.key, None)
            claim = None if flight.key is None else self.claims.get(flight.key)
            of_claim = claim.allocation if claim is not None and claim.uid == uid else None
            self._touch(self.allocated.put(uid, of_claim))

    def is_unsettled(self, uid: str) -> bool:
        """Return whether the assumed allocation of a claim was written, or may be, and the watch does not show it
        yet.
        """
        flight = self.in_flight.get(uid)
        return flight is not None and (flight.version is not None or flight.doubt is not None)

    def is_doubted(self, uid: str) -> bool:
        """Return whether it is unknown if an assumed allocation was written that no pod needs any more."""
        flight = self.in_flight.get(uid)
        return flight is not None and flight.version is None and flight.doubt is not None

    def is_refused(self, uid: str) -> bool:
        """Return whether a write of an assumed allocation was refused (409) and no answer is due that tells why.

        Somebody has changed the claim, and its watch is about to tell; or nobody has, and then nothing ever tells.
        """
        if not self.is_doubted(uid) or uid in self.users.unseen:
            return False
        return not any(uid in claims for claims in self._unanswered.values())

    def may_be_written(self, uid: str) -> bool:
        """Return whether the watch shows everything that was written of a claim for pods of groups."""
        return uid not in self.users.unseen and not self.is_unsettled(uid)

    def note_written(self, key: ClaimKey, uid: str, version: str) -> None:
        """Note that a claim was written for pods of a group: others write it once the watch shows that."""
        claim = self.claims.get(key)
        if claim is not None and claim.uid == uid and older(claim.resource_version, version):
            self.users.unseen[uid] = version

    def take_out(self, pod: str) -> None:
        """Note that a pod is being taken out of its claims: until that is over, it can't count on being reserved in
        them.
        """
        self.users.taking_out[pod] = self.users.taking_out.get(pod, 0) + 1

    def taken_out(self, pod: str, written: Mapping[tuple[str, str, str], str]) -> None:
        """Note that a pod was taken out of its claims, by writing these objects with these versions."""
        left = self.users.taking_out.pop(pod, 1) - 1
        if left > 0:
            self.users.taking_out[pod] = left
        for (kind, *key), version in written.items():
            claim = self.claims.get((key[0], key[1])) if kind == CLAIM else None
            if claim is not None and version:
                self.note_written(claim.key, claim.uid, version)

    def not_written(self, claims: Iterable[str]) -> None:
        """Note that claims of these UIDs were not written after all, so an earlier leader's allocation may still
        arrive.
        """
        self.users.overtaken.difference_update(claims)

    def _is_promised(self, uid: str) -> bool:
        """Return whether pods of the group for which a claim is allocated still use it."""
        flight = self.in_flight.get(uid)
        return flight is not None and flight.group is not None and any(self.users.of(uid, flight.group))

    def written(self, uid: str, version: str) -> None:
        """Note that an assumed allocation was written: the claim holds it until the API shows a later version of the
        claim.
        """
        flight = self.in_flight.get(uid)
        if flight is not None:
            self.in_flight[uid] = flight._replace(version=version, doubt=None)
            claim = None if flight.key is None else self.claims.get(flight.key)
            if claim is not None and (claim.allocation or not older(claim.resource_version, version, unknown=True)):
                self._restore(uid)  # the watch was first

    def doubt(self, uid: str, version: str, pod: str = "") -> None:
        """Note that an allocation which no pod needs any more may have been written over this version of the claim.

        `pod`: UID of the pod for which an answer may still come; without one, the claim has changed, and its watch
        will tell. So it will of a claim that was being made: that is deleted.
        """
        flight = self.in_flight.get(uid)
        claim = None if flight is None or flight.key is None else self.claims.get(flight.key)
        if flight is None:
            return
        made = flight.key is not None and flight.key in self._to_be_made  # its UID is not known
        there = claim is not None and (made or claim.uid == uid)
        if not pod and (older(version, claim.resource_version) if claim is not None and there else not made):
            self.restore(uid)
            return
        self.in_flight[uid] = flight._replace(doubt=version)
        if pod:
            self._unanswered.setdefault(pod, []).append(uid)

    def answered(self, pod: str, written: Mapping[tuple[str, str, str], str]) -> None:
        """Settle the claims that were being written when a pod went, now that the answer tells which were `written`."""
        for uid in self._unanswered.pop(pod, ()):
            flight = self.in_flight.get(uid)
            if flight is None or flight.key is None:
                continue
            version = written.get((CLAIM, *flight.key))
            if version is None:
                self.restore(uid)
            else:
                self.written(uid, version)

    def name(self, uid: str, key: ClaimKey) -> None:
        """Note the key of a claim that is made for an allocation assumed under a number of its own."""
        flight = self.in_flight.get(uid)
        if flight is not None:
            self.in_flight[uid] = flight._replace(key=key)
            self._to_be_made[key] = uid

    def _hand_over(self, claim: ResourceClaim) -> bool:
        """Hand an allocation over to the claim that was made for it, as the API shows that now; return False if it is
        no such claim.
        """
        uid = self._to_be_made.pop(claim.key, None)
        if uid is None:
            return False
        if self.allocated.of_claim(claim.uid) is not None:
            self._let_go(uid)
        else:
            self.in_flight.pop(uid, None)
            self.allocated.hand_over(uid, claim.uid)
        return True

    def _note_shown(self, claim: ResourceClaim) -> None:
        version = self.users.unseen.get(claim.uid)
        if version is not None and not older(claim.resource_version, version):
            del self.users.unseen[claim.uid]

    def _let_go(self, uid: str) -> None:
        flight = self.in_flight.pop(uid, None)
        if flight is not None and flight.key is not None:
            self._to_be_made.pop(flight.key, None)
        self._touch(self.allocated.put(uid, None))

    def _touch(self, pools: Iterable[PoolID]) -> None:
        for pool in pools:
            self.log.touch(Change(pool, False))


def _take(index: dict, key: object, name: str) -> None:  # type: ignore[type-arg]
    """Remove an entry of an index of indexes."""
    found = index[key]
    del found[name]
    if not found:
        del index[key]


_AT_ONCE = 64
"""The number of claims that are copied in one go."""
_A_CLAIM = 6
"""Steps of copying a claim."""


class SupposedDevices(Devices):
    """Claims and devices for a dry run: with its reservations, and without what pods hold that leave in it.

    Slices, classes and taint rules are the original's. Nobody else looks at it. To be filled by `supposed`.
    """

    def __init__(self, devices: Devices) -> None:
        self.__dict__.update(devices.__dict__)
        self.claims, self.in_flight = dict(devices.claims), dict(devices.in_flight)
        self.allocated, self.users, self.log = AllocatedDevices(), ClaimUsers(), ChangeLog()
        self._to_be_made = dict(self._to_be_made)
        self._used_by: dict[str, list[ResourceClaim]] = {}
        """UID of a pod that may leave → the claims that are reserved for it."""
        self._left: set[str] = set()

    def may_leave(self, claim: ResourceClaim, pods: Collection[str]) -> None:
        """Note which of these pods (UIDs) use a claim."""
        for uid in claim.reserved_for if claim.allocation is not None else ():
            if uid in pods:
                self._used_by.setdefault(uid, []).append(claim)

    def leave(self, uid: str) -> None:
        """Let a pod leave. A claim that is reserved for no other pod then has no devices."""
        self._left.add(uid)
        for claim in self._used_by.get(uid, ()):
            if self._left.issuperset(claim.reserved_for):
                self.claims[claim.key] = replace(claim, allocation=None)
                self._touch(self.allocated.put(claim.uid, None))

    def come_back(self, uid: str) -> None:
        """Let a pod that had left come back."""
        self._left.discard(uid)
        for claim in self._used_by.get(uid, ()):
            self.claims[claim.key] = claim
            self._touch(self.allocated.put(claim.uid, claim.allocation))


def supposed(devices: Devices, leaving: Collection[str]) -> Generator[int, None, SupposedDevices]:
    """Return a copy in which the pods with these UIDs may leave; yields the steps that it took."""
    made = SupposedDevices(devices)
    allocated = iter(tuple(devices.allocated.claims.items()))
    while given := list(islice(allocated, _AT_ONCE)):
        for uid, allocation in given:
            made.allocated.put(uid, allocation)
        yield _A_CLAIM * len(given)
    claims = iter(tuple(made.claims.values()) if leaving else ())
    while some := list(islice(claims, _AT_ONCE)):
        for claim in some:
            made.may_leave(claim, leaving)
        yield len(some)
    return made
