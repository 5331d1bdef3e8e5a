"""Finds mistakes in a set of policies, for all possible objects at once, each with an object that shows it.

The language is finite (`podberth.policy.space`), so this is no lint by rule of thumb: a finding is a fact about the
evaluator, and no finding is a proof. Where a bound on the work is hit, the report says `undecided` instead.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy import keys
from podberth.policy.dead import dead_rejects, dead_writers
from podberth.policy.findings import Finding, Kind, Report
from podberth.policy.questions import Questions
from podberth.policy.solver import ROOM, TooComplexError
from podberth.policy.space import AXIS, WORLDS, Axis, Space, changed_by, criteria, weigh
from podberth.policy.spec import Policies, Rule, Write
from podberth.policy.story import MOST_PASSES, VALUE, chain, poisoning, shown
from podberth.policy.words import cut

TOTAL, EACH = 20_000_000, 2_000_000
"""Steps: half a minute at most for a whole analysis, three seconds for a question."""
FINDING = 1000
"""Steps that a finding costs beside its question, as it is stored and reported."""
TEXT = 400
"""The largest number of characters of a policy's own text in one place of a message."""
TOO_COMPLEX = "too complex to decide within the bound"
_ABOUT = {
    "_self_poison": "whether what is written is rejected later",
    "_chains": "whether a second pass writes again",
    "_owned": "which writes take objects away from their owners",
    "_conflicts": "which rules can disagree",
    "_dead": "which rules never make a difference",
}


def analyse(
    policies: Policies,
    owner_selectors: Sequence[LabelSelector] = (),
    live_schedulers: frozenset[str] | None = None,
    total: int = TOTAL,
    each: int = EACH,
) -> Report:
    """Return the report on the policies of one namespace; those in mode warn or observe do nothing, so have no part in
    it.

    `policies.enforced()` asks what would be if they all enforced. `owner_selectors`: what controllers of the namespace
    find their pods by. `live_schedulers` None: not known. `total` and `each` bound the steps of all questions and of
    one. Where they end, and where the rules mention more than is kept at once, the report says `undecided`.
    """
    rules = policies.enforcing
    worlds: list[Questions] = []
    weight = weigh(rules, owner_selectors)
    if weight <= ROOM:
        like: Space | None = None
        for world in WORLDS:
            like = Space(rules, world, owner_selectors, like)
            worlds.append(Questions(like, total // 2, each))
    findings = tuple(_Analysis(policies, owner_selectors, live_schedulers, worlds, weight).findings())
    return Report(findings, weight + sum(world.solver.work for world in worlds))


class _Analysis:
    def __init__(
        self,
        policies: Policies,
        owners: Sequence[LabelSelector],
        live: frozenset[str] | None,
        worlds: Sequence[Questions],
        weight: int,
    ) -> None:
        self.policies = policies
        self.rules = policies.enforcing
        self.owners = owners
        self.live = live
        self.worlds = worlds
        """Empty when there is no room for them."""
        self.weight = weight
        self.undecided: list[Finding] = []
        self._left_out: list[str] = []
        self._examples: dict[int, dict[str, Any]] = {}
        self._one_pass = sum(1 + len(criteria(rule)) + len(rule.writes) for rule in self.rules)

    def findings(self) -> Iterator[Finding]:
        yield from self._plain()
        # What comes to a question for each rule goes before what comes to one for each pair of them.
        poisoned, chained, owned = (self._all(ask) for ask in (self._self_poison, self._chains, self._owned))
        conflicts, dead = (self._all(ask) for ask in (self._conflicts, self._dead))
        yield from (*dead, *conflicts, *poisoned, *chained, *owned)
        yield from self.undecided
        if self._left_out:
            policies = tuple(dict.fromkeys(rule.policy for rule in self.rules))
            yield Finding("undecided", policies, (), f"{self._bound()}; not known in full: {', '.join(self._left_out)}")

    def _all(self, ask: Callable[[], Iterator[Finding]]) -> list[Finding]:
        """Return all findings of one kind, each charged; if the budget runs out, the kind is reported as undecided."""
        found = []
        for finding in ask():
            self._owe(FINDING)
            found.append(self._sharing(finding))
        if self.over:
            self._left_out.append(_ABOUT[ask.__name__])
        return found

    def _sharing(self, finding: Finding) -> Finding:
        """Return the finding, with an example that is kept once for all findings: thousands often have the same."""
        if finding.example is None:
            return finding
        kept = self._examples.setdefault(hash(msgspec.msgpack.encode(finding.example)), finding.example)
        return msgspec.structs.replace(finding, example=kept) if kept == finding.example else finding

    @property
    def over(self) -> bool:
        """Return whether no further question is answered."""
        return all(world.exhausted for world in self.worlds)

    def _owe(self, steps: int) -> None:
        for world in self.worlds:
            world.solver.owe(steps)

    def _bound(self) -> str:
        """Return the bound of the whole analysis that was hit."""
        steps = sum(world.solver.total for world in self.worlds)
        if any(world.solver.work > world.solver.total for world in self.worlds):
            return f"{TOO_COMPLEX}: the rules of these policies together take more than {steps} steps"
        return (
            f"{TOO_COMPLEX}: the rules of these policies together mention too many keys and values "
            f"({self.weight}, where a value counts 1 and a key {AXIS}: want about {ROOM} at most)"
        )

    def _plain(self) -> Iterator[Finding]:
        """Yield what a rule says of itself."""
        for rule in self.rules:
            writes = len(rule.action.labels) + len(rule.action.annotations)
            if rule.action.reject and writes:
                yield _finding("void-writes", [rule], f"{rule} rejects, so its {writes} updates are never written")
            if not rule.action.reject and not writes:
                yield _finding("no-action", [rule], f"{rule} neither rejects nor writes anything")
            for write in rule.writes:
                if (write.field, write.key) == ("annotation", keys.QOS):
                    yield _finding(
                        "stamp-written", [rule], f"{rule} writes {shown(write)}: on pods the QoS stamp stays"
                    )
                if (write.field, write.key) != ("annotation", keys.SCHEDULER_NAME) or self.live is None:
                    continue
                if write.value not in self.live and write.value != keys.DEFAULT_SCHEDULER:
                    message = f'{rule} sends pods to the scheduler "{write.value}", which has no live Lease'
                    yield _finding("no-live-scheduler", [rule], message, self._example(rule))

    def _dead(self) -> Iterator[Finding]:
        outcomes = [ask(self.rules, self.worlds) for ask in (dead_rejects, dead_writers)]
        for rule in (rule for outcome in outcomes for rule in outcome.undecided):
            self._give_up(f"whether {rule} ever makes a difference", [rule])
        dead = {id(rule) for outcome in outcomes for rule in outcome.dead}
        for rule in (rule for rule in self.rules if id(rule) in dead):
            example = self._example(rule)
            if example is None:
                message = f"{rule} never matches: {self._contradiction(rule)}"
            elif rule.action.reject:
                message = f"{rule} rejects nothing that other rules do not reject already"
            else:
                message = f"{rule} changes nothing: what it matches is rejected, overwritten, or says the same already"
            yield _finding("dead-rule", [rule], message, example)

    def _conflicts(self) -> Iterator[Finding]:
        writes: dict[Axis, list[Write]] = {}
        for rule in self.rules:
            for write in rule.writes:
                writes.setdefault((write.field, write.key), []).append(write)
        for (field, key), wishes in sorted(writes.items()):
            for i, one in enumerate(wishes):
                self._owe(len(wishes) - i)
                if self.over:
                    return
                for other in (other for other in wishes[i + 1 :] if other.value != one.value):
                    question = f"whether {one.rule} and {other.rule} can disagree on {field} {key}"
                    example = self._ask(question, [one.rule, other.rule], _disagreeing(one, other))
                    if example is not None:
                        wins = cut(other.value, VALUE)
                        message = f'{one.rule} writes {shown(one)}, {other.rule} writes "{wins}" and wins'
                        yield _finding("conflicting-writes", [one.rule, other.rule], message, example)

    def _self_poison(self) -> Iterator[Finding]:
        for rule in self.rules:
            if not rule.action.reject:
                continue
            question = f"whether what the policies write can match {rule}, which rejects"
            example = self._ask(question, [rule], _poisoned(rule))
            if example is not None:
                self._owe(2 * self._one_pass)
                involved, told = poisoning(self.policies, example, rule)
                yield _finding("self-poison", involved, told, example)

    def _chains(self) -> Iterator[Finding]:
        for rule in self.rules:
            example = self._ask(f"whether a second pass can make {rule} write", [rule], _second(rule))
            if example is not None:
                self._owe((MOST_PASSES + 2) * self._one_pass)
                involved, told = chain(self.policies, example, rule)
                yield _finding("not-idempotent", involved, told, example)

    def _owned(self) -> Iterator[Finding]:
        for write in (write for rule in self.rules for write in rule.writes if write.field == "label"):
            question = f"whether {write.rule} can take {write.key} away from an owner"
            example = self._ask(question, [write.rule], _losing(write, self.owners))
            if example is not None:
                message = (
                    f"{write.rule} writes {shown(write)}, and an owner that finds its objects by that label loses them"
                )
                yield _finding("owner-selector", [write.rule], message, example)

    def _ask(
        self, question: str, rules: list[Rule], ask: Callable[[Questions], dict[str, Any] | None]
    ) -> dict[str, Any] | None:
        """Return the first world's example; if none has one, but a world could not be decided, that is noted."""
        if self.over:
            return None  # which is said once, of all that is left out
        too_complex = False
        for world in self.worlds:
            try:
                example = ask(world)
            except TooComplexError:
                too_complex = True
                continue
            if example is not None:
                return example
        if too_complex and not self.over:
            self._give_up(question, rules)
        return None

    def _give_up(self, question: str, rules: list[Rule]) -> None:
        self._owe(FINDING)
        self.undecided.append(_finding("undecided", rules, f"{TOO_COMPLEX}: {question}"))

    def _example(self, rule: Rule) -> dict[str, Any] | None:
        """Return an object that the rule matches."""
        for world in self.worlds:
            box = world.space.boxes.get(id(rule))
            if box is not None:
                return world.space.within(box)
        return None

    def _contradiction(self, rule: Rule) -> str:
        """Return the criteria that no object can meet together."""
        by_axis: dict[Axis, list[Requirement]] = {}
        for field, requirement in criteria(rule):
            by_axis.setdefault((field, requirement.key), []).append(requirement)
        for (field, _), same in by_axis.items():
            if all(world.space.meet((field, one) for one in same) is None for world in self.worlds):
                return cut(" and ".join(f"{field} {one}" for one in same), TEXT)
        return "its criteria contradict each other"


Ask = Callable[[Questions], dict[str, Any] | None]


def _disagreeing(one: Write, other: Write) -> Ask:
    """Make a question: is there an object to which both writes apply?"""

    def ask(world: Questions) -> dict[str, Any] | None:
        if not (world.space.gets_anywhere(one) and world.space.gets_anywhere(other)):
            return None
        return world.ask(world.accepted, world.matches(one.rule), world.matches(other.rule))

    return ask


def _poisoned(rule: Rule) -> Ask:
    """Make a question: is there an object that is accepted, and that the rule rejects once it is changed?"""

    def ask(world: Questions) -> dict[str, Any] | None:
        box = world.space.boxes.get(id(rule), {})
        if not any(axis in world.space.writers for axis in box):
            return None
        return world.ask(world.accepted, world.matches_after(rule))

    return ask


def _second(rule: Rule) -> Ask:
    """Make a question: is there an object of which this rule changes a key in the second pass, as its last writer?"""

    def ask(world: Questions) -> dict[str, Any] | None:
        for write in rule.writes:
            later = world.space.later(write)
            if later is None:
                continue
            deciding = [rule, *(other.rule for other in later)]
            world.solver.owe(len(deciding))
            # If no key that decides who writes here is ever written, the second pass decides as the first did.
            if not any(axis in world.space.writers for one in deciding for axis in world.space.boxes[id(one)]):
                continue
            example = world.ask(
                world.accepted,
                world.matches_after(rule),
                world.accepted_after,
                world.none_of_after(deciding[1:]),
                world.among_after((write.field, write.key), changed_by(write)),
            )
            if example is not None:
                return example
        return None

    return ask


def _losing(write: Write, owners: Sequence[LabelSelector]) -> Ask:
    """Make a question: is there an object whose owner does not find it any more, because this write is the last?"""
    asking = [owner for owner in owners if _refuses(owner, write) and not owner.nothing]

    def ask(world: Questions) -> dict[str, Any] | None:
        later = world.space.later(write)
        if later is None or not asking:
            return None
        world.solver.owe(len(later))
        last = [world.accepted, world.matches(write.rule), *world.none_of(other.rule for other in later)]
        for owner in asking:
            world.solver.owe(1 + len(owner.requirements))
            selected = world.space.box(("label", requirement) for requirement in owner.requirements)
            example = None if selected is None else world.ask(last, world.inside(selected))
            if example is not None:
                return example
        return None

    return ask


def _refuses(owner: LabelSelector, write: Write) -> bool:
    """Return whether the owner's selector does not match an object with this label."""
    return any(one.key == write.key and not one.accepts(write.value) for one in owner.requirements)


def _finding(kind: Kind, rules: Sequence[Rule], message: str, example: dict[str, Any] | None = None) -> Finding:
    policies = tuple(dict.fromkeys(rule.policy for rule in rules))
    return Finding(kind, policies, tuple(dict.fromkeys(rule.place for rule in rules)), message, example)
