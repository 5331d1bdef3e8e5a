"""Upstream: plugins/noderesources/fit.go."""

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.framework.decision import Rows
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NODE, PODS_HERE, Assignment, OtherObject, Plugin
from podberth.framework.status import Reason, Rejections, Unresolvable, Unschedulable
from podberth.model.devices import IMPLICIT_PREFIX, DeviceClass
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.resources import is_extended
from podberth.model.selectors import is_qualified_name
from podberth.model.shape import PodShape
from podberth.plugins.node_resources.amounts import score_row, score_rows
from podberth.plugins.node_resources.arguments import ResourceWeight, ScoringStrategy
from podberth.plugins.node_resources.by_devices import ByDevices
from podberth.plugins.node_resources.placements import score_placement
from podberth.plugins.node_resources.strategies import strategy

_PLENTY = 1 << 60
"""More than any pods can take, for what is not counted on a node."""


class NodeResourcesFitArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Which extended resources to ignore, and how to score."""

    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")

    def defaulted(self) -> Self:
        """With the resources that stand for none."""
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=strategy.weights()))


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
        self._resources: list[ResourceWeight] = args.scoring_strategy.weights()
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
        """Reject for the number of pods and for each resource asked for; above allocatable is unresolvable."""
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
        """The names of the resources, in the order of the amounts."""
        return tuple([name for name, _ in self._asked(shape)])

    def takes(self, pod: Pod, shape: PodShape) -> list[int]:
        """Return what a placed pod takes of each."""
        return [1, *(shape.requests.get(name, 0) for name, _ in self._asked(pod.shape))]

    def _asked(self, shape: PodShape) -> list[tuple[str, int]]:
        return [(name, amount) for name, amount in shape.requests.items() if amount > 0 and not self._ignores(name)]

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """Score by the configured strategy over the configured resources, cpu and memory with non-zero defaults."""
        if self._by_devices.counts_for(pod, cluster):
            return self._by_devices.score_rows(pod, cluster.nodes, feasible, self._strategy, nonzero=True)
        return score_rows(self._resources, pod, cluster.nodes, feasible, self._strategy, nonzero=True)

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        if self._by_devices.counts_again(pod, nodes):
            return self._by_devices.score(pod, nodes, row, self._strategy, nonzero=True)
        return score_row(self._resources, pod, nodes, row, self._strategy, nonzero=True)

    def placement_score(self, assignment: Assignment, cluster: Cluster) -> int:
        """Return how much of all its nodes together would be taken, whatever strategy single nodes are scored by."""
        return score_placement(self._resources, assignment, cluster.nodes)

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that could hold the pod if it were empty, and could not, or had less of something it asks for."""
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
        return any(new.allocatable.get(name, 0) > before.get(name, 0) for name, _ in asked)

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
