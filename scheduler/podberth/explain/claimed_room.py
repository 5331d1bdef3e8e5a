"""How many more pods with claims of their own each node takes, where what one node gives changes nothing on another.

Devices that are reached from one node only are counted by giving them to one pod after the other, once for all nodes
whose devices the claims can't tell apart. Volumes go by how many a node can attach (`podberth.explain.volume_room`).
Everything else is counted by sums, for a pod that has no claims.
"""

from collections.abc import Collection
from copy import copy

import numpy as np
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.explain.room import Room, room
from podberth.explain.volume_room import PLENTY, attachable
from podberth.framework.runtime import Framework
from podberth.model.devices import Allocation
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.storage import ClaimKey
from podberth.model.volumes import NO_VOLUMES
from podberth.plugins.dynamic_resources.claims import device_resources
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.node_volume_limits import NodeVolumeLimits

_MOST = 10_000
"""Pods that the devices of one node are counted for."""


def claimed_room(
    pod: Pod, framework: Framework, cluster: Cluster, own: Collection[ClaimKey] = frozenset()
) -> Room | None:
    """Return what each node takes; None where that is not a question about each node by itself.

    The pod's equals would have claims like its own, which are there. `own`: of those, the ones for volumes.

    Raises PluginError.
    """
    most: list[tuple[Ints, str]] = []
    bare = without_claims(pod.shape)
    if pod.shape.volumes is not NO_VOLUMES:
        volumes = attachable(pod, framework, cluster, own)
        if volumes is None:
            return None
        most.append((volumes, NodeVolumeLimits.too_many.text))
    feasible = framework.find(pod, cluster).feasible
    if not len(feasible):
        return Room(np.zeros(cluster.nodes.rows, dtype=np.int64), {})
    by_itself: Room | None = None
    there: list[int] = []
    if pod.shape.claims or pod.shape.containers:
        plugin = framework.plugin("DynamicResources")
        if not isinstance(plugin, DynamicResources) or any(one.template is None for one in pod.shape.claims):
            return None
        resources = device_resources(pod, cluster.devices)
        if pod.shape.claims or resources:
            devices = _served(pod, plugin, cluster)
            if devices is None:
                return None
            most.append((devices, plugin.unallocatable.text))
        if resources:
            there = plugin.without_devices(pod, cluster)
            by_itself = room(replace(pod, shape=copy(bare)), framework, cluster)
            if by_itself is None:
                return None
            bare.requests = {name: amount for name, amount in bare.requests.items() if name not in resources}
    others = room(replace(pod, shape=bare), framework, cluster)
    if others is None:
        return None
    counts, limits = others.counts.copy(), dict(others.limits)
    if by_itself is not None:
        counts[there] = by_itself.counts[there]
        limits |= {row: by_itself.limits[row] for row in there if row in by_itself.limits}
    for bound, said in most:
        limits |= dict.fromkeys(np.flatnonzero((bound < counts) & (bound > 0)).tolist(), said)
        counts = np.minimum(counts, bound)
    passing = np.zeros(len(counts), dtype=np.bool_)
    passing[feasible] = True
    counts = np.where(passing, counts, 0)
    return Room(counts, {row: limit for row, limit in limits.items() if counts[row]})


def without_claims(shape: PodShape) -> PodShape:
    """The shape of a pod that asks for the same, but for volumes and devices."""
    bare = copy(shape)
    bare.volumes, bare.claims, bare.containers = NO_VOLUMES, (), ()
    return bare


def _served(pod: Pod, plugin: DynamicResources, cluster: Cluster) -> Ints | None:
    """int64[rows]: how many pods get their devices on each node."""
    groups = plugin.alike(pod, cluster)
    if groups is None:
        return None
    served = np.zeros(cluster.nodes.rows, dtype=np.int64)
    served[plugin.without_devices(pod, cluster)] = PLENTY
    for rows in groups:
        number = _served_by(rows[0], pod, plugin, cluster)
        if number is None:
            return None
        served[rows] = number
    return served


def _served_by(row: int, pod: Pod, plugin: DynamicResources, cluster: Cluster) -> int | None:
    """Return how many pods get their devices on one node; None: more than are counted."""
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
