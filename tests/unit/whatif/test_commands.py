"""Commands that make a suggested change, and words that were meant."""

import json
import shlex
from typing import Any

import pytest

from tests.builders import namespace, node, pod
from tests.unit.whatif.story import explained

Object = dict[str, Any]


def owned(made: Object, kind: str, name: str, template: str | None = None) -> Object:
    """A pod of a controller."""
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": "o", "controller": True}]
    if template is not None:
        made["metadata"].setdefault("labels", {})["pod-template-hash"] = template
    return made


def commands(made: Object, *there: Object) -> dict[str, list[str]]:
    """Change → its commands."""
    return {each.text: each.commands for each in explained(made, [namespace("default"), *there]).remedies}


def test_of_nodes() -> None:
    """Commands of kubectl's own."""
    found = commands(pod("p", select={"disk": "ssd"}), node("n", cordoned=True, labels={"disk": "ssd"}))
    assert found["uncordon n"] == ["kubectl uncordon n"]
    found = commands(pod("p", select={"disk": "ssd"}), node("n"))
    assert found["label n disk=ssd"] == ["kubectl label nodes n disk=ssd --overwrite"]
    found = commands(pod("p", "4"), node("n", "4"), pod("q", "1", on="n"))
    assert found["move default/q off n"] == ["kubectl delete pod q -n default"]
    assert found["add a node like n"] == []


def test_of_a_pod() -> None:
    """Tolerations may be added to a pod, and gates taken away."""
    found = commands(pod("p"), node("n", taints=["a/b=c d:NoSchedule"]))
    (command,) = found["tolerate a/b=c d:NoSchedule"]
    *words, patch = shlex.split(command)
    assert words == ["kubectl", "patch", "pod", "p", "-n", "default", "--type=json", "-p"]
    assert json.loads(patch) == [
        {
            "op": "add",
            "path": "/spec/tolerations/-",
            "value": {"key": "a/b", "operator": "Equal", "value": "c d", "effect": "NoSchedule"},
        }
    ]
    found = commands(pod("p", gates=["x"]), node("n"))
    assert found["remove the scheduling gate x"] == [
        'kubectl patch pod p -n default --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates"}]\''
    ]


@pytest.mark.parametrize(
    ("made", "owner"),
    [
        (owned(pod("p", select={"a/b": "c"}), "ReplicaSet", "web-5f6", "5f6"), "deployment web"),
        (owned(pod("p", select={"a/b": "c"}), "StatefulSet", "db"), "statefulset db"),
        (owned(pod("p", select={"a/b": "c"}), "ReplicaSet", "bare"), None),
        (pod("p", select={"a/b": "c"}), None),
    ],
)
def test_of_what_has_the_template(made: Object, owner: str | None) -> None:
    """A node selector is changed where the template is; nobody is told a command that would fail."""
    found = commands(made, node("n"))["drop nodeSelector a/b=c"]
    path = '[{"op":"remove","path":"/spec/template/spec/nodeSelector/a~1b"}]'
    assert found == ([f"kubectl patch {owner} -n default --type=json -p '{path}'"] if owner else [])


def test_a_pod_that_may_not_preempt_is_told_so() -> None:
    """With its policy dropped it takes the place of another."""
    made = owned(pod("p", "4", priority=5), "StatefulSet", "db")
    made["spec"]["preemptionPolicy"] = "Never"
    found = commands(made, node("n", "4"), pod("low", "4", on="n"))
    text = "drop preemptionPolicy Never: it would preempt one pod of lower priority"
    assert found[text][0].startswith("kubectl patch statefulset db -n default")


def test_max_skew_can_be_raised() -> None:
    """To what it would be, where that is the smaller change."""
    constraint: Object = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}
    constraint |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}
    made = pod("p", "1", labels={"app": "w"})
    made["spec"]["topologySpreadConstraints"] = [constraint]
    there = [node("a", "9", zone="a"), node("b", "0", zone="b")]
    there += [pod(f"w{i}", "1", on="a", labels={"app": "w"}) for i in range(2)]
    assert "let the spread over zone have maxSkew 3" in commands(made, *there)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ({"pool": "generl"}, "no node has pool=generl; did you mean general?"),
        ({"pol": "general"}, "no node has the label pol; did you mean pool?"),
        ({"pool": "xyz"}, None),
        ({"pool": "general"}, None),
    ],
)
def test_misspelt_labels(select: dict[str, str], said: str | None) -> None:
    """A label that no node has is held against those that they do have."""
    answer = explained(pod("p", "9", select=select), [namespace("default"), node("n", labels={"pool": "general"})])
    assert [note for note in answer.notes if "did you mean" in note] == ([said] if said else [])
