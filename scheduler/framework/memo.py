"""Per shape: which nodes pass the filters that look at shape and node only, and what such plugins score.

Kept from pod to pod and repaired for the rows that changed since. Only a shape that is seen again gets a memo, so a
queue of unlike pods pays nothing. What depends on other pods (affinity, spread) is not in here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes
from scheduler.state.view import some_rows

_MEMOS = 128
_SEEN = 50_000
_REPAIR_AT_MOST = 8
"""Rows may be repaired while they are at most one in this many; beyond that, all are computed anew."""


@dataclass(slots=True)
class Memo:
    """One shape's answers, by row. `scores`: raw, for each scorer of `Memos.scorers` that takes part."""

    nodes: Nodes
    version: int
    passes: Bools
    scores: list[Ints | None]


class Memos:
    """The memos of one profile."""

    def __init__(self, filters: tuple[Any, ...], scorers: tuple[Any, ...], ask: Callable[..., Any]) -> None:
        self.filters = filters
        self.scorers = scorers
        self._ask = ask
        self._memos: dict[PodShape, Memo] = {}
        self._seen: set[PodShape] = set()

    def get(self, pod: Pod, cluster: Cluster) -> Memo | None:
        """The memo of a pod's shape, up to date; None when the shape is seen for the first time."""
        nodes, shape = cluster.nodes, pod.shape
        memo = self._memos.pop(shape, None)
        if memo is None:
            if shape not in self._seen:
                if len(self._seen) >= _SEEN:
                    self._seen.clear()
                self._seen.add(shape)
                return None
            if len(self._memos) >= _MEMOS:
                del self._memos[next(iter(self._memos))]
        changed = None if memo is None or memo.nodes is not nodes else nodes.log.since(memo.version)
        if (
            memo is None
            or changed is None
            or nodes.rows > len(memo.passes)
            or len(changed) * _REPAIR_AT_MOST > nodes.rows
        ):
            memo = self._compute(pod, cluster)
        elif changed:
            self._repair(memo, pod, cluster, changed)
        memo.version = nodes.log.version
        self._memos[shape] = memo
        return memo

    def _compute(self, pod: Pod, cluster: Cluster) -> Memo:
        nodes = cluster.nodes
        return Memo(nodes, nodes.log.version, self._passes(pod, cluster), self._scores(pod, cluster))

    def _repair(self, memo: Memo, pod: Pod, cluster: Cluster, changed: set[int]) -> None:
        rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
        some = some_rows(cluster, rows)
        memo.passes[rows] = self._passes(pod, some)
        for kept, fresh in zip(memo.scores, self._scores(pod, some), strict=True):
            if kept is not None and fresh is not None:
                kept[rows] = fresh

    def _passes(self, pod: Pod, cluster: Cluster) -> Bools:
        passes: Bools = cluster.nodes.alive[: cluster.nodes.rows].copy()
        for plugin in self.filters:
            for _, rejected in self._ask(plugin, plugin.filter, pod, cluster):
                passes &= ~rejected
        return passes

    def _scores(self, pod: Pod, cluster: Cluster) -> list[Ints | None]:
        rows = np.arange(cluster.nodes.rows)
        return [self._ask(plugin, plugin.score, pod, cluster, rows) for plugin in self.scorers]
