"""Upstream: plugins/nodeunschedulable."""

from collections.abc import Hashable

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NODE, Plugin
from podberth.framework.status import Rejections, Unresolvable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.taints import UNSCHEDULABLE, tolerates


class NodeUnschedulable(Plugin):
    """Keep pods off cordoned nodes unless they tolerate the unschedulable taint."""

    name = "NodeUnschedulable"
    depends_on = NODE
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.OWN_TOLERATIONS
    cordoned = Unresolvable("node(s) were unschedulable")

    def signature(self, shape: PodShape) -> Hashable:
        """The tolerations."""
        return shape.tolerations

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes with spec.unschedulable."""
        nodes = cluster.nodes
        unschedulable = nodes.unschedulable[: nodes.rows]
        if not unschedulable.any() or tolerates(pod.shape.tolerations, UNSCHEDULABLE):
            return ()
        return ((self.cordoned, unschedulable),)

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that is schedulable and was not, or was not there."""
        return not new.unschedulable and (old is None or old.unschedulable)
