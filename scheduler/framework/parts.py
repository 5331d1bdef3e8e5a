"""What plugins say of all nodes, kept and repaired for the rows that changed, shared by all pods that read alike.

Two parts of a decision are kept apart, since they change at different times and few pods differ in both: `Ground` is
what node objects decide (taints, labels), `Usage` what the pods on a node do (requests, host ports). A plugin's `reads`
says what of a shape it goes by. Next stage: `scheduler.framework.memo` puts both together.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes
from scheduler.state.view import some_rows

REPAIR_AT_MOST = 8
"""Rows may be repaired while they are at most one in this many; beyond that, all are computed anew."""
ONE_BY_ONE = 16
"""Up to so many rows, plugins are asked row by row where they can be: NumPy's fixed costs are those of some rows."""

Scorer = tuple[Any, int, Any]
"""(plugin, weight, normalize)."""


def key_of(plugins: Iterable[Any], shape: PodShape, ask: Callable[..., Any]) -> Hashable:
    """What these plugins go by: pods with equal keys get equal answers."""
    return tuple([ask(plugin, plugin.reads, shape) if hasattr(plugin, "reads") else shape for plugin in plugins])


class Ground:
    """What only node objects decide: filters and scorers with `ignores_usage`."""

    def __init__(self, filters: tuple[Any, ...], scorers: tuple[Scorer, ...], ask: Callable[..., Any]) -> None:
        self._filters = filters
        self._scorers = scorers
        self._ask = ask
        self.nodes: Nodes | None = None
        self.version = 0
        self.epoch = 0
        """Counts how often all rows were looked at."""
        self.moves = 0
        """Counts changes of `raw`."""
        self.allowed: Bools = np.zeros(0, dtype=np.bool_)
        """bool[rows]: nodes that exist and pass."""
        self.raw: list[tuple[Scorer, Ints | int]] = []
        """Scores before they are normalised; one number where all rows share it."""

    def renew(self, pod: Pod, cluster: Cluster) -> None:
        """Be right for the cluster as it is."""
        nodes = cluster.nodes
        if self.nodes is nodes and self.version == nodes.object_log.version and nodes.rows <= len(self.allowed):
            return
        changed = nodes.object_log.since(self.version) if self.nodes is nodes else None
        if changed is None or nodes.rows > len(self.allowed) or len(changed) * REPAIR_AT_MOST > nodes.rows:
            self._compute(pod, cluster)
        else:
            self._repair(pod, cluster, changed)
        self.version = nodes.object_log.version

    def _compute(self, pod: Pod, cluster: Cluster) -> None:
        """All rows. Nothing is kept before all of it is there: a plugin may raise, or the attempt's slice end."""
        nodes = cluster.nodes
        allowed = passing(self._filters, pod, cluster, nodes.alive[: nodes.rows], self._ask)
        rows = every_row(nodes.rows)
        found: list[tuple[Scorer, Ints | int]] = []
        for scorer in self._scorers:
            raw = self._ask(scorer[0], scorer[0].score, pod, cluster, rows)
            if isinstance(raw, np.ndarray) and len(raw) and int(raw.min()) == int(raw.max()):
                raw = int(raw[0])
            if raw is not None:
                found.append((scorer, raw))
        self.nodes, self.allowed, self.raw = nodes, allowed, found
        self.epoch += 1
        self.moves += 1

    def _repair(self, pod: Pod, cluster: Cluster, changed: set[int]) -> None:
        rows = rows_of(changed)
        some = some_rows(cluster, rows)
        self.allowed[rows] = passing(self._filters, pod, some, some.nodes.alive, self._ask)
        for i, (scorer, raw) in enumerate(self.raw):
            fresh = self._ask(scorer[0], scorer[0].score, pod, some, every_row(len(rows)))
            if fresh is not None and np.any(fresh != (raw if isinstance(raw, int) else raw[rows])):
                values = np.full(len(self.allowed), raw, dtype=np.int64) if isinstance(raw, int) else raw
                values[rows] = fresh
                self.raw[i] = (scorer, values)
                self.moves += 1


class Usage:
    """What the pods on a node decide too: the other filters and scorers that look at one node at a time."""

    def __init__(self, filters: tuple[Any, ...], scorers: tuple[Scorer, ...], ask: Callable[..., Any]) -> None:
        self._filters = filters
        self._scorers = scorers
        self._ask = ask
        self.nodes: Nodes | None = None
        self.version = 0
        self.epoch = 0
        """Counts how often all rows were looked at."""
        self.fits: Bools = np.zeros(0, dtype=np.bool_)
        """bool[rows]: rows that pass; whether there is a node is not asked."""
        self.sums: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: weighted scores."""
        self._adding: list[tuple[Any, int]] = []
        """The scorers that take part, with their weights."""
        self._by_row = all(hasattr(plugin, "passes_on") for plugin in filters)

    def renew(self, pod: Pod, cluster: Cluster) -> None:
        """Be right for the cluster as it is."""
        nodes = cluster.nodes
        if self.nodes is nodes and self.version == nodes.log.version and nodes.rows <= len(self.fits):
            return
        changed = nodes.log.since(self.version) if self.nodes is nodes else None
        if changed is None or nodes.rows > len(self.fits) or len(changed) * REPAIR_AT_MOST > nodes.rows:
            self._compute(pod, cluster)
        elif len(changed) <= ONE_BY_ONE and self._by_row:
            self._repair_each(pod, nodes, changed)
        else:
            self._repair_together(pod, cluster, changed)
        self.version = nodes.log.version

    def _compute(self, pod: Pod, cluster: Cluster) -> None:
        """All rows, kept once all of it is there, as in `Ground`."""
        nodes = cluster.nodes
        fits = passing(self._filters, pod, cluster, None, self._ask)
        rows = every_row(nodes.rows)
        total: Any = None
        adding: list[tuple[Any, int]] = []
        for plugin, weight, _ in self._scorers:
            raw = self._ask(plugin, plugin.score, pod, cluster, rows)
            if raw is not None:
                adding.append((plugin, weight))
                weighted = raw if weight == 1 else raw * weight
                total = weighted if total is None else total + weighted
        self.nodes, self.fits, self._adding = nodes, fits, adding
        self.epoch += 1
        self.sums = total if isinstance(total, np.ndarray) else np.full(nodes.rows, total or 0, dtype=np.int64)
        self._by_row = self._by_row and all(hasattr(plugin, "score_on") for plugin, _ in self._adding)

    def _repair_each(self, pod: Pod, nodes: Nodes, changed: set[int]) -> None:
        ask = self._ask
        for row in changed:
            passes = True
            for plugin in self._filters:
                if not ask(plugin, plugin.passes_on, pod, nodes, row):
                    passes = False
                    break
            self.fits[row] = passes
            total = 0
            for plugin, weight in self._adding:
                total += ask(plugin, plugin.score_on, pod, nodes, row) * weight
            self.sums[row] = total

    def _repair_together(self, pod: Pod, cluster: Cluster, changed: set[int]) -> None:
        rows = rows_of(changed)
        some = some_rows(cluster, rows)
        self.fits[rows] = passing(self._filters, pod, some, None, self._ask)
        total: Any = 0
        for plugin, weight in self._adding:
            raw = self._ask(plugin, plugin.score, pod, some, every_row(len(rows)))
            total = total if raw is None else total + raw * weight
        self.sums[rows] = total


def passing(plugins: Iterable[Any], pod: Pod, cluster: Cluster, among: Bools | None, ask: Callable[..., Any]) -> Bools:
    """bool[rows], the caller's own: rows of `among` (None: all) that no filter rejects."""
    passes = np.ones(cluster.nodes.rows, dtype=np.bool_) if among is None else among.copy()
    for plugin in plugins:
        if hasattr(plugin, "passes"):
            passes &= ask(plugin, plugin.passes, pod, cluster.nodes)
            continue
        for _, rejected in ask(plugin, plugin.filter, pod, cluster):
            np.greater(passes, rejected, out=passes)
    return passes


_EVERY: NDArray[np.intp] = np.arange(1024)
_EVERY.flags.writeable = False


def every_row(count: int) -> NDArray[np.intp]:
    """0, 1, … count - 1; not to be changed."""
    global _EVERY
    if count > len(_EVERY):
        _EVERY = np.arange(2 * count)
        _EVERY.flags.writeable = False
    return _EVERY[:count]


def rows_of(changed: set[int]) -> NDArray[np.intp]:
    """A set of rows as an index."""
    return np.fromiter(changed, dtype=np.intp, count=len(changed))
