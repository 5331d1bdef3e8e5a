"""Devices that a pod asks for, and the allocator's result for it on each node, kept until something changes.

A pod asks for claims without an allocation, and for extended resources. Pods that ask for the same share results. A
change of a pool that several nodes reach changes no result of a request that can't use any of its devices ("idle").
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.devices import Devices
from podberth.cache.kept_results import Bounded, ChangeLog, KeptResult
from podberth.cache.search_steps import CappedSearch
from podberth.cel.reads import attributes_read
from podberth.model.devices import MOST_ALTERNATIVES, ClaimSpec, DeviceClass, PoolID, ResourceClaim
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import DeviceContainer, may_be_devices
from podberth.plugins.dynamic_resources.claims import ExtendedClaim, device_resources, extended_claim
from podberth.plugins.dynamic_resources.pools import Pool
from podberth.plugins.dynamic_resources.pools_by_node import PoolsByNode, Reading, expressions, reading_of
from podberth.plugins.dynamic_resources.requested import AllocationError, RequestedClaim, wanted
from podberth.plugins.dynamic_resources.search import Chosen, Search, Selects

OPEN, FITS, NO_SOLUTION, INVALID, FAILED, REFUSED, NO_OTHER, GIVEN_UP = range(8)
"""The outcome for a row. OPEN: it was never searched since all were opened. NO_OTHER, GIVEN_UP: of the search beyond
kube-scheduler's.
"""
_MOST_KNOWN = 1 << 14
"""So many outcomes of different pools are remembered for a request, and so many pools as idle or not. With one more,
all of these are forgotten.
"""
_NO_OTHER = "looking further found no other way"
_GIVEN_UP = "looking further was given up, as it took too many steps"
NO_OTHER_TEXT = f"cannot allocate all claims: {_NO_OTHER}"
GIVEN_UP_TEXT = f"cannot allocate all claims: {_GIVEN_UP}"
Ask = Callable[[Node], "Sequence[RequestedClaim] | None"]
"""The claims to allocate on a node; None: it can't serve the pod for another reason."""
_ROWS = 200_000
"""Rows whose results are kept, for all requests together."""
_FEWEST = 4
"""Requests that are kept even in the largest clusters."""
_NO_RESOURCES: frozenset[str] = frozenset()


class IdlePools:
    """The pools of which no claim of one request can use a device."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._judged: dict[tuple[int, int], tuple[bool, Pool, Sequence[RequestedClaim]]] = {}
        """Claims and a pool, by identity → whether no claim can use a device of it; and both, to keep them alive."""

    def clear(self) -> None:
        """Forget all of it."""
        self._judged.clear()

    def is_idle(self, pool: Pool, wanted: Sequence[RequestedClaim], steps: CappedSearch) -> bool:
        """Return whether no device of a pool is wanted, so that nothing that happens to it matters.

        Asked of pools that several nodes may reach: else one pod on a shared device would have all nodes asked again.
        Raises SearchCapError.
        """
        if not pool.usable or not pool.devices or pool.devices[0].slice.place.node:
            return False
        key = (id(wanted), id(pool))
        known = self._judged.get(key)
        if known is None:
            if len(self._judged) >= _MOST_KNOWN:
                self._judged.clear()
            known = self._judged[key] = not self._may_be_wanted(pool, wanted, steps), pool, wanted
        return known[0]

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


class NodeAllocation(Struct, gc=False, eq=False):
    """The outcome for one node, with the chosen devices of each claim."""

    code: int
    chosen: Sequence[Sequence[Chosen]] = ()
    text: str = ""
    score: int = 0
    further: bool = False
    """kube-scheduler's search has found nothing; looking further has."""


class _Outcome(Struct, gc=False, eq=False):
    """The result of a search of some pools. It also holds for pools that differ only in names and in attributes that
    no expression reads.
    """

    answer: NodeAllocation
    pools: Sequence[Pool]

    def for_pools(self, pools: Sequence[Pool]) -> NodeAllocation:
        """This allocation, with the devices of other pools."""
        if pools is self.pools or not self.answer.chosen:
            return self.answer
        by_id = {pool.id: (pool, other) for pool, other in zip(self.pools, pools, strict=True)}
        there = []
        for claim in self.answer.chosen:
            entries = []
            for one in claim:
                pool, other = by_id[one.entry.id.driver, one.entry.id.pool]
                entries.append(one.entry if pool is other else other.devices[pool.devices.index(one.entry)])
            there.append([Chosen(e, one.alternative, one.consumed) for e, one in zip(entries, claim, strict=True)])
        return replace(self.answer, chosen=there)


class _Group(Struct, eq=False):
    """Rows that reach the same pools, and what was found for all of them. A row whose pools are its own is alone."""

    outcome: _Outcome
    pools: Sequence[Pool] = ()
    """The pools that the claims may use."""
    wanted: Sequence[RequestedClaim] = ()
    key: tuple[int, ...] = ()
    """The claims and the pools, by identity; empty: no other row may join."""
    rows: set[int] | None = None
    """Its rows; of a row that is alone, nobody asks."""
    index: Ints | None = None
    """The rows; None: they have changed."""


class AllocationsByNode(KeptResult[set[int | PoolID]]):
    """Keeps the outcome for each row. The rows that changed are open until `follow` has searched them again."""

    def __init__(self, ask: Ask, selects: Selects, pools_by_node: PoolsByNode, further: int = 0) -> None:
        """`further`: steps for looking further than kube-scheduler where its search has found nothing; 0: none."""
        self._ask = ask
        self._further = further
        self._selects = selects
        self._pools_by_node = pools_by_node
        self.codes: Ints = np.zeros(0, dtype=np.int64)
        self.scores: Ints = np.zeros(0, dtype=np.int64)
        self._answers: dict[int, _Group] = {}
        self._groups: dict[tuple[int, ...], _Group] = {}
        """Rows that reach pools which others reach as well."""
        self._with: dict[PoolID, dict[tuple[int, ...], None]] = {}
        """Pool → the groups that may use it."""
        self._open: dict[int, None] = {}
        self._open_groups: dict[tuple[int, ...], None] = {}
        self._known: dict[tuple[Any, ...], _Outcome] = {}
        """Claims, and the states of the pools that they may use → the outcome."""
        self._reads: dict[str, frozenset[str] | None] = {}
        """Expression → the attributes that it reads."""
        self._readings: dict[Sequence[RequestedClaim], Reading] = {}
        self._failed: dict[tuple[int, ...], _Outcome] = {}
        """Claims and pools, by identity → a search that failed, as its message names devices."""
        self._idle = IdlePools(selects)

    def follow(self, cluster: Cluster, steps: CappedSearch) -> None:
        """Bring all rows up to date. Raises SearchCapError; what was found until then holds."""
        pools, nodes = self._pools_by_node, cluster.nodes
        pools.follow(cluster)
        self.renew((pools.computed, nodes.rows), pools.log, nodes.rows)
        for key in tuple(self._open_groups):
            group = self._groups.get(key)
            if group is not None and group.rows:
                group.outcome = self._outcome(min(group.rows), group.wanted, group.pools, cluster, steps)
                if group.index is None:
                    group.index = np.fromiter(group.rows, dtype=np.int64, count=len(group.rows))
                self.codes[group.index] = group.outcome.answer.code
                self.scores[group.index] = group.outcome.answer.score
            del self._open_groups[key]
        for row in tuple(self._open):
            node = nodes.objects[row]
            group = _Group(_REFUSED) if node is None else self._group(row, node, cluster, steps)
            self._leave(row)
            self._answers[row] = group
            if group.rows is not None:
                group.rows.add(row)
                group.index = None
            self.codes[row], self.scores[row] = group.outcome.answer.code, group.outcome.answer.score
            del self._open[row]

    def of(self, row: int) -> NodeAllocation:
        """The outcome for one row."""
        group = self._answers[row]
        return group.outcome.for_pools(group.pools)

    def changes(self, log: ChangeLog[int | PoolID], asked: Any) -> set[int | PoolID] | None:
        """Return the rows and the pools that changed."""
        return log.since(self.version)

    def apply(self, changes: set[int | PoolID], asked: Any) -> None:
        """Open the rows that changed, and those that reach a pool which did."""
        pools = self._pools_by_node
        again: set[int] = set()
        for entry in changes:
            if isinstance(entry, int):
                again.add(entry)
            elif pools.is_local(entry):
                again |= pools.rows_of(entry)
            else:
                self._open_groups |= self._with.get(entry, {})
        if again or self._open_groups:
            self._failed.clear()
            for row in again:
                self._leave(row)
            self._open |= dict.fromkeys(sorted(again))

    def compute(self, asked: Any) -> None:
        """Open all rows."""
        rows: int = asked
        self.codes = np.zeros(rows, dtype=np.int64)
        self.scores = np.zeros(rows, dtype=np.int64)
        if rows < len(self._answers):
            self._answers.clear()  # else each is replaced when `follow` searches its row
        self._idle.clear()
        for known in (self._known, self._failed, self._reads, self._readings, self._groups, self._with):
            known.clear()
        self._open_groups.clear()
        self._open = dict.fromkeys(range(rows))

    def _leave(self, row: int) -> None:
        """Take a row out of its group: its node or its pools are different now."""
        group = self._answers.get(row)
        if group is None or group.rows is None or row not in group.rows:
            return
        group.rows.remove(row)
        group.index = None
        if not group.rows and self._groups.get(group.key) is group:
            del self._groups[group.key]
            for pool in group.pools:
                del self._with[pool.id][group.key]

    def _group(self, row: int, node: Node, cluster: Cluster, steps: CappedSearch) -> _Group:
        """The group that a row belongs to."""
        try:
            wanted = self._ask(node)
        except AllocationError as error:
            return _Group(_Outcome(NodeAllocation(FAILED, text=str(error)), ()))
        if wanted is None:
            return _Group(_REFUSED)
        if not wanted:
            return _Group(_FITS)
        by_node = self._pools_by_node
        pools = by_node.of(row, node, cluster.devices)
        if by_node.are_local(row):
            return _Group(self._outcome(row, wanted, pools, cluster, steps), pools)
        pools = [pool for pool in pools if not self._idle.is_idle(pool, wanted, steps)]
        key = (id(wanted), *map(id, pools))
        group = self._groups.get(key)
        if group is None:
            outcome = self._outcome(row, wanted, pools, cluster, steps)
            group = self._groups[key] = _Group(outcome, pools, wanted, key, set())
            for pool in pools:
                self._with.setdefault(pool.id, {})[key] = None
        return group

    def _outcome(
        self, row: int, wanted: Sequence[RequestedClaim], pools: Sequence[Pool], cluster: Cluster, steps: CappedSearch
    ) -> _Outcome:
        """Return what is found for one row, and for all that reach the same pools."""
        by_node, devices = self._pools_by_node, cluster.devices
        reading = self._reading(wanted)
        states = (wanted, *[by_node.state_of(pool, devices, reading) for pool in pools])
        known = self._known.get(states)
        if known is not None:
            return known
        same = (id(wanted), *map(id, pools))
        known = self._failed.get(same)
        if known is not None:
            return known
        found = _Outcome(self._searched(wanted, pools, cluster, steps), pools)
        if found.answer.code == FAILED:
            self._failed[same] = found
        else:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[states] = found
        return found

    def _reading(self, wanted: Sequence[RequestedClaim]) -> Reading:
        """Return what of devices the claims read."""
        found = self._readings.get(wanted)
        if found is None:
            for expression in expressions(wanted):
                if expression not in self._reads:
                    self._reads[expression] = attributes_read(expression)
            found = self._readings[wanted] = reading_of(wanted, self._reads)
        return found

    def _searched(
        self, wanted: Sequence[RequestedClaim], pools: Sequence[Pool], cluster: Cluster, steps: CappedSearch
    ) -> NodeAllocation:
        search = self._search(wanted, pools, cluster, steps)
        try:
            if search.run():
                return _found(wanted, search)
            usual = NodeAllocation(INVALID if search.problem else NO_SOLUTION, text=search.problem)
        except AllocationError as error:
            usual = NodeAllocation(FAILED, text=str(error))
        if not self._further:
            return usual
        search = self._search(wanted, pools, cluster, steps, self._further)
        if search.run():
            return _found(wanted, search, further=True)
        if usual.code == FAILED:
            return NodeAllocation(FAILED, text=f"{usual.text}; {_GIVEN_UP if search.given_up else _NO_OTHER}")
        return NodeAllocation(GIVEN_UP if search.given_up else NO_OTHER)

    def _search(
        self,
        wanted: Sequence[RequestedClaim],
        pools: Sequence[Pool],
        cluster: Cluster,
        steps: CappedSearch,
        further: int = 0,
    ) -> Search:
        devices, by_node = cluster.devices, self._pools_by_node
        return Search(
            wanted,
            pools,
            devices.allocated,
            self._selects,
            steps,
            further=further,
            places_of=lambda pool: by_node.places_of(pool, devices),
        )


def _found(wanted: Sequence[RequestedClaim], search: Search, *, further: bool = False) -> NodeAllocation:
    """Return what a search came to. The score is higher for earlier alternatives of `firstAvailable` (computeScore)."""
    score = 0
    for claim, chosen in zip(wanted, search.result, strict=True):
        used = {one.alternative.name for one in chosen if one.alternative.parent}
        for alternatives in claim.requests if used else ():
            score += sum(MOST_ALTERNATIVES - one.place for one in alternatives if one.parent and one.name in used)
    return NodeAllocation(FITS, search.result, score=score, further=further)


_REFUSED = _Outcome(NodeAllocation(REFUSED), ())
_FITS = _Outcome(NodeAllocation(FITS), ())


class PodDevices(Struct, eq=False):
    """The devices that one pod asks for. `open`: its claims without an allocation."""

    claims: list[ResourceClaim]
    open: list[ResourceClaim]
    resources: Mapping[str, DeviceClass]
    """Extended resources that devices may serve."""
    results: AllocationsByNode | None
    """None: nothing has to be allocated."""
    request: "AllocationRequest | None"


class AllocationRequest:
    """Devices that are asked for, whichever pod asks: specs of claims, and extended resources of containers."""

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
        self._of_classes: dict[str, DeviceClass] = {}
        """The resources that a class serves now."""
        self._variants: dict[frozenset[str], tuple[RequestedClaim, ...]] = {}
        self._extended: dict[frozenset[str], ExtendedClaim] = {}

    def begin(self, devices: Devices) -> None:
        """Use the device classes as they are now."""
        if self._devices is not devices or self._version != devices.class_changes:
            self._devices, self._version = devices, devices.class_changes
            found = {name: devices.class_of(name) for name in self._resources}
            self._of_classes = {name: of for name, of in found.items() if of is not None}
            self._variants.clear()
            self._extended.clear()

    def of(self, node: Node) -> Sequence[RequestedClaim] | None:
        """The claims to allocate on a node; None: it offers one of the resources neither as devices nor otherwise.

        Raises AllocationError.
        """
        names = self._by_devices(node)
        if names is None:
            return None
        found = self._variants.get(names)
        if found is None:
            assert self._devices is not None
            classes = self._devices.classes
            specs = [*self._specs, *([self._claim_for(names).spec] if names else ())]
            claims = [wanted(whose(i), one, classes, thousandths=self._thousandths) for i, one in enumerate(specs)]
            found = self._variants[names] = tuple(claims)
        return found

    def extended(self, node: Node) -> ExtendedClaim | None:
        """The claim to make for resources that the node offers as devices; None: there are none."""
        names = self._by_devices(node)
        return self._claim_for(names) if names else None

    def _claim_for(self, names: frozenset[str]) -> ExtendedClaim:
        found = self._extended.get(names)
        if found is None:
            classes = {name: self._of_classes[name] for name in names}
            found = self._extended[names] = extended_claim(self._containers, classes)
        return found

    def _by_devices(self, node: Node) -> frozenset[str] | None:
        if not self._resources:
            return _NO_RESOURCES
        found = []
        for name in self._resources:
            if name in self._of_classes and not node.allocatable.get(name, 0):
                found.append(name)
            elif name not in node.allocatable:
                return None
        return frozenset(found)


def whose(number: int) -> str:
    """A placeholder for the name of the claim with this number: errors are kept for all pods that ask for the same."""
    return f"\0{number}\0"


def named(text: str, wants: PodDevices, pod: Pod) -> str:
    """The text of an error, with the names of the pod's claims in place of the placeholders."""
    for number, claim in enumerate(wants.open):
        text = text.replace(whose(number), str(claim))
    return text.replace(whose(len(wants.open)), f"{pod.namespace}/<extended-resources>")


class AllocationRequests:
    """The requests of the last pods, with their results."""

    def __init__(self, selects: Selects, further: int = 0, *, thousandths: bool = False) -> None:
        """`further`: steps for looking further than kube-scheduler, on each node. `thousandths`: as for `wanted`."""
        self._selects = selects
        self._thousandths = thousandths
        self._further = further
        self._pools_by_node = PoolsByNode()
        self._kept: Bounded[Any, tuple[AllocationRequest, AllocationsByNode]] = Bounded(_FEWEST)

    def pools(self, row: int, node: Node, devices: Devices) -> list[Pool]:
        """The pools that a node reaches."""
        return self._pools_by_node.of(row, node, devices)

    def about(self, pod: Pod, claims: list[ResourceClaim], cluster: Cluster) -> PodDevices:
        """Return what a pod with these claims asks for. No node is asked yet."""
        resources = device_resources(pod, cluster.devices)
        opened = [claim for claim in claims if claim.allocation is None]
        if not opened and not resources:
            return PodDevices(claims, opened, resources, None, None)
        specs = tuple([claim.spec for claim in opened])
        key: Any = (specs, pod.shape if resources else None)
        found = self._kept.recall(key)
        if found is None:
            requests = pod.shape.requests if resources else {}
            request = AllocationRequest(specs, pod.shape.containers, requests, self._thousandths)
            found = request, AllocationsByNode(request.of, self._selects, self._pools_by_node, self._further)
            self._kept.most = max(_FEWEST, _ROWS // (cluster.nodes.rows + 1))
            self._kept.keep(key, found)
        request, results = found
        request.begin(cluster.devices)
        return PodDevices(claims, opened, resources, results, request)
