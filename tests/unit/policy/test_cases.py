"""Cases as JSON: what `berth policy eval --cases` promises, and what `berth policy test` says of expectations."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.policy import options
from podberth.policy.cases import CaseError, answer, check
from tests.unit.policy.build import Object, config_map, has, pod, policies, policy, rule


def test_answer() -> None:
    """All promised fields are there; policies that can't be accepted are named and the others decide."""
    bad = policy("bad", rule(set_labels={"kubernetes.io/x": "y"}))
    good = policy("good", rule(set_labels={"a": "b"}))
    every = policy("every", {"policyAction": {"reject": True}})
    got = answer({"id": 1, "policies": [bad, good, 3, every], "operation": "CREATE", "object": config_map()})
    warnings = got.pop("warnings")
    assert got == {
        "allowed": True,
        "code": 200,
        "message": "",
        "patch": [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
        "object": config_map({"a": "b"}),
    }
    assert warnings[0].startswith('MetadataPolicy "bad" is not accepted: spec.rules[0]')
    assert warnings[1] == 'MetadataPolicy "policies[2]" is not accepted: <policy>: Invalid value: 3: want a map'
    assert warnings[2] == 'MetadataPolicy "every" is not accepted: spec.rules[0].policyPredicate: Required value'


def test_allowed_prefixes() -> None:
    """The allow-list of reserved prefixes is an option."""
    labels = {"node.kubernetes.io/x": "y"}
    case = {"policies": [policy("p", rule(set_labels=labels))], "object": config_map()}
    assert answer(case)["object"] == config_map()
    assert answer({**case, "options": {"allowedPrefixes": ["node.kubernetes.io/"]}})["object"] == config_map(labels)


def test_little_is_needed() -> None:
    """Absent policies, operation and options work; null is absent; unknown options are ignored."""
    assert answer({"object": config_map()})["patch"] == []
    case: Object = {"policies": None, "operation": None, "oldObject": None, "options": None, "object": config_map()}
    assert answer(case)["allowed"]
    given = {"userInfo": {"username": "a", "uid": "b", "extra": {}}, "stamp": None, "surprise": 1}
    assert answer({"object": pod(), "operation": "create", "options": given})["allowed"]
    assert answer({"operation": "DELETE", "object": None})["object"] is None


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (3, "want a JSON object with policies, operation and object"),
        ({}, "object: Required value"),
        ({"object": []}, "object: want an API object, got a list"),
        ({"object": {"metadata": "x"}}, "object.metadata: want a map, got text"),
        ({"object": {"metadata": {"labels": {"a": 1}}}}, "object.metadata.labels[a]: Invalid value: 1: want a text"),
        ({"object": {"metadata": {"annotations": []}}}, "object.metadata.annotations: want a map, got a list"),
        ({"object": {"apiVersion": "v1", "kind": "Pod", "spec": []}}, "object.spec: want a map, got a list"),
        ({"object": {}, "oldObject": {"metadata": 1}}, "oldObject.metadata: want a map, got a number"),
        (
            {"object": {}, "operation": "PATCH"},
            'operation: Unsupported value: "PATCH": want CREATE, UPDATE, DELETE, CONNECT',
        ),
        ({"object": {}, "policies": {}}, "policies: want a list, got a mapping"),
        ({"object": {}, "options": {"stamp": "yes"}}, "options.stamp: expected true or false, got text"),
        ({"object": {}, "options": {"ownerSelector": "x"}}, "options.ownerSelector: expected a mapping, got text"),
        ({"object": {}, "options": {"pass": "x"}}, 'options.pass: "x": not one of the values that it may have'),
        (
            {"object": {}, "options": {"ownerSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}},
            'options.ownerSelector.matchExpressions[0].operator: Unsupported value: "Gt"',
        ),
    ],
)
def test_wrong_cases(case: Any, problem: str) -> None:
    """What can't be read is named by its field."""
    with pytest.raises(CaseError) as error:
        answer(case)
    assert str(error.value) == problem


def test_known_options() -> None:
    """The names that docs/policy.md lists."""
    assert {
        "namespace",
        "ownNamespace",
        "subResource",
        "userInfo",
        "pass",
        "ownerSelector",
        "allowedPrefixes",
        "liveSchedulers",
        "reservedPrefixes",
        "reserveKnown",
        "stamp",
    } == options.KNOWN


POISON = [
    policy("tag", rule(set_labels={"tier": "front"})),
    policy("ban", rule({"matchLabels": {"tier": "front"}}, reject=True)),
    policy("told", rule({"matchLabels": {"tier": "front"}}, reject=True), mode="warn"),
]


@pytest.mark.parametrize(("asked", "allowed"), [({}, False), ({"pass": None}, False), ({"pass": "mutate"}, True)])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_what_is_written_is_judged_too(asked: Object, allowed: bool, operation: str) -> None:
    """Both passes answer, as they do for a request to the API server, unless one of them is asked for."""
    case = {"policies": POISON, "operation": operation, "object": config_map(), "oldObject": config_map({"a": "b"})}
    got = answer({**case, "options": asked})
    assert (got["allowed"], got["object"]) == (allowed, config_map({"tier": "front"} if allowed else None))
    if not allowed:
        assert got["message"] == 'MetadataPolicy "ban" rules[0]: rejects every object where label tier in (front)'
        assert got["patch"] == []
        assert got["warnings"] == ["would be rejected by told/rules[0]: label tier in (front)"]
    assert not answer({**case, "object": config_map({"tier": "front"}), "options": {"pass": "validate"}})["allowed"]


def test_both_passes_warn() -> None:
    """A policy in mode warn says of what is written what it would do, too."""
    got = answer({"policies": [POISON[0], POISON[2]], "object": config_map()})
    assert (got["allowed"], got["patch"] != []) == (True, True)
    assert got["warnings"] == ["would be rejected by told/rules[0]: label tier in (front)"]


LABELS = policy("labels", rule(set_labels={"seen": "yes"}))
WARNS = policy("warns", rule(set_labels={"more": "yes"}), mode="warn")
REJECTS = policy("rejects", rule(has(app="bad"), reject=True, message="no bad ones"))
WARNING = 'warns/rules[0] would write label more="yes"'


def differing(expect: Object, obj: Object) -> list[str]:
    """Of a case about an object that is created."""
    return check(policies(LABELS, WARNS, REJECTS), {"object": obj, "expect": expect}, "cases[0]")


@pytest.mark.parametrize(
    ("expect", "differs"),
    [
        ({}, []),
        ({"allowed": True, "code": 200, "changed": True}, []),
        ({"allowed": False}, ["allowed: want false, got true"]),
        ({"code": 403}, ["code: want 403, got 200"]),
        ({"changed": False}, ["changed: want false, got true"]),
        ({"message": ""}, []),
        ({"message": "bad"}, ['message: want a text with "bad", got ""']),
        ({"labels": {"seen": "yes"}, "annotations": {}}, []),
        ({"labels": {"seen": "no"}}, ['labels[seen]: want "no", got "yes"']),
        ({"labels": {"app": "web"}}, ['labels[app]: want "web", got none']),
        ({"labels": {"seen": None}}, ['labels[seen]: want none, got "yes"']),
        ({"annotations": {"a": "b"}}, ['annotations[a]: want "b", got none']),
        ({"schedulerName": None}, []),
        ({"schedulerName": "berth"}, ['schedulerName: want "berth", got none']),
        ({"warnings": ["would write"]}, []),
        ({"warnings": []}, [f'warnings: "{WARNING}" was not expected'.replace('more="yes"', 'more=\\"yes\\"')]),
        (
            {"warnings": ["would write", "else"]},
            [f'warnings: want one with "else", got ["{WARNING}"]'.replace('more="yes"', 'more=\\"yes\\"')],
        ),
    ],
    ids=str,
)
def test_what_differs(expect: Object, differs: list[str]) -> None:
    """Only what is expected is compared."""
    assert differing(expect, config_map()) == differs


def test_a_refusal_says_why() -> None:
    """Beside what differs for that reason; and a part of the message is enough."""
    refused = config_map({"app": "bad"})
    assert differing({"allowed": False, "code": 403, "message": "no bad", "changed": False}, refused) == []
    said = 'MetadataPolicy "rejects" rules[0]: no bad ones'
    assert differing({"allowed": True}, refused) == [f"allowed: want true, got false ({said})"]
    assert differing({"changed": True}, refused) == ["changed: want true, got false"]


@pytest.mark.parametrize("warnings", ["would write", ["would write", 1], [1]])
def test_warnings_are_texts(warnings: Any) -> None:
    """All of them."""
    with pytest.raises(CaseError, match=r"cases\[0\]\.expect\.warnings: want a list of texts"):
        differing({"warnings": warnings}, config_map())


def test_options_are_a_map() -> None:
    """What `berth policy eval` says of the options of a case, a test says, too."""
    with pytest.raises(CaseError, match=r"cases\[0\]\.options: want a map, got a list"):
        check(policies(), {"object": pod(), "options": ["stamp"], "expect": {}}, "cases[0]")


def test_a_case_is_judged_in_both_passes() -> None:
    bans = policy("bans", rule(has(seen="yes"), reject=True))
    case: Object = {"object": config_map(), "expect": {"allowed": False, "labels": {"seen": None}}}
    assert check(policies(LABELS, bans), case, "cases[0]") == []
    assert check(policies(LABELS, bans), {**case, "options": {"pass": "mutate"}}, "cases[0]") != []
