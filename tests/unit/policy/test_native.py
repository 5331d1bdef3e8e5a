"""Policies as the API server's own: which of them, what they say, and what the command prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from podberth.model.selectors import Requirement
from podberth.policy import keys
from podberth.policy.evaluate import pointer
from podberth.policy.keys import Reserved
from podberth.policy.native.budget import MOST_UNITS, fit
from podberth.policy.native.compile import compile_namespace, label_of, name_of
from podberth.policy.native.expressions import LONGEST, chunks, every, meets, text
from podberth.policy.native.mutation import patch
from podberth.policy.native.requests import of_what_comes
from podberth.policy.spec import Mode
from tests.unit.policy.build import NAME, QOS, has, needs, policies, policy, rule
from tests.unit.policy.test_cli import Shell, shell

__all__ = ["shell"]

NOTE = policy("note", rule(has(app="web"), set_annotations={"note": "web"}))
TEAM = policy("team", rule(set_labels={"team": "a"}))


def left(*documents: dict[str, Any]) -> dict[str, str]:
    """Return which policies do not fit, with the reasons."""
    return dict(fit(policies(*documents)).left)


def variables(kind: str, *documents: dict[str, Any]) -> dict[str, str]:
    """The named expressions of an object of this kind."""
    objects = compile_namespace(policies(*documents), "shop", "berth", Reserved()).objects
    [found] = [one for one in objects if one["kind"] == kind and ".warn." not in one["metadata"]["name"]]
    return {one["name"]: one["expression"] for one in found["spec"]["variables"]}


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


@pytest.mark.parametrize(
    ("operator", "values", "expression"),
    [
        ("In", ["a"], '("app" in variables.labels && variables.labels["app"] == "a")'),
        ("In", ["b", "a"], '("app" in variables.labels && variables.labels["app"] in ["a", "b"])'),
        ("NotIn", ["a"], '!("app" in variables.labels && variables.labels["app"] == "a")'),
        ("Exists", [], '"app" in variables.labels'),
        ("DoesNotExist", [], '!("app" in variables.labels)'),
    ],
)
def test_criterion(operator: str, values: list[str], expression: str) -> None:
    assert meets("labels", Requirement("app", operator, frozenset(values))) == expression


def test_the_class_of_a_pod_is_no_annotation() -> None:
    """The annotation is written at the same time, so what the pod says of itself does not count."""
    asked = meets("annotations", Requirement(QOS, "In", frozenset(["BestEffort"])))
    assert asked.startswith('(variables.pod ? variables.qos == "BestEffort" : (')
    assert meets("annotations", Requirement(QOS, "DoesNotExist")).startswith("(variables.pod ? false : ")


def test_conditions_are_joined_in_pairs() -> None:
    """A chain of a thousand would nest too deep."""
    assert every([]) == "true"
    assert every(["a"]) == "a"
    assert every(["a", "b", "c"]) == "((a && b) && c)"
    assert every(["a", "b", "c", "d"]) == "((a && b) && (c && d))"


def test_parts_of_an_expression() -> None:
    """Half an expression's characters in each, with eight more for each part."""
    half = LONGEST // 4 - 8
    assert chunks([half, half, half, 1], lambda size: size) == [[half, half], [half, 1]]
    assert chunks([half + 1, half], lambda size: size) == [[half + 1], [half]]


def test_a_patch_without_writes() -> None:
    """It has no list to go over."""
    assert ".map(write" not in patch('""', [], [], "variables.scheduler", True)
    assert ".map(write" in patch('""', [], ["[]"], "variables.scheduler", True)


def test_conditions_that_are_too_long_are_not_asked_twice() -> None:
    """What is around them takes up to 2,000 characters."""
    longest = "x" * (LONGEST - 2000)
    assert longest in of_what_comes([longest])[0]["expression"]
    assert "x" * 100 not in of_what_comes([longest + "x"])[0]["expression"]


def test_too_long() -> None:
    long = policy("long", rule(annotations=needs("note", "In", *(f"{i}" * 8000 for i in range(8)))))
    assert "too long" in left(long)["long"]
    assert all(len(one) < LONGEST for one in variables("MutatingAdmissionPolicy", NOTE).values())


def test_labels_are_written_where_there_are_any() -> None:
    """An object without labels gets a map for them, if a rule writes one."""
    [mutating] = [
        one
        for one in compile_namespace(policies(TEAM), "shop", "berth", Reserved()).objects
        if one["kind"] == "MutatingAdmissionPolicy"
    ]
    named = {held["name"]: held["expression"] for held in mutating["spec"]["variables"]}
    assert named["labels0"].endswith(' ? [["/metadata/labels/team", "a"]] : []].flatten()')
    expression = mutating["spec"]["mutations"][0]["jsonPatch"]["expression"]
    room = '(has(object.metadata.labels) || size((variables.labels0)) == 0 ? [] : [JSONPatch{op: "add", '
    assert room + 'path: "/metadata/labels", value: {}}])' in expression


def test_the_last_rule_wins() -> None:
    """Of two operations on one path of a JSON patch the later one holds."""
    named = variables(
        "MutatingAdmissionPolicy",
        policy("b", rule(set_annotations={"x": "2"})),
        policy("a", rule(set_annotations={"x": "1"})),
    )
    path = "/metadata/annotations/x"
    assert named["annotations0"] == f'[true ? [["{path}", "1"]] : [], true ? [["{path}", "2"]] : []].flatten()'


def test_reserved_keys_are_not_written() -> None:
    asked = policy("role", rule(set_annotations={"eks.amazonaws.com/role-arn": "arn", QOS: "x"}))
    named = variables("MutatingAdmissionPolicy", asked)
    path = pointer("metadata", "annotations", QOS)
    assert named["annotations0"] == f'[!variables.pod && true ? [["{path}", "x"]] : []].flatten()', (
        "other objects are free"
    )


def forty() -> list[dict[str, Any]]:
    """Ten policies with forty rules, half of which reject."""
    rules = [rule(has(app=f"a{i}"), reject=True) for i in range(2)]
    rules += [rule(has(app=f"b{i}"), set_annotations={f"x{i}": "1"}) for i in range(2)]
    return [policy(f"p{i}", *rules) for i in range(10)]


@pytest.mark.parametrize("kind", ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"])
def test_the_number_of_rules_is_not_the_number_of_expressions(kind: str) -> None:
    """Each named expression costs the API server something in every request, also where no rule holds."""
    assert len(variables(kind, *forty()[:1])) == len(variables(kind, *forty())) <= 25


@pytest.mark.parametrize("mode", ["enforce", "warn", "observe"])
def test_where_no_rule_holds_only_the_match_condition_is_asked(mode: Mode) -> None:
    """Of objects that are let in, the API server works out validations, and messages as well."""
    documents = [{**found, "spec": {**found["spec"], "mode": mode}} for found in forty()]
    objects = compile_namespace(policies(*documents), "shop", "berth", Reserved()).objects
    name = name_of("berth", "shop", mode)
    found = [one for one in objects if one["metadata"]["name"] == name and not one["kind"].endswith("Binding")]
    assert found
    for one in found:
        [condition] = one["spec"]["matchConditions"]
        assert "variables" not in condition["expression"], "the API server has none there"
        wanted = ["a0", "a1"]
        if one["kind"].startswith("Mutating") or mode != "enforce":
            wanted += ["b0", "b1"]
        assert all(f'labels["app"] == "{value}"' in condition["expression"] for value in wanted)


def test_every_pod_is_stamped() -> None:
    """The match condition of what changes objects has a pod pass before it asks any rule."""
    [mutating] = [
        one
        for one in compile_namespace(policies(NOTE), "shop", "berth", Reserved()).objects
        if one["kind"] == "MutatingAdmissionPolicy"
    ]
    [condition] = mutating["spec"]["matchConditions"]
    assert '((request.kind.group == "" && request.kind.kind == "Pod") || [' in condition["expression"]


def test_pods_that_are_not_stamped() -> None:
    """Then a pod is one object of many: who changes objects is asked only where a rule may write, or the pod says
    something that counts. The class is not known there, so a rule that asks for it may hold for every pod."""
    by_class = rule(has(app="web"), {"matchLabels": {QOS: "BestEffort"}}, set_annotations={NAME: "berth"})
    objects = compile_namespace(policies(policy("p", by_class)), "shop", "berth", Reserved(), stamp=False).objects
    [mutating] = [one for one in objects if one["kind"] == "MutatingAdmissionPolicy"]
    [condition] = mutating["spec"]["matchConditions"]
    assert '(request.kind.group == "" && request.kind.kind == "Pod") || [' not in condition["expression"]
    assert f'pod && "{QOS}" in annotations' in condition["expression"]
    assert f'pod && "{NAME}" in annotations' in condition["expression"]
    assert '"app" in labels && labels["app"] == "web"' in condition["expression"]
    assert "(pod ? true : " in condition["expression"]


def test_a_closed_namespace_is_asked_about_everything() -> None:
    """Where nothing is let in, no object is passed over."""
    objects = compile_namespace(policies(NOTE), "shop", "berth", Reserved(), closed="closed").objects
    [validating] = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicy"]
    assert " || true)" in validating["spec"]["matchConditions"][0]["expression"]


def test_rules_that_are_too_long_together_are_asked_in_parts() -> None:
    """A match condition can't be split; then all objects are looked at, by as many expressions as it takes."""
    values = [f"{i}" * 1000 for i in range(10)]
    long = [rule(annotations=needs("note", "In", *values), reject=True) for _ in range(11)]
    objects = compile_namespace(policies(policy("long", *long)), "shop", "berth", Reserved()).objects
    asked = [one for one in objects if not one["kind"].endswith("Binding")]
    assert asked
    for one in asked:
        [condition] = one["spec"]["matchConditions"]
        assert len(condition["expression"]) < LONGEST
        assert "exists(labels, true)" in condition["expression"]
        assert all(len(held["expression"]) < LONGEST for held in one["spec"]["variables"])
        assert {"rejects0", "rejects1", "rejects2"} <= {held["name"] for held in one["spec"]["variables"]}


def test_nothing_is_optional_in_lists() -> None:
    """The API server of 1.37 answers a list with an optional element of unknown type by a panic."""
    objects = compile_namespace(policies(NOTE, policy("no", rule(reject=True))), "shop", "berth", Reserved()).objects
    assert "[?(" not in json.dumps(objects).replace("orValue", "")
    assert ", ?" not in json.dumps(objects)


def test_names_tell_releases_apart() -> None:
    assert name_of("a", "b") == "a.b.metadatapolicies.podberth.dev"
    assert name_of("a", "b", "warn") == "a.b.warn.metadatapolicies.podberth.dev"


def test_the_command_prints_what_kubectl_takes(shell: Shell) -> None:
    route = policy(
        "route", rule(annotations=needs(QOS, "In", "BestEffort"), set_annotations={NAME: "berth"}, name="be")
    )
    shell.file("policies/route.yaml", route)
    code, out, err = shell.run("compile", "-f", "policies", "-n", "shop")
    assert (code, err) == (0, "")
    kinds = [one["kind"] for one in yaml.safe_load_all(out)]
    assert kinds == [
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert f'  # MetadataPolicy "route" rule "be": annotation {QOS} in (BestEffort)\n  - name: annotations0\n' in out
    code, listed, _ = shell.run("compile", "-f", "policies", "-n", "shop", "-o", "json")
    assert json.loads(listed)["items"] == list(yaml.safe_load_all(out))


def test_the_command_names_what_left(shell: Shell) -> None:
    long = rule(annotations=needs("note", "In", *(f"{i}" * 8000 for i in range(8))))
    shell.file("a.yaml", policy("long", long, namespace="shop"))
    code, out, err = shell.run("compile", "-f", "a.yaml")
    assert code == 1
    assert err.startswith("berth: MetadataPolicy shop/long is left out: rules[0] is too long ")
    assert "rule0" not in out


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


def test_nobody_else_may_write_the_verdict() -> None:
    """The key is Berth's own: a policy can't write it, and what an object brings along is taken away."""
    forging = policy("forge", rule(set_annotations={keys.VERDICT: "no"}))
    assert not any(keys.VERDICT in one for one in variables("MutatingAdmissionPolicy", forging).values())
    [mutating] = [
        one
        for one in compile_namespace(policies(NOTE), "shop", "berth", Reserved()).objects
        if one["kind"] == "MutatingAdmissionPolicy"
    ]
    assert 'JSONPatch{op: "remove"' in mutating["spec"]["mutations"][0]["jsonPatch"]["expression"]


def test_what_costs_too_much_is_left_out() -> None:
    """The API server evaluates policies with CPU time that all share: the reason says what there is and what fits."""
    many = [rule(has(**{f"k{i}": "v" for i in range(16)}), set_annotations={f"a{n}": "1"}) for n in range(20)]
    first, second = policy("first", *many), policy("second", *many, rule(set_annotations={"z": "1"}))
    assert left(first) == {}
    assert "too much work for the API server" in left(NOTE, first, second)["second"]


def test_what_is_refused_is_left_out_and_closes_nothing() -> None:
    refuse = policy("refuse", rule(has(app="y"), reject=True))
    fitted = fit(policies(NOTE, refuse), {"refuse": "no"})
    assert (fitted.left, fitted.closed, len(fitted.native.policies)) == ({"refuse": "no"}, False, 1)


def test_what_just_fits_is_native() -> None:
    """A policy costs 16, a rule and each write one, and the texts of a small one a unit together."""
    some = [policy(f"p{i}", rule(set_annotations={f"k{i}": "v"})) for i in range(25)]
    room = MOST_UNITS - 25 * (16 + 1 + 1 + 1)
    writes = {f"w{i}": "v" for i in range(room - 16 - 1 - 1)}
    assert left(*some, policy("z", rule(set_annotations=writes))) == {}
    more = left(*some, policy("z", rule(set_annotations=writes | {"one": "more"})))
    assert "too much work for the API server" in more["z"]


def test_texts_count_as_they_are_spelled() -> None:
    """A character that can't be printed takes six bytes of an expression."""
    odd = policy("odd", rule(set_annotations={"note": "\x01" * 8000}))
    assert left(odd) == {"odd": "rules[0] is too long for an expression of the API server: 96114 bytes, 90000 at most"}
    assert left(policy("plain", rule(set_annotations={"note": "x" * 8000}))) == {}


def test_nothing_native_is_nothing_at_all() -> None:
    assert compile_namespace(policies(), "shop", "berth", Reserved()).objects == ()


def test_a_long_release_still_is_a_label() -> None:
    long = "r" * 100
    assert label_of("berth") == "berth"
    assert len(label_of(long)) <= 63
    assert label_of(long) != label_of(long + "r")
