"""How constraints see pods that are placed one after the other and have those constraints themselves."""

from typing import Any, NamedTuple

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.explain.crowd.following import Following, Kinds, columns_of
from podberth.framework.changes import HOSTNAME
from podberth.model.pod import Pod
from podberth.plugins.pod_topology_spread.domains import Domains, Spread
from podberth.plugins.pod_topology_spread.plugin import PodTopologySpread
from podberth.plugins.pod_topology_spread.weights import distinct, rounded, weighted


def following(plugin: PodTopologySpread, pod: Pod, cluster: Cluster) -> Following:
    """The pod's equals count in each other's domains."""
    hard, soft = plugin.spread(pod, cluster, hard=True), plugin.spread(pod, cluster, hard=False)
    return SpreadFollowing(pod, cluster, hard, soft)


class SpreadFollowing(Following):
    """The hard constraints reject, the soft ones score; each counts the pods that it selects itself."""

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
        """Nothing is rejected where the pod has no constraint, and no default constraint has pods to count."""
        return np.zeros(self._rows, dtype=np.bool_) if self._hard is None and self._soft is None else None

    def rejected(self, kinds: Kinds) -> Bools | None:
        """Kinds without a topology key, and those where a pod would make the skew larger than allowed."""
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
        """Matching pods in the domains, weighted by how many domains there are."""
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
        """Return how each soft constraint sees the kinds, which often stay the same. `counted`: which count, if not
        all.
        """
        if self._last is None or self._last[0] is not kinds:
            self._last = kinds, [count.seen(kinds, counted) for count in self._parts]
        return self._last[1]

    def placed(self, row: int) -> None:
        """Each constraint that selects the pod counts it, where it counts."""
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
            """By row, or by topology value with one place more: it is that of rows without the label."""
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
