"""Placed pods in classes: the pods of one namespace with equal labels are one class, since selectors treat them alike.

Indexes of labels say which classes an affinity term selects; the pods of each class are counted by row.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from podberth.cache.column import Bools
from podberth.cache.label_index import Found, LabelIndex
from podberth.cache.row_counts import RowCounts, let_go
from podberth.model.affinity import AffinityTerm
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector

IDLE = 1024
"""How many classes without pods are kept: a dry run removes pods and puts them back."""
DEAD = 4096
"""How many numbers of removed classes stay unused, before all sums are dropped so that numbers can be used again."""
_AT_HAND = 8192

Key = tuple[str, Hashable, bool]
"""Namespace, labels, and whether the pods are on their way out."""


class PodClass(Struct, eq=False):
    """Placed pods of one namespace with the same labels, all on their way out or none."""

    number: int
    namespace: str
    labels: Mapping[str, str]
    terminating: bool
    key: Key
    pods: int = 0


class PodClasses:
    """All classes that have pods, by number."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.placed = RowCounts()
        """Pods of each class, by row."""
        self.born: list[int] = []
        """Numbers in the order in which classes came, since numbers were last used again."""
        self.relabelled: dict[str, int] = {}
        """Label key of nodes → how often the value of a row changed under its pods."""
        self.relabels = 0
        """Counts all of them."""
        self.namespace_changes = 0
        """Counts namespaces that came, changed or went."""
        self._namespaces = namespaces
        self._index = LabelIndex()
        self._classes: list[PodClass | None] = []
        self._terminating: Bools = np.zeros(64, dtype=np.bool_)
        self._by_key: dict[Key, PodClass] = {}
        self._idle: dict[int, PodClass] = {}
        self._at_hand: dict[tuple[str, int, bool], tuple[Mapping[str, str], PodClass]] = {}
        self.read_namespaces()

    def __len__(self) -> int:
        """Return how many classes there are."""
        return len(self._by_key)

    def all(self) -> list[PodClass]:
        """Every class, and some that have no pods any more."""
        return list(self._by_key.values())

    def end(self) -> Iterator[int]:
        """Let go of all pods, in steps (`let_go`). Nobody may ask afterwards."""
        self.born.clear()
        return let_go(self._at_hand, self._by_key, self._classes, *self.placed.containers())

    def get(self, number: int) -> PodClass | None:
        """The class of a number; None when it is gone."""
        return self._classes[number]

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """So many more pods like this one on a row, or fewer."""
        found = self._of(pod)
        self.placed.add(found.number, row, amount)
        if not found.pods:
            self._idle.pop(found.number, None)
        found.pods += amount
        if not found.pods:
            self._idle[found.number] = found
            if len(self._idle) > IDLE:
                self._end(next(iter(self._idle.values())))

    def number_of(self, pod: Pod) -> int:
        """The number of the class of a placed pod."""
        return self._of(pod).number

    @property
    def worn(self) -> bool:
        """Return whether so many numbers are unused that it is worth while to use them again."""
        return len(self._index.dead) > DEAD + self._index.alive

    def reuse(self) -> None:
        """Use numbers again: nothing may refer to their old meaning any more."""
        self._index.reuse()
        self.born = [one.number for one in self._by_key.values()]
        self.placed.forget_changes()

    def relabel(self, keys: Iterable[str]) -> None:
        """The values of some label keys changed on a row that has pods, or had: sums that know them are wrong."""
        self.relabels += 1
        for key in keys:
            self.relabelled[key] = self.relabelled.get(key, 0) + 1

    def matching(self, term: AffinityTerm, *, leaving: bool = True) -> Found:
        """The classes that an incoming pod's term selects.

        `leaving`: terminating pods too. A namespace that is not known matches no namespace selector but `{}`.
        """
        conditions = term.selector.conditions
        if conditions is None:
            return []
        found = self._index.select(conditions, self._places(term))
        if leaving:
            return found
        if isinstance(found, list):
            return [number for number in found if not self._terminating[number]]
        return found & ~self._terminating[: len(found)]

    def selects(self, term: AffinityTerm, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether an incoming pod's term means pods with these labels there."""
        if namespace not in term.namespaces and not term.namespace_selector.is_everything:
            known = self._namespaces.get(namespace)
            if known is None or not term.namespace_selector.matches(known):
                return False
        return term.selector.matches(labels)

    def labels_of_namespace(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace; None when it is not known."""
        return self._namespaces.get(namespace)

    def read_namespaces(self) -> None:
        """Read all namespaces again: they may have changed without an event."""
        self.namespace_changes += 1
        self._names = LabelIndex()
        self._name_of: list[str] = []
        self._number_of: dict[str, int] = {}
        self._meant: dict[LabelSelector, frozenset[str]] = {}
        for name in self._namespaces:
            self._number_namespace(name)

    def namespace_changed(self, name: str) -> None:
        """A namespace came, got other labels, or went."""
        self.namespace_changes += 1
        self._meant.clear()
        number = self._number_of.pop(name, None)
        if number is not None:
            self._names.remove(number)
            if len(self._names.dead) > DEAD:
                self._names.reuse()
        if name in self._namespaces:
            self._number_namespace(name)

    def _number_namespace(self, name: str) -> None:
        number = self._number_of[name] = self._names.add(self._namespaces[name])
        if number == len(self._name_of):
            self._name_of.append(name)
        else:
            self._name_of[number] = name

    def _places(self, term: AffinityTerm) -> frozenset[str] | None:
        """The namespaces that a term means; None: all."""
        selector = term.namespace_selector
        if selector.nothing:
            return term.namespaces
        if selector.is_everything:
            return None
        meant = self._meant.get(selector)
        if meant is None:
            if len(self._meant) >= DEAD:
                self._meant.clear()
            meant = self._meant[selector] = self._namespaces_with(selector)
        return meant | term.namespaces if term.namespaces else meant

    def _namespaces_with(self, selector: LabelSelector) -> frozenset[str]:
        conditions = selector.conditions
        if conditions is None:
            return frozenset()
        found = self._names.select(conditions)
        numbers = found if isinstance(found, list) else np.flatnonzero(found).tolist()
        return frozenset(self._name_of[number] for number in numbers)

    def _of(self, pod: Pod) -> PodClass:
        """The class of a placed pod; a new one where it is the first. Pods of one template share their labels."""
        shared = (pod.namespace, id(pod.labels), pod.terminating)
        at_hand = self._at_hand.get(shared)
        if at_hand is not None and self._classes[at_hand[1].number] is at_hand[1]:
            return at_hand[1]
        key = (pod.namespace, frozenset(pod.labels.items()), pod.terminating)
        found = self._by_key.get(key)
        if found is None:
            found = self._begin(pod, key)
        if len(self._at_hand) >= _AT_HAND:
            self._at_hand.clear()
        self._at_hand[shared] = (pod.labels, found)
        return found

    def _begin(self, pod: Pod, key: Key) -> PodClass:
        number = self._index.add(pod.labels, pod.namespace)
        found = self._by_key[key] = PodClass(number, pod.namespace, pod.labels, pod.terminating, key)
        if number == len(self._classes):
            self._classes.append(found)
            if number >= len(self._terminating):
                self._terminating = np.concatenate((self._terminating, np.zeros_like(self._terminating)))
        else:
            self._classes[number] = found
        self._terminating[number] = pod.terminating
        self.born.append(number)
        return found

    def _end(self, idle: PodClass) -> None:
        del self._idle[idle.number]
        del self._by_key[idle.key]
        self._classes[idle.number] = None
        self._index.remove(idle.number)
