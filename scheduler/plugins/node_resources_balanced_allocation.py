"""Upstream: plugins/noderesources/balanced_allocation.go."""

import math
from typing import Any

import numpy as np
from msgspec import Struct

from scheduler.framework.plugin import MAX_SCORE
from scheduler.model.pod import Pod
from scheduler.plugins.resource_strategies import Amounts, ResourceWeight, amounts, amounts_on
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints
from scheduler.state.nodes import Nodes


class NodeResourcesBalancedAllocationArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The resources to balance; weights are ignored."""

    resources: list[ResourceWeight] = []


class NodeResourcesBalancedAllocation:
    """Prefer nodes whose resources would be used more evenly with the pod than without it."""

    name = "NodeResourcesBalancedAllocation"
    scores_by_shape = True
    Args = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        self._resources = args.resources or [ResourceWeight("cpu"), ResourceWeight("memory")]

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

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """50 to 100 by how the deviation of the fractions changes; a pod that asks for none takes no part."""
        if not any(pod.shape.requests.get(resource.name, 0) for resource in self._resources):
            return None
        found = amounts(self._resources, pod, cluster.nodes, feasible, nonzero=False)
        half = MAX_SCORE // 2
        if not found:
            return np.full(len(feasible), half + half // 2, dtype=np.int64)
        change = half + _evenness(found, with_pod=True) - _evenness(found, with_pod=False)
        return half + change // 2

    def score_on(self, pod: Pod, nodes: Nodes, row: int) -> int:
        """As `score`, for one row."""
        found = amounts_on(self._resources, pod, nodes, row, nonzero=False)
        half = MAX_SCORE // 2
        if not found:
            return half + half // 2
        after = [min(float(used + asked) / float(capacity), 1.0) for _, capacity, used, asked in found if capacity]
        before = [min(float(used) / float(capacity), 1.0) for _, capacity, used, _ in found if capacity]
        change = half + _evenness_on(after) - _evenness_on(before)
        return half + change // 2


def _evenness_on(fractions: list[float]) -> int:
    """As `_evenness`, for the fractions of the resources that one node has. `sum` would round otherwise (3.12)."""
    deviation = 0.0
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


def _evenness(found: list[Amounts], *, with_pod: bool) -> Ints:
    """100 × (1 − standard deviation of used/capacity), truncated. The order of operations is upstream's."""
    fractions = []
    counted: list[Any] = []
    for resource in found:
        used = resource.used + resource.asked if with_pod else resource.used
        has = resource.capacity != 0
        everywhere = bool(has.all())
        fraction = np.minimum(used / (resource.capacity if everywhere else np.where(has, resource.capacity, 1)), 1.0)
        fractions.append(fraction if everywhere else np.where(has, fraction, 0.0))
        counted.append(None if everywhere else has)
    if len(found) == 2 and all(has is None for has in counted):
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        ones = np.ones(len(fractions[0]), dtype=np.bool_)
        deviation = _deviation(fractions, [ones if has is None else has for has in counted])
    evenness: Ints = ((1 - deviation) * float(MAX_SCORE)).astype(np.int64)
    return evenness


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
