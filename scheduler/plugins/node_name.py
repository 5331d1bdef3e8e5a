"""Upstream: plugins/nodename."""

import numpy as np

from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import NoArgs, RowLocal
from scheduler.framework.status import Narrow, Rejections, Unresolvable
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster


class NodeName(RowLocal):
    """A pod that names its node in the spec fits no other."""

    name = "NodeName"
    else_by_shape = True
    else_silent = True
    Args = NoArgs
    wakes_on = ClusterEvent.NODE_ADDED
    mismatch = Unresolvable("node(s) didn't match the requested node name")

    def __init__(self, args: NoArgs) -> None:
        pass

    def speaks_at(self, shape: PodShape) -> tuple[str, ...]:
        """Nowhere, of pods that name no node."""
        return ()

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Narrow | None:
        """Narrow to the requested node."""
        return Narrow(frozenset((pod.node_name,))) if pod.node_name else None

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject every node but the requested one."""
        if not pod.node_name:
            return ()
        others = np.ones(cluster.nodes.rows, dtype=np.bool_)
        row = cluster.nodes.live_row(pod.node_name)
        if row is not None:
            others[row] = False
        return ((self.mismatch, others),)
