"""The pools that each node can use, kept until slices, taint rules or the node change. A log says which nodes changed.

Next stage: `podberth.plugins.dynamic_resources.results` asks the allocator about these nodes again.
"""

from collections.abc import Sequence

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.devices import Devices
from podberth.cache.kept_results import FEW, ChangeLog
from podberth.cache.nodes import Nodes
from podberth.model.devices import PoolID, ResourceSlice
from podberth.model.node import Node
from podberth.plugins.dynamic_resources.pool_states import PoolState, PoolStates
from podberth.plugins.dynamic_resources.pools import Pool, pool_of, pools_of
from podberth.plugins.dynamic_resources.reading import Reading
from podberth.plugins.dynamic_resources.taken_places import TakenPlaces


class _OfNode(Struct, gc=False, eq=False):
    """The pools of one node."""

    epoch: int
    node: Node
    pools: list[Pool]
    local: bool
    """No other node reaches any of them."""


class PoolsByNode:
    """The pools that each node of a cluster can use."""

    def __init__(self) -> None:
        self.log: ChangeLog[int | PoolID] = ChangeLog(kept=FEW)
        """Rows whose node or pools changed, and pools whose devices were allocated or freed."""
        self.epoch = 0
        """How often everything was dropped."""
        self._devices: Devices | None = None
        self._nodes: Nodes | None = None
        self._seen = (-1, -1)
        self._by_row: dict[int, _OfNode] = {}
        """By row. What is of an older epoch is not true any more; it is let go of when the row is asked for."""
        self._rows: dict[PoolID, set[int]] = {}
        self._alike: dict[tuple[PoolID, frozenset[str]], Pool | None] = {}
        """A pool and its slices that a node reaches → the one object for all nodes that reach the same."""
        self._uses: dict[int, int] = {}
        """Pool, by identity → how many rows can use it."""
        self._states = PoolStates()

    def renew(self, cluster: Cluster) -> None:
        """Follow the changes since the last call."""
        devices, nodes = cluster.devices, cluster.nodes
        version = (devices.log.version, nodes.object_log.version)
        if self._devices is devices and self._nodes is nodes and version == self._seen:
            return
        known = self._devices is devices and self._nodes is nodes
        if not known:
            self._by_row.clear()
            self._rows.clear()
            self._uses.clear()
            self._states.clear()
        changes = devices.log.since(self._seen[0]) if known else None
        rows = nodes.object_log.since(self._seen[1]) if known else None
        self._devices, self._nodes, self._seen = devices, nodes, version
        if changes is None or rows is None or any(one.rebuilt and not self.is_local(one.pool) for one in changes):
            self._forget_all()
            return
        for row in rows:
            self._forget(row)
        for pool, rebuilt in changes:
            if pool is not None and not rebuilt:
                self.log.touch(pool)
            elif pool is not None:
                named = {one.place.node for one in devices.slices_of(pool).values()}
                there = {found for name in named if (found := nodes.row_of(name)) is not None}
                for row in there | self._rows.pop(pool, set()):
                    self._forget(row)

    def entries(self) -> tuple[int, int]:
        """Return how many nodes and pools something is known of, for tests of what a tenant can make grow."""
        return len(self._by_row), len(self._rows)

    def of(self, row: int, node: Node, devices: Devices) -> list[Pool]:
        """The pools that a node can use, in kube-scheduler's order."""
        found = self._by_row.get(row)
        if found is None or found.node is not node or found.epoch != self.epoch:
            self._let_go(row)
            pools = pools_of(node, devices, self._made)
            local = all(self.is_local(pool.id) for pool in pools)
            self._by_row[row] = found = _OfNode(self.epoch, node, pools, local)
            for pool in pools:
                self._rows.setdefault(pool.id, set()).add(row)
                self._uses[id(pool)] = self._uses.get(id(pool), 0) + 1
        return found.pools

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
        return all(one.place.node for one in slices.values())

    def _made(self, node: Node, slices: Sequence[ResourceSlice], devices: Devices) -> Pool | None:
        """One object for all nodes that can use the same slices of a pool, so that they share results."""
        if any(one.place.node or one.by_device for one in slices):
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

    def _forget_all(self) -> None:
        """In no time: whoever asks for a row pays for what is known of it. A taint rule may change many times."""
        self.epoch += 1
        self._alike.clear()
