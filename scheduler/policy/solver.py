"""A small solver for clauses (CDCL as in MiniSat: two watched literals, learning at the first implication point).

Everything that the analysis asks is a question about finitely many yes/no facts, all of which follow from the values of
an object's keys. So decisions are made on keys only ("groups" of facts of which exactly one holds), the first value
that is still possible first, which keeps examples small. Questions are assumptions; what one teaches helps the next.
"""

from collections.abc import Iterable, Sequence

Literal = int
"""2·variable for "holds", 2·variable + 1 for "does not"; `literal ^ 1` is the negation."""


class TooComplexError(Exception):
    """The bound on the work was hit; nothing is known."""


class Solver:
    """Clauses, and what was learned about them. `work` counts the clauses that were looked at."""

    def __init__(self, total: int, each: int) -> None:
        self.total, self.each, self.work = total, each, 0
        self._left = each
        self._value: list[bool | None] = []  # by literal
        self._watching: list[list[list[Literal]]] = []  # by literal: clauses to look at when it becomes false
        self._reason: list[list[Literal] | None] = []  # by variable
        self._level: list[int] = []
        self._group: list[int] = []
        self._groups: list[list[Literal]] = []
        self._activity: list[float] = []
        self._bump = 1.0
        self._trail: list[Literal] = []
        self._ends: list[int] = []  # of the trail, where each level starts
        self._done = 0
        self._sound = True

    def fact(self, group: int = -1) -> Literal:
        """A new yes/no fact."""
        variable = len(self._reason)
        self._value += [None, None]
        self._watching += [[], []]
        self._reason.append(None)
        self._level.append(0)
        self._group.append(group)
        return 2 * variable

    def one_of(self, number: int, *, decided: bool) -> list[Literal]:
        """New facts of which exactly one holds; a `decided` group is one of those that all others follow from."""
        group = len(self._groups) if decided else -1
        facts = [self.fact(group) for _ in range(number)]
        if decided:
            self._groups.append(facts)
            self._activity.append(0.0)
        self.add(facts)
        for i, one in enumerate(facts):
            for other in facts[:i]:
                self.add([one ^ 1, other ^ 1])
        return facts

    def add(self, clause: Iterable[Literal]) -> None:
        """At least one of these literals is to hold."""
        self._back_to(0)
        kept = [literal for literal in dict.fromkeys(clause) if self._value[literal] is not False]
        if any(self._value[literal] or literal ^ 1 in kept for literal in kept):
            return
        if len(kept) > 1:
            self._watch(kept)
        elif not kept or not self._assign(kept[0], None) or self._propagate() is not None:
            self._sound = False

    def solve(self, assumptions: Sequence[Literal]) -> bool:
        """Whether all clauses can hold together with the assumptions; then `holds` tells how.

        Raises TooComplexError.
        """
        self._back_to(0)
        self._left = min(self.each, self.total - self.work)
        while self._sound:
            conflict = self._propagate()
            if conflict is not None:
                if not self._ends:
                    self._sound = False
                    break
                self._learn(conflict)
                continue
            literal = self._next(assumptions)
            if literal is None:
                return True
            if literal < 0:
                return False
            self._ends.append(len(self._trail))
            self._assign(literal, None)
        return False

    def holds(self, literal: Literal) -> bool:
        """Whether a literal holds in the answer that was found last."""
        return self._value[literal] is True

    def _next(self, assumptions: Sequence[Literal]) -> int | None:
        """What to decide: -1 when an assumption can't hold, None when nothing is left."""
        while len(self._ends) < len(assumptions):
            literal = assumptions[len(self._ends)]
            if self._value[literal] is False:
                return -1
            if self._value[literal] is None:
                return literal
            self._ends.append(len(self._trail))  # holds already: a level of its own, with nothing in it
        best, chosen = -1.0, None
        for group, facts in enumerate(self._groups):
            if self._activity[group] <= best:
                continue
            possible = None
            for fact in facts:
                value = self._value[fact]
                if value:
                    possible = None
                    break
                if value is None and possible is None:
                    possible = fact
            if possible is not None:
                best, chosen = self._activity[group], possible
        return chosen

    def _watch(self, clause: list[Literal]) -> None:
        self._watching[clause[0]].append(clause)
        self._watching[clause[1]].append(clause)

    def _assign(self, literal: Literal, reason: list[Literal] | None) -> bool:
        if self._value[literal] is not None:
            return bool(self._value[literal])
        self._value[literal], self._value[literal ^ 1] = True, False
        self._reason[literal >> 1] = reason
        self._level[literal >> 1] = len(self._ends)
        self._trail.append(literal)
        return True

    def _propagate(self) -> list[Literal] | None:
        """Follow every clause with one literal left; a clause with none left is returned."""
        value = self._value
        while self._done < len(self._trail):
            false = self._trail[self._done] ^ 1
            clauses = self._watching[false]
            self._spend(1 + len(clauses))  # before anything is touched: the next question must find all in order
            self._done += 1
            kept: list[list[Literal]] = []
            self._watching[false] = kept
            for i, clause in enumerate(clauses):
                if clause[0] == false:
                    clause[0], clause[1] = clause[1], false
                first = clause[0]
                if value[first]:
                    kept.append(clause)
                    continue
                for k in range(2, len(clause)):
                    if value[clause[k]] is not False:
                        clause[1], clause[k] = clause[k], false
                        self._watching[clause[1]].append(clause)
                        break
                else:
                    kept.append(clause)
                    if value[first] is False:
                        kept += clauses[i + 1 :]
                        self._done = len(self._trail)
                        return clause
                    self._assign(first, clause)
        return None

    def _learn(self, conflict: list[Literal]) -> None:
        """Find what decided the conflict, remember it as a clause, and go back to where that clause says something."""
        here, open_, learned = len(self._ends), 0, [0]
        seen: set[int] = set()
        at = len(self._trail) - 1
        clause: list[Literal] | None = conflict
        skip: Literal | None = None
        while True:
            for literal in clause or ():
                variable = literal >> 1
                if literal == skip or variable in seen or not self._level[variable]:
                    continue
                seen.add(variable)
                self._active(variable)
                if self._level[variable] == here:
                    open_ += 1
                else:
                    learned.append(literal)
            while self._trail[at] >> 1 not in seen:
                at -= 1
            skip = self._trail[at]
            clause = self._reason[skip >> 1]
            at -= 1
            open_ -= 1
            if open_ == 0:
                break
        learned[0] = skip ^ 1
        self._bump *= 1.05
        if len(learned) == 1:
            self._back_to(0)
            self._assign(learned[0], None)
            return
        second = max(range(1, len(learned)), key=lambda i: self._level[learned[i] >> 1])
        learned[1], learned[second] = learned[second], learned[1]
        self._back_to(self._level[learned[1] >> 1])
        self._watch(learned)
        self._assign(learned[0], learned)

    def _active(self, variable: int) -> None:
        group = self._group[variable]
        if group >= 0:
            self._activity[group] += self._bump
            if self._activity[group] > 1e100:
                self._activity = [value * 1e-100 for value in self._activity]
                self._bump *= 1e-100

    def _back_to(self, level: int) -> None:
        if len(self._ends) <= level:
            return
        start = self._ends[level]
        for literal in self._trail[start:]:
            self._value[literal] = self._value[literal ^ 1] = None
        del self._trail[start:], self._ends[level:]
        self._done = len(self._trail)

    def _spend(self, amount: int) -> None:
        self.work += amount
        self._left -= amount
        if self._left < 0:
            raise TooComplexError
