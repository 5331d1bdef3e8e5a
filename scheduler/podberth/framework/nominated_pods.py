"""Nodes for which pods are nominated: where these pods, once they are placed, leave too little for another pod.

Upstream runs all filters once more for each such node (RunFilterPluginsWithNominatedPods). Anyone who may write
pods/status can nominate thousands of pods, so the amounts that filters count are added up for all nodes at once.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.kept_results import Bounded
from podberth.cache.nodes import Nodes
from podberth.framework.decision import Rows
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

_KINDS = 16
"""For so many sets of things that are counted, the amounts are kept."""
_THRESHOLDS = 4
"""For so many priorities from which on nominated pods count, the nodes are kept."""


class _Taken(Struct):
    """What nominated pods will take of each thing that some pods need."""

    amounts: Ints
    """int64[needs, nodes with nominated pods]."""
    version: int
    """The version of the log of nominations for which the amounts are right."""


class _FromPriority:
    """Nodes for which pods of some priority or a higher one are nominated, and these pods."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.place: dict[str, int] = {}
        """Node → its place in the lists. It stays when no pod is nominated for the node any more."""
        self.rows: Rows = np.zeros(0, dtype=np.intp)
        self.pods: list[list[Pod]] = []
        self.taken: Bounded[Hashable, _Taken] = Bounded(_KINDS)
        """By what is counted: nearly all pods need the same things, if more or less of them."""
        self.any: Bools = np.zeros(0, dtype=np.bool_)
        """For which of the nodes any pod is nominated."""
        self._nodes: Nodes | None = None
        self._labels = -1
        self._version = -1

    def renew(self, cluster: Cluster) -> None:
        """Bring it up to date."""
        nominations, nodes = cluster.nominations, cluster.nodes
        changed = nominations.log.since(self._version)
        same = self._nodes is nodes and self._labels == nodes.label_changes
        if changed is None or not same:
            live = [(name, row) for name in nominations.nodes() if (row := nodes.live_row(name)) is not None]
            self.place = {name: i for i, (name, _) in enumerate(live)}
            self.rows = np.array([row for _, row in live], dtype=np.intp)
            self.pods = [nominations.above(name, self.threshold) for name in self.place]
            self.taken.clear()
            self.any = np.array([bool(pods) for pods in self.pods], dtype=np.bool_)
            self._nodes, self._labels = nodes, nodes.label_changes
        else:
            rows = []
            for name in changed:
                pods = nominations.above(name, self.threshold)
                place = self.place.get(name)
                if place is not None:
                    self.pods[place] = pods
                    self.any[place] = bool(pods)
                elif pods and (row := nodes.live_row(name)) is not None:
                    self.place[name] = len(self.pods)
                    self.pods.append(pods)
                    rows.append(row)
            if rows:
                self.rows = np.concatenate((self.rows, np.array(rows, dtype=np.intp)))
                self.any = np.concatenate((self.any, np.ones(len(rows), dtype=np.bool_)))
        self._version = nominations.log.version


class NominatedNodes(Struct):
    """Nodes with nominated pods that come before some pod; `rows` and `pods` are parallel."""

    rows: Rows
    pods: list[list[Pod]]
    found: _FromPriority
    own: int | None
    """The place of the node for which the pod itself is nominated."""

    @property
    def for_others(self) -> Bools:
        """For which of the nodes another pod is nominated."""
        if self.own is None or self.pods[self.own]:
            return self.found.any
        others = self.found.any.copy()
        others[self.own] = False
        return others


class NominatedPods:
    """What one profile's filters know about nominated pods."""

    def __init__(self, counting: Sequence[Any], ask: Callable[..., Any]) -> None:
        """`counting`: the filters that say what a pod needs, what a node has left, and what a placed pod takes."""
        self._counting = counting
        self._ask = ask
        self._by_threshold: Bounded[int, _FromPriority] = Bounded(_THRESHOLDS)

    def before(self, pod: Pod, cluster: Cluster) -> NominatedNodes | None:
        """The nodes with nominated pods that come before a pod; None: there are none."""
        nominations = cluster.nominations
        threshold = nominations.threshold(pod)
        if threshold is None or (len(nominations) == 1 and nominations.counts(pod.uid)):
            return None  # nobody is nominated, or nobody else
        found = self._by_threshold.recall(threshold)
        if found is None:
            self._by_threshold.keep(threshold, found := _FromPriority(threshold))
        found.renew(cluster)
        own, pods = found.place.get(nominations.node_of(pod.uid) or ""), found.pods
        if own is not None:
            pods = list(pods)
            pods[own] = [other for other in pods[own] if other.uid != pod.uid]
        return NominatedNodes(found.rows, pods, found, own) if len(found.rows) else None

    def short(self, pod: Pod, cluster: Cluster, nodes: NominatedNodes) -> Bools:
        """bool[len(nodes.rows)]: which have too little left for the pod, of what filters count."""
        plugins = [plugin for plugin in self._counting if "filter" not in plugin.skips(pod.shape)]
        if not plugins:
            return np.zeros(len(nodes.rows), dtype=np.bool_)
        taken = self._taken(plugins, pod, cluster, nodes.found)
        if nodes.own is not None:
            taken = taken.copy()
            taken[:, nodes.own] = self._sums(plugins, pod, nodes.pods[nodes.own], {})
        needs = np.array([need for plugin in plugins for need in self._ask(plugin, plugin.needs, pod)], dtype=np.int64)
        free = np.concatenate(
            [self._ask(plugin, plugin.free, pod, cluster.nodes, nodes.rows) for plugin in plugins], dtype=np.int64
        )
        short: Bools = np.any(free - taken < needs[:, np.newaxis], axis=0)
        return short

    def _taken(self, plugins: list[Any], pod: Pod, cluster: Cluster, found: _FromPriority) -> Ints:
        """int64[needs, nodes with nominated pods]: what these pods take; do not change it."""
        log = cluster.nominations.log
        kind = tuple([(plugin.name, self._ask(plugin, plugin.counted, pod.shape)) for plugin in plugins])
        taken = found.taken.recall(kind)
        known: dict[PodShape, list[int]] = {}
        changed = None if taken is None else log.since(taken.version)
        if taken is None or changed is None:
            amounts = np.array([self._sums(plugins, pod, pods, known) for pods in found.pods], dtype=np.int64).T
            taken = _Taken(amounts, log.version)
            if not pod.shape.heavy:
                found.taken.keep(kind, taken)
        else:
            more = len(found.pods) - taken.amounts.shape[1]
            if more:
                room = np.zeros((len(taken.amounts), more), dtype=np.int64)
                taken.amounts = np.concatenate((taken.amounts, room), axis=1)
            for i in {found.place[name] for name in changed if name in found.place}:
                taken.amounts[:, i] = self._sums(plugins, pod, found.pods[i], known)
            taken.version = log.version
        return taken.amounts

    def _sums(self, plugins: list[Any], pod: Pod, others: Iterable[Pod], known: dict[PodShape, list[int]]) -> list[int]:
        """Return what others take of each thing that a pod needs."""
        sums: list[int] | None = None
        for other in others:
            takes = known.get(other.shape)
            if takes is None:
                amounts = (self._ask(plugin, plugin.takes, pod, other.shape) for plugin in plugins)
                takes = known[other.shape] = [max(amount, 0) for some in amounts for amount in some]
            sums = takes if sums is None else [a + b for a, b in zip(sums, takes, strict=True)]
        return [0] * sum(len(self._ask(plugin, plugin.needs, pod)) for plugin in plugins) if sums is None else sums
