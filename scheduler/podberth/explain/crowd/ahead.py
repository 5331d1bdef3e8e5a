"""Where equal pods go that are placed one after the other, found ahead, without a decision for each.

The total score of a row depends on how many of these pods it has already. So totals are computed for all rows at once:
for rows with none of the pods, with one, with two (`Level`), as far as anybody asks. Plugins that look at other nodes,
too, say what each placed pod changes for whole kinds of rows (`podberth.explain.crowd.following`).

Next stage: `podberth.explain.ranking` places pods by these levels.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.explain.crowd import inter_pod_affinity, pod_topology_spread
from podberth.explain.crowd.following import Following, Kinds
from podberth.framework.decision import every_row
from podberth.framework.foreign import declared
from podberth.framework.plugin import NODE, OTHER_NODES
from podberth.framework.result_cache import Ask, OnNodeResults, Scorer
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.volumes import NO_VOLUMES

_FOLLOWING: dict[str, Callable[[Any, Pod, Cluster], Following | None]] = {
    "InterPodAffinity": inter_pod_affinity.following,
    "PodTopologySpread": pod_topology_spread.following,
}
"""Plugin → what it answers about nodes while equals of a pod are placed; None: each of these pods has to be decided."""
_KINDS = 64
"""With more kinds of rows, the pods are decided one by one."""


class Level(NamedTuple):
    """Which rows take one more pod, and with which total, when each row has a certain number of them already."""

    passes: list[bool]
    totals: list[int]


class Beyond(NamedTuple):
    """All of a total and of the filters' verdict that does not depend on how many of the pods the row has itself."""

    passes: Bools
    """bool[rows]: rows that pass all filters for which these pods change nothing."""
    more: Ints
    """int64[rows]: the weighted scores that these pods do not change, of scorers that are not normalised."""
    fixed: list[tuple[Scorer, Ints]]
    """Scores that these pods do not change, but that are normalised over the rows that take a pod."""
    followings: list[Following]
    """The plugins for which each placed pod changes something."""
    scored: list[tuple[Scorer, Following]]
    """Those of `followings` that score."""


class Ahead:
    """The levels for one pod and its equals, each computed when it is first asked for; and the kinds of rows."""

    def __init__(
        self, pod: Pod, cluster: Cluster, on_node: OnNodeResults, beyond: Beyond, ask: Ask, most: Ints | None = None
    ) -> None:
        """`most`: int64[rows], how many of the pods a row takes for reasons that are not asked about here."""
        self._most = most
        self._pod = pod
        self._cluster = cluster
        self._on_node = on_node
        self._beyond = beyond
        self._ask = ask
        self._levels: list[Level] = []
        self.kinds, self.number = _kinds(beyond, cluster.nodes.rows)
        """The kind of each row, and how many there are while no pod was placed."""
        self.by_pods = any(each.by_pods for each in beyond.followings)
        """Whether rows of a kind are of different kinds once they have different numbers of the pods."""
        self.plain = not (beyond.fixed or beyond.followings)
        """Whether a row's level is all that counts: no kind of rows is rejected, and all offsets are 0."""
        self.moves = any(following.moves for _, following in beyond.scored)
        """Whether offsets change with each pod."""

    def level(self, number: int) -> Level:
        """The level with `number` of the pods on every row. Raises PluginError."""
        while len(self._levels) <= number:
            self._levels.append(self._with(len(self._levels)))
        return self._levels[number]

    def _with(self, number: int) -> Level:
        nodes, found = self._cluster.nodes, self._on_node
        nodes.charge_all(self._pod.shape, number)
        try:
            found.compute(nodes, self._pod, self._cluster)
        finally:
            nodes.charge_all(self._pod.shape, -number)
        passes = self._beyond.passes & found.passes
        if number and self._pod.shape.host_ports:
            passes = np.zeros_like(passes)  # the first pod has the port
        if self._most is not None:
            passes = passes & (self._most > number)
        return Level(passes.tolist(), (found.sums + self._beyond.more).tolist())

    def passing(self, kinds: Kinds) -> Bools | None:
        """bool[kinds]: which of them take a pod; None: all of them."""
        passes: Bools | None = None
        for following in self._beyond.followings:
            rejected = following.rejected(kinds)
            if rejected is not None:
                passes = ~rejected if passes is None else passes & ~rejected
        return passes

    def offsets(self, kinds: Kinds) -> list[int]:
        """For each kind, what is added to the totals of its rows' level, if these kinds are the ones that take a pod.

        Raises PluginError.
        """
        found = np.zeros(len(kinds.rows), dtype=np.int64)
        scored: list[tuple[Scorer, Ints | None]] = [(scorer, raw[kinds.rows]) for scorer, raw in self._beyond.fixed]
        scored += [(scorer, following.raw(kinds)) for scorer, following in self._beyond.scored]
        for (plugin, weight, normalize), raw in scored:
            if raw is not None:
                found += self._ask(plugin, normalize, raw, self._pod, self._cluster, kinds.rows) * weight
        offsets: list[int] = found.tolist()
        return offsets

    def placed(self, row: int) -> None:
        """One of the pods was placed on a row."""
        for following in self._beyond.followings:
            following.placed(row)


def ahead(pod: Pod, cluster: Cluster, framework: Framework, most: Ints | None = None) -> Ahead | None:
    """The levels for a pod and its equals; None: what a pod changes for the others is not known, so each is decided.

    `most`: int64[rows], how many of the pods a row takes at most. Raises PluginError.
    """
    shape, nodes, classes = pod.shape, cluster.nodes, framework.classes
    one_by_one = shape.volumes is not NO_VOLUMES or shape.claims or pod.scheduling_group is not None
    if one_by_one or cluster.nominations or cluster.supposed:
        return None
    if any(nodes.resources.get(name) is None for name in shape.requests) or classes.asks_foreign:
        return None
    beyond = _beyond(pod, cluster, framework)
    if beyond is None:
        return None
    found = Ahead(pod, cluster, classes.fresh_on_node(shape), beyond, framework.guard, most)
    return found if found.number <= _KINDS else None


def _beyond(pod: Pod, cluster: Cluster, framework: Framework) -> Beyond | None:
    rows = cluster.nodes.rows
    kept = framework.classes.of(pod, cluster)
    asked = kept.asked
    if asked.pre_filters:
        return None
    followings: dict[Any, Following] = {}
    passes, settled = kept.static.passes.copy(), set()
    for plugin in dict.fromkeys((*asked.filters, *(scorer[0] for scorer in asked.scorers))):
        if plugin not in asked.filters and not declared(plugin).depends_on & ~(NODE | OTHER_NODES):
            continue  # it looks at all nodes, and at no pod but this one
        follow = _FOLLOWING.get(plugin.name)
        following = None if follow is None else follow(plugin, pod, cluster)
        if following is None:
            return None
        rejects = following.settled()
        if rejects is None:
            followings[plugin] = following
        else:
            passes &= ~rejects
            settled.add(plugin)
    more = np.zeros(rows, dtype=np.int64)
    scored: list[tuple[Scorer, Following]] = []
    for scorer in asked.scorers:
        plugin, weight, normalize = scorer
        if plugin in settled:
            continue
        if plugin in followings:
            scored.append((scorer, followings[plugin]))
        elif normalize is not None:
            return None
        else:
            raw = framework.guard(plugin, plugin.score, pod, cluster, every_row(rows))
            if raw is not None and not isinstance(raw, int):
                more += raw * weight
    fixed = [(scorer, raw) for scorer, raw in kept.static.raw if not isinstance(raw, int)]
    return Beyond(passes, more, fixed, list(followings.values()), scored)


def _kinds(beyond: Beyond, rows: int) -> tuple[list[int], int]:
    """(the kind of each row, how many kinds there are)."""
    columns = [raw for _, raw in beyond.fixed]
    for following in beyond.followings:
        columns += following.columns
    columns = [column for column in columns if len(column) and column.min() != column.max()]
    if not columns:
        return [0] * rows, 1
    _, kinds = np.unique(np.stack(columns), axis=1, return_inverse=True)
    found: list[int] = kinds.reshape(-1).tolist()
    return found, len(set(found))
