"""Questions about every object of a space at once, as clauses for `scheduler.policy.solver`.

The facts: which value an object x has on each key, which rules match x, which value f(x) (the object after one pass)
has on each key, and which rules match f(x). All follow from the first, so only those are ever guessed. A question is a
list of such facts wished for; the answer is an object, or the certainty that there is none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.policy.solver import Literal, Solver
from scheduler.policy.space import Axis, Box, Space, Value, Writer
from scheduler.policy.spec import Rule

Values = Mapping[Value, Literal]


class Questions:
    """One space's facts. Those about a second pass are made when first asked for."""

    def __init__(self, space: Space, total: int, each: int) -> None:
        self.space = space
        self.solver = Solver(total, each)
        self._before: dict[Axis, Values] = {}
        for axis, values in space.values.items():
            facts = self.solver.one_of(len(values), decided=True)
            self._before[axis] = dict(zip(values, facts, strict=True))
        self._matches: dict[int, Literal] = {}
        self._matches_after: dict[int, Literal] = {}
        self._after: dict[Axis, Values] = {}
        self._boxes: dict[int, tuple[Box, Literal]] = {}
        self.accepted = self.solver.fact()
        """No rule rejects x."""
        self.accepted_after = self.solver.fact()
        """No rule rejects f(x)."""
        self._some(self.accepted, self._rejecting(self.matches))

    def ask(self, *wishes: Literal | Iterable[Literal]) -> dict[str, Any] | None:
        """An object for which all wishes come true, or None when there is none.

        Raises TooComplexError.
        """
        wanted = [w for wish in wishes for w in ([wish] if isinstance(wish, int) else wish)]
        if not self.solver.solve(wanted):
            return None
        holds = self.solver.holds
        chosen = {axis: next(v for v, fact in facts.items() if holds(fact)) for axis, facts in self._before.items()}
        return self.space.example(chosen)

    def matches(self, rule: Rule) -> Literal:
        """The rule matches x (only for rules that can match)."""
        if id(rule) not in self._matches:
            self._matches[id(rule)] = self._inside(self.space.boxes[id(rule)], self._before)
        return self._matches[id(rule)]

    def matches_after(self, rule: Rule) -> Literal:
        """The rule matches f(x)."""
        if id(rule) not in self._matches_after:
            if not self._after:
                self._second_pass()
            if id(rule) not in self._matches_after:
                self._matches_after[id(rule)] = self._inside(self.space.boxes[id(rule)], self._after)
        return self._matches_after[id(rule)]

    def none_of(self, rules: Iterable[Rule]) -> list[Literal]:
        """No rule of these matches x."""
        return [self.matches(rule) ^ 1 for rule in rules if self.space.can_match(rule)]

    def none_of_after(self, rules: Iterable[Rule]) -> list[Literal]:
        """No rule of these matches f(x)."""
        return [self.matches_after(rule) ^ 1 for rule in rules if self.space.can_match(rule)]

    def among(self, axis: Axis, values: Iterable[Value]) -> list[Literal]:
        """x has one of these values."""
        return _not_others(self._before[axis], values)

    def among_after(self, axis: Axis, values: Iterable[Value]) -> list[Literal]:
        """f(x) has one of these values."""
        if not self._after:
            self._second_pass()
        return _not_others(self._after[axis], values)

    def inside(self, box: Box) -> list[Literal]:
        """x is in this box."""
        return [wish for axis, values in box.items() for wish in self.among(axis, values)]

    def _second_pass(self) -> None:
        for axis, before in self._before.items():
            writers = self.space.writers.get(axis)
            self._after[axis] = before if writers is None else self._written(before, writers)
        self._some(self.accepted_after, self._rejecting(self.matches_after))

    def _written(self, before: Values, writers: Sequence[Writer]) -> Values:
        """f(x) on one axis: what the last matching writer makes of it, or what was there."""
        after = dict(zip(before, self.solver.one_of(len(before), decided=False), strict=True))
        later: list[Literal] = []
        for writer in reversed(writers):
            match = self.matches(writer.write.rule)
            for old, new in writer.turns.items():
                self.solver.add([match ^ 1, *later, before[old] ^ 1, after[new]])
            later.append(match)
        for old, fact in before.items():
            self.solver.add([*later, fact ^ 1, after[old]])
        return after

    def _inside(self, box: Box, facts: Mapping[Axis, Values]) -> Literal:
        """A fact that holds just when the object is in the box."""
        inside = self.solver.fact()
        outside: list[Literal] = []
        for axis, values in box.items():
            held = facts[axis]
            self.solver.add([inside ^ 1, *(held[value] for value in held if value in values)])
            outside += [fact for value, fact in held.items() if value not in values]
        self.solver.add([inside, *outside])
        return inside

    def _some(self, none: Literal, facts: list[Literal]) -> None:
        """`none` holds just when none of the facts does."""
        for fact in facts:
            self.solver.add([none ^ 1, fact ^ 1])
        self.solver.add([none, *facts])

    def _rejecting(self, fact_of: Any) -> list[Literal]:
        return [fact_of(rule) for rule in self.space.rules if rule.action.reject and self.space.can_match(rule)]


def _not_others(facts: Values, values: Iterable[Value]) -> list[Literal]:
    wanted = set(values)
    return [fact ^ 1 for value, fact in facts.items() if value not in wanted]
