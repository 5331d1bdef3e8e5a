"""`minResources` of scheduler-plugins' groups: what has to be free in the whole cluster before the group is tried.

Mirrors scheduler-plugins `pkg/coscheduling/core` (CheckClusterResource), which asks at PreFilter of each pod. Room on
all nodes counts, whether or not the pods may go there.
"""

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.groups import GroupState
from podberth.framework.status import printable
from podberth.model.pod_group import PodGroup
from podberth.model.quantity import exact

PODS = "pods"
_SUMS = 1 << 62
_NAMES, _LETTERS = 10, 100
"""What a message says at most: nobody checks the names of resources in a group."""


def gap(group: PodGroup, state: GroupState | None, cluster: Cluster) -> str:
    """Return what the cluster lacks; empty: nothing. What pods of the group have already counts as free."""
    if group.min_resources is None:
        return ""
    wanted = {**group.min_resources, PODS: group.needed}
    mine = [] if state is None else list(state.with_node)
    short = {}
    for name, amount in wanted.items():
        if name == PODS:
            free = _total(cluster.nodes.allowed_pods - cluster.nodes.pods, cluster) + len(mine)
        else:
            free = _free(name, cluster) + sum(pod.shape.requests.get(name, 0) for pod in mine)
        if free < amount:
            short[name] = amount - free
    said = " ".join(f"{printable(name)[:_LETTERS]}:{exact(name, short[name])}" for name in sorted(short)[:_NAMES])
    more = f" and {len(short) - _NAMES} more" if len(short) > _NAMES else ""
    return f"resource gap: map[{said}]{more}" if short else ""


def _free(name: str, cluster: Cluster) -> int:
    nodes = cluster.nodes
    index = nodes.resources.get(name)
    return 0 if index is None else _total(nodes.allocatable[index] - nodes.requested[index], cluster)


def _total(free: Ints, cluster: Cluster) -> int:
    """The sum over nodes that exist. One that is overcommitted takes nothing from the others."""
    nodes = cluster.nodes
    there = free[: nodes.rows][nodes.alive[: nodes.rows] & (free[: nodes.rows] > 0)]
    if nodes.largest < _SUMS // max(nodes.rows, 1):
        return int(there.sum())
    return sum(map(int, there))
