"""What became free on one node, and which pods it may help: a closer look than queueing hints, which see no columns.

A waiting pod was rejected on every node by one of the plugins that it waits for, even with all pods of lower priority
removed and with the nominated pods in place. Plugins that look at one node at a time can change their verdict only on
the node that changed. While one of them still rejects the pod there, the pod need not be woken.
"""

from collections.abc import Collection

from podberth.cache.cluster import Cluster
from podberth.cache.view import row_with
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod


class Room:
    """One node with more room than before. Valid until the next stimulus."""

    def __init__(self, cluster: Cluster, row: int) -> None:
        self._cluster = cluster
        self._row = row
        self._name = cluster.nodes.names[row] or ""
        self.kept_for = cluster.nominations.on(self._name)
        """The pods that are nominated for the node."""
        self._views: dict[tuple[int, bool], Cluster] = {}

    def again(self) -> "Room | None":
        """The same node as it is now, for a later look; None when it is gone."""
        return room_on(self._cluster, self._cluster.nodes.live_row(self._name))

    def rejects(self, framework: Framework, plugins: Collection[str], pod: Pod) -> bool:
        """Return whether one of the plugins rejects pods like this on the node, even if they preempt all pods that they
        may.

        For pods that are not nominated for the node. Raises PluginError.
        """
        view = self._views.get((pod.priority, pod.preempts))
        if view is None:
            view = self._views[pod.priority, pod.preempts] = self._as_seen_by(pod, emptied=pod.preempts, stranger=True)
        return framework.filters.rejecting(pod, view, plugins) is not None

    def waits_on(self, framework: Framework, plugins: Collection[str], pod: Pod) -> bool:
        """Return whether a pod that is nominated for the node has to wait longer, since victims of it are still there.

        Raises PluginError.
        """
        there = self._cluster.pods_on(self._row)
        priority = self._cluster.pod_groups.priority_of
        if not any(other.terminating and other.preempted and priority(other) < pod.priority for other in there):
            return False
        view = self._as_seen_by(pod, emptied=False, stranger=False)
        return framework.filters.rejecting(pod, view, plugins) is not None

    def _as_seen_by(self, pod: Pod, *, emptied: bool, stranger: bool) -> Cluster:
        there = self._cluster.pods_on(self._row) if emptied else []
        gone = [other for other in there if self._cluster.pod_groups.priority_of(other) < pod.priority]
        own = "" if stranger else pod.uid
        ahead = [other for other in self.kept_for if other.priority >= pod.priority and other.uid != own]
        return row_with(self._cluster, self._row, gone, ahead)


def room_on(cluster: Cluster, row: int | None) -> Room | None:
    """The room of a row; None if there is no node."""
    return Room(cluster, row) if row is not None and cluster.nodes.alive[row] else None
