"""Where something just fits, and where one more does not: texts, lists, sizes, and who is exempt."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.model.selectors import LabelSelector
from podberth.policy import options
from podberth.policy.analyse import MOST_PASSES, analyse, passes
from podberth.policy.evaluate import (
    MOST_REASONS,
    Effect,
    Operation,
    Verdict,
    conflict_told,
    denial,
    evaluate,
    lost_told,
    skipped_told,
)
from podberth.policy.exempt import SET
from podberth.policy.impact import SAMPLES, impact, owner
from podberth.policy.native.admission_policies import same
from podberth.policy.native.expressions import text
from podberth.policy.native.policy_set import label_of
from podberth.policy.options import selector
from podberth.policy.spec import Rule, cut
from tests.unit.policy.build import QOS, Object, config_map, has, needs, pod, policies, policy, rule

MIRROR = {"kubernetes.io/config.mirror": "x"}
VALIDATE: dict[str, Any] = {"pass": "validate"}
RULER = policy("p", rule(reject=True))


def rules(*documents: Object) -> list[Rule]:
    """The rules of all policies, in their order."""
    return [one for each in policies(*documents).policies for one in each.rules]


def judged(*documents: Object, obj: Object, old: Object | None = None, update: bool = False, **given: Any) -> Verdict:
    """The verdict on an object that comes or is updated."""
    operation: Operation = "UPDATE" if update else "CREATE"
    return evaluate(policies(*documents), operation, obj, old, options.parse(given))


@pytest.mark.parametrize(("given", "shown"), [("abcd", "abcd"), ("abcde", "a..."), ("", "")])
def test_a_text_that_fits_is_left_alone(given: str, shown: str) -> None:
    assert cut(given, 4) == shown


@pytest.mark.parametrize(
    ("more", "key", "loses", "wins", "policy_name", "rule_name"),
    [
        (0, "k" * 40, "l" * 16, "w" * 16, "p" * 28, "r" * 24),
        (1, "k" * 37 + "...", "l" * 13 + "...", "w" * 13 + "...", "p" * 25 + "...", "r" * 21 + "..."),
    ],
)
def test_a_warning_of_a_conflict(more: int, key: str, loses: str, wins: str, policy_name: str, rule_name: str) -> None:
    """Key, values and names each have a room of their own."""
    place = policy_name + "/" + rule_name
    one, other = (
        rules(
            policy(
                "p" * (28 + more),
                rule(set_annotations={"k" * (40 + more): letter * (16 + more)}, name="r" * (24 + more)),
            )
        )[0]
        for letter in "lw"
    )
    assert conflict_told((one.writes[0], other.writes[0])) == (
        f'annotation {key}: {place} writes "{loses}", {place} writes "{wins}" and wins'
    )
    assert skipped_told(one.writes[0], "why") == f"annotation {key} not written for {place}: why"
    assert lost_told(other.writes[0]).startswith(f'label {key}: {place} writes "{wins}", and the object')


def test_as_many_reasons_as_a_denial_has_room_for() -> None:
    some = rules(policy("p", *(rule(reject=True, message=str(i)) for i in range(MOST_REASONS))))
    assert denial(some) == "; ".join(f'MetadataPolicy "p" rules[{i}]: {i}' for i in range(len(some)))
    assert denial([*some, some[0]]).endswith(f"rules[{len(some) - 1}]: {len(some) - 1}; and 1 more rules")


def named(letter: str, length: int) -> str:
    """A policy's name of that length."""
    return "".join("." if at % 50 == 49 else letter for at in range(length - 1)) + letter


@pytest.mark.parametrize(
    ("more", "last", "ending"), [(0, [], "x/rules[0]"), (1, [], "x/rule..."), (0, ["z"], "x/rules...")]
)
def test_what_an_audit_annotation_holds(more: int, last: list[str], ending: str) -> None:
    """1,024 characters, and dots where there was more."""
    names = [*(named(letter, 245) for letter in "abc"), named("x", 250 + more), *last]
    found = judged(*(policy(name, rule(reject=True)) for name in names), obj=config_map())
    assert found.audit["rejected-by"].endswith(ending)
    assert len(found.audit["rejected-by"]) == 1024


def test_what_rejects_the_final_object_is_counted() -> None:
    """Policies that matched and do not reject are counted in the mutating pass already."""
    writes = policy("w", rule(set_annotations={"a": "b"}))
    found = judged(RULER, writes, obj=config_map(), **VALIDATE)
    assert found.effects == (Effect("p", rejected=True, mutated=False),)


def test_a_stamp_of_any_length_is_shown_in_part() -> None:
    found = judged(RULER, obj=pod(annotations={QOS: "x" * 50}), **VALIDATE)
    assert f'Invalid value: "{"x" * 40}": the class' in found.message


@pytest.mark.parametrize(
    ("who", "old", "exempt"),
    [
        ({"username": "mallory"}, None, False),
        ({"groups": ["system:authenticated"]}, None, False),
        ({}, None, True),
        ({"username": "mallory"}, MIRROR, True),
        ({"username": "mallory"}, {}, False),
    ],
)
def test_who_says_that_a_pod_is_a_mirror(who: Object, old: Object | None, exempt: bool) -> None:
    """A kubelet when it is created; afterwards it is one, or is none."""
    now = pod({"new": "label"}, annotations=MIRROR)
    before = None if old is None else pod(annotations=old)
    found = judged(RULER, obj=now, old=before, update=old is not None, userInfo=who)
    assert (found.exempt is not None) == exempt


@pytest.mark.parametrize(
    ("kind", "name", "exempt"),
    [("LimitRange", SET, True), ("LimitRange", "other", False), ("ConfigMap", SET, False)],
)
def test_the_set_of_a_namespace_is_exempt(kind: str, name: str, exempt: bool) -> None:
    """Policies do not apply to what they are enforced by; another object of its kind or name is like any."""
    now = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team-a"}}
    assert (judged(RULER, obj=now).exempt is not None) == exempt


def test_an_update_to_a_mirror_whose_past_is_not_known() -> None:
    found = judged(RULER, obj=pod(annotations=MIRROR), update=True, userInfo={"username": "mallory"})
    assert found.exempt == "mirror pods are exempt"


def test_owners_are_known_by_their_kind() -> None:
    """A ReplicationController has a plain map, and a Service of that shape is no owner."""
    meta = {"name": "r", "uid": "u"}
    spec = {"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}}}
    made = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": meta, "spec": spec}
    found = owner(made)
    assert found is not None and found.selector == selector({"a": "b"}, "x")
    assert owner({**made, "kind": "Service"}) is None


@pytest.mark.parametrize("field", ["spec", "selector", "template"])
def test_an_owner_that_says_too_little(field: str) -> None:
    """It is not valid in the API: nothing is known of what it makes."""
    spec: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "uid": "u"}, "spec": spec}
    assert owner(made) is not None
    made.pop(field, None)
    spec.pop(field, None)
    assert owner(made) is None


@pytest.mark.parametrize("document", [{"matchLabels": {"a": "b"}}, {"a": "b"}])
def test_selectors_of_both_shapes(document: Object) -> None:
    both = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}], "matchLabels": {}}
    assert selector(document, "x") == selector(both, "x")


def test_so_many_rejections_are_shown() -> None:
    found = impact(policies(RULER), [config_map() for _ in range(SAMPLES + 1)], options.parse({}))
    assert (len(found.rejections), found.total.rejected) == (SAMPLES, SAMPLES + 1)


@pytest.mark.parametrize(("length", "kept"), [(63, True), (64, False)])
def test_a_release_that_is_a_label(length: int, kept: bool) -> None:
    assert (label_of("r" * length) == "r" * length) == kept
    assert len(label_of("r" * length)) == 63


@pytest.mark.parametrize(
    ("character", "spelled"), [("\uffff", '"\\uffff"'), ("\U0001fffe", '"\\U0001fffe"'), ("\x01", '"\\u0001"')]
)
def test_a_character_that_is_not_printed(character: str, spelled: str) -> None:
    assert text(character) == spelled


@pytest.mark.parametrize(
    ("found", "wanted", "alike"),
    [
        ({"scope": "*", "a": [1]}, {"a": [1]}, True),
        ({"scope": "Namespaced", "a": [1]}, {"a": [1]}, False),
        ({"a": {"failurePolicy": "Fail"}}, {}, True),
        ({"a": [{"scope": "*"}]}, {"a": [{}]}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": None, "b": [], "c": 0}, {"c": 0}, True),
        ({"c": 0}, {}, False),
    ],
)
def test_what_the_api_server_fills_in_is_no_difference(found: object, wanted: object, alike: bool) -> None:
    assert same(found, wanted) == same(wanted, found) == alike


def test_a_chain_that_does_not_end_soon_is_told_so() -> None:
    """One rule writes what the next one reads: each pass makes one more step."""

    def steps(number: int) -> Object:
        made = [rule(has(**{f"k{i}": "on"}), set_labels={f"k{i + 1}": "on"}) for i in range(number)]
        return policy("p", *made)

    def told(number: int) -> str:
        found = analyse(policies(steps(number))).findings
        return next(one.message for one in found if one.kind == "not-idempotent").rpartition("; ")[2]

    assert told(2) == "it rests after 2 passes"
    obj = config_map({"k0": "on"})
    assert len(passes(policies(steps(MOST_PASSES + 5)), obj)) == MOST_PASSES
    assert len(passes(policies(steps(3)), obj)) == 4


def test_many_writes_are_told_in_part() -> None:
    def told(number: int) -> str:
        writes = {f"k{i}": "on" for i in range(number)}
        one = policy("p", rule(needs("k0", "DoesNotExist"), set_labels=writes), rule(writes_all(writes), reject=True))
        [found] = [one for one in analyse(policies(one)).findings if one.kind == "self-poison"]
        return found.message

    assert told(8).count(" writes ") == 8
    assert "more" not in told(8)
    assert ", and 1 more; then" in told(9)


def writes_all(writes: Object) -> Object:
    """A selector for all of them."""
    return {"matchLabels": writes}


def test_only_writes_that_a_rule_reads_are_told() -> None:
    """Of two writes, the one that makes the object match the reject."""
    one = policy(
        "p",
        rule(needs("ok", "Exists"), set_labels={"bad": "yes", "fine": "yes"}),
        rule({"matchLabels": {"bad": "yes", "ok": "1"}}, reject=True),
    )
    [found] = [each for each in analyse(policies(one)).findings if each.kind == "self-poison"]
    assert found.message == (
        'MetadataPolicy "p" rules[0] writes label bad="yes"; '
        'then MetadataPolicy "p" rules[1] rejects every later update'
    )


def test_a_pods_class_can_be_what_a_rule_reads() -> None:
    """Its stamp counts in the story of a pod, too."""
    one = policy(
        "p",
        rule(annotations=needs(QOS, "In", "BestEffort"), set_labels={"x": "1"}),
        rule(has(x="1"), annotations=needs(QOS, "In", "BestEffort"), reject=True),
    )
    messages = [each.message for each in analyse(policies(one)).findings if each.kind == "self-poison"]
    assert messages == [
        'MetadataPolicy "p" rules[0] writes label x="1"; then MetadataPolicy "p" rules[1] rejects every later update'
    ]


@pytest.mark.parametrize(
    ("asks", "writes", "kept"),
    [
        (needs("app", "In", "w"), {"app": "x"}, True),
        (needs("app", "In", "w", "x"), {"app": "x"}, False),
        (needs("app", "Exists"), {"app": "x"}, False),
        (needs("app", "DoesNotExist"), {"app": "x"}, True),
        (needs("other", "Exists"), {"app": "x"}, False),
    ],
)
def test_labels_that_owners_read(asks: Object, writes: dict[str, str], kept: bool) -> None:
    owner: LabelSelector = selector(asks, "x")
    found = analyse(policies(policy("p", rule(set_labels=writes))), [owner]).findings
    assert [one.kind for one in found] == (["owner-selector"] if kept else [])
