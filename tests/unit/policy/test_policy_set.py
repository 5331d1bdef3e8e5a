"""A namespace's policies as data: the facts that each rule asks for, what it says and writes, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from podberth.policy.keys import Reserved
from podberth.policy.native.admission_policies import admission_policies, guard_name, name_of
from podberth.policy.native.expressions import text
from podberth.policy.native.policy_set import CLOSED, LARGEST, PolicySet, Source, policy_set
from podberth.policy.parse import parse
from tests.unit.policy.build import NAME, QOS, has, needs, policy, rule
from tests.unit.policy.test_cli import Shell, shell

__all__ = ["shell"]

NOTE = policy("note", rule(has(app="web"), set_annotations={"note": "web"}))

RECORD, FIELD = "\x1e", "\x1d"


def made(*documents: dict[str, Any], closed: str = "") -> PolicySet:
    """The set of these policies in a namespace."""
    sources = [Source(parse(one), f"uid-{one['metadata']['name']}", 3) for one in documents]
    return policy_set(sources, "shop", "berth", Reserved(), closed=closed)


def data(*documents: dict[str, Any]) -> dict[str, str]:
    """What their set says, without the group that is before each key."""
    document = made(*documents).document
    assert document is not None
    found: dict[str, str] = document["metadata"]["annotations"]
    return {key.removeprefix("podberth.dev/"): value for key, value in found.items()}


def lines(name: str, *documents: dict[str, Any]) -> list[list[str]]:
    """The fields of these rules' lines, with separators that one can read."""
    said = data(*documents)[name]
    readable = said.replace("\x1c", " ").replace("\x1f", "|")
    return [line.split(FIELD) for line in readable.split(RECORD)] if said else []


def exists(key: str) -> dict[str, str]:
    """A criterion."""
    return {"key": key, "operator": "Exists"}


def test_a_set_names_what_it_was_made_of() -> None:
    """It goes with the last of its policies, whatever their order was when it was made."""
    one, other = policy("b", rule(reject=True)), policy("a", rule(reject=True), mode="warn")
    found = made(one, other)
    assert found.document is not None
    assert found.document["metadata"]["ownerReferences"] == [
        {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy", "name": name, "uid": f"uid-{name}"}
        for name in ("a", "b")
    ]
    assert '{"name":"a","uid":"uid-a","generation":3}' in data(one, other)["policies"]
    assert (found.enforced, found.left) == (("a", "b"), {})
    assert found == made(other, one)
    assert found.version == data(one, other)["version"] != made(one).version


def test_without_policies_there_is_no_set() -> None:
    """But where nothing is let in."""
    assert made().document is None
    closed = made(closed="because").document
    assert closed is not None
    assert closed["metadata"]["annotations"]["podberth.dev/closed"] == "because"


def test_a_rule_is_facts() -> None:
    """Those that have to hold, those that must not, groups of which one has to hold, and what it says or writes; that
    the trigger holds is known when the line is looked at.
    """
    first = rule(has(app="web"), annotations=needs("note", "Exists"), reject=True, message="no")
    second = rule(
        needs("app", "NotIn", "web", "api"), annotations=needs("t", "DoesNotExist"), set_annotations={"x": "1"}
    )
    third = rule(needs("app", "In", "b", "a"), set_labels={"a/b": "1", "c": "2"})
    given = policy("p", first, second, third)
    assert lines("rejects", given) == [["@note", "", "", 'MetadataPolicy "p" rules[0]: no']]
    assert lines("writes", given) == [
        ["", "app=web @t", "", "", "", "/metadata/annotations/x|1"],
        ["", "", "app=a|app=b", "", "labels", "/metadata/labels/a~1b|1 /metadata/labels/c|2"],
    ]
    assert data(given)["rejects.triggers"] == "app=web"
    assert data(given)["writes.triggers"].split(RECORD) == ["!app=api", "app"]
    assert data(given)["mutating.labels"] == data(given)["rejects.labels"] == "app"
    assert data(given)["mutating.annotations"].split(RECORD) == ["note", "t"]
    assert data(given)["rejects.annotations"] == "note"


@pytest.mark.parametrize(
    ("mode", "readers"),
    [("enforce", "mutating rejects"), ("warn", "mutating rejects tells"), ("observe", "mutating rejects tells")],
)
def test_who_reads_a_set(mode: str, readers: str) -> None:
    """Those who enforce read every set, though it has nothing for them; who tells, sets that have something to tell."""
    asks = policy("p", rule(has(app="web"), annotations=needs("n", "Exists"), reject=True), mode=mode)
    found = data(asks)
    asked = {key.rpartition(".")[0] for key in found if key.endswith((".labels", ".annotations"))}
    assert " ".join(sorted(asked)) == readers
    reader = "rejects" if mode == "enforce" else "tells"
    assert (found[f"{reader}.labels"], found[f"{reader}.annotations"]) == ("app", "n")
    if mode != "enforce":
        assert found["rejects.labels"] == found["mutating.annotations"] == ""
    document = made(NOTE, asks).document
    assert document is not None
    assert ("podberth.dev/tells" in document["metadata"]["labels"]) is (mode != "enforce")


def test_kinds_and_writes_of_a_rule() -> None:
    """One kind has to hold, one of several has to; a rule that writes any label says so."""
    both: dict[str, Any] = {"set_labels": {"a": "1"}, "set_annotations": {"b": "2"}}
    rules = [rule(kinds=kinds, **both) for kinds in (["Pod"], ["Pod", "Secret"])]
    patch = "/metadata/labels/a|1 /metadata/annotations/b|2"
    found = lines("writes", policy("p", *rules))
    assert sorted(found) == sorted([["", "", "", "", "labels", patch], ["", "", "#Pod|#Secret", "", "labels", patch]])
    assert data(policy("p", *rules))["writes.triggers"].split(RECORD) == ["#Pod", ""]


@pytest.mark.parametrize(("mode", "by_class"), [("enforce", True), ("warn", False)])
def test_a_set_says_whether_it_asks_for_classes(mode: str, by_class: bool) -> None:
    """Of pods, by a rule that enforces: the class is worked out only there."""
    plain = rule(has(app="web"), reject=True)
    asks = policy("p", plain, rule(annotations=has(**{QOS: "Burstable"}), reject=True), mode=mode)
    assert ("by-class" in data(asks)) is by_class
    assert "by-class" not in data(policy("p", plain))


@pytest.mark.parametrize(
    ("predicate", "trigger"),
    [
        ({}, ""),
        ({"labels": needs("a", "Exists")}, "a"),
        ({"labels": needs("a", "Exists"), "annotations": has(b="1")}, "@b=1"),
        ({"labels": needs("a", "In", "1", "2")}, "a"),
        ({"labels": needs("a", "NotIn", "1", "2")}, "!a=1"),
        ({"labels": needs("a", "DoesNotExist")}, "!a"),
        ({"annotations": has(a="1" * 200)}, "@a"),
        ({"annotations": needs("a", "NotIn", "1" * 200)}, ""),
        ({"annotations": needs("a", "NotIn", "1" * 200), "labels": needs("b", "NotIn", "1")}, "!b=1"),
    ],
)
def test_the_trigger_of_a_rule(predicate: dict[str, Any], trigger: str) -> None:
    """One fact, without which the rule never holds, or with which it never does."""
    found = data(policy("p", rule(reject=True, **predicate)))
    assert found["rejects.triggers"] == trigger
    absent = trigger.startswith("!")
    assert found["rejects.if-any"] == ("=" if absent else trigger)
    assert found["rejects.unless-all"] == (trigger[1:] if absent else "")


def test_the_class_of_a_pod() -> None:
    """The annotation is written at the same time; on other objects it is like any other, and may be written."""
    given = policy("p", rule(annotations=needs(QOS, "In", "BestEffort"), set_annotations={QOS: "x", "y": "z"}))
    fact = f"@{QOS}=BestEffort"
    path = f"/metadata/annotations/{QOS.replace('/', '~1')}"
    assert lines("writes", given) == [
        ["", "", "", "", "", "/metadata/annotations/y|z"],
        ["", "#Pod", "", "", "", f"{path}|x"],
    ]
    assert data(given)["writes.triggers"] == f"{fact}{RECORD}{fact}"
    assert data(given)["by-class"] == "true"
    assert data(given)["mutating.annotations"] == ""


def test_a_rule_that_chooses_a_scheduler_says_so() -> None:
    [found] = lines("writes", policy("p", rule(set_annotations={NAME: "berth"})))
    assert found[3] == "berth"


def test_reserved_keys_are_not_written() -> None:
    assert lines("writes", policy("p", rule(set_annotations={"eks.amazonaws.com/role-arn": "arn"}))) == []


def test_what_would_change_nothing_is_not_told() -> None:
    """What the write makes is one more fact that must not hold."""
    given = policy("p", rule(has(app="web"), set_labels={"team": "a"}, name="team"), mode="warn")
    assert lines("warns", given) == [["", "team=a", "", 'p/team would write label team="a"']]
    assert lines("rejects", given) == lines("writes", given) == []
    document = made(given).document
    assert document is not None
    assert document["metadata"]["labels"]["podberth.dev/tells"] == "true"
    observed = policy("p", rule(has(app="web"), reject=True), mode="observe")
    assert lines("observes", observed) == [["", "", "", "p/rules[0]:reject"]]


def test_what_is_too_large_is_left_out() -> None:
    """Policies that reject come first."""
    large = [rule(annotations=has(note="x" * 8000), set_annotations={f"y{i}": "y" * 8000}) for i in range(10)]
    writes, rejects = policy("a", *large), policy("b", rule(reject=True))
    found = made(writes, rejects, policy("c", *large))
    assert found.enforced == ("a", "b")
    assert f"have more than {LARGEST} bytes together" in found.left["c"]
    assert found.document is not None
    size = sum(len(key) + len(value) for key, value in found.document["metadata"]["annotations"].items())
    assert size < LARGEST


def test_policies_that_are_left_out_take_no_room() -> None:
    """The API server would refuse a set whose annotations have more than 256 KiB, and with it all other policies."""
    many = [policy(f"{i:03}{'x' * 240}", rule(set_annotations={"note": "y" * 300})) for i in range(900)]
    found = made(*many)
    assert found.left
    assert found.document is not None
    annotations = found.document["metadata"]["annotations"]
    assert sum(len(key) + len(value) for key, value in annotations.items()) < LARGEST
    assert len(found.document["metadata"]["ownerReferences"]) == len(many)


def test_what_is_too_much_work_is_left_out() -> None:
    criteria = [{"key": f"k{i}", "operator": "Exists"} for i in range(16)]
    many = [
        rule({"matchExpressions": [{**one, "key": f"{one['key']}-{n}"} for one in criteria]}, reject=True)
        for n in range(40)
    ]
    found = made(policy("many", *many))
    assert "which is too much work for the API server" in found.left["many"]
    assert found.closed == CLOSED
    assert found.document is not None
    assert made(policy("many", *many[:8])).left == {}


def test_the_work_of_a_policy() -> None:
    """An object comes to two facts for each of its 640 keys and four others, and reading a fact costs 8: that much for
    each of 640 facts and 40 triggers. A line costs 150.
    """
    many = [rule({"matchExpressions": [exists(f"k{i}-{n}") for i in range(16)]}, reject=True) for n in range(40)]
    assert f"its work of {(2 * 640 + 4 + 8) * (640 + 40) + 40 * 150} units" in made(policy("p", *many)).left["p"]


def test_the_bytes_of_a_policy() -> None:
    """Each line has a trigger of 7 bytes, which counts three times, and no other fact; 6 fields and 4 bytes for what
    separates it. The key `app` has facts and is asked for by two readers.
    """
    many = [rule(has(app="web"), set_annotations={"y": "y" * 8000}) for _ in range(30)]
    line = 5 + len("/metadata/annotations/y") + 1 + 8000
    size = 30 * (line + 3 * 7 + 4) + 100 + len("p") + 2 * (len("app") + 1)
    assert f"its {size} bytes" in made(policy("p", *many)).left["p"]


def test_the_objects_of_a_release() -> None:
    """Who refuses comes before who writes, and each policy has its binding right after it."""
    found = admission_policies("berth", "system:serviceaccount:berth:berth-operator", ["kube-system"])
    names = [guard_name("berth"), name_of("berth"), name_of("berth", tells=True)]
    assert [one["metadata"]["name"] for one in found] == [name for name in (*names, name_of("berth")) for _ in "12"]
    assert [one["kind"].startswith("Mutating") for one in found] == [False] * 6 + [True] * 2
    for one in found:
        if one["kind"].endswith("PolicyBinding") and one["metadata"]["name"] != guard_name("berth"):
            assert one["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"
    actions = [one["spec"].get("validationActions") for one in found if one["kind"].endswith("PolicyBinding")]
    assert actions == [["Deny"], ["Deny"], ["Warn"], None]
    others = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    for exempt, selector in (["kube-system"], {"matchExpressions": [others]}), ([], None):
        _, _, enforcing, *_ = admission_policies("berth", "operator", exempt)
        assert enforcing["spec"]["matchConstraints"].get("namespaceSelector") == selector


def test_the_command_prints_what_kubectl_takes(shell: Shell) -> None:
    """The set of each namespace, and on demand who reads it; files have no UIDs, so nothing owns the set."""
    shell.file("policies/note.yaml", NOTE)
    code, out, err = shell.run("compile", "-f", "policies", "-n", "shop")
    assert (code, err) == (0, "")
    [found] = yaml.safe_load_all(out)
    assert (found["kind"], found["metadata"]["namespace"]) == ("LimitRange", "shop")
    assert found["metadata"]["ownerReferences"] == []
    code, listed, _ = shell.run("compile", "-f", "policies", "-n", "shop", "-o", "json", "--admission-policies")
    *objects, last = json.loads(listed)["items"]
    assert last == found
    made = admission_policies("berth", "system:serviceaccount:berth:berth-operator", ["kube-system", "kube-node-lease"])
    assert objects == [*made]


def test_the_command_names_what_left(shell: Shell) -> None:
    large = [rule(set_annotations={f"y{i}": "y" * 8000}) for i in range(30)]
    shell.file("a.yaml", policy("large", *large, namespace="shop"))
    code, out, err = shell.run("compile", "-f", "a.yaml")
    assert (code, out) == (1, "")
    assert err.startswith("berth: MetadataPolicy shop/large is left out: with its 24")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "MetadataPolicy note: metadata.namespace: absent: give it with -n NAMESPACE"),
        (("-n", "No"), '-n: "No": expected the name of a namespace'),
        (("-n", "kube-system"), "MetadataPolicy note: namespace kube-system: no policy applies there"),
        (("-n", "a", "--release", "A"), "--release: A: expected a name of at most 53 small letters, digits, - and ."),
    ],
)
def test_wrong_input(shell: Shell, words: tuple[str, ...], line: str) -> None:
    code, _, err = shell.run("compile", "-f", shell.file("a.yaml", NOTE), *words)
    assert (code, err) == (2, f"berth: {line}\n")


def test_the_same_name_twice(shell: Shell) -> None:
    code, _, err = shell.run("compile", "-n", "shop", "-f", shell.file("a.yaml", NOTE, NOTE))
    assert (code, err) == (2, "berth: MetadataPolicy note: namespace shop: is there twice: expected each name once\n")


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("plain", '"plain"'),
        ('said "so"', '"said \\"so\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines\tand\r", '"two\\nlines\\tand\\r"'),
        ("ünï ✓", '"ünï ✓"'),
        ("\x00\x7f\u200b", '"\\u0000\\u007f\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_text(value: str, literal: str) -> None:
    assert text(value) == literal
