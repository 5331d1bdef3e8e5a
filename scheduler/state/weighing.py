"""Which nodes match a selector of many terms, and what the terms that each node matches add up to.

All terms on one label key are added up by the values that nodes have, so most terms cost no more than reading their
text. Sums are kept until a node's labels change.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.selectors import NodeSelectorTerm, Requirement
from scheduler.state.column import Bools, Column, Ints

if TYPE_CHECKING:
    from scheduler.state.nodes import Nodes

Terms = Sequence[tuple[int, NodeSelectorTerm]]
_KEPT_MOST = 8
"""Selectors whose sums are kept."""


def _weigh(terms: Terms, nodes: "Nodes") -> Ints:
    """int64[rows]: the sum of the weights of the terms that each row matches."""
    total: Ints = np.zeros(nodes.rows, dtype=np.int64)
    by_code: dict[str, tuple[Column[str], Ints]] = {}
    """Label key → sums by the code of its values, the last for rows that do not have it."""
    for weight, term in terms:
        _add(weight, term, nodes, total, by_code)
    for column, sums in by_code.values():
        total += sums.take(column.codes[: nodes.rows])
    return total


def _add(
    weight: int, term: NodeSelectorTerm, nodes: "Nodes", total: Ints, by_code: dict[str, tuple[Column[str], Ints]]
) -> None:
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
        key, column, requirements = columns[0]
        if key not in by_code:
            by_code[key] = column, np.zeros(len(column.values) + 1, dtype=np.int64)
        by_code[key][1][:] += np.multiply(accepted_by_code(column, requirements), weight, dtype=np.int64)
        return
    matched: Bools = named(term, nodes)
    for _, column, requirements in columns:
        matched &= accepted_by_code(column, requirements).take(column.codes[: nodes.rows])
    total += np.multiply(matched, weight, dtype=np.int64)


def accepted_by_code(column: Column[str], requirements: Sequence[Requirement]) -> Bools:
    """bool by code: which values of one label meet all requirements, the last for rows that do not have it."""
    accepted: Bools = np.ones(len(column.values) + 1, dtype=np.bool_)
    lowest: int | None = None
    highest: int | None = None
    refused = [requirement.values for requirement in requirements if requirement.operator == "NotIn"]
    if refused:
        accepted[_codes(column, chain.from_iterable(refused))] = False
    for requirement in requirements:
        match requirement.operator:
            case "NotIn":
                pass
            case "In":
                these = np.zeros_like(accepted)
                these[_codes(column, requirement.values)] = True
                accepted &= these
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
    return accepted


def _codes(column: Column[str], values: Iterable[str]) -> list[int]:
    """The codes of those values that some row has."""
    return list(column.codes_of(list(values)))


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
        self._kept: dict[object, tuple[int, Ints]] = {}
        """What stands for the terms → (changes of nodes' labels for which they are right, sums)."""

    def __len__(self) -> int:
        """How many selectors have sums."""
        return len(self._kept)

    def get(self, terms: Terms, key: object, nodes: "Nodes") -> Ints:
        """int64[rows]: the sum of the weights of the terms that each row matches; not to be changed."""
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] != nodes.label_changes:
            kept = nodes.label_changes, _weigh(terms, nodes)
        if len(self._kept) >= _KEPT_MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
        return kept[1]
