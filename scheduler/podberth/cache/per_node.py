"""Results for each node row that are kept from pod to pod: one rule for when which rows are computed again.

Every change of a row is in a change log. When results are needed again, the log says which rows have changed. If these
are few, they are computed again. If they are more than one row in `repair_at_most`, all rows are: by then, computing
all rows at once costs little more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from podberth.cache.column import Numbers
from podberth.cache.rowlog import RowLog

if TYPE_CHECKING:
    from podberth.cache.nodes import Nodes

OfAll: TypeAlias = "Callable[[Nodes], Numbers]"
"""Numbers of all rows at once; the last axis is the rows."""
OfRow: TypeAlias = "Callable[[Nodes, int], float | Sequence[float]]"
"""What `OfAll` computes, for one row."""
Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")

ALL_ROWS = None
"""What `renew` returns when all rows were computed."""
_NO_ROWS: frozenset[int] = frozenset()
_OFFERED = 10_000
"""How many keys that were seen once are remembered."""


class PerNode(ABC):
    """Results for each row of one set of nodes."""

    repair_at_most = 8
    """Rows are repaired while they are at most one in this many; a single row always is."""

    def __init__(self) -> None:
        self.nodes: Nodes | None = None
        self.version = -1
        """The version of the change log for which the results are right."""
        self.rows = 0
        self.computed = 0
        """How often all rows were computed."""

    def renew(self, nodes: "Nodes", log: RowLog, *asked: Any) -> "set[int] | frozenset[int] | None":
        """Bring the results up to date; returns the rows that were computed again, or ALL_ROWS.

        `asked` is passed on. If an exception is raised, the results stay as they were and are computed the next time.
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
        """Compute all rows. Store nothing before everything is computed: a plugin may raise."""

    @abstractmethod
    def compute_rows(self, nodes: "Nodes", rows: set[int], *asked: Any) -> None:
        """Compute some rows again."""


class Derived(PerNode):
    """Numbers that depend on each row alone."""

    repair_at_most = 32  # one row after the other

    def __init__(self, of_all: "OfAll", of_row: "OfRow") -> None:
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


class Bounded(dict[Key, Thing]):
    """A dict with at most `most` things: the ones that were not asked for longest are dropped first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def recall(self, key: Key) -> Thing | None:
        """The thing of a key, or None; it counts as asked for now."""
        found = self.pop(key, None)
        if found is not None:
            self[key] = found
        return found

    def keep(self, key: Key, thing: Thing) -> None:
        """Keep a thing."""
        self.pop(key, None)
        while len(self) >= self.most:
            self.drop_oldest()
        self[key] = thing

    def drop_oldest(self) -> Thing:
        """Drop the thing that was not asked for longest, and return it."""
        return self.pop(next(iter(self)))


class Recurring(Bounded[Key, Thing]):
    """As `Bounded`, but a thing is kept only from the second time on: things used once would displace shared ones.

    Besides, the memory of a thing that is not kept is reused at once, while it is still in the processor's cache.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._offered: set[int] = set()
        """Hashes of keys. If two collide, a thing is kept one time too early, which does no harm."""

    def keep(self, key: Key, thing: Thing) -> None:
        """Keep a thing if its key was seen before."""
        offered = hash(key)
        if offered in self._offered:
            super().keep(key, thing)
            return
        if len(self._offered) >= _OFFERED:
            self._offered.clear()
        self._offered.add(offered)
