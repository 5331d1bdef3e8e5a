"""Upstream: plugins/nodedeclaredfeatures (nodedeclaredfeatures.go)."""

from collections.abc import Collection, Hashable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, NODE, SKIPPABLE, Plugin
from podberth.framework.status import Rejections, Unresolvable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import PodShape


class NodeDeclaredFeatures(Plugin):
    """Keep a pod off nodes whose kubelets don't declare a feature that it needs."""

    name = "NodeDeclaredFeatures"
    depends_on = NODE
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_FEATURES
    lacking = Unresolvable("node(s) didn't match Pod's required features")

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods that need no feature."""
        return NO_POINTS if shape.features else SKIPPABLE

    def signature(self, shape: PodShape) -> Hashable:
        """Return what the pod needs."""
        return shape.features

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that don't declare all of it."""
        nodes, wanted = cluster.nodes, pod.shape.features
        if not wanted:
            return ()
        has = [node is not None and wanted <= node.features for node in nodes.objects[: nodes.rows]]
        return [(self.lacking, ~np.array(has, dtype=np.bool_))]

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that declares other features than before."""
        return old is None or old.features != new.features
