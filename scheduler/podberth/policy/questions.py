"""Questions about every object of a space at once, as clauses for `podberth.policy.solver`.

The facts: which value an object x has on each key, which rules match x, and which match f(x) (the object after one
pass). All follow from the first, so only those are ever guessed. A question is a list of such facts wished for; the
answer is an object, or the certainty that there is none.

Every fact is told by as many literals as the policies use words for it: what a key's value is among costs what is
listed, and who is the last to write a key is a chain along its writers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from podberth.policy.solver import ExhaustedError, Literal, Solver
from podberth.policy.space import AXIS, Among, Axis, Box, Space, Value
from podberth.policy.spec import Rule

_LENGTH = 16
"""The number of characters of an example that count as a step, and of those added to each key beside its value."""
FactOf = Callable[[Axis, Among], Literal]
Reach = tuple[frozenset[int], ...]
"""The sets of axes, by number, that a fact depends on; facts share these sets."""


class _Written(NamedTuple):
    """The writes to one axis. `untouched`: no rule that writes it matches; `last`: value → fact that it is written
    last.
    """

    untouched: Literal
    last: Mapping[str, Literal]
    reach: frozenset[int]


class Questions:
    """The facts about one space. Each is made when a question first needs it."""

    def __init__(self, space: Space, total: int, each: int) -> None:
        self.space = space
        self.solver = Solver(total, each)
        self._before: dict[Axis, dict[Value, Literal]] = {}
        self._axes: list[tuple[Axis, Literal]] = []
        """Number of the solver's group → the axis, and the first of its facts."""
        self._number: dict[Axis, int] = {}
        self._reach: dict[int, Reach] = {}
        """Variable → reach, for facts that are no value of an axis."""
        self._sets: dict[frozenset[int], frozenset[int]] = {}
        self._among: dict[tuple[Axis, frozenset[Value]], Literal] = {}
        self._among_after: dict[tuple[Axis, frozenset[Value]], Literal] = {}
        self._written: dict[Axis, _Written] = {}
        self._matches: dict[int, Literal] = {}
        self._matches_after: dict[int, Literal] = {}
        self._none: dict[bool, Literal] = {}
        try:
            self._true = self.solver.fact()
            self.solver.add([self._true])
            for axis, values in space.values.items():
                self.solver.keep(AXIS)
                facts = self.solver.one_of(len(values))
                self._before[axis] = dict(zip(values, facts, strict=True))
                self._number[axis] = len(self._axes)
                self._axes.append((axis, facts[0]))
        except ExhaustedError:
            pass  # every question says so

    def ask(self, *wishes: Literal | Iterable[Literal]) -> dict[str, Any] | None:
        """Return an object for which all wishes hold, or None when there is none.

        Raises TooComplexError.
        """
        wanted = [w for wish in wishes for w in ([wish] if isinstance(wish, int) else wish)]
        axes = self._axes_of(wanted)
        if not self.solver.solve(wanted, axes):
            return None
        chosen: dict[Axis, Value] = {}
        length = 0
        for number in sorted(axes):
            axis, first = self._axes[number]
            choice = self.solver.choice(number)
            value = None if choice is None else self.space.values[axis][(choice - first) >> 1]
            if value is not None:
                chosen[axis] = value
                length += _LENGTH + len(value)
        self.solver.owe(len(axes) + length // _LENGTH)
        return self.space.example(chosen)

    @property
    def exhausted(self) -> bool:
        """Return whether no further question will be answered."""
        return self.solver.exhausted

    @property
    def accepted(self) -> Literal:
        """The fact that no rule rejects x."""
        return self._nobody_rejects(self.matches, after=False)

    @property
    def accepted_after(self) -> Literal:
        """The fact that no rule rejects f(x)."""
        return self._nobody_rejects(self.matches_after, after=True)

    def matches(self, rule: Rule) -> Literal:
        """Return the fact that the rule matches x (only for rules that can match)."""
        found = self._matches.get(id(rule))
        if found is None:
            box = self.space.boxes[id(rule)]
            found = self._matches[id(rule)] = self._inside(box, self.among)
            self._follows(found, (self._numbers(box),))
        return found

    def matches_after(self, rule: Rule) -> Literal:
        """Return the fact that the rule matches f(x)."""
        found = self._matches_after.get(id(rule))
        if found is None:
            box = self.space.boxes[id(rule)]
            found = self._matches_after[id(rule)] = self._inside(box, self.among_after)
            fates = (self._fate(axis).reach for axis in box if axis in self.space.writers)
            self._follows(found, (self._numbers(box), *fates))
        return found

    def none_of(self, rules: Iterable[Rule]) -> list[Literal]:
        """Return the facts that these rules don't match x."""
        return [self.matches(rule) ^ 1 for rule in rules if self.space.can_match(rule)]

    def none_of_after(self, rules: Iterable[Rule]) -> list[Literal]:
        """Return the facts that these rules don't match f(x)."""
        return [self.matches_after(rule) ^ 1 for rule in rules if self.space.can_match(rule)]

    def inside(self, box: Box) -> list[Literal]:
        """Return the facts which together say that x is in this box."""
        return [self.among(axis, values) for axis, values in box.items()]

    def among(self, axis: Axis, among: Among) -> Literal:
        """Return the fact that x has one of these values on the axis."""
        self._check()
        key = axis, among.values
        found = self._among.get(key)
        if found is None:
            facts = self._before[axis]
            found = self._among[key] = self._any(facts[value] for value in among.values if value in facts)
            self._follows(found, (self._numbers((axis,)),))
        return found ^ among.all_but

    def among_after(self, axis: Axis, among: Among) -> Literal:
        """Return the fact that f(x) has one of these values on the axis: an old one that stays, or the one that is
        written last.
        """
        if axis not in self.space.writers:
            return self.among(axis, among)
        key = axis, among.values
        found = self._among_after.get(key)
        if found is None:
            written = self._fate(axis)
            now = [written.last[value] for value in among.values if value is not None and value in written.last]
            stays = self._all((written.untouched, self.among(axis, Among(among.values))))
            found = self._among_after[key] = self._any((stays, *now))
            self._follows(found, (self._numbers((axis,)), written.reach))
        return found ^ among.all_but

    def _fate(self, axis: Axis) -> _Written:
        """Return the facts about the last write to an axis: a chain from the last writer to the first."""
        found = self._written.get(axis)
        if found is None:
            last: dict[str, list[Literal]] = {}
            writers = self.space.writers[axis]
            untouched = self._true
            for writer in reversed(writers):
                match = self.matches(writer.rule)
                last.setdefault(writer.value, []).append(self._all((match, untouched)))
                untouched = self._all((match ^ 1, untouched))
            said = {value: self._any(facts) for value, facts in last.items()}
            reach = self._numbers({axis for writer in writers for axis in self.space.boxes[id(writer.rule)]})
            found = self._written[axis] = _Written(untouched, said, reach)
        return found

    def _inside(self, box: Box, fact_of: FactOf) -> Literal:
        """Return a fact that holds if and only if the object is in the box."""
        return self._all([fact_of(axis, among) for axis, among in box.items()])

    def _nobody_rejects(self, fact_of: Callable[[Rule], Literal], *, after: bool) -> Literal:
        found = self._none.get(after)
        if found is None:
            rejecting = [rule for rule in self.space.rules if rule.action.reject and self.space.can_match(rule)]
            facts = [fact_of(rule) for rule in rejecting]
            found = self._none[after] = self._any(facts) ^ 1
            self._follows(found, (frozenset(self._axes_of(facts)),))
        return found

    def _all(self, facts: Sequence[Literal]) -> Literal:
        """Return a fact that holds if and only if all of these do."""
        return self._any([fact ^ 1 for fact in facts]) ^ 1

    def _any(self, facts: Iterable[Literal]) -> Literal:
        """Return a fact that holds if and only if at least one of these does."""
        self._check()
        false = self._true ^ 1
        some = [fact for fact in dict.fromkeys(facts) if fact != false]
        if self._true in some:
            return self._true
        if len(some) < 2:
            return some[0] if some else false
        found = self.solver.fact()
        for fact in some:
            self.solver.add([found, fact ^ 1])
        self.solver.add([found ^ 1, *some])
        return found

    def _follows(self, fact: Literal, reach: Reach) -> None:
        """Note what a fact follows from, if it is one of its own."""
        if fact | 1 != self._true | 1 and self.solver.group(fact) is None:
            self._reach.setdefault(fact >> 1, reach)

    def _axes_of(self, facts: Iterable[Literal]) -> set[int]:
        """Return the axes that some facts follow from."""
        found: set[int] = set()
        joined: set[int] = set()
        for fact in facts:
            group = self.solver.group(fact)
            if group is not None:
                found.add(group)
            for axes in self._reach.get(fact >> 1, ()):
                if id(axes) not in joined:
                    joined.add(id(axes))
                    self.solver.owe(1 + len(axes))
                    found |= axes
        return found

    def _numbers(self, axes: Iterable[Axis]) -> frozenset[int]:
        """Return the axes' numbers; equal sets are one object."""
        numbers = frozenset(self._number[axis] for axis in axes)
        if numbers not in self._sets:
            self.solver.keep(len(numbers))
            self._sets[numbers] = numbers
        return self._sets[numbers]

    def _check(self) -> None:
        """Raise ExhaustedError if something was not built, for lack of room: it can't be asked about."""
        if self.exhausted:
            raise ExhaustedError
