"""What equal pods find that come one after the other: the totals of every node with 0, 1, 2 … more of them.

Where nothing but the node itself and its pods decides, placing one pod changes one node's total only. So all totals
that the pods will ever see are computed for all nodes at once, one number of pods after the other.
"""

from typing import NamedTuple

import numpy as np

from scheduler.framework.equivalence import EquivalenceClasses
from scheduler.framework.kept_results import Ask, OnNodeResults, every_row
from scheduler.framework.plugin import Filters
from scheduler.model.pod import Pod
from scheduler.model.volumes import NO_VOLUMES
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints

_BY_TERMS = frozenset(("InterPodAffinity", "PodTopologySpread"))
"""Plugins that go by the terms and constraints of pods, and of what selects them: these pods have none."""
_BY_NODES = frozenset(("ImageLocality",))
"""Scorers that look at all nodes, and at no pods but the one."""


class Level(NamedTuple):
    """Which rows take one more pod, and with which total, when each has a certain number of them already."""

    passes: list[bool]
    totals: list[int]


class Ahead:
    """The levels of one pod's equals, each computed when it is first asked for."""

    def __init__(self, pod: Pod, cluster: Cluster, found: OnNodeResults, passes: Bools, more: Ints) -> None:
        """`passes`: rows that pass all other filters; `more`: what all other scorers give a row."""
        self._pod = pod
        self._cluster = cluster
        self._on_node = found
        self._passes = passes
        self._more = more
        self._levels: list[Level] = []

    def level(self, number: int) -> Level:
        """With `number` more pods on every row. Raises PluginError."""
        while len(self._levels) <= number:
            self._levels.append(self._with(len(self._levels)))
        return self._levels[number]

    def _with(self, number: int) -> Level:
        nodes, found = self._cluster.nodes, self._on_node
        nodes.charge_all(self._pod.shape, number)
        try:
            found.compute_all(nodes, self._pod, self._cluster)
        finally:
            nodes.charge_all(self._pod.shape, -number)
        return Level((self._passes & found.passes).tolist(), (found.sums + self._more).tolist())


def ahead(pod: Pod, cluster: Cluster, classes: EquivalenceClasses, filters: Filters, ask: Ask) -> Ahead | None:
    """None where pods on one node may change what is true of another, so that they have to be decided one by one.

    Raises PluginError.
    """
    shape, nodes = pod.shape, cluster.nodes
    terms = (shape.affinity_terms, shape.anti_affinity_terms, shape.preferred_pod_terms, shape.spread)
    if any(terms) or shape.host_ports or shape.volumes is not NO_VOLUMES or cluster.nominations:
        return None
    if any(nodes.resources.get(name) is None for name in shape.requests) or classes.asks_foreign:
        return None
    kept = classes.of(pod, cluster)
    asked = kept.asked
    if asked.pre_filters or kept.heeds_extremes or filters.looks_elsewhere(pod, cluster, [pod]):
        return None
    passes = kept.static.passes.copy()
    for plugin in asked.filters:
        if plugin.name not in _BY_TERMS:
            return None
        for _, rejected in ask(plugin, plugin.filter, pod, cluster):
            passes &= ~rejected
    more = np.zeros(nodes.rows, dtype=np.int64)
    for plugin, weight, _ in asked.scorers:
        if plugin.name not in _BY_TERMS | _BY_NODES:
            return None
        raw = ask(plugin, plugin.score, pod, cluster, every_row(nodes.rows))
        if raw is not None and not isinstance(raw, int):
            if plugin.name not in _BY_NODES:
                return None
            more += raw * weight
    return Ahead(pod, cluster, classes.fresh_on_node(shape), passes, more)
