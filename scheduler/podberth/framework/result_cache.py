"""Results of decisions that are kept from pod to pod, and the classes of pods that share them (equivalence classes).

A decision has three parts. Results that depend on node objects only (taints, labels) are `StaticResults`. Results that
also depend on the pods on the node (requests, host ports) are `OnNodeResults`. Plugins whose answers depend on more
than one node (affinity, spread, volumes) are asked for each pod. A pod's class is the signature for the first part,
the signature for the second, and the plugins that have to be asked.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.kept_results import KeptByRow, Recurring
from podberth.cache.nodes import Nodes
from podberth.cache.view import some_rows
from podberth.framework.decision import every_row
from podberth.framework.declaration import declared
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

ONE_BY_ONE = 16
"""The largest number of rows for which plugins are asked row by row, if they can be: that is cheaper than NumPy's fixed
costs.
"""

Scorer = tuple[Any, int, Any]
"""(plugin, weight, normalize)."""
Ask = Callable[..., Any]
NO_FLAGS: Bools = np.zeros(0, dtype=np.bool_)
_NO_SCORES: Ints = np.zeros(0, dtype=np.int64)
NOWHERE = -(1 << 62)
"""The total of rows that do not pass."""
KEPT_BYTES = 16 << 20
_BYTES_A_ROW = 40
"""Bytes that a class and its results take for each row: masks, sums, totals and the rows that pass."""
_EQUALS = 64
"""The number of kinds of pods for which a class remembers which plugins are idle."""
SHAPES = 1024
"""The number of shapes whose class is remembered."""

_ONE = (("filter_one", "filter"), ("score_one", "score"))
Skipped = tuple[tuple[str, ...], ...]
"""For each plugin that may skip points: the points that it skips."""


class StaticResults(KeptByRow):
    """Results that depend on node objects only."""

    def __init__(self, filters: tuple[Any, ...], scorers: tuple[Scorer, ...], ask: Ask) -> None:
        self._filters = filters
        self._scorers = scorers
        self._ask = ask
        self.passes: Bools = NO_FLAGS
        """bool[rows]: nodes that exist and pass."""
        self.raw: list[tuple[Scorer, Ints | int]] = []
        """Scores before they are normalised; one number where all rows share it."""
        self.moves = 0
        """The number of changes of `raw`."""

    def compute(self, asked: Any) -> None:
        """Compute the results of all rows."""
        nodes, pod, cluster = asked
        passes = rows_passing(self._filters, pod, cluster, nodes.alive[: nodes.rows], self._ask)
        rows = every_row(nodes.rows)
        found: list[tuple[Scorer, Ints | int]] = []
        for scorer in self._scorers:
            raw = self._ask(scorer[0], scorer[0].score, pod, cluster, rows)
            if isinstance(raw, np.ndarray) and len(raw) and int(raw.min()) == int(raw.max()):
                raw = int(raw[0])
            found.append((scorer, 0 if raw is None else raw))  # a node that comes may have it take part
        self.passes, self.raw = passes, found
        self.moves += 1

    def apply(self, changes: set[int], asked: Any) -> None:
        """Compute the results of some rows again."""
        _, pod, cluster = asked
        which = as_index(changes)
        some = some_rows(cluster, which)
        self.passes[which] = rows_passing(self._filters, pod, some, some.nodes.alive, self._ask)
        for i, (scorer, raw) in enumerate(self.raw):
            fresh = self._ask(scorer[0], scorer[0].score, pod, some, every_row(len(which)))
            fresh = 0 if fresh is None else fresh
            if np.any(fresh != (raw if isinstance(raw, int) else raw[which])):
                values = np.full(len(self.passes), raw, dtype=np.int64) if isinstance(raw, int) else raw
                values[which] = fresh
                self.raw[i] = (scorer, values)
                self.moves += 1


class OnNodeResults(KeptByRow):
    """Results that also depend on the pods on the node."""

    def __init__(
        self, filters: tuple[Any, ...], scorers: tuple[Scorer, ...], ask: Ask, *, one_by_one: frozenset[Any]
    ) -> None:
        """`one_by_one`: the plugins that can be asked about one row."""
        self._filters = filters
        self._scorers = scorers
        self._ask = ask
        self._may_one_by_one = one_by_one
        self.passes: Bools = NO_FLAGS
        """bool[rows]: rows that pass, including rows without a node."""
        self.sums: Ints = _NO_SCORES
        """int64[rows]: weighted scores."""
        self._adding: list[tuple[Any, int]] = []
        """The scorers that take part, with their weights."""
        self._one_by_one = False

    def compute(self, asked: Any) -> None:
        """Compute the results of all rows."""
        nodes, pod, cluster = asked
        passes = rows_passing(self._filters, pod, cluster, None, self._ask)
        rows = every_row(nodes.rows)
        total: Any = None
        adding: list[tuple[Any, int]] = []
        for plugin, weight, _ in self._scorers:
            raw = self._ask(plugin, plugin.score, pod, cluster, rows)
            if raw is not None or "score_one" not in declared(plugin).methods:
                adding.append((plugin, weight))
            if raw is not None:
                weighted = raw if weight == 1 else raw * weight
                total = weighted if total is None else total + weighted
        self.passes, self._adding = passes, adding
        self.sums = total if isinstance(total, np.ndarray) else np.full(nodes.rows, total or 0, dtype=np.int64)
        self._one_by_one = self._may_one_by_one.issuperset([*self._filters, *[plugin for plugin, _ in adding]])

    def apply(self, changes: set[int], asked: Any) -> None:
        """Compute the results of some rows again."""
        nodes, pod, cluster = asked
        if len(changes) <= ONE_BY_ONE and self._one_by_one:
            self._each(changes, nodes, pod)
            return
        which = as_index(changes)
        some = some_rows(cluster, which)
        self.passes[which] = rows_passing(self._filters, pod, some, None, self._ask)
        total: Any = 0
        for plugin, weight in self._adding:
            raw = self._ask(plugin, plugin.score, pod, some, every_row(len(which)))
            total = total if raw is None else total + raw * weight
        self.sums[which] = total

    def _each(self, rows: set[int], nodes: Nodes, pod: Pod) -> None:
        ask = self._ask
        for row in rows:
            passes = True
            for plugin in self._filters:
                if not ask(plugin, plugin.filter_one, pod, nodes, row):
                    passes = False
                    break
            self.passes[row] = passes
            total = 0
            for plugin, weight in self._adding:
                total += ask(plugin, plugin.score_one, pod, nodes, row) * weight
            self.sums[row] = total


class Normalized:
    """A static scorer's part of the totals. It depends on the lowest and the highest score among the feasible rows."""

    def __init__(self, scorer: Scorer, raw: Ints) -> None:
        self._scorer = scorer
        self._raw = raw
        self._extremes: tuple[int, int] | None = None
        self.weighted: Ints = np.zeros(0, dtype=np.int64)

    def fit(self, left: Bools, pod: Pod, cluster: Cluster, ask: Ask) -> bool:
        """Normalise the scores for the rows that are left; return whether anything changed."""
        there = self._raw[left]
        extremes = (int(there.min()), int(there.max())) if len(there) else (0, 0)
        if self._extremes == extremes:
            return False
        plugin, weight, normalize = self._scorer
        # Only rows that are not left have scores beyond the extremes. With these clipped, each row gets the score that
        # it would get among any rows with the same extremes.
        scores = np.minimum(np.maximum(self._raw, extremes[0]), extremes[1])
        self.weighted = ask(plugin, normalize, scores, pod, cluster, every_row(len(scores))) * weight
        self._extremes = extremes
        return True


def rows_passing(plugins: Iterable[Any], pod: Pod, cluster: Cluster, among: Bools | None, ask: Ask) -> Bools:
    """Return bool[rows]: rows of `among` (None: all) that no filter rejects. The array belongs to the caller."""
    passes = np.ones(cluster.nodes.rows, dtype=np.bool_) if among is None else among.copy()
    for plugin in plugins:
        for _, rejected in ask(plugin, plugin.filter, pod, cluster):
            np.greater(passes, rejected, out=passes)
    return passes


def as_index(rows: set[int]) -> NDArray[np.intp]:
    """Return a set of rows as an index."""
    return np.fromiter(rows, dtype=np.intp, count=len(rows))


class Asked(Struct, frozen=True):
    """The plugins that have to be asked about each pod of a class."""

    pre_filters: tuple[Any, ...]
    filters: tuple[Any, ...]
    scorers: tuple[Scorer, ...]

    def without_idle(self, pod: Pod, cluster: Cluster, ask: Ask) -> "Asked":
        """Return those that have something to say about a pod. Raises PluginError."""
        plugins = dict.fromkeys((*self.filters, *[scorer[0] for scorer in self.scorers]))
        idle = {one: ask(one, one.idle, pod, cluster) for one in plugins if "idle" in declared(one).methods}
        return Asked(
            self.pre_filters,
            tuple([one for one in self.filters if "filter" not in idle.get(one, ())]),
            tuple([scorer for scorer in self.scorers if "score" not in idle.get(scorer[0], ())]),
        )


class EquivalenceClass(KeptByRow):
    """An equivalence class of pods: the rows that pass all kept filters, and the totals of the kept scores."""

    def __init__(self, key: Hashable, static: StaticResults, on_node: OnNodeResults, asked: Asked) -> None:
        self.key = key
        self._asked = asked
        self._not_idle: dict[Hashable, tuple[Mapping[str, str], Asked]] = {}
        """Shape, namespace, labels and owner of pods → the labels, and the plugins that are not idle."""
        self._background: tuple[object, ...] = ()
        """The state of the cluster for which that is right."""
        self.static = static
        self.on_node = on_node
        self.passes: Bools = NO_FLAGS
        """bool[rows]: nodes that exist and pass all filters that are kept."""
        self._normalized: list[Normalized] = []
        """The scorers whose scores differ by row: those with one score for all rows do not change which row is best."""
        self._moves = -1
        self._totals: Ints | None = None
        self._best: NDArray[np.intp] | None = None
        """The rows with the highest total, ascending. None, as of the two beside it: not known."""
        self._highest = NOWHERE
        """The total of these."""
        self._feasible: NDArray[np.intp] | None = None

    def asked_about(self, pod: Pod, cluster: Cluster, ask: Ask) -> Asked:
        """Return the plugins that have to be asked about a pod of the class. Raises PluginError."""
        background = cluster.background
        if self._background != background or len(self._not_idle) >= _EQUALS:
            self._not_idle.clear()
            self._background = background
            return self._asked  # who is idle is worth a question only if others of the class follow
        key = pod.shape, pod.namespace, id(pod.labels), pod.owner
        found = self._not_idle.get(key)
        if found is None:
            found = self._not_idle[key] = pod.labels, self._asked.without_idle(pod, cluster, ask)
        return found[1]

    def follow(self, pod: Pod, cluster: Cluster) -> bool:
        """Bring the class up to date; return whether the on-node results were computed for all rows.

        Raises PluginError.
        """
        nodes, static, on_node = cluster.nodes, self.static, self.on_node
        log = nodes.log
        if self.version == log.version and self.basis == (nodes, nodes.rows, static.computed, on_node.computed):
            return False
        rows, asked = (nodes, nodes.rows), (nodes, pod, cluster)
        if static.version != nodes.object_log.version or static.basis != rows:
            static.renew(rows, nodes.object_log, asked)
        computed = on_node.renew(rows, log, asked)
        self.renew((nodes, nodes.rows, static.computed, on_node.computed), log, asked)
        return computed

    def compute(self, asked: Any) -> None:
        """Combine the results of all rows."""
        self.passes = self.static.passes & self.on_node.passes
        self._feasible = None
        self._follow_scores()

    def apply(self, changes: set[int], asked: Any) -> None:
        """Combine the results of some rows again."""
        static, on_node, passes = self.static, self.on_node, self.passes
        if self._moves != static.moves:
            self._follow_scores()
        if len(changes) > ONE_BY_ONE:
            which = as_index(changes)
            passes[which] = static.passes[which] & on_node.passes[which]
            self._feasible = self._totals = self._best = None
            return
        totals = self._totals
        moved = False
        for row in changes:
            now = static.passes.item(row) and on_node.passes.item(row)
            if now is not passes.item(row):
                passes[row] = now
                self._feasible = None
                moved = True
            if totals is not None:
                total = on_node.sums.item(row)
                for one in self._normalized:
                    total += one.weighted.item(row)
                totals[row] = total = total if now else NOWHERE
                if self._best is not None:
                    self._best = self._best_with(self._best, row, total)
        if moved and self._normalized:
            self._totals = self._best = None  # other rows pass now: the extremes may have moved with them

    def _follow_scores(self) -> None:
        self._normalized = [Normalized(scorer, raw) for scorer, raw in self.static.raw if not isinstance(raw, int)]
        self._moves = self.static.moves
        self._totals = self._best = None

    def _best_with(self, best: NDArray[np.intp], row: int, total: int) -> NDArray[np.intp] | None:
        """Return the best rows now that one row has this total; None: none of them is left."""
        if total > self._highest:
            self._highest = total
            return np.array([row], dtype=np.intp)
        place = int(best.searchsorted(row))
        after = place + (place < len(best) and best.item(place) == row)
        if total == self._highest:
            return best if after > place else np.concatenate((best[:place], (row,), best[place:]))
        if after == place:
            return best
        return np.concatenate((best[:place], best[after:])) if len(best) > 1 else None

    def best(self, pod: Pod, cluster: Cluster, ask: Ask) -> NDArray[np.intp]:
        """Return the rows with the highest total of the kept scorers among all that pass; do not change them."""
        totals = self.totals(pod, cluster, self.passes, ask)
        if self._best is None:
            self._highest = totals.item(totals.argmax())
            (self._best,) = (totals == self._highest).nonzero()
        return self._best

    def totals(self, pod: Pod, cluster: Cluster, left: Bools, ask: Ask) -> Ints:
        """Return int64[rows]: the totals of the kept scorers, valid for the rows that are left; do not change them."""
        all_left = left is self.passes
        if self._totals is not None and (all_left or not self._normalized):
            return self._totals
        total = self.on_node.sums
        for one in self._normalized:
            if one.fit(left, pod, cluster, ask):
                self._totals = self._best = None
            total = total + one.weighted
        if not all_left and self._normalized:
            return total
        if total is self.on_node.sums:
            total = total.copy()
        total[~self.passes] = NOWHERE
        self._totals = total
        return self._totals

    def rows_of(self, left: Bools) -> NDArray[np.intp]:
        """Return the rows that are left; do not change them."""
        if left is not self.passes:
            return left.nonzero()[0]
        if self._feasible is None:
            count = int(np.count_nonzero(left))
            self._feasible = every_row(count) if count == len(left) else left.nonzero()[0]
        return self._feasible


class KeptResults(NamedTuple):
    """Counts of the classes that are kept, of results of both kinds, and of shapes whose class is known."""

    classes: int
    static: int
    on_node: int
    shapes: int


class EquivalenceClasses:
    """The equivalence classes of one profile."""

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
        """The number of times that results were computed for all rows: there were none, or too many had changed."""
        self._classes: Recurring[Hashable, EquivalenceClass] = Recurring(1)
        self._static: Recurring[Hashable, StaticResults] = Recurring(1)
        self._on_node: Recurring[Hashable, OnNodeResults] = Recurring(1)
        self.by_shape: dict[PodShape, EquivalenceClass] = {}
        """The class of each shape for which it is known."""

    def kept(self) -> KeptResults:
        """Return the numbers of kept classes, results and shapes."""
        return KeptResults(len(self._classes), len(self._static), len(self._on_node), len(self.by_shape))

    def of(self, pod: Pod, cluster: Cluster) -> EquivalenceClass:
        """Return the equivalence class of a pod, brought up to date. Raises PluginError."""
        cluster.settle_devices()
        shape = pod.shape
        found = self.by_shape.get(shape)
        if found is None:
            found = self._find(pod, cluster)
        elif len(self._classes) > 1:
            self._classes[found.key] = self._classes.pop(found.key, found)
        if found.follow(pod, cluster):
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
        """Return the signatures of these plugins for a shape, and the points that they skip."""
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
        """Return the plugins whose PreFilter depends on the signature only and returns more than None for this
        class.
        """
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
    """Return whether the plugin has a single-row method for each of its points that look at all rows."""
    return all(one in methods for one, whole in _ONE if whole in methods)


def _split(things: Iterable[Any], condition: Callable[[Any], bool]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the things that meet a condition, and the others."""
    things = tuple(things)
    return tuple(one for one in things if condition(one)), tuple(one for one in things if not condition(one))


def _signed(filters: tuple[Any, ...], scorers: tuple[Scorer, ...]) -> tuple[Any, ...]:
    """Return the plugins whose signatures tell which pods share the results of these filters and scorers."""
    return tuple(dict.fromkeys((*filters, *(scorer[0] for scorer in scorers))))
