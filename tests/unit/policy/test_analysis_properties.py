"""The analysis against brute force: the evaluator run on every object that a small alphabet allows."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy import objects
from podberth.policy.analyse import analyse, passes
from podberth.policy.evaluate import evaluate, merge
from podberth.policy.objects import Snapshot
from podberth.policy.options import Options
from podberth.policy.spec import Policies, Rule
from tests.unit.policy.build import QOS, Object, config_map, pod, policies, policy

LABELS = ("a", "b", "c")
OWNERS = (
    LabelSelector((Requirement("a", "In", frozenset({"x"})),)),
    LabelSelector((Requirement("b", "DoesNotExist"), Requirement("c", "Exists"))),
)
KINDS = ("Pod", "ConfigMap", "Lease.coordination.k8s.io")
"""Kinds that rules name; policies never apply to the last one."""
ANNOTATIONS = ("n", QOS)
VALUES = (None, "x", "y", "fresh")
AMOUNTS = {"cpu": "1", "memory": "1Gi"}
QUALITIES: tuple[Object | None, ...] = (None, {"requests": AMOUNTS}, {"limits": AMOUNTS})


def universe() -> list[Object]:
    """Every object over the alphabet: pods of each QoS class, others of a kind that rules name, and of one that none
    does.
    """
    found: list[Object] = []
    for *values, n in product(VALUES, VALUES, VALUES, (None, "x", "fresh")):
        labels = {key: value for key, value in zip(LABELS, values, strict=True) if value is not None}
        annotations = {} if n is None else {"n": n}
        found += [pod(labels, annotations, resources) for resources in QUALITIES]
        for quality in (None, "Guaranteed", "BestEffort", "x"):
            other = config_map(labels, annotations if quality is None else {**annotations, QOS: quality})
            found += [other, {**other, "apiVersion": "apps/v1", "kind": "Deployment"}]
    return found


UNIVERSE = universe()


@st.composite
def requirement(draw: st.DrawFn, keys: tuple[str, ...]) -> Object:
    """One expression over the alphabet."""
    key = draw(st.sampled_from(keys))
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    values = {QOS: ("Guaranteed", "BestEffort"), "n": ("x",)}.get(key, ("x", "y"))
    return {"key": key, "operator": operator, "values": draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))}


@st.composite
def a_rule(draw: st.DrawFn) -> Object:
    """A rule over the alphabet: a third of them reject."""
    labels = draw(st.lists(requirement(LABELS), max_size=2))
    annotations = draw(st.lists(requirement(ANNOTATIONS), max_size=1))
    kinds = draw(st.just([]) | st.lists(st.sampled_from(KINDS), max_size=2, unique=True))
    about: Object = {"appliesTo": kinds} if kinds else {}
    predicate: Object = {}
    if labels:
        predicate["labelSelector"] = {"matchExpressions": labels}
    if annotations:
        predicate["annotationSelector"] = {"matchExpressions": annotations}
    if draw(st.integers(0, 2)) == 0:
        return {**about, "policyPredicate": predicate, "policyAction": {"reject": True}}
    written = st.sampled_from(("x", "y"))
    action = {
        "updatedLabels": draw(st.dictionaries(st.sampled_from(LABELS), written, max_size=2)),
        "updatedAnnotations": draw(st.dictionaries(st.sampled_from(ANNOTATIONS), st.just("x"), max_size=1)),
    }
    return {**about, "policyPredicate": predicate, "policyAction": action}


some_policies = st.lists(st.lists(a_rule(), min_size=1, max_size=3), min_size=1, max_size=3).map(
    lambda found: policies(*(policy(f"p{i}", *rules) for i, rules in enumerate(found)))
)


class Pass:
    """One object through f once and twice, with who matched and who was the last to write in the second pass."""

    def __init__(self, all_policies: Policies, obj: Object) -> None:
        self.before = obj
        self.matched = matching(all_policies, obj)
        first = evaluate(all_policies, "CREATE", obj)
        self.allowed, self.after = first.allowed, first.object or {}
        self.key = outcome(first.allowed, self.after)
        self.then: list[Rule] = []
        self.writers: list[Rule] = []
        self.losing: list[Rule] = []
        self.stays = True
        if first.allowed:
            owned = evaluate(all_policies, "CREATE", obj, None, Options(owner_selectors=OWNERS))
            self.losing = [write.rule for write in owned.lost]
            self.then = matching(all_policies, self.after)
            second = evaluate(all_policies, "CREATE", self.after)
            self.stays = second.allowed and not second.patch
            if second.allowed:
                merged = merge(self.then, snapshot(self.after), objects.is_pod(obj))
                self.writers = [write.rule for write in (*merged.labels.values(), *merged.annotations.values())]


def snapshot(obj: Object) -> Snapshot:
    """What predicates see (a pod's stamp comes from the evaluator itself)."""
    stamped = evaluate(Policies(), "CREATE", obj).object
    return objects.snapshot(stamped)


def matching(all_policies: Policies, obj: Object) -> list[Rule]:
    """The rules whose predicate holds."""
    seen = snapshot(obj)
    kind = objects.kind(obj)
    return [rule for rule in all_policies.enforcing if rule.matches(kind, seen.labels, seen.annotations)]


def outcome(allowed: bool, obj: Object) -> Any:
    """What a policy decides about an object, comparable."""
    seen = objects.snapshot(obj)
    scheduler = (obj.get("spec") or {}).get("schedulerName")
    return (dict(seen.labels), dict(seen.annotations), scheduler) if allowed else "rejected"


def without(all_policies: Policies, gone: set[str]) -> Policies:
    """The policies without some rules (named by place)."""
    return Policies(
        structs.replace(one, rules=tuple(rule for rule in one.rules if rule.place not in gone))
        for one in all_policies.policies
    )


def outcomes(all_policies: Policies) -> list[Any]:
    """The outcome of every object."""
    found = (evaluate(all_policies, "CREATE", obj) for obj in UNIVERSE)
    return [outcome(verdict.allowed, verdict.object or {}) for verdict in found]


@settings(max_examples=25, deadline=None)
@given(some_policies)
def test_two_passes(all_policies: Policies) -> None:
    """Self-poison, chains and conflicts are found for exactly those rules for which some object shows them."""
    report = analyse(all_policies, OWNERS)
    assert report.decided
    seen = [Pass(all_policies, obj) for obj in UNIVERSE]
    poisoned = {rule.place for one in seen if one.allowed for rule in one.then if rule.action.reject}
    assert {finding.rules[-1] for finding in report.of("self-poison")} == poisoned
    again = {rule.place for one in seen if one.allowed for rule in one.writers}
    assert {finding.rules[-1] for finding in report.of("not-idempotent")} == again
    losing = {rule.place for one in seen if one.allowed for rule in one.losing}
    assert {finding.rules[0] for finding in report.of("owner-selector")} == losing
    assert all(one.stays for one in seen) is not bool(report.of("self-poison", "not-idempotent"))
    disagreeing = set()
    for one in seen:
        if not one.allowed:
            continue
        for first, second in combinations(one.matched, 2):
            if _disagree(first, second, objects.is_pod(one.before)):
                disagreeing.add((first.place, second.place))
    assert {finding.rules for finding in report.of("conflicting-writes")} == disagreeing


def _disagree(first: Rule, second: Rule, is_pod: bool) -> bool:
    if first.action.reject or second.action.reject:
        return False
    pairs = ((first.action.labels, second.action.labels), (first.action.annotations, second.action.annotations))
    return any(
        key in theirs and theirs[key] != value and not (is_pod and key == QOS)
        for mine, theirs in pairs
        for key, value in mine.items()
    )


@settings(max_examples=8, deadline=None)
@given(some_policies)
def test_dead_rules(all_policies: Policies) -> None:
    """Dead rules can all go without any object noticing, and none of the others can."""
    dead = {finding.rules[0] for finding in analyse(all_policies).of("dead-rule")}
    idle = {finding.rules[0] for finding in analyse(all_policies).of("no-action")}
    before = outcomes(all_policies)
    assert outcomes(without(all_policies, dead | idle)) == before
    for rule in all_policies.enforcing:
        if rule.place not in dead | idle:
            assert outcomes(without(all_policies, dead | idle | {rule.place})) != before, rule


@settings(max_examples=80, deadline=None)
@given(some_policies)
def test_examples_show_what_they_claim(all_policies: Policies) -> None:
    """Each finding's example, run through the evaluator, does what the finding says."""
    rules = {rule.place: rule for rule in all_policies.enforcing}
    for finding in analyse(all_policies, OWNERS).findings:
        example, named = finding.example, [rules[place] for place in finding.rules]
        match finding.kind:
            case "self-poison":
                first, *rest = passes(all_policies, example or {})
                assert first.allowed
                assert not rest[0].allowed
                assert f'"{named[-1].policy}" rules[{named[-1].index}]' in rest[0].message
            case "not-idempotent":
                first, second, *_ = passes(all_policies, example or {})
                assert first.allowed
                assert second.allowed
                assert second.patch
            case "conflicting-writes":
                verdict = evaluate(all_policies, "CREATE", example)
                assert verdict.allowed
                assert {rule.policy for rule in named} <= set(verdict.conflicts)
            case "dead-rule" if example is not None:
                assert named[0] in matching(all_policies, example)
            case "dead-rule":
                assert not any(named[0] in matching(all_policies, obj) for obj in UNIVERSE)
            case "owner-selector":
                verdict = evaluate(all_policies, "CREATE", example, None, Options(owner_selectors=OWNERS))
                assert named[0] in [write.rule for write in verdict.lost]
