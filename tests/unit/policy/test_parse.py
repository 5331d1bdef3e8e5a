"""Policies are parsed strictly: every problem is named by path, value and what was expected."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.policy.keys import is_kubernetes_own
from podberth.policy.parse import PolicyError, parse
from tests.unit.policy.build import NAME, QOS, Object, has, needs, policy, rule

GOOD = policy("good", rule(has(a="1"), needs("n", "In", "any text: {}"), set_labels={"team": "x"}, name="one"))
RULE = ("spec", "rules", 0)
LABELS = (*RULE, "policyPredicate", "labelSelector")
ACTION = (*RULE, "policyAction")


def changed(where: tuple[str | int, ...], value: Any) -> Object:
    """The good policy with one thing changed."""
    found = copy.deepcopy(GOOD)
    holder: Any = found
    for step in where[:-1]:
        holder = holder[step]
    holder[where[-1]] = value
    return found


@pytest.mark.parametrize(
    ("where", "value", "problem"),
    [
        (("apiVersion",), "v1", 'apiVersion: Invalid value: "v1": want podberth.dev/v1alpha1'),
        (("kind",), "Policy", 'kind: Invalid value: "Policy": want MetadataPolicy'),
        (("metadata",), [], "metadata.name: Required value"),
        (("metadata", "name"), "A b", 'metadata.name: Invalid value: "A b": want a DNS subdomain'),
        (("spec",), "x", 'spec: Invalid value: "x": want a map'),
        (("spec", "rule"), [], "spec.rule: Unknown field: want mode, rules"),
        (("spec", "mode"), "on", 'spec.mode: Unsupported value: "on": want enforce, warn, observe'),
        (("spec", "rules"), {}, "spec.rules: Invalid value: a map: want a list"),
        (("spec", "rules"), [rule()] * 65, "spec.rules: Too many: 65: must have at most 64 items"),
        (RULE, None, "spec.rules[0]: Invalid value: null: want a map"),
        ((*RULE, "policyAction"), None, "spec.rules[0].policyAction: Required value"),
        (
            (*RULE, "predicate"),
            {},
            "spec.rules[0].predicate: Unknown field: want name, appliesTo, policyPredicate, policyAction",
        ),
        ((*RULE, "appliesTo"), "Pod", 'spec.rules[0].appliesTo: Invalid value: "Pod": want a list'),
        ((*RULE, "appliesTo"), [], "spec.rules[0].appliesTo: Required value: want at least one kind"),
        ((*RULE, "appliesTo"), ["Pod"] * 17, "spec.rules[0].appliesTo: Too many: 17: must have at most 16 items"),
        ((*RULE, "appliesTo"), ["Pod", "Pod"], 'spec.rules[0].appliesTo[1]: Duplicate value: "Pod"'),
        ((*RULE, "appliesTo"), ["pods"], 'spec.rules[0].appliesTo[0]: Invalid value: "pods": want Kind.group, as'),
        ((*RULE, "appliesTo"), ["Pod."], 'spec.rules[0].appliesTo[0]: Invalid value: "Pod.": want Kind.group, as'),
        ((*RULE, "appliesTo"), ["*"], 'spec.rules[0].appliesTo[0]: Invalid value: "*": want Kind.group, as'),
        ((*RULE, "appliesTo"), ["Job"], 'spec.rules[0].appliesTo[0]: Invalid value: "Job": want its group, too, as in'),
        ((*RULE, "appliesTo"), [{"kind": "Pod"}], "spec.rules[0].appliesTo[0]: Invalid value: a map: want a text"),
        ((*LABELS, "matchLabels"), {"a b": "1"}, 'labelSelector.matchLabels[a b]: Invalid value: "a b": not a legal'),
        (
            (*LABELS, "matchLabels"),
            {"a": "1 2"},
            'labelSelector.matchLabels[a]: Invalid value: "1 2": not a legal label',
        ),
        (
            (*LABELS, "matchLabels"),
            {"a": 1},
            "labelSelector.matchLabels[a]: Invalid value: 1: want a text (put it in quotes)",
        ),
        (
            (*LABELS, "matchLabels"),
            {"a": ["b"]},
            "labelSelector.matchLabels[a]: Invalid value: a list: want a text",
        ),
        ((*LABELS, "matchExpressions"), [{"operator": "Exists"}], "matchExpressions[0].key: Required value"),
        (
            (*LABELS, "matchExpressions"),
            [{"key": "a", "operator": "Gt", "values": ["1"]}],
            'matchExpressions[0].operator: Unsupported value: "Gt": want In, NotIn, Exists, DoesNotExist',
        ),
        (
            (*LABELS, "matchExpressions"),
            [{"key": "a", "operator": "In"}],
            "matchExpressions[0].values: Required value: In needs at least one",
        ),
        (
            (*LABELS, "matchExpressions"),
            [{"key": "a", "operator": "Exists", "values": ["x"]}],
            "matchExpressions[0].values: Invalid value: a list: must be empty for Exists",
        ),
        ((*ACTION, "reject"), "true", 'policyAction.reject: Invalid value: "true": want true or false'),
        ((*ACTION, "message"), "x" * 1025, "policyAction.message: Too long: may not be more than 1024 characters"),
        (
            (*ACTION, "updatedLabels"),
            {"a": True},
            "updatedLabels[a]: Invalid value: true: want a text (put it in quotes)",
        ),
        ((*ACTION, "updatedLabels"), {"k8s.io/a": "x"}, "updatedLabels[k8s.io/a]: Forbidden: the prefix is reserved"),
        (
            (*ACTION, "updatedAnnotations"),
            {NAME: "A b"},
            f'updatedAnnotations[{NAME}]: Invalid value: "A b": want a DNS',
        ),
        (
            (*ACTION, "updatedAnnotations"),
            {"a": "x" * 8193},
            "updatedAnnotations[a]: Too long: may not be more than 8192",
        ),
        (
            (*ACTION, "message"),
            "\x1b[2Jall is well",
            'policyAction.message: Invalid value: "\\u001b[2Jall is well": want no control characters but tabs and',
        ),
        ((*ACTION, "updatedAnnotations"), {"a": "1\x9b"}, 'updatedAnnotations[a]: Invalid value: "1\\u009b": want no'),
        (
            (*RULE, "policyPredicate", "annotationSelector", "matchLabels"),
            {"a": "1\x1f2"},
            'annotationSelector.matchLabels[a]: Invalid value: "1\\u001f2": want no control characters',
        ),
        ((*ACTION, "updatedLabels"), {"\x1b[2J": "x"}, 'updatedLabels[\\u001b[2J]: Invalid value: "\\u001b[2J": not a'),
        ((*ACTION, "\x9bA"), 1, "policyAction.\\u009bA: Unknown field: want reject, message"),
        ((*RULE, "name"), "Rule 1", 'spec.rules[0].name: Invalid value: "Rule 1": want lower-case letters'),
        (
            ("spec", "rules"),
            [rule(name="a"), rule(name="a")],
            'spec.rules[1].name: Duplicate value: "a"',
        ),
    ],
)
def test_problems(where: tuple[str | int, ...], value: Any, problem: str) -> None:
    """The first problem that is named is the one that was made."""
    with pytest.raises(PolicyError) as error:
        parse(changed(where, value))
    assert problem in error.value.line
    assert "\n" not in error.value.line


def test_all_problems() -> None:
    """Several problems are all found; the one line says how many more there are."""
    broken = policy("p", rule(has(**{"a b": "c d"}), set_labels={"-": "x"}), mode="off")
    with pytest.raises(PolicyError) as error:
        parse(broken)
    assert len(error.value.problems) == 4
    assert error.value.line.endswith("(and 3 more)")


def test_what_is_read() -> None:
    """Every field arrives, null is absent, and defaults are the seed's."""
    found = parse(GOOD)
    assert (found.name, found.mode, found.rules[0].place) == ("good", "enforce", "good/one")
    assert str(found.rules[0].predicate) == "label a in (1) and annotation n in (any text: {})"
    assert found.rules[0].applies_to == ()
    kinds = ["Deployment.apps", "Pod", "Queue.example.com"]
    assert parse(policy("p", rule(kinds=kinds))).rules[0].applies_to == (*kinds,)
    empty = parse({"metadata": {"name": "p"}, "spec": {"rules": [{"policyPredicate": None, "policyAction": {}}]}})
    assert empty.rules[0].predicate.holds({}, {})
    assert parse({"metadata": {"name": "p"}}).rules == ()


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("kubernetes.io/a", True),
        ("k8s.io/a", True),
        ("node-role.kubernetes.io/a", True),
        ("Node.Kubernetes.IO/a", True),
        ("kubernetes.io/config.mirror", True),
        (QOS, False),
        (NAME, False),
        ("scheduler.alpha.kubernetes.io/affinity", False),
        ("scheduler.alpha.kubernetes.io/tolerations", True),
        ("app.kubernetes.io/name", False),
        ("kubernetes.io.example.com/a", False),
        ("mykubernetes.io/a", False),
        ("kubernetes.io", False),
        ("podberth.dev/a", False),
        ("plain", False),
    ],
)
def test_reserved(key: str, reserved: bool) -> None:
    """Kubernetes' prefixes are reserved, less the seed's own keys and what Kubernetes hands to users."""
    assert is_kubernetes_own(key) == reserved


def test_allow_list() -> None:
    """A reserved prefix can be allowed, but never what marks a mirror pod, which would exempt pods from policies."""
    labels = {"node.kubernetes.io/a": "x"}
    assert parse(policy("p", rule(set_labels=labels)), ("node.kubernetes.io/",)).rules
    with pytest.raises(PolicyError):
        parse(policy("p", rule(set_annotations={"kubernetes.io/config.mirror": "x"})), ("kubernetes.io/",))


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(
                    [
                        "spec",
                        "rules",
                        "appliesTo",
                        "metadata",
                        "name",
                        "policyAction",
                        "policyPredicate",
                        "labelSelector",
                    ]
                ),
                st.sampled_from(["matchExpressions", "matchLabels", "key", "operator", "values", "reject", "mode"]),
                st.integers(),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=30,
)


@given(anything)
def test_anything(document: Any) -> None:
    """Whatever the document is, it is a policy or a PolicyError."""
    try:
        parse(document)
    except PolicyError as error:
        assert error.problems


@pytest.mark.parametrize("new", [False, True])
def test_a_predicate_is_required_of_what_is_new(new: bool) -> None:
    """A misspelt one is dropped by the API server; what was stored without one applies to every object."""
    document = policy("p", {"policyAction": {"reject": True}})
    if new:
        with pytest.raises(PolicyError, match=r"^spec.rules\[0\].policyPredicate: Required value$"):
            parse(document, new=True)
    else:
        assert parse(document).rules[0].predicate.holds({}, {})
