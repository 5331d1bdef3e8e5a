"""Things with labels, by number: finds those that a selector selects without a look at each of them.

Numbers are kept by label key and, for keys that a selector has asked about, by value. The cost of a selector depends on
its keys and values and on how many things it selects, not on how many things there are. A selector that excludes a few
values and selects all the rest costs one pass over an array of bits.
"""

from array import array
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TypeAlias

import numpy as np

from podberth.cache.column import Bools
from podberth.cache.kept_results import Bounded
from podberth.model.conditions import WITHOUT, Condition, Kind, hold

FEW = 64
"""Up to this many candidates are looked at one by one; with more of them, bits cost less."""
_VALUES_KEPT = 256
"""Label keys whose numbers are kept by value."""
_OLDEST = 32
Numbers: TypeAlias = "array[int]"
Found = list[int] | Bools
"""The numbers themselves, or a bit for each number that there is."""


class LabelIndex:
    """Each thing has labels and a place (a namespace). Numbers are used again only after `reuse`."""

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
        """Return how many numbers there are, those that were removed included."""
        return len(self._labels)

    @property
    def alive(self) -> int:
        """Return how many things there are."""
        return len(self._labels) - len(self.dead) - len(self._free)

    def add(self, labels: Mapping[str, str], place: str = "") -> int:
        """Number a thing."""
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
        """The things in these places (None: in all) for which all conditions hold."""
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
        """A bit for each number: whether there is such a thing. The same array until something comes or goes."""
        if self._all is None:
            self._all = self._there[: len(self._labels)].copy()
            self._all.flags.writeable = False
        return self._all

    def _excludes(self, condition: Condition) -> bool:
        """Return whether a condition may not hold for something that is there."""
        return condition.kind not in WITHOUT or bool(self._with_key.get(condition.key))

    def _candidates(self, conditions: tuple[Condition, ...], places: frozenset[str] | None) -> list[int] | None:
        """All things that may be selected, if they are few; some may be there twice over, or be gone."""
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
        """The numbers of things with a key, by its value."""
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
        """Of the keys that were not asked about for longest, drop the one that is soonest learnt again.

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
        """How many of the numbers with the key are in the lists."""


def append_to(lists: dict[str, Numbers], key: str, number: int) -> None:
    numbers = lists.get(key)
    if numbers is None:
        lists[key] = array("i", (number,))
    else:
        numbers.append(number)


def _drop(lists: dict[str, Numbers], key: str, number: int) -> bool:
    """Take a number out of a short list; in a long one it costs too much. Whether it was."""
    numbers = lists[key]
    if len(numbers) > FEW:
        return False
    numbers.remove(number)
    if not numbers:
        del lists[key]
    return True
