"""An engine judges each answer about a pod group: its cause, and the changes that would start it."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.explain.changes import OnPod, Ungate
from podberth.explain.gangs.answer import AddNodes, GroupExplanation, LeaveDomain, LowerMinCount
from tests.builders import Object, node, pod
from tests.storage import claim, storage_class, using, volume
from tests.unit.explain.carry_out import carried_out
from tests.unit.explain.gangs.dumps import (
    COSCHEDULING,
    asked,
    bound,
    group,
    labelled,
    labelled_group,
    member,
    members,
    played,
)

SIX = [node(f"n{i}", "8") for i in range(6)] + [pod(f"x{i}", "3", on=f"n{i}") for i in range(6)]
"""Six nodes with room for one pod of 4 CPUs each."""


@pytest.mark.parametrize("volumes", [1, 2])
def test_a_volume_is_given_once(volumes: int) -> None:
    """Two pods, of which each wants a volume of the same class."""
    there = [*SIX, group(2), storage_class("local"), *(volume(f"v{i}", storage_class="local") for i in range(volumes))]
    for i, each in enumerate(members(2)):
        there += [using(each, f"c{i}"), claim(f"c{i}", storage_class="local")]
    found = asked(there)
    assert (found.fits, found.outcome == "starts") == (volumes, volumes == 2)
    assert len(played(there).placed) == (2 if volumes == 2 else 0)


def after(plan: list[Any], objects: list[Object], stopped: str = "") -> list[Object]:
    """The objects after a plan. What concerns pods is done to all of the group that are like the one that stops it."""
    objects = deepcopy(objects)
    waiting = [each for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
    like_it = next((each["spec"] for each in waiting if each["metadata"]["name"] == stopped), None)
    alike = {each["metadata"]["name"] for each in waiting if each["spec"] == like_it}
    for change in plan:
        if isinstance(change, LowerMinCount):
            for each in objects:
                if each["kind"] == "PodGroup" and "minMember" in each["spec"]:
                    each["spec"]["minMember"] = change.count
                elif each["kind"] == "PodGroup":
                    each["spec"]["schedulingPolicy"]["gang"]["minCount"] = change.count
        elif isinstance(change, AddNodes):
            like = next(each for each in objects if each["metadata"]["name"] == change.like)
            for number in range(change.count):
                clone = deepcopy(like)
                clone["metadata"]["name"] = f"{change.like}-more-{number}"
                clone["metadata"]["uid"] = f"more/{change.like}/{number}"
                clone["metadata"]["labels"]["kubernetes.io/hostname"] = clone["metadata"]["name"]
                clone["spec"].pop("unschedulable", None)
                objects.append(clone)
        elif isinstance(change, LeaveDomain):
            for each in objects:
                each["spec"].pop("schedulingConstraints", None)
        elif isinstance(change, OnPod):
            for each in waiting:
                gated = "schedulingGates" in each["spec"]
                if not (gated if isinstance(change, Ungate) else each["metadata"]["name"] in alike):
                    continue
                each.update(carried_out([change], each, [])[0])
        else:
            objects = carried_out([change], {"spec": {}}, objects)[1]
    return objects


def texts(answer: GroupExplanation) -> list[str]:
    return [remedy.text for remedy in answer.remedies]


def judged(objects: list[Object], answer: GroupExplanation, needed: int, *, topology: bool = False) -> None:
    """Every change that is offered starts the group in an engine."""
    running = sum(1 for each in objects if each["kind"] == "Pod" and "nodeName" in each["spec"] and _in_group(each))
    for remedy in answer.remedies:
        lowered = next((change.count for change in remedy.changes if isinstance(change, LowerMinCount)), needed)
        stopped = "" if answer.stopped is None else answer.stopped.pod.rpartition("/")[2]
        found = bound(after(list(remedy.changes), objects, stopped), topology=topology)
        assert len(found) + running >= lowered, (remedy.text, found)
        assert len(found) >= remedy.fits, (remedy.text, found)


def _in_group(each: Object) -> bool:
    return "schedulingGroup" in each["spec"]


def test_six_of_eight_fit() -> None:
    objects = [*SIX, group(8), *members(8)]
    answer = asked(objects)
    assert (answer.outcome, answer.fits, answer.group.needed) == ("unschedulable", 6, 8)
    assert list(answer.placed) == [f"default/train-{i}" for i in range(6)]
    assert answer.stopped is not None
    assert answer.stopped.pod == "default/train-6"
    assert answer.stopped.message == "0/6 nodes are available: 6 Insufficient cpu."
    assert (answer.stopped.cause, answer.stopped.alike) == ("needs 4 cpu, 1 free of 8 (7 requested)", 2)
    assert answer.message == "minCount (8) cannot be satisfied: 6 scheduled, 1 remaining"
    [whole] = answer.domains
    assert (whole.fits, whole.short, whole.nodes) == (6, 2, 6)
    assert [(limit.reason, limit.nodes) for limit in whole.limits] == [("Insufficient cpu", 6)]
    assert texts(answer) == [
        "start with 6 pods together instead of 8",
        "ask for 2500m cpu instead of 4",
        "add a node like n0",
    ]
    assert answer.remedies[0].commands == [
        "kubectl patch podgroups.scheduling.k8s.io train -n default --type=merge -p "
        """'{"spec":{"schedulingPolicy":{"gang":{"minCount":6}}}}'"""
    ]
    assert bound(objects) == set()
    judged(objects, answer, 8)


def test_a_gang_that_fits_starts() -> None:
    objects = [*SIX, group(5), *members(7)]
    answer = asked(objects)
    assert (answer.outcome, answer.fits, answer.remedies) == ("starts", 6, [])
    assert len(bound(objects)) == 6


def test_pods_that_run_count() -> None:
    objects = [*SIX[:2], *SIX[6:8], member("train-9", "4", on="n0"), group(3), *members(2)]
    answer = asked(objects)
    assert (answer.outcome, answer.fits, answer.group.running) == ("unschedulable", 1, 1)
    judged(objects, answer, 3)
    assert asked([*SIX, member("train-9", on="n0"), group(1)]).outcome == "runs"


@pytest.mark.parametrize(
    ("objects", "cause"),
    [
        pytest.param([group(8), *members(6)], "2 of 8 pods are still missing: 6 are there", id="too few pods"),
        pytest.param(
            [group(3), *members(2), member("last", gates=["quota"])],
            "pod last has scheduling gates (quota), and the others wait for that",
            id="a gate",
        ),
    ],
)
def test_a_group_that_is_not_tried_yet(objects: list[Object], cause: str) -> None:
    answer = asked([*SIX, *objects])
    assert (answer.outcome, answer.cause) == ("held", cause)
    assert bound([*SIX, *objects]) == set()
    judged([*SIX, *objects], answer, 3 if len(objects) == 4 else 8)
    assert answer.remedies


def test_groups_of_scheduler_plugins() -> None:
    objects = [*SIX, labelled_group(8), *(labelled(f"train-{i}") for i in range(8))]
    answer = asked(objects, api=COSCHEDULING)
    assert (answer.fits, answer.group.api) == (6, COSCHEDULING)
    lower = answer.remedies[0]
    assert lower.commands == [
        """kubectl patch podgroups.scheduling.x-k8s.io train -n default --type=merge -p '{"spec":{"minMember":6}}'"""
    ]
    assert len(bound(after(list(lower.changes), objects), api=COSCHEDULING)) == 6


def test_what_a_group_of_scheduler_plugins_asks_for_together() -> None:
    """More than is free in the whole cluster: it is not tried, though its pods fit."""
    of = labelled_group(2)
    of["spec"]["minResources"] = {"cpu": "31"}
    objects = [*SIX, of, *(labelled(f"train-{i}") for i in range(2))]
    answer = asked(objects, api=COSCHEDULING)
    assert (answer.outcome, answer.cause) == (
        "unschedulable",
        "its minResources are not free: resource gap: map[cpu:1]",
    )
    [condition] = played(objects).conditions.values()
    assert condition.startswith(answer.message)
    [more] = answer.remedies
    assert more.text == "add a node like n0"
    assert len(bound(after(list(more.changes), objects), api=COSCHEDULING)) == 2


def test_members_that_do_not_agree() -> None:
    answer = asked([*SIX, group(2), member("train-0", priority=1), member("train-1")])
    assert answer.outcome == "failed"
    assert "same priority" in answer.cause


def test_the_largest_part_is_not_only_what_comes_first() -> None:
    """A pod that fits nowhere does not hide that those behind it fit."""
    objects = [*SIX, group(8), member("train-0", "20"), *(member(f"train-{i}") for i in range(1, 8))]
    answer = asked(objects)
    assert answer.fits == 6
    assert answer.stopped is not None
    assert answer.stopped.pod == "default/train-0"


def test_pods_that_differ_are_tried_as_the_engine_would() -> None:
    """A pod's changed requests count for the scores of those that come after it, too."""
    nodes = [node("n0", "6"), node("n1", "6"), *(pod(f"x{i}", "1", on="n0") for i in range(5))]
    objects = [*nodes, group(5), *(member(f"train-{i}", cpu) for i, cpu in enumerate(["1", "1", "3", "1", "3"]))]
    answer = asked(objects)
    assert "ask for 1500m cpu instead of 3" in texts(answer)
    judged(objects, answer, 5)


def test_several_nodes_are_changed_together() -> None:
    """Two members lack room, and each cordoned node has room for one."""
    cordoned = [node(f"c{i}", "4", cordoned=True) for i in range(3)]
    objects = [*SIX, *cordoned, group(8), *members(8)]
    answer = asked(objects)
    assert "uncordon c0 and uncordon c1" in texts(answer)
    judged(objects, answer, 8)


def test_a_toleration_for_all() -> None:
    objects = [*SIX, node("g", "8", taints=["gpu=yes:NoSchedule"]), group(8), *members(8)]
    answer = asked(objects)
    assert texts(answer)[0] == "tolerate gpu=yes:NoSchedule"
    judged(objects, answer, 8)


def of_deployment(name: str, count: int, **more: Any) -> list[Object]:
    """Members that a Deployment has made."""
    made = members(count, "1", **more)
    for number, each in enumerate(made):
        labels = {"pod-template-hash": "5"}
        each["metadata"] |= {"name": f"{name}-{number}", "uid": f"{name}/{number}", "labels": labels}
        owner = {"kind": "ReplicaSet", "name": f"{name}-5", "uid": name, "controller": True}
        each["metadata"]["ownerReferences"] = [owner]
    return made


def commands(answer: GroupExplanation, text: str) -> list[str]:
    """The commands of the change that is told so."""
    return next(remedy.commands for remedy in answer.remedies if remedy.text == text)


def test_each_template_of_a_gang_has_its_command() -> None:
    """Also one whose pods come after many of another."""
    pods = [*of_deployment("a", 18, select={"disk": "ssd"}), *of_deployment("b", 2, select={"disk": "ssd"})]
    answer = asked([*SIX, group(20), *pods])
    patch = """-n default --type=json -p '[{"op":"remove","path":"/spec/template/spec/nodeSelector/disk"}]'"""
    assert commands(answer, "drop nodeSelector disk=ssd") == [
        f"kubectl patch deployment a {patch}",
        f"kubectl patch deployment b {patch}",
    ]


def test_commands_for_each_of_many_pods_are_not_shown() -> None:
    pods = members(17, "1", select={"disk": "ssd"})
    answer = asked([*SIX, group(17), *pods])
    assert commands(answer, "drop nodeSelector disk=ssd") == []
    assert "17 pods would have to be changed one by one: no commands are shown" in answer.notes


def test_each_pod_of_a_gang_gets_the_commands_that_concern_it() -> None:
    """Gates go from those that have some, and all that are like the one that stops the gang ask for less."""
    pods = [*members(2, gates=["quota"]), *members(8)[2:]]
    answer = asked([*SIX, group(8), *pods])
    found = commands(answer, "remove the scheduling gate quota and ask for 2500m cpu instead of 4")
    assert [f" train-{i} " in command for i, command in enumerate(found)] == [True] * 8
    assert ["schedulingGates" in command for command in found] == [True] * 2 + [False] * 6
    assert all('"value":"2500m"' in command for command in found)


def test_a_pod_that_asks_for_less_already_is_asked_for_nothing_else() -> None:
    """It gets the scheduler's name only, and that does not take the whole change away."""
    answer = asked([*SIX, group(8), *members(7), member("train-launcher", "100m")], instead=["other"])
    found = commands(answer, "name the scheduler other and ask for 2500m cpu instead of 4")
    assert len(found) == 8
    assert all('"path":"/spec/schedulerName","value":"other"' in command for command in found)
    assert [command for command in found if "cpu" not in command] == [
        command for command in found if " train-launcher " in command
    ]


def test_pods_that_keep_apart() -> None:
    """Sums do not say how many fit: they are placed one after the other."""
    apart = ["app=train per host"]
    objects = [*SIX, group(8), *members(8, "1", labels={"app": "train"}, apart=apart)]
    answer = asked(objects)
    assert (answer.fits, answer.domains[0].short) == (6, 2)
    judged(objects, answer, 8)
    assert any("prefer, not require" in text for text in texts(answer))


RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def racks(*sizes: int) -> list[Object]:
    """Racks a, b, … of so many nodes, each with room for one pod."""
    return [
        node(f"{rack}{i}", "4", labels={"rack": rack})
        for rack, size in zip("abc", sizes, strict=False)
        for i in range(size)
    ]


def test_each_rack_in_numbers() -> None:
    """None of them holds all; the largest part is in the one with most room."""
    objects = [*racks(2, 5, 3), node("n", "4"), group(6, **RACK), *members(6)]
    answer = asked(objects, topology=True)
    assert (answer.outcome, answer.fits, answer.domain) == ("unschedulable", 5, "b")
    assert [(each.domain, each.nodes, each.fits, each.short) for each in answer.domains] == [
        ("b", 5, 5, 1),
        ("c", 3, 3, 3),
        ("a", 2, 2, 4),
    ]
    status = "minCount (6) cannot be satisfied: 2 scheduled, 3 remaining"
    said = f"pod group is unschedulable, 0/3 placements are available, first placement status: {status}"
    assert answer.message == said
    [condition] = played(objects, topology=True).conditions.values()
    assert condition.startswith(said)
    assert texts(answer) == [
        "start with 5 pods together instead of 6",
        "ask for 2 cpu instead of 4",
        "label n rack=b",
        "create the group without its constraint to one rack",
        "add a node like b0",
    ]
    assert bound(objects, topology=True) == set()
    judged(objects, answer, 6, topology=True)


def test_where_pods_run_is_the_only_rack() -> None:
    objects = [*racks(2, 5), member("train-9", on="a0"), group(3, **RACK), *members(2)]
    answer = asked(objects, topology=True)
    assert [(each.domain, each.fits, each.short) for each in answer.domains] == [("a", 1, 1)]
    judged(objects, answer, 3, topology=True)


def test_no_node_has_the_label() -> None:
    answer = asked([*SIX, group(2, **RACK), *members(2)], topology=True)
    assert (answer.outcome, answer.cause, answer.message) == (
        "unschedulable",
        "no node has the label rack",
        "no feasible placements found",
    )


def test_a_topology_that_the_profile_does_not_heed_is_told_all_the_same() -> None:
    objects = [*racks(2, 5), group(6, **RACK), *members(6)]
    answer = asked(objects)
    assert (answer.outcome, answer.fits) == ("starts", 6)
    assert [(each.domain, each.fits) for each in answer.domains] == [("b", 5), ("a", 2)]
    assert any("does not heed" in note for note in answer.notes)
    assert len(bound(objects)) == 6


CPUS = st.sampled_from(["1", "2", "3", "4"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.sampled_from(["2", "4", "6"]), min_size=1, max_size=5),
    placed=st.lists(st.tuples(st.integers(0, 4), CPUS), max_size=8),
    asks=st.lists(CPUS, min_size=1, max_size=6),
    equal=st.booleans(),
    cordoned=st.sets(st.integers(0, 4), max_size=2),
    tainted=st.sets(st.integers(0, 4), max_size=2),
    short=st.integers(0, 2),
    topology=st.booleans(),
)
def test_whatever_is_offered_starts_it(
    sizes: list[str],
    placed: list[tuple[int, str]],
    asks: list[str],
    equal: bool,
    cordoned: set[int],
    tainted: set[int],
    short: int,
    topology: bool,
) -> None:
    """And the group starts in a dry run if and only if it starts in an engine, with as many pods."""
    objects: list[Object] = [
        node(
            f"n{i}",
            size,
            cordoned=i in cordoned,
            taints=["a=b:NoSchedule"] if i in tainted else [],
            labels={"rack": "ab"[i % 2]} if i < 4 else {},
        )
        for i, size in enumerate(sizes)
    ]
    left = [int(size) for size in sizes]
    for number, (where, cpu) in enumerate(placed):
        row = where % len(sizes)
        if left[row] >= int(cpu):
            left[row] -= int(cpu)
            objects.append(pod(f"x{number}", cpu, on=f"n{row}"))
    asks = [asks[0]] * len(asks) if equal else asks
    needed = max(len(asks) - short, 1)
    objects += [group(needed, **RACK if topology else {}), *(member(f"train-{i}", cpu) for i, cpu in enumerate(asks))]
    answer = asked(objects, topology=topology)
    found = bound(objects, topology=topology)
    assert (answer.outcome == "starts") is bool(found)
    if found:
        # Of several domains the best one need not be the one that takes most.
        assert len(found) == answer.fits or (topology and needed <= len(found) < answer.fits)
    else:
        judged(objects, answer, needed, topology=topology)


def test_what_was_not_tried_is_said() -> None:
    """Pods that keep apart are placed one by one, each time; that has an end."""
    several = members(8, "1", labels={"app": "train"}, apart=["app=train per host"])
    answer = asked([*SIX, group(8), *several], work=30)
    assert "not every change was tried, and not every domain: that would have taken too long" in answer.notes


def test_one_command_for_many_pods_that_differ_is_not_tried_with_each() -> None:
    """A change of their template is found for as many as there are, within what may be tried."""
    pods = of_deployment("a", 40)
    for number, each in enumerate(pods):
        each["spec"]["containers"][0]["resources"]["requests"]["memory"] = str(1000 + number)
    answer = asked([node("n", cpu="64"), group(40), *pods], instead=["other"], work=1500)
    assert len(commands(answer, "name the scheduler other")) == 1
