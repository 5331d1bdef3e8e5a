"""The pods of each node by importance, which is the order in which preemption spares them. Kept for all preemptors."""

from bisect import bisect_right

from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.nodes import Nodes

_NOT_STARTED = "~"
"""Sorts after every RFC 3339 time: a pod that has not started starts now (GetPodStartTime)."""


def started(pod: Pod) -> str:
    """When a pod started, as text that sorts as time."""
    return pod.started or _NOT_STARTED


def importance(pod: Pod) -> tuple[int, str]:
    """Sort key, most important first: higher priority, then the longer running."""
    return -pod.priority, pod.started or _NOT_STARTED


class Ranking:
    """Row → its placements, the most important first; a row is ranked when it is asked for."""

    def __init__(self) -> None:
        self._nodes: Nodes | None = None
        self._version = 0
        self._rows: dict[int, list[Placement]] = {}
        self.steps = 0
        """Steps that ranking took so far."""

    def renew(self, cluster: Cluster) -> None:
        """Forget the rows that changed."""
        nodes = cluster.nodes
        if self._version == nodes.log.version and self._nodes is nodes:
            return
        changed = nodes.log.since(self._version) if self._nodes is nodes else None
        if changed is None:
            self._rows.clear()
        else:
            for row in changed:
                self._rows.pop(row, None)
        self._nodes, self._version = nodes, nodes.log.version

    def below(self, row: int, priority: int, cluster: Cluster) -> list[Placement]:
        """The placements of a row with a priority below the given one; not to be changed."""
        ranked = self._rows.get(row)
        if ranked is None:
            ranked = self._rows[row] = cluster.placements_on(row)
            if len(ranked) > 1:
                ranked.sort(key=_key)
            self.steps += 1 + len(ranked) // 2
        if not ranked or ranked[0].pod.priority < priority:
            return ranked
        if ranked[-1].pod.priority >= priority:
            return []
        return ranked[bisect_right(ranked, -priority, key=_lowness) :]


def _key(placement: Placement) -> tuple[int, str]:
    pod = placement.pod
    return -pod.priority, pod.started or _NOT_STARTED


def _lowness(placement: Placement) -> int:
    return -placement.pod.priority
