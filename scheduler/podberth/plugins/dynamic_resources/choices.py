"""What a search has chosen so far, and whether one more device can be: it is free, large enough and nothing forbids it.

Upstream: `structured/internal/incubating/allocator_incubating.go` (allocateDevice, CmpRequestOverCapacity,
checkAvailableCounters).
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from podberth.cache.devices import NOTHING_USED, AllocatedDevices
from podberth.model.devices import Device, DeviceID, PoolID
from podberth.model.notation import Quantity
from podberth.plugins.dynamic_resources.capacities import CapacityError
from podberth.plugins.dynamic_resources.constraints import Tracked
from podberth.plugins.dynamic_resources.counters import available_counters, tolerates_all, uses
from podberth.plugins.dynamic_resources.pools import Pool, PoolDevice
from podberth.plugins.dynamic_resources.requested import AllocationError, Alternative, RequestedClaim


class Chosen(Struct, gc=False, eq=False):
    """A device that was chosen for a request."""

    entry: PoolDevice
    alternative: Alternative
    consumed: dict[str, Quantity] | None
    """What is taken of its capacities, if the device may be shared."""

    @property
    def is_shared(self) -> bool:
        """Return whether others may have a share of the device."""
        return self.consumed is not None


class Undo(Struct, gc=False, eq=False):
    """What choosing a device changed."""

    entry: PoolDevice
    alternative: Alternative
    counters: bool = False
    constraints: int = 0
    marked: bool = False
    consumed: dict[str, Quantity] | None = None


class Choices:
    """The devices of each claim, in `result`."""

    def __init__(self, claims: Sequence[RequestedClaim], holders: AllocatedDevices, *, further: bool) -> None:
        """`further`: a device of "all" that a constraint speaks against does not fail the pod."""
        self._claims = claims
        self._holders = holders
        self._further = further
        self.result: list[list[Chosen]] = [[] for _ in claims]
        self._constraints: list[list[Tracked]] = [list(map(Tracked, claim.spec.constraints)) for claim in claims]
        self._taken: dict[DeviceID, list[int]] = {}
        """Devices that were chosen, and for which of the claims."""
        self._shares: dict[DeviceID, dict[str, int]] = {}
        """Capacity that was chosen of devices, in nano-units."""
        self._counted: dict[PoolID, dict[tuple[str, str], int]] = {}
        self._available: dict[PoolID, dict[tuple[str, str], int]] = {}

    def is_free(self, number: int, alternative: Alternative, entry: PoolDevice) -> bool:
        """Return whether no claim has the device, or has to."""
        device = entry.id
        if alternative.asked.admin_access:
            return number not in self._taken.get(device, ())
        return not (self._holders.is_taken(device) or self._taken.get(device))

    def attempt(self, number: int, alternative: Alternative, entry: PoolDevice, pool: Pool) -> Undo | None:
        """Choose a device if it is large enough, free, and nothing speaks against it."""
        claim, device = self._claims[number], entry.id
        if not self.fits(claim, alternative, entry, self._holders.used(device), str(device)):
            return None
        return self.choose(number, alternative, entry, pool)

    def fits(
        self,
        claim: RequestedClaim,
        alternative: Alternative,
        entry: PoolDevice,
        used: Mapping[str, int],
        name: str = "",
        doing: str = "checking",
    ) -> bool:
        """Return whether the device has the capacity that is asked for (CmpRequestOverCapacity)."""
        capacity, asked = entry.device.traits.capacity, alternative.asked.capacity
        if not capacity:
            return not asked
        takes = self._takes(claim, alternative, entry, name or entry.id.device, doing)
        if takes is None:
            return False
        chosen = self._shares.get(entry.id, NOTHING_USED) if name else NOTHING_USED
        return all(
            amount.nano + used.get(key, 0) + chosen.get(key, 0) <= capacity[key].value.nano
            for key, amount in takes.items()
        )

    def _takes(
        self, claim: RequestedClaim, alternative: Alternative, entry: PoolDevice, name: str, doing: str
    ) -> dict[str, Quantity] | None:
        try:
            return alternative.takes(entry.device.traits.capacity)
        except CapacityError as error:
            where = f"claim {claim.name}, request {alternative.asked.name}"
            raise AllocationError(f"{where}: {doing} capacity for device {name}: {error}") from None

    def choose(
        self, number: int, alternative: Alternative, entry: PoolDevice, pool: Pool, *, must: bool = False
    ) -> Undo | None:
        """Choose a device if it is free and nothing speaks against it (allocateDevice). `must`: no other would do."""
        claim, device, traits = self._claims[number], entry.device, entry.device.traits
        shared, admin = bool(traits.shared), alternative.asked.admin_access
        if admin and not shared and number in self._taken.get(entry.id, ()):
            return None
        if not admin and (self._holders.is_taken(entry.id) or self._taken.get(entry.id)):
            return None
        undo = Undo(entry, alternative)
        in_use = shared and (self._holders.is_shared(entry.id) or entry.id in self._shares)
        if device.consumes and not in_use:  # further shares of a device use no more counters
            if not self._count(entry, pool):
                return None
            undo.counters = True
        if entry.taints and not tolerates_all(alternative, entry.taints):
            self.undo(number, undo)
            return None
        for constraint in self._constraints[number]:
            if not constraint.add(alternative.base, alternative.sub, traits):
                self.undo(number, undo)
                if must and not self._further:
                    raise AllocationError(
                        f"claim {claim.name}, request {alternative.asked.name}: cannot add device {entry.id} "
                        "because a claim constraint would not be satisfied"
                    )
                return None
            undo.constraints += 1
        if not shared:
            self._taken.setdefault(entry.id, []).append(number)
            undo.marked = True
        if not self.fits(claim, alternative, entry, self._holders.used(entry.id), str(entry.id), "rechecking"):
            self.undo(number, undo)
            return None
        if shared:
            undo.consumed = self._takes(claim, alternative, entry, str(entry.id), "computing consumed") or {}
            chosen = self._shares.setdefault(entry.id, {})
            for key, amount in undo.consumed.items():
                chosen[key] = chosen.get(key, 0) + amount.nano
        self.result[number].append(Chosen(entry, alternative, undo.consumed))
        return undo

    def undo(self, number: int, undo: Undo, *, chosen: bool = False) -> None:
        """Take back what choosing a device changed; `chosen`: all of it was done."""
        entry = undo.entry
        if chosen:
            self.result[number].pop()
        if undo.consumed is not None:
            used = self._shares[entry.id]
            for key, amount in undo.consumed.items():
                used[key] -= amount.nano
            if not any(one.entry.id == entry.id for claim in self.result for one in claim):
                del self._shares[entry.id]
        if undo.marked:
            self._taken[entry.id].pop()
        for constraint in reversed(self._constraints[number][: undo.constraints]):
            constraint.remove(undo.alternative.base, undo.alternative.sub)
        if undo.counters:
            self._add(self._counted[(entry.id.driver, entry.id.pool)], entry.device, -1)

    # -- counters ------------------------------------------------------------------------------------------------------

    def _count(self, entry: PoolDevice, pool: Pool) -> bool:
        """Count what a device uses of its pool; False if there is too little left (checkAvailableCounters)."""
        available = self._available.get(pool.id)
        if available is None:
            available = self._available[pool.id] = available_counters(pool, self._holders)
        counted = self._counted.setdefault(pool.id, {})
        self._add(counted, entry.device, 1)
        if all(amount >= counted.get(counter, 0) for counter, amount in available.items()):
            return True
        self._add(counted, entry.device, -1)
        return False

    @staticmethod
    def _add(counted: dict[tuple[str, str], int], device: Device, sign: int) -> None:
        for counter, amount in uses(device):
            counted[counter] = counted.get(counter, 0) + sign * amount
