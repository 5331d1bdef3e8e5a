"""A view of a few rows of a cluster as if they were all rows: a plugin that reads it computes only these rows."""

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster, Placement
from podberth.cache.column import Column, Ints, Numbers, Value
from podberth.cache.nodes import HostPorts, Nodes, OfAll, OfRow
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import HostPort


class ViewError(TypeError):
    """An attempt to change a read-only view."""


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise ViewError("these are some rows of the nodes, to be looked at: they can't be changed")


class _SomeCodes(Column[Value]):
    """The codes of some rows, with all values of the whole column. Read-only."""

    def __init__(self, column: Column[Value], rows: NDArray[np.intp]) -> None:
        self.codes = column.codes[rows]
        self.values = column.values
        self._code = column._code  # noqa: SLF001 (of another Column)
        self._in_order = self.filled = -1
        self.version = column.version
        self.answers = column.answers  # type: ignore[method-assign]

    set = fill = grow = _refuse


class SomeNodes(Nodes):
    """The columns of some rows, in the order given. Read-only. Sums over all nodes are those of the whole cluster."""

    def __init__(self, nodes: Nodes, rows: NDArray[np.intp]) -> None:
        self._nodes = nodes
        self._of = rows
        self.rows = len(rows)
        self.count = nodes.count
        self.resources = nodes.resources
        self.served = nodes.served
        self.largest = nodes.largest
        self.log = nodes.log
        self.object_log = nodes.object_log
        self.population_changes = nodes.population_changes
        self.label_changes = nodes.label_changes
        self.key_changes = nodes.key_changes
        self.alive = nodes.alive[rows]
        self.unschedulable = nodes.unschedulable[rows]
        self.pods = nodes.pods[rows]
        self.allowed_pods = nodes.allowed_pods[rows]
        self.allocatable = nodes.allocatable[:, rows]
        self.requested = nodes.requested[:, rows]
        self.nonzero = nodes.nonzero[:, rows]
        self.taints = _SomeCodes(nodes.taints, rows)

    def of_these(self, by_row: Callable[[int], Ints]) -> Ints:
        """Return numbers of these rows, out of those of all."""
        return by_row(self._nodes.rows)[self._of]

    @cached_property
    def names(self) -> list[str | None]:  # type: ignore[override]
        """Return the name of each of these rows."""
        return [self._nodes.names[row] for row in self._of.tolist()]

    @cached_property
    def objects(self) -> list[Node | None]:  # type: ignore[override]
        """Return the node of each of these rows."""
        return [self._nodes.objects[row] for row in self._of.tolist()]

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {row: position for position, row in enumerate(self._of.tolist())}

    @property
    def label_keys(self) -> Mapping[str, int]:
        """Return label key → number of nodes that have it, of all nodes."""
        return self._nodes.label_keys

    def row_of(self, name: str) -> int | None:
        """Return the position of a name among these rows."""
        row = self._nodes.row_of(name)
        return None if row is None else self._positions.get(row)

    def image(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """Return (rows that hold the image, its size there in bytes) of these; None when no node of all has it."""
        found = self._nodes.image(name)
        if found is None:
            return None
        positions = self._positions
        here = [
            (positions[row], size) for row, size in zip(*map(np.ndarray.tolist, found), strict=True) if row in positions
        ]
        rows, sizes = zip(*here, strict=True) if here else ((), ())
        return np.array(rows, dtype=np.intp), np.array(sizes, dtype=np.int64)

    ensure_row = release_row = rename = offer = put = put_labels = charge = suppose = suppose_all = sweep = _refuse

    def label(self, key: str) -> Column[str]:
        return _SomeCodes(self._nodes.label(key), self._of)

    def annotation(self, key: str) -> Column[str]:
        """Return the column of an annotation, for these rows."""
        return _SomeCodes(self._nodes.annotation(key), self._of)

    def topology(self, key: str) -> Column[str] | None:
        """Return the column of a label, for these rows; None for a key that no node has."""
        column = self._nodes.topology(key)
        return None if column is None else _SomeCodes(column, self._of)

    def derived(self, question: Hashable, of_all: OfAll, of_row: OfRow) -> Numbers:
        """Return numbers that follow from each row alone, of these rows."""
        return self._nodes.derived(question, of_all, of_row)[..., self._of]

    def lacked(self, index: int) -> bool:
        """Return whether any of these rows has none of a resource."""
        return not self.allocatable[index].all()

    def port_users(self, ports: tuple[HostPort, ...]) -> Ints:
        """Return for each of these rows the number of pairs of such a port and a pod with it (`Nodes.port_users`)."""
        return self._nodes.port_users(ports)[self._of]

    def port_users_on(self, ports: tuple[HostPort, ...], row: int) -> int:
        """Return `port_users` of one of these rows."""
        return int(self.port_users(ports)[row])


class _OtherPods(SomeNodes):
    """One row without some of its pods, and with others. Read-only once it is made."""

    def __init__(self, nodes: Nodes, row: int, gone: Sequence[Pod], come: Sequence[Pod]) -> None:
        super().__init__(nodes, np.array([row], dtype=np.intp))
        self._beyond = nodes.beyond(row)
        self.unoffered = {}
        self.ports = HostPorts()
        """How many more of each host port are in use than on the whole row; fewer: less than 0."""
        for sign, moving in ((-1, gone), (1, come)):
            for pod in moving:
                Nodes.suppose(self, 0, pod.shape, sign)
        self._of_whole = row

    def derived(self, question: Hashable, of_all: OfAll, of_row: OfRow) -> Numbers:
        """Return numbers that follow from the row as it is here."""
        return np.array(of_row(self, 0))[..., np.newaxis]

    def port_users(self, ports: tuple[HostPort, ...]) -> Ints:
        """Return the number of pairs of such a port and a pod that holds it (`Nodes.port_users`)."""
        users = self._nodes.port_users_on(ports, self._of_whole) + self.ports.users_on(ports, 0)
        return np.array([users], dtype=np.int64)


class _PodsOfSome:
    """The placements on some rows, by their positions, as `Cluster.pods_on` asks for them."""

    def __init__(self, on_row: Mapping[int, Mapping[str, Placement]], rows: NDArray[np.intp]) -> None:
        self._on_row = on_row
        self._rows = rows

    def get(self, position: int, default: Mapping[str, Placement]) -> Mapping[str, Placement]:
        return self._on_row.get(self._rows.item(position), default)


class _PodsOfOne:
    """The placements on one row without some of its pods, and with others."""

    def __init__(
        self, on_row: Mapping[int, Mapping[str, Placement]], row: int, gone: Sequence[Pod], come: Sequence[Pod]
    ) -> None:
        self._on_row = on_row
        self._moved = row, gone, come

    def get(self, position: int, default: Mapping[str, Placement]) -> Mapping[str, Placement]:
        row, gone, come = self._moved
        placements = dict(self._on_row.get(row, default))
        for pod in gone:
            placements.pop(pod.uid, None)
        return placements | {pod.uid: Placement(pod, row, assumed=False) for pod in come}


def row_with(cluster: Cluster, row: int, gone: Sequence[Pod], come: Sequence[Pod]) -> Cluster:
    """Return the cluster with one row only, as it would be without some of its pods, and with others.

    They are moved in `nodes` and nowhere else: for plugins that look at one node at a time. It costs what these pods
    are, however many others there are on the row. Valid as long as the cluster does not change.
    """
    view = copy.copy(cluster)
    view.nodes = _OtherPods(cluster.nodes, row, gone, come)
    view.moved = ((-1, gone), (1, come))
    view.on_row = _PodsOfOne(cluster.on_row, row, gone, come)  # type: ignore[assignment]
    view.unnamed_on = {0: cluster.unnamed_on.get(row, [])}
    return view


def some_rows(cluster: Cluster, rows: NDArray[np.intp]) -> Cluster:
    """Return the cluster with only these rows; everything but the node columns is shared."""
    view = copy.copy(cluster)
    view.nodes = SomeNodes(cluster.nodes, rows)
    view.on_row = _PodsOfSome(cluster.on_row, rows)  # type: ignore[assignment]
    if cluster.unnamed_on:
        view.unnamed_on = _PodsOfSome(cluster.unnamed_on, rows)  # type: ignore[arg-type, assignment]
    return view
