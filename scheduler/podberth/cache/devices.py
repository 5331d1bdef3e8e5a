"""Resource claims, slices, classes and taint rules, with indexes, and which devices are allocated or about to be.

Mirrors kube-scheduler `plugins/dynamicresources/dra_manager.go` and, for the resources that classes stand for,
`dynamic-resource-allocation/deviceclass/extendedresourcecache`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from podberth.cache.allocated_devices import held
from podberth.cache.promised_devices import EVERYTHING, Change, PromisedDevices, older
from podberth.cache.rivals import Rivals
from podberth.model.devices import (
    FINALIZER,
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

_NONE: Mapping[str, ResourceSlice] = {}


class Conflict(NamedTuple):
    """A device that the API shows in two claims, each of which has it for itself."""

    device: DeviceID
    claims: tuple[str, ...]
    """UIDs."""


class Devices(PromisedDevices):
    """Resource claims, slices, device classes and taint rules, with indexes, and who has which device."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.scored = False
        """Nodes are scored by how many devices are left: who keeps scores has to hear of each change."""
        self.rivals = Rivals()
        """Other schedulers that give devices as well."""
        self.taken_over = False
        """Another process has led before, and the watch of claims has shown no write of ours yet. It may stand still,
        and not have shown which devices that process gave."""
        self.uncompared = False
        """Another process has led before, and what is known of claims is being compared with a list of them."""
        self.late_bindings = False
        """What another process has sent before may still bind pods, or did and the watch has not shown it yet. So a pod
        for which a claim is reserved may have a node."""
        self.kept_for: set[str] = set()
        """UIDs of pods for which a claim was not freed because of `late_bindings`."""
        self.reserved_here: set[tuple[ClaimKey, str]] = set()
        """Claims that this process has reserved, each with the UID of the pod, or of the group, for which it did so, as
        long as there are `late_bindings`."""
        self.salt = ""
        """Tells the names that this process gives to claims from those of others."""
        self.names_given = 0
        self.begun: dict[ClaimKey, None] = {}
        """Claims with our finalizer, which is written first, and without devices: somebody may be allocating some."""
        self.wall = 0.0
        """Seconds since the epoch at the last stimulus, for what objects say of the time; 0: nobody has said."""
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
        """How often a class came, changed or went."""
        self.resource_changes = 0
        """How often the class that stands for some resource became another one."""

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

    def made_beside(self, key: ClaimKey, name: str, uid: str) -> ResourceClaim | None:
        """Another claim that was made for a pod's extended resources."""
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
        """UIDs of the pods that a claim is reserved for, or is being allocated for."""
        found = {pod for claim in self.claims.values() if claim.uid == uid for pod in claim.reserved_for}
        found |= self.users.uids(uid)
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


def _take(index: dict, key: object, name: str) -> None:  # type: ignore[type-arg]
    """Remove an entry of an index of indexes."""
    found = index[key]
    del found[name]
    if not found:
        del index[key]
