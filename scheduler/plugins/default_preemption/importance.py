"""The pods of each node by importance, which is the order in which preemption spares them. Kept for all preemptors."""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.decision import Rows
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools
from scheduler.state.nodes import Nodes

_NOT_STARTED = "~"
"""Sorts after every RFC 3339 time: a pod that has not started starts now (GetPodStartTime)."""
_NOT_RANKED, _NOBODY = -(1 << 62), 1 << 62
"""In place of a row's lowest priority. Either is beyond every priority."""


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
        self._lowest: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """The lowest priority on each row that is ranked."""
        self.steps = 0
        """Steps that ranking took so far."""

    def renew(self, cluster: Cluster) -> None:
        """Forget the rows that changed."""
        nodes = cluster.nodes
        if self._version == nodes.log.version and self._nodes is nodes and len(self._lowest) == nodes.rows:
            return
        changed = nodes.log.since(self._version) if self._nodes is nodes else None
        if changed is None:
            self._rows.clear()
            self._lowest = np.full(nodes.rows, _NOT_RANKED, dtype=np.int64)
        else:
            if len(self._lowest) < nodes.rows:
                more = np.full(nodes.rows - len(self._lowest), _NOT_RANKED, dtype=np.int64)
                self._lowest = np.concatenate((self._lowest, more))
            for row in changed:
                self._rows.pop(row, None)
                self._lowest[row] = _NOT_RANKED
        self._nodes, self._version = nodes, nodes.log.version

    def none_below(self, rows: Rows, priority: int, cluster: Cluster) -> Bools:
        """For each of these rows, whether it is known that no pod on it has a priority below the given one."""
        lowest = cluster.priorities.lowest
        if lowest is None or lowest >= priority:
            return np.ones(len(rows), dtype=np.bool_)
        known: Bools = self._lowest[rows] >= priority
        return known

    def below(self, row: int, priority: int, cluster: Cluster) -> list[Placement]:
        """The placements of a row with a priority below the given one; not to be changed."""
        ranked = self._rows.get(row)
        if ranked is None:
            ranked = self._rows[row] = cluster.placements_on(row)
            if len(ranked) > 1:
                ranked.sort(key=_key)
            self._lowest[row] = ranked[-1].pod.priority if ranked else _NOBODY
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
