"""The pools whose devices one node reaches, what devices use of them, and which of their places are taken.

A pool for all nodes may have thousands of devices, of which the first are taken first. To look at each of them again
for each pod would take longer than all else. Upstream: `structured/internal/incubating/pools_incubating.go`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from podberth.cache.devices import AllocatedDevices, Devices
from podberth.model.devices import Device, DeviceID, DeviceTaintRule, NodeAccess, PoolID, ResourceSlice
from podberth.model.node import Node
from podberth.model.taints import HARD, Taint, tolerates
from podberth.plugins.dynamic_resources.requested import Alternative
from podberth.plugins.node_affinity import node_matches

LARGE = 64
"""Pools with fewer devices are looked through one by one."""
_SELECTORS = 16
"""The number of lists of selectors that are remembered. With one more, all are forgotten."""
_TAKEN, _NOT_SELECTED = 1, 2
Selectors = tuple[tuple[str, str], ...]


class PoolDevice(Struct, gc=False, frozen=True, eq=False):
    """A device of a pool, as one node sees it."""

    id: DeviceID
    device: Device
    slice: ResourceSlice
    reached: bool
    """The node reaches it; in slices where each device says so itself, it may not."""
    taints: tuple[Taint, ...]
    """The taints that keep claims off it."""


class Pool(Struct, gc=False, eq=False):
    """The devices that a node reaches of one pool."""

    id: PoolID
    made: tuple[PoolDevice, ...] | None = ()
    """None: they are not made yet."""
    consumers: tuple[PoolDevice, ...] = ()
    """All devices of the pool that use its counters, those that the node does not reach among them."""
    counters: Mapping[tuple[str, str], int] = {}
    """(counter set, counter) → nano-units."""
    incomplete: bool = False
    """Its driver is still publishing it."""
    invalid: str = ""
    """The reason why it can't be used, as a text; empty: it can."""
    binds_later: bool = False
    """Some of its devices have conditions that have to come true before a pod is bound."""
    source: ResourceSlice | None = None
    """The only slice, if its devices are all reached, use no counters, and have no taints but their own."""

    @property
    def devices(self) -> tuple[PoolDevice, ...]:
        """The devices in the order in which they are looked at. Of nodes that are like others, nobody asks for them."""
        if self.made is None:
            assert self.source is not None
            self.made = tuple(map(partial(_entry, self.source), self.source.devices))
        return self.made

    @property
    def size(self) -> int:
        """Return how many devices there are."""
        return len(self.source.devices) if self.source is not None else len(self.devices)

    def __str__(self) -> str:
        return "/".join(self.id)

    @property
    def usable(self) -> bool:
        """Return whether devices may be taken from it."""
        return not self.incomplete and not self.invalid


def reaches(node: Node, access: NodeAccess) -> bool:
    """Return whether a node is one of those that have access (NodeMatches)."""
    if access.node_name:
        return node.name == access.node_name
    return access.all_nodes or (access.selector is not None and node_matches(access.selector, node))


def pool_of(node: Node, slices: Sequence[ResourceSlice], devices: Devices) -> Pool | None:
    """The pool that a node reaches by these slices, which are of one generation.

    None when its driver has begun to publish another generation of it elsewhere.
    """
    first = slices[0]
    if len(slices) == first.count == 1 and not _rules_for(first, devices) and _is_plain(first):
        binds_later = any(device.binding_conditions for device in first.devices)
        return Pool(first.pool_id, None, binds_later=binds_later, source=first)
    whole = slices
    if len(slices) != first.count:
        # Slices that other nodes reach count as well, and tell whether this generation is still the one that holds.
        others = devices.slices_of(first.pool_id).values()
        if any(other.generation > first.generation for other in others):
            return None
        whole = [other for other in others if other.generation == first.generation and not other.uses_groups]
        if len(whole) != first.count:
            return Pool(first.pool_id, incomplete=True)
    names = {one.name for one in slices}
    targeting = sorted((one for one in slices if not one.counters), key=lambda one: one.name)
    elsewhere = [one for one in whole if one.name not in names and not one.counters]
    here = [one for one in slices if one.counters] + [one for one in whole if one.name not in names and one.counters]
    problem = _duplicate_device(targeting)
    counters: dict[tuple[str, str], int] = {}
    sets: set[str] = set()
    for one in here:
        for name, amounts in one.counters:
            if name in sets and not problem:
                problem = f"duplicate counter set name {name}"
            sets.add(name)
            counters.update({(name, counter): amount for counter, amount in amounts.items()})
    problem = problem or next((text for one in (*targeting, *elsewhere) for text in _unknown(one, sets, counters)), "")
    if problem:
        return Pool(first.pool_id, invalid=problem)
    reached = tuple([entry for one in targeting for entry in _entries(node, one, _rules_for(one, devices))])
    consumers = [entry for entry in reached if entry.device.consumes]
    consumers += [
        PoolDevice(DeviceID(one.driver, one.pool, device.name), device, one, False, ())
        for one in elsewhere
        for device in one.devices
        if device.consumes
    ]
    binds_later = any(entry.device.binding_conditions for entry in reached)
    return Pool(first.pool_id, reached, tuple(consumers), counters, binds_later=binds_later)


def pools_of(
    node: Node,
    devices: Devices,
    made: Callable[[Node, Sequence[ResourceSlice], Devices], Pool | None] = pool_of,
) -> list[Pool]:
    """Return pools in the order of the search: by name, those with binding conditions last (GatherPools).

    `made`: makes a pool, or knows it.
    """
    found: dict[PoolID, list[ResourceSlice]] = {}
    for one in (*devices.slices_on(node.name), *devices.shared_slices):
        if one.uses_groups or not _is_relevant(node, one):
            continue
        known = found.get(one.pool_id)
        if known is None or one.generation > known[0].generation:
            found[one.pool_id] = [one]
        elif one.generation == known[0].generation:
            known.append(one)
    pools = [made(node, slices, devices) for slices in found.values()]
    return sorted([pool for pool in pools if pool is not None], key=lambda pool: (pool.binds_later, pool.id))


def _is_relevant(node: Node, one: ResourceSlice) -> bool:
    if one.access.is_given:
        return reaches(node, one.access)
    return one.per_device_nodes and any(reaches(node, device.access) for device in one.devices)


def _is_plain(one: ResourceSlice) -> bool:
    """Return whether nothing has to be said of its devices but what they say themselves."""
    if one.per_device_nodes or one.counters or any(device.consumes for device in one.devices):
        return False
    return len({device.name for device in one.devices}) == len(one.devices)


def _rules_for(one: ResourceSlice, devices: Devices) -> list[DeviceTaintRule]:
    rules = devices.rules.values()
    return [rule for rule in rules if rule.driver in (None, one.driver) and rule.pool in (None, one.pool)]


def _entries(node: Node, one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> Iterator[PoolDevice]:
    for device in one.devices:
        ruled = [rule.taint for rule in rules if rule.device in (None, device.name)]
        yield _entry(one, device, reached=not one.per_device_nodes or reaches(node, device.access), ruled=ruled)


def _entry(one: ResourceSlice, device: Device, *, reached: bool = True, ruled: Sequence[Taint] = ()) -> PoolDevice:
    taints = hard_taints(device, ruled) if device.taints or ruled else ()
    return PoolDevice(DeviceID(one.driver, one.pool, device.name), device, one, reached, taints)


def hard_taints(device: Device, ruled: Sequence[Taint] = ()) -> tuple[Taint, ...]:
    """The taints of a device that keep claims off it. `ruled`: those that rules give it."""
    return tuple([taint for taint in (*device.taints, *ruled) if taint.effect in HARD])


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    names: set[str] = set()
    for one in slices:
        for device in one.devices:
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
    return ""


def _unknown(one: ResourceSlice, sets: set[str], counters: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield what devices use and the pool does not have."""
    for device in one.devices:
        for counter_set, amounts in device.consumes:
            if counter_set not in sets:
                yield f"counter set {counter_set} not found"
            for counter, _ in amounts:
                if (counter_set, counter) not in counters:
                    yield f"counter {counter} not found in counter set {counter_set}"


def available_counters(pool: Pool, holders: AllocatedDevices) -> dict[tuple[str, str], int]:
    """Return what is left of the counters of a pool, in nano-units; less than nothing where too much was given."""
    available = dict(pool.counters)
    for one in pool.consumers:
        if holders.is_allocated(one.id):
            for counter, amount in uses(one.device):
                if counter in available:
                    available[counter] -= amount
    return available


def uses(device: Device) -> Iterable[tuple[tuple[str, str], int]]:
    """((counter set, counter), nano-units) that a device takes of its pool."""
    for counter_set, counters in device.consumes:
        for counter, amount in counters:
            yield (counter_set, counter), amount


def tolerates_all(alternative: Alternative, taints: Iterable[Taint]) -> bool:
    """Return whether a request tolerates each of the taints of a device."""
    return all(tolerates(alternative.asked.tolerations, taint) for taint in taints)


class TakenPlaces:
    """The places of one pool's devices that a search passes over: taken ones, and those that it never selects."""

    def __init__(self, pool: Pool, allocated: AllocatedDevices) -> None:
        self._places = {entry.id: i for i, entry in enumerate(pool.devices)}
        self._taken = bytearray([allocated.is_taken(entry.id) for entry in pool.devices])
        self._passed: dict[Selectors, bytearray] = {}
        """By selectors, a byte for each place: 0 for those that are left."""

    def note(self, device: DeviceID, *, taken: bool) -> None:
        """A claim has taken a device for itself, or has given it back."""
        place = self._places.get(device)
        if place is None:
            return
        self._taken[place] = taken
        for passed in self._passed.values():
            passed[place] = (passed[place] & _NOT_SELECTED) | (_TAKEN if taken else 0)

    def note_not_selected(self, selectors: Selectors, place: int) -> None:
        """A device is not selected, and never will be."""
        self._of(selectors)[place] |= _NOT_SELECTED

    def left(self, selectors: Selectors, begin: int) -> Iterator[int]:
        """The places from one on, without those that are taken, and those that are known not to be selected."""
        passed = self._of(selectors)
        place = passed.find(0, begin)
        while place >= 0:
            yield place
            place = passed.find(0, place + 1)

    def _of(self, selectors: Selectors) -> bytearray:
        found = self._passed.get(selectors)
        if found is None:
            if len(self._passed) >= _SELECTORS:
                self._passed.clear()
            found = self._passed[selectors] = bytearray(self._taken)
        return found
