"""Placed pods and affinity terms: which pods a term means, which terms mean a pod, added up per value of a node label.

Nothing is counted for anybody in advance. A pod that comes or goes is noted, and each sum that is kept is brought up to
date when somebody asks for it, at the cost of whoever asks: `members` (which pods), `sums` (how many, where),
`existing_terms` (the other direction).
"""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from scheduler.model.affinity import AffinityTerm, WeightedTerms
from scheduler.model.pod import Pod
from scheduler.model.selectors import LabelSelector
from scheduler.model.shape import PodShape
from scheduler.state.effort import Effort
from scheduler.state.existing_terms import ExistingTerms
from scheduler.state.members import Members, Terms
from scheduler.state.nodes import Nodes
from scheduler.state.pod_classes import PodClasses
from scheduler.state.sums import OnRows, Selected
from scheduler.state.towards import Towards

_SUMS = 2048
_ON_ROWS = 512
_KEPT_BYTES = 64 << 20
_LOOK = 64
"""How many sums are made between two looks at what all of them take."""

Question = tuple[Terms, tuple[int, ...] | None, str]
"""Terms, what each adds (None: all must mean a pod, which counts once), the node label."""


class Incidence:
    """All sums of one cluster."""

    def __init__(self, nodes: Nodes, namespaces: Mapping[str, Mapping[str, str]], effort: Effort | None = None) -> None:
        self.pods = PodClasses(namespaces)
        self.terms = ExistingTerms(nodes)
        self._nodes = nodes
        self._effort = Effort() if effort is None else effort
        self._sums: dict[Question, Selected] = {}
        self._on_rows: dict[tuple[str, LabelSelector, bool], OnRows] = {}
        self._members: WeakValueDictionary[tuple[Terms, tuple[int, ...] | None], Members] = WeakValueDictionary()
        """Which pods terms mean is the same for all labels by which they are added up."""
        self._made = 0

    def add(self, pod: Pod, row: int, *, urgent: bool = False) -> None:
        """A pod was placed on a row. `urgent`: for a dry run, in which its terms have to count at once."""
        self.pods.add(pod, row, 1)
        self.terms.sets.add(pod.shape, row, 1, urgent=urgent)

    def add_many(self, pod: Pod, rows: Mapping[int, int]) -> None:
        """Pods that are all like this one in shape and labels were placed: row → how many."""
        for row, amount in rows.items():
            self.pods.add(pod, row, amount)
            self.terms.sets.add(pod.shape, row, amount)

    def remove(self, pod: Pod, row: int) -> None:
        """A placed pod is gone from a row."""
        self.pods.add(pod, row, -1)
        self.terms.sets.add(pod.shape, row, -1)

    def relabel(self, row: int, keys: Sequence[str], *, inhabited: bool) -> None:
        """Some labels of a node changed. `inhabited`: it has pods."""
        if inhabited or self.pods.placed.changed_lately(row) or self.terms.sets.placed.changed_lately(row):
            self.pods.relabel(keys)

    def selected(self, terms: Terms, topology_key: str) -> Selected:
        """Placed pods that all of the terms mean, per value of the topology key.

        Raises SliceOver.
        """
        return self._sum((terms, None, topology_key))

    def any_selected(self, terms: Terms, topology_key: str) -> Selected:
        """Placed pods, each as often as terms mean it, per value of the topology key.

        Raises SliceOver.
        """
        return self._sum((terms, None if len(terms) == 1 else (1,) * len(terms), topology_key))

    def preferred(self, terms: WeightedTerms, topology_key: str) -> Selected:
        """Placed pods, each for the weights of the terms that mean it, per value of the topology key.

        The weights have one sign. Raises SliceOver.
        """
        return self._sum((terms.terms, terms.weights, topology_key))

    def on_rows(self, namespace: str, selector: LabelSelector, *, leaving: bool = False) -> OnRows:
        """Placed pods of a namespace that a selector selects, by node row; with `leaving`, terminating ones too.

        Raises SliceOver.
        """
        key = (namespace, selector, leaving)
        found = self._on_rows.get(key)
        if found is None:
            self._make_room(self._on_rows, _ON_ROWS)
            found = self._on_rows[key] = OnRows(namespace, selector, leaving)
        elif len(self._on_rows) > _ON_ROWS // 2:
            self._on_rows[key] = self._on_rows.pop(key)
        found.renew(self.pods, self._effort)
        return found

    def prepare(self, pod: Pod) -> None:
        """A pod is going to be placed: its terms have to count from that moment.

        Raises SliceOver.
        """
        self.terms.sets.prepare(pod.shape, self._effort)

    def towards(self, pod: Pod) -> Towards:
        """What the terms of placed pods say to this one.

        Raises SliceOver.
        """
        return self.terms.towards(pod, self.pods, self._effort)

    def repelling(self, pod: Pod) -> list[AffinityTerm]:
        """Required anti-affinity terms of placed pods that keep this one away from some node."""
        self.terms.sets.settle(self._effort)
        return self.terms.named_by(self.towards(pod))

    def repulsion(self, other: Pod, row: int, towards: Towards) -> int:
        """How many of the terms that keep a pod away another pod carries, where they count on a row."""
        return self.terms.repulsion(other.shape, row, towards)

    def selects(self, term: AffinityTerm, pod: Pod) -> bool:
        """Whether a term of an incoming pod means a pod; an unknown namespace meets no selector but `{}`."""
        return self.pods.selects(term, pod.namespace, pod.labels)

    def namespace_changed(self, name: str) -> None:
        """A namespace came, got other labels, or went."""
        self.pods.namespace_changed(name)

    def sweep(self, shape: PodShape) -> None:
        """A pod of this shape has gone for good: now and then, use the numbers again that such pods have left."""
        if self.pods.worn:
            self._sums.clear()
            self._on_rows.clear()
            self.pods.reuse()
        if self.terms.sets.worn:
            self.terms.reuse()

    def _sum(self, question: Question) -> Selected:
        found = self._sums.get(question)
        if found is None:
            self._make_room(self._sums, _SUMS)
            terms, amounts, key = question
            members = self._members.get((terms, amounts))
            if members is None:
                members = self._members[terms, amounts] = Members(terms, amounts)
            found = self._sums[question] = Selected(members, key)
        elif len(self._sums) > _SUMS // 2:
            self._sums[question] = self._sums.pop(question)
        found.renew(self.pods, self._nodes, self._effort)
        return found

    def _make_room(self, kept: dict[Any, Any], most: int) -> None:
        """Let the oldest sums go where there are too many, and now and then those that take too much room."""
        if len(kept) >= most:
            del kept[next(iter(kept))]
        self._made += 1
        if self._made % _LOOK == 0:
            size = sum(one.size for one in kept.values())
            while size > _KEPT_BYTES and kept:
                size -= kept.pop(next(iter(kept))).size
