"""What equal pods find that come one after the other, without a decision for each.

A pod that is placed changes the totals of its own node: they are computed for all nodes at once, one number of pods
after the other. Plugins that look at other nodes, too, say what a placed pod changes for whole kinds of nodes
(`scheduler.framework.following`).
"""

from typing import Any, NamedTuple

import numpy as np

from scheduler.framework.equivalence import EquivalenceClasses
from scheduler.framework.following import Followed, Following, Kinds
from scheduler.framework.foreign import declared
from scheduler.framework.kept_results import Ask, OnNodeResults, Scorer, every_row
from scheduler.framework.plugin import NODE, OTHER_NODES
from scheduler.model.pod import Pod
from scheduler.model.volumes import NO_VOLUMES
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints

_KINDS = 64
"""With more kinds of rows, the pods are decided one by one."""


class Level(NamedTuple):
    """Which rows take one more pod, and with which total, when each has a certain number of them already."""

    passes: list[bool]
    totals: list[int]


class Beyond(NamedTuple):
    """What is not a matter of one row alone."""

    passes: Bools
    """Rows that pass all filters that no pod of the kind changes anything for."""
    more: Ints
    """What scorers give a row that go by nothing else."""
    fixed: list[tuple[Scorer, Ints]]
    """Scores that are normalised over the rows that take a pod."""
    followings: list[Following]
    scored: list[tuple[Scorer, Following]]


class Ahead:
    """The levels of one pod's equals, each computed when it is first asked for, and what tells kinds of rows apart."""

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
        """Whether a row's total is all that counts."""
        self.moves = any(following.moves for _, following in beyond.scored)
        """Whether offsets change with each pod."""

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
        """What a row's total has besides, when these kinds are the ones that take a pod. Raises PluginError."""
        found = np.zeros(len(kinds.rows), dtype=np.int64)
        scored: list[tuple[Scorer, Ints | None]] = [(scorer, raw[kinds.rows]) for scorer, raw in self._beyond.fixed]
        scored += [(scorer, following.raw(kinds)) for scorer, following in self._beyond.scored]
        for (plugin, weight, normalize), raw in scored:
            if raw is not None:
                found += self._ask(plugin, normalize, raw, self._pod, self._cluster, kinds.rows) * weight
        offsets: list[int] = found.tolist()
        return offsets

    def placed(self, row: int) -> None:
        """A pod was placed."""
        for following in self._beyond.followings:
            following.placed(row)


def ahead(pod: Pod, cluster: Cluster, classes: EquivalenceClasses, ask: Ask, most: Ints | None = None) -> Ahead | None:
    """None where what a pod changes for others is not known, so that they have to be decided one by one.

    `most`: int64[rows], how many of the pods a row takes at most. Raises PluginError.
    """
    shape, nodes = pod.shape, cluster.nodes
    one_by_one = shape.volumes is not NO_VOLUMES or shape.claims or pod.scheduling_group is not None
    if one_by_one or cluster.nominations or cluster.supposed:
        return None
    if any(nodes.resources.get(name) is None for name in shape.requests) or classes.asks_foreign:
        return None
    beyond = _beyond(pod, cluster, classes, ask)
    if beyond is None:
        return None
    found = Ahead(pod, cluster, classes.fresh_on_node(shape), beyond, ask, most)
    return found if found.number <= _KINDS else None


def _beyond(pod: Pod, cluster: Cluster, classes: EquivalenceClasses, ask: Ask) -> Beyond | None:
    rows = cluster.nodes.rows
    kept = classes.of(pod, cluster)
    asked = kept.asked
    if asked.pre_filters:
        return None
    followings: dict[Any, Following] = {}
    passes, settled = kept.static.passes.copy(), set()
    for plugin in dict.fromkeys((*asked.filters, *(scorer[0] for scorer in asked.scorers))):
        if plugin not in asked.filters and not declared(plugin).depends_on & ~(NODE | OTHER_NODES):
            continue  # it looks at all nodes, and at no pod but this one
        following = plugin.following(pod, cluster) if isinstance(plugin, Followed) else None
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
            raw = ask(plugin, plugin.score, pod, cluster, every_row(rows))
            if raw is not None and not isinstance(raw, int):
                more += raw * weight
    fixed = [(scorer, raw) for scorer, raw in kept.static.raw if not isinstance(raw, int)]
    return Beyond(passes, more, fixed, list(followings.values()), scored)


def _kinds(beyond: Beyond, rows: int) -> tuple[list[int], int]:
    columns = [raw for _, raw in beyond.fixed]
    for following in beyond.followings:
        columns += following.columns
    columns = [column for column in columns if len(column) and column.min() != column.max()]
    if not columns:
        return [0] * rows, 1
    _, kinds = np.unique(np.stack(columns), axis=1, return_inverse=True)
    found: list[int] = kinds.reshape(-1).tolist()
    return found, len(set(found))
