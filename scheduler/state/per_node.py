"""Results for each node row that are kept from pod to pod: one rule for when they are repaired, and when made anew.

Whatever changes on a row is in a change log. Who is asked again looks up which rows changed since: a few are computed
again, and beyond one row in `repair_at_most` all are, since computing all rows at once costs little more by then.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.state.column import Numbers
from scheduler.state.rowlog import RowLog

if TYPE_CHECKING:
    from scheduler.state.nodes import Nodes

ALL_ROWS = None
"""What `renew` answers when no row is as it was."""
_NO_ROWS: frozenset[int] = frozenset()
_OFFERED = 10_000
"""How many keys that were offered once are remembered."""


class PerNode(ABC):
    """Results for each row of one set of nodes."""

    repair_at_most = 8
    """Rows are repaired while they are at most one in this many; a single row always is."""

    def __init__(self) -> None:
        self.nodes: Nodes | None = None
        self.version = -1
        """Of the change log for which the results are right."""
        self.rows = 0
        self.computed = 0
        """How often all rows were computed."""

    def renew(self, nodes: "Nodes", log: RowLog, *asked: Any) -> "set[int] | frozenset[int] | None":
        """Be right for the nodes as they are; the rows that were computed again, or ALL_ROWS.

        `asked` is handed on. What is raised on the way leaves everything as it was, to be computed the next time.
        """
        known = self.nodes is nodes and self.rows == nodes.rows
        if known and self.version == log.version:
            return _NO_ROWS
        changed = log.since(self.version) if known else ALL_ROWS
        if changed is not None and (len(changed) == 1 or len(changed) * self.repair_at_most <= nodes.rows):
            self.compute_rows(nodes, changed, *asked)
        else:
            changed = ALL_ROWS
            self.compute_all(nodes, *asked)
            self.nodes, self.rows = nodes, nodes.rows
            self.computed += 1
        self.version = log.version
        return changed

    @abstractmethod
    def compute_all(self, nodes: "Nodes", *asked: Any) -> None:
        """Compute all rows; keep nothing before all is there, as a plugin may raise, or an attempt's slice end."""

    @abstractmethod
    def compute_rows(self, nodes: "Nodes", rows: set[int], *asked: Any) -> None:
        """Compute some rows again."""


class Derived(PerNode):
    """Numbers that follow from each row alone, for whoever computes with them."""

    repair_at_most = 32  # one row after the other

    def __init__(
        self, of_all: "Callable[[Nodes], Numbers]", of_row: "Callable[[Nodes, int], float | Sequence[float]]"
    ) -> None:
        """`of_all` gives an array whose last axis is the rows, `of_row` the numbers of one of them."""
        super().__init__()
        self._of_all = of_all
        self._of_row = of_row
        self.values: Numbers = np.zeros(0)

    def compute_all(self, nodes: "Nodes", *asked: Any) -> None:
        """All rows."""
        self.values = self._of_all(nodes)

    def compute_rows(self, nodes: "Nodes", rows: set[int], *asked: Any) -> None:
        """Some rows."""
        for row in rows:
            self.values[..., row] = self._of_row(nodes, row)


class Bounded(dict[Hashable, Any]):
    """A dict of at most so many things: those that were not asked for longest go first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def recall(self, key: Hashable) -> Any:
        """The thing of a key, or None; it was asked for now."""
        found = self.pop(key, None)
        if found is not None:
            self[key] = found
        return found

    def keep(self, key: Hashable, thing: Any) -> None:
        """Keep a thing."""
        while len(self) >= self.most:
            del self[next(iter(self))]
        self[key] = thing


class Recurring(Bounded):
    """As `Bounded`, for what is asked for more than once: who is asked for once only would push out what others share.

    Besides, the memory of what is not kept is used again at once, while the processor still has it at hand.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._offered: set[int] = set()
        """Hashes of keys. Two that collide are kept a time too early, no more."""

    def keep(self, key: Hashable, thing: Any) -> None:
        """Keep a thing if one of this key was offered before."""
        offered = hash(key)
        if offered in self._offered:
            super().keep(key, thing)
            return
        if len(self._offered) >= _OFFERED:
            self._offered.clear()
        self._offered.add(offered)
