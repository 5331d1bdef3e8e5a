"""Upstream: plugins/noderesources/balanced_allocation.go."""

import math
from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from scheduler.framework.plugin import MAX_SCORE, NODE, PODS_HERE, Plugin
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.plugins.resource_strategies import ResourceWeight, amounts, amounts_on, counting, doubles_hold
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints, Numbers
from scheduler.state.nodes import Nodes


class NodeResourcesBalancedAllocationArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The resources to balance; weights are ignored."""

    resources: list[ResourceWeight] = []

    def defaulted(self) -> Self:
        """With the resources that stand for none."""
        return replace(self, resources=self.resources or [ResourceWeight("cpu"), ResourceWeight("memory")])


class NodeResourcesBalancedAllocation(Plugin):
    """Prefer nodes whose resources would be used more evenly with the pod than without it."""

    name = "NodeResourcesBalancedAllocation"
    depends_on = NODE | PODS_HERE
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        self._resources = args.defaulted().resources

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
        """What is asked for."""
        return tuple(shape.requests.items())

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """50 to 100 by how the deviation of the fractions changes; a pod that asks for none takes no part."""
        if not any(pod.shape.requests.get(resource.name, 0) for resource in self._resources):
            return None
        half = MAX_SCORE // 2
        counted = tuple(counting(self._resources, pod, cluster.nodes, nonzero=False))
        if not counted:
            return np.full(len(feasible), half + half // 2, dtype=np.int64)
        change = None
        if len(counted) == 2 and doubles_hold(cluster.nodes):
            change = self._change_of_two((counted[0], counted[1]), pod, cluster.nodes, feasible)
        if change is None:
            found = amounts(counted, pod, cluster.nodes, feasible, nonzero=False)
            change = _evenness([(r.used + r.asked, r.capacity) for r in found])
            change -= _evenness([(r.used, r.capacity) for r in found])
        change += half
        change *= 0.5
        change += half  # nothing here is negative: the halves are cut off by the conversion
        return change.astype(np.int64)

    def _change_of_two(
        self, counted: tuple[ResourceWeight, ResourceWeight], pod: Pod, nodes: Nodes, feasible: Any
    ) -> Numbers | None:
        """float64[len(feasible)]: how the evenness of two resources changes; None where a node lacks one of them.

        What does not depend on the pod is kept.
        """
        indices = [nodes.resources[resource.name] for resource in counted]

        def of_all(nodes: Nodes) -> Numbers:
            found = amounts(counted, pod, nodes, np.arange(nodes.rows), nonzero=False)
            held = np.empty((6, nodes.rows))
            for i, r in enumerate(found):
                held[i], held[2 + i] = r.used, np.maximum(r.capacity, 1)
            held[4] = np.minimum(found[0].capacity, found[1].capacity)
            held[5] = _evenness([(r.used, r.capacity) for r in found])
            return held

        def of_row(nodes: Nodes, row: int) -> list[float]:
            used = [nodes.requested.item(index, row) for index in indices]
            capacity = [nodes.allocatable.item(index, row) for index in indices]
            before = _evenness_on(list(zip(used, capacity, strict=True)))
            return [*used, *(max(amount, 1) for amount in capacity), min(capacity), before]

        held = nodes.derived((self.name, *(r.name for r in counted), *indices), of_all, of_row)
        if len(feasible) != held.shape[1]:
            held = held.take(feasible, axis=1)
        has = held[4]
        if not len(has) or not has[has.argmin()]:
            return None
        fractions = held[:2] + np.array([[float(pod.shape.requests.get(r.name, 0))] for r in counted])
        fractions /= held[2:4]
        np.minimum(fractions, 1.0, out=fractions)
        change = _of_two(fractions[0], fractions[1])
        change -= held[5]
        return change

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        """As `score`, for one row."""
        found = amounts_on(self._resources, pod, nodes, row, nonzero=False)
        half = MAX_SCORE // 2
        if not found:
            return half + half // 2
        after = _evenness_on([(used + asked, capacity) for _, capacity, used, asked in found])
        change = half + after - _evenness_on([(used, capacity) for _, capacity, used, _ in found])
        return half + change // 2


def _evenness_on(found: list[tuple[int, int]]) -> int:
    """As `_evenness`, for one node. Sums are written out because `sum` rounds otherwise from Python 3.12 on."""
    deviation = 0.0
    if len(found) == 2 and found[0][1] and found[1][1]:
        (used, capacity), (others, room) = found
        deviation = min(float(used) / float(capacity), 1.0) - min(float(others) / float(room), 1.0)
        return int((1 - abs(deviation / 2)) * float(MAX_SCORE))
    fractions = [min(float(used) / float(capacity), 1.0) for used, capacity in found if capacity]
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * float(MAX_SCORE))


def _evenness(found: list[tuple[Numbers, Numbers]]) -> Numbers:
    """100 × (1 − standard deviation of used/capacity), truncated, of (used, capacity) by resource; doubles.

    The order of operations is upstream's.
    """
    fractions = []
    counted: list[Any] = []
    for used, capacity in found:
        has = capacity != 0
        everywhere = np.count_nonzero(has) == len(has)
        divisor = capacity if everywhere else np.where(has, capacity, 1)
        fraction = used / divisor
        np.minimum(fraction, 1.0, out=fraction)
        fractions.append(fraction if everywhere else np.where(has, fraction, 0.0))
        counted.append(None if everywhere else has)
    if len(found) == 2 and all(has is None for has in counted):
        return _of_two(fractions[0], fractions[1])
    ones = np.ones(len(fractions[0]), dtype=np.bool_)
    return _of_deviation(_deviation(fractions, [ones if has is None else has for has in counted]))


def _of_two(one: Numbers, other: Numbers) -> Numbers:
    """The evenness of two fractions, written over the first."""
    one -= other
    np.abs(one, out=one)
    one *= 0.5
    return _of_deviation(one)


def _of_deviation(deviation: Numbers) -> Numbers:
    np.subtract(1, deviation, out=deviation)
    deviation *= float(MAX_SCORE)
    return np.floor(deviation, out=deviation)


def _deviation(fractions: list[Any], counted: list[Any]) -> Any:
    """Per node over the resources it has: 0 for one, half the difference for two, else the root mean square."""
    how_many = sum(has.astype(np.int64) for has in counted)
    total: Any = 0.0
    for fraction in fractions:
        total = total + fraction
    mean = total / np.maximum(how_many, 1)
    squares: Any = 0.0
    signed: Any = 0.0
    sign = np.ones_like(mean)
    for fraction, has in zip(fractions, counted, strict=True):
        squares = squares + np.where(has, (fraction - mean) * (fraction - mean), 0.0)
        signed = signed + np.where(has, sign * fraction, 0.0)
        sign = np.where(has, -sign, sign)
    many = np.sqrt(squares / np.maximum(how_many, 1))
    return np.where(how_many == 2, np.abs(signed / 2), np.where(how_many > 2, many, 0.0))
