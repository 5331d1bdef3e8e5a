"""Which classes of placed pods some affinity terms select. Kept up to date as classes are added."""

from collections.abc import Sequence

from scheduler.model.affinity import AffinityTerm
from scheduler.state.pod_classes import PodClass, PodClasses
from scheduler.state.weights import Weights

Terms = tuple[AffinityTerm, ...]

_OF_A_TERM, _OF_A_VALUE = 800, 200
"""Measured: a term with one requirement and one value takes 1.2 KB, and some more in the index."""
_ONE_BY_ONE = 32
"""Up to this many new classes are compared with the terms; with more of them, matching all terms again costs less."""


class Members:
    """Classes and what each counts for.

    `amounts`: what each term adds for the classes that it selects; None: a class that all terms select counts once.
    `leaving`: whether terminating pods count.
    """

    def __init__(self, terms: Terms, amounts: Sequence[int] | None, *, leaving: bool = True) -> None:
        self.terms = terms
        self.weights = Weights()
        self._amounts = amounts
        self._leaving = leaving
        self._by_namespace = any(not term.namespace_selector.nothing for term in terms)
        self._born = 0
        """How many classes are known."""
        self._namespaces = -1
        self.edition = 0
        """Counts how often all weights were computed: older sums have to be added up again too."""
        self.size = sum(map(_bytes, terms))
        """Bytes that the terms take, about."""

    @property
    def once(self) -> bool:
        """Whether a class counts once, or not at all."""
        return self._amounts is None

    def renew(self, pods: PodClasses) -> None:
        """Bring the weights up to date."""
        moved = self._by_namespace and self._namespaces != pods.namespace_changes
        if moved or not self.edition or len(pods.born) - self._born > _ONE_BY_ONE:
            self._match(pods)
        elif self._born < len(pods.born):
            for number in pods.born[self._born :]:
                found = pods.get(number)
                self.weights.set(number, 0 if found is None else self._weight(found, pods))
            self._born = len(pods.born)

    def _match(self, pods: PodClasses) -> None:
        self.weights, self._born, self._namespaces = Weights(), len(pods.born), pods.namespace_changes
        self.edition += 1
        for i, term in enumerate(self.terms):
            found = pods.matching(term, leaving=self._leaving)
            if self._amounts is not None:
                self.weights.add(found, self._amounts[i])
            elif i:
                self.weights.keep(found)
            else:
                self.weights.add(found, 1)
        self.weights.settle()

    def _weight(self, of: PodClass, pods: PodClasses) -> int:
        if of.terminating and not self._leaving:
            return 0
        selects = [pods.selects(term, of.namespace, of.labels) for term in self.terms]
        if self._amounts is None:
            return int(all(selects))
        return sum(amount for amount, selected in zip(self._amounts, selects, strict=True) if selected)


def _bytes(term: AffinityTerm) -> int:
    """About how many bytes a term takes."""
    return _OF_A_TERM + _OF_A_VALUE * term.selector.size
