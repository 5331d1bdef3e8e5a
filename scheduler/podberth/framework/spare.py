"""What each node has left of everything that filters count: preemption finds victims by these amounts, for many nodes
at once.

Next stage: preemption (`podberth.plugins.default_preemption.dry_run`) removes victims from these amounts and puts them
back, without touching the columns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.framework.decision import Rows
from podberth.model.pod import Pod
from podberth.model.shape import PodShape


class Spare:
    """What nodes have left for one pod. It fits no row that is not allowed or has less than `needs` of anything."""

    def __init__(
        self,
        pod: Pod,
        cluster: Cluster,
        counting: tuple[Any, ...],
        allowed: Bools,
        ask: Callable[..., Any],
        *,
        exact: bool,
    ) -> None:
        self._pod = pod
        self._nodes = cluster.nodes
        self._counting = counting
        self._ask = ask
        self.exact = exact
        """The pod fits all other rows, as long as no filter looks elsewhere for it."""
        self.allowed = allowed
        """bool[rows]: rows that pass all filters that depend on node objects alone."""
        self.needs: Ints = np.array(
            [need for plugin in counting for need in ask(plugin, plugin.needs, pod)], dtype=np.int64
        )

    def free(self, rows: Rows) -> Ints:
        """int64[needs, rows]: what these rows have left of each thing. The array belongs to the caller."""
        parts = [self._ask(plugin, plugin.free, self._pod, self._nodes, rows) for plugin in self._counting]
        return np.concatenate(parts) if parts else np.zeros((0, len(rows)), dtype=np.int64)

    def takes(self, shape: PodShape) -> list[int]:
        """Return what a placed pod of this shape takes of each thing."""
        return [amount for plugin in self._counting for amount in self._ask(plugin, plugin.takes, self._pod, shape)]
