"""Which classes of placed pods some affinity terms select. Kept up to date as classes are added."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.model.affinity import AffinityTerm
from scheduler.state.column import Bools
from scheduler.state.effort import Effort
from scheduler.state.label_index import Found
from scheduler.state.pod_classes import PodClass, PodClasses
from scheduler.state.selector_index import TermIndex
from scheduler.state.weights import Weights

Terms = tuple[AffinityTerm, ...]

_OF_A_TERM, _OF_A_VALUE = 800, 200
"""Measured: a term with one requirement and one value takes 1.2 KB, and some more in the index."""
_ONE_BY_ONE = 8
"""Up to this many terms are compared with a new class one by one; more are found by an index."""
_MATCH_ALL = 32
"""With more new classes than this for each term, matching all terms again costs less than each class."""


class Members:
    """Classes and what each counts for.

    `amounts`: what each term adds for the classes that it selects; None: a class that all terms select counts once.
    `leaving`: whether terminating pods count.
    """

    def __init__(self, terms: Terms, amounts: Sequence[int] | None, *, leaving: bool = True) -> None:
        self.terms = terms
        self.weights = Weights()
        self._amounts: NDArray[np.int64] | None = None if amounts is None else np.array(amounts, dtype=np.int64)
        self._leaving = leaving
        self._by_namespace = any(not term.namespace_selector.nothing for term in terms)
        self._done = 0
        """How many terms are matched."""
        self._run: Found | None = None
        """What the last terms selected, each the same: it is added once for all of them."""
        self._run_amount = 0
        self._born = 0
        """How many classes are."""
        self._namespaces = -1
        self.edition = 0
        """Counts how often all weights were computed again: older sums have to be added up again too."""
        self._index: TermIndex | None = None
        self.size = sum(map(_bytes, terms))
        """Bytes that the terms take, about."""

    @property
    def once(self) -> bool:
        """Whether a class counts once, or not at all."""
        return self._amounts is None

    def renew(self, pods: PodClasses, effort: Effort) -> None:
        """Bring the weights up to date.

        Raises SliceOver; asked again, it goes on with the terms and classes that are left.
        """
        complete = self._done == len(self.terms)
        moved = self._by_namespace and self._namespaces != pods.namespace_changes
        if complete and not moved and self._born == len(pods.born):
            return
        if moved or (complete and len(pods.born) - self._born > _MATCH_ALL * len(self.terms)):
            self._done = 0
        if self._done < len(self.terms):
            self._match(pods, effort)
        if self._born < len(pods.born):
            self._meet(pods, effort)

    def _match(self, pods: PodClasses, effort: Effort) -> None:
        if not self._done:
            self.weights, self._born, self._namespaces = Weights(), len(pods.born), pods.namespace_changes
            self._run, self._run_amount = None, 0
            self.edition += 1
        effort.note("terms", len(self.terms))
        effort.note("kinds of placed pods", len(pods))
        while self._done < len(self.terms):
            found, cost = pods.matching(self.terms[self._done], leaving=self._leaving)
            if self._amounts is not None:
                if found is not self._run:
                    self._add_run()
                self._run = found
                self._run_amount += int(self._amounts[self._done])
            elif self._done:
                self.weights.keep(found)
            else:
                self.weights.add(found, 1)
            self._done += 1
            if self._done == len(self.terms):
                self._add_run()
                self.weights.settle()
            effort.charge(cost)

    def _add_run(self) -> None:
        if self._run is not None:
            self.weights.add(self._run, self._run_amount)
        self._run, self._run_amount = None, 0

    def _meet(self, pods: PodClasses, effort: Effort) -> None:
        """Match the classes that were added."""
        if len(self.terms) > _ONE_BY_ONE and (self._index is None or len(self._index) < len(self.terms)):
            self._index_terms(effort)
        while self._born < len(pods.born):
            number = pods.born[self._born]
            found = pods.get(number)
            self.weights.set(number, 0 if found is None else self._weight(found, pods))
            self._born += 1
            effort.charge(1 + min(len(self.terms), 20 + len(self.terms) // 50))

    def _index_terms(self, effort: Effort) -> None:
        index = self._index = TermIndex() if self._index is None else self._index
        while len(index) < len(self.terms):
            term = self.terms[len(index)]
            index.add(term)
            effort.charge(index.cost(term))

    def _weight(self, of: PodClass, pods: PodClasses) -> int:
        if of.terminating and not self._leaving:
            return 0
        means = self._means(of, pods)
        return int(means.all()) if self._amounts is None else int(self._amounts[means].sum())

    def _means(self, of: PodClass, pods: PodClasses) -> Bools:
        """bool[terms]: which of them mean a class."""
        if self._index is None:
            return np.array([pods.selects(term, of.namespace, of.labels) for term in self.terms], dtype=np.bool_)
        return self._index.select(of.namespace, pods.labels_of_namespace(of.namespace), of.labels)


def _bytes(term: AffinityTerm) -> int:
    """About how many bytes a term takes."""
    return _OF_A_TERM + _OF_A_VALUE * term.selector.size
