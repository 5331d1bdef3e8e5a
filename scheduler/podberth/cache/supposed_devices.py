"""Claims and devices as a dry run sees them: what is reserved in it, and what pods give back that leave in it.

Slices, classes and taint rules are the original's. Claims are copied some at a time, since there may be many.
"""

from collections.abc import Collection, Generator
from itertools import islice

from msgspec.structs import replace

from podberth.cache.allocated_devices import AllocatedDevices
from podberth.cache.claim_users import ClaimUsers
from podberth.cache.devices import Devices
from podberth.cache.kept_results import ChangeLog
from podberth.model.devices import ResourceClaim

_AT_ONCE = 64
"""So many claims are copied in one go."""
_A_CLAIM = 6
"""Steps of each."""


class SupposedDevices(Devices):
    """Nobody else looks at them. To be filled by `supposed`."""

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
        """A pod leaves. A claim that is reserved for nobody else has no devices then."""
        self._left.add(uid)
        for claim in self._used_by.get(uid, ()):
            if self._left.issuperset(claim.reserved_for):
                self.claims[claim.key] = replace(claim, allocation=None)
                self._touch(self.allocated.put(claim.uid, None))

    def come_back(self, uid: str) -> None:
        """A pod that had left stays after all."""
        self._left.discard(uid)
        for claim in self._used_by.get(uid, ()):
            self.claims[claim.key] = claim
            self._touch(self.allocated.put(claim.uid, claim.allocation))


def supposed(devices: Devices, leaving: Collection[str]) -> Generator[int, None, SupposedDevices]:
    """A copy in which the pods with these UIDs may leave; yields the steps that it took."""
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
