"""Everything that a plugin needs, in one place: `from podberth.kit import NODE, Plugin, Unschedulable`.

`podberth.kit.testing` proves a plugin in a few lines.
"""

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.explain import changes
from podberth.explain.changes import Fix
from podberth.framework.binding import AssumedPod, BindResult, Hold, Patch, Wait, WaitingPod, WaitingPods
from podberth.framework.decision import Decision, Rows
from podberth.framework.events import ANY, ClusterEvent
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.interface import (
    ANYTHING,
    MAX_SCORE,
    MAXIMUM,
    MAXIMUM_REVERSED,
    MIN_MAX,
    NO_POINTS,
    NODE,
    OTHER_NODES,
    OWN_STATE,
    PODS_ELSEWHERE,
    PODS_HERE,
    SKIPPABLE,
    SOURCES,
    VOLUMES,
    Assignment,
    DependsOn,
    FailedGroup,
    Filters,
    GroupPostFilterResult,
    NoArgs,
    OtherObject,
    Placement,
    Plugin,
    PostFilterResult,
    Reads,
    Reservation,
    Running,
    Source,
)
from podberth.framework.status import Narrow, Reason, Reject, Rejections, Unresolvable, Unschedulable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

__all__ = [
    "ANY",
    "ANYTHING",
    "MAXIMUM",
    "MAXIMUM_REVERSED",
    "MAX_SCORE",
    "MIN_MAX",
    "NODE",
    "NO_POINTS",
    "OTHER_NODES",
    "OWN_STATE",
    "PODS_ELSEWHERE",
    "PODS_HERE",
    "SKIPPABLE",
    "SOURCES",
    "VOLUMES",
    "Assignment",
    "AssumedPod",
    "BindResult",
    "Bools",
    "Cluster",
    "ClusterEvent",
    "Decision",
    "DependsOn",
    "Detail",
    "Explainer",
    "FailedGroup",
    "Filters",
    "Fix",
    "GroupPostFilterResult",
    "Hold",
    "Inquiry",
    "Ints",
    "Narrow",
    "NoArgs",
    "Node",
    "Nodes",
    "OtherObject",
    "Patch",
    "Placement",
    "Plugin",
    "Pod",
    "PodShape",
    "PostFilterResult",
    "Reads",
    "Reason",
    "Reject",
    "Rejections",
    "Reservation",
    "Rows",
    "Running",
    "Source",
    "Unresolvable",
    "Unschedulable",
    "Wait",
    "WaitingPod",
    "WaitingPods",
    "changes",
]
