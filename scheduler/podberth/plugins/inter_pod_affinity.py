"""Upstream: plugins/interpodaffinity (filtering.go, scoring.go)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints, at
from podberth.cache.existing_terms import ExistingTermSums
from podberth.cache.row_counts import ByTopology, summed
from podberth.cache.selected_pods import Selected
from podberth.framework.config import Percent
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MIN_MAX, NO_POINTS, NODE, PODS_ELSEWHERE, Plugin, RemovedPods
from podberth.framework.status import Reject, Rejections, Unresolvable, Unschedulable
from podberth.model.node import Node
from podberth.model.once import Once
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.terms import AffinityTerm, Terms, WeightedTerms

_WITHOUT_FAULTS = ("pre_filter",)

_LOOKS = 10_000
"""At most so many pairs of a term and a pod are looked at to find out whether they matter to each other."""


class InterPodAffinityArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """`hardPodAffinityWeight` (0..100): what required affinity of placed pods towards this one is worth."""

    hard_pod_affinity_weight: Percent = 1
    """The weight in scores of placed pods' required affinity to the new pod."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """The preferences of placed pods do not count; those of the new pod do."""


class InterPodAffinity(Plugin):
    """Place pods near or away from other pods, by the values of a node label."""

    name = "InterPodAffinity"
    depends_on = NODE | PODS_ELSEWHERE
    normalize = MIN_MAX
    Args = InterPodAffinityArgs
    events = (
        ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_LABELS
        | ClusterEvent.POD_PLACED
        | ClusterEvent.POD_LABELS
        | ClusterEvent.POD_GONE
        | ClusterEvent.OWN_LABELS
        | ClusterEvent.NAMESPACE
    )
    not_near = Unresolvable("node(s) didn't match pod affinity rules")
    not_apart = Unschedulable("node(s) didn't match pod anti-affinity rules")
    repelled = Unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

    def __init__(self, args: InterPodAffinityArgs) -> None:
        self.hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods

    @staticmethod
    def check(args: InterPodAffinityArgs, path: str) -> list[str]:
        """Errors of the arguments (ValidateInterPodAffinityArgs)."""
        weight = args.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        return [f"{path}.hardPodAffinityWeight: Invalid value: {weight}: not in valid range [0, 100]"]

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip PreFilter for pods whose terms parse, but no later point: placed pods' terms may mean any pod."""
        return _WITHOUT_FAULTS if shape.problem is None else NO_POINTS

    def idle(self, pod: Pod, cluster: Cluster) -> Collection[str]:
        """Have no effect where neither the pod has terms nor any term of placed pods selects it."""
        shape = pod.shape
        if shape.affinity_terms or shape.anti_affinity_terms or shape.preferred_pod_terms:
            return NO_POINTS
        return NO_POINTS if cluster.affinity.existing_terms(pod) is not None else ("filter", "score")

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose terms do not parse."""
        return Reject(Unresolvable(pod.shape.problem)) if pod.shape.problem is not None else None

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """The pod's required affinity, then its required anti-affinity, then that of the pods already there."""
        rows = cluster.nodes.rows
        found: list[tuple[Any, Bools]] = []
        free: Bools | None = None
        if pod.shape.affinity_terms:
            free = self._near(pod.shape.affinity_terms, pod, cluster)
            if free is not None:
                found.append((self.not_near, ~free))
        if pod.shape.anti_affinity_terms:
            terms = _on_nodes(pod.shape.anti_affinity_terms.by_key, cluster)
            hit = _anywhere([cluster.affinity.any_selected(*of_key) for of_key in terms], rows)
            found.append((self.not_apart, hit if free is None else hit & free))
            free = ~hit if free is None else free & ~hit
        existing = cluster.affinity.existing_terms(pod)
        if existing is not None and existing.repels and not self._passed_over(pod, cluster, existing):
            hit = _anywhere(existing.repelled.values(), rows)
            found.append((self.repelled, hit if free is None else hit & free))
        return found

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Return whether the pod has required terms, or is repelled by placed pods or by `others`."""
        existing = cluster.affinity.existing_terms(pod)
        return bool(
            pod.shape.affinity_terms
            or pod.shape.anti_affinity_terms
            or (existing is not None and existing.repels)
            or any(other.shape.anti_affinity_terms for other in others)
        )

    def filter_removed(self, pod: Pod, cluster: Cluster, removed: RemovedPods) -> Rejections:
        """Subtract from each sum what the pods that are gone add to it."""
        affinity, rows = cluster.affinity, cluster.nodes.rows
        found: list[tuple[Any, Bools]] = []
        free: Bools = np.ones(len(removed.rows), dtype=np.bool_)
        if pod.shape.affinity_terms:
            free = self._near_without(pod.shape.affinity_terms, pod, cluster, removed)
            found.append((self.not_near, ~free))
        left: Ints = np.zeros(len(removed.rows), dtype=np.int64)
        for of_key in _on_nodes(pod.shape.anti_affinity_terms.by_key, cluster):
            selected = affinity.any_selected(*of_key)
            left += _left(selected, removed, removed.count(selected, partial(affinity.share, of=selected)))
        found.append((self.not_apart, (left > 0) & free))
        free = free & (left <= 0)
        existing = affinity.existing_terms(pod)
        left = np.zeros(len(removed.rows), dtype=np.int64)
        if existing is not None:
            for key, repelled in existing.repelled.items():
                repulsion = partial(affinity.repulsion_by, key=key, existing=existing)
                left += _left(repelled, removed, removed.count(repelled, repulsion))
        found.append((self.repelled, (left > 0) & free))
        return [(reason, removed.on_nodes(mask, rows)) for reason, mask in found]

    def affected_by(self, pod: Pod, cluster: Cluster, others: Sequence[Pod]) -> bool:
        """Return whether a term of the pod may select one of `others`, or a term of theirs the pod."""
        own = pod.shape.affinity_terms + pod.shape.anti_affinity_terms
        looks = len(own) * len(others) + sum(len(other.shape.anti_affinity_terms) for other in others)
        if looks > _LOOKS:
            return True
        return any(_may_select(term, other) for term in own for other in others) or any(
            _may_select(term, pod) for other in others for term in other.shape.anti_affinity_terms
        )

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """Sum the weights of the pod's preferred terms and of placed pods' terms towards it, per topology value."""
        preferred = pod.shape.preferred_pod_terms
        if self._ignore_existing and not preferred:
            return None
        existing = cluster.affinity.existing_terms(pod)
        sums: list[ByTopology] = []
        if existing is not None:
            sums += existing.preferred
            sums += [hard.times(self.hard_weight) for hard in existing.hard.values() if self.hard_weight]
        if preferred:
            # Apart by sign: pods that attract as much as they repel count, though they add up to nothing.
            for by_key in preferred.by_sign:
                sums += [cluster.affinity.preferred(*of_key) for of_key in _on_nodes(by_key, cluster)]
        total = summed(sums, cluster.nodes.rows) if sums else None
        return None if total is None else at(total, feasible)

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that joined or moved to another domain of one of the pod's terms."""
        if old is None:
            repels = bool(pod.shape.anti_affinity_terms) or not pod.shape.affinity_terms
            return repels or any(term.topology_key in new.labels for term in pod.shape.affinity_terms)
        terms = pod.shape.affinity_terms + pod.shape.anti_affinity_terms
        if not terms:
            # Repelled by placed pods, whose domains are theirs to name: any label may be one.
            return old.labels != new.labels
        return any(old.labels.get(term.topology_key) != new.labels.get(term.topology_key) for term in terms)

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod wanted near arrived, or one in the way (in either direction) left or changed."""
        if event & ClusterEvent.POD_LABELS:
            return True
        if event is ClusterEvent.POD_PLACED:
            terms = pod.shape.affinity_terms
            return bool(terms) and all(_may_select(term, other) for term in terms)
        return any(_may_select(term, other) for term in pod.shape.anti_affinity_terms) or any(
            _may_select(term, pod) for term in other.shape.anti_affinity_terms
        )

    def crowded(self, pod: Pod, row: int, cluster: Cluster) -> list[tuple[Once[AffinityTerm], Selected]]:
        """The required anti-affinity terms of a placed pod that do not hold on its row, and the pods they select.

        All terms of one topology key go together.
        """
        found = []
        for terms, key in _on_nodes(pod.shape.anti_affinity_terms.by_key, cluster):
            selected = cluster.affinity.any_selected(terms, key)
            code = -1 if selected.column is None else selected.column.codes.item(row)
            if code >= 0 and selected.by_code().item(code) > cluster.affinity.share(pod, selected):
                found.append((terms, selected))
        return found

    def _passed_over(self, pod: Pod, cluster: Cluster, existing: ExistingTermSums) -> bool:
        """Return whether PreFilter would have skipped the plugin: it saw the cluster before a dry run changed it."""
        if not cluster.supposed or pod.shape.affinity_terms or pod.shape.anti_affinity_terms:
            return False
        supposed, repulsion = cluster.supposed.values(), cluster.affinity.repulsion
        if (
            sum(sign * repulsion(other, row, existing) for other, row, sign in supposed if sign > 0)
            < existing.repulsions
        ):
            return False  # somebody who is really there keeps it away
        gone = (one for one in supposed if one[2] < 0 and one[0].shape.anti_affinity_terms)
        return not any(repulsion(other, row, existing) for other, row, _ in gone)

    def _near(self, terms: Terms, pod: Pod, cluster: Cluster) -> Bools | None:
        """Rows whose every domain holds pods that all terms select; or the first pod of its kind anywhere.

        None: all rows.
        """
        rows = cluster.nodes.rows
        keys = terms.by_key
        if not keys.keys() <= cluster.nodes.label_keys.keys():
            return np.zeros(rows, dtype=np.bool_)  # no node has every key
        counts = [cluster.affinity.selected(terms, key) for key in keys]
        near: Bools | None = None
        if any(count.total for count in counts):
            for count in counts:
                if not count.everywhere(rows):
                    near = count.anywhere(rows) if near is None else near & count.anywhere(rows)
            return near
        near = np.zeros(rows, dtype=np.bool_)
        if all(cluster.affinity.selects(term, pod) for term in terms):
            near[:] = True
            for term in terms:
                near &= cluster.nodes.label(term.topology_key).codes[:rows] >= 0
        return near

    def _near_without(self, terms: Terms, pod: Pod, cluster: Cluster, removed: RemovedPods) -> Bools:
        """bool[rows that are tried]: as `_near`, each row without the pods that are gone from it."""
        affinity, nodes, keys = cluster.affinity, cluster.nodes, terms.by_key
        near: Bools = np.zeros(len(removed.rows), dtype=np.bool_)
        if not keys.keys() <= nodes.label_keys.keys():
            return near
        near[:], first = True, ~near
        labelled = first.copy()
        for key in keys:
            selected = affinity.selected(terms, key)
            has_key: Bools = nodes.label(key).codes[removed.rows] >= 0
            gone = removed.count(selected, partial(affinity.share, of=selected))
            near &= _left(selected, removed, gone) > 0
            first &= selected.total - gone <= 0
            labelled &= has_key
        if not all(affinity.selects(term, pod) for term in terms):
            return near
        return near | (first & labelled)


def _left(one: ByTopology, removed: RemovedPods, counts: Ints) -> Ints:
    """int64[rows that are tried]: the number of each row's value without the pods that are gone.

    `counts`: what these count for.
    """
    if one.column is None:
        return np.zeros(len(removed.rows), dtype=np.int64)
    codes = one.column.codes[removed.rows]
    left: Ints = np.where(codes >= 0, one.by_code()[codes] - counts, 0)
    return left


def _anywhere(sums: Iterable[ByTopology], rows: int) -> Bools:
    """bool[rows]: where any of the sums is above 0; do not change it."""
    return _any([one.anywhere(rows) for one in sums], rows)


def _any(masks: Iterable[Bools], rows: int) -> Bools:
    """bool[rows]: where any of them is true; do not change it."""
    hit: Bools | None = None
    for one in masks:
        hit = one if hit is None else hit | one
    return np.zeros(rows, dtype=np.bool_) if hit is None else hit


Some = TypeVar("Some", Once[AffinityTerm], WeightedTerms)


def _on_nodes(by_key: Mapping[str, Some], cluster: Cluster) -> list[tuple[Some, str]]:
    """The terms of each topology key that nodes have: they are added up together. By other keys nothing counts."""
    keys = cluster.nodes.label_keys
    return [(terms, key) for key, terms in by_key.items() if key in keys]


def _may_select(term: AffinityTerm, pod: Pod) -> bool:
    """Return whether a term may select a pod, taking any namespace selector as met: a hint may err on the side of
    waking.
    """
    return (pod.namespace in term.namespaces or not term.namespace_selector.nothing) and term.selector.matches(
        pod.labels
    )
