"""Upstream: plugins/nodeports."""

from collections.abc import Collection, Hashable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.nodes import Nodes, conflicts
from podberth.framework.decision import Rows
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, PODS_HERE, SKIPPABLE, Plugin
from podberth.framework.status import Rejections, Unschedulable
from podberth.model.pod import Pod
from podberth.model.shape import PodShape


class NodePorts(Plugin):
    """Keep a pod off nodes where one of its host ports is taken."""

    name = "NodePorts"
    depends_on = PODS_HERE
    events = ClusterEvent.NODE_ADDED | ClusterEvent.POD_GONE
    taken = Unschedulable("node(s) didn't have free ports for the requested pod ports")

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods without host ports."""
        return NO_POINTS if shape.host_ports else SKIPPABLE

    def signature(self, shape: PodShape) -> Hashable:
        """Return the host ports."""
        return shape.host_ports

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes where a placed pod holds the same protocol and port on the same or any address."""
        if not pod.shape.host_ports:
            return ()
        return ((self.taken, cluster.nodes.port_conflicts(pod.shape.host_ports)),)

    def filter_one(self, pod: Pod, nodes: Nodes, row: int) -> bool:
        return not pod.shape.host_ports or not nodes.port_conflicts_on(pod.shape.host_ports, row)

    def needs(self, pod: Pod) -> list[int]:
        """No conflict, where there are ports that could conflict."""
        return [0] if pod.shape.host_ports else []

    def free(self, pod: Pod, nodes: Nodes, rows: Rows) -> Ints:
        """Minus the number of conflicts on some rows."""
        if not pod.shape.host_ports:
            return np.zeros((0, len(rows)), dtype=np.int64)
        conflicts: Ints = nodes.port_users(pod.shape.host_ports)[rows]
        return -conflicts[np.newaxis]

    def counted(self, shape: PodShape) -> Hashable:
        """Return the host ports."""
        return shape.host_ports

    def takes(self, pod: Pod, shape: PodShape) -> list[int]:
        """The conflicts that a placed pod is."""
        return [conflicts(pod.shape.host_ports, shape.host_ports)] if pod.shape.host_ports else []

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod that went and held a port this one wants."""
        return conflicts(pod.shape.host_ports, other.shape.host_ports) > 0
