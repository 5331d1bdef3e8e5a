"""The disruption budgets of one namespace, and which of them match a set of labels.

Most selectors name a label that a pod must have, so that few of them are looked at for a pod. One that only bars labels
matches nearly every pod: it is known by what it bars, and no pod is held against it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.model.namespaced import SelectingObject
from scheduler.model.selectors import LabelSelector
from scheduler.state.effort import Effort

FEW = 24
"""In a namespace with up to so many budgets, plain integers are quicker than arrays."""
_REMEMBERED = 1 << 22
"""How many pairs of label sets and budgets are remembered of one namespace."""
_TOGETHER = 512
"""How many requirements are looked at between two charges."""
_VALUES = 64
"""A selector that only bars labels is kept by what it bars, if that is no more than this: a change must not be dear."""
_A_STEP = 2
"""How many budgets that only bar labels are a step, with what is drawn on them later."""
_NEVER_OVERDRAWN = 1 << 60
"""What a budget that went allows."""


class Match:
    """The budgets that match one set of labels, as far as they were looked at."""

    __slots__ = ("found", "labels", "maybe", "numbers", "unbarred", "upto")

    def __init__(self, labels: Mapping[str, str], maybe: list[int], upto: int) -> None:
        self.labels = labels
        """Kept, so that its identity stays what it is."""
        self.maybe = maybe
        """Budgets still to look at, the next one last."""
        self.upto = upto
        """Budgets from this number on are not among them yet."""
        self.unbarred = 0
        """Budgets that only bar labels, from this number on, are not among them yet."""
        self.found: list[int] = []
        self.numbers: NDArray[np.intp] | None = None
        """`found` as an array, once it is wanted."""


class NamespaceBudgets:
    """The budgets of one namespace, each with a number, by what of its labels a pod must have to be matched."""

    def __init__(self, names: Iterable[str]) -> None:
        self.budgets: list[SelectingObject] = []
        self.allowed: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self.disrupting: set[int] = set()
        """Budgets that have accounted for somebody's eviction already."""
        self.version = 0
        """Another one after each change."""
        self.looked = 0
        """How often a budget was held against a set of labels."""
        self._coming = list(names)
        self._coming.reverse()
        self._number: dict[str, int] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._by_key: dict[str, list[int]] = {}
        self._others: list[int] = []
        self._asked: list[int] = []
        """All that have to be held against labels, and here are those that match whatever they do not bar."""
        self._barring: list[int] = []
        self._bars_label: dict[tuple[str, str], list[int]] = {}
        self._bars_key: dict[str, list[int]] = {}
        self._matches: dict[int, Match] = {}
        self._remembered = 0

    def read(self, budgets: Mapping[str, SelectingObject], effort: Effort) -> None:
        """Read those that were named at first; goes on where it was interrupted."""
        while self._coming:
            steps = 0
            while self._coming and steps < _TOGETHER:
                budget = budgets.get(self._coming.pop())
                steps += 1 if budget is None else self.put(budget)
            effort.charge(steps)

    @property
    def worn(self) -> bool:
        """Whether most numbers stand for budgets that went: better read anew."""
        return len(self.budgets) > 2 * len(self._number) + FEW

    def put(self, budget: SelectingObject) -> int:
        """Add or update one; returns the steps that it took."""
        self.version += 1
        number = self._number.get(budget.name)
        if number is not None and self.budgets[number].selector == budget.selector:
            self._write(number, budget)
            return 1
        self.drop(budget.name)
        selector = budget.selector
        if selector.nothing or selector.is_everything:
            return 1
        number = self._number[budget.name] = len(self.budgets)
        self.budgets.append(budget)
        if number == len(self.allowed):
            self.allowed = np.concatenate((self.allowed, np.zeros_like(self.allowed)))
        self._write(number, budget)
        if (values := _barred_by(selector)) <= _VALUES:
            self._barring.append(number)
            for requirement in selector.requirements:
                for value in requirement.values:
                    self._bars_label.setdefault((requirement.key, value), []).append(number)
                if not requirement.values:
                    self._bars_key.setdefault(requirement.key, []).append(number)
            return 2 + values // 4
        self._asked.append(number)
        named = [r for r in selector.requirements if r.operator == "In"]
        if named:
            fewest = min(named, key=lambda r: len(r.values))
            for value in fewest.values:
                self._by_label.setdefault((fewest.key, value), []).append(number)
            return 2 + len(fewest.values)
        key = next((r.key for r in selector.requirements if r.operator == "Exists"), None)
        (self._others if key is None else self._by_key.setdefault(key, [])).append(number)
        return 2

    def drop(self, name: str) -> None:
        """Remove one, if it is there. Its number stays in use, as a budget that is never overdrawn."""
        self.version += 1
        number = self._number.pop(name, None)
        if number is not None:
            self.allowed[number] = _NEVER_OVERDRAWN
            self.disrupting.discard(number)

    def _write(self, number: int, budget: SelectingObject) -> None:
        self.budgets[number] = budget
        self.allowed[number] = budget.allowed
        (self.disrupting.add if budget.disrupted else self.disrupting.discard)(number)

    def matching(self, labels: Mapping[str, str], effort: Effort) -> Match:
        """The budgets that match a set of labels, in their order."""
        match = self._matches.get(id(labels))
        if match is None or match.labels is not labels:
            maybe = list(self._others)
            for pair in labels.items():
                maybe += self._by_label.get(pair, ())
                maybe += self._by_key.get(pair[0], ())
            maybe.sort(reverse=True)
            most = len(maybe) + len(self._barring)
            if self._remembered + most > _REMEMBERED:
                self._matches.clear()
                self._remembered = 0
            self._remembered += most + 1
            match = self._matches[id(labels)] = Match(labels, maybe, len(self.budgets))
        if match.upto < len(self.budgets):
            match.maybe[:0] = reversed(self._asked[bisect_left(self._asked, match.upto) :])
            match.upto = len(self.budgets)
        while match.maybe:
            self._look(match, effort)
        if match.unbarred < len(self.budgets):
            self._add_unbarred(match, effort)
        return match

    def _add_unbarred(self, match: Match, effort: Effort) -> None:
        """Add the budgets that only bar labels, and none of these: all of them at once, without asking each."""
        more = self._barring[bisect_left(self._barring, match.unbarred) :]
        match.unbarred = len(self.budgets)
        steps = 4 + len(match.found) // 16 + len(more) // _A_STEP
        barred = set[int]()
        for pair in match.labels.items() if more else ():
            for numbers in (self._bars_label.get(pair), self._bars_key.get(pair[0])):
                if numbers:
                    barred.update(numbers)
                    steps += len(numbers) // _A_STEP
        match.found += [number for number in more if number not in barred] if barred else more
        match.found.sort()  # of two runs that are sorted
        match.numbers = None
        effort.charge(steps)

    def _look(self, match: Match, effort: Effort) -> None:
        labels, budgets, maybe = match.labels, self.budgets, match.maybe
        match.numbers = None
        steps = 0
        while maybe and steps < _TOGETHER:
            selector = budgets[maybe[-1]].selector
            if selector.matches(labels):
                match.found.append(maybe[-1])
            maybe.pop()
            steps += 1 + len(selector.requirements)
            self.looked += 1
        effort.charge(steps // 2)


def _barred_by(selector: LabelSelector) -> int:
    """How many labels a selector bars that matches everything else; more than are kept, if it asks for anything."""
    values = 0
    for requirement in selector.requirements:
        if requirement.operator not in ("NotIn", "DoesNotExist"):
            return _VALUES + 1
        values += len(requirement.values) or 1
        if values > _VALUES:
            break
    return values
