"""Counts how many more equal pods each node takes, by sums: no pod is placed to find out.

Only where pods of the kind on one node change nothing for those on another (`Filters.looks_elsewhere`); for the others
`podberth.explain.simulate.capacity` places one after the other. Pods with claims of their own, for volumes or devices,
are counted by what each node can attach and allocate.
"""

from collections import Counter
from collections.abc import Collection
from copy import copy
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.framework.declaration import declared
from podberth.framework.runtime import Framework
from podberth.model.devices import Allocation
from podberth.model.pod import Pod
from podberth.model.storage import ClaimKey
from podberth.model.volumes import NO_VOLUMES
from podberth.plugins.dynamic_resources.claims import device_resources
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.node_volume_limits import NodeVolumeLimits
from podberth.plugins.volume_binding.plugin import VolumeBinding

_RESOURCES = "NodeResourcesFit"
_PORTS = "NodePorts"
_TOO_MANY = "Too many pods"


class Room(NamedTuple):
    """`counts`: int64[rows], how many fit; `limits`: row → what keeps the next one out, of the rows that take any."""

    counts: Ints
    limits: dict[int, str]


def room(pod: Pod, framework: Framework, cluster: Cluster, own: Collection[ClaimKey] = frozenset()) -> Room | None:
    """Return the number of pods like this one that each node takes; None: nodes can't be looked at one by one.

    The pod's equals would have claims like its own, which are there. `own`: of those, the ones for volumes.

    Raises PluginError.
    """
    shape = pod.shape
    if shape.volumes is NO_VOLUMES and not (shape.claims or shape.containers):
        return _by_nodes(pod, framework, cluster)
    return _by_claims(pod, framework, cluster, own)


def _by_nodes(pod: Pod, framework: Framework, cluster: Cluster) -> Room | None:
    filters = framework.filters
    counts = np.zeros(cluster.nodes.rows, dtype=np.int64)
    if not filters.goes_by_shape(pod) or filters.looks_elsewhere(pod, cluster, [pod]):
        return None
    spare = filters.spare(pod, cluster)
    if not spare.exact:
        return None
    rows = framework.find(pod, cluster).feasible
    if not len(rows):
        return Room(counts, {})
    takes = np.array(spare.takes(pod.shape), dtype=np.int64)
    bounding = takes > 0
    if not bounding.any():
        return None
    left = spare.free(rows)[bounding] - spare.needs[bounding][:, None]
    more = left // takes[bounding][:, None] + 1
    counts[rows] = more.min(axis=0)
    names = [name for name, bounds in zip(_names(pod, framework), bounding.tolist(), strict=True) if bounds]
    limits = {row: names[which] for row, which in zip(rows.tolist(), more.argmin(axis=0).tolist(), strict=True)}
    return Room(counts, limits)


def _names(pod: Pod, framework: Framework) -> list[str]:
    """Return the names of the resources that filters count, as messages have them."""
    names: list[str] = []
    for plugin in framework.profile.plugins("filter"):
        if not declared(plugin).counts or "filter" in plugin.skips(pod.shape):
            continue
        needs = framework.guard(plugin, plugin.needs, pod)
        if plugin.name == _RESOURCES:
            asked = [f"Insufficient {name}" for name, amount in pod.shape.requests.items() if amount > 0]
            own = [_TOO_MANY, *asked]
        else:
            own = ["host ports are taken" if plugin.name == _PORTS else plugin.name] * len(needs)
        names += own if len(own) == len(needs) else [plugin.name] * len(needs)
    return names


_PLENTY = 1 << 60
"""More pods than any node takes."""
_ONE_POD = "ReadWriteOncePod"


def _attachable(pod: Pod, framework: Framework, cluster: Cluster, own: Collection[ClaimKey]) -> Ints | None:
    """Return int64[rows]; None where one pod may take a volume, or the room for it, from another.

    `own`: the pod's claims of which each of its equals has one, too; they are there. Raises PluginError.
    """
    volumes, storage = pod.shape.volumes, cluster.storage
    binding = framework.plugin("VolumeBinding")
    if volumes.disks or volumes.restricted or volumes.translated or volumes.drivers:
        return None
    if not isinstance(binding, VolumeBinding) or binding.shares_room(pod, cluster):
        return None
    attached = storage.attached
    known = attached.with_csi_node()
    of_driver: Counter[str] = Counter()
    for used in volumes.claims:
        key = (pod.namespace, used.claim(pod.name))
        claim = storage.claims.stored(key)
        if claim is None or (key not in own and (_ONE_POD in claim.access_modes or not claim.volume_name)):
            return None  # one pod may have it, or the first one decides where it is for all
        counted = attached.of_claim(claim, with_csi_node=True)
        if counted is None:
            continue
        if key not in own and (attached.limits(counted[1]) >= 0).any():
            return None  # the first pod on a node attaches it for those that follow
        of_driver[counted[1]] += 1
    most = np.full(cluster.nodes.rows, _PLENTY, dtype=np.int64)
    for driver, number in of_driver.items():
        limits = attached.limits(driver)
        left = np.maximum(limits - attached.counts(driver), 0) // number
        most = np.where(known & (limits >= 0), np.minimum(most, left), most)
    return most


_MOST = 10_000
"""The largest number of pods that the devices of one node are counted for."""


def _by_claims(pod: Pod, framework: Framework, cluster: Cluster, own: Collection[ClaimKey]) -> Room | None:
    most: list[tuple[Ints, str]] = []
    bare = copy(pod.shape)
    bare.volumes, bare.claims, bare.containers = NO_VOLUMES, (), ()
    if pod.shape.volumes is not NO_VOLUMES:
        volumes = _attachable(pod, framework, cluster, own)
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
            by_itself = _by_nodes(replace(pod, shape=copy(bare)), framework, cluster)
            if by_itself is None:
                return None
            bare.requests = {name: amount for name, amount in bare.requests.items() if name not in resources}
    others = _by_nodes(replace(pod, shape=bare), framework, cluster)
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


def _served(pod: Pod, plugin: DynamicResources, cluster: Cluster) -> Ints | None:
    """Return int64[rows]: how many pods get their devices on each node."""
    groups = plugin.alike(pod, cluster)
    if groups is None:
        return None
    served = np.zeros(cluster.nodes.rows, dtype=np.int64)
    served[plugin.without_devices(pod, cluster)] = _PLENTY
    for rows in groups:
        number = _served_by(rows[0], pod, plugin, cluster)
        if number is None:
            return None
        served[rows] = number
    return served


def _served_by(row: int, pod: Pod, plugin: DynamicResources, cluster: Cluster) -> int | None:
    """Return the number of pods that get their devices on one node; None: more than are counted."""
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
