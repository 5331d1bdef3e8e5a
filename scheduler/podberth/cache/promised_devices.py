"""What claims are about to be given: from the decision until the watch shows that it is written.

Mirrors kube-scheduler `plugins/dynamicresources/dra_manager.go` (claimTracker).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from podberth.cache.allocated_devices import AllocatedDevices
from podberth.cache.claim_users import ClaimUsers
from podberth.cache.kept_results import FEW, ChangeLog
from podberth.model.devices import CLAIM, Allocation, ClaimKey, PoolID, ResourceClaim
from podberth.model.pod_group import GroupKey

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name)."""


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
    group: GroupKey | None = None
    """Other pods of this group may use it before it is written."""
    document: Any = None
    """The allocation as it will be written, whichever of them writes it."""

    def is_over(self, version: str) -> bool:
        """Return whether the claim has nothing, when the API shows it so with this version."""
        if self.version is not None:
            return not older(version, self.version)
        return self.doubt is not None and older(self.doubt, version)


class Change(NamedTuple):
    """Something of a pool changed: what is allocated of it, or, `rebuilt`, its slices. No pool: all is another."""

    pool: PoolID | None
    rebuilt: bool


EVERYTHING = Change(None, True)


class PromisedDevices:
    """Claims, which devices they have, and which are promised to them."""

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

    def claim(self, key: ClaimKey, group: GroupKey | None = None) -> ResourceClaim | None:
        """A claim as the API has it; with its allocation as soon as that was written.

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
        """Return what a claim is given, also one that is being made, and the API did not show yet."""
        claim = self.claims.get(key)
        found = None if claim is None else self.in_flight.get(claim.uid)
        return found or self.in_flight.get(self._to_be_made.get(key, ""))

    def is_unseen(self, uid: str) -> bool:
        """Return whether a claim is given something that the API did not show yet."""
        return uid in self.in_flight

    def unshown(self) -> dict[ClaimKey, str]:
        """Claims that were written for a pod, or may be, and are not shown so, with the versions that were written."""
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
        """A claim is about to be given this, for a pod of this UID: nobody else gets it but pods of its `group`."""
        self.in_flight[uid] = InFlight(allocation, key, pod=pod, group=group, document=document)
        self._touch(self.allocated.put(uid, allocation))

    def restore(self, uid: str) -> None:
        """It is not: what the API says of the claim counts again.

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
        """Return whether what a claim is about to be given was written, or may be, and the watch
        does not show it yet.
        """
        flight = self.in_flight.get(uid)
        return flight is not None and (flight.version is not None or flight.doubt is not None)

    def is_doubted(self, uid: str) -> bool:
        """Return whether nobody knows if what a claim was about to be given was written, and nobody
        needs it any more.
        """
        flight = self.in_flight.get(uid)
        return flight is not None and flight.version is None and flight.doubt is not None

    def is_refused(self, uid: str) -> bool:
        """Return whether a write of what a claim was promised was refused (409), and nothing tells why.

        Somebody has changed the claim, and its watch is about to tell; or nobody has, and then nothing ever tells.
        """
        if not self.is_doubted(uid) or uid in self.users.unseen:
            return False
        return not any(uid in claims for claims in self._unanswered.values())

    def may_be_written(self, uid: str) -> bool:
        """Return whether the watch shows all that was written of a claim for pods of groups."""
        return uid not in self.users.unseen and not self.is_unsettled(uid)

    def note_written(self, key: ClaimKey, uid: str, version: str) -> None:
        """A claim was written for pods of a group: others write it once the watch shows that."""
        claim = self.claims.get(key)
        if claim is not None and claim.uid == uid and older(claim.resource_version, version):
            self.users.unseen[uid] = version

    def take_out(self, pod: str) -> None:
        """A pod is being taken out of its claims: until that is over, it can't count on being reserved in them."""
        self.users.taking_out[pod] = self.users.taking_out.get(pod, 0) + 1

    def taken_out(self, pod: str, written: Mapping[tuple[str, str, str], str]) -> None:
        """A pod was taken out of its claims: these objects were written, with these versions."""
        left = self.users.taking_out.pop(pod, 1) - 1
        if left > 0:
            self.users.taking_out[pod] = left
        for (kind, *key), version in written.items():
            claim = self.claims.get((key[0], key[1])) if kind == CLAIM else None
            if claim is not None and version:
                self.note_written(claim.key, claim.uid, version)

    def not_written(self, claims: Iterable[str]) -> None:
        """Claims of these UIDs were not written after all, so an earlier leader's allocation may still arrive."""
        self.users.overtaken.difference_update(claims)

    def _is_promised(self, uid: str) -> bool:
        """Return whether pods of the group for which a claim is allocated still count on it."""
        flight = self.in_flight.get(uid)
        return flight is not None and flight.group is not None and any(self.users.of(uid, flight.group))

    def written(self, uid: str, version: str) -> None:
        """The API has it: the claim holds it until the API shows a later version of the claim."""
        flight = self.in_flight.get(uid)
        if flight is not None:
            self.in_flight[uid] = flight._replace(version=version, doubt=None)
            claim = None if flight.key is None else self.claims.get(flight.key)
            if claim is not None and (claim.allocation or not older(claim.resource_version, version, unknown=True)):
                self._restore(uid)  # the watch was first

    def doubt(self, uid: str, version: str, pod: str = "") -> None:
        """Nobody needs it any more, but it may be written: over this version of the claim.

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

    def _hand_over(self, claim: ResourceClaim) -> bool:
        """Return whether the API shows the claim that `name` has told of: it has what was assumed for it."""
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


def older(one: str, other: str, *, unknown: bool = False) -> bool:
    """Return whether a resourceVersion is older than another one; `unknown`: if that can't be told."""
    return int(one) < int(other) if one.isdigit() and other.isdigit() else unknown
