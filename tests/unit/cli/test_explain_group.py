"""`berth explain podgroup/NAME`: from a dump and from files, in all forms, with its exit codes."""

import json
from pathlib import Path

import pytest

from tests.builders import Object, node, pod
from tests.unit.cli.conftest import Berth
from tests.unit.explain.gangs.dumps import group, labelled, labelled_group, member, members

SIX = [node(f"n{i}", "8") for i in range(6)] + [pod(f"x{i}", "3", on=f"n{i}") for i in range(6)]


def write(name: str, *objects: Object) -> None:
    Path(name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")


@pytest.fixture(autouse=True)
def dumps(berth: Berth) -> None:
    """A cluster where six of a gang of eight fit, and the gang by itself."""
    write("gang.json", *SIX, group(8), *members(8))
    write("six.json", *SIX)
    write("train.json", group(8), *members(8))


@pytest.mark.parametrize("name", ["podgroup/train", "pg/train", "podgroups.scheduling.k8s.io/train", "PodGroup/train"])
def test_a_group_of_a_dump(berth: Berth, name: str) -> None:
    found = berth("explain", name, "--cluster", "gang.json")
    assert found.code == 1
    assert "✗ default/train does not start: 6 of 8 pods fit" in found.out
    assert "train-6 stops it (and 1 more pod like it): needs 4 cpu, 1 free of 8 (7 requested)" in found.out
    assert "• start with 6 pods together instead of 8" in found.out
    assert "kubectl patch podgroups.scheduling.k8s.io train -n default" in found.out
    assert "minCount (8) cannot be satisfied: 6 scheduled, 1 remaining" in found.out


def test_a_group_of_a_file(berth: Berth) -> None:
    """With its pods; commands would change what is not there yet."""
    for arguments in (["-f", "train.json"], ["pg/train", "-f", "train.json"]):
        found = berth("explain", *arguments, "--cluster", "six.json")
        assert found.code == 1
        assert "6 of 8 pods fit" in found.out
        assert "kubectl" not in found.out


def test_a_workload_of_a_file(berth: Berth) -> None:
    """As many pods as it wants; objects without a namespace are in the one that was asked for."""
    spec = member("m")["spec"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "parallelism": 5,
            "completions": 5,
            "template": {"spec": {**spec, "restartPolicy": "Never"}},
        },
    }
    alone = group(5)
    del alone["metadata"]["namespace"]
    write("job.json", alone, job)
    found = berth("explain", "-f", "job.json", "-n", "ml", "--cluster", "six.json")
    assert (found.code, found.err) == (0, "")
    assert "✓ ml/train can start: 5 of 5 pods find a node" in found.out


@pytest.mark.parametrize("command", ["explain", "capacity"])
@pytest.mark.parametrize("name", ["job/work", "work", "default/work", "train-0"])
def test_what_is_named_in_a_file_is_asked_about_with_its_group(berth: Berth, command: str, name: str) -> None:
    """As without a name: its pods are not decided by themselves."""
    work = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": "default"},
        "spec": {"parallelism": 4, "template": {"spec": {**member("m")["spec"], "restartPolicy": "Never"}}},
    }
    write("train.json", group(7), work, *members(3))
    without, found = (
        berth(command, *named, "-f", "train.json", "--cluster", "six.json", "-o", "json") for named in ([], [name])
    )
    assert (found.code, found.err) == (1, "")
    assert found.out == without.out
    assert json.loads(found.out)["kind"] in ("PodGroupExplanation", "GangCapacity")


def test_a_workload_that_belongs_to_no_group_of_the_file_is_asked_about_itself(berth: Berth) -> None:
    """Nor to a group of the same name elsewhere."""
    elsewhere = group(8)
    elsewhere["metadata"]["namespace"] = "other"
    write("train.json", group(8), *members(8), pod("alone", "1"))
    for command in ("explain", "capacity"):
        found = berth(command, "alone", "-f", "train.json", "--cluster", "six.json", "-o", "json")
        assert json.loads(found.out)["kind"] in ("Explanation", "Capacity")
    write("train.json", elsewhere, *members(1))
    found = berth("explain", "train-0", "-f", "train.json", "--cluster", "six.json", "-o", "json")
    assert json.loads(found.out)["kind"] == "Explanation"


def test_forms(berth: Berth) -> None:
    answer = json.loads(berth("explain", "pg/train", "--cluster", "gang.json", "-o", "json").out)
    assert (answer["kind"], answer["fits"], answer["group"]["minCount"]) == ("PodGroupExplanation", 6, 8)
    assert "kind: PodGroupExplanation" in berth("explain", "pg/train", "--cluster", "gang.json", "-o", "yaml").out
    page = berth("explain", "pg/train", "--cluster", "gang.json", "-o", "html").out
    assert page.startswith("<!doctype html>")
    assert "<h1>default/train does not start: 6 of 8 pods fit</h1>" in page


def test_a_member_says_which_group_it_belongs_to(berth: Berth) -> None:
    found = berth("explain", "train-3", "--cluster", "gang.json")
    said = " ".join(found.out.split())
    assert "it belongs to the pod group default/train, of which 8 pods start together" in said
    assert "6 of the 8 that it lacks fit (berth explain podgroup/train -n default)" in said


def test_groups_of_scheduler_plugins(berth: Berth) -> None:
    write("theirs.json", *SIX, labelled_group(8), *(labelled(f"train-{i}") for i in range(8)))
    found = berth("explain", "pg/train", "--cluster", "theirs.json")
    assert "6 of 8 pods fit" in found.out
    assert "kubectl patch podgroups.scheduling.x-k8s.io train" in found.out


def test_both_kinds_of_one_name(berth: Berth) -> None:
    write("both.json", *SIX, group(2), labelled_group(2))
    found = berth("explain", "pg/train", "--cluster", "both.json")
    assert (found.code, "name podgroup.scheduling.k8s.io/train or podgroup.scheduling.x-k8s.io/train" in found.err) == (
        2,
        True,
    )
    assert berth("explain", "podgroup.scheduling.x-k8s.io/train", "--cluster", "both.json").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pg/trian", "--cluster", "gang.json"], "no such pod group in gang.json (did you mean train?)"),
        (["pg/other", "-f", "train.json", "--cluster", "six.json"], "train.json: holds no pod group named other"),
        (["pg/train", "-f", "six.json", "--cluster", "six.json"], "six.json: holds no pod group named train"),
    ],
)
def test_a_group_that_is_not_there(berth: Berth, arguments: list[str], said: str) -> None:
    found = berth("explain", *arguments)
    assert (found.code, said in found.err, found.out) == (2, True, "")


def test_pods_of_a_gang_are_one_entry_among_those_that_wait(berth: Berth) -> None:
    """With the cause of the gang. Two gangs that wait for the same share it."""
    other = [group(8, "other"), *members(8, of="other")]
    write("two.json", *SIX, group(8), *members(8), *other, pod("huge", "64"))
    answer = json.loads(berth("explain", "--pending", "--cluster", "two.json", "-o", "json").out)
    assert answer["pods"] == 17
    gangs = next(cause for cause in answer["causes"] if "group" in cause["cause"])
    why = "6 of the 8 pods of the group fit: needs 4 cpu, 1 free of 8 (7 requested)"
    assert (gangs["cause"], gangs["pods"], gangs["outcome"]) == (why, 16, "unschedulable")
    assert gangs["owners"] == {"PodGroup default/other": 8, "PodGroup default/train": 8}
    assert gangs["groupRemedies"][0]["text"] == "start with 6 pods together instead of 8"
    table = berth("explain", "--pending", "--cluster", "two.json").out
    assert "17 pods wait, for 2 causes" in table
    page = berth("explain", "--pending", "--cluster", "two.json", "-o", "html").out
    assert "What would start the group of default/other-<wbr>0" in page


def test_pods_of_a_group_that_is_not_there(berth: Berth) -> None:
    write("lost.json", *SIX, group(1, "other"), *members(2))
    answer = json.loads(berth("explain", "--pending", "--cluster", "lost.json", "-o", "json").out)
    [cause] = answer["causes"]
    assert cause["cause"] == 'waiting for pods\'s pod group "train" to appear in scheduling queue'
