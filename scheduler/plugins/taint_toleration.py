"""Upstream: plugins/tainttoleration."""

from collections.abc import Hashable
from typing import Any

from scheduler.framework.events import ClusterEvent
from scheduler.framework.normalize import MAXIMUM_REVERSED
from scheduler.framework.plugin import NODE, Plugin
from scheduler.framework.status import Rejections, Unresolvable
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.model.taints import intolerable_preferences, untolerated
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints, at


class TaintToleration(Plugin):
    """Keep a pod off nodes whose hard taints it does not tolerate, and prefer nodes with fewer soft ones."""

    name = "TaintToleration"
    depends_on = NODE
    normalize = MAXIMUM_REVERSED
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.OWN_TOLERATIONS
    tainted = Unresolvable("node(s) had untolerated taint(s)")

    def signature(self, shape: PodShape) -> Hashable:
        """The tolerations."""
        return shape.tolerations

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject a node for any NoSchedule or NoExecute taint the pod does not tolerate."""
        tolerations = pod.shape.tolerations
        if cluster.nodes.taints.blank:
            return ()
        rejected = cluster.nodes.taints.where(
            cluster.nodes.rows, ("hard", tolerations), lambda taints: untolerated(tolerations, taints or ()) is not None
        )
        return ((self.tainted, rejected),)

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int:
        """Count the PreferNoSchedule taints that the pod does not tolerate."""
        tolerations = pod.shape.tolerations
        if cluster.nodes.taints.blank:
            return 0
        counts = cluster.nodes.taints.map(
            cluster.nodes.rows, ("soft", tolerations), lambda taints: intolerable_preferences(tolerations, taints or ())
        )
        return at(counts, feasible)

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node whose taints are tolerated now and were not before."""
        tolerations = pod.shape.tolerations
        before = old is None or untolerated(tolerations, old.taints) is not None
        return before and untolerated(tolerations, new.taints) is None
