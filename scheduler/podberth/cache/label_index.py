"""Indexes by label: the things that a selector selects (`LabelIndex`), and the selectors that select a thing.

`LabelIndex` keeps numbers of things by label key and, for keys that a selector has asked about, by value. The cost of a
selector depends on its keys and values and on how many things it selects, not on how many things there are. A selector
that excludes a few values and selects all the rest costs one pass over an array of bits.

`SelectorIndex` is its mirror image. A selector has one condition for each label key that it names. For some labels,
lists of the selectors that name a key or a value give the number of conditions that each selector has met; a selector
with all conditions met selects the labels. `TermIndex` does that for affinity terms, and `Services` for Services.
"""

from array import array
from collections.abc import Hashable, Iterable, Mapping
from itertools import islice
from operator import attrgetter
from typing import TypeAlias, TypeVar

import numpy as np

from podberth.cache.column import Bools, Codes
from podberth.cache.kept_results import Bounded
from podberth.model.namespaced import SelectingObject
from podberth.model.selectors import WITHOUT, Condition, Kind, LabelSelector, hold
from podberth.model.terms import AffinityTerm

FEW = 64
"""Up to this many candidates are looked at one by one; with more of them, bits cost less."""
_VALUES_KEPT = 256
"""Label keys whose numbers are kept by value."""
_OLDEST = 32
Numbers: TypeAlias = "array[int]"
Key = TypeVar("Key", bound=Hashable)
Found = list[int] | Bools
"""The numbers themselves, or a bit for each number."""


class LabelIndex:
    """An index of things that have labels and a place (a namespace). Numbers are used again only after `reuse`."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str] | None] = []
        self._places: list[str] = []
        self._in_place: dict[str, Numbers] = {}
        self._with_key: dict[str, Numbers] = {}
        self._by_value: Bounded[str, _ByValue] = Bounded(_VALUES_KEPT)
        self._there: Bools = np.zeros(64, dtype=np.bool_)
        self._all: Bools | None = None
        self._free: list[int] = []
        self.dead: list[int] = []
        """Numbers of removed things, which sums may still refer to."""

    def __len__(self) -> int:
        """Return the number of numbers, those that were removed included."""
        return len(self._labels)

    @property
    def alive(self) -> int:
        """Return the number of things."""
        return len(self._labels) - len(self.dead) - len(self._free)

    def add(self, labels: Mapping[str, str], place: str = "") -> int:
        """Add a thing, and return its number."""
        if self._free:
            number = self._free.pop()
            self._labels[number], self._places[number] = labels, place
        else:
            number = len(self._labels)
            self._labels.append(labels)
            self._places.append(place)
            if number >= len(self._there):
                self._there = np.concatenate((self._there, np.zeros_like(self._there)))
        self._there[number] = True
        self._all = None
        append_to(self._in_place, place, number)
        for key in labels:
            append_to(self._with_key, key, number)
        return number

    def remove(self, number: int) -> None:
        """Remove a thing. Its number stays in long lists until `reuse`."""
        labels = self._labels[number]
        assert labels is not None
        self._labels[number] = None
        self._there[number] = False
        self._all = None
        self.dead.append(number)
        _drop(self._in_place, self._places[number], number)
        for key in labels:
            if _drop(self._with_key, key, number):
                self._by_value.pop(key, None)

    def reuse(self) -> None:
        """Use the numbers of removed things for new ones, now that nothing refers to them any more."""
        for lists in (self._in_place, self._with_key):
            for key, numbers in list(lists.items()):
                if len(numbers) > FEW:
                    held = np.frombuffer(numbers, dtype=np.int32)
                    kept = held[self._there[held]]
                    del held
                    lists[key] = array("i", kept.tobytes())
                    if not lists[key]:
                        del lists[key]
        self._by_value.clear()
        self._free += self.dead
        self.dead = []

    def select(self, conditions: Iterable[Condition], places: frozenset[str] | None = None) -> Found:
        """Return the things in these places (None: in all) for which all conditions hold."""
        conditions = tuple(conditions)
        if places is None and not any(self._excludes(condition) for condition in conditions):
            return self.everything()
        candidates = self._candidates(conditions, places)
        if candidates is None:
            return self._bits(conditions, places)
        labels, there = self._labels, self._places
        return [
            number
            for number in candidates
            if (of := labels[number]) is not None
            and (places is None or there[number] in places)
            and hold(conditions, of)
        ]

    def everything(self) -> Bools:
        """Return a bit for each number: whether there is such a thing. The array is the same until something comes or
        goes.
        """
        if self._all is None:
            self._all = self._there[: len(self._labels)].copy()
            self._all.flags.writeable = False
        return self._all

    def _excludes(self, condition: Condition) -> bool:
        """Return whether a condition may not hold for something that is there."""
        return condition.kind not in WITHOUT or bool(self._with_key.get(condition.key))

    def _candidates(self, conditions: tuple[Condition, ...], places: frozenset[str] | None) -> list[int] | None:
        """Return all things that may be selected, if they are few; some may be in it twice, or be gone."""
        if places is not None:
            found = self._few(self._in_place, places)
            if found is not None:
                return found
        for condition in conditions:
            if condition.kind is Kind.PRESENT:
                numbers = self._with_key.get(condition.key, ())
                found = list(numbers) if len(numbers) <= FEW else None
            elif condition.kind is Kind.IN:
                numbers = self._with_key.get(condition.key, ())
                if len(numbers) <= FEW:
                    found = list(numbers)
                else:
                    found = self._few(self._values(condition.key), condition.values)
            else:
                continue
            if found is not None:
                return found
        return None

    @staticmethod
    def _few(lists: Mapping[str, Numbers], wanted: Iterable[str]) -> list[int] | None:
        found: list[int] = []
        for one in wanted:
            found += lists.get(one, ())
            if len(found) > FEW:
                return None
        return found

    def _bits(self, conditions: tuple[Condition, ...], places: frozenset[str] | None) -> Bools:
        count = len(self._labels)
        bits: Bools = self._there[:count].copy()
        if places is not None:
            bits &= self._marked(self._in_place, places, count)
        for condition in conditions:
            key = condition.key
            match condition.kind:
                case Kind.IN:
                    bits &= self._marked(self._values(key), condition.values, count)
                case Kind.ABSENT if key in self._with_key:
                    bits &= ~self._marked(self._with_key, (key,), count)
                case Kind.PRESENT:
                    bits &= self._marked(self._with_key, (key,), count)
            if condition.kind in (Kind.PRESENT, Kind.NOT_IN) and condition.values and key in self._with_key:
                bits &= ~self._marked(self._values(key), condition.values, count)
        return bits

    def _marked(self, lists: Mapping[str, Numbers], wanted: Iterable[str], count: int) -> Bools:
        marked = np.zeros(count, dtype=np.bool_)
        held = [numbers for one in wanted if (numbers := lists.get(one))]
        if held:
            which = np.frombuffer(b"".join(held) if len(held) > 1 else held[0], dtype=np.int32)
            marked[which] = True
        return marked

    def _values(self, key: str) -> "dict[str, Numbers]":
        """Return the numbers of things with a key, by its value."""
        numbers = self._with_key.get(key)
        if numbers is None:
            return {}
        kept = self._by_value.recall(key)
        if kept is None:
            self._make_room()
            self._by_value.keep(key, kept := _ByValue())
        for number in numbers[kept.known :]:
            labels = self._labels[number]
            if labels is not None:
                append_to(kept.lists, labels[key], number)
        kept.known = len(numbers)
        return kept.lists

    def _make_room(self) -> None:
        """Drop one of the least recently used keys: the one that is built again soonest.

        A tenant may name hundreds of keys that its own pods have. Everybody else's are those that most things have.
        """
        kept = self._by_value
        if len(kept) >= _VALUES_KEPT:
            del kept[min(islice(kept, _OLDEST), key=lambda key: kept[key].known)]


class _ByValue:
    __slots__ = ("known", "lists")

    def __init__(self) -> None:
        self.lists: dict[str, Numbers] = {}
        self.known = 0
        """The number of things with the key that are in the lists."""


def append_to(lists: dict[Key, Numbers], key: Key, number: int) -> None:
    numbers = lists.get(key)
    if numbers is None:
        lists[key] = array("i", (number,))
    else:
        numbers.append(number)


def _drop(lists: dict[Key, Numbers], key: Key, number: int) -> bool:
    """Take a number out of a short list, and return whether it was; in a long one it costs too much."""
    numbers = lists[key]
    if len(numbers) > FEW:
        return False
    numbers.remove(number)
    if not numbers:
        del lists[key]
    return True


_NEVER = -1
"""A number of conditions that is never met."""
_PLACES_KEPT = 1024
_MET_NO_MORE = 1 << 30
"""A number of met conditions that no selector wants, for one that is gone."""


class SelectorIndex:
    """An index of selectors, numbered from 0. Numbers are used again only after `reuse`."""

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
        """Return the number of numbers, those that were removed included."""
        return self._size

    @property
    def alive(self) -> int:
        """Return the number of selectors."""
        return self._size - len(self.dead) - len(self._free)

    def add(self, selector: LabelSelector) -> int:
        """Add a selector, and return its number."""
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
        """Return bool[len]: which selectors select these labels."""
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
    """The selectors that name one label key, by how a label with that key, or with one value, changes their met
    conditions.
    """

    __slots__ = ("lists",)

    def __init__(self) -> None:
        self.lists: dict[tuple[int, str | None], Numbers] = {}
        """(1 for a condition that is met thereby, -1 for one that is not any more; the value, None: any)."""

    def add(self, condition: Condition, number: int) -> None:
        lists = self.lists
        for change in _changes(condition):
            append_to(lists, change, number)

    def remove(self, condition: Condition, number: int) -> bool:
        """Take a number out of short lists; return whether it is in no list any more."""
        out = True
        for change in _changes(condition):
            out &= _drop(self.lists, change, number)
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
        """Return (change of the number of met conditions, selectors that it applies to) for a label with this value."""
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
    """An index of affinity terms, numbered from 0: each has a selector of pods, and the namespaces of the pods."""

    def __init__(self) -> None:
        self._selectors = SelectorIndex()
        self._terms: list[AffinityTerm | None] = []
        self._spaces: Codes = np.zeros(16, dtype=np.int32)
        """The number of the namespaces of each term."""
        self._numbers: dict[tuple[frozenset[str], LabelSelector], int] = {}
        self._users: dict[int, int] = {}
        """Number of some namespaces → how many terms have them."""
        self._came = 0
        """Counts namespaces that were numbered."""
        self._by_labels = SelectorIndex()
        self._by_name: dict[str, dict[int, None]] = {}
        self._known: dict[str, tuple[int, Mapping[str, str], Bools]] = {}

    def __len__(self) -> int:
        """Return the number of numbers, those that were removed included."""
        return len(self._selectors)

    @property
    def alive(self) -> int:
        """Return the number of terms."""
        return self._selectors.alive

    @property
    def places(self) -> int:
        """Return the number of different namespaces and namespace selectors that terms have."""
        return len(self._numbers)

    @property
    def dead(self) -> int:
        """Return the number of removed terms whose numbers may still be in lists."""
        return len(self._selectors.dead)

    def add(self, term: AffinityTerm) -> int:
        """Add a term, and return its number."""
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
        """Return bool[len]: which terms select a pod with these labels in this namespace. `of_namespace`: its
        labels.
        """
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
        """Forget the namespaces of a term if no other term has them."""
        del self._users[number], self._numbers[term.namespaces, term.namespace_selector]
        self._by_labels.remove(number, term.namespace_selector)
        for name in term.namespaces:
            of_name = self._by_name[name]
            del of_name[number]
            if not of_name:
                del self._by_name[name]

    def _means(self, namespace: str, labels: Mapping[str, str]) -> Bools:
        """Return bool[spaces]: which of the terms' namespaces include this one."""
        known = self._known.get(namespace)
        if known is None or known[0] != self._came or known[1] is not labels:
            means = self._by_labels.select(labels)
            means[list(self._by_name.get(namespace, ()))] = True
            if len(self._known) >= _PLACES_KEPT:
                self._known.clear()
            known = self._known[namespace] = (self._came, labels, means)
        return known[2]


class Services:
    """An index of the Services of a cluster."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, _OfNamespace] = {}

    def put(self, service: SelectingObject) -> None:
        """Add or update a Service."""
        of = self._by_namespace.setdefault(service.namespace, _OfNamespace())
        of.drop(service.name)
        of.put(service)

    def drop(self, namespace: str, name: str) -> None:
        """Remove a Service."""
        of = self._by_namespace.get(namespace)
        if of is not None:
            of.drop(name)
            if not of.numbers:
                del self._by_namespace[namespace]

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> list[SelectingObject]:
        """Return the Services of a namespace that select pods with these labels, by name."""
        of = self._by_namespace.get(namespace)
        if of is None:
            return []
        found = [of.services[number] for number in of.index.select(labels).nonzero()[0].tolist()]
        return sorted(found, key=attrgetter("name"))


class _OfNamespace:
    __slots__ = ("index", "numbers", "services")

    def __init__(self) -> None:
        self.index = SelectorIndex()
        self.numbers: dict[str, int] = {}
        self.services: dict[int, SelectingObject] = {}

    def put(self, service: SelectingObject) -> None:
        number = self.numbers[service.name] = self.index.add(service.selector)
        self.services[number] = service

    def drop(self, name: str) -> None:
        number = self.numbers.pop(name, None)
        if number is not None:
            self.index.remove(number, self.services.pop(number).selector)
            if len(self.index.dead) > FEW:
                self.index.reuse()
