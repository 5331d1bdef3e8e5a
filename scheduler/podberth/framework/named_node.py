"""Pods that ask for a single node by its name, as those of a DaemonSet do: only that node is looked at.

Each of them has a shape of its own. What is kept for equal pods is of no use to them, and to compute it for all nodes
costs more the more nodes there are.
"""

from collections.abc import Iterable
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.framework.foreign import declared
from podberth.framework.result_cache import Ask
from podberth.framework.status import Narrow
from podberth.model.pod import Pod


class NamedNode:
    """Asks the PreFilter plugins of one profile which node is the only one that comes into question."""

    def __init__(self, pre_filters: Iterable[Any], ask: Ask) -> None:
        self._pre_filters = [(plugin, declared(plugin)) for plugin in pre_filters]
        self._ask = ask

    def row(self, pod: Pod, cluster: Cluster) -> int | None:
        """The row of the only node that PreFilter leaves; None: it leaves others too, or none. Raises PluginError."""
        only: int | None = None
        # Those that go by the shape alone narrow the nodes, where any does; the others are asked only if they did.
        for by_shape in (True, False):
            for plugin, its in self._pre_filters:
                if its.on_node is not by_shape or (not by_shape and "pre_filter" in plugin.skips(pod.shape)):
                    continue
                outcome = self._ask(plugin, plugin.pre_filter, pod, cluster)
                if isinstance(outcome, Narrow) and len(outcome.names) == 1:
                    (name,) = outcome.names
                    row = cluster.nodes.live_row(name)
                    if row is None or only not in (None, row):
                        return None
                    only = row
                elif outcome is not None:
                    return None
            if only is None:
                return None
        return only
