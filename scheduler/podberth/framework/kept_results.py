"""The results by node that equal pods share, and how they are computed: for all rows, for some, or for one.

Next stage: `podberth.framework.equivalence` says which pods share which of them.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.cache.per_node import PerNode
from podberth.cache.view import some_rows
from podberth.model.pod import Pod

ONE_BY_ONE = 16
"""For at most this many rows, plugins that can be asked row by row are: that is cheaper than NumPy's fixed costs."""

Scorer = tuple[Any, int, Any]
"""(plugin, weight, normalize)."""
Ask = Callable[..., Any]
NO_FLAGS: Bools = np.zeros(0, dtype=np.bool_)
_NO_SCORES: Ints = np.zeros(0, dtype=np.int64)


class StaticResults(PerNode):
    """Results that depend on node objects only."""

    def __init__(self, filters: tuple[Any, ...], scorers: tuple[Scorer, ...], ask: Ask) -> None:
        super().__init__()
        self._filters = filters
        self._scorers = scorers
        self._ask = ask
        self.passes: Bools = NO_FLAGS
        """bool[rows]: nodes that exist and pass."""
        self.raw: list[tuple[Scorer, Ints | int]] = []
        """Scores before they are normalised; one number where all rows share it."""
        self.moves = 0
        """Counts changes of `raw`."""

    def compute_all(self, nodes: Nodes, *asked: Any) -> None:
        """All rows."""
        pod, cluster = asked
        passes = passing(self._filters, pod, cluster, nodes.alive[: nodes.rows], self._ask)
        rows = every_row(nodes.rows)
        found: list[tuple[Scorer, Ints | int]] = []
        for scorer in self._scorers:
            raw = self._ask(scorer[0], scorer[0].score, pod, cluster, rows)
            if isinstance(raw, np.ndarray) and len(raw) and int(raw.min()) == int(raw.max()):
                raw = int(raw[0])
            if raw is not None:
                found.append((scorer, raw))
        self.passes, self.raw = passes, found
        self.moves += 1

    def compute_rows(self, nodes: Nodes, rows: set[int], *asked: Any) -> None:
        """Some rows."""
        pod, cluster = asked
        which = as_index(rows)
        some = some_rows(cluster, which)
        self.passes[which] = passing(self._filters, pod, some, some.nodes.alive, self._ask)
        for i, (scorer, raw) in enumerate(self.raw):
            fresh = self._ask(scorer[0], scorer[0].score, pod, some, every_row(len(which)))
            if fresh is not None and np.any(fresh != (raw if isinstance(raw, int) else raw[which])):
                values = np.full(len(self.passes), raw, dtype=np.int64) if isinstance(raw, int) else raw
                values[which] = fresh
                self.raw[i] = (scorer, values)
                self.moves += 1


class OnNodeResults(PerNode):
    """Results that also depend on the pods on the node."""

    def __init__(
        self, filters: tuple[Any, ...], scorers: tuple[Scorer, ...], ask: Ask, *, one_by_one: frozenset[Any]
    ) -> None:
        """`one_by_one`: the plugins that can be asked about one row."""
        super().__init__()
        self._filters = filters
        self._scorers = scorers
        self._ask = ask
        self._may_one_by_one = one_by_one
        self.passes: Bools = NO_FLAGS
        """bool[rows]: rows that pass, also where there is no node."""
        self.sums: Ints = _NO_SCORES
        """int64[rows]: weighted scores."""
        self._adding: list[tuple[Any, int]] = []
        """The scorers that take part, with their weights."""
        self._one_by_one = False

    def compute_all(self, nodes: Nodes, *asked: Any) -> None:
        """All rows."""
        pod, cluster = asked
        passes = passing(self._filters, pod, cluster, None, self._ask)
        rows = every_row(nodes.rows)
        total: Any = None
        adding: list[tuple[Any, int]] = []
        for plugin, weight, _ in self._scorers:
            raw = self._ask(plugin, plugin.score, pod, cluster, rows)
            if raw is not None:
                adding.append((plugin, weight))
                weighted = raw if weight == 1 else raw * weight
                total = weighted if total is None else total + weighted
        self.passes, self._adding = passes, adding
        self.sums = total if isinstance(total, np.ndarray) else np.full(nodes.rows, total or 0, dtype=np.int64)
        self._one_by_one = self._may_one_by_one.issuperset([*self._filters, *[plugin for plugin, _ in adding]])

    def compute_rows(self, nodes: Nodes, rows: set[int], *asked: Any) -> None:
        """Some rows."""
        pod, cluster = asked
        if len(rows) <= ONE_BY_ONE and self._one_by_one:
            self._each(nodes, rows, pod)
            return
        which = as_index(rows)
        some = some_rows(cluster, which)
        self.passes[which] = passing(self._filters, pod, some, None, self._ask)
        total: Any = 0
        for plugin, weight in self._adding:
            raw = self._ask(plugin, plugin.score, pod, some, every_row(len(which)))
            total = total if raw is None else total + raw * weight
        self.sums[which] = total

    def _each(self, nodes: Nodes, rows: set[int], pod: Pod) -> None:
        ask = self._ask
        for row in rows:
            passes = True
            for plugin in self._filters:
                if not ask(plugin, plugin.filter_one, pod, nodes, row):
                    passes = False
                    break
            self.passes[row] = passes
            total = 0
            for plugin, weight in self._adding:
                total += ask(plugin, plugin.score_one, pod, nodes, row) * weight
            self.sums[row] = total


class Normalized:
    """A static scorer's part of the totals. It depends on the lowest and the highest score among the feasible rows."""

    def __init__(self, scorer: Scorer, raw: Ints) -> None:
        self._scorer = scorer
        self._raw = raw
        self._extremes: tuple[int, int] | None = None
        self.weighted: Ints = np.zeros(0, dtype=np.int64)

    def fit(self, left: Bools, pod: Pod, cluster: Cluster, ask: Ask) -> bool:
        """Bring the scores up to date for the rows that are left; returns whether anything changed."""
        there = self._raw[left]
        extremes = (int(there.min()), int(there.max())) if len(there) else (0, 0)
        if self._extremes == extremes:
            return False
        plugin, weight, normalize = self._scorer
        # Only rows that are not left have scores beyond the extremes. With these clipped, each row gets the score that
        # it would get among any rows with the same extremes.
        scores = np.minimum(np.maximum(self._raw, extremes[0]), extremes[1])
        self.weighted = ask(plugin, normalize, scores, pod, cluster, every_row(len(scores))) * weight
        self._extremes = extremes
        return True


def passing(plugins: Iterable[Any], pod: Pod, cluster: Cluster, among: Bools | None, ask: Ask) -> Bools:
    """bool[rows]: rows of `among` (None: all) that no filter rejects. The array belongs to the caller."""
    passes = np.ones(cluster.nodes.rows, dtype=np.bool_) if among is None else among.copy()
    for plugin in plugins:
        for _, rejected in ask(plugin, plugin.filter, pod, cluster):
            np.greater(passes, rejected, out=passes)
    return passes


_EVERY: NDArray[np.intp] = np.arange(1024)
_EVERY.flags.writeable = False


def every_row(count: int) -> NDArray[np.intp]:
    """0, 1, … count - 1; do not change it."""
    global _EVERY
    if count > len(_EVERY):
        _EVERY = np.arange(2 * count)
        _EVERY.flags.writeable = False
    return _EVERY[:count]


def as_index(rows: set[int]) -> NDArray[np.intp]:
    """A set of rows as an index."""
    return np.fromiter(rows, dtype=np.intp, count=len(rows))
