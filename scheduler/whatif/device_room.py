"""How many more pods with claims of their own each node takes, where no device is reached from two nodes.

What one node gives then changes nothing on another one. So the devices of a node are counted by giving them to one pod
after the other, once for all nodes whose devices differ in names only; everything else is counted by sums.
"""

from copy import copy

import numpy as np
from msgspec.structs import replace

from scheduler.framework.runtime import Framework
from scheduler.model.devices import Allocation
from scheduler.model.pod import Pod
from scheduler.plugins.dynamic_resources.plugin import DynamicResources
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints
from scheduler.whatif.room import Room, room

_MOST = 10_000
"""Pods that the devices of one node are counted for."""


def device_room(pod: Pod, framework: Framework, cluster: Cluster) -> Room | None:
    """What each node takes; None where that is not a question about each node by itself.

    `pod` has claims of its own, which are there, and its equals would have such claims, too. Raises PluginError.
    """
    plugin = framework.plugin("DynamicResources")
    if not isinstance(plugin, DynamicResources) or any(one.template is None for one in pod.shape.claims):
        return None
    shape = copy(pod.shape)
    shape.claims = ()
    others = room(replace(pod, shape=shape), framework, cluster)
    if others is None:
        return None
    served = _served(pod, plugin, cluster)
    if served is None:
        return None
    counts = np.minimum(others.counts, served)
    few = np.flatnonzero((served < others.counts) & (served > 0)).tolist()
    limits = {row: limit for row, limit in others.limits.items() if counts[row]}
    return Room(counts, limits | dict.fromkeys(few, plugin.unallocatable.text))


def _served(pod: Pod, plugin: DynamicResources, cluster: Cluster) -> Ints | None:
    """int64[rows]: how many pods get their devices on each node."""
    groups = plugin.alike(pod, cluster)
    if groups is None:
        return None
    served = np.zeros(cluster.nodes.rows, dtype=np.int64)
    for rows in groups:
        number = _served_by(rows[0], pod, plugin, cluster)
        if number is None:
            return None
        served[rows] = number
    return served


def _served_by(row: int, pod: Pod, plugin: DynamicResources, cluster: Cluster) -> int | None:
    """The same of one node; None: it is not found out."""
    devices, number = cluster.devices, 0
    taken: list[str] = []
    try:
        while (given := plugin.given_if_any(pod, cluster, row)) is not None:
            number += 1
            if number > _MOST:
                return None
            for claim, those in given.items():
                taken.append(f"room/{number}/{claim}")
                devices.assume(taken[-1], Allocation(tuple(those), None), None)
    finally:
        for uid in taken:
            devices.restore(uid)
    return number
