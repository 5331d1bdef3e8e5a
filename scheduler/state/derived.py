"""Numbers per node row that follow from the row alone, kept and repaired for the rows that changed."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.state.column import Numbers

if TYPE_CHECKING:
    from scheduler.state.nodes import Nodes

_REPAIR_AT_MOST = 32
"""Rows are repaired one by one while they are at most one in this many."""


@dataclass(slots=True)
class _Kept:
    values: Numbers
    version: int


class Derived:
    """All such numbers of one set of nodes, by the question that they answer."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def get(
        self,
        nodes: "Nodes",
        question: Hashable,
        of_all: Callable[["Nodes"], Numbers],
        of_row: Callable[["Nodes", int], float | Sequence[float]],
    ) -> Numbers:
        """An array whose last axis is the rows; do not change it. `of_row` gives the numbers of one row."""
        kept = self._kept.get(question)
        changed = None if kept is None else nodes.log.since(kept.version)
        if (
            kept is None
            or changed is None
            or nodes.rows > kept.values.shape[-1]
            or len(changed) * _REPAIR_AT_MOST > nodes.rows
        ):
            kept = self._kept[question] = _Kept(of_all(nodes), 0)
        else:
            for row in changed:
                kept.values[..., row] = of_row(nodes, row)
        kept.version = nodes.log.version
        return kept.values
