"""NodeResourcesFit, NodeResourcesBalancedAllocation, and how both score. Upstream: plugins/noderesources.

The allocatable and requested amounts of nodes are read for all rows at once, or for one. A formula is written once, for
arrays and for plain numbers alike; where the two differ, it asks `ROWS` or `ONE`.
"""

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints, Numbers, at
from podberth.cache.devices import Devices
from podberth.cache.nodes import CPU, EPHEMERAL, MEMORY, Nodes
from podberth.framework.decision import Rows
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAX_SCORE, NODE, PODS_HERE, Assignment, OtherObject, Plugin
from podberth.framework.status import Reason, Rejections, Unresolvable, Unschedulable
from podberth.model.devices import Device, DeviceClass, DeviceID, ResourceSlice
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.resources import IMPLICIT_PREFIX, is_extended
from podberth.model.selectors import is_qualified_name
from podberth.model.shape import PodShape, may_be_devices
from podberth.plugins.dynamic_resources.pools import reaches
from podberth.plugins.dynamic_resources.requested import AllocationError
from podberth.plugins.dynamic_resources.selecting import Programs
from podberth.plugins.shape_score import SHAPE_SCALE, ShapePoint, broken_linear, check_shape


class ResourceWeight(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """A resource and its share in the score."""

    name: str
    """A resource, such as cpu."""
    weight: int = 1
    """Its share in the score: 1 to 100, and always 1 for NodeResourcesBalancedAllocation."""


def _defaulted(resources: list[ResourceWeight]) -> list[ResourceWeight]:
    """The resources with defaults: cpu and memory where none are named; a weight of 0 stands for 1."""
    found = resources or [ResourceWeight("cpu"), ResourceWeight("memory")]
    return [ResourceWeight(resource.name, resource.weight or 1) for resource in found]


class RequestedToCapacityRatio(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The piecewise linear function of utilization."""

    shape: list[ShapePoint] = []
    """Points of the function from utilization to score."""


class ScoringStrategy(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """LeastAllocated, MostAllocated or RequestedToCapacityRatio over weighted resources."""

    type: Annotated[
        str, Meta(extra_json_schema={"enum": ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]})
    ] = ""
    """LeastAllocated (also where there is no scoringStrategy; in one, the type is required) prefers empty nodes,
    MostAllocated used ones; RequestedToCapacityRatio follows the shape."""
    resources: list[ResourceWeight] = []
    """The resources that count; cpu and memory, where the list is empty."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The function of the type RequestedToCapacityRatio."""

    def check(self, path: str) -> list[str]:
        """Errors (the part of ValidateNodeResourcesFitArgs that is about scoring)."""
        errors = []
        if self.type not in STRATEGIES:
            supported = ", ".join(f'"{name}"' for name in STRATEGIES)
            errors.append(f'{path}.type: Unsupported value: "{self.type}": supported values: {supported}')
        for i, resource in enumerate(self.resources):
            if not 0 <= resource.weight <= 100:
                errors.append(
                    f"{path}.resources[{i}].weight: Invalid value: {resource.weight}: "
                    f"resource weight of {resource.name} not in valid range (0, 100]"
                )
        ratio, where = self.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if self.type == "RequestedToCapacityRatio":
            if ratio is None:
                errors.append(f"{where}: Required value: must be specified when type is RequestedToCapacityRatio")
            else:
                errors.extend(check_shape(ratio.shape, f"{where}.shape"))
        elif ratio is not None:
            errors.append(f"{where}: Forbidden: must be nil when type is not RequestedToCapacityRatio")
        return errors


STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


_DOUBLES_HOLD = 1 << 46
"""Capacities below it may be computed with as doubles; see `Arithmetic.quotient`."""
NATIVE = (CPU, MEMORY, EPHEMERAL)
"""They count for scores whether a pod asks for them or not. All other resources of nodes are scalar ones."""
ASSUMED = (CPU, MEMORY)
"""The resources of which scoring assumes some for containers that ask for none."""
BITS = 62
"""So many flags fit in an int64."""


Amount = tuple[int, Any, Any, int]
"""(weight, capacity, used, asked) of one resource, in the scheduler's units. Its arrays are not to be changed."""


class Arithmetic(NamedTuple):
    """Operations that differ for arrays and numbers. Results are written over a first argument that is an array."""

    quotient: Callable[[Any, Any], Any]
    """The floor of a division.

    Doubles are divided as such, which takes NumPy a fraction of the time. With capacities below 2**46 it can't be
    wrong: what is divided is from 0 to 100 × capacity, so below 2**53, and a true quotient under 100 that is no integer
    is farther from the next one (1 / 2**46) than it is rounded (2**-47).
    """
    fraction: Callable[[Any, Any], Any]
    """One by the other, as doubles; not written over anything."""
    share: Callable[[Any, Any], Any]
    """The same, but at most 1."""
    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]
    root: Callable[[Any], Any]
    whole: Callable[[Any], Any]
    """The integers of numbers that are not negative, the rest cut off."""


def _quotient(dividend: Numbers, divisor: Any) -> Numbers:
    if dividend.dtype == np.float64:
        dividend /= divisor
        return np.floor(dividend, out=dividend)
    dividend //= divisor
    return dividend


def _share(part: Any, whole: Any) -> Any:
    return np.minimum(part, whole) / whole  # compared with an array, which is quicker than with a number


def _share_of_one(part: Any, whole: Any) -> float:
    return float(min(part, whole)) / float(whole)


def _whole(numbers: Any) -> Ints:
    return np.asarray(numbers).astype(np.int64, copy=False)


ROWS = Arithmetic(
    _quotient,
    np.true_divide,
    _share,
    lambda numbers, most: np.minimum(numbers, most, out=numbers),
    lambda numbers, least: np.maximum(numbers, least, out=numbers),
    np.sqrt,
    _whole,
)
ONE = Arithmetic(operator.floordiv, lambda a, b: float(a) / float(b), _share_of_one, min, max, math.sqrt, int)

Formula = Callable[[Sequence[Amount], Arithmetic], Any]
"""The score of rows, or of one row, by resources that all of these rows have."""


Counted = list[tuple[ResourceWeight, int, int]]
"""(resource, its index among those of nodes, what a pod asks for)."""


def counting(resources: Sequence[ResourceWeight], asks: Mapping[str, int], nodes: Nodes) -> Counted:
    """The resources that count for a pod: those that a node has, and of the scalar ones those that it asks for."""
    found = [(one, nodes.resources.get(one.name), asks.get(one.name, 0)) for one in resources]
    return [(one, index, asked) for one, index, asked in found if index is not None and (index in NATIVE or asked)]


def score_rows(counted: Counted, used: int, nodes: Nodes, feasible: Any, formula: Formula) -> Ints:
    """int64[len(feasible)]: a formula over the resources that count, for each row over those that it has.

    `used`: REQUESTED or NONZERO_REQUESTED.
    """
    found = _on_rows(counted, used, nodes)
    if len(feasible) != nodes.rows:
        found = [(weight, at(has, feasible), at(used, feasible), asked) for weight, has, used, asked in found]
    lacking = [i for i, (_, index, _) in enumerate(counted) if nodes.lacked(index) and not found[i][1].min(initial=1)]
    if not lacking:
        whole: Ints = ROWS.whole(formula(found, ROWS))
        return whole if whole.ndim else np.full(len(feasible), whole)
    scores = np.zeros(len(feasible), dtype=np.int64)
    # One bit for each resource that some rows lack: sorting rows of flags takes a hundred times as long.
    kinds = np.zeros(len(feasible), dtype=np.int64 if len(lacking) < BITS else object)
    for bit, i in enumerate(lacking):
        kinds += (found[i][1] != 0) * (1 << bit)
    for kind in set(kinds.tolist()):  # np.unique sorts, and imports masked arrays at its first use
        here = np.flatnonzero(kinds == kind)
        without = {i for bit, i in enumerate(lacking) if not kind >> bit & 1}
        left = [one for i, one in enumerate(found) if i not in without]
        some = [(weight, capacity[here], used[here], asked) for weight, capacity, used, asked in left]
        scores[here] = ROWS.whole(formula(some, ROWS))
    return scores


def score_row(
    resources: Sequence[ResourceWeight],
    pod: Pod,
    nodes: Nodes,
    row: int,
    formula: Formula,
    *,
    nonzero: bool,
    by_devices: "ByDevices | None" = None,
) -> int:
    """Return what `score_rows` does, for one row. `by_devices`: counts resources that the node has as devices only."""
    found = []
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    indices, capacities, requested = nodes.resources, nodes.allocatable, nodes.requested
    assumed = nodes.nonzero if nonzero else requested
    for resource in resources:  # as `counting` does
        name = resource.name
        index, asked = indices.get(name), asks.get(name, 0)
        if index is not None and (asked or index in NATIVE) and (capacity := capacities.item(index, row)):
            used = assumed if index in ASSUMED else requested
            found.append((resource.weight, capacity, used.item(index, row), asked))
        elif by_devices is not None and asked:
            capacity, taken = by_devices.totals(nodes.objects[row], name)
            if capacity:
                found.append((resource.weight, capacity, taken, asked))
    score: int = ONE.whole(formula(found, ONE))
    return score


def _each(score_one: Callable[[Pod, Nodes, int], int], pod: Pod, nodes: Nodes, feasible: Any) -> Ints:
    """int64[len(feasible)]: the scores of rows that are looked at one by one."""
    return np.array([score_one(pod, nodes, row) for row in feasible.tolist()], dtype=np.int64)


ALLOCATABLE, REQUESTED, NONZERO_REQUESTED = range(3)
"""What is held of a resource: what is allocatable, what is requested, and that with the cpu and memory that scoring
assumes for containers that ask for none.
"""


def _on_rows(counted: Counted, used: int, nodes: Nodes) -> list[Amount]:
    """Return what all rows have and have given of each resource that counts.

    As doubles where all capacities are small enough. What is used may be beyond what a double holds, but then it is
    far beyond any such capacity too.
    """
    places = tuple([index for _, index, _ in counted])
    held = _as_doubles(nodes, places) if nodes.largest < _DOUBLES_HOLD else _held(nodes, places, np.int64)
    return [(one.weight, held[ALLOCATABLE, i], held[used, i], asked) for i, (one, _, asked) in enumerate(counted)]


def _as_doubles(nodes: Nodes, places: tuple[int, ...]) -> Numbers:
    """float64[3, resources, rows]: what is held, kept from pod to pod."""

    def of_row(nodes: Nodes, row: int) -> list[list[int]]:
        has, used = ([held.item(index, row) for index in places] for held in (nodes.allocatable, nodes.requested))
        nonzero = [nodes.nonzero.item(index, row) if index in ASSUMED else used[i] for i, index in enumerate(places)]
        return [has, used, nonzero]

    return nodes.derived(("as doubles", places), lambda nodes: _held(nodes, places, np.float64), of_row)


def _held(nodes: Nodes, places: tuple[int, ...], kind: type[np.int64 | np.float64]) -> Numbers:
    """kind[3, resources, rows]: what is held."""
    held: Numbers = np.empty((3, len(places), nodes.rows), dtype=kind)
    for i, index in enumerate(places):
        held[ALLOCATABLE, i] = nodes.allocatable[index, : nodes.rows]
        held[REQUESTED, i] = nodes.requested[index, : nodes.rows]
        held[NONZERO_REQUESTED, i] = nodes.nonzero[index, : nodes.rows] if index in ASSUMED else held[REQUESTED, i]
    return held


def strategy(config: ScoringStrategy) -> Formula:
    match config.type:
        case "MostAllocated":
            return most_allocated
        case "RequestedToCapacityRatio":
            ratio = config.requested_to_capacity_ratio
            points = [(p.utilization, p.score * (MAX_SCORE // SHAPE_SCALE)) for p in (ratio.shape if ratio else [])]
            return lambda found, a: requested_to_capacity_ratio(found, a, points)
    return least_allocated


def least_allocated(found: Sequence[Amount], a: Arithmetic) -> Any:
    """The weighted mean of the percentages that would be free."""
    total: Any = None
    weights = 0
    for weight, capacity, used, asked in found:
        left = capacity - a.least(used + asked, capacity)
        left *= MAX_SCORE
        score = a.quotient(left, capacity)
        if weight != 1:
            score *= weight
        if total is None:
            total = score
        else:
            total += score
        weights += weight
    return a.quotient(total, weights) if weights else 0


def most_allocated(found: Sequence[Amount], a: Arithmetic) -> Any:
    """The weighted mean of the percentages that would be requested."""
    total: Any = 0
    weights = 0
    for weight, capacity, used, asked in found:
        taken = a.least(used + asked, capacity)
        taken *= MAX_SCORE
        total += a.quotient(taken, capacity) * weight
        weights += weight
    return a.quotient(total, weights) if weights else 0


def requested_to_capacity_ratio(found: Sequence[Amount], a: Arithmetic, points: list[tuple[int, int]]) -> Any:
    """The mean of a function of utilization, over the resources for which it is above 0; halves go up, as in Go."""
    total: Any = 0
    weights: Any = 0
    for weight, capacity, used, asked in found:
        taken = a.least(used + asked, capacity)
        taken *= 100
        utilization = a.whole(a.quotient(taken, capacity))
        score = (
            broken_linear(utilization, points) if a is ROWS else int(broken_linear(np.array([utilization]), points)[0])
        )
        total = total + score * weight
        weights = weights + (score > 0) * weight
    return a.fraction(total, a.most(weights, 1)) + 0.5 if found else 0


class ByDevices:
    """Counts for one scorer how many devices of a class nodes have, and how many of them are allocated."""

    def __init__(self, resources: Sequence[ResourceWeight]) -> None:
        self._resources = resources
        self._names = [resource.name for resource in resources if may_be_devices(resource.name)]
        self._programs = Programs()
        self._devices: Devices | None = None

    def counts_for(self, pod: Pod, cluster: Cluster) -> bool:
        """Return whether a resource that counts for the pod may be there as devices."""
        if not self._names or not any(pod.shape.requests.get(name) for name in self._names):
            return False
        self._devices = cluster.devices
        if not any(name in cluster.nodes.served for name in self._names):
            return False
        cluster.devices.scored = True
        return True

    def counts_again(self, pod: Pod, nodes: Nodes) -> bool:
        """Return what `counts_for` does, when that was asked before."""
        asked = pod.shape.requests
        return bool(self._names) and any(asked.get(name) and name in nodes.served for name in self._names)

    def totals(self, node: Node | None, resource: str) -> tuple[int, int]:
        """(a node's devices of the class that serves the resource, those of them that are allocated)."""
        devices = self._devices
        of = None if devices is None or resource not in self._names else devices.class_of(resource)
        if devices is None or of is None or node is None:
            return 0, 0
        capacity = used = 0
        try:
            for device_id, device in _devices_for(node, devices):
                if self._is_of(of, device, device_id):
                    capacity += 1
                    used += devices.allocated.is_allocated(device_id)
        except AllocationError:
            return 0, 0  # it is said where devices are filtered
        return capacity, used

    def _is_of(self, of: DeviceClass, device: Device, device_id: DeviceID) -> bool:
        return all(
            self._programs.selects(expression, "", device.traits, device_id)
            for expression in of.selectors
            if expression is not None
        )


def _devices_for(node: Node, devices: Devices) -> Iterator[tuple[DeviceID, Device]]:
    for one in devices.slices_on(node.name):
        yield from _of(one, node)
    for one in devices.shared_slices:
        if one.per_device_nodes or one.access.all_nodes or one.access.selector is None or reaches(node, one.access):
            yield from _of(one, node)


def _of(one: ResourceSlice, node: Node) -> Iterator[tuple[DeviceID, Device]]:
    for device in one.devices:
        if not one.per_device_nodes or device.access.all_nodes or reaches(node, device.access):
            yield DeviceID(one.driver, one.pool, device.name), device


_PLENTY = 1 << 60
"""More than any pods can take, for what is not counted on a node."""


class NodeResourcesFitArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The extended resources that are ignored, and the way of scoring."""

    ignored_resources: list[str] = []
    """Extended resources that are ignored."""
    ignored_resource_groups: list[str] = []
    """Domains of extended resources that are ignored."""
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")
    """The way in which what is left of a node becomes a score."""

    def defaulted(self) -> Self:
        """Return a copy with the default resources and weights filled in."""
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=_defaulted(strategy.resources)))


class NodeResourcesFit(Plugin):
    """Keep a pod off nodes with too little left of anything it asks for; score by what would be left."""

    name = "NodeResourcesFit"
    depends_on = NODE | PODS_HERE
    Args = NodeResourcesFitArgs
    events = (
        ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_ALLOCATABLE
        | ClusterEvent.POD_GONE
        | ClusterEvent.POD_SHRUNK
        | ClusterEvent.OWN_REQUESTS
        | ClusterEvent.DEVICE_CLASS
    )
    full = Unschedulable("Too many pods")

    def __init__(self, args: NodeResourcesFitArgs) -> None:
        self._served: set[str] = set()
        """Resources that device classes serve where nodes have none, as `filter` has seen it."""
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._ignores_some = bool(self._ignored or self._ignored_groups)
        self._resources = args.defaulted().scoring_strategy.resources
        self._strategy = strategy(args.scoring_strategy)
        self._by_devices = ByDevices(self._resources)

    @staticmethod
    def check(args: NodeResourcesFitArgs, path: str) -> list[str]:
        """Errors of the arguments (ValidateNodeResourcesFitArgs)."""
        errors = []
        for i, name in enumerate(args.ignored_resources):
            if not is_qualified_name(name):
                errors.append(f'{path}.ignoredResources[{i}]: Invalid value: "{name}": not a qualified name')
        for i, name in enumerate(args.ignored_resource_groups):
            where = f"{path}.ignoredResourceGroups[{i}]"
            if "/" in name:
                errors.append(f"{where}: Invalid value: \"{name}\": resource group name can't contain '/'")
            if not is_qualified_name(name):
                errors.append(f'{where}: Invalid value: "{name}": not a qualified name')
        return errors + args.scoring_strategy.check(f"{path}.scoringStrategy")

    def signature(self, shape: PodShape) -> Hashable:
        """Return what is asked for, and what scoring assumes."""
        return tuple(shape.requests.items()), tuple(shape.scoring.items())

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that lack room for one more pod, or for a resource. More than allocatable is unresolvable."""
        nodes = cluster.nodes
        rows = nodes.rows
        self._served = nodes.served
        found = []
        full = nodes.pods[:rows] >= nodes.allowed_pods[:rows]
        if np.count_nonzero(full):
            found.append((self.full, full))
        everywhere: Bools | None = None
        resources = nodes.resources
        for name, amount in self._asked(pod.shape):
            index = resources.get(name)
            if index is None:
                if name not in nodes.served:
                    if everywhere is None:
                        everywhere = np.ones(rows, dtype=np.bool_)
                    found.append((Reason(f"Insufficient {name}", True), everywhere))
                continue
            allocatable = nodes.allocatable[index, :rows]
            short = allocatable - nodes.requested[index, :rows] < amount
            if name in nodes.served:
                short &= allocatable > 0  # elsewhere, devices may serve it
            if np.count_nonzero(short):
                never = allocatable < amount
                if np.count_nonzero(never):
                    never &= short
                    found.append((Unresolvable(f"Insufficient {name}"), never))
                    short &= ~never
                found.append((Unschedulable(f"Insufficient {name}"), short))
        return found

    def filter_one(self, pod: Pod, nodes: Nodes, row: int) -> bool:
        if nodes.pods.item(row) >= nodes.allowed_pods.item(row):
            return False
        for name, amount in pod.shape.requests.items():
            if amount <= 0 or (self._ignores_some and self._ignores(name)):
                continue
            index = nodes.resources.get(name)
            allocatable = 0 if index is None else nodes.allocatable.item(index, row)
            if not allocatable and name in nodes.served:
                continue
            if index is None or allocatable - nodes.requested.item(index, row) < amount:
                return False
        return True

    def needs(self, pod: Pod) -> list[int]:
        """Room for one more pod, and each resource asked for."""
        return [1, *(amount for _, amount in self._asked(pod.shape))]

    def free(self, pod: Pod, nodes: Nodes, rows: Rows) -> Ints:
        """Return what is left of each on some rows."""
        left = [nodes.allowed_pods[rows] - nodes.pods[rows]]
        for name, _ in self._asked(pod.shape):
            index = nodes.resources.get(name)
            if index is None:
                left.append(np.full_like(left[0], _PLENTY if name in nodes.served else 0))
                continue
            allocatable = nodes.allocatable[index, rows]
            free = allocatable - nodes.requested[index, rows]
            left.append(np.where(allocatable > 0, free, _PLENTY) if name in nodes.served else free)
        return np.stack(left)

    def counted(self, shape: PodShape) -> tuple[str, ...]:
        """The names of the resources, in the order of the amounts after the first, which is that of pods."""
        return tuple([name for name, _ in self._asked(shape)])

    def takes(self, pod: Pod, shape: PodShape) -> list[int]:
        """Return what a placed pod takes of each."""
        return [1, *(shape.requests.get(name, 0) for name, _ in self._asked(pod.shape))]

    def _asked(self, shape: PodShape) -> list[tuple[str, int]]:
        return [(name, amount) for name, amount in shape.requests.items() if amount > 0 and not self._ignores(name)]

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """Score by the configured strategy over the configured resources, cpu and memory with non-zero defaults."""
        if self._by_devices.counts_for(pod, cluster):
            return _each(self.score_one, pod, cluster.nodes, feasible)
        nodes = cluster.nodes
        counted = counting(self._resources, pod.shape.scoring, nodes)
        return score_rows(counted, NONZERO_REQUESTED, nodes, feasible, self._strategy)

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        by_devices = self._by_devices if self._by_devices.counts_again(pod, nodes) else None
        return score_row(self._resources, pod, nodes, row, self._strategy, nonzero=True, by_devices=by_devices)

    def placement_score(self, assignment: Assignment, cluster: Cluster) -> int:
        """Return how much of all its nodes together would be taken, whatever strategy single nodes are scored by.

        By the sums over all nodes of the placement, with the pods that found a node there (scorePlacement).
        """
        nodes, rows = cluster.nodes, assignment.placement.rows
        found: list[Amount] = []
        for resource in self._resources:
            name = resource.name
            index = nodes.resources.get(name)
            if index is None:
                continue
            asked = sum(pod.shape.scoring.get(name, 0) for pod in assignment.pods)
            if not (asked or index in NATIVE):
                continue
            capacity = nodes.allocatable[index, rows]
            used = (nodes.nonzero if index in ASSUMED else nodes.requested)[index, rows]
            # Added up by Python, as no int64 may hold it.
            if whole := sum(capacity.tolist()):
                found.append((resource.weight, whole, sum(used[capacity != 0].tolist()), asked))
        return int(most_allocated(found, ONE))

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Return whether the pod would fit on the node if it were empty, and the node is new, or takes more pods or has
        more of something that the pod asks for (isSchedulableAfterNodeChange).
        """
        if new.allowed_pods < 1:
            return False
        by_devices = False
        asked = self._asked(pod.shape)
        for name, amount in asked:
            if name in self._served and not new.allocatable.get(name, 0):
                by_devices = True
            elif new.allocatable.get(name, 0) < amount:
                return False
        if old is None or new.allowed_pods > old.allowed_pods or by_devices:
            return True
        before = old.allocatable
        return any(new.allocatable[name] > before.get(name, 0) for name, _ in asked)

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """A device class that serves a resource which the pod asks for, and did not."""
        if not isinstance(new, DeviceClass):
            return False
        requests = pod.shape.requests
        if not isinstance(old, DeviceClass):
            return f"{IMPLICIT_PREFIX}{new.name}" in requests or new.extended_resource in requests
        return old.extended_resource != new.extended_resource and new.extended_resource in requests

    def _ignores(self, resource: str) -> bool:
        return (
            self._ignores_some
            and is_extended(resource)
            and (resource in self._ignored or resource.partition("/")[0] in self._ignored_groups)
        )


_HALF = MAX_SCORE // 2


class NodeResourcesBalancedAllocationArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The resources to balance; weights are ignored."""

    resources: list[ResourceWeight] = []
    """The resources to balance; cpu and memory, where the list is empty."""

    def defaulted(self) -> Self:
        """Return a copy with the default resources and weights filled in."""
        return replace(self, resources=_defaulted(self.resources))


class NodeResourcesBalancedAllocation(Plugin):
    """Prefer nodes whose resources would be used more evenly with the pod than without it."""

    name = "NodeResourcesBalancedAllocation"
    depends_on = NODE | PODS_HERE
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        self._resources = args.defaulted().resources
        self._by_devices = ByDevices(self._resources)

    @staticmethod
    def check(args: NodeResourcesBalancedAllocationArgs, path: str) -> list[str]:
        """Errors of the arguments (ValidateNodeResourcesBalancedAllocationArgs); a weight of 0 stands for 1."""
        errors = []
        seen: set[str] = set()
        for i, resource in enumerate(args.resources):
            if resource.name in seen:
                errors.append(f'{path}.resources[{i}].name: Duplicate value: "{resource.name}"')
            seen.add(resource.name)
            if resource.weight not in (0, 1):
                errors.append(f"{path}.resources[{i}].weight: Invalid value: {resource.weight}: must be 1")
        return errors

    def signature(self, shape: PodShape) -> Hashable:
        """Return what is asked for."""
        return tuple(shape.requests.items())

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """50 to 100 by how the evenness of the fractions changes; a pod that asks for none takes no part."""
        if not any(pod.shape.requests.get(resource.name, 0) for resource in self._resources):
            return None
        nodes, resources = cluster.nodes, self._resources
        if self._by_devices.counts_for(pod, cluster):
            return _each(self.score_one, pod, nodes, feasible)
        counted = counting(resources, pod.shape.requests, nodes)
        after = score_rows(counted, REQUESTED, nodes, feasible, with_pod)

        def of_all(nodes: Nodes) -> Ints:
            return score_rows(counted, REQUESTED, nodes, np.arange(nodes.rows), without_pod)

        def of_row(nodes: Nodes, row: int) -> int:
            has, used = nodes.allocatable, nodes.requested
            found = [
                (one.weight, capacity, used.item(index, row), 0)
                for one, index, _ in counted
                if (capacity := has.item(index, row))
            ]
            score: int = ONE.whole(without_pod(found, ONE))
            return score

        places = tuple([index for _, index, _ in counted])
        before = at(nodes.derived((self.name, places), of_all, of_row), feasible)
        scores: Ints = _change(before, after)
        return scores

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        by_devices = self._by_devices if self._by_devices.counts_again(pod, nodes) else None
        return score_row(self._resources, pod, nodes, row, balance, nonzero=False, by_devices=by_devices)


def balance(found: Sequence[Amount], a: Arithmetic) -> Any:
    """Half of the scores are for nodes that become less even, the other half for those that become more even."""
    return _change(without_pod(found, a), with_pod(found, a))


def _change(before: Any, after: Any) -> Any:
    """50 + (after - before + 50) / 2, rounded down; as one sum, which takes arrays a third of the time."""
    change = after - before
    change += MAX_SCORE + _HALF
    change >>= 1
    return change


def with_pod(found: Sequence[Amount], a: Arithmetic) -> Any:
    """Return how even the fractions would be with the pod."""
    share = a.share
    return evenness([share(used + asked, capacity) for _, capacity, used, asked in found], a)


def without_pod(found: Sequence[Amount], a: Arithmetic) -> Any:
    """Return how even they are."""
    share = a.share
    return evenness([share(used, capacity) for _, capacity, used, _ in found], a)


def evenness(shares: Sequence[Any], a: Arithmetic) -> Any:
    """100 × (1 − standard deviation), cut off; of two, half of what they differ by.

    The order of operations is upstream's. Sums are written out because `sum` rounds otherwise from Python 3.12 on.
    """
    deviation: Any = 0.0
    if len(shares) == 2:
        first, second = shares
        deviation = abs(first - second)
        deviation *= 0.5
    elif len(shares) > 2:
        total: Any = 0.0
        squares: Any = 0.0
        for share in shares:
            total = total + share
        mean = total / len(shares)
        for share in shares:
            squares = squares + (share - mean) * (share - mean)
        deviation = a.root(squares / len(shares))
    even = 1 - deviation
    even *= float(MAX_SCORE)
    return a.whole(even)
