"""Counts of placed pods and affinity terms: the pods that a term selects, and the terms that select a pod, summed per
topology value.

Nothing is summed in advance. When a pod is placed or removed, its row is only noted with its class. Each kept sum is
brought up to date when a plugin asks for it: `selected_pods` (which pods, how many, where), `existing_terms` (the other
direction).
"""

from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

from podberth.cache.existing_terms import ExistingTerms, ExistingTermSums
from podberth.cache.kept_results import BoundedBytes
from podberth.cache.nodes import Nodes
from podberth.cache.selected_pods import Members, OnRows, PodClasses, Selected, Terms
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector
from podberth.model.terms import AffinityTerm, WeightedTerms

_SUMS = 2048
_ON_ROWS = 512
KEPT_BYTES = 64 << 20

SumKey = tuple[Terms, tuple[int, ...] | None, str]
"""Terms, what each adds (None: all must select a pod, which counts once), the topology key."""


class AffinityCounts:
    """Counts placed pods and their affinity terms per topology value, and keeps the sums that plugins ask for."""

    def __init__(self, nodes: Nodes, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.pods = PodClasses(namespaces)
        """The placed pods by class."""
        self.terms = ExistingTerms(nodes)
        self._nodes = nodes
        self.sums: BoundedBytes[SumKey, Selected] = BoundedBytes(_SUMS, KEPT_BYTES)
        """The sums that are kept, least recently used first."""
        self._on_rows: BoundedBytes[tuple[str | None, LabelSelector, bool], OnRows] = BoundedBytes(_ON_ROWS, KEPT_BYTES)
        self._members: WeakValueDictionary[tuple[Terms, tuple[int, ...] | None], Members] = WeakValueDictionary()
        """The classes of pods that terms select; the sums for all topology keys share them."""

    def add(self, pod: Pod, row: int, amount: int = 1) -> None:
        """Count pods that were placed on a row and are equal in shape and labels; `amount` is negative for pods that
        are gone.
        """
        self.pods.add(pod, row, amount)
        shape = pod.shape
        if shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms:
            self.terms.sets.add(shape, row, amount)

    def remove(self, pod: Pod, row: int) -> None:
        """Take back the count of a placed pod that is gone from a row."""
        self.add(pod, row, -1)

    def relabel(self, row: int, keys: Sequence[str], *, inhabited: bool) -> None:
        """Note that labels of a node changed. `keys`: those that have a column. `inhabited`: the node has pods."""
        if keys and (inhabited or self.pods.placed.changed_lately(row) or self.terms.sets.placed.changed_lately(row)):
            self.pods.relabel(keys)

    def selected(self, terms: Terms, topology_key: str) -> Selected:
        """Return the placed pods that all of the terms select, summed per value of the topology key."""
        return self._sum((terms, None, topology_key))

    def any_selected(self, terms: Terms, topology_key: str) -> Selected:
        """Return the placed pods, each counted once for each term that selects it, summed per value of the topology
        key.
        """
        return self._sum((terms, None if len(terms) == 1 else (1,) * len(terms), topology_key))

    def share(self, pod: Pod, of: Selected) -> int:
        """Return the number that one placed pod adds to a sum, where it counts."""
        return of.of_class(self.pods.number_of(pod))

    def preferred(self, terms: WeightedTerms, topology_key: str) -> Selected:
        """Return the placed pods, each with the weights of the terms that select it, summed per value of the topology
        key.

        The weights have one sign.
        """
        return self._sum((terms.terms, terms.weights, topology_key))

    def on_rows(self, namespace: str | None, selector: LabelSelector, *, leaving: bool = False) -> OnRows:
        """Return the placed pods that a selector selects, by row. `namespace` None: in all.

        `leaving`: terminating ones too.
        """
        key = (namespace, selector, leaving)
        found = self._on_rows.recall(key)
        if found is None:
            self._on_rows.keep(key, found := OnRows(namespace, selector, leaving))
        found.follow(self.pods)
        return found

    def existing_terms(self, pod: Pod) -> ExistingTermSums | None:
        """Return the sums of the placed pods' terms that select this pod; None: none does."""
        return self.terms.sums_for(pod, self.pods) if self.terms.sets.known else None

    def repelling(self, pod: Pod) -> list[AffinityTerm]:
        """Return the required anti-affinity terms by which placed pods keep this one away from some node."""
        existing = self.existing_terms(pod)
        return [] if existing is None else self.terms.named_by(existing)

    def repulsion(self, other: Pod, row: int, existing: ExistingTermSums) -> int:
        """Return how many of another pod's terms keep a pod away from a row."""
        of = self.terms.sets.find(other.shape)
        return 0 if of is None else existing.repulsion(of.number, row)

    def repulsion_by(self, other: Pod, key: str, existing: ExistingTermSums) -> int:
        """Return how many of another pod's terms of one topology key keep a pod away."""
        of = self.terms.sets.find(other.shape)
        return 0 if of is None else existing.repulsion_by(key, of.number)

    def selects(self, term: AffinityTerm, pod: Pod) -> bool:
        """Return whether a term of an incoming pod selects a pod; an unknown namespace matches no selector but `{}`."""
        return self.pods.selects(term, pod.namespace, pod.labels)

    def namespace_changed(self, name: str) -> None:
        """Note that a namespace was added, relabelled or deleted."""
        self.pods.namespace_changed(name)

    def _sum(self, question: SumKey) -> Selected:
        found = self.sums.recall(question)
        if found is None:
            terms, amounts, key = question
            members = self._members.get((terms, amounts))
            if members is None:
                members = self._members[terms, amounts] = Members(terms, amounts)
            self.sums.keep(question, found := Selected(members, key))
        found.follow(self.pods, self._nodes)
        return found
