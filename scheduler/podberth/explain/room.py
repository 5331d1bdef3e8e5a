"""How many more equal pods each node takes, by sums: no pod is placed to find out.

Only where pods of the kind on one node change nothing for those on another (`Filters.looks_elsewhere`); for the others
`podberth.explain.capacity` places one after the other.
"""

from typing import NamedTuple

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.framework.foreign import declared
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod

_RESOURCES = "NodeResourcesFit"
_PORTS = "NodePorts"
_TOO_MANY = "Too many pods"


class Room(NamedTuple):
    """`counts`: int64[rows], how many fit; `limits`: row → what keeps the next one out, of the rows that take any."""

    counts: Ints
    limits: dict[int, str]


def room(pod: Pod, framework: Framework, cluster: Cluster) -> Room | None:
    """Return what each node takes; None where that is not a question about each node by itself.

    Raises PluginError.
    """
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
    """Return what each of the things that filters count is called when there is too little of it."""
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
