"""Rules that never make a difference: leave them out, and every object has the same outcome.

Dead rules are found one by one, each against the rules that are left, so all of them together can go and none of the
others can. A rule that rejects is dead when other rejects match wherever it does. A write is dead when wherever it
would be the last word, the object or the writer before it already says the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.policy.questions import Questions
from scheduler.policy.solver import TooComplexError
from scheduler.policy.spec import Rule, Write


class Outcome(NamedTuple):
    """Rules that never make a difference, and those that could not be decided."""

    dead: list[Rule]
    undecided: list[Rule]


def dead_rejects(rules: Sequence[Rule], worlds: Sequence[Questions]) -> Outcome:
    """The dead ones among the rules that reject."""
    alive = [rule for rule in rules if rule.action.reject]
    outcome = Outcome([], [])
    for rule in reversed(alive):
        others = [other for other in alive if other is not rule]
        try:
            matters = any(
                world.ask(world.matches(rule), world.none_of(others)) is not None
                for world in worlds
                if world.space.can_match(rule)
            )
        except TooComplexError:
            outcome.undecided.append(rule)
            continue
        if not matters:
            alive = others
            outcome.dead.append(rule)
    return outcome


def dead_writers(rules: Sequence[Rule], worlds: Sequence[Questions]) -> Outcome:
    """The dead ones among the rules that write."""
    waiting = [rule for rule in rules if rule.writes]
    gone: set[int] = set()
    outcome = Outcome([], [])
    while waiting:
        rule = waiting.pop()
        try:
            matters = any(_last_word(write, world, gone) for world in worlds for write in rule.writes)
        except TooComplexError:
            outcome.undecided.append(rule)
            continue
        if matters:
            continue
        outcome.dead.append(rule)
        gone.add(id(rule))
        # A rule that mattered only because of this one may be dead now.
        keys = {(write.field, write.key) for write in rule.writes}
        for other in rules:
            known = id(other) in gone or any(other is one for one in (*waiting, *outcome.undecided))
            if not known and any((write.field, write.key) in keys for write in other.writes):
                waiting.append(other)
    return outcome


def _last_word(write: Write, world: Questions, gone: set[int]) -> bool:
    """Whether some object gets another value on this key because of this write."""
    axis = write.field, write.key
    writers = [w for w in world.space.writers.get(axis, []) if id(w.write.rule) not in gone]
    mine = next((i for i, w in enumerate(writers) if w.write.rule is write.rule), None)
    if mine is None:
        return False  # it never matches in this world, or the key is a pod's stamp
    me, before = writers[mine], [w.write.rule for w in writers[:mine]]
    last = [world.accepted, world.matches(write.rule), *world.none_of(w.write.rule for w in writers[mine + 1 :])]
    if world.ask(last, world.none_of(before), world.among(axis, me.changes)) is not None:
        return True
    for i, earlier in enumerate(writers[:mine]):
        differs = [old for old, new in me.turns.items() if new != earlier.turns[old]]
        if not differs:
            continue
        shows = [world.matches(earlier.write.rule), *world.none_of(before[i + 1 :])]
        if world.ask(last, shows, world.among(axis, differs)) is not None:
            return True
    return False
