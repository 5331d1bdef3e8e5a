"""Which devices are allocated to which claims, and how much of them.

Mirrors kube-scheduler `plugins/dynamicresources/allocateddevices.go`, with each claim's part kept apart: a claim that
is freed, replaced or seen twice takes nothing away from another one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podberth.cache.kept_results import FEW, ChangeLog
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID, PoolID

NOTHING_USED: Mapping[str, int] = {}


class AllocatedDevices:
    """Devices by the UIDs of the claims that hold them."""

    def __init__(self) -> None:
        self._of_claim: dict[str, Allocation] = {}
        self._exclusive: dict[DeviceID, dict[str, None]] = {}
        self._shares: dict[DeviceID, dict[str, int]] = {}
        """Device → claim → how many shares."""
        self._used: dict[DeviceID, dict[str, int]] = {}
        """Device → capacity → nano-units that shares have taken."""
        self.by_pool: dict[PoolID, int] = {}
        """Pool → how often anything of it was taken or given back."""
        self.log: ChangeLog[DeviceID] = ChangeLog(kept=FEW)
        """Devices of which something was taken or given back."""

    def __len__(self) -> int:
        return len(self._of_claim)

    def of_claim(self, uid: str) -> Allocation | None:
        """Return what is counted for a claim."""
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
        """Either of them."""
        return device in self._exclusive or device in self._shares

    def used(self, device: DeviceID) -> Mapping[str, int]:
        """Capacity → nano-units that shares have taken."""
        return self._used.get(device, NOTHING_USED)

    def claims_holding(self, device: DeviceID) -> list[str]:
        """UIDs of the claims that have the device, or a share of it."""
        return [*self._exclusive.get(device, ()), *self._shares.get(device, ())]

    def put(self, uid: str, allocation: Allocation | None) -> set[PoolID]:
        """Count this for a claim, and no longer what was counted before; the pools where that is a change."""
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
            self.by_pool[pool] = self.by_pool.get(pool, 0) + 1
        return touched

    def hand_over(self, uid: str, to: str) -> None:
        """What is counted for a claim is counted for another one, which had nothing: no change for anybody else."""
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
        for device in held(allocation.devices):
            touched.add((device.id.driver, device.id.pool))
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
    """The devices that a claim holds: with admin access, a claim takes nothing from others (foreachAllocatedDevice)."""
    return (device for device in devices if not device.admin_access)
