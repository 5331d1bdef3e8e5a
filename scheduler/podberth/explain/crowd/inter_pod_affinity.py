"""How terms see pods that are placed one after the other and have those terms themselves."""

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Codes, Ints
from podberth.explain.crowd.following import Following, Kinds, columns_of
from podberth.model.affinity import AffinityTerm
from podberth.model.pod import Pod
from podberth.plugins.inter_pod_affinity import InterPodAffinity


def following(plugin: InterPodAffinity, pod: Pod, cluster: Cluster) -> Following | None:
    """The terms may mean the pod's equals, too. Where the first of them goes decides for the rest: not followed."""
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
    """Terms that do not mean the pods themselves see what they saw of the first; others count them by domain."""

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
        """Return what it rejects now, unless terms mean the pods themselves or score."""
        return None if self._raw is not None or self._closing or self._counting else self._rejects

    def rejected(self, kinds: Kinds) -> Bools | None:
        """Domains with one of the pods, where they are to be apart."""
        found = self._rejects[kinds.rows]
        for codes, closed in self._closing:
            found |= closed[codes[kinds.rows]]
        return found

    def raw(self, kinds: Kinds) -> Ints | None:
        """Return what it was, and the weight of each of the pods in the domains."""
        if self._raw is None and not self._counting:
            return None
        found = np.zeros(len(kinds.rows), dtype=np.int64) if self._raw is None else self._raw[kinds.rows]
        for codes, counts, weight in self._counting:
            found = found + weight * counts[codes[kinds.rows]]
        return found

    def placed(self, row: int) -> None:
        """The last place of each array stays as it is: it is that of rows without the label."""
        for codes, closed in self._closing:
            if (code := codes.item(row)) >= 0:
                closed[code] = True
        for codes, counts, _ in self._counting:
            if (code := codes.item(row)) >= 0:
                counts[code] += 1


def _add(weights: dict[str, int], term: AffinityTerm, weight: int) -> None:
    weights[term.topology_key] = weights.get(term.topology_key, 0) + weight
