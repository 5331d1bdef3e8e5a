"""Placements: sets of nodes of which one is chosen for all pods of a group (kube-scheduler `framework.Placement`)."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from podberth.framework.decision import Rows
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup


class Placement(Struct, frozen=True, eq=False):
    """Nodes on which a group may be scheduled. There may be one for each node of the cluster."""

    name: str
    """Such as the value of a label that all these nodes have."""
    rows: Rows
    """Rows of nodes that exist, in ascending order."""
    level: int = 0
    """A group is tried on placements of a higher level only if it fits into none of a lower one."""
    path: tuple[str, ...] = ()
    """The values of the labels that its nodes have in common, the broadest label first."""
    domains: "tuple[Placement, ...]" = ()
    """Parts of it, with paths below its own. The group had better use few, filled by its pods in the order of their
    ranks. A pod that fits into none of them may be on any node of the placement."""


class Running(NamedTuple):
    """A pod of a group that has a node, by the API's word or ours."""

    pod: Pod
    node: str


class Assignment(Struct, frozen=True, eq=False):
    """What came of trying a group on the nodes of a placement."""

    group: PodGroup
    placement: Placement
    pods: Sequence[Pod]
    """The pods that found a node. They are not on these nodes now."""
    running: int
    """How many pods of the group have a node already."""
