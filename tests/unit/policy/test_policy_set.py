"""A namespace's policies as data: which numbers criteria get, what each rule says and writes, and what is left out."""

from __future__ import annotations

from typing import Any

from podberth.policy.native.admission_policies import admission_policies, guard_name, name_of
from podberth.policy.native.policy_set import PolicySet, Source, policy_set
from podberth.policy.parse import parse
from podberth.policy.powers import Reserved
from tests.unit.policy.build import NAME, QOS, has, needs, policy, rule


def made(*documents: dict[str, Any], closed: str = "") -> PolicySet:
    """The set of these policies in a namespace."""
    sources = [Source(parse(one), f"uid-{one['metadata']['name']}", 3) for one in documents]
    return policy_set(sources, "shop", "berth", Reserved(), closed=closed)


def spec(*documents: dict[str, Any]) -> dict[str, Any]:
    """What their set says."""
    document = made(*documents).document
    assert document is not None
    found: dict[str, Any] = document["spec"]
    return found


def test_a_set_names_what_it_was_made_of() -> None:
    """It goes with the last of its policies, whatever their order was when it was made."""
    one, other = policy("b", rule(reject=True)), policy("a", rule(reject=True), mode="warn")
    found = made(one, other)
    assert found.document is not None
    assert found.document["metadata"]["ownerReferences"] == [
        {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy", "name": name, "uid": f"uid-{name}"}
        for name in ("a", "b")
    ]
    assert found.document["spec"]["policies"][0] == {"name": "a", "uid": "uid-a", "generation": 3}
    assert (found.enforced, found.left) == (("a", "b"), {})
    assert found == made(other, one)
    assert found.version == found.document["spec"]["version"] != made(one).version


def test_without_policies_there_is_no_set() -> None:
    """But where nothing is let in."""
    assert made().document is None
    closed = made(closed="because").document
    assert closed is not None
    assert closed["spec"]["closed"] == "because"


def test_a_rule_is_the_numbers_of_its_criteria() -> None:
    """Each criterion has one number, whoever asks it, and NotIn is In that must not be met."""
    first = rule(has(app="web"), annotations=needs("note", "Exists"), reject=True)
    second = rule(needs("app", "NotIn", "web", "api"), set_annotations={"x": "1"})
    third = rule(needs("note", "DoesNotExist"), annotations=needs("note", "DoesNotExist"), set_labels={"a/b": "1"})
    found = spec(policy("p", first, second, third))["enforce"]
    assert found["labelValues"] == {"app": {"web": [0, 2], "api": [2]}}
    assert found["annotationKeys"] == {"note": [1]}
    assert found["labelKeys"] == {"note": [3]}
    assert [(one["all"], one["none"]) for one in found["rejects"]] == [([0, 1], [])]
    assert [(one["all"], one["none"]) for one in found["writes"]] == [([], [2]), ([], [3, 1])]
    assert found["writes"][1]["labels"] == [["/metadata/labels/a~1b", "1"]]


def test_the_class_of_a_pod_is_no_annotation() -> None:
    """The annotation is written at the same time; on other objects it is like any other."""
    found = spec(policy("p", rule(annotations=needs(QOS, "In", "BestEffort"), set_annotations={QOS: "x", "y": "z"})))
    assert found["enforce"]["classes"] == {"BestEffort": [0]}
    assert found["enforce"]["stampValues"] == {QOS: {"BestEffort": [0]}}
    assert found["enforce"]["kinds"] == {"Pod": [1]}
    free, stamp = found["enforce"]["writes"]
    assert (free["none"], free["annotations"]) == ([], [["/metadata/annotations/y", "z"]])
    assert (stamp["none"], stamp["annotations"][0][1]) == ([1], "x")
    exists = spec(policy("p", rule(annotations=needs(QOS, "Exists"), reject=True)))["enforce"]
    assert exists["classes"] == {"Guaranteed": [0], "Burstable": [0], "BestEffort": [0]}


def test_a_rule_that_chooses_a_scheduler_says_so() -> None:
    [found] = spec(policy("p", rule(set_annotations={NAME: "berth"})))["enforce"]["writes"]
    assert found["scheduler"] == "berth"


def test_reserved_keys_are_not_written() -> None:
    found = spec(policy("p", rule(set_annotations={"eks.amazonaws.com/role-arn": "arn"})))
    assert found["enforce"]["writes"] == []


def test_what_would_change_nothing_is_not_told() -> None:
    """One more criterion that must not be met: the write itself."""
    found = spec(policy("p", rule(has(app="web"), set_labels={"team": "a"}, name="team"), mode="warn"))
    assert found["enforce"] == {"rejects": [], "writes": []}
    assert found["warn"]["labelValues"] == {"app": {"web": [0]}, "team": {"a": [1]}}
    assert found["warn"]["rules"] == [{"all": [0], "none": [1], "says": 'p/team would write label team="a"'}]


def test_the_objects_of_a_release() -> None:
    """Who refuses comes before who writes, and each policy has its binding right after it."""
    found = admission_policies("berth", "system:serviceaccount:berth:berth-operator", ["kube-system"])
    names = [guard_name("berth"), name_of("berth"), name_of("berth", "warn"), name_of("berth", "observe")]
    assert [one["metadata"]["name"] for one in found] == [name for name in (*names, name_of("berth")) for _ in "12"]
    assert [one["kind"].startswith("Mutating") for one in found] == [False] * 8 + [True] * 2
    for one in found:
        if one["kind"].endswith("PolicyBinding") and one["metadata"]["name"] != guard_name("berth"):
            assert one["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"
