"""Resource claims, slices, classes and taint rules, with indexes, and which devices are allocated or about to be.

Mirrors kube-scheduler `plugins/dynamicresources/dra_manager.go` and, for the resources that classes stand for,
`dynamic-resource-allocation/deviceclass/extendedresourcecache`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.model.devices import (
    IMPLICIT_PREFIX,
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
from scheduler.state.allocated_devices import AllocatedDevices, held
from scheduler.state.rivals import Rivals
from scheduler.state.rowlog import ChangeLog

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name)."""
_NONE: Mapping[str, ResourceSlice] = {}


class InFlight(NamedTuple):
    """What a claim is given, and the API does not show yet. Of one that is to be made for a pod, `key` is None."""

    allocation: Allocation
    key: ClaimKey | None
    version: str | None = None
    """The resourceVersion with which it was written; None: it was not, as far as is known."""
    doubt: str | None = None
    """The pod has gone elsewhere, and it may be written all the same: over this version, if it was."""
    pod: str = ""
    """UID of the pod for which it is given."""

    def is_over(self, version: str) -> bool:
        """Whether the claim has nothing, when the API shows it so with this version."""
        if self.version is not None:
            return not _older(version, self.version)
        return self.doubt is not None and _older(self.doubt, version)


class Conflict(NamedTuple):
    """A device that the API shows in two claims, each of which has it for itself."""

    device: DeviceID
    claims: tuple[str, ...]
    """UIDs."""


class Change(NamedTuple):
    """Something of a pool changed: what is allocated of it, or, `rebuilt`, its slices. No pool: all is another."""

    pool: PoolID | None
    rebuilt: bool


EVERYTHING = Change(None, True)


class Devices:
    """All of it."""

    def __init__(self) -> None:
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.allocated = AllocatedDevices()
        self.in_flight: dict[str, InFlight] = {}
        """UID of a claim → what it is about to be given."""
        self.scored = False
        """Nodes are scored by how many devices are left: who keeps scores has to hear of each change."""
        self.rivals = Rivals()
        """Other schedulers that give devices as well."""
        self.wall = 0.0
        """Seconds since the epoch at the last stimulus, for what objects say of the time; 0: nobody has said."""
        self._conflicts: list[Conflict] = []
        self.log: ChangeLog[Change] = ChangeLog()
        self._pools: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._on_node: dict[str, dict[str, ResourceSlice]] = {}
        self._shared: dict[str, ResourceSlice] = {}
        self._by_resource: dict[str, dict[str, DeviceClass]] = {}
        self.served: set[str] = set()
        """The extended resources that classes stand for."""
        self._to_be_made: dict[ClaimKey, str] = {}
        """Claims that are being made, with the numbers under which what they get is assumed."""
        self._unanswered: dict[str, list[str]] = {}
        """UID of a pod → claims for which something was being written when it went."""
        self._made: dict[tuple[str, str], dict[ClaimKey, None]] = {}
        """(name, UID) of a pod → claims that were made for its extended resources."""
        self.class_changes = 0
        """How often a class came, changed or went."""
        self.resource_changes = 0
        """How often the class that stands for some resource became another one."""

    def claim(self, key: ClaimKey) -> ResourceClaim | None:
        """A claim as the API has it; with its allocation as soon as that was written."""
        found = self.claims.get(key)
        if found is None or found.uid not in self.in_flight:
            return found
        flight = self.in_flight[found.uid]
        return found if flight.version is None else replace(found, allocation=flight.allocation)

    def is_pending(self, uid: str) -> bool:
        """Whether a claim is about to be given something that is not written yet."""
        flight = self.in_flight.get(uid)
        return flight is not None and flight.version is None

    def slices_on(self, node: str) -> Iterable[ResourceSlice]:
        """Slices that name the node."""
        return self._on_node.get(node, _NONE).values()

    @property
    def shared_slices(self) -> Iterable[ResourceSlice]:
        """Slices that name no node, and may be reached from several."""
        return self._shared.values()

    def slices_of(self, pool: PoolID) -> Mapping[str, ResourceSlice]:
        """All slices of a pool, of all generations."""
        return self._pools.get(pool, _NONE)

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class whose devices serve requests for an extended resource: of several, the newest."""
        if resource.startswith(IMPLICIT_PREFIX):
            return self.classes.get(resource.removeprefix(IMPLICIT_PREFIX))
        found = self._by_resource.get(resource)
        if not found:
            return None
        newest = max(one.created for one in found.values())
        return found[min(name for name, one in found.items() if one.created == newest)]

    def made_for(self, name: str, uid: str) -> ResourceClaim | None:
        """The claim that was made for a pod's extended resources."""
        keys = self._made.get((name, uid))
        return self.claims[next(iter(keys))] if keys else None

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

    def is_unseen(self, uid: str) -> bool:
        """Whether a claim is given something that the API did not show yet."""
        return uid in self.in_flight

    def pods_of(self, uid: str) -> set[str]:
        """UIDs of the pods that a claim is reserved for, or is being allocated for."""
        found = {pod for claim in self.claims.values() if claim.uid == uid for pod in claim.reserved_for}
        flight = self.in_flight.get(uid)
        return found if flight is None or not flight.pod else found | {flight.pod}

    def name_of(self, uid: str) -> str:
        """The namespace and name of a claim, else its UID."""
        return next((str(claim) for claim in self.claims.values() if claim.uid == uid), uid)

    def rival_of(self, uid: str, allocation: Allocation) -> tuple[DeviceID, str] | None:
        """A device that a claim is given for itself and another claim has as well, and the UID of that one."""
        for device in held(allocation.devices):
            if device.share is None:
                for other in self.allocated.claims_holding(device.id):
                    if other != uid:
                        return device.id, other
        return None

    def take_conflicts(self) -> list[Conflict]:
        """Devices that turned out to be given twice since this was last asked."""
        found, self._conflicts = self._conflicts, []
        return found

    def unshown(self) -> dict[ClaimKey, str]:
        """Claims that were written for a pod and that the watch does not show so, with the versions written."""
        flights = self.in_flight.values()
        return {one.key: one.version for one in flights if one.key is not None and one.version is not None}

    # -- what is about to be given -----------------------------------------------------------------------------------

    def assume(self, uid: str, allocation: Allocation, key: ClaimKey | None, pod: str = "") -> None:
        """A claim is about to be given this, for a pod of this UID: nobody else gets it."""
        self.in_flight[uid] = InFlight(allocation, key, pod=pod)
        self._touch(self.allocated.put(uid, allocation))

    def restore(self, uid: str) -> None:
        """It is not: what the API says of the claim counts again."""
        flight = self.in_flight.pop(uid, None)
        if flight is not None:
            if flight.key is not None:
                self._to_be_made.pop(flight.key, None)
            claim = None if flight.key is None else self.claims.get(flight.key)
            of_claim = claim.allocation if claim is not None and claim.uid == uid else None
            self._touch(self.allocated.put(uid, of_claim))

    def written(self, uid: str, version: str) -> None:
        """The API has it: the claim holds it until the API shows a later version of the claim."""
        flight = self.in_flight.get(uid)
        if flight is not None:
            self.in_flight[uid] = flight._replace(version=version)
            claim = None if flight.key is None else self.claims.get(flight.key)
            if claim is not None and (claim.allocation or not _older(claim.resource_version, version, unknown=True)):
                self.restore(uid)  # the watch was first

    def doubt(self, uid: str, version: str, pod: str = "") -> None:
        """Nobody needs it any more, but it may be written: over this version of the claim.

        `pod`: UID of the pod for which an answer may still come; without one, the claim has changed, and its watch
        will tell.
        """
        flight = self.in_flight.get(uid)
        claim = None if flight is None or flight.key is None else self.claims.get(flight.key)
        if flight is None:
            return
        if not pod and (claim is None or claim.uid != uid or _older(version, claim.resource_version)):
            self.restore(uid)
            return
        self.in_flight[uid] = flight._replace(doubt=version)
        if pod:
            self._unanswered.setdefault(pod, []).append(uid)

    def answered(self, pod: str, written: Mapping[ObjectKey, str]) -> None:
        """What was being written when a pod went has been written, as far as `written` says."""
        for uid in self._unanswered.pop(pod, ()):
            flight = self.in_flight.get(uid)
            if flight is None or flight.key is None:
                continue
            version = written.get(("ResourceClaim", *flight.key))
            if version is None:
                self.restore(uid)
            else:
                self.written(uid, version)

    def name(self, uid: str, key: ClaimKey) -> None:
        """A claim is made for what was assumed under a number of its own: it holds it once the API says so."""
        flight = self.in_flight.get(uid)
        if flight is not None:
            self.in_flight[uid] = flight._replace(key=key)
            self._to_be_made[key] = uid

    # -- objects -----------------------------------------------------------------------------------------------------

    def _put_claim(self, claim: ResourceClaim) -> ResourceClaim | None:
        before = self.claims.get(claim.key)
        if before is not None and before.uid == claim.uid and _older(claim.resource_version, before.resource_version):
            return before  # what it says has been overtaken
        self.claims[claim.key] = claim
        self._note_rivals(claim, before)
        if before is not None:
            self._unmake(before)
            if before.uid != claim.uid:
                self._let_go(before.uid)
        if claim.owner is not None:
            self._made.setdefault(claim.owner, {})[claim.key] = None
        if claim.allocation is not None and claim.key in self._to_be_made:
            self._let_go(self._to_be_made.pop(claim.key))
        if claim.allocation is not None:
            self.in_flight.pop(claim.uid, None)
            touched = self.allocated.put(claim.uid, claim.allocation)
            self._touch(touched)
            if touched:
                self._note_conflicts(claim.allocation)
        else:
            flight = self.in_flight.get(claim.uid)
            if flight is None or flight.is_over(claim.resource_version):
                self._let_go(claim.uid)
        return before

    def _note_rivals(self, claim: ResourceClaim, before: ResourceClaim | None) -> None:
        """A claim was given something, and not by us."""
        ours = claim.uid in self.in_flight or claim.key in self._to_be_made
        if claim.allocation is not None and not ours and before is not None and before.allocation is None:
            pools = {(one.id.driver, one.id.pool) for one in held(claim.allocation.devices)}
            self.rivals.gave(pools, self.wall)

    def _note_conflicts(self, allocation: Allocation) -> None:
        for device in held(allocation.devices):
            holders = () if device.share is not None else self.allocated.claims_holding(device.id)
            if len(holders) > 1:
                self._conflicts.append(Conflict(device.id, tuple(holders)))

    def _drop_claim(self, key: ClaimKey) -> ResourceClaim | None:
        claim = self.claims.pop(key, None)
        if key in self._to_be_made:
            self._let_go(self._to_be_made.pop(key))
        if claim is not None:
            self._unmake(claim)
            self._let_go(claim.uid)
        return claim

    def _let_go(self, uid: str) -> None:
        flight = self.in_flight.pop(uid, None)
        if flight is not None and flight.key is not None:
            self._to_be_made.pop(flight.key, None)
        self._touch(self.allocated.put(uid, None))

    def _unmake(self, claim: ResourceClaim) -> None:
        if claim.owner is not None:
            keys = self._made[claim.owner]
            del keys[claim.key]
            if not keys:
                del self._made[claim.owner]

    def _put_slice(self, thing: ResourceSlice) -> None:
        self.slices[thing.name] = thing
        self._pools.setdefault(thing.pool_id, {})[thing.name] = thing
        if thing.place.node:
            self._on_node.setdefault(thing.place.node, {})[thing.name] = thing
        else:
            self._shared[thing.name] = thing
        self.log.touch(Change(thing.pool_id, True))

    def _drop_slice(self, name: str) -> ResourceSlice | None:
        gone = self.slices.pop(name, None)
        if gone is None:
            return None
        _take(self._pools, gone.pool_id, name)
        if gone.place.node:
            _take(self._on_node, gone.place.node, name)
        else:
            del self._shared[name]
        self.log.touch(Change(gone.pool_id, True))
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

    def _touch(self, pools: Iterable[PoolID]) -> None:
        for pool in pools:
            self.log.touch(Change(pool, False))


def _take(index: dict, key: object, name: str) -> None:  # type: ignore[type-arg]
    """Remove an entry of an index of indexes."""
    found = index[key]
    del found[name]
    if not found:
        del index[key]


def _older(one: str, other: str, *, unknown: bool = False) -> bool:
    """Whether a resourceVersion is older than another one; `unknown`: if that can't be told."""
    return int(one) < int(other) if one.isdigit() and other.isdigit() else unknown
