"""Equivalence classes: pods that get the same answers share the results by node that are kept here.

A decision has three parts. Results that depend on node objects only (taints, labels) are `StaticResults`. Results that
also depend on the pods on the node (requests, host ports) are `OnNodeResults`. Plugins whose answers depend on more
than one node (affinity, spread, volumes) are asked for each pod. A pod's class is the signature for the first part,
the signature for the second, and the plugins that have to be asked.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.cache.per_node import ALL_ROWS, PerNode, Recurring
from podberth.framework.foreign import Foreign, declared
from podberth.framework.kept_results import (
    NO_FLAGS,
    ONE_BY_ONE,
    Ask,
    Normalized,
    OnNodeResults,
    Scorer,
    StaticResults,
    as_index,
    every_row,
)
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

NOWHERE = -(1 << 62)
"""The total of rows that do not pass."""
KEPT_BYTES = 16 << 20
_BYTES_A_ROW = 40
"""What a class and its results take: masks, sums, totals and the rows that pass."""
SHAPES = 1024
"""How many shapes have their class remembered."""

_ONE = (("filter_one", "filter"), ("score_one", "score"))
Skipped = tuple[tuple[str, ...], ...]
"""For each plugin that may skip points: the points that it skips."""


class Asked(Struct, frozen=True):
    """The plugins that have to be asked about each pod of a class."""

    pre_filters: tuple[Any, ...]
    filters: tuple[Any, ...]
    scorers: tuple[Scorer, ...]


class EquivalenceClass(PerNode):
    """One class: the rows that pass all kept filters, and the totals of the kept scores."""

    def __init__(self, key: Hashable, static: StaticResults, on_node: OnNodeResults, asked: Asked) -> None:
        super().__init__()
        self.key = key
        self.asked = asked
        self.static = static
        self.on_node = on_node
        self.passes: Bools = NO_FLAGS
        """bool[rows]: nodes that exist and pass all filters that are kept."""
        self._normalized: list[Normalized] = []
        """Without scores that are the same for all rows: they do not change which row is best."""
        self._moves = -1
        self._computed = (-1, -1)
        self._totals: Ints | None = None
        self._feasible: NDArray[np.intp] | None = None

    def renew_all(self, pod: Pod, cluster: Cluster) -> bool:
        """Bring everything up to date; returns whether the results on the nodes were computed for all rows.

        Raises PluginError.
        """
        nodes = cluster.nodes
        static, on_node, log = self.static, self.on_node, nodes.log
        if self.version == log.version and self.nodes is nodes and on_node.nodes is nodes:
            return False
        static.renew(nodes, nodes.object_log, pod, cluster)
        changed = on_node.renew(nodes, log, pod, cluster)
        if self._computed != (static.computed, on_node.computed):
            self.nodes = None  # all rows of a part are new, so all rows have to be combined again
        self.renew(nodes, log)
        return changed is ALL_ROWS

    def compute_all(self, nodes: Nodes, *asked: Any) -> None:
        """All rows."""
        self.passes = self.static.passes & self.on_node.passes
        self._feasible = self._totals = None
        self._computed = (self.static.computed, self.on_node.computed)
        self._follow_scores()

    def compute_rows(self, nodes: Nodes, rows: set[int], *asked: Any) -> None:
        """Some rows."""
        static, on_node, passes = self.static, self.on_node, self.passes
        if self._moves != static.moves:
            self._follow_scores()
        if len(rows) > ONE_BY_ONE:
            which = as_index(rows)
            passes[which] = static.passes[which] & on_node.passes[which]
            self._feasible = self._totals = None
            return
        totals = self._totals
        moved = False
        for row in rows:
            now = static.passes.item(row) and on_node.passes.item(row)
            if now is not passes.item(row):
                passes[row] = now
                self._feasible = None
                moved = True
            if totals is not None:
                total = on_node.sums.item(row)
                for one in self._normalized:
                    total += one.weighted.item(row)
                totals[row] = total if now else NOWHERE
        if moved and self._normalized:
            self._totals = None  # other rows pass now: the extremes may have moved with them

    def _follow_scores(self) -> None:
        self._normalized = [Normalized(scorer, raw) for scorer, raw in self.static.raw if not isinstance(raw, int)]
        self._moves = self.static.moves
        self._totals = None

    def totals(self, pod: Pod, cluster: Cluster, left: Bools, ask: Ask) -> Ints:
        """int64[rows]: the totals of the kept scorers, valid for the rows that are left; do not change them."""
        all_left = left is self.passes
        if self._totals is not None and (all_left or not self._normalized):
            return self._totals
        total = self.on_node.sums
        for one in self._normalized:
            if one.fit(left, pod, cluster, ask):
                self._totals = None
            total = total + one.weighted
        if not all_left and self._normalized:
            return total
        if total is self.on_node.sums:
            total = total.copy()
        total[~self.passes] = NOWHERE
        self._totals = total
        return self._totals

    def rows_of(self, left: Bools) -> NDArray[np.intp]:
        """The rows that are left; do not change them."""
        if left is not self.passes:
            return left.nonzero()[0]
        if self._feasible is None:
            count = int(np.count_nonzero(left))
            self._feasible = every_row(count) if count == len(left) else left.nonzero()[0]
        return self._feasible


class KeptResults(NamedTuple):
    """How many classes are kept, results of both kinds, and shapes whose class is known."""

    classes: int
    static: int
    on_node: int
    shapes: int


class EquivalenceClasses:
    """The classes of one profile."""

    def __init__(self, pre_filters: Iterable[Any], filters: Iterable[Any], scorers: Iterable[Scorer], ask: Ask) -> None:
        """`scorers` are (plugin, weight, normalize) triples, `ask(plugin, point, …)` runs one point of one plugin."""
        kept_filters, self._filters = _split(filters, lambda plugin: declared(plugin).on_node)
        kept_scorers, self._scorers = _split(scorers, lambda scorer: declared(scorer[0]).keeps_scores)
        self._static_filters, self._on_node_filters = _split(kept_filters, lambda plugin: declared(plugin).static)
        normalized, added = _split(kept_scorers, lambda scorer: scorer[2] is not None)
        self._normalized, self._added = normalized, added
        self._static_signed = _signed(self._static_filters, normalized)
        self._on_node_signed = _signed(self._on_node_filters, added)
        self._signed_pre_filters, self._pre_filters = _split(pre_filters, lambda plugin: declared(plugin).on_node)
        plugins = dict.fromkeys((*pre_filters, *filters, *(scorer[0] for scorer in scorers)))
        self._one_by_one = frozenset(one for one in self._on_node_signed if _has_one(declared(one).methods))
        self._plugins = tuple(plugins)
        self._may_skip = [plugin for plugin in plugins if "skips" in declared(plugin).methods]
        self._place_in_skipped = {plugin: i for i, plugin in enumerate(self._may_skip)}
        self.ask = ask
        self.computed = 0
        """How often results were computed for all rows: there were none, or too many rows had changed."""
        self._classes: Recurring[Hashable, EquivalenceClass] = Recurring(1)
        self._static: Recurring[Hashable, StaticResults] = Recurring(1)
        self._on_node: Recurring[Hashable, OnNodeResults] = Recurring(1)
        self.by_shape: dict[PodShape, EquivalenceClass] = {}
        """The shapes whose class is known."""

    def kept(self) -> KeptResults:
        """Return how much is kept."""
        return KeptResults(len(self._classes), len(self._static), len(self._on_node), len(self.by_shape))

    @property
    def asks_foreign(self) -> bool:
        """Return whether a third-party plugin takes part: what it reads of a node's pods is not known."""
        return any(isinstance(plugin, Foreign) for plugin in self._plugins)

    def fresh_on_node(self, shape: PodShape) -> OnNodeResults:
        """Results on the nodes for a shape that nobody else keeps; nothing is computed yet."""
        return self._new_on_node(self._skipped(shape))

    def of(self, pod: Pod, cluster: Cluster) -> EquivalenceClass:
        """The class of a pod, up to date. Raises PluginError."""
        cluster.settle_devices()
        shape = pod.shape
        found = self.by_shape.get(shape)
        if found is None:
            found = self._find(pod, cluster)
        elif len(self._classes) > 1:
            self._classes[found.key] = self._classes.pop(found.key, found)
        if found.renew_all(pod, cluster):
            self.computed += 1
        return found

    def _find(self, pod: Pod, cluster: Cluster) -> EquivalenceClass:
        shape = pod.shape
        skipped = self._skipped(shape)
        if shape.heavy:  # the shape itself takes too much memory to be kept
            asked = self._asked_by(skipped, self._narrowing(pod, cluster))
            return EquivalenceClass(None, self._new_static(skipped), self._new_on_node(skipped), asked)
        static_key = self._signature(self._static_signed, shape, skipped)
        on_node_key = self._signature(self._on_node_signed, shape, skipped)
        key = (static_key, on_node_key, skipped)
        found = self._classes.recall(key)
        if found is None:
            most = max(1, KEPT_BYTES // (_BYTES_A_ROW * max(cluster.nodes.rows, 1)))
            self._classes.most = self._static.most = self._on_node.most = most
            static, on_node = self._static.recall(static_key), self._on_node.recall(on_node_key)
            if static is None:
                self._static.keep(static_key, static := self._new_static(skipped))
            if on_node is None:
                self._on_node.keep(on_node_key, on_node := self._new_on_node(skipped))
            found = EquivalenceClass(key, static, on_node, self._asked_by(skipped, self._narrowing(pod, cluster)))
            if len(self._classes) >= most:
                self.by_shape.clear()
            self._classes.keep(key, found)
        if key in self._classes:
            if len(self.by_shape) >= SHAPES:
                self.by_shape.clear()
            self.by_shape[shape] = found
        return found

    def _skipped(self, shape: PodShape) -> Skipped:
        return tuple([tuple(plugin.skips(shape)) for plugin in self._may_skip])

    def _signature(self, plugins: tuple[Any, ...], shape: PodShape, skipped: Skipped) -> Hashable:
        """The signatures of these plugins for a shape, and the points that they skip."""
        places = self._place_in_skipped
        return tuple(
            [
                (plugin.signature(shape), skipped[places[plugin]]) if plugin in places else plugin.signature(shape)
                for plugin in plugins
            ]
        )

    def _new_static(self, skipped: Skipped) -> StaticResults:
        return StaticResults(self._not_skipped(self._static_filters, "filter", skipped), self._normalized, self.ask)

    def _new_on_node(self, skipped: Skipped) -> OnNodeResults:
        filters = self._not_skipped(self._on_node_filters, "filter", skipped)
        return OnNodeResults(filters, self._added, self.ask, one_by_one=self._one_by_one)

    def _not_skipped(self, plugins: tuple[Any, ...], point: str, skipped: Skipped) -> tuple[Any, ...]:
        places = self._place_in_skipped
        return tuple([plugin for plugin in plugins if plugin not in places or point not in skipped[places[plugin]]])

    def _narrowing(self, pod: Pod, cluster: Cluster) -> tuple[Any, ...]:
        """The plugins whose PreFilter depends on the signature only and answers more than None for this class."""
        ask = self.ask
        return tuple([p for p in self._signed_pre_filters if ask(p, p.pre_filter, pod, cluster) is not None])

    def _asked_by(self, skipped: Skipped, narrowing: tuple[Any, ...]) -> Asked:
        scorers = self._not_skipped(tuple([scorer[0] for scorer in self._scorers]), "score", skipped)
        return Asked(
            narrowing + self._not_skipped(self._pre_filters, "pre_filter", skipped),
            self._not_skipped(self._filters, "filter", skipped),
            tuple([scorer for scorer in self._scorers if scorer[0] in scorers]),
        )


def _has_one(methods: frozenset[str]) -> bool:
    """Return whether for each point that looks at all rows there is one that looks at a single row."""
    return all(one in methods for one, whole in _ONE if whole in methods)


def _split(things: Iterable[Any], condition: Callable[[Any], bool]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The things that meet a condition, and the others."""
    things = tuple(things)
    return tuple(one for one in things if condition(one)), tuple(one for one in things if not condition(one))


def _signed(filters: tuple[Any, ...], scorers: tuple[Scorer, ...]) -> tuple[Any, ...]:
    """The plugins whose signatures tell which pods share the results of these filters and scorers."""
    return tuple(dict.fromkeys((*filters, *(scorer[0] for scorer in scorers))))
