"""Which nodes match a selector with so many terms that they can't be evaluated in one slice.

All terms on one label key are added up by the values that nodes have, so most terms cost no more than reading their
text. Sums are kept until a node's labels change, so an attempt that used up its slice goes on where it stopped, which
may be in the middle of a term: one may have 100,000 values.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.parts import Parts, whole
from scheduler.model.selectors import NodeSelectorTerm, Requirement
from scheduler.state.column import Bools, Column, Ints

if TYPE_CHECKING:
    from scheduler.state.nodes import Nodes

Terms = Sequence[tuple[int, NodeSelectorTerm]]
_KEPT_MOST = 8
"""Selectors whose sums are kept."""
TOGETHER = 500
"""Steps between two charges."""
_AT_ONCE = 250
"""Values that are looked up in one part."""


class Weighing:
    """For each row, the sum of the weights of the terms that it matches, as far as they were added up."""

    def __init__(self, nodes: "Nodes") -> None:
        self.changes = nodes.label_changes
        self.next = 0
        """The next term to add."""
        self.complete = False
        self._adding: Iterator[int] | None = None
        """The rest of a term that was added in part."""
        self._rows: Ints = np.zeros(nodes.rows, dtype=np.int64)
        self._by_code: dict[str, tuple[Column[str], Ints]] = {}
        """Label key → sums by the code of its values, the last for rows that do not have it."""
        self._total: Ints | None = None

    def add(self, terms: Terms, nodes: "Nodes") -> None:
        """Add what is missing. Raises SliceOver."""
        steps = 0
        while self.next < len(terms):
            if self._adding is None:
                self._adding = self._add(*terms[self.next], nodes)
            for part in self._adding:
                steps += part
                if steps >= TOGETHER:
                    nodes.effort.charge(steps)
                    steps = 0
            self._adding = None
            self.next += 1
        nodes.effort.charge(steps)
        self.complete = True

    def total(self, nodes: "Nodes") -> Ints:
        """int64[rows]: the sums; do not change them."""
        if self._total is None:
            self._total = self._rows
            for column, sums in self._by_code.values():
                self._total = self._total + sums.take(column.codes[: nodes.rows])
        return self._total

    def _add(self, weight: int, term: NodeSelectorTerm, nodes: "Nodes") -> Iterator[int]:
        """Add one term; yields the steps that each part took."""
        yield 2 + term.size // 16
        by_key: dict[str, list[Requirement]] = {}
        for requirement in term.labels:
            by_key.setdefault(requirement.key, []).append(requirement)
        columns = []
        for key, requirements in by_key.items():
            column = nodes.topology(key)
            if column is not None:
                columns.append((key, column, requirements))
            elif not all(requirement.accepts(None) for requirement in requirements):
                return
        if not term.fields and len(columns) == 1:
            yield from self._add_up(weight, *columns[0])
            return
        if not columns and len(term.fields) == 1 and term.fields[0].names_node:
            row = nodes.live_row(term.fields[0].name)
            sign = 1
            if term.fields[0].operator != "In":
                self._rows += weight
                sign = -1
            if row is not None:
                self._rows[row] += sign * weight
            yield 3 * (sign < 0)
            return
        matched: Bools = named(term, nodes)
        for _, column, requirements in columns:
            accepted = yield from _accepted_in_parts(column, requirements)
            matched &= accepted.take(column.codes[: nodes.rows])
            yield 5 + nodes.rows // 300
        self._rows += np.multiply(matched, weight, dtype=np.int64)
        yield 5 + nodes.rows // 300

    def _add_up(self, weight: int, key: str, column: Column[str], requirements: list[Requirement]) -> Iterator[int]:
        """Add a term that asks for one label only."""
        found = self._by_code.get(key)
        if found is None:
            found = self._by_code[key] = column, np.zeros(len(column.values) + 1, dtype=np.int64)
        sums = found[1]
        if len(requirements) == 1 and requirements[0].operator == "In":
            codes = yield from _codes(column, requirements[0].values)
            sums[codes] += weight
        elif len(requirements) == 1 and requirements[0].operator == "NotIn":
            codes = yield from _codes(column, requirements[0].values)
            self._rows += weight
            sums[codes] -= weight
            yield 3
        else:
            accepted = yield from _accepted_in_parts(column, requirements)
            sums += np.multiply(accepted, weight, dtype=np.int64)
            yield 5 + len(sums) // 300


def accepted_by_code(column: Column[str], requirements: Sequence[Requirement]) -> Bools:
    """bool by code: which values of one label meet all requirements, the last for rows that do not have it."""
    return whole(_accepted_in_parts(column, requirements))


def _accepted_in_parts(column: Column[str], requirements: Sequence[Requirement]) -> Parts[Bools]:
    accepted: Bools = np.ones(len(column.values) + 1, dtype=np.bool_)
    lowest: int | None = None
    highest: int | None = None
    refused = [requirement.values for requirement in requirements if requirement.operator == "NotIn"]
    if refused:
        codes = yield from _codes(column, chain.from_iterable(refused))
        accepted[codes] = False
    yield 2 + len(requirements) // 8
    for requirement in requirements:
        match requirement.operator:
            case "NotIn":
                pass
            case "In":
                codes = yield from _codes(column, requirement.values)
                these = np.zeros_like(accepted)
                these[codes] = True
                accepted &= these
                yield 1 + len(accepted) // 3_000
            case "Exists":
                accepted[-1] = False
            case "DoesNotExist":
                accepted[:-1] = False
            case "Gt":
                lowest = requirement.number if lowest is None else max(lowest, requirement.number)
            case _:
                highest = requirement.number if highest is None else min(highest, requirement.number)
    if lowest is not None or highest is not None:
        numbers, are = column.numbers()
        accepted[:-1] &= are
        accepted[-1] = False
        if lowest is not None:
            accepted[:-1] &= numbers > lowest
        if highest is not None:
            accepted[:-1] &= numbers < highest
        yield 10
    return accepted


def _codes(column: Column[str], values: Iterable[str]) -> Parts[list[int]]:
    """The codes of those values that some row has."""
    left, found = iter(values), list[int]()
    while some := list(islice(left, _AT_ONCE)):
        found += column.codes_of(some)
        yield 1 + len(some) // 5
    return found


def named(term: NodeSelectorTerm, nodes: "Nodes") -> Bools:
    """bool[rows] that a term's fields allow; the caller's own. Fields other than the name read as empty."""
    matched: Bools = np.ones(nodes.rows, dtype=np.bool_)
    not_these = []
    for requirement in term.fields:
        if not requirement.names_node:
            if not requirement.accepts(""):
                return np.zeros(nodes.rows, dtype=np.bool_)
            continue
        row = nodes.live_row(requirement.name)
        if requirement.operator == "In":
            only: Bools = np.zeros(nodes.rows, dtype=np.bool_)
            if row is not None:
                only[row] = matched[row]
            matched = only
        elif row is not None:
            not_these.append(row)
    matched[not_these] = False
    return matched


class Weighings:
    """The sums of the selectors that were asked about last."""

    def __init__(self) -> None:
        self._kept: dict[object, Weighing] = {}
        self.added = 0
        """How many terms were added up."""

    def __len__(self) -> int:
        """How many selectors have sums."""
        return len(self._kept)

    def get(self, terms: Terms, key: object, nodes: "Nodes") -> Ints:
        """int64[rows]: the sum of the weights of the terms that each row matches. Raises SliceOver."""
        weighing = self._kept.pop(key, None)
        if weighing is None or weighing.changes != nodes.label_changes:
            weighing = Weighing(nodes)
        while len(self._kept) >= _KEPT_MOST:
            # Of those that are not complete, some have to get to their end.
            complete = (other for other, kept in self._kept.items() if kept.complete)
            del self._kept[next(complete, next(reversed(self._kept)))]
        self._kept[key] = weighing
        before = weighing.next
        try:
            weighing.add(terms, nodes)
        finally:
            self.added += weighing.next - before
        return weighing.total(nodes)
