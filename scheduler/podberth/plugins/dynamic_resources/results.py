"""What a pod asks for, and what the allocator finds for that on each node, kept until something changes.

It is shared as far as it goes. Pods that ask for the same share an `AllocationRequest`, and what is found for it on
all nodes (`AllocationsByNode`). Nodes that reach the same pools share one search. Nodes whose pools are alike share
what a search has found (`PoolsByNode.state_of`).

A pod asks for its claims that are not allocated, and for extended resources that a device class serves. When it asks,
only the nodes are searched whose pools have changed since the last one that asked for the same. A change of a pool that
several nodes reach has none of them searched again if the claims can't use any of its devices (`UnwantedPools`).
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.devices import Devices
from podberth.cache.kept_results import BoundedBytes, ChangeLog, KeptResult
from podberth.cache.search_steps import CappedSearch
from podberth.model.devices import MOST_ALTERNATIVES, ClaimSpec, DeviceClass, PoolID, ResourceClaim
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import DeviceContainer, may_be_devices
from podberth.plugins.dynamic_resources.claims import ExtendedClaim, device_resources, extended_claim
from podberth.plugins.dynamic_resources.pools import Pool
from podberth.plugins.dynamic_resources.pools_by_node import PoolsByNode, Reading, reading_of
from podberth.plugins.dynamic_resources.requested import AllocationError, RequestedClaim, requested_claim
from podberth.plugins.dynamic_resources.search import Chosen, Search, Selects

_MOST_KNOWN = 1 << 14
"""So many outcomes of different pools are remembered for a request, and so many pools as wanted or not. With one more,
all of these are forgotten.
"""
_MOST_REQUESTS = 1 << 10
_KEPT_BYTES = 32 << 20
"""Requests whose results are kept, and the memory that these take together."""
_A_ROW, _A_ROW_OF_A_GROUP, _A_FINDING = 24, 200, 500
"""Bytes that a row takes; those that it takes besides if it reaches pools that others may reach; and those of what was
found in pools of one state.
"""
_NO_RESOURCES: frozenset[str] = frozenset()


# -- what a pod asks for -----------------------------------------------------------------------------------------------


class PodDevices(Struct, eq=False):
    """The claims of one pod, and what has to be allocated for it."""

    claims: list[ResourceClaim]
    unallocated: list[ResourceClaim]
    """Those of them that have no allocation."""
    resources: Mapping[str, DeviceClass]
    """Extended resources that devices may serve."""
    results: "AllocationsByNode | None"
    """None: nothing has to be allocated."""


class AllocationRequest:
    """What is to be allocated, whichever pod asks: specs of claims, and extended resources of containers.

    A node that offers an extended resource itself, by a device plugin, needs no devices for it. So what is to be
    allocated differs between nodes. Nodes with the same answer are given the same tuple.
    """

    def __init__(
        self,
        specs: Sequence[ClaimSpec],
        containers: Sequence[DeviceContainer],
        requests: Mapping[str, int],
        thousandths: bool,
    ) -> None:
        self._thousandths = thousandths
        self._specs = tuple(specs)
        self._containers = containers
        self._resources = [name for name, amount in requests.items() if amount and may_be_devices(name)]
        self._devices: Devices | None = None
        self._version = -1
        self._class_of: dict[str, DeviceClass] = {}
        """Resource → the class that serves it now."""
        self._claims: dict[frozenset[str], tuple[RequestedClaim, ...]] = {}
        """Resources that need devices → the claims to allocate."""
        self._extended: dict[frozenset[str], ExtendedClaim] = {}
        """Resources that need devices → the claim to make for them."""

    def follow(self, devices: Devices) -> None:
        """Use the device classes as they are now."""
        if self._devices is not devices or self._version != devices.class_changes:
            self._devices, self._version = devices, devices.class_changes
            found = {name: devices.class_of(name) for name in self._resources}
            self._class_of = {name: of for name, of in found.items() if of is not None}
            self._claims.clear()
            self._extended.clear()

    def claims_on(self, node: Node) -> Sequence[RequestedClaim] | None:
        """The claims to allocate on a node; None: it offers one of the resources neither as devices nor otherwise.

        Raises AllocationError.
        """
        names = self._needing_devices(node)
        if names is None:
            return None
        found = self._claims.get(names)
        if found is None:
            assert self._devices is not None
            classes = self._devices.classes
            specs = [*self._specs, *([self._claim_for(names).spec] if names else ())]
            claims = [
                requested_claim(placeholder(i), spec, classes, thousandths=self._thousandths)
                for i, spec in enumerate(specs)
            ]
            found = self._claims[names] = tuple(claims)
        return found

    def extended_claim_on(self, node: Node) -> ExtendedClaim | None:
        """The claim to make for resources that the node offers as devices only; None: there are none."""
        names = self._needing_devices(node)
        return self._claim_for(names) if names else None

    def _claim_for(self, names: frozenset[str]) -> ExtendedClaim:
        found = self._extended.get(names)
        if found is None:
            classes = {name: self._class_of[name] for name in names}
            found = self._extended[names] = extended_claim(self._containers, classes)
        return found

    def _needing_devices(self, node: Node) -> frozenset[str] | None:
        """The resources that the node offers as devices only; None: it does not offer one of them at all."""
        if not self._resources:
            return _NO_RESOURCES
        found = []
        for name in self._resources:
            if name in self._class_of and not node.allocatable.get(name, 0):
                found.append(name)
            elif name not in node.allocatable:
                return None
        return frozenset(found)


def placeholder(number: int) -> str:
    """What stands for the name of the claim with this number: errors are kept for all pods that ask for the same."""
    return f"\0{number}\0"


def named(text: str, wants: PodDevices, pod: Pod) -> str:
    """The text of an error, with the names of the pod's claims in place of the placeholders."""
    for number, claim in enumerate(wants.unallocated):
        text = text.replace(placeholder(number), str(claim))
    return text.replace(placeholder(len(wants.unallocated)), f"{pod.namespace}/<extended-resources>")


class AllocationRequests:
    """What the last pods have asked for, with what was found for it."""

    def __init__(self, selects: Selects, further: int = 0, *, thousandths: bool = False) -> None:
        """`further`, `thousandths`: as for `AllocationsByNode` and `requested_claim`."""
        self._selects = selects
        self._thousandths = thousandths
        self._further = further
        self._pools_by_node = PoolsByNode()
        self._kept: BoundedBytes[Any, AllocationsByNode] = BoundedBytes(_MOST_REQUESTS, _KEPT_BYTES, look=1)

    def pools(self, row: int, node: Node, devices: Devices) -> list[Pool]:
        """The pools that a node reaches."""
        return self._pools_by_node.of(row, node, devices)

    def about(self, pod: Pod, claims: list[ResourceClaim], cluster: Cluster) -> PodDevices:
        """Return what a pod with these claims asks for. No node is searched yet."""
        resources = device_resources(pod, cluster.devices)
        unallocated = [claim for claim in claims if claim.allocation is None]
        if not unallocated and not resources:
            return PodDevices(claims, unallocated, resources, None)
        specs = tuple([claim.spec for claim in unallocated])
        key: Any = (specs, pod.shape if resources else None)
        found = self._kept.recall(key)
        if found is None:
            requests = pod.shape.requests if resources else {}
            request = AllocationRequest(specs, pod.shape.containers, requests, self._thousandths)
            found = AllocationsByNode(request, self._selects, self._pools_by_node, self._further)
            self._kept.keep(key, found)
        return PodDevices(claims, unallocated, resources, found)


# -- what is found for it ----------------------------------------------------------------------------------------------


class Outcome(IntEnum):
    """What a search came to."""

    NONE = 0
    """The node was not searched yet."""
    FITS = 1
    NO_SOLUTION = 2
    INVALID = 3
    """There is no solution, and some pool is invalid."""
    FAILED = 4
    """Something is wrong with a claim, a class or a device, which fails the pod."""
    REFUSED = 5
    """Nothing was searched: the node offers an extended resource neither as devices nor otherwise."""
    NO_OTHER = 6
    """Neither kube-scheduler's search nor looking further has found anything."""
    GIVEN_UP = 7
    """kube-scheduler's search has found nothing, and looking further took too many steps."""


_NO_OTHER = "looking further found no other way"
_GIVEN_UP = "looking further was given up, as it took too many steps"
NO_OTHER_TEXT = f"cannot allocate all claims: {_NO_OTHER}"
GIVEN_UP_TEXT = f"cannot allocate all claims: {_GIVEN_UP}"


class NodeAllocation(Struct, gc=False, eq=False):
    """What was found for a node; if it fits, with the chosen devices of each claim."""

    outcome: Outcome
    pools: Sequence[Pool] = ()
    """The pools that were searched."""
    chosen: Sequence[Sequence[Chosen]] = ()
    score: int = 0
    further: bool = False
    """kube-scheduler's search has found nothing; looking further has."""
    error: str = ""
    """Why it failed."""

    def of_pools(self, pools: Sequence[Pool]) -> "NodeAllocation":
        """The same allocation, with the devices at the same places of other pools, which are alike."""
        if pools is self.pools or not self.chosen:
            return self
        by_id = {pool.id: (pool, other) for pool, other in zip(self.pools, pools, strict=True)}
        there = []
        for claim in self.chosen:
            entries = []
            for one in claim:
                pool, other = by_id[one.entry.id.pool_id]
                entries.append(one.entry if pool is other else other.devices[pool.devices.index(one.entry)])
            there.append([Chosen(e, one.alternative, one.consumed) for e, one in zip(entries, claim, strict=True)])
        return replace(self, pools=pools, chosen=there)


_REFUSED = NodeAllocation(Outcome.REFUSED)
_FITS = NodeAllocation(Outcome.FITS)


class _Group(Struct, eq=False):
    """Rows that reach the same pools, which other rows may reach, too; and what was found for all of them."""

    found: NodeAllocation
    """It may be of pools that are like these."""
    pools: Sequence[Pool]
    """The pools that the claims may use."""
    wanted: Sequence[RequestedClaim]
    key: tuple[int, ...]
    """The claims and the pools, by identity."""
    rows: set[int]
    index: Ints | None = None
    """The rows as an array; None: they have changed."""


class AllocationsByNode(KeptResult[set[int | PoolID]]):
    """What is found for one request, by row. `follow` brings it up to date; then `outcomes`, `scores` and `of` hold.

    Rows and groups whose pools have changed are open until they are searched again.
    """

    def __init__(
        self, request: AllocationRequest, selects: Selects, pools_by_node: PoolsByNode, further: int = 0
    ) -> None:
        """`further`: steps for looking further than kube-scheduler, on each node where its search has found nothing."""
        self.request = request
        self.outcomes: Ints = np.zeros(0, dtype=np.int64)
        self.scores: Ints = np.zeros(0, dtype=np.int64)
        self._selects = selects
        self._pools_by_node = pools_by_node
        self._further = further
        self._unwanted = UnwantedPools(selects)
        self._found: list[NodeAllocation] = []
        """What was found for each row, perhaps of pools like its own. For a row in a group, the group says it."""
        self._group_of: dict[int, _Group] = {}
        """By row, of those that reach pools which others may reach, too."""
        self._groups: dict[tuple[int, ...], _Group] = {}
        """By their keys."""
        self._using: dict[PoolID, dict[tuple[int, ...], None]] = {}
        """Pool → the keys of the groups that may use it."""
        self._open_rows: dict[int, None] = {}
        self._open_groups: dict[tuple[int, ...], None] = {}
        self._known: dict[tuple[Any, ...], NodeAllocation] = {}
        """Claims, and the states of the pools that they may use → what was found."""
        self._failed: dict[tuple[int, ...], NodeAllocation] = {}
        """Claims and pools, by identity → a search that failed, as its error names devices."""
        self._readings: dict[Sequence[RequestedClaim], Reading] = {}

    def of(self, row: int) -> NodeAllocation:
        """What was found for one row."""
        group = self._group_of.get(row)
        if group is not None:
            return group.found.of_pools(group.pools)
        found = self._found[row]
        return found.of_pools(self._pools_by_node.last_of(row)) if found.chosen else found

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        rows = _A_ROW * len(self._found) + _A_ROW_OF_A_GROUP * len(self._group_of)
        return rows + _A_FINDING * len(self._known)

    def follow(self, cluster: Cluster, steps: CappedSearch) -> None:
        """Bring all rows up to date. Raises SearchCapError; what was found until then holds."""
        self.request.follow(cluster.devices)
        pools, rows = self._pools_by_node, cluster.nodes.rows
        pools.follow(cluster)
        self.renew((pools.computed, rows), pools.log, rows)
        for key in tuple(self._open_groups):
            self._search_group(key, cluster, steps)
            del self._open_groups[key]
        for row in tuple(self._open_rows):
            self._search_row(row, cluster, steps)
            del self._open_rows[row]

    # -- what changed --------------------------------------------------------------------------------------------------

    def changes(self, log: ChangeLog[int | PoolID], asked: Any) -> set[int | PoolID] | None:
        """Return the rows and the pools that changed."""
        return log.since(self.version)

    def apply(self, changes: set[int | PoolID], asked: Any) -> None:
        """Open the rows that changed, and those that reach a pool which did."""
        pools = self._pools_by_node
        rows: set[int] = set()
        for changed in changes:
            if isinstance(changed, int):
                rows.add(changed)
            elif pools.is_local(changed):
                rows |= pools.rows_of(changed)
            else:
                self._open_groups |= self._using.get(changed, {})
        if rows or self._open_groups:
            self._failed.clear()
            for row in rows:
                self._leave(row)
            self._open_rows |= dict.fromkeys(sorted(rows))

    def compute(self, asked: Any) -> None:
        """Open all rows."""
        rows: int = asked
        self.outcomes = np.zeros(rows, dtype=np.int64)
        self.scores = np.zeros(rows, dtype=np.int64)
        self._found = [_REFUSED] * rows
        self._unwanted.clear()
        for known in (self._known, self._failed, self._readings, self._group_of, self._groups, self._using):
            known.clear()
        self._open_groups.clear()
        self._open_rows = dict.fromkeys(range(rows))

    # -- rows and their groups -----------------------------------------------------------------------------------------

    def _search_group(self, key: tuple[int, ...], cluster: Cluster, steps: CappedSearch) -> None:
        """Search once more, for all rows of a group."""
        group = self._groups.get(key)
        if group is None:
            return
        group.found = self._find(group.wanted, group.pools, cluster, steps)
        if group.index is None:
            group.index = np.fromiter(group.rows, dtype=np.int64, count=len(group.rows))
        self.outcomes[group.index], self.scores[group.index] = group.found.outcome, group.found.score

    def _search_row(self, row: int, cluster: Cluster, steps: CappedSearch) -> None:
        """Search for one row, or put it into the group to which it belongs now."""
        node = cluster.nodes.objects[row]
        found, group = (_REFUSED, None) if node is None else self._look(row, node, cluster, steps)
        if group is not None:
            self._group_of[row] = group
            group.rows.add(row)
            group.index = None
        self._found[row] = found
        self.outcomes[row], self.scores[row] = found.outcome, found.score

    def _leave(self, row: int) -> None:
        """Take a row out of its group: its node or its pools are different now."""
        group = self._group_of.pop(row, None)
        if group is None:
            return
        group.rows.remove(row)
        group.index = None
        if not group.rows:
            del self._groups[group.key]
            for pool in group.pools:
                del self._using[pool.id][group.key]

    def _look(
        self, row: int, node: Node, cluster: Cluster, steps: CappedSearch
    ) -> tuple[NodeAllocation, _Group | None]:
        """Return what is found for a row, and the group to which it belongs; None: no other row reaches its pools."""
        try:
            wanted = self.request.claims_on(node)
        except AllocationError as error:
            return NodeAllocation(Outcome.FAILED, error=str(error)), None
        if wanted is None:
            return _REFUSED, None
        if not wanted:
            return _FITS, None
        by_node = self._pools_by_node
        pools = by_node.of(row, node, cluster.devices)
        if by_node.are_local(row):
            return self._find(wanted, pools, cluster, steps), None
        pools = [pool for pool in pools if not self._unwanted.has(pool, wanted, steps)]
        key = _identity(wanted, pools)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(self._find(wanted, pools, cluster, steps), pools, wanted, key, set())
            for pool in pools:
                self._using.setdefault(pool.id, {})[key] = None
        return group.found, group

    # -- searches ------------------------------------------------------------------------------------------------------

    def _find(
        self, wanted: Sequence[RequestedClaim], pools: Sequence[Pool], cluster: Cluster, steps: CappedSearch
    ) -> NodeAllocation:
        """Return what is found in these pools, or was found in others that are alike."""
        reading = self._readings.get(wanted)
        if reading is None:
            reading = self._readings[wanted] = reading_of(wanted)
        states = (wanted, *[self._pools_by_node.state_of(pool, cluster.devices, reading) for pool in pools])
        found = self._known.get(states) or self._failed.get(_identity(wanted, pools))
        if found is None:
            found = self._search(wanted, pools, cluster, steps)
            if found.outcome is Outcome.FAILED:
                self._failed[_identity(wanted, pools)] = found
            else:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[states] = found
        return found

    def _search(
        self, wanted: Sequence[RequestedClaim], pools: Sequence[Pool], cluster: Cluster, steps: CappedSearch
    ) -> NodeAllocation:
        """Search as kube-scheduler does, and then further, if that finds nothing and the profile asks for it."""
        devices, by_node = cluster.devices, self._pools_by_node
        places_of = partial(by_node.places_of, devices=devices)
        begin = partial(Search, wanted, pools, devices.allocated, self._selects, steps, places_of=places_of)
        search, error = begin(), ""
        try:
            if search.run():
                return _fitting(wanted, pools, search)
        except AllocationError as failed:
            error = str(failed)
        if not self._further:
            unsolved = Outcome.INVALID if any(pool.invalid for pool in pools) else Outcome.NO_SOLUTION
            return NodeAllocation(Outcome.FAILED if error else unsolved, pools, error=error)
        search = begin(further=self._further)
        if search.run():
            return _fitting(wanted, pools, search, further=True)
        if error:
            return NodeAllocation(
                Outcome.FAILED, pools, error=f"{error}; {_GIVEN_UP if search.given_up else _NO_OTHER}"
            )
        return NodeAllocation(Outcome.GIVEN_UP if search.given_up else Outcome.NO_OTHER, pools)


def _identity(wanted: Sequence[RequestedClaim], pools: Sequence[Pool]) -> tuple[int, ...]:
    """Return a key that stands for these very objects, as long as whoever keeps it keeps them, too."""
    return (id(wanted), *map(id, pools))


def _fitting(
    wanted: Sequence[RequestedClaim], pools: Sequence[Pool], search: Search, *, further: bool = False
) -> NodeAllocation:
    """Return what a search has chosen. Earlier alternatives of `firstAvailable` make a higher score (computeScore)."""
    score = 0
    for claim, chosen in zip(wanted, search.result, strict=True):
        used = {one.alternative.name for one in chosen if one.alternative.parent}
        for alternatives in claim.requests if used else ():
            score += sum(MOST_ALTERNATIVES - one.place for one in alternatives if one.parent and one.name in used)
    return NodeAllocation(Outcome.FITS, pools, search.result, score, further)


class UnwantedPools:
    """The pools of which no claim of one request can use a device: what happens to them does not matter."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._judged: dict[tuple[int, int], tuple[bool, Pool, Sequence[RequestedClaim]]] = {}
        """A pool and claims, by identity → whether it is unwanted; and both, to keep them alive."""

    def clear(self) -> None:
        """Forget all of it."""
        self._judged.clear()

    def has(self, pool: Pool, wanted: Sequence[RequestedClaim], steps: CappedSearch) -> bool:
        """Return whether no device of a pool is wanted. It is looked at only if several nodes may reach the pool.

        Without this, one pod on a shared device would have all nodes searched again. Raises SearchCapError.
        """
        if not pool.usable or not pool.devices or pool.devices[0].slice.access.node_name:
            return False
        key = (id(wanted), id(pool))
        judged = self._judged.get(key)
        if judged is None:
            if len(self._judged) >= _MOST_KNOWN:
                self._judged.clear()
            judged = self._judged[key] = not self._may_be_wanted(pool, wanted, steps), pool, wanted
        return judged[0]

    def _may_be_wanted(self, pool: Pool, wanted: Sequence[RequestedClaim], steps: CappedSearch) -> bool:
        """Return whether a device of a pool is selected by a request."""
        every = [alternative.selectors for claim in wanted for request in claim.requests for alternative in request]
        for selectors in dict.fromkeys(every):
            for entry in pool.devices:
                steps.take(1)
                try:
                    if all(self._selects(one, whose, entry.device.traits, entry.id) for one, whose in selectors):
                        return True
                except AllocationError:
                    return True  # the search will come upon it, if it gets there
        return False
