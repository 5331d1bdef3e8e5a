"""Per shape: which nodes pass the filters that look at shape and node only, and what such plugins score.

Kept from pod to pod and repaired for the rows that changed since, once a shape is seen again. What depends on other
pods (affinity, spread) is not in here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes
from scheduler.state.view import some_rows

_KEPT_BYTES = 16 << 20
_BYTES_A_ROW = 48
"""What a memo takes: two masks and up to six numbers."""
_SEEN = 50_000
_REPAIR_AT_MOST = 8
"""Rows may be repaired while they are at most one in this many; beyond that, all are computed anew."""
_ONE_BY_ONE = 16
"""Up to so many rows, plugins are asked row by row where they can be: NumPy's fixed costs are those of some rows."""

NOWHERE = -(1 << 62)
"""The rank of rows that do not pass."""


@dataclass(slots=True)
class Stretched:
    """A scorer whose normalisation depends on the lowest and highest raw score only."""

    plugin: Any
    weight: int
    raw: Ints
    extremes: tuple[int, int] | None = None
    """Of the rows for which `weighted` holds; None: nothing is known."""
    weighted: Ints | int = 0
    uniform: bool = False
    """All rows have one raw score: so has every choice of rows, and `weighted` is one number."""


@dataclass(slots=True)
class Memo:
    """One shape's answers, by row."""

    nodes: Nodes
    allowed: Bools
    """Rows that exist and pass the filters that no placed pod can change."""
    passes: Bools
    """And those of the others that look at one node at a time."""
    sums: Ints
    """Weighted scores of the plugins that do not normalize."""
    adding: list[tuple[Any, int]]
    """These plugins, with their weights."""
    stretched: list[Stretched]
    pre_filters: tuple[Any, ...]
    filters: tuple[Any, ...]
    scorers: tuple[tuple[Any, int, Any], ...]
    """(plugin, weight, normalize) of those that have to be asked each time, as are `pre_filters` and `filters`."""
    version: int
    objects_version: int
    ranks: Ints | None = None
    """Total scores, `NOWHERE` where rows do not pass; None: to be computed."""
    feasible: NDArray[np.intp] | None = field(default=None)
    """The rows that pass; None: to be found."""


class Memos:
    """The memos of one profile.

    `filters` and `scorers` ((plugin, weight, normalize) triples) are the profile's; `ask(plugin, point, …)` runs one.
    """

    def __init__(
        self,
        pre_filters: Iterable[Any],
        filters: Iterable[Any],
        scorers: Iterable[tuple[Any, int, Any]],
        ask: Callable[..., Any],
    ) -> None:
        filters, scorers = tuple(filters), tuple(scorers)
        self._pre_filters = tuple(pre_filters)
        by_shape = [plugin for plugin in filters if getattr(plugin, "by_shape", False)]
        self._blind = [plugin for plugin in by_shape if getattr(plugin, "ignores_usage", False)]
        self._seeing = [plugin for plugin in by_shape if plugin not in self._blind]
        self._other_filters = [plugin for plugin in filters if plugin not in by_shape]
        self._kept = [scorer for scorer in scorers if _keeps(*scorer)]
        self._other_scorers = [scorer for scorer in scorers if scorer not in self._kept]
        self.ask = ask
        self.computed = 0
        """How often all rows were looked at anew, for want of a memo or of one that could be repaired."""
        self._memos: dict[PodShape, Memo] = {}
        self._seen: set[PodShape] = set()

    def get(self, pod: Pod, cluster: Cluster) -> Memo:
        """What is known of a pod's shape, up to date."""
        nodes, shape = cluster.nodes, pod.shape
        memo = self._memos.get(shape)
        if memo is None:
            memo = self._compute(pod, cluster)
            if shape in self._seen:
                if len(self._memos) * nodes.rows * _BYTES_A_ROW > _KEPT_BYTES:
                    del self._memos[next(iter(self._memos))]
                self._memos[shape] = memo
            else:
                if len(self._seen) >= _SEEN:
                    self._seen.clear()
                self._seen.add(shape)
            return memo
        if memo.nodes is nodes and memo.version == nodes.log.version:
            return memo
        changed = nodes.log.since(memo.version) if memo.nodes is nodes else None
        if changed is None or nodes.rows > len(memo.passes) or len(changed) * _REPAIR_AT_MOST > nodes.rows:
            memo = self._compute(pod, cluster)
        else:
            self._repair(memo, pod, cluster, changed)
        del self._memos[shape]
        self._memos[shape] = memo
        return memo

    def ranks(self, memo: Memo, pod: Pod, cluster: Cluster, alive: Bools) -> Ints:
        """int64[rows]: what the kept scorers give in total, right for the rows of `alive`; do not change it."""
        standing = alive is memo.passes
        if standing and memo.ranks is not None:
            return memo.ranks
        total: Any = memo.sums
        for one in memo.stretched:
            self._stretch(memo, one, pod, cluster, alive)
            total = total + one.weighted
        if not standing:
            return total  # type: ignore[no-any-return]
        memo.ranks = np.where(alive, total, NOWHERE)
        return memo.ranks

    def _stretch(self, memo: Memo, one: Stretched, pod: Pod, cluster: Cluster, alive: Bools) -> None:
        """Have the normalised scores fit the extremes of the rows of `alive`."""
        if one.uniform and one.extremes is not None:
            return
        there = one.raw[alive]
        extremes = (int(there.min()), int(there.max())) if len(there) else (0, 0)
        if one.extremes == extremes:
            return
        one.uniform = bool((one.raw == extremes[0]).all())
        # Beyond the extremes are only rows outside `alive`. With them clipped, each row's score is as it would be
        # among any rows of these extremes.
        scores = np.minimum(np.maximum(one.raw[:1] if one.uniform else one.raw, extremes[0]), extremes[1])
        rows = np.arange(len(scores))
        weighted = self.ask(one.plugin, one.plugin.normalize, scores, pod, cluster, rows) * one.weight
        one.weighted = int(weighted[0]) if one.uniform else weighted
        one.extremes = extremes
        memo.ranks = None

    # -- all rows ------------------------------------------------------------------------------------------------

    def _compute(self, pod: Pod, cluster: Cluster) -> Memo:
        self.computed += 1
        nodes = cluster.nodes
        allowed = self._passing(self._blind, pod, cluster, nodes.alive[: nodes.rows])
        rows = np.arange(nodes.rows)
        sums = np.zeros(nodes.rows, dtype=np.int64)
        adding, stretched = [], []
        for plugin, weight, normalize in self._kept:
            raw = self.ask(plugin, plugin.score, pod, cluster, rows)
            if raw is None:
                continue
            if normalize is None:
                sums += raw * weight
                adding.append((plugin, weight))
            elif isinstance(raw, int):
                one = Stretched(plugin, weight, np.full(len(rows), raw, dtype=np.int64), (raw, raw), uniform=True)
                one.weighted = int(self.ask(plugin, normalize, one.raw[:1], pod, cluster, rows[:1])[0]) * weight
                stretched.append(one)
            else:
                stretched.append(Stretched(plugin, weight, raw))
        shape = pod.shape
        return Memo(
            nodes,
            allowed,
            self._passing(self._seeing, pod, cluster, allowed),
            sums,
            adding,
            stretched,
            tuple(plugin for plugin in self._pre_filters if _concerned(plugin, shape)),
            tuple(plugin for plugin in self._other_filters if _concerned(plugin, shape)),
            tuple(scorer for scorer in self._other_scorers if _concerned(scorer[0], shape)),
            nodes.log.version,
            nodes.object_log.version,
        )

    def _passing(self, plugins: Iterable[Any], pod: Pod, cluster: Cluster, among: Bools) -> Bools:
        passes = among.copy()
        for plugin in plugins:
            for _, rejected in self.ask(plugin, plugin.filter, pod, cluster):
                passes &= ~rejected
        return passes

    def _score(self, plugin: Any, pod: Pod, cluster: Cluster, rows: NDArray[np.intp]) -> Ints | None:
        raw = self.ask(plugin, plugin.score, pod, cluster, rows)
        return np.full(len(rows), raw, dtype=np.int64) if isinstance(raw, int) else raw

    # -- some rows -----------------------------------------------------------------------------------------------

    def _repair(self, memo: Memo, pod: Pod, cluster: Cluster, changed: set[int]) -> None:
        nodes = cluster.nodes
        if memo.objects_version != nodes.object_log.version:
            replaced = nodes.object_log.since(memo.objects_version)
            self._repair_objects(memo, pod, cluster, changed if replaced is None else replaced)
            memo.objects_version = nodes.object_log.version
        if len(changed) > _ONE_BY_ONE or not self._repair_each(memo, pod, nodes, changed):
            self._repair_together(memo, pod, cluster, changed)
        memo.version = nodes.log.version

    def _repair_objects(self, memo: Memo, pod: Pod, cluster: Cluster, changed: set[int]) -> None:
        """Ask again what only the node objects decide."""
        rows = _rows(changed)
        some = some_rows(cluster, rows)
        memo.allowed[rows] = self._passing(self._blind, pod, some, some.nodes.alive)
        for one in memo.stretched:
            fresh = self._score(one.plugin, pod, some, np.arange(len(rows)))
            if fresh is not None and (fresh != one.raw[rows]).any():
                one.raw[rows] = fresh
                one.extremes = None
                memo.ranks = None

    def _repair_each(self, memo: Memo, pod: Pod, nodes: Nodes, changed: set[int]) -> bool:
        """Ask row by row; False when a plugin can't be asked so, and then nothing is repaired."""
        found = []
        for row in changed:
            passes = bool(memo.allowed[row])
            for plugin in self._seeing:
                verdict = self.ask(plugin, plugin.passes_on, pod, nodes, row) if _by_row(plugin, "passes_on") else None
                if verdict is None:
                    return False
                passes = passes and verdict
            total = 0
            for plugin, weight in memo.adding:
                score = self.ask(plugin, plugin.score_on, pod, nodes, row) if _by_row(plugin, "score_on") else None
                if score is None:
                    return False
                total += score * weight
            found.append((row, passes, total))
        for row, passes, total in found:
            memo.sums[row] = total
            if passes != memo.passes[row]:
                memo.passes[row] = passes
                self._passing_changed(memo)
            if memo.ranks is not None:
                memo.ranks[row] = total + self._stretched_on(memo, row) if passes else NOWHERE
        return True

    def _repair_together(self, memo: Memo, pod: Pod, cluster: Cluster, changed: set[int]) -> None:
        rows = _rows(changed)
        some = some_rows(cluster, rows)
        passes = self._passing(self._seeing, pod, some, memo.allowed[rows])
        total: Any = np.zeros(len(rows), dtype=np.int64)
        for plugin, weight in memo.adding:
            raw = self._score(plugin, pod, some, np.arange(len(rows)))
            total = total if raw is None else total + raw * weight
        memo.sums[rows] = total
        memo.ranks = None
        if (passes != memo.passes[rows]).any():
            memo.passes[rows] = passes
            self._passing_changed(memo)

    def _passing_changed(self, memo: Memo) -> None:
        memo.feasible = None
        if not all(one.uniform for one in memo.stretched):
            # Other rows pass now: the extremes may have moved with them.
            memo.ranks = None

    def _stretched_on(self, memo: Memo, row: int) -> int:
        total = 0
        for one in memo.stretched:
            total += one.weighted if isinstance(one.weighted, int) else int(one.weighted[row])
        return total


def _keeps(plugin: Any, _weight: int, normalize: Any) -> bool:
    """Whether a scorer's answers can be kept by row."""
    if not getattr(plugin, "scores_by_shape", False):
        return False
    return normalize is None or (
        getattr(plugin, "normalizes_by_extremes", False) and getattr(plugin, "ignores_usage", False)
    )


def _concerned(plugin: Any, shape: PodShape) -> bool:
    return not hasattr(plugin, "concerns") or plugin.concerns(shape)


def _by_row(plugin: Any, point: str) -> bool:
    return hasattr(plugin, point)


def _rows(changed: set[int]) -> NDArray[np.intp]:
    return np.fromiter(changed, dtype=np.intp, count=len(changed))
