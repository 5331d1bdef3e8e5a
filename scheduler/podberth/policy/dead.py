"""Rules that never make a difference: leave them out, and every object has the same outcome.

Dead rules are found one by one, each against the rules that are left, so all of them together can go and none of the
others can. A rule that rejects is dead when other rejects match wherever it does. A write is dead when wherever it
would be the last word, the object or the writer before it already says the same.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from podberth.policy.questions import Questions
from podberth.policy.solver import TooComplexError
from podberth.policy.space import Axis, changed_by
from podberth.policy.spec import Rule, Write


class Outcome(NamedTuple):
    """Rules that never make a difference, and those that could not be decided."""

    dead: list[Rule]
    undecided: list[Rule]


def dead_rejects(rules: Sequence[Rule], worlds: Sequence[Questions]) -> Outcome:
    """Return the rules that reject and never matter. It stops once no question is answered any more."""
    alive = [rule for rule in rules if rule.action.reject]
    outcome = Outcome([], [])
    for rule in reversed(alive):
        if all(world.exhausted for world in worlds):
            break
        others = [other for other in alive if other is not rule]
        matters = _in_some(worlds, lambda world: _rejects_alone(rule, others, world))  # noqa: B023 - asked at once
        if matters is None:
            outcome.undecided.append(rule)
        elif not matters:
            alive = others
            outcome.dead.append(rule)
    return outcome


def dead_writers(rules: Sequence[Rule], worlds: Sequence[Questions]) -> Outcome:
    """Return the rules that write and never matter. It stops once no question is answered any more."""
    waiting = [rule for rule in rules if rule.writes]
    writing: dict[Axis, list[Rule]] = {}
    for rule in waiting:
        for write in rule.writes:
            writing.setdefault((write.field, write.key), []).append(rule)
    place = {id(rule): i for i, rule in enumerate(waiting)}
    known = set(place)  # rules that wait, are dead, or could not be decided
    gone: set[int] = set()
    outcome = Outcome([], [])
    while waiting and not all(world.exhausted for world in worlds):
        rule = waiting.pop()
        matters = _in_some(worlds, lambda world: any(_last_word(write, world, gone) for write in rule.writes))  # noqa: B023 - asked at once
        if matters is None:
            outcome.undecided.append(rule)
            continue
        if matters:
            known.discard(id(rule))
            continue
        outcome.dead.append(rule)
        gone.add(id(rule))
        # A rule that mattered only because of this one may be dead now.
        beside = [other for write in rule.writes for other in writing[write.field, write.key]]
        worlds[0].solver.owe(len(beside))
        again = {id(other): other for other in beside if id(other) not in known}
        known |= again.keys()
        waiting += sorted(again.values(), key=lambda other: place[id(other)])
    return outcome


def _in_some(worlds: Iterable[Questions], ask: Callable[[Questions], bool]) -> bool | None:
    """Return whether it holds in some world; None: in none that was decided, and one was not."""
    answer: bool | None = False
    for world in worlds:
        try:
            if ask(world):
                return True
        except TooComplexError:
            answer = None
    return answer


def _rejects_alone(rule: Rule, others: Sequence[Rule], world: Questions) -> bool:
    """Return whether an object exists that this rule rejects and no other rule does."""
    return world.space.can_match(rule) and world.ask(world.matches(rule), world.none_of(others)) is not None


def _last_word(write: Write, world: Questions, gone: set[int]) -> bool:
    """Return whether an object exists that gets another value on this key because of this write."""
    axis = write.field, write.key
    world.solver.owe(len(world.space.writers.get(axis, ())))
    writers = [other for other in world.space.writers.get(axis, ()) if id(other.rule) not in gone]
    mine = next((i for i, other in enumerate(writers) if other.rule is write.rule), None)
    if mine is None:
        return False  # it never matches in this world, or the key is a pod's stamp
    before = [other.rule for other in writers[:mine]]
    last = [world.accepted, world.matches(write.rule), *world.none_of(other.rule for other in writers[mine + 1 :])]
    if world.ask(last, world.none_of(before), world.among(axis, changed_by(write))) is not None:
        return True
    for i, earlier in enumerate(writers[:mine]):
        if earlier.value == write.value:
            world.solver.owe(1)
            continue
        if world.ask(last, world.matches(earlier.rule), *world.none_of(before[i + 1 :])) is not None:
            return True
    return False
