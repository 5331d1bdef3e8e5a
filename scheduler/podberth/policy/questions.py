"""Questions about every object of a space at once, as clauses for MiniSat (of the package python-sat).

The facts: which value an object x has on each axis, which rules match x, and which match f(x) (the object after one
pass). All follow from the first. A question is a list of such facts wished for; the answer is an object, or the
certainty that there is none. MiniSat tries first what holds of an object that has no labels and no annotations, so an
example has little that the question does not need.

Every fact is told by as many literals as the policies use words for it: what a key's value is among costs what is
listed, and who is the last to write a key is a chain along its writers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from podberth.policy.qos import CLASSES
from podberth.policy.space import KIND, MIRROR, POD, STAMP, Among, Axis, Box, Space, Value
from podberth.policy.spec import Rule, Write

Literal = int
"""The number of a variable where its fact holds, `-number` where it does not."""

ROOM = 600_000
"""Literals that are kept in clauses; a fact counts as `_FACT`: some 16 MB."""
_FACT = 4
_ASSIGNED, _CONFLICT = 2, 100
"""The number of values that MiniSat assigns in a step (some 0.1 µs), and of steps that learning from a conflict counts
(some 35 µs).
"""
_LENGTH = 16
"""The number of characters of an example that count as a step, and of those added to each key beside its value."""


class TooComplexError(Exception):
    """A question hit its bound on work, so it has no answer."""


class _Written(NamedTuple):
    """The writes to one axis. `untouched`: no rule that writes it matches; `last`: value → fact that it is written
    last.
    """

    untouched: Literal
    last: Mapping[str, Literal]


class Questions:
    """The facts about one space. Each is made when a question first needs it.

    `work` counts steps: literals that were kept, and what MiniSat assigned and learned. `total` bounds it, `each`
    bounds what one question takes, and `room` what is kept.
    """

    def __init__(self, space: Space, total: int, each: int, room: int = ROOM) -> None:
        from pysat.solvers import MinisatGH  # here, as it takes 60 ms, and most who import this ask nothing

        self.space = space
        self.total, self._each, self._room = total, each, room
        self.work = self._kept = 0
        self._sat = MinisatGH()
        self._seen = 0
        """The part of `work` that MiniSat did."""
        self._likely: list[bool] = [False]
        """By variable: whether it holds of an object without labels and annotations, which is no pod."""
        self._values: dict[Axis, dict[Value, Literal]] = {}
        self._among: dict[tuple[Axis, frozenset[Value]], Literal] = {}
        self._among_after: dict[tuple[Axis, frozenset[Value]], Literal] = {}
        self._written: dict[Axis, _Written] = {}
        self._matches: dict[int, Literal] = {}
        self._matches_after: dict[int, Literal] = {}
        self._none: dict[bool, Literal] = {}
        try:
            self._true = self._fact(likely=True)
            self._clause([self._true])
            for axis, values in space.values.items():
                self._one_of(axis, values)
            self._pods()
        except TooComplexError:
            pass  # every question says so

    @property
    def exhausted(self) -> bool:
        """Return whether no further question will be answered: the bound on all work, or on memory, was hit."""
        return self.work > self.total or self._kept > self._room

    def owe(self, steps: int) -> None:
        """Charge work that was done already: what comes next pays for it."""
        if not self.exhausted:
            self.work += steps

    def ask(self, *wishes: Literal | Iterable[Literal]) -> dict[str, Any] | None:
        """Return an object for which all wishes hold, a pod if possible, or None when there is none.

        Raises TooComplexError.
        """
        wanted = [w for wish in wishes for w in ([wish] if isinstance(wish, int) else wish)]
        undecided: TooComplexError | None = None
        for kind in (self._pod, -self._pod):
            if STAMP in self._values:  # an example is a plain pod, or has no such annotation
                plain = self._values[STAMP]["BestEffort"]
                self._sat.set_phases([plain if kind > 0 else -plain])
            try:
                if self._solve([kind, *wanted]):
                    return self._example()
            except TooComplexError as error:
                undecided = error
        if undecided is not None:
            raise undecided
        return None

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
            found = self._matches[id(rule)] = self._all(self.inside(self.space.boxes[id(rule)]))
        return found

    def matches_after(self, rule: Rule) -> Literal:
        """Return the fact that the rule matches f(x)."""
        found = self._matches_after.get(id(rule))
        if found is None:
            box = self.space.boxes[id(rule)]
            facts = [self.among_after(axis, among) for axis, among in box.items()]
            found = self._matches_after[id(rule)] = self._all(facts)
        return found

    def writes(self, write: Write) -> Literal:
        """Return the fact that a write is made on x, if no later one is."""
        return self._made(write, self.matches(write.rule))

    def writes_after(self, write: Write) -> Literal:
        """Return the fact that a write is made on f(x), if no later one is."""
        return self._made(write, self.matches_after(write.rule))

    def none_of(self, rules: Iterable[Rule]) -> list[Literal]:
        """Return the facts that these rules don't match x."""
        return [-self.matches(rule) for rule in rules if self.space.can_match(rule)]

    def none_of_after(self, rules: Iterable[Rule]) -> list[Literal]:
        """Return the facts that these rules don't match f(x)."""
        return [-self.matches_after(rule) for rule in rules if self.space.can_match(rule)]

    def inside(self, box: Box) -> list[Literal]:
        """Return the facts which together say that x is in this box."""
        return [self.among(axis, values) for axis, values in box.items()]

    def among(self, axis: Axis, among: Among) -> Literal:
        """Return the fact that x has one of these values on the axis."""
        self._check()
        key = axis, among.values
        found = self._among.get(key)
        if found is None:
            facts = self._values[axis]
            found = self._among[key] = self._any(facts[value] for value in among.values if value in facts)
        return -found if among.all_but else found

    def among_after(self, axis: Axis, among: Among) -> Literal:
        """Return the fact that f(x) has one of these values on the axis: an old one that stays, or the one that is
        written last.
        """
        if axis not in self.space.writers:
            return self.among(axis, among)
        key = axis, among.values
        found = self._among_after.get(key)
        if found is None:
            written = self._last(axis)
            now = [written.last[value] for value in among.values if value is not None and value in written.last]
            stays = self._all((written.untouched, self.among(axis, Among(among.values))))
            found = self._among_after[key] = self._any((stays, *now))
        return -found if among.all_but else found

    @property
    def _pod(self) -> Literal:
        self._check()
        return self._values[KIND][POD]

    def _pods(self) -> None:
        """Say what is true of pods alone: the stamp is always there, and a mirror pod would be exempt."""
        for axis, values in ((STAMP, CLASSES), (MIRROR, (None,))):
            if axis in self._values:
                self._clause([-self._pod, *(self._values[axis][value] for value in values)])

    def _made(self, write: Write, matches: Literal) -> Literal:
        """No policy writes the stamp of a pod."""
        return self._all((matches, -self._pod)) if (write.field, write.key) == STAMP else matches

    def _last(self, axis: Axis) -> _Written:
        """Return the facts about the last write to an axis: a chain from the last writer to the first."""
        found = self._written.get(axis)
        if found is None:
            last: dict[str, list[Literal]] = {}
            untouched = self._true
            for writer in reversed(self.space.writers[axis]):
                made = self.writes(writer)
                last.setdefault(writer.value, []).append(self._all((made, untouched)))
                untouched = self._all((-made, untouched))
            found = self._written[axis] = _Written(
                untouched, {value: self._any(facts) for value, facts in last.items()}
            )
        return found

    def _nobody_rejects(self, matches: Callable[[Rule], Literal], *, after: bool) -> Literal:
        found = self._none.get(after)
        if found is None:
            rejecting = [rule for rule in self.space.rules if rule.action.reject and self.space.can_match(rule)]
            found = self._none[after] = -self._any(map(matches, rejecting))
        return found

    def _all(self, facts: Iterable[Literal]) -> Literal:
        """Return a fact that holds if and only if all of these do."""
        return -self._any(-fact for fact in facts)

    def _any(self, facts: Iterable[Literal]) -> Literal:
        """Return a fact that holds if and only if at least one of these does."""
        self._check()
        some = [fact for fact in dict.fromkeys(facts) if fact != -self._true]
        if self._true in some:
            return self._true
        if len(some) < 2:
            return some[0] if some else -self._true
        found = self._fact(likely=any(self._likely[abs(fact)] == (fact > 0) for fact in some))
        for fact in some:
            self._clause([found, -fact])
        self._clause([-found, *some])
        return found

    def _one_of(self, axis: Axis, values: Sequence[Value]) -> None:
        """Make the facts that x has these values on an axis, of which exactly one holds. The first is likely."""
        facts = [self._fact(likely=i == 0) for i in range(len(values))]
        self._values[axis] = dict(zip(values, facts, strict=True))
        self._clause(facts)
        before = facts[0]
        for fact in facts[1:]:
            self._clause([-before, -fact])
            if fact != facts[-1]:
                before = self._any((before, fact))

    def _fact(self, *, likely: bool) -> Literal:
        self._keep(_FACT)
        made = len(self._likely)
        self._likely.append(likely)
        self._sat.set_phases([made if likely else -made])
        return made

    def _clause(self, literals: Sequence[Literal]) -> None:
        self._keep(1 + len(literals))
        self._sat.add_clause(literals)

    def _solve(self, literals: Sequence[Literal]) -> bool:
        self._check()
        most = max(min(self._each, self.total - self.work), 1)
        self._sat.prop_budget(_ASSIGNED * most)
        self._sat.conf_budget(max(most // _CONFLICT, 1))
        answer: bool | None = self._sat.solve_limited(assumptions=literals, expect_interrupt=True)
        done = self._sat.accum_stats()
        seen = done["propagations"] // _ASSIGNED + _CONFLICT * done["conflicts"]
        self.work += len(literals) + seen - self._seen
        self._seen = seen
        if answer is None:
            raise TooComplexError
        return answer

    def _example(self) -> dict[str, Any]:
        """Return the object of MiniSat's last answer."""
        model: list[Literal] = self._sat.get_model()
        chosen: dict[Axis, str] = {}
        length = 0
        for axis, facts in self._values.items():
            value = next(value for value, fact in facts.items() if model[fact - 1] > 0)
            if value is not None:
                chosen[axis] = value
                length += _LENGTH + len(value)
        self.owe(len(self._values) + length // _LENGTH)
        return self.space.example(chosen)

    def _keep(self, amount: int) -> None:
        """Charge what is about to be kept, in literals. Raises TooComplexError."""
        self._kept += amount
        self.work += amount
        self._check()

    def _check(self) -> None:
        """Raise TooComplexError if something was not built, for lack of room or time: it can't be asked about."""
        if self.exhausted:
            raise TooComplexError
