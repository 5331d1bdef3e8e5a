"""Which pools are alike: whatever is looked for in them is found at the same places, or in none of them.

Nodes of one make have equal devices. What the allocator has found for one node is then true of all whose pools differ
in names only, and in what the requests do not read.
"""

from collections.abc import Hashable

from msgspec import Struct

from podberth.cache.devices import AllocatedDevices
from podberth.model.devices import Device, DeviceID, PoolID
from podberth.plugins.dynamic_resources.counters import available_counters
from podberth.plugins.dynamic_resources.pools import Pool, hard_taints
from podberth.plugins.dynamic_resources.reading import Reading
from podberth.plugins.dynamic_resources.taken_places import LARGE, TakenPlaces

_MOST = 1 << 16
"""How many states, and devices of different kinds, are remembered. With one more, all are forgotten."""
_READINGS = 8
"""How many readings of a pool are remembered. With one more, all are forgotten."""
_LISTS = 1 << 12
"""How many lists of devices are remembered. With one more, all are forgotten."""
_FREE = 0

PoolState = tuple[int, int]
"""The number of what is read of a pool's devices, and that of what is taken of them."""


class _Known(Struct, gc=False, eq=False):
    """What is known of a pool. `version`: how often its devices were taken or given back by then."""

    pool: Pool
    version: int
    taken: int
    makes: dict[frozenset[str] | None, int]
    """The names of the attributes that are read → the number of what is seen then."""
    places: TakenPlaces | None = None
    """Which places of a large pool are taken, once it was searched."""


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

    def fresh(self) -> int:
        """A number that no key has."""
        self._given += 1
        return self._given


class PoolStates:
    """Numbers for the state of each pool: its devices without their names, and what is taken of them."""

    def __init__(self) -> None:
        self._devices = _Numbers()
        self._makes = _Numbers()
        self._takings = _Numbers()
        self._by_pool: dict[int, _Known] = {}
        """By identity, which is why each keeps its pool alive."""
        self._lists: dict[tuple[int, frozenset[str] | None], tuple[tuple[Device, ...], int]] = {}
        """The devices of one slice, by identity, and the attributes that are read → those, and what is seen then."""
        self._large: dict[PoolID, dict[int, TakenPlaces]] = {}
        """Pools whose places are known, by identity."""
        self._seen = 0
        """The changes of devices by then are in these."""

    def of(self, pool: Pool, allocated: AllocatedDevices, reading: Reading) -> PoolState:
        """The state that a pool is in now, for requests of this reading."""
        known, version = self._known(pool, allocated), allocated.by_pool.get(pool.id, 0)
        if known.version != version:
            known.version, known.taken = version, self._taking(pool, version, allocated)
        make = known.makes.get(reading.names)
        if make is None:
            if len(known.makes) >= _READINGS:
                known.makes.clear()
            make = known.makes[reading.names] = self._make(pool, reading)
        return make, known.taken

    def places_of(self, pool: Pool, allocated: AllocatedDevices) -> TakenPlaces | None:
        """Return what need not be looked at of a large pool; None: it is a small one."""
        if pool.size < LARGE:
            return None
        self._follow(allocated)
        known = self._known(pool, allocated)
        if known.places is None:
            known.places = TakenPlaces(pool, allocated)
            self._large.setdefault(pool.id, {})[id(pool)] = known.places
        return known.places

    def forget(self, pool: Pool) -> None:
        """A pool is not used any more."""
        known = self._by_pool.pop(id(pool), None)
        if known is not None and known.places is not None:
            del self._large[pool.id][id(pool)]
            if not self._large[pool.id]:
                del self._large[pool.id]

    def clear(self) -> None:
        """No pool is used any more."""
        self._by_pool.clear()
        self._lists.clear()
        self._large.clear()
        self._seen = 0

    def _known(self, pool: Pool, allocated: AllocatedDevices) -> _Known:
        known = self._by_pool.get(id(pool))
        if known is None:
            version = allocated.by_pool.get(pool.id, 0)
            known = self._by_pool[id(pool)] = _Known(pool, version, self._taking(pool, version, allocated), {})
        return known

    def _follow(self, allocated: AllocatedDevices) -> None:
        """Have all known places say what is taken now."""
        if allocated.log.version == self._seen:
            return
        changed = allocated.log.since(self._seen) if self._large else ()
        self._seen = allocated.log.version
        if changed is None:
            for large in self._large.values():
                for identity in large:
                    self._by_pool[identity].places = None
            self._large.clear()
            return
        for device in changed:
            for places in self._large.get((device.driver, device.pool), {}).values():
                places.note(device, taken=allocated.is_taken(device))

    def _make(self, pool: Pool, reading: Reading) -> int:
        """All that a search reads of the pool, besides what is taken."""
        if pool.source is None:
            kinds = [
                self._devices.of((reading.seen(one.device.traits), one.taints, one.reached, one.device.consumes))
                for one in pool.devices
            ]
            return self._makes.of((pool.incomplete, bool(pool.invalid), tuple(kinds), frozenset(pool.counters.items())))
        devices = pool.source.devices
        key = id(devices), reading.names
        known = self._lists.get(key)
        if known is None:
            kinds = [
                self._devices.of((reading.seen(one.traits), hard_taints(one) if one.taints else (), True, ()))
                for one in devices
            ]
            if len(self._lists) >= _LISTS:
                self._lists.clear()
            known = self._lists[key] = devices, self._makes.of((False, False, tuple(kinds), frozenset()))
        return known[1]

    def _taking(self, pool: Pool, version: int, allocated: AllocatedDevices) -> int:
        if version and pool.size >= LARGE and not pool.devices[0].slice.place.node:
            return self._takings.fresh()  # few pools are as large: to look at all its devices costs more than a search
        taken = [_taken(one.id, allocated) for one in pool.devices] if version else ()
        left = frozenset(available_counters(pool, allocated).items()) if pool.consumers else None
        return self._takings.of((tuple(taken) if any(taken) else (), left))


def _taken(device: DeviceID, allocated: AllocatedDevices) -> Hashable:
    """Return what of a device is taken."""
    exclusive, shared = allocated.is_taken(device), allocated.is_shared(device)
    if not (exclusive or shared):
        return _FREE
    return exclusive, shared, frozenset(allocated.used(device).items())
