"""How many pods each domain of a spread constraint holds, kept from pod to pod.

Upstream counts them for each pod again (plugins/podtopologyspread, calPreFilterState). Here, which nodes take part is
worked out again when something changes that it was read from: which nodes there are, their values of the topology keys,
and what the inclusion policies look at. The counts follow the pods that come and go.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Codes, Ints
from podberth.cache.kept_results import ChangeLog, KeptResult
from podberth.cache.nodes import Nodes
from podberth.cache.selected_pods import OnRows
from podberth.model.pod import Pod
from podberth.model.spread import SpreadConstraint
from podberth.plugins.node_affinity import wanted_nodes
from podberth.plugins.pod_topology_spread.weights import distinct
from podberth.plugins.taint_toleration import untolerated_nodes

_KEPT = 64
_KEPT_DOMAINS = 256
"""Constraints of all that is kept: each takes some bytes a node."""


class Domains(KeptResult[list[tuple[int, int]]]):
    """One constraint over all nodes."""

    def __init__(self, constraint: SpreadConstraint, cluster: Cluster, included: Bools) -> None:
        nodes = cluster.nodes
        column = nodes.label(constraint.topology_key)
        self.constraint = constraint
        self.codes: Codes = column.codes[: nodes.rows]
        self.missing: Bools = self.codes < 0
        alive = nodes.alive[: nodes.rows]
        self.everywhere = not (self.missing & alive).any()
        """Whether all nodes have the label."""
        self.eligible: Bools = included & ~self.missing
        here = self.codes[self.eligible]
        self.inhabited: Bools = np.bincount(here, minlength=len(column.values)) > 0
        """bool[codes]: domains with an eligible node."""
        self.number = int(np.count_nonzero(self.inhabited))
        self._column = column
        self._rows, self._alive = nodes.rows, alive
        self._which: NDArray[np.intp] | None = None if self.inhabited.all() else np.flatnonzero(self.inhabited)
        self._counts: Ints = np.zeros(len(self.inhabited), dtype=np.int64)

    @cached_property
    def size(self) -> int:
        """Return how many domains all nodes are in, with those without the label as one."""
        return distinct(self.codes[self._alive])

    def of_inhabited(self, counts: Ints) -> Ints:
        """The counts of inhabited domains."""
        return counts if self._which is None else counts.take(self._which)

    def lowest(self, counts: Ints) -> int:
        """The count of the emptiest domain; 0 while there are fewer domains than the constraint asks for."""
        if self.number < self.constraint.min_domains:
            return 0
        return int(self.of_inhabited(counts).min(initial=np.iinfo(np.int32).max))

    def by_row(self, by_code: Bools) -> Bools:
        """bool[rows]: what the domain of each row has; False without one."""
        return self._column.gather(np.append(by_code, False), self._rows)

    def matching(self, pod: Pod, cluster: Cluster) -> Ints:
        """int64[rows]: pods that the constraint counts; the empty selector counts none (countPodsMatchSelector)."""
        found = self._of(pod, cluster)
        return np.zeros(cluster.nodes.rows, dtype=np.int64) if found is None else found.by_row(cluster.nodes.rows)

    def counts(self, pod: Pod, cluster: Cluster) -> Ints:
        """int64[codes]: these pods on eligible nodes, by topology value; do not change it.

        What a dry run adds or takes away counts under the empty selector, and on its way out, too (updateWithPod).
        """
        counts = self._of_placed(pod, cluster)
        if not cluster.supposed:
            return counts
        selector = self.constraint.selector
        supposed = cluster.supposed if selector.is_everything else cluster.supposed_leaving
        if not supposed:
            return counts
        counts = counts.copy()
        for other, row, sign in supposed.values():
            if other.namespace == pod.namespace and self.eligible[row] and selector.matches(other.labels):
                counts[self.codes[row]] += sign
        return counts

    def _of_placed(self, pod: Pod, cluster: Cluster) -> Ints:
        found = self._of(pod, cluster)
        if found is not None:
            self.renew((found,), found.log, found, cluster.nodes.rows)
        return self._counts

    def changes(self, log: ChangeLog[tuple[int, int]], *asked: Any) -> list[tuple[int, int]] | None:
        """The pods that came and went."""
        return log.entries_since(self.version)

    def apply(self, changes: list[tuple[int, int]], *asked: Any) -> None:
        """Count them."""
        for row, amount in changes:
            if self.eligible[row]:
                self._counts[self.codes[row]] += amount

    def compute(self, *asked: Any) -> None:
        """Count all."""
        found, rows = asked
        here, on_rows = self.codes[self.eligible], found.by_row(rows)[self.eligible]
        self._counts = np.bincount(here, weights=on_rows, minlength=len(self.inhabited)).astype(np.int64)

    def _of(self, pod: Pod, cluster: Cluster) -> OnRows | None:
        selector = self.constraint.selector
        if selector.nothing or selector.is_everything:
            return None
        return cluster.affinity.on_rows(pod.namespace, selector)


class Spread:
    """The constraints of one kind that a pod has, over all nodes."""

    def __init__(
        self,
        constraints: Sequence[SpreadConstraint],
        pod: Pod,
        cluster: Cluster,
        *,
        all_keys: bool,
        comparing: bool = False,
    ) -> None:
        """`comparing`: as in `podberth.model.taints`."""
        nodes = cluster.nodes
        self._read = _Read(nodes, constraints, pod)
        self.nodes = int(np.count_nonzero(nodes.alive[: nodes.rows]))
        self.labelled: Bools = nodes.alive[: nodes.rows].copy()
        """Existing nodes with every topology key, or all where `all_keys` is not asked for."""
        if all_keys:
            for constraint in constraints:
                self.labelled &= nodes.label(constraint.topology_key).codes[: nodes.rows] >= 0
        self.whole = int(np.count_nonzero(self.labelled)) == self.nodes
        """Whether these are all nodes."""
        included: dict[tuple[bool, bool], Bools] = {}
        self.domains = []
        for constraint in constraints:
            policies = (constraint.honor_affinity, constraint.honor_taints)
            if policies not in included:
                included[policies] = self.labelled & _included(constraint, pod, cluster, comparing)
            self.domains.append(Domains(constraint, cluster, included[policies]))

    def holds(self, cluster: Cluster) -> bool:
        """Nothing has changed that it was made from."""
        return self._read.holds(cluster.nodes)


class _Read:
    """What constraints read of the nodes, as it was when they were read."""

    def __init__(self, nodes: Nodes, constraints: Sequence[SpreadConstraint], pod: Pod) -> None:
        self._nodes, self._rows, self._population = nodes, nodes.rows, nodes.population_changes
        keys = {constraint.topology_key for constraint in constraints}
        there = {key: nodes.label(key) for key in keys if key in nodes.label_keys}
        self._columns = [(key, column, column.version) for key, column in there.items()]
        self._keys = nodes.key_changes if len(there) < len(keys) else None
        by_affinity = bool(pod.shape.node_selector) or pod.shape.required_node_affinity is not None
        honors_affinity = by_affinity and any(constraint.honor_affinity for constraint in constraints)
        self._labels = nodes.label_changes if honors_affinity else None
        self._taints = nodes.taints.version if any(constraint.honor_taints for constraint in constraints) else None

    def holds(self, nodes: Nodes) -> bool:
        """None of it has changed."""
        return (
            self._nodes is nodes
            and self._rows == nodes.rows
            and self._population == nodes.population_changes
            and self._keys in (None, nodes.key_changes)
            and self._labels in (None, nodes.label_changes)
            and self._taints in (None, nodes.taints.version)
            and all(nodes.label(key) is column and column.version == version for key, column, version in self._columns)
        )


class Spreads:
    """The latest of them, by what makes them equal."""

    def __init__(self, *, comparing: bool) -> None:
        self._comparing = comparing
        self._kept: dict[Hashable, Spread] = {}
        self._domains = 0

    def current(self, key: Hashable, cluster: Cluster) -> Spread | None:
        """The constraints of this key over all nodes, if they are kept and still hold."""
        found = self._kept.get(key)
        return found if found is not None and found.holds(cluster) else None

    def make(
        self, key: Hashable, constraints: Sequence[SpreadConstraint], pod: Pod, cluster: Cluster, *, all_keys: bool
    ) -> Spread:
        """The constraints over all nodes, kept. Pods with one key have these constraints and one shape."""
        self._drop(key)
        made = Spread(constraints, pod, cluster, all_keys=all_keys, comparing=self._comparing)
        while self._kept and (len(self._kept) >= _KEPT or self._domains + len(made.domains) > _KEPT_DOMAINS):
            self._drop(next(iter(self._kept)))
        self._kept[key] = made
        self._domains += len(made.domains)
        return made

    def _drop(self, key: Hashable) -> None:
        gone = self._kept.pop(key, None)
        if gone is not None:
            self._domains -= len(gone.domains)


def _included(constraint: SpreadConstraint, pod: Pod, cluster: Cluster, comparing: bool) -> Bools:
    """bool[rows]: nodes whose pods count, by the constraint's inclusion policies."""
    nodes = cluster.nodes
    included: Bools = nodes.alive[: nodes.rows]
    if constraint.honor_affinity:
        wanted = wanted_nodes(pod, nodes)
        if wanted is not None:
            included = included & wanted
    if constraint.honor_taints:
        included = included & ~untolerated_nodes(pod.shape.tolerations, nodes, comparing=comparing)
    return included
