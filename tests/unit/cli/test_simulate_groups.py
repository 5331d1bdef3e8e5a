"""Pod groups in a simulation: all or nothing, with what became of each; and the groups that Jobs get from Workloads."""

import json
from pathlib import Path
from typing import Any

import pytest

from podberth.explain.simulate import plan
from tests.builders import Object, node, pod
from tests.unit.cli.conftest import Berth
from tests.unit.explain.gangs.dumps import group, labelled, labelled_group, member, members

SIX = [node(f"n{i}", "8") for i in range(6)] + [pod(f"x{i}", "3", on=f"n{i}") for i in range(6)]


def write(name: str, *objects: Object) -> None:
    Path(name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")


def simulated(berth: Berth, *objects: Object, cluster: list[Object] | None = None, code: int = 0) -> dict[str, Any]:
    """The answer for a file of these objects."""
    write("cluster.json", *(SIX if cluster is None else cluster))
    for each in objects:
        each["metadata"].pop("uid", None)  # as people write them
    write("file.json", *objects)
    found = berth("simulate", "-f", "file.json", "--cluster", "cluster.json", "-o", "json")
    assert (found.code, found.err) == (code, "")
    answer: dict[str, Any] = json.loads(found.out)
    return answer


def job(count: int, of: str | None = "train", name: str = "train", cpu: str = "4") -> Object:
    """A Job whose pods are all there at once."""
    spec: Object = {**member("m", cpu)["spec"], "restartPolicy": "Never"}
    if of is None:
        del spec["schedulingGroup"]
    else:
        spec["schedulingGroup"] = {"podGroupName": of}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"parallelism": count, "completions": count, "template": {"spec": spec}},
    }


@pytest.mark.parametrize("made_of", ["pods", "a Job"])
def test_all_or_nothing(berth: Berth, made_of: str) -> None:
    """Eight of which six fit: none is placed. With two nodes more, all are."""
    several = members(8) if made_of == "pods" else [job(8)]
    answer = simulated(berth, group(8), *several, code=1)
    assert answer["placed"] == []
    [of] = answer["groups"]
    assert (of["group"], of["minCount"], of["pods"], of["bound"], of["starts"]) == ("default/train", 8, 8, 0, False)
    assert of["message"].startswith("minCount (8) cannot be satisfied: 6 scheduled, 1 remaining")
    assert sum(each["pods"] for each in answer["waiting"]) == 8
    more = [*SIX, node("more-0"), node("more-1")]
    answer = simulated(berth, group(8), *several, cluster=more)
    assert len(answer["placed"]) == 8
    assert [(of["bound"], of["starts"], of["message"]) for of in answer["groups"]] == [(8, True, "")]


def test_the_order_in_a_file_does_not_matter(berth: Berth) -> None:
    answer = simulated(berth, *members(3), group(6), *(member(f"late-{i}") for i in range(3)))
    assert [of["bound"] for of in answer["groups"]] == [6]


def test_a_gang_beside_others(berth: Berth) -> None:
    """Three gangs of four for six places: one starts, and the pods by themselves are not held up."""
    gangs = [each for name in "abc" for each in (group(4, name), *members(4, of=name))]
    answer = simulated(berth, *gangs, pod("alone", "4"), code=1)
    assert sorted(of["bound"] for of in answer["groups"]) == [0, 0, 4]
    assert any(each["pod"] == "default/alone" for each in answer["placed"])


def test_a_preempted_pod_is_told_with_its_node(berth: Berth) -> None:
    """A group makes room in the whole cluster, which is no node."""
    there = [node("n0", "8"), node("n1", "8"), pod("x0", "6", on="n0", priority=0), pod("x1", "6", on="n1", priority=0)]
    answer = simulated(berth, group(4, priority=10), *members(4, priority=10), cluster=there)
    assert sorted((each["pod"], each["node"]) for each in answer["preempted"]) == [
        ("default/x0", "n0"),
        ("default/x1", "n1"),
    ]


def test_a_topology_that_is_not_heeded_is_told(berth: Berth) -> None:
    """Once for all groups that ask for it."""
    rack: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    answer = simulated(berth, group(1, "a", **rack), group(1, "b", **rack), *members(1, of="a"), *members(1, of="b"))
    assert [note for note in answer["notes"] if "does not heed" in note] == [
        "default/a, default/b: nodes with one value of rack are asked for, which the profile berth does not heed: it "
        "has no plugin TopologyPlacementGenerator"
    ]


def test_too_few_pods(berth: Berth) -> None:
    answer = simulated(berth, group(8), *members(3), code=1)
    assert answer["groups"][0]["message"] == "3 of 8 pods are there"


def test_members_of_a_group_that_waits_in_the_cluster(berth: Berth) -> None:
    """Their number is made up by the file."""
    answer = simulated(berth, *(member(f"late-{i}") for i in range(2)), cluster=[*SIX, group(6), *members(4)])
    assert [(of["pods"], of["bound"]) for of in answer["groups"]] == [(6, 6)]
    assert len(answer["others"]["freed"]) == 4


def test_groups_of_scheduler_plugins(berth: Berth) -> None:
    answer = simulated(berth, labelled_group(8), *(labelled(f"train-{i}") for i in range(8)), code=1)
    assert [(of["api"], of["bound"], of["starts"]) for of in answer["groups"]] == [("scheduling.x-k8s.io", 0, False)]


def workload(**spec: Any) -> Object:
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 8}}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "big", "namespace": "default"},
        "spec": {"podGroupTemplates": [template], **spec},
    }


def test_a_job_gets_a_group_from_its_workload(berth: Berth) -> None:
    reference = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    answer = simulated(berth, workload(controllerRef=reference), job(8, None), code=1)
    assert [(of["group"], of["bound"], of["pods"]) for of in answer["groups"]] == [("default/big-workers", 0, 8)]
    assert answer["notSimulated"] == []


def test_a_workload_of_which_no_group_is_made(berth: Berth) -> None:
    """Nobody knows what its controller would do."""
    answer = simulated(berth, workload(), pod("alone"))
    assert answer["groups"] == []
    assert any("no pod group is made of it here" in note for note in answer["notes"])


def test_a_workload_whose_groups_are_there(berth: Berth) -> None:
    made = group(2, workloadRef={"workloadName": "big", "templateName": "workers"})
    answer = simulated(berth, workload(), made, *members(2))
    assert (answer["notes"], [of["bound"] for of in answer["groups"]]) == ([], [2])


def test_what_is_printed(berth: Berth) -> None:
    write("cluster.json", *SIX)
    write("file.json", group(8), *members(8))
    table = berth("simulate", "-f", "file.json", "--cluster", "cluster.json").out
    assert "default/train 8 0 8 waits: minCount (8) cannot be satisfied" in " ".join(table.split())
    page = berth("simulate", "-f", "file.json", "--cluster", "cluster.json", "-o", "html").out
    assert "<h2>Pod groups</h2>" in page


def test_many_members(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are created one by one, but not without end."""
    monkeypatch.setattr(plan, "MEMBERS", 30)
    answer = simulated(berth, group(8), job(1_000_000_000, cpu="1m"), code=1)
    assert any("only 30 of its pods were created" in note for note in answer["notes"])
