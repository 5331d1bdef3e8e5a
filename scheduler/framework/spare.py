"""What is left on each node of all that filters count: whom to preempt is then found by sums, for many nodes at once.

Next stage: preemption (`scheduler.plugins.default_preemption.trials`) takes victims away and gives them back in these
sums, and in no column.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.framework.decision import Rows
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints


class Spare:
    """One pod's view of all nodes: no row takes it but those that are allowed and have `needs` left of everything."""

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
        """All such rows take it, while no filter reads other rows for the pod."""
        self.allowed = allowed
        """bool[rows]: none of the filters rejects the row that go by node objects alone."""
        self.needs: Ints = np.array(
            [need for plugin in counting for need in ask(plugin, plugin.needs, pod)], dtype=np.int64
        )

    def free(self, rows: Rows) -> Ints:
        """int64[needs, rows]: what is left of each thing on these rows; the caller's own."""
        parts = [self._ask(plugin, plugin.free, self._pod, self._nodes, rows) for plugin in self._counting]
        return np.concatenate(parts) if parts else np.zeros((0, len(rows)), dtype=np.int64)

    def takes(self, shape: PodShape) -> list[int]:
        """What a placed pod of this shape takes of each thing."""
        return [amount for plugin in self._counting for amount in self._ask(plugin, plugin.takes, self._pod, shape)]
