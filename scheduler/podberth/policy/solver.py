"""A small solver for clauses (CDCL as in MiniSat: two watched literals, learning at the first implication point).

Everything that the analysis asks is a question about finitely many yes/no facts, all of which follow from the values of
an object's keys. So decisions are made on keys only ("groups" of facts of which exactly one holds), the first value
that is still possible first, which keeps examples small. Questions are assumptions; what one teaches helps the next.

That exactly one fact of a group holds is no clause: the solver knows groups, so a group costs what it has facts. What
a clause costs is charged before it is kept; what a question costs is charged while it is answered.
"""

import heapq
from collections.abc import Collection, Iterable, Sequence

Literal = int
"""2·variable for "holds", 2·variable + 1 for "does not"; `literal ^ 1` is the negation."""

ROOM = 150_000
"""Literals that a solver keeps in clauses, and half as many in learned ones; a fact counts as `_FACT`: some 8 MB."""
_FACT = 4
_NOBODY = -1


class TooComplexError(Exception):
    """A question hit its bound on work, so it has no answer."""


class ExhaustedError(TooComplexError):
    """The bound on all work, or on memory, was hit: no further question will be answered."""


class Solver:
    """Clauses, and what was learned about them.

    `work` counts steps: literals that were kept, and facts and clauses that were looked at. `total` bounds it, `each`
    bounds that of one question, `room` what is kept.
    """

    def __init__(self, total: int, each: int, room: int = ROOM) -> None:
        self.total, self.each, self.room = total, each, room
        self.work = self.kept = 0
        self._left = each
        self._owed = 0
        self._value: list[bool | None] = []  # by literal
        self._watching: list[list[list[Literal]] | None] = []  # by literal: clauses to look at when it becomes false
        self._literals: list[Literal] = []  # by literal: itself, so that clauses share the number
        self._reason: list[list[Literal] | Literal | None] = []  # by variable: a clause, or the fact that excludes it
        self._level: list[int] = []
        self._group: list[int] = []
        self._groups: list[list[Literal]] = []
        self._open: list[int] = []  # by group: facts that are not known not to hold
        self._chosen: list[Literal] = []  # by group: the fact that holds
        self._activity: list[float] = []
        self._bump = 1.0
        self._undecided: list[tuple[float, int]] = []  # a heap: the most active group first; stale entries are skipped
        self._asked: list[int] = []  # by group: the last question that depended on it
        self._question = self._most = 0
        self.learned: list[list[Literal]] = []
        """Clauses that follow from the others, and were found in a search."""
        self.learned_room = room // 2
        """The number of literals that learned clauses may still take."""
        self._trail: list[Literal] = []
        self._ends: list[int] = []  # of the trail, where each level starts
        self._done = 0
        self._sound = True

    @property
    def exhausted(self) -> bool:
        """Return whether no question will be answered any more."""
        return self.work > self.total or self.kept > self.room

    def spend(self, amount: int) -> None:
        """Charge a question's work. Raises TooComplexError."""
        self.work += amount
        self._left -= amount
        if self.exhausted:
            raise ExhaustedError
        if self._left < 0:
            raise TooComplexError

    def owe(self, amount: int) -> None:
        """Charge work that was done already: what comes next pays for it."""
        if not self.exhausted:
            self.work += amount

    def fact(self, group: int = _NOBODY) -> Literal:
        """Return a new fact, which holds or does not. Raises ExhaustedError."""
        self.keep(_FACT)
        literal = 2 * len(self._reason)
        self._literals += [literal, literal + 1]
        self._value += [None, None]
        self._watching += [None, None]
        self._reason.append(None)
        self._level.append(0)
        self._group.append(group)
        return self._literals[literal]

    def one_of(self, number: int) -> list[Literal]:
        """New facts of which exactly one holds, and which all others follow from. Raises ExhaustedError."""
        self.keep(number)
        self._back_to(0)
        group = len(self._groups)
        facts = [self.fact(group) for _ in range(number)]
        self._groups.append(facts)
        self._open.append(number)
        self._chosen.append(_NOBODY)
        self._activity.append(0.0)
        self._asked.append(0)
        if number == 1:
            self.add(facts)
        return facts

    def add(self, clause: Iterable[Literal]) -> None:
        """Add a clause: at least one of these literals holds. Raises ExhaustedError."""
        given = dict.fromkeys(clause)
        self.keep(1 + len(given))
        self._back_to(0)
        kept = [self._literals[literal] for literal in given if self._value[literal] is not False]
        if any(self._value[literal] or literal ^ 1 in given for literal in kept):
            return
        if len(kept) > 1:
            self._watch(kept)
        elif not kept or not self._assign(kept[0], None):
            self._sound = False

    def solve(self, assumptions: Sequence[Literal], groups: Collection[int] | None = None) -> bool:
        """Return whether all clauses can hold together with the assumptions; then `holds` and `choice` give the
        solution.

        `groups`: those that the assumptions depend on, None for all; the others are left open where nothing decides
        them, so every other fact must follow from groups alone. Raises TooComplexError.
        """
        self._back_to(0)
        self._left = self.each
        self._forget()
        asked = range(len(self._groups)) if groups is None else groups
        self.spend(len(assumptions) + len(asked))
        self._question += 1
        for group in asked:
            self._asked[group] = self._question
        self._order(asked)
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
        """Return whether a literal holds in the last solution."""
        return self._value[literal] is True

    def choice(self, group: int) -> Literal | None:
        """Return the fact of a group that holds in the last solution; None where that was left open."""
        chosen = self._chosen[group]
        return None if chosen == _NOBODY else chosen

    def group(self, literal: Literal) -> int | None:
        """Return the group that a fact is of."""
        group = self._group[literal >> 1]
        return None if group == _NOBODY else group

    def keep(self, amount: int) -> None:
        """Charge what is about to be kept, in literals. Raises ExhaustedError."""
        self.kept += amount
        self.work += amount
        if self.exhausted:
            raise ExhaustedError

    def _next(self, assumptions: Sequence[Literal]) -> int | None:
        """Return the next literal to decide; -1 when an assumption can't hold, None when nothing is left."""
        while len(self._ends) < len(assumptions):
            literal = assumptions[len(self._ends)]
            if self._value[literal] is False:
                return -1
            if self._value[literal] is None:
                return literal
            self._ends.append(len(self._trail))  # holds already: a level of its own, with nothing in it
        while self._undecided:
            activity, group = self._undecided[0]
            if self._chosen[group] != _NOBODY or -activity != self._activity[group]:
                heapq.heappop(self._undecided)
                continue
            facts = self._groups[group]
            at = next(i for i, fact in enumerate(facts) if self._value[fact] is None)
            self.spend(1 + at)
            return facts[at]
        return None

    def _watch(self, clause: list[Literal]) -> None:
        for literal in clause[:2]:
            clauses = self._watching[literal]
            if clauses is None:
                self._watching[literal] = [clause]
            else:
                clauses.append(clause)

    def _assign(self, literal: Literal, reason: list[Literal] | Literal | None) -> bool:
        if self._value[literal] is not None:
            return bool(self._value[literal])
        self._value[literal], self._value[literal ^ 1] = True, False
        variable = literal >> 1
        self._reason[variable] = reason
        self._level[variable] = len(self._ends)
        self._trail.append(literal)
        group = self._group[variable]
        if group != _NOBODY:
            if literal & 1:
                self._open[group] -= 1
            elif self._chosen[group] == _NOBODY:
                self._chosen[group] = literal
        return True

    def _propagate(self) -> list[Literal] | None:
        """Follow every group and clause with one literal left; a clause with none left is returned."""
        while self._done < len(self._trail):
            true = self._trail[self._done]
            group = self._group[true >> 1]
            facts = self._groups[group] if group != _NOBODY and self._says(true, group) else ()
            clauses = self._watching[true ^ 1] or ()
            owed, self._owed = self._owed, 0
            self.spend(1 + owed + len(facts) + len(clauses))  # before anything is touched: all stays in order
            self._done += 1
            conflict = self._exclude(true, group) if facts else None
            if conflict is None and clauses:
                conflict = self._visit(true ^ 1, clauses)
            if conflict is not None:
                self._done = len(self._trail)
                return conflict
        return None

    def _says(self, true: Literal, group: int) -> bool:
        """Return whether a literal implies anything about the other facts of its group."""
        return not true & 1 or (self._chosen[group] == _NOBODY and self._open[group] < 2)

    def _exclude(self, true: Literal, group: int) -> list[Literal] | None:
        """Return what follows for a group from a fact that holds: all others do not; the last one left holds."""
        facts = self._groups[group]
        if true & 1:
            last = next((fact for fact in facts if self._value[fact] is not False), None)
            return facts if last is None or not self._assign(last, facts) else None
        for other in facts:
            if other != true and not self._assign(self._literals[other ^ 1], true):
                return [true ^ 1, other ^ 1]
        return None

    def _visit(self, false: Literal, clauses: Sequence[list[Literal]]) -> list[Literal] | None:
        """Find each clause that watched this literal another one to watch."""
        value = self._value
        kept: list[list[Literal]] = []
        self._watching[false] = kept
        for i, clause in enumerate(clauses):
            if clause[0] == false:
                clause[0], clause[1] = clause[1], clause[0]
            first = clause[0]
            if value[first]:
                kept.append(clause)
                continue
            for k in range(2, len(clause)):
                if value[clause[k]] is not False:
                    clause[1], clause[k] = clause[k], clause[1]
                    watching = self._watching[clause[1]]
                    if watching is None:
                        self._watching[clause[1]] = [clause]
                    else:
                        watching.append(clause)
                    self._owed += k - 2
                    break
            else:
                self._owed += len(clause) - 2
                kept.append(clause)
                if value[first] is False:
                    kept += clauses[i + 1 :]
                    return clause
                self._assign(first, clause)
        return None

    def _learn(self, conflict: list[Literal]) -> None:
        """Find what decided the conflict, remember it as a clause, and go back to where that clause says something."""
        here, open_, learned = len(self._ends), 0, [0]
        seen: set[int] = set()
        at = len(self._trail) - 1
        clause: Sequence[Literal] = conflict
        skip: Literal | None = None
        while True:
            self._owed += len(clause)
            for literal in clause:
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
            reason = self._reason[skip >> 1]
            clause = () if reason is None else (reason ^ 1,) if isinstance(reason, int) else reason
            at -= 1
            open_ -= 1
            if open_ == 0:
                break
        learned[0] = self._literals[skip ^ 1]
        self._bump *= 1.05
        if len(learned) == 1:
            self._back_to(0)
            self._assign(learned[0], None)
            return
        second = max(range(1, len(learned)), key=lambda i: self._level[learned[i] >> 1])
        learned[1], learned[second] = learned[second], learned[1]
        self._back_to(self._level[learned[1] >> 1])
        self._watch(learned)
        self.learned.append(learned)
        self.learned_room -= len(learned)
        self._assign(learned[0], learned)
        if self.learned_room < 0:
            raise TooComplexError

    def _forget(self) -> None:
        """Let go of what was learned, once it takes more room than there is; only between questions."""
        if self.learned_room >= 0:
            return
        gone = {id(clause) for clause in self.learned}
        for literal in {literal for clause in self.learned for literal in clause[:2]}:
            clauses = self._watching[literal] or ()
            self.owe(len(clauses))
            self._watching[literal] = [one for one in clauses if id(one) not in gone] or None
        self.learned, self.learned_room = [], self.room // 2

    def _active(self, variable: int) -> None:
        group = self._group[variable]
        if group == _NOBODY:
            return
        self._activity[group] += self._bump
        if self._activity[group] > 1e100:
            self._activity = [value * 1e-100 for value in self._activity]
            self._bump *= 1e-100
            self._undecided = []
        if self._asked[group] != self._question:
            return
        if len(self._undecided) not in range(1, 4 * self._most + 64):
            self._order([one for one, question in enumerate(self._asked) if question == self._question])
        elif self._chosen[group] == _NOBODY:
            heapq.heappush(self._undecided, (-self._activity[group], group))

    def _order(self, groups: Collection[int]) -> None:
        """Put these groups into the order in which they are decided."""
        self._most = len(groups)
        self._owed += self._most
        self._undecided = [(-self._activity[group], group) for group in groups]
        heapq.heapify(self._undecided)

    def _back_to(self, level: int) -> None:
        if len(self._ends) <= level:
            return
        start = self._ends[level]
        for literal in self._trail[start:]:
            self._value[literal] = self._value[literal ^ 1] = None
            group = self._group[literal >> 1]
            if group == _NOBODY:
                continue
            if literal & 1:
                self._open[group] += 1
            elif self._chosen[group] == literal:
                self._chosen[group] = _NOBODY
                if self._asked[group] == self._question:
                    heapq.heappush(self._undecided, (-self._activity[group], group))
        del self._trail[start:], self._ends[level:]
        self._done = len(self._trail)
