"""Label selectors and affinity terms, by number: finds those that select some labels without a look at each of them.

The mirror image of `label_index`. A selector has one condition for each label key that it names. For some labels, lists
of the selectors that name a key or a value give the number of conditions that each selector has met; a selector with
all conditions met selects the labels. The cost depends on the labels, plus one pass over an array of small integers.
"""

from array import array
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from podberth.cache.column import Bools, Codes
from podberth.model.affinity import AffinityTerm
from podberth.model.conditions import WITHOUT, Condition, Kind
from podberth.model.selectors import LabelSelector

_NEVER = -1
"""A number of conditions that is never met."""
_PLACES_KEPT = 1024
SHORT = 64
"""A number is taken out of a list of this length; in a longer one it stays until numbers are used again."""
_MET_NO_MORE = 1 << 30
"""The conditions that hold for a selector that is gone: so many that it never has the number that it wants."""

Numbers: TypeAlias = "array[int]"


class SelectorIndex:
    """Selectors, numbered from 0. Numbers are used again only after `reuse`."""

    def __init__(self) -> None:
        self._asked: Codes = np.full(16, _NEVER, dtype=np.int32)
        """Conditions of each selector."""
        self._met: Codes = np.zeros(16, dtype=np.int32)
        """Conditions of each selector that hold for things without labels."""
        self._size = 0
        self._keys: dict[str, _Key] = {}
        self._long: dict[str, None] = {}
        """Label keys that have lists with numbers of selectors that are gone."""
        self._free: list[int] = []
        self.dead: list[int] = []

    def __len__(self) -> int:
        """Return how many numbers there are, those that were removed included."""
        return self._size

    @property
    def alive(self) -> int:
        """Return how many selectors there are."""
        return self._size - len(self.dead) - len(self._free)

    def add(self, selector: LabelSelector) -> int:
        """Number a selector."""
        number = self._next()
        conditions = selector.conditions
        if conditions is None:
            self._asked[number], self._met[number] = _NEVER, 0
            return number
        met = 0
        for condition in conditions:
            key = self._keys.get(condition.key)
            if key is None:
                key = self._keys[condition.key] = _Key()
            key.add(condition, number)
            met += condition.kind in WITHOUT
        self._asked[number], self._met[number] = len(conditions), met
        return number

    def remove(self, number: int, selector: LabelSelector) -> None:
        """Forget a selector; its number is not used for another one until `reuse`."""
        self._asked[number] = _NEVER
        self._met[number] = _MET_NO_MORE
        self.dead.append(number)
        for condition in selector.conditions or ():
            key = self._keys[condition.key]
            if not key.remove(condition, number):
                self._long[condition.key] = None
            elif not key.lists:
                del self._keys[condition.key]

    def reuse(self) -> None:
        """Give the numbers of selectors that were removed to new ones, now that nobody knows them any more."""
        gone = np.zeros(self._size, dtype=np.bool_)
        gone[self.dead] = True
        for name in self._long:
            key = self._keys[name]
            key.sweep(gone)
            if not key.lists:
                del self._keys[name]
        self._long = {}
        if self._free:
            self._free += self.dead
        else:
            self._free = self.dead
        self.dead = []

    def select(self, labels: Mapping[str, str]) -> Bools:
        """bool[len]: which selectors select these labels."""
        met = self._met[: self._size].copy()
        for key, value in labels.items():
            of_key = self._keys.get(key)
            if of_key is not None:
                for sign, numbers in of_key.changes(value):
                    met[np.frombuffer(numbers, dtype=np.int32)] += sign
        selected: Bools = met == self._asked[: self._size]
        return selected

    def _next(self) -> int:
        if self._free:
            return self._free.pop()
        number = self._size
        if number == len(self._asked):
            self._asked = np.concatenate((self._asked, np.full_like(self._asked, _NEVER)))
            self._met = np.concatenate((self._met, np.zeros_like(self._met)))
        self._size += 1
        return number


class _Key:
    """Selectors that name one label key: by what a label with that key, or with one value, changes for them."""

    __slots__ = ("lists",)

    def __init__(self) -> None:
        self.lists: dict[tuple[int, str | None], Numbers] = {}
        """(1 for a condition that is met thereby, -1 for one that is not any more; the value, None: any)."""

    def add(self, condition: Condition, number: int) -> None:
        lists = self.lists
        for change in _changes(condition):
            numbers = lists.get(change)
            if numbers is None:
                lists[change] = array("i", (number,))
            else:
                numbers.append(number)

    def remove(self, condition: Condition, number: int) -> bool:
        """Take a number out of short lists; whether it is in none any more."""
        out = True
        for change in _changes(condition):
            numbers = self.lists[change]
            if len(numbers) > SHORT:
                out = False
                continue
            numbers.remove(number)
            if not numbers:
                del self.lists[change]
        return out

    def sweep(self, gone: Bools) -> None:
        """Take the numbers of all selectors that are gone out of long lists."""
        for change, numbers in list(self.lists.items()):
            held = np.frombuffer(numbers, dtype=np.int32)
            kept = held[~gone[held]]
            if len(kept) < len(held):
                del held
                if len(kept):
                    self.lists[change] = array("i", kept.tobytes())
                else:
                    del self.lists[change]

    def changes(self, value: str) -> list[tuple[int, Numbers]]:
        """Return how many conditions more or less of which selectors are met by a label with this value."""
        found = []
        for change in ((1, None), (-1, None), (1, value), (-1, value)):
            numbers = self.lists.get(change)
            if numbers is not None:
                found.append((change[0], numbers))
        return found


def _changes(condition: Condition) -> list[tuple[int, str | None]]:
    match condition.kind:
        case Kind.IN:
            return [(1, value) for value in condition.values]
        case Kind.ABSENT:
            return [(-1, None)]
        case Kind.PRESENT:
            return [(1, None), *((-1, value) for value in condition.values)]
    return [(-1, value) for value in condition.values]


class TermIndex:
    """Affinity terms, numbered from 0: a selector of pods, and one of the places where they are."""

    def __init__(self) -> None:
        self._selectors = SelectorIndex()
        self._terms: list[AffinityTerm | None] = []
        self._spaces: Codes = np.zeros(16, dtype=np.int32)
        """The number of each term's namespaces."""
        self._numbers: dict[tuple[frozenset[str], LabelSelector], int] = {}
        self._users: dict[int, int] = {}
        """The number of some namespaces → how many terms have them."""
        self._came = 0
        """Counts namespaces that were numbered."""
        self._by_labels = SelectorIndex()
        self._by_name: dict[str, dict[int, None]] = {}
        self._known: dict[str, tuple[int, Mapping[str, str], Bools]] = {}

    def __len__(self) -> int:
        """Return how many numbers there are, those that were removed included."""
        return len(self._selectors)

    @property
    def alive(self) -> int:
        """Return how many terms there are."""
        return self._selectors.alive

    @property
    def places(self) -> int:
        """Return how many different namespaces and selectors of namespaces terms have."""
        return len(self._numbers)

    @property
    def dead(self) -> int:
        """Return how many numbers may still be known of terms that were removed."""
        return len(self._selectors.dead)

    def add(self, term: AffinityTerm) -> int:
        """Number a term."""
        number = self._selectors.add(term.selector)
        if number == len(self._terms):
            self._terms.append(term)
        else:
            self._terms[number] = term
        if number >= len(self._spaces):
            self._spaces = np.concatenate((self._spaces, np.zeros_like(self._spaces)))
        self._spaces[number] = self._space(term)
        return number

    def remove(self, number: int) -> None:
        """Forget a term; its number is not used for another one until `reuse`."""
        term = self._terms[number]
        assert term is not None
        self._terms[number] = None
        self._selectors.remove(number, term.selector)
        space = int(self._spaces[number])
        self._users[space] -= 1
        if not self._users[space]:
            self._forget_space(space, term)

    def reuse(self) -> None:
        """Give the numbers of terms that were removed to new ones, now that nobody knows them any more.

        It costs the same however many terms there are: what goes is taken out by `remove`.
        """
        self._selectors.reuse()
        self._by_labels.reuse()
        self._known.clear()

    def select(self, namespace: str, of_namespace: Mapping[str, str], labels: Mapping[str, str]) -> Bools:
        """bool[len]: which terms mean a pod with these labels there. `of_namespace`: the namespace's labels."""
        selected = self._selectors.select(labels)
        if selected.any():
            means = self._means(namespace, of_namespace)
            if not means.all():
                selected &= means[self._spaces[: len(selected)]]
        return selected

    def _space(self, term: AffinityTerm) -> int:
        key = (term.namespaces, term.namespace_selector)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._by_labels.add(term.namespace_selector)
            self._users[number] = 0
            self._came += 1
            for name in term.namespaces:
                self._by_name.setdefault(name, {})[number] = None
        self._users[number] += 1
        return number

    def _forget_space(self, number: int, term: AffinityTerm) -> None:
        """No term has these namespaces any more."""
        del self._users[number], self._numbers[term.namespaces, term.namespace_selector]
        self._by_labels.remove(number, term.namespace_selector)
        for name in term.namespaces:
            of_name = self._by_name[name]
            del of_name[number]
            if not of_name:
                del self._by_name[name]

    def _means(self, namespace: str, labels: Mapping[str, str]) -> Bools:
        """bool[spaces]: which of the terms' namespaces this one is among."""
        known = self._known.get(namespace)
        if known is None or known[0] != self._came or known[1] is not labels:
            means = self._by_labels.select(labels)
            means[list(self._by_name.get(namespace, ()))] = True
            if len(self._known) >= _PLACES_KEPT:
                self._known.clear()
            known = self._known[namespace] = (self._came, labels, means)
        return known[2]
