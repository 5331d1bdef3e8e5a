"""A pod group with its pods as they are: those that wait, in the order in which they are tried, and those that run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.framework.decision import Rows
from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.model.pod_group import GroupKey, PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.column import ABSENT, Bools
from scheduler.whatif.world import World

_HEEDS = "TopologyPlacementGenerator"
"""The plugin without which a profile does not heed the topology that a group asks for."""


@dataclass(frozen=True, slots=True)
class Gang:
    """`waiting`: pods without a node, in the order in which they are tried; `running`: those that have one."""

    group: PodGroup
    waiting: Sequence[Pod]
    running: Sequence[Pod]

    @property
    def lacking(self) -> int:
        """How many of the waiting pods have to find a node for any to start."""
        return max(self.group.needed - len(self.running), 1)

    @property
    def missing(self) -> int:
        """How many pods of the gang do not exist yet, although it can't start without them."""
        return max(self.group.needed - len(self.waiting) - len(self.running), 0) if self.group.gang else 0


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Nodes on which all pods of a group may be together. `name`: the value of the label; empty: the whole cluster."""

    name: str
    rows: Rows
    mask: Bools | None
    """bool[rows]: the same; None: all nodes."""


def gang_of(key: GroupKey, world: World) -> Gang | None:
    """The gang of a group; None: there is no such object."""
    state = world.cluster.pod_groups.state(key)
    if state is None or state.object is None:
        return None
    there = [pod for pod in state.unscheduled.values() if pod.key in world.waiting and not pod.terminating]
    waiting = sorted(there, key=lambda pod: (-pod.priority, pod.created, _natural(pod.name)))
    return Gang(state.object, waiting, list(state.with_node))


def _natural(name: str) -> tuple[str, int, str]:
    """`train-2` comes before `train-10`."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), name) if number.isdecimal() and len(number) < 10 else (name, -1, name)


def heeds_topology(framework: Framework) -> bool:
    """Whether the profile keeps a group within one domain."""
    return framework.plugin(_HEEDS) is not None


def domains(gang: Gang, framework: Framework, cluster: Cluster) -> list[Domain]:
    """Where the group may be: each domain by itself, or the whole cluster as the only one."""
    alive = cluster.nodes.alive[: cluster.nodes.rows]
    if gang.group.topology_key is None or not heeds_topology(framework):
        return [Domain("", np.flatnonzero(alive), None)]
    found = list(by_label(gang.group.topology_key, cluster))
    taken = {placement.row for pod in gang.running if (placement := cluster.placement(pod.uid)) is not None}
    # Once pods of the group run, theirs is the only domain.
    return [one for one in found if taken <= set(one.rows.tolist())] if taken else found


def by_label(key: str, cluster: Cluster) -> Iterator[Domain]:
    """A domain for each value of a label."""
    nodes = cluster.nodes
    column = nodes.topology(key)
    if column is None:
        return
    alive, codes = nodes.alive[: nodes.rows], column.codes[: nodes.rows]
    values = {int(code): str(column.values[code]) for code in np.unique(codes[alive & (codes != ABSENT)]).tolist()}
    for code, name in sorted(values.items(), key=lambda item: item[1]):
        mask = alive & (codes == code)
        yield Domain(name, np.flatnonzero(mask), mask)
