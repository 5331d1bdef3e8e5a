"""A pod group that is a part of a tree is explained with it: it starts only together with the others."""

import json
from pathlib import Path

import pytest

from tests.builders import Object, configuration, namespace, node, pod, profile
from tests.unit.cli.conftest import Berth, berth
from tests.unit.whatif.gangs import group, members

__all__ = ["berth"]


def root(needed: int, name: str = "job", priority: int = 0) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": needed}}, "priority": priority}
    meta = {"name": name, "namespace": "default", "uid": f"root/{name}"}
    api = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup"}
    return {**api, "metadata": meta, "spec": spec}


def part(needed: int, name: str, **spec: object) -> Object:
    return group(needed, name, parentCompositePodGroupName="job", **spec)


def asked(berth: Berth, *objects: Object, name: str = "podgroup/a", gate: bool = True) -> tuple[int, Object]:
    """The exit code and the answer about a group of a dump."""
    config = configuration(profile(GangScheduling={"featureGates": {"CompositePodGroup": gate}}))
    Path("config.json").write_text(json.dumps(config))
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": [namespace("default"), *objects]}))
    found = berth("explain", name, "--cluster", "dump.json", "--config", "config.json", "-o", "json")
    assert found.err == ""
    answer: Object = json.loads(found.out)
    return found.code, answer


TWO = [root(2), part(2, "a"), part(2, "b"), *members(2, "4", of="a"), *members(2, "4", of="b")]


def test_a_tree_that_fits(berth: Berth) -> None:
    code, answer = asked(berth, node("n", "16"), *TWO)
    assert (code, answer["outcome"]) == (0, "starts")
    assert answer["tree"]["root"] == "job"
    assert [(one["name"], one["partOf"], one["starts"]) for one in answer["tree"]["groups"]] == [
        ("a", "job", True),
        ("b", "job", True),
    ]


def test_a_group_that_fits_does_not_start_without_the_others(berth: Berth) -> None:
    """The others are said of with kube-scheduler's words."""
    code, answer = asked(berth, node("n", "12"), *TWO)
    assert (code, answer["outcome"], answer["fits"]) == (1, "unschedulable", 2)
    assert answer["cause"] == "enough of it fits, but its tree job does not start"
    other = answer["tree"]["groups"][1]
    assert (other["starts"], other["needed"], other["waiting"]) == (False, 2, 2)
    assert "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining" in other["message"]
    found = berth("explain", "podgroup/a", "--cluster", "dump.json", "--config", "config.json")
    assert "default/a does not start: enough of it fits, but its tree job does not start" in found.out
    assert "Its tree job, of which all start together" in found.out
    assert "No single small change" not in found.out
    found = berth("explain", "podgroup/a", "--cluster", "dump.json", "--config", "config.json", "-o", "html")
    assert "Its tree job, of which all start together" in found.out


def test_a_tree_that_lacks_pods(berth: Berth) -> None:
    code, answer = asked(berth, node("n", "16"), *TWO[:-1])
    assert (code, answer["outcome"]) == (1, "unschedulable")
    assert answer["tree"]["cause"] == "too few of its groups have enough pods"
    found = berth("explain", "podgroup/a", "--cluster", "dump.json", "--config", "config.json")
    assert "1 of its 2 pods are missing" in " ".join(found.out.split())


def test_a_tree_without_its_root(berth: Berth) -> None:
    _, answer = asked(berth, node("n", "16"), *TWO[1:])
    assert answer["tree"] is None
    assert any('waiting for composite pod group "job" to appear' in note for note in answer["notes"])


def test_without_the_gate_it_is_a_group_as_any(berth: Berth) -> None:
    code, answer = asked(berth, node("n", "12"), *TWO, gate=False)
    assert (code, answer["outcome"], answer["tree"]) == (0, "starts", None)


@pytest.mark.parametrize("name", ["cpg/job", "compositepodgroup/job", "compositepodgroups/job"])
def test_a_tree_by_its_name(berth: Berth, name: str) -> None:
    """The answer is that of the first of its groups of which pods wait."""
    _, answer = asked(berth, node("n", "16"), part(1, "c"), *TWO, name=name)
    assert answer["group"]["name"] == "a"
    assert [one["name"] for one in answer["tree"]["groups"]] == ["c", "a", "b"]
    missing = berth("explain", "cpg/other", "--cluster", "dump.json")
    assert (missing.code, missing.err) == (
        2,
        "berth: CompositePodGroup default/other: no such pod group in dump.json\n",
    )


def test_whom_it_would_preempt(berth: Berth) -> None:
    high: Object = {"priority": 10}
    found = [root(2, priority=10), *(part(1, name, **high) for name in "ab")]
    found += [one for name in "ab" for one in members(1, "4", of=name, priority=10)]
    code, answer = asked(berth, node("n", "8"), pod("x", "4", on="n", priority=0), *found)
    assert (code, answer["outcome"]) == (1, "unschedulable")
    assert "berth run would preempt for its tree (tried): default/x" in answer["notes"]
