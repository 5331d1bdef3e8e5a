"""Finds where equal pods go that are placed one after the other, without a decision for each of them.

The total score of a row depends on how many of these pods it has already. So totals are computed for all rows at once:
for rows with none of the pods, with one, with two (`Level`), as far as anybody asks (`Ahead`). `Ranking` places pods
by these levels.

A plugin that looks at more than one node (affinity, spread) says what each placed pod changes for the others
(`Following`). It is asked about kinds of rows instead of rows: rows of one kind agree in all `columns`, and where that
matters, they have taken equally many of the pods. So the plugin's answer is the same for all of them.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Codes, Ints
from podberth.cache.nodes import HOSTNAME
from podberth.framework.decision import every_row
from podberth.framework.declaration import declared
from podberth.framework.interface import NODE, OTHER_NODES
from podberth.framework.result_cache import Ask, OnNodeResults, Scorer
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.terms import AffinityTerm
from podberth.model.volumes import NO_VOLUMES
from podberth.plugins.inter_pod_affinity import InterPodAffinity
from podberth.plugins.pod_topology_spread import Domains, PodTopologySpread, Spread, distinct, rounded, weighted

# --- plugins that look at more than one node --------------------------------------------------------------------------


class Kinds(NamedTuple):
    """Kinds of rows that may take another pod. `rows`: one row of each; `sizes`: how many rows it has."""

    rows: NDArray[np.intp]
    sizes: Ints

    def of(self, which: Bools) -> "Kinds":
        """Return the kinds for which `which` (bool[kinds]) is true."""
        return Kinds(self.rows[which], self.sizes[which])


class Following(ABC):
    """The answers of one plugin about equal pods, updated as these are placed."""

    columns: list[Ints]
    """int64[rows] each: rows that agree in all of them are of one kind."""
    by_pods = False
    """True if the answer for a row depends on how many of the equals it has itself."""
    moves = False
    """True if scores change with each pod that is placed."""

    def settled(self) -> Bools | None:
        """Return bool[rows]: which rows it rejects for good. None: this changes as pods are placed, or it scores."""
        return None

    @abstractmethod
    def rejected(self, kinds: Kinds) -> Bools | None:
        """Return bool[kinds]: which it rejects now; None: it rejects none."""

    @abstractmethod
    def raw(self, kinds: Kinds) -> Ints | None:
        """Return int64[kinds]: the scores before they are normalised, of the kinds that take a pod; None: it takes no
        part.
        """

    @abstractmethod
    def placed(self, row: int) -> None:
        """Count one of the pods as placed."""


def columns_of(codes: Codes, labelled: Bools) -> tuple[list[Ints], bool]:
    """Return the columns by which rows differ in one label, and True if each node with it has a value of its own.

    Values that are each node's own make no kinds: how many of the pods the row has says as much.
    """
    here = codes[labelled]
    if len(set(here.tolist())) == len(here):
        return [(codes >= 0).astype(np.int64)], True
    return [codes.astype(np.int64)], False


def _terms_following(plugin: InterPodAffinity, pod: Pod, cluster: Cluster) -> Following | None:
    """Return the answers of InterPodAffinity; None: a term selects the pods, and the first one's node decides for the
    rest.
    """
    terms, affinity = pod.shape.affinity_terms, cluster.affinity
    itself = bool(terms) and all(affinity.selects(term, pod) for term in terms)
    if itself and not any(affinity.selected(terms, key).total for key in terms.by_key):
        return None
    rows = cluster.nodes.rows
    rejects = np.zeros(rows, dtype=np.bool_)
    for _, where in plugin.filter(pod, cluster):
        rejects |= where
    return TermsFollowing(pod, cluster, rejects, plugin.score(pod, cluster, np.arange(rows)), plugin.hard_weight)


class TermsFollowing(Following):
    """Answers of InterPodAffinity. Terms that do not select the pods themselves stay as for the first; others are
    counted by domain.
    """

    def __init__(self, pod: Pod, cluster: Cluster, rejects: Bools, raw: Ints | None, hard_weight: int) -> None:
        """`rejects`, `raw`: what the plugin says of all rows now. Placed pods do not make more rows near ones."""
        self._rejects = rejects
        self._raw = raw
        shape = pod.shape
        selects = cluster.affinity.selects
        apart = {term.topology_key for term in shape.anti_affinity_terms if selects(term, pod)}
        weights: dict[str, int] = {}
        for each in shape.preferred_pod_terms:
            if selects(each.term, pod):  # a pod's term means its equals, and theirs mean the pod
                _add(weights, each.term, 2 * each.weight)
        for term in shape.affinity_terms:
            if selects(term, pod):
                _add(weights, term, hard_weight)
        nodes = cluster.nodes
        alive = nodes.alive[: nodes.rows]
        self.columns = [rejects.astype(np.int64)] + ([] if raw is None else [raw])
        self._closing: list[tuple[Codes, Bools]] = []
        self._counting: list[tuple[Codes, Ints, int]] = []
        for key in apart | weights.keys():
            column = nodes.topology(key)
            if column is None:
                continue
            codes = column.codes[: nodes.rows]
            columns, own = columns_of(codes, alive & (codes >= 0))
            self.columns += columns
            self.by_pods |= own
            if key in apart:
                self._closing.append((codes, np.zeros(len(column.values) + 1, dtype=np.bool_)))
            if weights.get(key):
                self._counting.append((codes, np.zeros(len(column.values) + 1, dtype=np.int64), weights[key]))
        self.moves = bool(self._counting)

    def settled(self) -> Bools | None:
        """Return the rows rejected for good; None: terms select the pods themselves, or score."""
        return None if self._raw is not None or self._closing or self._counting else self._rejects

    def rejected(self, kinds: Kinds) -> Bools | None:
        """Return the kinds whose domains have one of the pods, where they must be apart."""
        found = self._rejects[kinds.rows]
        for codes, closed in self._closing:
            found |= closed[codes[kinds.rows]]
        return found

    def raw(self, kinds: Kinds) -> Ints | None:
        """Return the scores at the start, plus the weight of each of the pods in the domains."""
        if self._raw is None and not self._counting:
            return None
        found = np.zeros(len(kinds.rows), dtype=np.int64) if self._raw is None else self._raw[kinds.rows]
        for codes, counts, weight in self._counting:
            found = found + weight * counts[codes[kinds.rows]]
        return found

    def placed(self, row: int) -> None:
        """Count a pod in its domains. The last place of each array, of rows without the label, stays as it is."""
        for codes, closed in self._closing:
            if (code := codes.item(row)) >= 0:
                closed[code] = True
        for codes, counts, _ in self._counting:
            if (code := codes.item(row)) >= 0:
                counts[code] += 1


def _add(weights: dict[str, int], term: AffinityTerm, weight: int) -> None:
    weights[term.topology_key] = weights.get(term.topology_key, 0) + weight


def _spread_following(plugin: PodTopologySpread, pod: Pod, cluster: Cluster) -> Following:
    """Return the answers of PodTopologySpread, by which equal pods count in each other's domains."""
    hard, soft = plugin.spread(pod, cluster, hard=True), plugin.spread(pod, cluster, hard=False)
    return SpreadFollowing(pod, cluster, hard, soft)


class SpreadFollowing(Following):
    """Answers of PodTopologySpread: hard constraints filter, soft ones score, and each counts the pods that it
    selects.
    """

    def __init__(self, pod: Pod, cluster: Cluster, hard: Spread | None, soft: Spread | None) -> None:
        self.columns = []
        self._rows = cluster.nodes.rows
        self._hard = hard
        self._soft = soft
        self._limits = [_Count(each, pod, cluster, self) for each in _domains(hard)]
        self._parts = [_Count(each, pod, cluster, self, scores=True) for each in _domains(soft)]
        self._last: tuple[Kinds, list[_Seen]] | None = None
        if soft is not None:
            self.columns.append(soft.labelled.astype(np.int64))
        self.moves = any(count.itself for count in self._parts)

    def settled(self) -> Bools | None:
        """Return no row as rejected if the pod has no constraint and no default constraint counts pods; None: it
        has.
        """
        return np.zeros(self._rows, dtype=np.bool_) if self._hard is None and self._soft is None else None

    def rejected(self, kinds: Kinds) -> Bools | None:
        """Return the kinds without a topology key, and those where a pod would make the skew larger than allowed."""
        if self._hard is None:
            return None
        found = np.zeros(len(kinds.rows), dtype=np.bool_)
        for count in self._limits:
            domains = count.domains
            codes = domains.codes[kinds.rows]
            most = domains.constraint.max_skew - count.itself + domains.lowest(count.counts[:-1])
            uneven = count.counts[codes] > most
            found |= uneven if domains.everywhere else uneven | (codes < 0)
        return found

    def raw(self, kinds: Kinds) -> Ints | None:
        """Return the matching pods in the domains, weighted by how many domains there are."""
        if self._soft is None:
            return None
        counted = None if self._soft.whole else self._soft.labelled[kinds.rows]
        total: Any = None
        for count, seen in zip(self._parts, self._seen(kinds, counted), strict=True):
            part = weighted(count.counts[seen.places], seen.size, count.domains.constraint)
            if not count.domains.everywhere:
                part = np.where(seen.labelled, part, 0)
            total = part if total is None else total + part
        return rounded(total)  # `normalize` gives nothing to nodes that are not counted

    def _seen(self, kinds: Kinds, counted: Bools | None) -> "list[_Seen]":
        """Return how each soft constraint sees the kinds, which often stay the same. `counted`: which of them count;
        None: all.
        """
        if self._last is None or self._last[0] is not kinds:
            self._last = kinds, [count.seen(kinds, counted) for count in self._parts]
        return self._last[1]

    def placed(self, row: int) -> None:
        """Count a pod by each constraint that selects it."""
        for count in (*self._limits, *self._parts):
            count.placed(row)


class _Seen(NamedTuple):
    """`places`: where in the counts each kind is; `size`: how many domains there are; `labelled`: which are in one."""

    places: Any
    size: int
    labelled: Bools


class _Count:
    """The pods that one constraint counts, by domain; by row where a soft one is about host names."""

    def __init__(
        self, domains: Domains, pod: Pod, cluster: Cluster, to: SpreadFollowing, *, scores: bool = False
    ) -> None:
        selector = domains.constraint.selector
        nodes = cluster.nodes
        self.domains = domains
        self.itself = int(selector.matches(pod.labels))
        self._counts_any = not (selector.nothing or selector.is_everything)
        self.by_row = scores and domains.constraint.topology_key == HOSTNAME
        if self.by_row:
            self.counts: Ints = domains.matching(pod, cluster).copy()
            """Pods by row, or by topology value with one place more: it is that of rows without the label."""
            columns, own = [self.counts.copy(), domains.missing.astype(np.int64)], True
        else:
            self.counts = np.append(domains.counts(pod, cluster), 0)
            columns, own = columns_of(domains.codes, nodes.alive[: nodes.rows] & ~domains.missing)
            if scores:  # the score goes by the number of domains, and so by which there are
                columns, own = [domains.codes.astype(np.int64)], False
            elif own:
                columns += [self.counts[domains.codes], domains.eligible.astype(np.int64)]
        to.columns += columns
        to.by_pods |= own

    def seen(self, kinds: Kinds, counted: Bools | None) -> "_Seen":
        """Return how a soft constraint sees these kinds. `counted`: those that take part in the score; None: all."""
        codes = self.domains.codes[kinds.rows]
        if self.by_row:
            size = int(kinds.sizes.sum() if counted is None else kinds.sizes[counted].sum())
            return _Seen(kinds.rows, size, codes >= 0)
        return _Seen(codes, distinct(codes if counted is None else codes[counted]), codes >= 0)

    def placed(self, row: int) -> None:
        if not (self.itself and self._counts_any):
            return
        if self.by_row:
            self.counts[row] += 1
        elif self.domains.eligible[row]:
            self.counts[self.domains.codes[row]] += 1


def _domains(spread: Spread | None) -> list[Domains]:
    return [] if spread is None else spread.domains


# --- the levels -------------------------------------------------------------------------------------------------------

_FOLLOWING: dict[str, Callable[[Any, Pod, Cluster], Following | None]] = {
    "InterPodAffinity": _terms_following,
    "PodTopologySpread": _spread_following,
}
"""Plugin → what it answers about nodes while equals of a pod are placed; None: each of these pods has to be decided."""
_KINDS = 64
"""The largest number of kinds of rows; with more, the pods are decided one by one."""


class Level(NamedTuple):
    """The rows that take one more pod, and their totals, when each row has a certain number of them already."""

    passes: list[bool]
    totals: list[int]


class Beyond(NamedTuple):
    """The parts of a total, and of the filters' verdict, that do not depend on how many of the pods the row has."""

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
        """True if rows of a kind are of different kinds once they have different numbers of the pods."""
        self.plain = not (beyond.fixed or beyond.followings)
        """True if a row's level is all that counts: no kind of rows is rejected, and all offsets are 0."""
        self.moves = any(following.moves for _, following in beyond.scored)
        """True if offsets change with each pod."""

    def level(self, number: int) -> Level:
        """Return the level with `number` of the pods on every row. Raises PluginError."""
        while len(self._levels) <= number:
            self._levels.append(self._with(len(self._levels)))
        return self._levels[number]

    def _with(self, number: int) -> Level:
        nodes, found = self._cluster.nodes, self._on_node
        nodes.charge_all(self._pod.shape, number)
        try:
            found.compute((nodes, self._pod, self._cluster))
        finally:
            nodes.charge_all(self._pod.shape, -number)
        passes = self._beyond.passes & found.passes
        if number and self._pod.shape.host_ports:
            passes = np.zeros_like(passes)  # the first pod has the port
        if self._most is not None:
            passes = passes & (self._most > number)
        return Level(passes.tolist(), (found.sums + self._beyond.more).tolist())

    def passing(self, kinds: Kinds) -> Bools | None:
        """Return bool[kinds]: which of them take a pod; None: all of them."""
        passes: Bools | None = None
        for following in self._beyond.followings:
            rejected = following.rejected(kinds)
            if rejected is not None:
                passes = ~rejected if passes is None else passes & ~rejected
        return passes

    def offsets(self, kinds: Kinds) -> list[int]:
        """Return for each kind the number to add to the totals of its rows' level, if only these kinds take a pod.

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
        """Count a pod that was placed on a row."""
        for following in self._beyond.followings:
            following.placed(row)


def ahead(pod: Pod, cluster: Cluster, framework: Framework, most: Ints | None = None) -> Ahead | None:
    """Return the levels for a pod and its equals; None: what a pod changes for the others is not known, so each is
    decided.

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
    """Return (the kind of each row, how many kinds there are)."""
    columns = [raw for _, raw in beyond.fixed]
    for following in beyond.followings:
        columns += following.columns
    columns = [column for column in columns if len(column) and column.min() != column.max()]
    if not columns:
        return [0] * rows, 1
    _, kinds = np.unique(np.stack(columns), axis=1, return_inverse=True)
    found: list[int] = kinds.reshape(-1).tolist()
    return found, len(set(found))


# --- the ranking ------------------------------------------------------------------------------------------------------

_Kind = tuple[int, int]
"""The kind of a row when it had none of the pods, and the number that it has, where that matters."""


class Ranking:
    """Rows by kind and total. Rows of equal totals are in ascending order, as in a decision."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._taken: dict[int, int] = {}
        self._kinds: dict[_Kind, _Rows] = {}
        self._best: list[list[int]] = []
        self._offsets: tuple[list[_Kind], list[int]] = ([], [])
        self._there: tuple[list[_Kind], list[_Rows], Kinds] | None = None
        """The kinds that have rows; None once that may have changed."""
        passes, totals = ahead.level(0)
        for row, total in enumerate(totals):
            if passes[row]:
                self._of(row, 0).add(row, total)

    def places(self, pods: Iterable[Pod], pick: Callable[[str, int], int]) -> Iterator[tuple[Pod, int]]:
        """Yield each pod and the row that it takes, until no row takes one.

        `pick`: (uid, how many rows are equally good) → which of them. Raises PluginError.
        """
        if self._ahead.plain and len(self._kinds) == 1:
            yield from self._plain_places(pods, pick)
            return
        for pod in pods:
            best = self.best()
            if not best:
                return
            yield pod, self.take(pick(pod.uid, best))

    def _plain_places(self, pods: Iterable[Pod], pick: Callable[[str, int], int]) -> Iterator[tuple[Pod, int]]:
        """Do as `places` where a row's own total is all that counts. There may be a million pods: every call counts."""
        (rows,) = self._kinds.values()
        taken, level = self._taken, self._ahead.level
        levels = [level(0)]
        for pod in pods:
            best = rows.best()
            if not best:
                return
            row = best.pop(pick(pod.uid, len(best)))
            rows.size -= 1
            number = taken[row] = taken.get(row, 0) + 1
            if number == len(levels):
                levels.append(level(number))
            passes, totals = levels[number]
            if passes[row]:
                rows.add(row, totals[row])
            yield pod, row

    def best(self) -> int:
        """Return the number of rows with the highest total; 0 when no row takes another pod."""
        if self._ahead.plain:
            self._best = [rows.best() for rows in self._kinds.values()]
        else:
            self._best = self._best_of_kinds()
        return sum(map(len, self._best))

    def take(self, which: int) -> int:
        """Take one of the best rows for a pod, and rank that row again; return it."""
        row = _nth(self._best, which)
        number = self._taken.get(row, 0)
        self._of(row, number).take(row)
        number = self._taken[row] = number + 1
        passes, totals = self._ahead.level(number)
        if passes[row]:
            self._of(row, number).add(row, totals[row])
        if not passes[row] or self._ahead.by_pods:
            self._there = None
        self._ahead.placed(row)
        return row

    def _of(self, row: int, number: int) -> "_Rows":
        kind = (self._ahead.kinds[row], number if self._ahead.by_pods else 0)
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Rows()
        return found

    def _best_of_kinds(self) -> list[list[int]]:
        names, there, kinds = self._there = self._there or self._with_rows()
        passes = self._ahead.passing(kinds)
        if passes is not None and not passes.all():
            kinds = kinds.of(passes)
            names, there = list(compress(names, passes)), list(compress(there, passes))
        if not there:
            return []
        offsets = self._offsets_of(names, kinds)
        totals = [rows.total + offset for rows, offset in zip(there, offsets, strict=True)]
        highest = max(totals)
        return [rows.best() for rows, total in zip(there, totals, strict=True) if total == highest]

    def _with_rows(self) -> "tuple[list[_Kind], list[_Rows], Kinds]":
        """Return the kinds that have rows, by the first of their best rows."""
        there = sorted((rows.best()[0], kind, rows) for kind, rows in self._kinds.items() if rows.size)
        if len(there) < len(self._kinds):
            self._kinds = {kind: rows for _, kind, rows in there}
        first = np.fromiter((row for row, _, _ in there), dtype=np.intp, count=len(there))
        sizes = np.fromiter((rows.size for _, _, rows in there), dtype=np.int64, count=len(there))
        return [kind for _, kind, _ in there], [rows for _, _, rows in there], Kinds(first, sizes)

    def _offsets_of(self, names: list[_Kind], kinds: Kinds) -> list[int]:
        if len(names) == 1:
            return [0]
        if self._ahead.moves or self._offsets[0] != names:
            self._offsets = (names, self._ahead.offsets(kinds))
        return self._offsets[1]


class _Rows:
    """The rows of one kind by total."""

    __slots__ = ("_by_total", "_order", "size")

    def __init__(self) -> None:
        self._by_total: dict[int, list[int]] = {}
        self._order: list[int] = []
        self.size = 0

    @property
    def total(self) -> int:
        """Return the highest total; there is one."""
        self.best()  # the total of the last row that left is still in the order
        return -self._order[0]

    def best(self) -> list[int]:
        """Return the rows of the highest total; do not change it."""
        while self._order:
            rows = self._by_total[-self._order[0]]
            if rows:
                return rows
            del self._by_total[-heappop(self._order)]
        return []

    def add(self, row: int, total: int) -> None:
        """Add a row."""
        self.size += 1
        rows = self._by_total.get(total)
        if rows is None:
            self._by_total[total] = [row]
            heappush(self._order, -total)
        else:
            insort(rows, row)

    def take(self, row: int) -> None:
        """One of the best rows goes."""
        self.size -= 1
        rows = self.best()
        del rows[bisect_left(rows, row)]


def _nth(lists: list[list[int]], which: int) -> int:
    """Return the row at a place in all lists together, each of which is in ascending order."""
    if len(lists) == 1:
        return lists[0][which]
    low, high = min(rows[0] for rows in lists), max(rows[-1] for rows in lists)
    while low < high:
        middle = (low + high) // 2
        if sum(bisect_right(rows, middle) for rows in lists) > which:
            high = middle
        else:
            low = middle + 1
    return low
