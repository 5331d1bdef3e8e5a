"""Everything that a plugin needs, in one place: `from scheduler.kit import NODE, Plugin, Unschedulable`.

`scheduler.kit.testing` proves a plugin in a few lines.
"""

from scheduler.framework import changes
from scheduler.framework.binding import AssumedPod, BindResult, Hold, Patch, Wait
from scheduler.framework.changes import Fix
from scheduler.framework.decision import Decision, Rows
from scheduler.framework.events import ANY, ClusterEvent
from scheduler.framework.explaining import Detail, Explainer, Inquiry
from scheduler.framework.normalize import MAX_SCORE, MAXIMUM, MAXIMUM_REVERSED, MIN_MAX
from scheduler.framework.placement import Assignment, Placement, Running
from scheduler.framework.plugin import (
    ANYTHING,
    NO_POINTS,
    NODE,
    OTHER_NODES,
    OWN_STATE,
    PODS_ELSEWHERE,
    PODS_HERE,
    SKIPPABLE,
    SOURCES,
    VOLUMES,
    DependsOn,
    FailedGroup,
    Filters,
    GroupPostFilterResult,
    NoArgs,
    OtherObject,
    Plugin,
    PostFilterResult,
)
from scheduler.framework.reads import Reads, Source
from scheduler.framework.reservation import Reservation
from scheduler.framework.status import Narrow, Reason, Reject, Rejections, Unresolvable, Unschedulable
from scheduler.framework.waiting_pods import WaitingPod, WaitingPods
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes

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
