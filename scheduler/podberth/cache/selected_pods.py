"""Counts the placed pods that terms select, per topology value or by row.

The pods of one namespace with equal labels are one class, since selectors treat them alike. Indexes of labels say which
classes a term selects (`Members`); the pods of each class are counted by row. Sums are kept, and caught up when needed.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from podberth.cache import row_counts
from podberth.cache.column import Bools, Ints
from podberth.cache.kept_results import ChangeLog, KeptResult
from podberth.cache.label_index import Found, LabelIndex
from podberth.cache.nodes import Nodes
from podberth.cache.row_counts import ByTopology, Moved, RowCounts, Weights, let_go
from podberth.model.pod import Pod
from podberth.model.selectors import EVERYTHING, NOTHING, LabelSelector
from podberth.model.terms import AffinityTerm

IDLE = 1024
"""The number of classes without pods that are kept: a dry run removes pods and puts them back."""
DEAD = 4096
"""The number of removed classes from which on their numbers are used again, and all sums are added up again."""
_AT_HAND = 8192
_NAMES = 1 << 20
"""The number of names in the sets of namespaces that are kept: some 50 MB. A selector may select all namespaces."""

Terms = tuple[AffinityTerm, ...]

_OF_A_TERM, _OF_A_VALUE = 800, 200
"""Measured bytes of a term with one requirement, and of each value: 1.2 KB together, and some more in the index."""
_OF_A_CHANGE = 120
"""Bytes of a change that is remembered."""
_ONE_BY_ONE = 32
"""The largest number of new classes that are compared with the terms one by one; with more, matching all again costs
less.
"""

Key = tuple[str, Hashable, bool]
"""Namespace, labels, and whether the pods are on their way out."""


class PodClass(Struct, eq=False):
    """The placed pods of one namespace with the same labels, all terminating or none."""

    number: int
    namespace: str
    labels: Mapping[str, str]
    terminating: bool
    key: Key
    pods: int = 0
    gone: bool = False
    """Its number may be another class's."""


class PodClasses:
    """The classes of placed pods, by number."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.placed = RowCounts()
        """Pods of each class, by row."""
        self.born: ChangeLog[int] = ChangeLog(kept=_ONE_BY_ONE)
        """Numbers of the classes that came."""
        self.numbering = 0
        """A number that differs after numbers of classes were given to new ones: earlier numbers are invalid then."""
        self.relabelled: dict[str, int] = {}
        """Label key of nodes → number of times that its value changed on a row with pods."""
        self.relabels = 0
        """The number of those changes for all keys."""
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
        """Return the number of classes."""
        return len(self._by_key)

    def all(self) -> list[PodClass]:
        """Every class, and some that have no pods any more."""
        return list(self._by_key.values())

    def end(self) -> Iterator[int]:
        """Free all pods in steps (`let_go`). It can't be used afterwards."""
        return let_go(self._at_hand, self._by_key, self._classes, *self.placed.containers())

    def get(self, number: int) -> PodClass | None:
        """Return the class of a number; None when it is gone."""
        return self._classes[number]

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """Count this many more pods like this one on a row, or fewer where negative."""
        found = self._of(pod)
        number, before = found.number, found.pods
        self.placed.add(number, row, amount)
        left = found.pods = before + amount
        if not before:
            self._idle.pop(number, None)
        if not left:
            self._idle[number] = found
            if len(self._idle) > IDLE:
                self._end(next(iter(self._idle.values())))

    def number_of(self, pod: Pod) -> int:
        """Return the number of the class of a placed pod."""
        return self._of(pod).number

    def relabel(self, keys: Iterable[str]) -> None:
        """Note that the values of these label keys changed on a row that has or had pods: sums by them are wrong."""
        self.relabels += 1
        for key in keys:
            self.relabelled[key] = self.relabelled.get(key, 0) + 1

    def matching(self, term: AffinityTerm, *, leaving: bool = True) -> Found:
        """Return the classes that an incoming pod's term selects.

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
        """Return the labels of a namespace; None when it is not known."""
        return self._namespaces.get(namespace)

    def read_namespaces(self) -> None:
        """Read all namespaces again, as they may have changed without an event."""
        self.namespace_changes += 1
        self._names = LabelIndex()
        self._name_of: list[str] = []
        self._number_of: dict[str, int] = {}
        self.meant: dict[LabelSelector, frozenset[str]] = {}
        """The namespaces that each selector selects."""
        self._names_meant = 0
        for name in self._namespaces:
            self._number_namespace(name)

    def namespace_changed(self, name: str) -> None:
        """Note that a namespace came, got other labels, or went."""
        self.namespace_changes += 1
        self.meant.clear()
        self._names_meant = 0
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
        """Return the namespaces that a term means; None: all."""
        selector = term.namespace_selector
        if selector.nothing:
            return term.namespaces
        if selector.is_everything:
            return None
        meant = self.meant.get(selector)
        if meant is None:
            meant = self._namespaces_with(selector)
            self._names_meant += len(meant)
            if len(self.meant) >= DEAD or self._names_meant > _NAMES:
                self.meant.clear()
                self._names_meant = len(meant)
            self.meant[selector] = meant
        return meant | term.namespaces if term.namespaces else meant

    def _namespaces_with(self, selector: LabelSelector) -> frozenset[str]:
        conditions = selector.conditions
        if conditions is None:
            return frozenset()
        found = self._names.select(conditions)
        numbers = found if isinstance(found, list) else np.flatnonzero(found).tolist()
        return frozenset(self._name_of[number] for number in numbers)

    def _of(self, pod: Pod) -> PodClass:
        """Return the class of a placed pod, and make it if it is the first. Pods of one template share their labels."""
        shared = (pod.namespace, id(pod.labels), pod.terminating)
        at_hand = self._at_hand.get(shared)
        if at_hand is not None and not at_hand[1].gone:
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
        self.born.touch(number)
        return found

    def _end(self, idle: PodClass) -> None:
        del self._idle[idle.number]
        del self._by_key[idle.key]
        self._classes[idle.number] = None
        idle.gone = True
        self._index.remove(idle.number)
        if len(self._index.dead) > DEAD + self._index.alive:
            self._index.reuse()
            self.numbering += 1


class Members(KeptResult[set[int]]):
    """The classes that terms select, each with a weight.

    `amounts`: what each term adds for the classes that it selects; None: a class that all terms select counts once.
    `leaving`: whether terminating pods count.
    """

    def __init__(self, terms: Terms, amounts: Sequence[int] | None, *, leaving: bool = True) -> None:
        self.terms = terms
        self.weights = Weights()
        self._amounts = amounts
        self._leaving = leaving
        self._by_namespace = any(not term.namespace_selector.nothing for term in terms)
        self.size = sum(_OF_A_TERM + _OF_A_VALUE * term.selector.size for term in terms)
        """The approximate bytes that the terms take."""

    @property
    def once(self) -> bool:
        """Return whether a class counts once, or not at all."""
        return self._amounts is None

    def follow(self, pods: PodClasses) -> None:
        """Bring the weights up to date."""
        self.renew((pods.numbering, pods.namespace_changes if self._by_namespace else 0), pods.born, pods)

    def changes(self, log: ChangeLog[int], asked: Any) -> set[int] | None:
        """Return the classes that came, if they are few; None: too many."""
        came = log.since(self.version)
        return None if came is None or len(came) > _ONE_BY_ONE else came

    def apply(self, changes: set[int], asked: Any) -> None:
        """Compare new classes with the terms."""
        pods: PodClasses = asked
        for number in changes:
            found = pods.get(number)
            self.weights.set(number, 0 if found is None else self._weight(found, pods))

    def compute(self, asked: Any) -> None:
        """Match all terms."""
        pods: PodClasses = asked
        self.weights = weights = Weights()
        for i, term in enumerate(self.terms):
            found = pods.matching(term, leaving=self._leaving)
            if self._amounts is not None:
                weights.add(found, self._amounts[i])
            elif i:
                weights.keep(found)
            else:
                weights.add(found, 1)
        weights.settle()

    def _weight(self, of: PodClass, pods: PodClasses) -> int:
        if of.terminating and not self._leaving:
            return 0
        selects = [pods.selects(term, of.namespace, of.labels) for term in self.terms]
        if self._amounts is None:
            return int(all(selects))
        return sum(amount for amount, selected in zip(self._amounts, selects, strict=True) if selected)


class Selected(ByTopology, KeptResult[list[Moved]]):
    """The placed pods that terms select, summed per topology value; each counts once or with the amounts of its
    terms.
    """

    def __init__(self, members: Members, topology_key: str) -> None:
        super().__init__(None, np.int32 if members.once else np.int64)
        self.topology_key = topology_key
        self._members = members

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""
        return self.counts.nbytes + self._members.weights.size + self._members.size

    def of_class(self, number: int) -> int:
        """Return the weight of a placed pod of this class."""
        return self._members.weights.get(number)

    def follow(self, pods: PodClasses, nodes: Nodes) -> None:
        """Bring the sums up to date."""
        column = nodes.topology(self.topology_key)
        if column is None:
            if self.column is not None:
                self.start(None)
            self.basis = None
            return
        self._members.follow(pods)
        relabelled = pods.relabelled.get(self.topology_key, 0)
        self.renew((self._members.computed, column, relabelled), pods.placed, (pods.placed, column))

    def changes(self, log: RowCounts, asked: Any) -> list[Moved] | None:
        """Return the pods that came and went; None if computing anew costs less."""
        return self._members.weights.since(log, self.version) if log.worth_following(self.version) else None

    def apply(self, changes: list[Moved], asked: Any) -> None:
        """Count what came and went."""
        for row, amount, weight in changes:
            self.count(row, amount, weight)

    def compute(self, asked: Any) -> None:
        """Add up all pods."""
        counts, column = asked
        self.start(column)
        placed, weights = self._members.weights.weighed(counts)
        there = (weights != 0) & (column.codes[placed.rows] >= 0)
        if not there.all():
            placed, weights = placed.at(there), weights[there]
        self.add_all(placed.rows, placed.counts * weights, int(placed.counts.sum()))


class OnRows(KeptResult[list[Moved]]):
    """The number of placed pods that a selector selects, by node row.

    `namespace`: where they are; None: anywhere.
    """

    def __init__(self, namespace: str | None, selector: LabelSelector, leaving: bool) -> None:
        where = (frozenset[str](), EVERYTHING) if namespace is None else (frozenset((namespace,)), NOTHING)
        term = AffinityTerm(selector, *where, "")
        self._members = Members((term,), None, leaving=leaving)
        self.counts: Ints = np.zeros(64, dtype=np.int64)
        self.log: ChangeLog[tuple[int, int]] = ChangeLog(kept=row_counts.REMEMBERED)
        """(row, amount) of what changed."""

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""
        return self.counts.nbytes + self._members.weights.size + self._members.size + _OF_A_CHANGE * self.log.remembered

    def by_row(self, rows: int) -> Ints:
        """Return int64[rows]; do not change it."""
        self._grow(rows)
        return self.counts[:rows]

    def follow(self, pods: PodClasses) -> None:
        """Bring the counts up to date."""
        self._members.follow(pods)
        self.renew((self._members.computed,), pods.placed, pods.placed)

    def changes(self, log: RowCounts, asked: Any) -> list[Moved] | None:
        """Return the pods that came and went; None if computing anew costs less."""
        return self._members.weights.since(log, self.version) if log.worth_following(self.version) else None

    def apply(self, changes: list[Moved], asked: Any) -> None:
        """Count what came and went."""
        for row, amount, _ in changes:
            self._grow(row + 1)
            self.counts[row] += amount
            self.log.touch((row, amount))

    def compute(self, asked: Any) -> None:
        """Add up all pods."""
        counts: RowCounts = asked
        placed, weights = self._members.weights.weighed(counts)
        by_row = np.bincount(placed.rows, weights=placed.counts * weights, minlength=len(self.counts))
        self.counts = by_row.astype(np.int64)
        self.log.begin_again()

    def _grow(self, rows: int) -> None:
        if rows > len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(rows, dtype=np.int64)))
