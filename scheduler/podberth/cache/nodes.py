"""Node rows: what each node has, what is taken, and the interned columns of labels, taints and images.

A row without a node object (`alive` is false) holds pods bound to a name that is not there yet, or no more.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from podberth.cache.column import Bools, Column, Ints, Numbers
from podberth.cache.kept_results import Bounded, KeptByRow, RowLog
from podberth.model.node import Node
from podberth.model.shape import ANY_IP, HostPort, PodShape
from podberth.model.taints import Taints

Array = TypeVar("Array", Bools, Ints)

CPU, MEMORY, EPHEMERAL = 0, 1, 2
_FIRST_ROWS = 64
_MOST = 1 << 62
"""The largest sum in a column: filters and scores may add what one more pod asks for."""
_TOGETHER = 32
"""The number of pods of one shape from which on arrays over all rows cost less than one row after the other."""
COLUMNS = 256
_DERIVED = 64
"""The number of questions whose derived numbers are kept: each takes a few numbers a node."""
HOSTNAME = "kubernetes.io/hostname"
_USUAL = (HOSTNAME, "topology.kubernetes.io/zone")
"""Labels whose columns exist from the start, as some pod will ask for them."""


Ports = tuple[HostPort, ...]


class HostPorts:
    """The host ports in use, by row."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        """(protocol, port) → IP → row → pods."""

    def charge(self, row: int, ports: Ports, sign: int) -> None:
        """Count a pod's host ports (sign 1), or take them back (-1)."""
        for port in ports:
            self._charge(row, port, sign)

    def users(self, wanted: Ports, rows: int) -> Ints:
        """Return int64[rows]: the number of pairs of a wanted port and a pod that holds it, or one that excludes it."""
        found = np.zeros(rows, dtype=np.int64)
        for by_row in self._like(wanted):
            found[list(by_row)] += list(by_row.values())
        return found

    def users_on(self, wanted: Ports, row: int) -> int:
        """Return that number for one row."""
        return sum(by_row.get(row, 0) for by_row in self._like(wanted))

    def by_row(self) -> dict[int, dict[HostPort, int]]:
        """Return row → host port → number of pods that hold it (for validation)."""
        found: dict[int, dict[HostPort, int]] = {}
        for (protocol, port), by_ip in self._rows.items():
            for ip, rows in by_ip.items():
                for row, users in rows.items():
                    found.setdefault(row, {})[(ip, protocol, port)] = users
        return found

    def _like(self, wanted: Ports) -> Iterator[Mapping[int, int]]:
        """Yield row → pods for each port that excludes a wanted one, once per wanted port."""
        for ip, protocol, port in wanted:
            for used_ip, by_row in self._rows.get((protocol, port), {}).items():
                if ip == used_ip or ANY_IP in (ip, used_ip):
                    yield by_row

    def _charge(self, row: int, port: HostPort, sign: int) -> None:
        ip, protocol, number = port
        by_ip = self._rows.setdefault((protocol, number), {})
        rows = by_ip.setdefault(ip, {})
        users = rows.get(row, 0) + sign
        if users:
            rows[row] = users
            return
        del rows[row]
        if not rows:
            del by_ip[ip]
        if not by_ip:
            del self._rows[(protocol, number)]


def conflicts(mine: Ports, theirs: Ports) -> int:
    """Return the number of pairs of host ports that exclude each other."""
    if not mine or not theirs:
        return 0
    wanted: dict[tuple[str, int], list[str]] = {}
    for ip, protocol, port in mine:
        wanted.setdefault((protocol, port), []).append(ip)
    found = 0
    for ip, protocol, port in theirs:
        for other in wanted.get((protocol, port), ()):
            found += ip == other or ANY_IP in (ip, other)
    return found


class Images:
    """The images by name, with the rows that hold them and their sizes there."""

    def __init__(self) -> None:
        self.version = 0
        """Counts changes of what any row has."""
        self.by_name: dict[str, dict[int, int]] = {}
        """Image → row → size."""
        self.arrays: dict[str, tuple[NDArray[np.intp], Ints]] = {}
        """The answers of `where` that are kept."""

    def put(self, row: int, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Replace the images of a row (name → size in bytes)."""
        if before == after:
            return
        self.version += 1
        for name in before:
            rows = self.by_name[name]
            del rows[row]
            self.arrays.pop(name, None)
            if not rows:
                del self.by_name[name]
        for name, size in after.items():
            self.by_name.setdefault(name, {})[row] = size
            self.arrays.pop(name, None)

    def where(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """Return (rows that hold the image, its size there in bytes), None when no node has it."""
        found = self.arrays.get(name)
        if found is None and name in self.by_name:
            sizes = self.by_name[name]
            found = self.arrays[name] = (
                np.fromiter(sizes.keys(), dtype=np.intp, count=len(sizes)),
                np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes)),
            )
        return found


def capped(amount: int) -> int:
    """Return a sum of what pods ask for as a column holds it.

    Anybody may create pods that name their node, and each of them may ask for as much as `quantity.BOUND`.
    """
    return max(-_MOST, min(amount, _MOST))


OfAll = Callable[["Nodes"], Numbers]
"""Numbers of all rows at once; the last axis is the rows."""
OfRow = Callable[["Nodes", int], float | Sequence[float] | Sequence[Sequence[float]]]
"""The same numbers, of one row."""


class Derived(KeptByRow):
    """Numbers that depend on each row alone, kept by row."""

    repair_at_most = 32  # one row after the other

    def __init__(self, of_all: OfAll, of_row: OfRow) -> None:
        """`of_all` returns an array whose last axis is the rows, `of_row` the numbers of one of them."""
        self._of_all = of_all
        self._of_row = of_row
        self.values: Numbers = np.zeros(0)

    def compute(self, asked: Any) -> None:
        """Compute the numbers of all rows."""
        self.values = self._of_all(asked[0])

    def apply(self, changes: set[int], asked: Any) -> None:
        """Compute the numbers of some rows."""
        for row in changes:
            self.values[..., row] = self._of_row(asked[0], row)


class Nodes:
    """The columns over node rows. Arrays are longer than `rows`; slice them with `[:rows]`."""

    def __init__(self) -> None:
        self.rows = 0
        self.count = 0
        self.names: list[str | None] = []
        self.objects: list[Node | None] = []
        self.resources: dict[str, int] = {"cpu": CPU, "memory": MEMORY, "ephemeral-storage": EPHEMERAL}
        """The index in `allocatable` and `requested` of each resource that a node offers, and of these three."""
        self.served: set[str] = set()
        """Extended resources that device classes serve where nodes have none: filled by `Devices`."""
        self.unoffered: dict[str, dict[int, int]] = {}
        """Requests of placed pods for resources that no node offers: resource → row → amount."""
        self._beyond: dict[tuple[bool, int, int], int] = {}
        """(of `nonzero`, index of the resource, row) → the exact sum, where it is more than half of what a column may
        hold; the column holds it `capped`.
        """
        self._offering: dict[str, int] = {}
        """Resource → nodes that offer it."""
        self._free_indices: list[int] = []
        self.log = RowLog()
        self.object_log = RowLog()
        """The rows of `log` whose node object changed; on the others, only pods changed."""
        self._lacked: list[bool] = []
        """Whether any row has none of a resource, by the resource's index."""
        self._lacked_in: tuple[int, int] | None = None
        """The state of the nodes for which that is right."""
        self.largest = 0
        """The largest amount of any resource that any node ever had."""
        self.label_changes = 0
        """Counts added and deleted nodes, and changes of their labels."""
        self.population_changes = 0
        """Counts nodes that were added or deleted."""
        self._derived: Bounded[Hashable, Derived] = Bounded(_DERIVED)
        self._capacity = _FIRST_ROWS
        self._row: dict[str, int] = {}
        self._free: list[int] = []
        self.alive: Bools = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self.unschedulable: Bools = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self.pods: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.allowed_pods: Ints = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.allocatable: Ints = np.zeros((3, _FIRST_ROWS), dtype=np.int64)
        self.requested: Ints = np.zeros((3, _FIRST_ROWS), dtype=np.int64)
        self.nonzero: Ints = np.zeros((2, _FIRST_ROWS), dtype=np.int64)
        self.taints: Column[Taints] = Column(_FIRST_ROWS)
        self.columns: dict[str, Column[str]] = {key: Column(_FIRST_ROWS) for key in _USUAL}
        """Label key → its column, for keys that pods have asked for."""
        self.annotation_columns: dict[str, Column[str]] = {}
        """Annotation key → its column. Only annotations that a plugin declares have one (`Reads` of the framework)."""
        self._keys: dict[str, int] = {}
        """Label key → nodes that have it."""
        self.key_changes = 0
        """Counts label keys that were added with their first node or removed with their last."""
        self._most_columns = COLUMNS
        """The number of columns that there may be before columns without values are dropped."""
        self.images = Images()
        self.ports = HostPorts()

    def of_these(self, by_row: Callable[[int], Ints]) -> Ints:
        """Return numbers of these rows. `by_row` gives those of the first rows of the whole cluster."""
        return by_row(self.rows)

    def row_of(self, name: str) -> int | None:
        """Return the row of a name, with or without a node object."""
        return self._row.get(name)

    def live_row(self, name: str) -> int | None:
        """Return the row of a node that exists."""
        row = self.row_of(name)
        return row if row is not None and self.alive[row] else None

    def named(self, names: Iterable[str]) -> Bools:
        """Return bool[rows]: the nodes with these names that exist."""
        found = np.zeros(self.rows, dtype=np.bool_)
        found[[row for row in map(self.live_row, names) if row is not None]] = True
        return found

    def live(self) -> Iterator[tuple[int, Node]]:
        """Yield every node that exists, with its row."""
        for row, node in enumerate(self.objects):
            if node is not None:
                yield row, node

    def ensure_row(self, name: str) -> int:
        """Return the row of a name, and make it if need be."""
        row = self._row.get(name)
        if row is None:
            if self._free:
                row = self._free.pop()
                self.names[row] = name
            else:
                row = self.rows
                if row == self._capacity:
                    self._grow(2 * self._capacity)
                self.rows += 1
                self.names.append(name)
                self.objects.append(None)
            self._row[name] = row
        return row

    def release_row(self, row: int) -> None:
        """Free a row that has neither a node object nor pods."""
        name = self.names[row]
        if name is None or self.objects[row] is not None or self.pods[row]:
            return
        del self._row[name]
        self.names[row] = None
        self._free.append(row)

    def rename(self, like: "Nodes") -> None:
        """Give the rows the names, and the free rows, of another set of as many rows."""
        self.names, self._row, self._free = list(like.names), dict(like._row), list(like._free)  # noqa: SLF001 (of another Nodes)

    def label(self, key: str) -> Column[str]:
        """Return the column of one label key; it is made when first asked for, and kept up to date afterwards."""
        column = self.columns.get(key)
        if column is None:
            if len(self.columns) >= self._most_columns:
                self.sweep()
            column = self.columns[key] = Column(self._capacity)
            if key in self._keys:
                column.fill((row, node.labels[key]) for row, node in self.live() if key in node.labels)
        return column

    def annotation(self, key: str) -> Column[str]:
        """Return the column of one annotation, as `label` does that of a label."""
        column = self.annotation_columns.get(key)
        if column is None:
            column = self.annotation_columns[key] = Column(self._capacity)
            column.fill((row, node.annotations[key]) for row, node in self.live() if key in node.annotations)
        return column

    @property
    def label_keys(self) -> Mapping[str, int]:
        """Return label key → number of nodes that have it."""
        return self._keys

    def topology(self, key: str) -> Column[str] | None:
        """Return the column of a label key; None when no node has it, until `key_changes` says that it may."""
        if key not in self._keys:
            return None
        column = self.columns.get(key)
        return self.label(key) if column is None else column

    def sweep(self) -> None:
        """Drop the columns of keys that no node has: any pod may ask for any key."""
        self.columns = {key: column for key, column in self.columns.items() if key in _USUAL or not column.blank}
        self._most_columns = max(COLUMNS, 2 * len(self.columns))

    def offer(self, name: str) -> int:
        """Return the index of a resource that one more node offers, and add it if need be."""
        self._offering[name] = self._offering.get(name, 0) + 1
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = self._free_indices.pop() if self._free_indices else len(self.resources)
            if index == len(self.allocatable):
                self.allocatable = np.concatenate((self.allocatable, np.zeros_like(self.allocatable)))
                self.requested = np.concatenate((self.requested, np.zeros_like(self.requested)))
            for row, amount in self.unoffered.pop(name, {}).items():
                self.log.touch(row)
                self._count(self.requested, index, row, amount)
        return index

    def _withdraw(self, name: str) -> None:
        """Note that one node less offers a resource."""
        self._offering[name] -= 1
        if self._offering[name]:
            return
        del self._offering[name]
        index = self.resources[name]
        if index <= EPHEMERAL:
            return
        del self.resources[name]
        self._free_indices.append(index)
        rows = np.flatnonzero(self.requested[index]).tolist()
        if rows:
            requested, beyond = self.requested, self._beyond
            self.unoffered[name] = {row: beyond.pop((False, index, row), requested.item(index, row)) for row in rows}
            requested[index] = 0
            for row in rows:
                self.log.touch(row)

    def derived(self, question: Hashable, of_all: OfAll, of_row: OfRow) -> Numbers:
        """Return numbers that follow from each row alone (the last axis), kept between calls; do not change them.

        A dry run (`suppose`) does not show in them.
        """
        found = self._derived.recall(question)
        if found is None:
            found = Derived(of_all, of_row)
            self._derived.keep(question, found)
        found.renew((self.rows,), self.log, (self,))
        return found.values

    def lacked(self, index: int) -> bool:
        """Return whether any row has none of a resource."""
        state = self.object_log.version, self.rows
        if self._lacked_in != state:
            self._lacked, self._lacked_in = (self.allocatable[:, : self.rows] == 0).any(axis=1).tolist(), state
        return self._lacked[index]

    def put(self, row: int, node: Node | None) -> None:
        """Write the node object of a row and all that derives from it; None when the node is gone."""
        old = self.objects[row]
        self.population_changes += (node is None) != (old is None)
        self.log.touch(row)
        self.object_log.touch(row)
        self.objects[row] = node
        self.alive[row] = node is not None
        self.count += (node is not None) - (old is not None)
        self.unschedulable[row] = node is not None and node.unschedulable
        if old is None or node is None or old.allocatable is not node.allocatable:
            self.allocatable[:, row] = 0
            self.allowed_pods[row] = 0
            before = {} if old is None else old.allocatable
            after = {} if node is None else node.allocatable
            for name in before:
                if name not in after:
                    self._withdraw(name)  # first, so that what comes can have its place
            if node is not None:
                self.allowed_pods[row] = node.allowed_pods
                for name, amount in after.items():
                    index = self.resources[name] if name in before else self.offer(name)
                    self.allocatable[index, row] = amount
                    self.largest = max(self.largest, amount)
        self.taints.set(row, None if node is None else node.taints or None)
        for key, column in self.annotation_columns.items():
            column.set(row, None if node is None else node.annotations.get(key))
        self.images.put(row, {} if old is None else old.images, {} if node is None else node.images)

    def put_labels(self, row: int, labels: Mapping[str, str] | None) -> None:
        """Write the label columns of a row. The caller informs the sums that depend on them."""
        self.log.touch(row)
        self.object_log.touch(row)
        self.label_changes += 1
        node = self.objects[row]
        old: Mapping[str, str] = {} if node is None else node.labels
        new = {} if labels is None else labels
        for key in old:
            if key not in new:
                self._write(row, key, None)
                self._keys[key] -= 1
                if not self._keys[key]:
                    del self._keys[key]
                    self.key_changes += 1
        for key, value in new.items():
            self._write(row, key, value)
            if key not in old:
                self.key_changes += key not in self._keys
                self._keys[key] = self._keys.get(key, 0) + 1

    def topology_changes(self, row: int, labels: Mapping[str, str]) -> list[str]:
        """Return the keys that have a column and whose values in these labels differ from the row's."""
        node = self.objects[row]
        old: Mapping[str, str] = {} if node is None else node.labels
        keys = (*old, *(key for key in labels if key not in old))
        return [key for key in keys if key in self.columns and old.get(key) != labels.get(key)]

    def _write(self, row: int, key: str, value: str | None) -> None:
        column = self.columns.get(key)
        if column is not None:
            column.set(row, value)

    def charge(self, row: int, shape: PodShape, sign: int) -> None:
        """Add (sign 1) or take back (sign -1) one pod's requests, count and host ports."""
        self.log.touch(row)
        self.suppose(row, shape, sign)

    def suppose(self, row: int, shape: PodShape, sign: int) -> None:
        """Charge a pod in a dry run, which takes it back with the opposite sign: `log` does not show it."""
        indices, requested, nonzero = self.resources, self.requested, self.nonzero
        with_care = shape.large or self._beyond  # otherwise no sum gets too large
        for name, amount in shape.requests.items():
            index = indices.get(name)
            if index is None:
                if amount:
                    self._ask(name, row, sign * amount)
            elif with_care:
                self._count(requested, index, row, sign * amount)
            else:
                requested[index, row] = requested.item(index, row) + sign * amount
        cpu, memory = shape.nonzero
        if with_care:
            self._count(nonzero, CPU, row, sign * cpu)
            self._count(nonzero, MEMORY, row, sign * memory)
        else:
            nonzero[CPU, row] = nonzero.item(CPU, row) + sign * cpu
            nonzero[MEMORY, row] = nonzero.item(MEMORY, row) + sign * memory
        self.pods[row] = self.pods.item(row) + sign
        if shape.host_ports:
            self.ports.charge(row, shape.host_ports, sign)

    def beyond(self, row: int) -> dict[tuple[bool, int, int], int]:
        """Return the exact sums of a row that `_beyond` has, for a copy of the row on row 0."""
        return {(of, index, 0): exact for (of, index, at), exact in self._beyond.items() if at == row}

    def any_beyond(self, rows: Iterable[int]) -> bool:
        """Return whether columns hold less than the exact sum on one of these rows."""
        if not self._beyond:
            return False
        return not {row for (_, _, row), exact in self._beyond.items() if exact != capped(exact)}.isdisjoint(rows)

    def _count(self, sums: Ints, index: int, row: int, amount: int) -> None:
        """Add an amount to a sum that the column may not hold: then the exact one is kept beside it."""
        key = sums is self.nonzero, index, row
        exact = self._beyond.pop(key, sums.item(index, row)) + amount
        sums[index, row] = capped(exact)
        if abs(exact) > _MOST // 2:  # from here on small requests are counted with care, too
            self._beyond[key] = exact

    def suppose_all(self, where: Iterable[tuple[int, PodShape]], sign: int) -> None:
        """Suppose many pods; quick where many of them have one shape."""
        by_shape: dict[PodShape, list[int]] = {}
        for row, shape in where:
            by_shape.setdefault(shape, []).append(row)
        for shape, rows in by_shape.items():
            if len(rows) < _TOGETHER or shape.host_ports or shape.large or self._beyond:
                for row in rows:
                    self.suppose(row, shape, sign)
                continue
            self._add(shape, sign * np.bincount(rows, minlength=self._capacity))

    def _add(self, shape: PodShape, times: NDArray[np.intp]) -> None:
        """Suppose pods of one shape without host ports: `times` says how many on each row."""
        indices = self.resources
        for name, amount in shape.requests.items():
            index = indices.get(name)
            if index is not None:
                self.requested[index] += amount * times
            elif amount:
                for row in np.flatnonzero(times).tolist():
                    self._ask(name, row, amount * int(times[row]))
        self.nonzero[0] += shape.nonzero[0] * times
        self.nonzero[1] += shape.nonzero[1] * times
        self.pods += times

    def _ask(self, name: str, row: int, amount: int) -> None:
        """Count a request of a pod for a resource that no node offers; a negative amount takes it back."""
        rows = self.unoffered.setdefault(name, {})
        rows[row] = rows.get(row, 0) + amount
        if not rows[row]:
            del rows[row]
            if not rows:
                del self.unoffered[name]

    def image(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """Return (rows that hold the image, its size there in bytes), None when no node has it."""
        return self.images.where(name)

    def port_conflicts(self, ports: tuple[HostPort, ...]) -> Bools:
        """Return bool[rows]: the rows on which any of the host ports is taken (HostPortInfo.CheckConflict)."""
        return self.port_users(ports) > 0

    def port_users(self, ports: tuple[HostPort, ...]) -> Ints:
        """Return int64[rows]: the number of pairs of one of these host ports and a pod that holds it, or one that
        excludes it.
        """
        return self.ports.users(ports, self.rows)

    def port_users_on(self, ports: tuple[HostPort, ...], row: int) -> int:
        """Return `port_users` of one row."""
        return self.ports.users_on(ports, row)

    def port_conflicts_on(self, ports: tuple[HostPort, ...], row: int) -> bool:
        """Return whether any of the host ports is taken on one row."""
        return self.port_users_on(ports, row) > 0

    def _grow(self, capacity: int) -> None:
        def grown(array: Array) -> Array:
            wider = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
            wider[..., : array.shape[-1]] = array
            return wider

        self._capacity = capacity
        self.alive = grown(self.alive)
        self.unschedulable = grown(self.unschedulable)
        self.pods = grown(self.pods)
        self.allowed_pods = grown(self.allowed_pods)
        self.allocatable = grown(self.allocatable)
        self.requested = grown(self.requested)
        self.nonzero = grown(self.nonzero)
        self.taints.grow(capacity)
        for column in (*self.columns.values(), *self.annotation_columns.values()):
            column.grow(capacity)
