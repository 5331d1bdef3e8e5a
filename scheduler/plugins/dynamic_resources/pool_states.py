"""Which pools are alike: whatever is looked for in them is found at the same places, or in none of them.

Nodes of one make have equal devices. What the allocator has found for one node is then true of all whose pools differ
in names only.
"""

from collections.abc import Hashable

from msgspec import Struct

from scheduler.model.devices import DeviceID
from scheduler.plugins.dynamic_resources.counters import available_counters
from scheduler.plugins.dynamic_resources.pools import Pool
from scheduler.state.allocated_devices import AllocatedDevices

_MOST = 1 << 16
"""So many states, and devices of different kinds, are remembered. With one more, all are forgotten."""
_FREE = 0


class _Known(Struct, gc=False, eq=False):
    """What is known of a pool. `version`: how often its devices were taken or given back by then."""

    pool: Pool
    make: int
    version: int
    number: int


class _Numbers:
    """A number for each key. No number is ever given twice."""

    def __init__(self) -> None:
        self._given = 0
        self._known: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """The number of a key."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._given += 1
            found = self._known[key] = self._given
        return found


class PoolStates:
    """A number for the state of each pool: its devices without their names, and what is taken of them."""

    def __init__(self) -> None:
        self._devices = _Numbers()
        self._makes = _Numbers()
        self._states = _Numbers()
        self._by_pool: dict[int, _Known] = {}
        """By identity, which is why each keeps its pool alive."""

    def of(self, pool: Pool, allocated: AllocatedDevices) -> int:
        """The number of the state that a pool is in now."""
        version = allocated.by_pool.get(pool.id, 0)
        known = self._by_pool.get(id(pool))
        if known is None:
            make = self._make(pool)
            known = self._by_pool[id(pool)] = _Known(pool, make, version, self._state(pool, make, version, allocated))
        elif known.version != version:
            known.version, known.number = version, self._state(pool, known.make, version, allocated)
        return known.number

    def forget(self, pool: Pool) -> None:
        """A pool is not used any more."""
        self._by_pool.pop(id(pool), None)

    def clear(self) -> None:
        """No pool is used any more."""
        self._by_pool.clear()

    def _make(self, pool: Pool) -> int:
        """All that a search reads of the pool, besides what is taken."""
        kinds = [
            self._devices.of((one.device.traits, one.taints, one.reached, one.device.consumes)) for one in pool.devices
        ]
        return self._makes.of((pool.incomplete, bool(pool.invalid), tuple(kinds), frozenset(pool.counters.items())))

    def _state(self, pool: Pool, make: int, version: int, allocated: AllocatedDevices) -> int:
        taken = [_taken(one.id, allocated) for one in pool.devices] if version else ()
        left = frozenset(available_counters(pool, allocated).items()) if pool.consumers else None
        return self._states.of((make, tuple(taken) if any(taken) else (), left))


def _taken(device: DeviceID, allocated: AllocatedDevices) -> Hashable:
    """What of a device is taken."""
    exclusive, shared = allocated.is_taken(device), allocated.is_shared(device)
    if not (exclusive or shared):
        return _FREE
    return exclusive, shared, frozenset(allocated.used(device).items())
