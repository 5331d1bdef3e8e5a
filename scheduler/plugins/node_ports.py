"""Upstream: plugins/nodeports."""

from collections.abc import Hashable

from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import NoArgs, RowLocal
from scheduler.framework.status import Rejections, Unschedulable
from scheduler.model.pod import Pod
from scheduler.model.shape import ANY_IP, HostPort, PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.nodes import Nodes


class NodePorts(RowLocal):
    """Keep a pod off nodes where one of its host ports is taken."""

    name = "NodePorts"
    by_shape = True
    Args = NoArgs
    wakes_on = ClusterEvent.NODE_ADDED | ClusterEvent.POD_GONE
    taken = Unschedulable("node(s) didn't have free ports for the requested pod ports")

    def __init__(self, args: NoArgs) -> None:
        pass

    def reads(self, shape: PodShape) -> Hashable:
        """The host ports."""
        return shape.host_ports

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes where a placed pod holds the same protocol and port on the same or any address."""
        if not pod.shape.host_ports:
            return ()
        return ((self.taken, cluster.nodes.port_conflicts(pod.shape.host_ports)),)

    def passes_on(self, pod: Pod, nodes: Nodes, row: int) -> bool:
        """As `filter`, for one row."""
        return not pod.shape.host_ports or not nodes.port_conflicts(pod.shape.host_ports)[row]

    def wakes_for_pod(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod that went and held a port this one wants."""
        return any(_conflict(mine, theirs) for mine in pod.shape.host_ports for theirs in other.shape.host_ports)


def _conflict(one: HostPort, other: HostPort) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_IP in (one[0], other[0]))
