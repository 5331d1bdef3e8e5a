"""A few rows of a cluster, looked at as if they were all: what a plugin computes over them costs what they are."""

import copy
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod
from scheduler.model.shape import HostPort
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Column, Ints, Numbers, Value
from scheduler.state.nodes import Nodes
from scheduler.state.ports import conflicts
from scheduler.state.weighing import Terms


class _SomeCodes(Column[Value]):
    """The codes of some rows, answered by the whole column."""

    def __init__(self, column: Column[Value], rows: NDArray[np.intp]) -> None:
        self.codes = column.codes[rows]
        self.values = column.values
        self._code = column._code
        self.answers = column.answers  # type: ignore[method-assign]


class SomeNodes(Nodes):
    """Columns of some rows, in the order given. Read-only."""

    def __init__(self, nodes: Nodes, rows: NDArray[np.intp]) -> None:
        self._nodes = nodes
        self._of = rows
        self.rows = len(rows)
        self.count = nodes.count
        self.resources = nodes.resources
        self.largest = nodes.largest
        self.alive = nodes.alive[rows]
        self.unschedulable = nodes.unschedulable[rows]
        self.pods = nodes.pods[rows]
        self.allowed_pods = nodes.allowed_pods[rows]
        self.allocatable = nodes.allocatable[:, rows]
        self.requested = nodes.requested[:, rows]
        self.nonzero = nodes.nonzero[:, rows]
        self.taints = _SomeCodes(nodes.taints, rows)

    def label(self, key: str) -> Column[str]:
        """The column of one label key."""
        return _SomeCodes(self._nodes.label(key), self._of)

    def topology(self, key: str) -> Column[str] | None:
        """The same, None for a key that no node has."""
        column = self._nodes.topology(key)
        return None if column is None else _SomeCodes(column, self._of)

    def weigh(self, terms: Terms, key: object) -> Ints:
        """The sums of these rows."""
        return self._nodes.weigh(terms, key)[self._of]

    def live_row(self, name: str) -> int | None:
        """The position of a node among these rows."""
        row = self._nodes.live_row(name)
        if row is None:
            return None
        found = np.flatnonzero(self._of == row)
        return int(found[0]) if len(found) else None

    def derived(
        self,
        question: Hashable,
        of_all: Callable[[Nodes], Numbers],
        of_row: Callable[[Nodes, int], float | Sequence[float]],
    ) -> Numbers:
        """Numbers that follow from each row alone, of these rows."""
        return self._nodes.derived(question, of_all, of_row)[..., self._of]

    def port_conflicts_on(self, ports: tuple[HostPort, ...], row: int) -> bool:
        """As `port_conflicts`, for one of these rows."""
        return bool(self.port_conflicts(ports)[row])

    def port_conflicts(self, ports: tuple[HostPort, ...]) -> Bools:
        """Which of these rows have any of the host ports taken."""
        conflicts: Bools = self._nodes.port_conflicts(ports)[self._of]
        return conflicts


class _OtherPods(SomeNodes):
    """One row, with some pods away from it and others on it. Read-only afterwards."""

    def __init__(self, nodes: Nodes, row: int, pods: Sequence[Pod], gone: Iterable[Pod], come: Iterable[Pod]) -> None:
        super().__init__(nodes, np.array([row], dtype=np.intp))
        for sign, moving in ((-1, gone), (1, come)):
            for pod in moving:
                for name, amount in pod.shape.requests.items():
                    index = nodes.resources.get(name)
                    if index is not None:
                        self.requested[index, 0] += sign * amount
                self.nonzero[:, 0] += np.multiply(sign, pod.shape.nonzero)
                self.pods[0] += sign
        self._there = pods

    def port_conflicts(self, ports: tuple[HostPort, ...]) -> Bools:
        """Whether the pods that are there have any of the host ports."""
        conflict = any(conflicts(ports, pod.shape.host_ports) for pod in self._there)
        return np.array([conflict])


def row_with(cluster: Cluster, row: int, gone: Sequence[Pod], come: Sequence[Pod]) -> Cluster:
    """The cluster with one row only, as it would be without some of its pods and with others.

    They are moved in `nodes` and nowhere else: for plugins that look at one node at a time.
    """
    away = {pod.uid for pod in gone}
    there = [pod for pod in cluster.pods_on(row) if pod.uid not in away] + list(come)
    view = copy.copy(cluster)
    view.nodes = _OtherPods(cluster.nodes, row, there, gone, come)
    return view


def some_rows(cluster: Cluster, rows: NDArray[np.intp]) -> Cluster:
    """The cluster with only these rows; everything but the node columns is shared."""
    view = copy.copy(cluster)
    view.nodes = SomeNodes(cluster.nodes, rows)
    return view
