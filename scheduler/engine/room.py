"""What became free on one node, and whom it may help: a closer look than the hints of plugins, which see no columns.

A pod that waits was rejected on every node by one of the plugins that it waits for, also with all pods of lower
priority away, and with those there that the node is kept for. What happens on one node changes the verdict of plugins
that look at one node at a time on this node only. While one of them still rejects it so, the pod is left alone.
"""

from collections.abc import Collection

from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.view import row_with


class Room:
    """One node where there is more room than before, as long as nothing else happens."""

    def __init__(self, cluster: Cluster, row: int) -> None:
        self._cluster = cluster
        self._row = row
        self._name = cluster.nodes.names[row] or ""
        self._kept_for = cluster.nominations.on(self._name)
        self._views: dict[tuple[int, bool], Cluster] = {}

    def again(self) -> "Room | None":
        """The same node as it is now, for who asks later; None when it is gone."""
        return room_on(self._cluster, self._cluster.nodes.live_row(self._name))

    @property
    def kept_for(self) -> list[Pod]:
        """The pods that are nominated for the node."""
        return self._kept_for

    def shut(self, framework: Framework, plugins: Collection[str], pod: Pod) -> bool:
        """Whether one of the plugins keeps pods like this off the node, though they preempt all that they may.

        The node is not kept for them.

        Raises PluginError.
        """
        view = self._views.get((pod.priority, pod.preempts))
        if view is None:
            view = self._views[pod.priority, pod.preempts] = self._as_seen_by(pod, emptied=pod.preempts, stranger=True)
        return framework.rejects(pod, plugins, view)

    def waits_on(self, framework: Framework, plugins: Collection[str], pod: Pod) -> bool:
        """Whether a pod that the node is kept for has to wait for more: its victims are still about to leave.

        Raises PluginError.
        """
        there = self._cluster.pods_on(self._row)
        if not any(other.terminating and other.preempted and other.priority < pod.priority for other in there):
            return False
        return framework.rejects(pod, plugins, self._as_seen_by(pod, emptied=False, stranger=False))

    def _as_seen_by(self, pod: Pod, *, emptied: bool, stranger: bool) -> Cluster:
        there = self._cluster.pods_on(self._row) if emptied else []
        gone = [other for other in there if other.priority < pod.priority]
        own = "" if stranger else pod.uid
        ahead = [other for other in self._kept_for if other.priority >= pod.priority and other.uid != own]
        return row_with(self._cluster, self._row, gone, ahead)


def room_on(cluster: Cluster, row: int | None) -> Room | None:
    """The room of a row; None where there is no node, and so nothing to look at."""
    return Room(cluster, row) if row is not None and cluster.nodes.alive[row] else None
