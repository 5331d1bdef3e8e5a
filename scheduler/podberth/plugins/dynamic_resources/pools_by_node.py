"""The pools that each node can use, kept until slices, taint rules or the node change; and which of them are alike.

Pools are alike if whatever is looked for in them is found at the same places, or in none of them. Nodes of one make
have equal devices. What the allocator has found for one node is then true of all whose pools differ in names only, and
in what the requests do not read.

Next stage: `podberth.plugins.dynamic_resources.results` asks the allocator about these nodes again. A log says which
nodes changed.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.devices import AllocatedDevices, Devices
from podberth.cache.devices import Change as DeviceChange
from podberth.cache.kept_results import FEW, ChangeLog, KeptResult, SeveralLogs
from podberth.cel.reads import attributes_read
from podberth.model.devices import Device, DeviceID, DeviceTraits, PoolID, ResourceSlice
from podberth.model.node import Node
from podberth.plugins.dynamic_resources.pools import (
    LARGE,
    Pool,
    TakenPlaces,
    available_counters,
    hard_taints,
    pool_of,
    pools_of,
)
from podberth.plugins.dynamic_resources.requested import RequestedClaim

_MOST_READ = 1 << 12
"""The number of devices, and of lists of names, that are remembered. With one more, all are forgotten."""
_JUDGED = ("", "version")
"""Kinds of values of which some break every expression, whatever it reads."""
_MOST = 1 << 16
"""The number of states, and of kinds of devices, that are remembered. With one more, all are forgotten."""
_READINGS = 8
"""The number of readings of a pool that are remembered. With one more, all are forgotten."""
_LISTS = 1 << 12
"""The number of lists of devices that are remembered. With one more, all are forgotten."""
_FREE = 0
PoolState = tuple[int, int]
"""The number of what is read of a pool's devices, and that of what is taken of them."""


class Reading:
    """The names of the attributes that are read; None: any may be."""

    def __init__(self, names: frozenset[str] | None) -> None:
        self.names = names
        self._read: dict[tuple[str, ...], list[bool]] = {}
        """A driver and the names of attributes → which of them are read."""
        self._seen: dict[DeviceTraits, Hashable] = {}

    def seen(self, traits: DeviceTraits) -> Hashable:
        """Return what requests can see of a device: capacities, the attributes they read, and the
        names of all others.
        """
        if self.names is None:
            return traits
        found = self._seen.get(traits)
        if found is None:
            if len(self._seen) >= _MOST_READ:
                self._seen.clear()
            found = self._seen[traits] = self._seen_of(traits)
        return found

    def _seen_of(self, traits: DeviceTraits) -> Hashable:
        key = (traits.driver, *traits.attributes)
        read = self._read.get(key)
        if read is None:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            read = self._read[key] = [self._reads(traits.driver, name) for name in traits.attributes]
        values = [
            one if is_read or one[0] in _JUDGED else one[0]
            for is_read, one in zip(read, traits.attributes.values(), strict=True)
        ]
        return key, traits.shared, tuple(traits.capacity.items()), tuple(values)

    def _reads(self, driver: str, name: str) -> bool:
        assert self.names is not None
        return name in self.names or f"{driver}/{name}" in self.names


def reading_of(wanted: Sequence[RequestedClaim]) -> Reading:
    """Return what the constraints and the selectors of claims read of devices."""
    constraints = (one for claim in wanted for one in claim.spec.constraints)
    names = {name for one in constraints for name in (one.match, one.distinct) if name is not None}
    every = (one for claim in wanted for alternatives in claim.requests for one in alternatives)
    for expression in {expression for one in every for expression, _ in one.selectors}:
        read = attributes_read(expression)
        if read is None:
            return Reading(None)
        names |= read
    return Reading(frozenset(names))


class _Known(Struct, gc=False, eq=False):
    """A pool, and results that hold for it. `version`: its number in `AllocatedDevices.by_pool` by then; 0: nothing was
    taken.
    """

    pool: Pool
    version: int
    taken: int
    makes: dict[frozenset[str] | None, int]
    """The names of the attributes that are read → the number of what is seen then."""
    places: TakenPlaces | None = None
    """The places of a large pool that are taken, once it was searched."""


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

    def __len__(self) -> int:
        return len(self._by_pool)

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
            for places in self._large.get(device.pool_id, {}).values():
                places.note(device, taken=allocated.is_taken(device))

    def _make(self, pool: Pool, reading: Reading) -> int:
        """Return all that a search reads of the pool, besides what is taken."""
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
        if version and pool.size >= LARGE and not pool.devices[0].slice.access.node_name:
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


class _OfNode(Struct, gc=False, eq=False):
    """The pools of one node."""

    epoch: int
    """`PoolsByNode.computed` when they were found."""
    node: Node
    pools: list[Pool]
    local: bool
    """No other node reaches any of them."""


class PoolsByNode(KeptResult[tuple[set[DeviceChange], set[int]]]):
    """The pools that each node of a cluster can use; those of a node are found when it is asked for.

    `computed` counts how often everything was dropped.
    """

    def __init__(self) -> None:
        self.log: ChangeLog[int | PoolID] = ChangeLog(kept=FEW)
        """Rows whose node or pools changed, and pools whose devices were allocated or freed."""
        self._devices: Devices | None = None
        """The devices that were followed last."""
        self._by_row: dict[int, _OfNode] = {}
        """By row. What is of an older epoch is not true any more; it is let go of when the row is asked for."""
        self._rows: dict[PoolID, set[int]] = {}
        self._alike: dict[tuple[PoolID, frozenset[str]], Pool | None] = {}
        """A pool and its slices that a node reaches → the one object for all nodes that reach the same."""
        self._uses: dict[int, int] = {}
        """Pool, by identity → how many rows can use it."""
        self._states = PoolStates()

    def follow(self, cluster: Cluster) -> None:
        """Drop what is known of the nodes and pools that changed."""
        devices, nodes = cluster.devices, cluster.nodes
        self._devices = devices
        self.renew((devices, nodes), SeveralLogs(devices.log, nodes.object_log), (devices, nodes))

    def changes(self, log: SeveralLogs, asked: Any) -> tuple[set[DeviceChange], set[int]] | None:
        """Return the changes of pools, and the rows whose nodes changed; None: what several nodes reach was rebuilt."""
        devices, nodes = asked
        pools_version, rows_version = self.version
        changes, rows = devices.log.since(pools_version), nodes.object_log.since(rows_version)
        if changes is None or rows is None or any(one.rebuilt and not self.is_local(one.pool) for one in changes):
            return None
        return changes, rows

    def compute(self, asked: Any) -> None:
        """Drop everything, in no time: whoever asks for a row pays for what is known of it, as a taint rule may change
        many times. What is known of other devices or nodes goes at once.
        """
        if self.basis != asked:
            self._by_row.clear()
            self._rows.clear()
            self._uses.clear()
            self._states.clear()
        self._alike.clear()

    def apply(self, changes: tuple[set[DeviceChange], set[int]], asked: Any) -> None:
        """Drop what changed, and tell it on."""
        devices, nodes = asked
        pools, rows = changes
        for row in rows:
            self._forget(row)
        for pool, rebuilt in {(one.pool, one.rebuilt) for one in pools}:
            if pool is not None and not rebuilt:
                self.log.touch(pool)
            elif pool is not None:
                named = {one.access.node_name for one in devices.slices_of(pool).values()}
                there = {found for name in named if (found := nodes.row_of(name)) is not None}
                for row in there | self._rows.pop(pool, set()):
                    self._forget(row)

    def entries(self) -> tuple[int, int, int]:
        """Return of how many nodes and pools something is known, and of how many pools the state: for tests of what a
        tenant can make grow.
        """
        return len(self._by_row), len(self._rows), len(self._states)

    def of(self, row: int, node: Node, devices: Devices) -> list[Pool]:
        """The pools that a node can use, in kube-scheduler's order."""
        found = self._by_row.get(row)
        if found is None or found.node is not node or found.epoch != self.computed:
            self._let_go(row)
            pools = pools_of(node, devices, self._made)
            local = all(self.is_local(pool.id) for pool in pools)
            self._by_row[row] = found = _OfNode(self.computed, node, pools, local)
            for pool in pools:
                self._rows.setdefault(pool.id, set()).add(row)
                self._uses[id(pool)] = self._uses.get(id(pool), 0) + 1
        return found.pools

    def last_of(self, row: int) -> list[Pool]:
        """Return the pools that `of` has given for a row."""
        return self._by_row[row].pools

    def are_local(self, row: int) -> bool:
        """Return whether no other node reaches any of the pools that `of` has given for a row."""
        return self._by_row[row].local

    def state_of(self, pool: Pool, devices: Devices, reading: Reading) -> PoolState:
        """The state that a pool is in: pools of the same state differ in names only, and in what is not read."""
        return self._states.of(pool, devices.allocated, reading)

    def places_of(self, pool: Pool, devices: Devices) -> TakenPlaces | None:
        """Return what need not be looked at of a large pool; None: it is a small one."""
        return self._states.places_of(pool, devices.allocated)

    def rows_of(self, pool: PoolID) -> set[int]:
        """The rows that can use a pool, among those that were asked for."""
        return self._rows.get(pool, set())

    def is_local(self, pool: PoolID | None) -> bool:
        """Return whether a pool is for the nodes that its slices name, or for none."""
        devices = self._devices
        if pool is None or devices is None:
            return False
        slices = devices.slices_of(pool)
        return all(one.access.node_name for one in slices.values())

    def _made(self, node: Node, slices: Sequence[ResourceSlice], devices: Devices) -> Pool | None:
        """One object for all nodes that can use the same slices of a pool, so that they share results."""
        if any(one.access.node_name or one.per_device_nodes for one in slices):
            found = pool_of(node, slices, devices)
        else:
            key = slices[0].pool_id, frozenset([one.name for one in slices])
            if key in self._alike:
                return self._alike[key]
            found = self._alike[key] = pool_of(node, slices, devices)
        return found

    def _forget(self, row: int) -> None:
        self._let_go(row)
        self.log.touch(row)

    def _let_go(self, row: int) -> None:
        found = self._by_row.pop(row, None)
        for pool in found.pools if found is not None else ():
            self._uses[id(pool)] -= 1
            if not self._uses[id(pool)]:
                del self._uses[id(pool)]
                self._states.forget(pool)
            rows = self._rows.get(pool.id)
            if rows is not None:
                rows.discard(row)
                if not rows:
                    del self._rows[pool.id]
