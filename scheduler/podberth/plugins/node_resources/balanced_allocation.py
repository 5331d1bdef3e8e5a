"""Upstream: plugins/noderesources/balanced_allocation.go."""

from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints, at
from podberth.cache.nodes import Nodes
from podberth.framework.interface import MAX_SCORE, NODE, PODS_HERE, Plugin
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.plugins.node_resources.amounts import Amount, Arithmetic, counting, score_row, score_rows
from podberth.plugins.node_resources.arguments import ResourceWeight
from podberth.plugins.node_resources.by_devices import ByDevices

_HALF = MAX_SCORE // 2


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
            return self._by_devices.score_rows(pod, nodes, feasible, balance, nonzero=False)
        after = score_rows(resources, pod, nodes, feasible, with_pod, nonzero=False)

        def of_all(nodes: Nodes) -> Ints:
            return score_rows(resources, pod, nodes, np.arange(nodes.rows), without_pod, nonzero=False)

        def of_row(nodes: Nodes, row: int) -> int:
            return score_row(resources, pod, nodes, row, without_pod, nonzero=False)

        counted = tuple([nodes.resources[one.name] for one in counting(resources, pod, nodes, nonzero=False)])
        before = at(nodes.derived((self.name, counted), of_all, of_row), feasible)
        scores: Ints = _change(before, after)
        return scores

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        if self._by_devices.counts_again(pod, nodes):
            return self._by_devices.score(pod, nodes, row, balance, nonzero=False)
        return score_row(self._resources, pod, nodes, row, balance, nonzero=False)


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
    return evenness([a.fraction(used + asked, capacity) for _, capacity, used, asked in found], a)


def without_pod(found: Sequence[Amount], a: Arithmetic) -> Any:
    """Return how even they are."""
    return evenness([a.fraction(used, capacity) for _, capacity, used, _ in found], a)


def evenness(fractions: Sequence[Any], a: Arithmetic) -> Any:
    """100 × (1 − standard deviation), cut off; of two, half of what they differ by.

    The order of operations is upstream's. Sums are written out because `sum` rounds otherwise from Python 3.12 on.
    """
    least = a.least
    fractions = [least(fraction, 1.0) for fraction in fractions]
    deviation: Any = 0.0
    if len(fractions) == 2:
        first, second = fractions
        deviation = abs(first - second)
        deviation *= 0.5
    elif len(fractions) > 2:
        total: Any = 0.0
        squares: Any = 0.0
        for fraction in fractions:
            total = total + fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = a.root(squares / len(fractions))
    even = 1 - deviation
    even *= float(MAX_SCORE)
    return a.whole(even)
