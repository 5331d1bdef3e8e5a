"""A pod group as it is: its pods that wait, in the order in which they are tried, those that run, and its kept room."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import ABSENT, Bools
from podberth.engine.pod_groups.validation import gap
from podberth.explain.report.wording import some
from podberth.framework.decision import Rows
from podberth.framework.interface import Running
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod, since_epoch
from podberth.model.pod_group import INITIALLY_SCHEDULED, GroupKey, PodGroup


@dataclass(frozen=True, slots=True)
class Gang:
    """`waiting`: pods without a node, in the order in which they are tried; `running`: those that have one."""

    group: PodGroup
    waiting: Sequence[Pod]
    running: Sequence[Pod]

    @property
    def lacking(self) -> int:
        """Return the number of waiting pods that have to find a node for any to start."""
        return max(self.group.needed - len(self.running), 1)

    def gap(self, cluster: Cluster) -> str:
        """Return the part of `minResources` that the whole cluster lacks; empty: nothing."""
        return gap(self.group, cluster.pod_groups.state(self.group.key), cluster)

    @property
    def missing(self) -> int:
        """Return the number of pods of the gang that do not exist yet, although it can't start without them."""
        return max(self.group.needed - len(self.waiting) - len(self.running), 0) if self.group.gang else 0


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Nodes on which all pods of a group may be (a placement). `name`: a value of the label; empty: all nodes."""

    name: str
    rows: Rows
    whole: bool
    """They are all nodes that there are."""

    def mask(self, cluster: Cluster) -> Bools | None:
        """Return bool[rows] of the cluster as it is now, which may have grown; None: all nodes."""
        if self.whole:
            return None
        mask = np.zeros(cluster.nodes.rows, dtype=np.bool_)
        mask[self.rows] = True
        return mask


def gang_of(key: GroupKey, cluster: Cluster) -> Gang | None:
    """Return the gang of a group; None: there is no such object."""
    state = cluster.pod_groups.state(key)
    if state is None or state.object is None:
        return None
    there = [pod for pod in state.unscheduled.values() if not pod.terminating]
    waiting = sorted(there, key=lambda pod: (-pod.priority, pod.created, _natural(pod.name)))
    return Gang(state.object, waiting, list(state.with_node))


def _natural(name: str) -> tuple[str, int, str]:
    """Return a sort key by which `train-2` comes before `train-10`."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), name) if number.isdecimal() and len(number) < 10 else (name, -1, name)


def heeds_topology(framework: Framework) -> bool:
    """Return whether the profile keeps a group within one domain."""
    return framework.placements.wanted


def unheeded(groups: Iterable[PodGroup], framework: Framework) -> Iterator[str]:
    """Yield a note on each topology that groups ask for and the profile does not heed."""
    asking: dict[str, list[str]] = {}
    for group in () if heeds_topology(framework) else groups:
        if group.topology_key is not None:
            asking.setdefault(group.topology_key, []).append(str(group.key))
    for key, names in asking.items():
        yield (
            f"{some(names, _MOST)}: nodes with one value of {key} are asked for, which the profile "
            f"{framework.profile.name} does not heed: it has no plugin TopologyPlacementGenerator"
        )


def domains(gang: Gang, framework: Framework, cluster: Cluster) -> list[Domain]:
    """Return the domains in which the group may be; the whole cluster is the only one without topology.

    Raises PluginError.
    """
    nodes = cluster.nodes
    placed = [(pod, cluster.placement(pod.uid)) for pod in gang.running]
    running = [Running(pod, nodes.names[where.row] or "") for pod, where in placed if where is not None]
    return [_domain(one.name, one.rows, cluster) for one in framework.placements.generate(gang.group, running, cluster)]


def _domain(name: str, rows: Rows, cluster: Cluster) -> Domain:
    return Domain(name, rows, len(rows) == cluster.nodes.count)


def by_label(key: str, cluster: Cluster) -> Iterator[Domain]:
    """Yield a domain for each value of a label, whether or not the profile uses it."""
    nodes = cluster.nodes
    column = nodes.topology(key)
    if column is None:
        return
    alive, codes = nodes.alive[: nodes.rows], column.codes[: nodes.rows]
    values = {int(code): str(column.values[code]) for code in np.unique(codes[alive & (codes != ABSENT)]).tolist()}
    for code, name in sorted(values.items(), key=lambda item: item[1]):
        yield _domain(name, np.flatnonzero(alive & (codes == code)), cluster)


_SAID = re.compile(r"(?:^|, )((?:no )?room is kept for it\b.*)$")
_ROOM = re.compile(r"room is kept for it on (.+?) until (\S+?),")
_MOST = 5


def said_of(group: PodGroup) -> str:
    """Return the part about a reservation in the message of the group's condition; empty: none."""
    condition = group.condition(INITIALLY_SCHEDULED)
    found = None if condition is None or condition.status == "True" else _SAID.search(condition.message)
    return "" if found is None else found[1]


def kept_from(priority: int, own: GroupKey | None, cluster: Cluster) -> Iterator[str]:
    """Yield a note on each reservation whose room a pod of this priority, or a group (`own`), may not use."""
    others = (one.object for one in cluster.pod_groups if one.object is not None and one.key != own)
    rooms = ((group, _ROOM.match(said_of(group))) for group in others if (group.priority or 0) >= priority)
    wall = cluster.devices.wall
    found = sorted(
        (str(group.key), room[1], room[2]) for group, room in rooms if room and (since_epoch(room[2]) or 0) > wall
    )
    for name, nodes, until in found[:_MOST]:
        yield (
            f"room is kept for the pod group {name} on {nodes} until {until}: pods that end later and are not more "
            "important may not use it. Only the scheduler knows these nodes, so less may fit than is said here"
        )
    if len(found) > _MOST:
        yield f"room is kept for {len(found) - _MOST:,} more pod groups"
