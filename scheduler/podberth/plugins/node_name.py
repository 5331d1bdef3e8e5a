"""Upstream: plugins/nodename."""

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NODE, Plugin
from podberth.framework.status import Narrow, Rejections, Unresolvable
from podberth.model.pod import Pod
from podberth.model.shape import PodShape


class NodeName(Plugin):
    """A pod that names its node in the spec fits no other."""

    name = "NodeName"
    depends_on = NODE
    events = ClusterEvent.NODE_ADDED
    mismatch = Unresolvable("node(s) didn't match the requested node name")

    def signature(self, shape: PodShape) -> None:
        """Nothing of the shape: what is kept is for pods that name no node."""

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
