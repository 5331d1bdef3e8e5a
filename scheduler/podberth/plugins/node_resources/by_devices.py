"""Extended resources that nodes have as devices, as far as they count for scores.

Upstream: plugins/noderesources/resource_allocation.go (calculateDRAResourceTotals).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.devices import Devices
from podberth.cache.nodes import Nodes
from podberth.model.devices import Device, DeviceClass, DeviceID, ResourceSlice
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_devices import may_be_devices
from podberth.plugins.dynamic_resources.pools import reaches
from podberth.plugins.dynamic_resources.requested import AllocationError
from podberth.plugins.dynamic_resources.selecting import Programs
from podberth.plugins.node_resources.amounts import ONE, Amount, Formula, amount_of_row
from podberth.plugins.node_resources.arguments import ResourceWeight


class ByDevices:
    """For one scorer, how many devices of a class nodes have, and how many of them are allocated."""

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
        """As `counts_for`, when that was asked before."""
        asked = pod.shape.requests
        return bool(self._names) and any(asked.get(name) and name in nodes.served for name in self._names)

    def score_rows(self, pod: Pod, nodes: Nodes, feasible: Any, formula: Formula, *, nonzero: bool) -> Ints:
        """int64[len(feasible)]: the scores of these rows."""
        scores = [self.score(pod, nodes, row, formula, nonzero=nonzero) for row in feasible.tolist()]
        return np.array(scores, dtype=np.int64)

    def score(self, pod: Pod, nodes: Nodes, row: int, formula: Formula, *, nonzero: bool) -> int:
        """A formula over what the node of a row has, as devices or otherwise."""
        asks = pod.shape.scoring if nonzero else pod.shape.requests
        node = nodes.objects[row]
        amounts: list[Amount] = []
        for resource in self._resources:
            name = resource.name
            amount = amount_of_row(resource, asks.get(name, 0), nodes, row, nonzero=nonzero)
            if amount is None and name in self._names and asks.get(name, 0) and node is not None:
                capacity, used = self._totals(node, name)
                amount = (resource.weight, capacity, used, asks[name]) if capacity else None
            if amount is not None:
                amounts.append(amount)
        score: int = ONE.whole(formula(amounts, ONE))
        return score

    def _totals(self, node: Node, resource: str) -> tuple[int, int]:
        """(devices of the class that serves the resource, those of them that are allocated)."""
        devices = self._devices
        of = None if devices is None else devices.class_of(resource)
        if devices is None or of is None:
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
        if one.by_device or one.place.everywhere or one.place.selector is None or reaches(node, one.place):
            yield from _of(one, node)


def _of(one: ResourceSlice, node: Node) -> Iterator[tuple[DeviceID, Device]]:
    for device in one.devices:
        if not one.by_device or device.place.everywhere or reaches(node, device.place):
            yield DeviceID(one.driver, one.pool, device.name), device
