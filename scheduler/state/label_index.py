"""Things with labels, by number: finds those that a selector selects without a look at each of them.

Numbers are kept by label key and, for keys that a selector has asked about, by value. The cost of a selector depends on
its keys and values and on how many things it selects, not on how many things there are. A selector that excludes a few
values and selects all the rest costs one pass over an array of bits.

A thing with hundreds of labels is kept by those of its keys alone that a selector has asked about: a tenant may write
100,000 in one turn, or thousands of things with 4,000 each, and few of these keys ever matter. A selector of many
conditions is held against such things one by one, in parts.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeAlias

import numpy as np

from scheduler.model.conditions import WITHOUT, Condition, Kind, hold
from scheduler.model.many_labels import MANY
from scheduler.state.column import Bools
from scheduler.state.per_node import Bounded

FEW = 64
"""Up to this many candidates are looked at one by one; with more of them, bits cost less."""
_VALUES_KEPT = 256
"""Label keys whose numbers are kept by value."""
_OLDEST = 32
KEYS_LEARNT = 1024
"""Label keys by which things with many labels are kept."""
EACH = 16
"""A selector of more conditions is held against things with many labels one by one."""
PART = 250
"""Steps between two charges."""

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
        self._large: dict[int, int] = {}
        """Things with many labels: number → the place in `_coming`."""
        self._coming: list[int] = []
        """Their numbers in the order in which they came, those of removed ones included."""
        self._learnt: dict[str, int] = {}
        """Label key → how many of `_coming` are kept by it, the key that was learnt first at the start."""
        self._looked: tuple[tuple[Condition, ...], frozenset[str] | None, list[bool]] | None = None
        """Conditions and places that are being held against `_coming`, and what came of that so far."""
        self._there: Bools = np.zeros(64, dtype=np.bool_)
        self._all: Bools | None = None
        self._free: list[int] = []
        self.dead: list[int] = []
        """Numbers of removed things, which sums may still refer to."""
        self._steps = 0
        """Microseconds, about, that looking things up took since `cost` was asked."""

    def __len__(self) -> int:
        """How many numbers there are, those that were removed included."""
        return len(self._labels)

    @property
    def alive(self) -> int:
        """How many things there are."""
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
        if len(labels) > MANY:
            self._large[number] = len(self._coming)
            self._coming.append(number)
            return number
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
        at = self._large.pop(number, None)
        learnt = labels if at is None else [key for key, upto in self._learnt.items() if upto > at and key in labels]
        for key in learnt:
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
        there = sorted(self._large.values())
        self._learnt = {key: bisect_left(there, upto) for key, upto in self._learnt.items()}
        self._coming = [self._coming[at] for at in there]
        self._large = {number: at for at, number in enumerate(self._coming)}
        self._looked = None

    def select(
        self,
        conditions: Iterable[Condition],
        places: frozenset[str] | None = None,
        meets: Callable[[Mapping[str, str]], bool] | None = None,
        charge: Callable[[int], None] | None = None,
    ) -> Found:
        """The things in these places (None: in all) for which all conditions hold. `meets`: says so at once of one.

        `charge` is told the steps of each part of what takes long. What it raises comes out here; asked again for the
        same conditions, the next part follows. None: it is done at once.
        """
        conditions = tuple(conditions)
        few = len(conditions) <= EACH or not self._coming
        if places is None and few and not any(self._excludes(condition) for condition in conditions):
            return self.everything()
        candidates = self._candidates(conditions, places)
        if candidates is None:
            return self._bits(conditions, places, None if few else self._held(conditions, places, meets, charge))
        labels, there = self._labels, self._places
        return [
            number
            for number in candidates
            if (of := labels[number]) is not None
            and (places is None or there[number] in places)
            and (hold(conditions, of) if meets is None else meets(of))
        ]

    def everything(self) -> Bools:
        """A bit for each number: whether there is such a thing. The same array until something comes or goes."""
        if self._all is None:
            self._all = self._there[: len(self._labels)].copy()
            self._all.flags.writeable = False
            self._steps += len(self._labels) // 1000
        return self._all

    def _excludes(self, condition: Condition) -> bool:
        """Whether a condition may not hold for something that is there."""
        return condition.kind not in WITHOUT or bool(self._numbers(condition.key))

    def cost(self, conditions: int, values: int, found: Found) -> int:
        """About how many microseconds the last selection took, by so many conditions with so many values."""
        steps, self._steps = self._steps, 0
        steps += 3 + conditions // 2 + values // 8
        return steps + (len(found) if isinstance(found, list) else 10)

    def _candidates(self, conditions: tuple[Condition, ...], places: frozenset[str] | None) -> list[int] | None:
        """All things that may be selected, if they are few; some may be there twice over, or be gone."""
        if places is not None:
            found = self._few(self._in_place, places)
            if found is not None:
                return found
        for condition in islice(conditions, EACH if self._coming else None):
            if condition.kind is Kind.PRESENT:
                numbers = self._numbers(condition.key)
                found = list(numbers) if len(numbers) <= FEW else None
            elif condition.kind is Kind.IN:
                numbers = self._numbers(condition.key)
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

    def _bits(self, conditions: tuple[Condition, ...], places: frozenset[str] | None, held: list[bool] | None) -> Bools:
        """`held`: whether the conditions hold for each of `_coming`, if that was found one by one."""
        count = len(self._labels)
        bits: Bools = self._there[:count].copy()
        self._steps += count // 1000
        if places is not None:
            bits &= self._marked(self._in_place, places, count)
        for condition in conditions:
            key = condition.key
            if held is None:
                self._numbers(key)
            match condition.kind:
                case Kind.IN:
                    bits &= self._marked(self._values(key), condition.values, count)
                case Kind.ABSENT if key in self._with_key:
                    bits &= ~self._marked(self._with_key, (key,), count)
                case Kind.PRESENT:
                    bits &= self._marked(self._with_key, (key,), count)
            if condition.kind in (Kind.PRESENT, Kind.NOT_IN) and condition.values and key in self._with_key:
                bits &= ~self._marked(self._values(key), condition.values, count)
        if held is not None:
            coming = np.array(self._coming, dtype=np.int32)
            bits[coming] = self._there[coming] & held  # some may have gone since they were looked at
        return bits

    def _held(
        self,
        conditions: tuple[Condition, ...],
        places: frozenset[str] | None,
        meets: Callable[[Mapping[str, str]], bool] | None,
        charge: Callable[[int], None] | None,
    ) -> list[bool]:
        """Whether the conditions hold for each of `_coming`, and it is in one of the places."""
        looked = self._looked
        held = looked[2] if looked is not None and looked[0] is conditions and looked[1] == places else []
        self._looked = conditions, places, held
        steps = 0
        for number in self._coming[len(held) :]:
            labels = self._labels[number]
            steps += 1
            if labels is None or not (places is None or self._places[number] in places):
                held.append(False)
            else:
                held.append(hold(conditions, labels) if meets is None else meets(labels))
                steps += min(len(conditions), len(labels)) // 8
            if steps >= PART and charge is not None:
                charge(steps)
                steps = 0
        self._steps += steps
        self._looked = None
        return held

    def _numbers(self, key: str) -> "Numbers | tuple[()]":
        """The numbers of all things with a key. Which of those with many labels have it is learnt when one asks."""
        coming, upto = self._coming, self._learnt.get(key, 0)
        if upto < len(coming):
            if not upto and len(self._learnt) >= KEYS_LEARNT:
                self._unlearn(next(iter(self._learnt)))
            for number in coming[upto:]:
                labels = self._labels[number]
                if labels is not None and key in labels:
                    append_to(self._with_key, key, number)
            self._learnt[key] = len(coming)
            self._steps += (len(coming) - upto) // 8
        return self._with_key.get(key, ())

    def _unlearn(self, key: str) -> None:
        """Have things with many labels not kept by a key any more."""
        del self._learnt[key]
        numbers = self._with_key.pop(key, None)
        if numbers is None:
            return
        self._by_value.pop(key, None)
        self._steps += len(numbers) // 8
        kept = array("i", [number for number in numbers if self._there[number] and number not in self._large])
        if kept:
            self._with_key[key] = kept

    def _marked(self, lists: Mapping[str, Numbers], wanted: Iterable[str], count: int) -> Bools:
        marked = np.zeros(count, dtype=np.bool_)
        held = [numbers for one in wanted if (numbers := lists.get(one))]
        self._steps += count // 1000 + len(held) // 4
        if held:
            which = np.frombuffer(b"".join(held) if len(held) > 1 else held[0], dtype=np.int32)
            marked[which] = True
            self._steps += 2 + len(which) // 300
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
        self._steps += (len(numbers) - kept.known) // 2
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
