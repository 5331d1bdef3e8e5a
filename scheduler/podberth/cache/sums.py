"""Sums of placed pods that some terms select, per topology value or by row. Kept, and caught up when needed.

`Members` are the classes of pods that the terms select; the sums say how many of these pods are where.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from podberth.cache import row_counts
from podberth.cache.column import Bools, Codes, Column, Ints
from podberth.cache.nodes import Nodes
from podberth.cache.pod_classes import PodClass, PodClasses
from podberth.cache.row_counts import Placed
from podberth.cache.weights import Weights
from podberth.model.affinity import AffinityTerm
from podberth.model.selectors import EVERYTHING, NOTHING, LabelSelector

Terms = tuple[AffinityTerm, ...]

_OF_A_TERM, _OF_A_VALUE = 800, 200
"""Measured: a term with one requirement and one value takes 1.2 KB, and some more in the index."""
_ONE_BY_ONE = 32
"""Up to this many new classes are compared with the terms; with more of them, matching all terms again costs less."""


class ByTopology:
    """A number per value of one node label; without the label, nothing counts."""

    __slots__ = ("_above", "_dtype", "column", "counts", "total")

    def __init__(self, column: Column[str] | None, dtype: type[np.signedinteger[Any]] = np.int64) -> None:
        self.column = column
        """None: no node has the label."""
        self._dtype = dtype
        self.counts = self._room_for(0 if column is None else len(column.values))
        self._above: Bools | None = None
        """Where the numbers are above 0, if somebody asked."""
        self.total = 0
        """How many pods on nodes with the label count."""

    def by_row(self, rows: int) -> Ints:
        """int64[rows]: the number of each row's value, 0 where the row has none."""
        return _nothing(rows) if self.column is None else self.column.gather(self.by_code(), rows)

    def anywhere(self, rows: int) -> Bools:
        """bool[rows]: whether the number of each row's value is above 0. Do not change it."""
        if self.column is None or not self.total:
            return np.zeros(rows, dtype=np.bool_)
        return self.column.gather(self._where(), rows)

    def everywhere(self, rows: int) -> bool:
        """Return whether `anywhere` is true of all rows, as far as that can be told by the values alone."""
        column = self.column
        return column is not None and column.filled == rows and np.count_nonzero(self._where()) == len(column.values)

    def _where(self) -> Bools:
        """bool[values of the column + 1]: whether the number of each value is above 0."""
        assert self.column is not None
        if self._above is None or len(self._above) != len(self.column.values) + 1:
            self._above = self.by_code() > 0
        return self._above

    def by_code(self) -> Ints:
        """int64[values of the column + 1]; the last is 0, as no value has that code. Do not change it."""
        values = 0 if self.column is None else len(self.column.values)
        if values > len(self.counts) - 1:
            grown = self._room_for(values)
            grown[: len(self.counts)] = self.counts
            self.counts = grown
        return self.counts[: values + 1]

    def count(self, row: int, amount: int, weight: int) -> None:
        """So many more pods on a row, each counting so much."""
        assert self.column is not None
        code = self.column.codes.item(row)
        if code >= 0:
            if code >= len(self.counts) - 1:
                self.by_code()
            number = self.counts[code] = self.counts.item(code) + amount * weight
            self.total += amount
            if self._above is not None and code < len(self._above):
                self._above[code] = number > 0

    def times(self, weight: int) -> "ByTopology":
        """These sums, each multiplied by a weight."""
        if weight == 1:
            return self
        made = ByTopology(self.column)
        made.counts, made.total = np.multiply(self.by_code(), weight, dtype=np.int64), self.total
        return made

    def start(self, column: Column[str] | None) -> None:
        """Begin at 0, by a column."""
        self.column = column
        self.counts = self._room_for(0 if column is None else len(column.values))
        self._above = None
        self.total = 0

    def add_all(self, rows: Codes, numbers: Any, pods: int) -> None:
        """So many `pods` more, on these rows with the label; `numbers` are what each counts for."""
        if self.column is None:
            return
        size = len(self.column.values)
        self.by_code()
        self._above = None
        self.counts[:size] += np.bincount(self.column.codes[rows], weights=numbers, minlength=size).astype(self._dtype)
        self.total += pods

    def _room_for(self, values: int) -> Ints:
        """Zeros for so many values, some more, and one for rows that have none."""
        return np.zeros(values + values // 4 + 2, dtype=self._dtype)


def summed(sums: Sequence[ByTopology], rows: int) -> Ints | None:
    """int64[rows]: the sum of each row's numbers; None where there is nothing to sum."""
    by_column: dict[int, tuple[Column[str], Ints]] = {}
    for one in sums:
        if one.column is None or not one.total:
            continue
        before = by_column.get(id(one.column))
        counts = one.by_code().astype(np.int64, copy=False)
        if before is not None:
            counts = before[1] + counts
        by_column[id(one.column)] = (one.column, counts)
    total: Ints | None = None
    for column, counts in by_column.values():
        by_row = column.gather(counts, rows)
        total = by_row if total is None else total + by_row
    return total


class Members:
    """Classes and what each counts for.

    `amounts`: what each term adds for the classes that it selects; None: a class that all terms select counts once.
    `leaving`: whether terminating pods count.
    """

    def __init__(self, terms: Terms, amounts: Sequence[int] | None, *, leaving: bool = True) -> None:
        self.terms = terms
        self.weights = Weights()
        self._amounts = amounts
        self._leaving = leaving
        self._by_namespace = any(not term.namespace_selector.nothing for term in terms)
        self._born = 0
        """How many classes are known."""
        self._namespaces = -1
        self.edition = 0
        """Counts how often all weights were computed: older sums have to be added up again too."""
        self.size = sum(map(_bytes, terms))
        """Bytes that the terms take, about."""

    @property
    def once(self) -> bool:
        """Return whether a class counts once, or not at all."""
        return self._amounts is None

    def renew(self, pods: PodClasses) -> None:
        """Bring the weights up to date."""
        moved = self._by_namespace and self._namespaces != pods.namespace_changes
        if moved or not self.edition or len(pods.born) - self._born > _ONE_BY_ONE:
            self._match(pods)
        elif self._born < len(pods.born):
            for number in pods.born[self._born :]:
                found = pods.get(number)
                self.weights.set(number, 0 if found is None else self._weight(found, pods))
            self._born = len(pods.born)

    def _match(self, pods: PodClasses) -> None:
        self.weights, self._born, self._namespaces = Weights(), len(pods.born), pods.namespace_changes
        self.edition += 1
        for i, term in enumerate(self.terms):
            found = pods.matching(term, leaving=self._leaving)
            if self._amounts is not None:
                self.weights.add(found, self._amounts[i])
            elif i:
                self.weights.keep(found)
            else:
                self.weights.add(found, 1)
        self.weights.settle()

    def _weight(self, of: PodClass, pods: PodClasses) -> int:
        if of.terminating and not self._leaving:
            return 0
        selects = [pods.selects(term, of.namespace, of.labels) for term in self.terms]
        if self._amounts is None:
            return int(all(selects))
        return sum(amount for amount, selected in zip(self._amounts, selects, strict=True) if selected)


class CaughtUp(ABC):
    """A sum over placed pods that terms select: changes are applied, or everything is added up, by one rule."""

    __slots__ = ()
    _members: Members
    _edition: int
    """The edition of the members' weights that the sum was made with; -1: it has to be added up."""
    _version: int
    """The version of the counts of pods that the sum knows."""

    def _catch_up(self, pods: PodClasses) -> None:
        """Bring the sum up to date."""
        members, placed = self._members, pods.placed
        members.renew(pods)
        if members.edition == self._edition and self._version == placed.version:
            return
        if members.edition == self._edition and placed.worth_following(self._version):
            self._follow(members.weights.since(placed, self._version))
        else:
            self._add_up(*members.weights.weighed(placed))
        self._version, self._edition = placed.version, members.edition  # type: ignore[misc] # slots of the subclasses

    @abstractmethod
    def _follow(self, changes: list[tuple[int, int, int]]) -> None:
        """Apply changes: (row, how many pods more, what each counts for)."""

    @abstractmethod
    def _add_up(self, placed: Placed, weights: Ints) -> None:
        """Begin again with all pods: where they are, and what each counts for, which may be nothing."""


class Selected(ByTopology, CaughtUp):
    """Placed pods per topology value: those that all terms select, or each with the amounts of the terms that do."""

    __slots__ = ("_edition", "_keys", "_members", "_relabelled", "_version", "topology_key")

    def __init__(self, members: Members, topology_key: str) -> None:
        super().__init__(None, np.int32 if members.once else np.int64)
        self.topology_key = topology_key
        self._members = members
        self._keys = -1
        self._edition = -1
        self._relabelled = -1
        self._version = -1

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.counts.nbytes + self._members.weights.size + self._members.size

    def of_class(self, number: int) -> int:
        """Return what a placed pod of this class counts for."""
        return self._members.weights.get(number)

    def renew(self, pods: PodClasses, nodes: Nodes) -> None:
        """Bring the sums up to date."""
        if self._keys != nodes.key_changes:
            column = nodes.topology(self.topology_key)
            if column is not self.column:
                self.start(column)
                self._edition = -1
            self._keys = nodes.key_changes
        if self.column is None:
            return
        relabelled = pods.relabelled.get(self.topology_key, 0)
        if relabelled != self._relabelled:
            self._relabelled, self._edition = relabelled, -1
        self._catch_up(pods)

    def _follow(self, changes: list[tuple[int, int, int]]) -> None:
        for row, amount, weight in changes:
            self.count(row, amount, weight)

    def _add_up(self, placed: Placed, weights: Ints) -> None:
        self.start(self.column)
        assert self.column is not None
        counts = (weights != 0) & (self.column.codes[placed.rows] >= 0)
        if not counts.all():
            placed, weights = placed.at(counts), weights[counts]
        self.add_all(placed.rows, placed.counts * weights, int(placed.counts.sum()))


class OnRows(CaughtUp):
    """Placed pods that a selector selects, by node row; terminating pods count only if `leaving`.

    `namespace`: where they are; None: anywhere.
    """

    __slots__ = ("_base", "_changes", "_edition", "_members", "_version", "counts")

    def __init__(self, namespace: str | None, selector: LabelSelector, leaving: bool) -> None:
        where = (frozenset[str](), EVERYTHING) if namespace is None else (frozenset((namespace,)), NOTHING)
        term = AffinityTerm(selector, *where, "")
        self._members = Members((term,), None, leaving=leaving)
        self.counts: Ints = np.zeros(64, dtype=np.int64)
        self._changes: list[tuple[int, int]] = []
        self._base = 0
        self._edition = -1
        self._version = -1

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.counts.nbytes + self._members.weights.size

    @property
    def version(self) -> int:
        """Counts every change ever."""
        return self._base + len(self._changes)

    def since(self, version: int) -> list[tuple[int, int]] | None:
        """(row, amount) of what changed after a version; None when that is too long ago to know."""
        return None if version < self._base else self._changes[version - self._base :]

    def by_row(self, rows: int) -> Ints:
        """int64[rows]; do not change it."""
        self._grow(rows)
        return self.counts[:rows]

    def renew(self, pods: PodClasses) -> None:
        """Bring the counts up to date."""
        self._catch_up(pods)

    def _follow(self, changes: list[tuple[int, int, int]]) -> None:
        for row, amount, _ in changes:
            self._grow(row + 1)
            self.counts[row] += amount
            self._changes.append((row, amount))
        if len(self._changes) > 2 * row_counts.REMEMBERED:
            del self._changes[: row_counts.REMEMBERED]
            self._base += row_counts.REMEMBERED

    def _add_up(self, placed: Placed, weights: Ints) -> None:
        counts = np.bincount(placed.rows, weights=placed.counts * weights, minlength=len(self.counts))
        self.counts = counts.astype(np.int64)
        self._base += len(self._changes) + 1
        self._changes = []

    def _grow(self, rows: int) -> None:
        if rows > len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(rows, dtype=np.int64)))


def _nothing(rows: int) -> Ints:
    return np.zeros(rows, dtype=np.int64)


def _bytes(term: AffinityTerm) -> int:
    """About how many bytes a term takes."""
    return _OF_A_TERM + _OF_A_VALUE * term.selector.size
