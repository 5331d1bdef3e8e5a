"""Finds mistakes in a set of policies, for all possible objects at once, each with an object that shows it.

The language is finite (`podberth.policy.space`), so this is no lint by rule of thumb: a finding is a fact about the
evaluator, and no finding is a proof. Where a bound on the work is hit, the report says `undecided` instead. The parts:
what a finding is; one question for each kind of finding; rules that never make a difference; and counterexamples told
in words, by running them through the evaluator.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVarTuple

import msgspec
from msgspec import Struct, structs

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy import bounds, keys, objects
from podberth.policy.evaluate import Verdict, evaluate, merge
from podberth.policy.keys import RESERVED, Reserved
from podberth.policy.kinds import mistake
from podberth.policy.native.policy_set import Source, policy_set
from podberth.policy.objects import JsonObject, Snapshot
from podberth.policy.options import Options
from podberth.policy.qos import qos_class
from podberth.policy.questions import Questions, TooComplexError
from podberth.policy.space import AXIS, MOST_WEIGHT, Axis, Space, changed_by, criteria, meet, weigh
from podberth.policy.spec import Field, Policies, Policy, Rule, Write, cut

TOTAL, EACH = 20_000_000, 2_000_000
"""Steps: half a minute at most for a whole analysis, three seconds for a question."""
FINDING = 1000
"""Steps that a finding costs beside its question, as it is stored and reported."""
MOST = 20
"""The largest number of findings about reserved keys: an author of many such keys sees from these what is wrong."""
MOST_PASSES = 12
TEXT, VALUE = 400, 120
"""The largest number of characters of a policy's own text in one place of a message, and of a value."""
_MOST_WRITES = 8
TOO_COMPLEX = "too complex to decide within the bound"

Kind = Literal[
    "invalid",
    "dead-rule",
    "conflicting-writes",
    "self-poison",
    "not-idempotent",
    "owner-selector",
    "no-live-scheduler",
    "no-action",
    "void-writes",
    "unknown-kind",
    "stamp-written",
    "reserved-key",
    "over-bound",
    "not-native",
    "undecided",
]


class Finding(Struct, frozen=True):
    """One thing found. `example` is an object that shows it; `rules` and `policies` are named in order."""

    kind: Kind
    policies: tuple[str, ...]
    rules: tuple[str, ...]
    message: str
    example: JsonObject | None = None


class Report(Struct, frozen=True):
    """The findings about the policies of one namespace."""

    findings: Sequence[Finding] = ()
    steps: int = 0
    """The steps that the analysis took: of the solver, and of reading the rules."""

    def of(self, *kinds: Kind) -> list[Finding]:
        """Return the findings of some kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    @property
    def decided(self) -> bool:
        """Return whether every question was answered within the bound."""
        return not self.of("undecided")


def analyse(
    policies: Policies,
    owner_selectors: Sequence[LabelSelector] = (),
    live_schedulers: frozenset[str] | None = None,
    total: int = TOTAL,
    each: int = EACH,
    reserved: Reserved = RESERVED,
) -> Report:
    """Return the report on the policies of one namespace; those in mode warn or observe do nothing, so have no part in
    it.

    `policies.enforced()` asks what would be if they all enforced. `owner_selectors`: what controllers of the namespace
    find their pods by. `live_schedulers` None: not known. `total` and `each` bound the steps of all questions and of
    one. Where they end, and where the rules mention more than is kept at once, the report says `undecided`. Writes to
    `reserved` keys are never made: each is a finding, and the rest is looked at without them.
    """
    rest, withheld = _without(policies, reserved)
    weight = weigh(rest.enforcing, owner_selectors)
    questions = Questions(Space(rest.enforcing, owner_selectors), total, each) if weight <= MOST_WEIGHT else None
    found = (*withheld, *_plain(rest, live_schedulers, {place for one in withheld for place in one.rules}))
    if questions is None:
        found += (_not_known(rest, list(_ABOUT.values()), _too_many(weight)),)
        return Report(found, weight)
    found += tuple(_Analysis(rest, owner_selectors, questions, weight).findings())
    return Report(found, weight + questions.work)


def left_out(policies: Policies) -> list[Finding]:
    """Return a finding for each policy of one namespace that is left out, as together they cost too much: by everybody,
    or by the API server where it enforces policies by itself.

    Files do not tell how old policies are: names decide.
    """
    prices = {policy.name: bounds.price(policy) for policy in policies.policies}
    ordered = sorted((bounds.Place(price.kind, "", name), price.units) for name, price in prices.items())
    applied = set(bounds.bound(ordered).applied)
    left = [place.name for place, _ in ordered if place not in applied]
    found = [Finding("over-bound", (name,), (), bounds.left_out(prices[name].units)) for name in left[:MOST]]
    fitted = policy_set([Source(policy, "", 0) for policy in policies.policies], "", "", Reserved())
    beyond = [name for name in fitted.left if name not in left]
    if beyond:
        others = len(beyond) - 1
        more = "" if not others else ", and so is 1 other" if others == 1 else f", and so are {others} others"
        closed = "; as one that rejects does not fit, nothing is let into the namespace" if fitted.closed else ""
        told = f"MetadataPolicy {cut(beyond[0], 80)} is left out where the API server enforces policies by itself{more}"
        found.append(Finding("not-native", tuple(beyond), (), f"{told}: {fitted.left[beyond[0]]}{closed}"))
    return found


def _finding(kind: Kind, rules: Sequence[Rule], message: str, example: JsonObject | None = None) -> Finding:
    policies = tuple(dict.fromkeys(rule.policy for rule in rules))
    return Finding(kind, policies, tuple(dict.fromkeys(rule.place for rule in rules)), message, example)


def _not_known(policies: Policies, about: Sequence[str], bound: str) -> Finding:
    names = tuple(dict.fromkeys(rule.policy for rule in policies.enforcing))
    return Finding("undecided", names, (), f"{TOO_COMPLEX}: {bound}; not known in full: {', '.join(about)}")


def _too_many(weight: int) -> str:
    return (
        f"the rules of these policies together mention too many keys and values "
        f"({weight}, where a value counts 1 and a key {AXIS}: want about {MOST_WEIGHT} at most)"
    )


# -- each rule by itself ---------------------------------------------------------------------------------------------


def _without(policies: Policies, reserved: Reserved) -> tuple[Policies, list[Finding]]:
    """Return the policies as they work here, and a finding for each write that is never made."""
    findings: list[Finding] = []
    kept: list[Policy] = []
    for policy in policies.policies:
        rules = []
        for rule in policy.rules:
            asked = {write.key: reserved.why(write.key, write.reserved_for) for write in rule.writes}
            gone = {key: why for key, why in asked.items() if why is not None}
            if gone and policy.mode == "enforce":
                findings += [_never_written(rule, key, why) for key, why in gone.items()]
            rules.append(_less(rule, gone.keys()) if gone else rule)
        kept.append(structs.replace(policy, rules=tuple(rules)))
    return (Policies(kept), findings[:MOST]) if findings else (policies, [])


def _less(rule: Rule, gone: Collection[str]) -> Rule:
    labels, annotations = (
        {key: value for key, value in writes.items() if key not in gone}
        for writes in (rule.action.labels, rule.action.annotations)
    )
    return structs.replace(rule, action=structs.replace(rule.action, labels=labels, annotations=annotations))


def _never_written(rule: Rule, key: str, why: str) -> Finding:
    message = f"{rule} writes {cut(key, 80)}, which is reserved ({why}): not written unless --allow-prefix says so"
    return _finding("reserved-key", [rule], message)


def _plain(policies: Policies, live: frozenset[str] | None, emptied: Collection[str]) -> Iterator[Finding]:
    """Yield what a rule says of itself. `emptied`: places of rules that had writes which are never made."""
    for rule in policies.enforcing:
        writes = len(rule.action.labels) + len(rule.action.annotations)
        for kind in rule.applies_to:
            if (why := mistake(kind)) is not None:
                yield _finding("unknown-kind", [rule], f"{rule} applies to {kind}: {why}")
        if rule.action.reject and writes:
            updates = "update is" if writes == 1 else f"{writes} updates are"
            yield _finding("void-writes", [rule], f"{rule} rejects, so its {updates} never written")
        if not rule.action.reject and not writes and rule.place not in emptied:
            yield _finding("no-action", [rule], f"{rule} neither rejects nor writes anything")
        for write in rule.writes:
            if (write.field, write.key) == ("annotation", keys.QOS):
                yield _finding("stamp-written", [rule], f"{rule} writes {_shown(write)}: on pods the QoS stamp stays")
        if live is not None and rule.scheduler not in (None, keys.DEFAULT_SCHEDULER, *live):
            message = f'{rule} sends pods to the scheduler "{rule.scheduler}", which has no live Lease'
            yield _finding("no-live-scheduler", [rule], message, _sent(rule))


def _sent(rule: Rule) -> JsonObject | None:
    """Return an object that the rule matches; None: there is none."""
    space = Space([rule])
    return _matched(Questions(space, TOTAL, EACH), rule) if space.can_match(rule) else None


def _contradiction(rule: Rule) -> str:
    """Return the criteria that no object can meet together."""
    if meet((), rule.applies_to) is None:
        return f"policies apply to no {' or '.join(rule.applies_to)}"
    by_axis: dict[Axis, list[tuple[Field, Requirement]]] = {}
    for field, requirement in criteria(rule):
        by_axis.setdefault((field, requirement.key), []).append((field, requirement))
    for same in by_axis.values():
        if meet(same, rule.applies_to) is None:
            return cut(" and ".join(f"{field} {one}" for field, one in same), TEXT)
    return "its criteria contradict each other"


# -- questions about all rules ---------------------------------------------------------------------------------------

_ABOUT = {
    "_self_poison": "whether what is written is rejected later",
    "_chains": "whether a second pass writes again",
    "_owned": "which writes take objects away from their owners",
    "_conflicts": "which rules can disagree",
    "_dead": "which rules never make a difference",
}
About = TypeVarTuple("About")


class _Analysis:
    def __init__(self, policies: Policies, owners: Sequence[LabelSelector], questions: Questions, weight: int) -> None:
        self.policies = policies
        self.rules = policies.enforcing
        self.owners = owners
        self.questions = questions
        self.weight = weight
        self.undecided: list[Finding] = []
        self._left_out: list[str] = []
        self._examples: dict[int, JsonObject] = {}
        self._one_pass = sum(1 + len(criteria(rule)) + len(rule.writes) for rule in self.rules)

    def findings(self) -> Iterator[Finding]:
        # What comes to a question for each rule goes before what comes to one for each pair of them.
        poisoned, chained, owned = (self._all(ask) for ask in (self._self_poison, self._chains, self._owned))
        conflicts, dead = (self._all(ask) for ask in (self._conflicts, self._dead))
        yield from (*dead, *conflicts, *poisoned, *chained, *owned)
        yield from self.undecided
        if self._left_out:
            total = self.questions.total
            steps = f"the rules of these policies together take more than {total} steps"
            bound = steps if self.questions.work > total else _too_many(self.weight)
            yield _not_known(self.policies, self._left_out, bound)

    def _all(self, ask: Callable[[], Iterator[Finding]]) -> list[Finding]:
        """Return all findings of one kind, each charged; if the budget runs out, the kind is reported as undecided."""
        found = []
        for finding in ask():
            self.questions.owe(FINDING)
            found.append(self._sharing(finding))
        if self.questions.exhausted:
            self._left_out.append(_ABOUT[ask.__name__])
        return found

    def _sharing(self, finding: Finding) -> Finding:
        """Return the finding, with an example that is kept once for all findings: thousands often have the same."""
        if finding.example is None:
            return finding
        kept = self._examples.setdefault(hash(msgspec.msgpack.encode(finding.example)), finding.example)
        return structs.replace(finding, example=kept) if kept == finding.example else finding

    def _dead(self) -> Iterator[Finding]:
        outcomes = [ask(self.rules, self.questions) for ask in (dead_rejects, dead_writers)]
        for rule in (rule for outcome in outcomes for rule in outcome.undecided):
            self._give_up(f"whether {rule} ever makes a difference", [rule])
        dead = {id(rule) for outcome in outcomes for rule in outcome.dead}
        for rule in (rule for rule in self.rules if id(rule) in dead):
            matches = self.questions.space.can_match(rule)
            if not matches:
                message = f"{rule} never matches: {_contradiction(rule)}"
            elif rule.action.reject:
                message = f"{rule} rejects nothing that other rules do not reject already"
            else:
                message = f"{rule} changes nothing: what it matches is rejected, overwritten, or says the same already"
            example = self._ask(f"what {rule} matches", [rule], _matched, rule) if matches else None
            yield _finding("dead-rule", [rule], message, example)

    def _conflicts(self) -> Iterator[Finding]:
        writes: dict[Axis, list[Write]] = {}
        for rule in self.rules:
            for write in rule.writes:
                writes.setdefault((write.field, write.key), []).append(write)
        for (field, key), wishes in sorted(writes.items()):
            for i, one in enumerate(wishes):
                self.questions.owe(len(wishes) - i)
                if self.questions.exhausted:
                    return
                for other in (other for other in wishes[i + 1 :] if other.value != one.value):
                    question = f"whether {one.rule} and {other.rule} can disagree on {field} {key}"
                    example = self._ask(question, [one.rule, other.rule], _disagreeing, one, other)
                    if example is not None:
                        wins = cut(other.value, VALUE)
                        message = f'{one.rule} writes {_shown(one)}, {other.rule} writes "{wins}" and wins'
                        yield _finding("conflicting-writes", [one.rule, other.rule], message, example)

    def _self_poison(self) -> Iterator[Finding]:
        for rule in self.rules:
            if not rule.action.reject:
                continue
            question = f"whether what the policies write can match {rule}, which rejects"
            example = self._ask(question, [rule], _poisoned, rule)
            if example is not None:
                self.questions.owe(2 * self._one_pass)
                involved, told = _poisoning(self.policies, example, rule)
                yield _finding("self-poison", involved, told, example)

    def _chains(self) -> Iterator[Finding]:
        for rule in self.rules:
            example = self._ask(f"whether a second pass can make {rule} write", [rule], _changed_again, rule)
            if example is not None:
                self.questions.owe((MOST_PASSES + 2) * self._one_pass)
                involved, told = _chain(self.policies, example, rule)
                yield _finding("not-idempotent", involved, told, example)

    def _owned(self) -> Iterator[Finding]:
        for write in (write for rule in self.rules for write in rule.writes if write.field == "label"):
            question = f"whether {write.rule} can take {write.key} away from an owner"
            example = self._ask(question, [write.rule], _lost, write, self.owners)
            if example is not None:
                message = (
                    f"{write.rule} writes {_shown(write)}, and an owner that finds its objects by that label loses them"
                )
                yield _finding("owner-selector", [write.rule], message, example)

    def _ask(
        self,
        question: str,
        rules: list[Rule],
        ask: Callable[[Questions, *About], JsonObject | None],
        *about: *About,
    ) -> JsonObject | None:
        """Return an example; if it could not be decided whether there is one, that is noted."""
        if self.questions.exhausted:
            return None  # which is said once, of all that is left out
        try:
            return ask(self.questions, *about)
        except TooComplexError:
            if not self.questions.exhausted:
                self._give_up(question, rules)
        return None

    def _give_up(self, question: str, rules: list[Rule]) -> None:
        self.questions.owe(FINDING)
        self.undecided.append(_finding("undecided", rules, f"{TOO_COMPLEX}: {question}"))


def _matched(about: Questions, rule: Rule) -> JsonObject | None:
    """Return an object that the rule matches; None: there is none."""
    return about.ask(about.matches(rule))


def _disagreeing(about: Questions, one: Write, other: Write) -> JsonObject | None:
    """Return an object to which both writes apply; None: there is none."""
    if not (about.space.gets_anywhere(one) and about.space.gets_anywhere(other)):
        return None
    return about.ask(about.accepted, about.writes(one), about.writes(other))


def _poisoned(about: Questions, rule: Rule) -> JsonObject | None:
    """Return an object that is accepted, and that the rule rejects once it is changed; None: there is none."""
    box = about.space.boxes.get(id(rule), {})
    if not any(axis in about.space.writers for axis in box):
        return None
    return about.ask(about.accepted, about.matches_after(rule))


def _changed_again(about: Questions, rule: Rule) -> JsonObject | None:
    """Return an object of which this rule changes a key in the second pass, as its last writer; None: there is none."""
    for write in rule.writes:
        later = about.space.later(write)
        if later is None:
            continue
        deciding = [rule, *(other.rule for other in later)]
        about.owe(len(deciding))
        # If no key that decides who writes here is ever written, the second pass decides as the first did.
        if not any(axis in about.space.writers for one in deciding for axis in about.space.boxes[id(one)]):
            continue
        example = about.ask(
            about.accepted,
            about.writes_after(write),
            about.accepted_after,
            about.none_of_after(deciding[1:]),
            about.among_after((write.field, write.key), changed_by(write)),
        )
        if example is not None:
            return example
    return None


def _lost(about: Questions, write: Write, owners: Sequence[LabelSelector]) -> JsonObject | None:
    """Return an object whose owner does not find it any more, because this write is the last; None: there is none."""
    asking = [owner for owner in owners if _refuses(owner, write) and not owner.nothing]
    later = about.space.later(write)
    if later is None or not asking:
        return None
    about.owe(len(later))
    last = [about.accepted, about.matches(write.rule), *about.none_of(other.rule for other in later)]
    for owner in asking:
        about.owe(1 + len(owner.requirements))
        selected = about.space.box(("label", requirement) for requirement in owner.requirements)
        example = None if selected is None else about.ask(last, about.inside(selected))
        if example is not None:
            return example
    return None


def _refuses(owner: LabelSelector, write: Write) -> bool:
    """Return whether the owner's selector does not match an object with this label."""
    return any(one.key == write.key and not one.accepts(write.value) for one in owner.requirements)


# -- rules that never make a difference ------------------------------------------------------------------------------
# Leave them out, and every object has the same outcome. They are found one by one, each against the rules that are
# left, so all of them together can go and none of the others can. A rule that rejects is dead when other rejects match
# wherever it does. A write is dead when wherever it would be the last word, the object or the writer before it already
# says the same.


class Outcome(NamedTuple):
    """Rules that never make a difference, and those that could not be decided."""

    dead: list[Rule]
    undecided: list[Rule]


def dead_rejects(rules: Sequence[Rule], questions: Questions) -> Outcome:
    """Return the rules that reject and never matter. It stops once no question is answered any more."""
    alive = [rule for rule in rules if rule.action.reject]
    outcome = Outcome([], [])
    for rule in reversed(alive):
        if questions.exhausted:
            break
        others = [other for other in alive if other is not rule]
        try:
            if not _rejects_alone(rule, others, questions):
                alive = others
                outcome.dead.append(rule)
        except TooComplexError:
            outcome.undecided.append(rule)
    return outcome


def dead_writers(rules: Sequence[Rule], questions: Questions) -> Outcome:
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
    while waiting and not questions.exhausted:
        rule = waiting.pop()
        try:
            if any(_last_word(write, questions, gone) for write in rule.writes):
                known.discard(id(rule))
                continue
        except TooComplexError:
            outcome.undecided.append(rule)
            continue
        outcome.dead.append(rule)
        gone.add(id(rule))
        # A rule that mattered only because of this one may be dead now.
        beside = [other for write in rule.writes for other in writing[write.field, write.key]]
        questions.owe(len(beside))
        again = {id(other): other for other in beside if id(other) not in known}
        known |= again.keys()
        waiting += sorted(again.values(), key=lambda other: place[id(other)])
    return outcome


def _rejects_alone(rule: Rule, others: Sequence[Rule], about: Questions) -> bool:
    """Return whether an object exists that this rule rejects and no other rule does."""
    return about.space.can_match(rule) and about.ask(about.matches(rule), about.none_of(others)) is not None


def _last_word(write: Write, about: Questions, gone: set[int]) -> bool:
    """Return whether an object exists that gets another value on this key because of this write."""
    axis = write.field, write.key
    about.owe(len(about.space.writers.get(axis, ())))
    writers = [other for other in about.space.writers.get(axis, ()) if id(other.rule) not in gone]
    mine = next((i for i, other in enumerate(writers) if other.rule is write.rule), None)
    if mine is None:
        return False  # it never matches
    before = [other.rule for other in writers[:mine]]
    last = [about.accepted, about.writes(write), *about.none_of(other.rule for other in writers[mine + 1 :])]
    if about.ask(last, about.none_of(before), about.among(axis, changed_by(write))) is not None:
        return True
    for i, earlier in enumerate(writers[:mine]):
        if earlier.value == write.value:
            about.owe(1)
            continue
        if about.ask(last, about.matches(earlier.rule), *about.none_of(before[i + 1 :])) is not None:
            return True
    return False


# -- counterexamples in words ----------------------------------------------------------------------------------------


_ALL_WRITTEN = Options(reserve_known=False)
"""What is never written was taken out of the policies before (`_without`)."""


def passes(policies: Policies, obj: JsonObject) -> list[Verdict]:
    """Return the verdicts of repeated passes, until one denies, nothing changes, or an object recurs."""
    found: list[Verdict] = []
    seen: list[Snapshot] = []
    while len(found) < MOST_PASSES:
        verdict = evaluate(policies, "CREATE", obj, None, _ALL_WRITTEN)
        found.append(verdict)
        after = objects.snapshot(verdict.object)
        if not verdict.allowed or not verdict.patch or after in seen:
            break
        seen.append(after)
        obj = verdict.object or {}
    return found


def _written(policies: Policies, obj: JsonObject) -> list[Write]:
    """Return the writes that one pass makes on an object that is not rejected."""
    is_pod = objects.is_pod(obj)
    labels, annotations = objects.snapshot(obj).labels, dict(objects.snapshot(obj).annotations)
    if is_pod:
        annotations[keys.QOS] = qos_class(obj)
    matching = [rule for rule in policies.enforcing if rule.matches(objects.kind(obj), labels, annotations)]
    merged = merge(matching, Snapshot(labels, annotations), is_pod, _ALL_WRITTEN.reserved)
    return [*merged.labels.values(), *merged.annotations.values()]


def _poisoning(policies: Policies, obj: JsonObject, rule: Rule) -> tuple[list[Rule], str]:
    """Return the writes of the first pass that make a rule reject the result."""
    writes = _written(policies, obj)
    enabling = [write for write in writes if _reads(write, rule)] or writes
    return [*_rules(enabling), rule], f"{_told(enabling)}; then {rule} rejects every later update"


def _chain(policies: Policies, obj: JsonObject, rule: Rule) -> tuple[list[Rule], str]:
    """Return the way in which one pass makes another change the object again, and its end."""
    verdicts = passes(policies, obj)
    first = _written(policies, obj)
    middle = verdicts[0].object or {}
    second = _written(policies, middle)
    enabling = [write for write in first if any(_reads(write, of.rule) for of in second)] or first
    told = f"{_told(enabling)}; in a second pass {_told(second)}"
    others = [one for one in [*_rules(enabling), *_rules(second)] if one is not rule]
    return [*others, rule], f"{told}; {_ending(verdicts)}"


def _ending(verdicts: list[Verdict]) -> str:
    last = verdicts[-1]
    if not last.allowed:
        return f"pass {len(verdicts)} is rejected"
    if not last.patch:
        return f"it rests after {len(verdicts) - 1} passes"
    if len(verdicts) >= MOST_PASSES:
        return f"it still changes after {MOST_PASSES} passes"
    return "it never rests"


def _reads(write: Write, rule: Rule) -> bool:
    return any((field, requirement.key) == (write.field, write.key) for field, requirement in criteria(rule))


def _told(writes: list[Write]) -> str:
    told = [f"{write.rule} writes {_shown(write)}" for write in writes[:_MOST_WRITES]]
    if len(writes) > _MOST_WRITES:
        told.append(f"and {len(writes) - _MOST_WRITES} more")
    return ", ".join(told) or "nothing is written"


def _shown(write: Write) -> str:
    """Return a write in words, its value cut to what a reader needs."""
    return f'{write.field} {write.key}="{cut(write.value, VALUE)}"'


def _rules(writes: list[Write]) -> list[Rule]:
    return list({id(write.rule): write.rule for write in writes}.values())
