"""Groups of pod groups (CompositePodGroup): one entry of the queue, all of the tree or nothing."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Bind, Failed, Instruction, SetGroupCondition
from scheduler.engine.pod_groups.gathering import Gathering
from scheduler.engine.stimuli import Follows
from scheduler.model.pod_group import COMPOSITE, NATIVE, GroupKey
from scheduler.state.group_trees import MOST_GROUPS
from scheduler.state.validate import validate
from tests.builders import Object, configuration

from .conftest import Harness, node, pod

GATE: Object = {"CompositePodGroup": True}


def profile(*, gate: bool = True, **more: Any) -> Object:
    points = {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]}
    args = [{"name": "GangScheduling", "args": {"featureGates": {"CompositePodGroup": gate}, **more}}]
    return {"schedulerName": "berth", "plugins": {"multiPoint": points}, "pluginConfig": args}


def made(budget: Budget | None = None, *, gate: bool = True) -> Harness:
    harness = Harness(configuration(profile(gate=gate)), budget=budget)
    harness.handle(Follows(NATIVE, True))
    harness.handle(Follows(COMPOSITE, True))
    return harness


@pytest.fixture(params=["whole", "sliced"])
def gangs(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A harness that knows groups of groups, with slices as they are and with slices of almost nothing."""
    harness = made(Budget(slice=50, longest_slice=50) if request.param == "sliced" else None)
    yield harness
    assert validate(harness.engine.cluster) == []


def composite(
    name: str, needed: int | None, parent: str | None = None, topology: str = "", priority: int = 0
) -> Object:
    spec: Object = {
        "schedulingPolicy": {"basic": {}} if needed is None else {"gang": {"minGroupCount": needed}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "priority": priority,
    }
    return {"kind": "CompositePodGroup", "metadata": _meta(name), "spec": _within(spec, parent, topology)}


def group(name: str, needed: int | None, parent: str | None = None, topology: str = "", priority: int = 0) -> Object:
    policy: Object = {"basic": {}} if needed is None else {"gang": {"minCount": needed}}
    spec: Object = {"schedulingPolicy": policy, "priority": priority}
    return {"kind": "PodGroup", "metadata": _meta(name), "spec": _within(spec, parent, topology)}


def _meta(name: str) -> Object:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}"}


def _within(spec: Object, parent: str | None, topology: str) -> Object:
    if parent is not None:
        spec["parentCompositePodGroupName"] = parent
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return spec


def members(of: str, count: int, cpu: str = "1", **spec: Any) -> list[Object]:
    return [pod(f"{of}-{i}", cpu, schedulingGroup={"podGroupName": of}, **spec) for i in range(count)]


def bound(said: Sequence[Instruction]) -> dict[str, str]:
    return {one.pod.name: one.node for one in said if isinstance(one, Bind)}


def conditions(said: Sequence[Instruction]) -> dict[str, tuple[str, str, str]]:
    return {one.group.name: (one.status, one.reason, one.message) for one in said if isinstance(one, SetGroupCondition)}


def failures(said: Sequence[Instruction]) -> dict[str, str]:
    return {one.pod.name: one.message for one in said if isinstance(one, Failed)}


def test_all_groups_of_a_tree_start_together(gangs: Harness) -> None:
    gangs.put(node("n0", "4"), composite("job", 2), group("a", 2, "job"), group("b", 2, "job"))
    gangs.put(*members("a", 2))
    assert bound(gangs.cycles()) == {}
    gangs.put(*members("b", 2))
    said = gangs.cycles()
    assert sorted(bound(said)) == ["a-0", "a-1", "b-0", "b-1"]
    assert conditions(said) == {"a": ("True", "Scheduled", ""), "b": ("True", "Scheduled", "")}


def test_nothing_of_a_tree_is_bound_if_one_group_too_many_does_not_fit(gangs: Harness) -> None:
    gangs.put(node("n0", "3"), composite("job", 2), group("a", 2, "job"), group("b", 2, "job"))
    gangs.put(*members("a", 2), *members("b", 2))
    said = gangs.cycles()
    assert bound(said) == {}
    above = (
        "pod group is unschedulable, 0/1 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    )
    more = ", pod group preemption: No preemption victims found for incoming preemptor"
    assert conditions(said) == {
        "a": ("False", "Unschedulable", above + more),
        "b": ("False", "Unschedulable", above + more),
    }
    assert failures(said) == {
        "a-0": above,
        "a-1": above,
        "b-0": f"pod group is unschedulable, {above}{more}",
        "b-1": "0/1 nodes are available: 1 Insufficient cpu.",
    }
    gangs.put(node("n1", "1"))
    gangs.after(60)
    assert len(bound(gangs.cycles())) == 4


def test_as_many_groups_as_are_asked_for_are_enough(gangs: Harness) -> None:
    """The others are told why they wait, and come when there is room."""
    gangs.put(node("n0", "2"), composite("job", 1), group("a", 2, "job"), group("b", 2, "job"))
    gangs.put(*members("a", 2), *members("b", 2))
    said = gangs.cycles()
    assert sorted(bound(said)) == ["a-0", "a-1"]
    assert conditions(said)["b"][:2] == ("False", "Unschedulable")
    assert set(failures(said)) == {"b-0", "b-1"}
    gangs.put(node("n1", "2"))
    gangs.after(60)
    assert sorted(bound(gangs.cycles())) == ["b-0", "b-1"]


def test_each_level_counts_for_itself(gangs: Harness) -> None:
    gangs.put(composite("job", 2), composite("left", 2, "job"), composite("right", 1, "job"))
    for name, parent in (("a", "left"), ("b", "left"), ("c", "right"), ("d", "right")):
        gangs.put(group(name, 1, parent), *members(name, 1))
    gangs.put(node("n0", "2"))
    assert bound(gangs.cycles()) == {}
    gangs.put(node("n1", "1"))
    gangs.after(60)
    said = gangs.cycles()
    assert sorted(bound(said)) == ["a-0", "b-0", "c-0"]


def test_a_tree_stays_in_one_domain_and_its_groups_in_one_each(gangs: Harness) -> None:
    """The block is the tree's; in it, each group has a rack. The first block has the room, but not in two racks."""
    for i, (block, rack, cpu) in enumerate(
        [("b0", "r0", "4"), ("b0", "r1", "1"), ("b1", "r2", "2"), ("b1", "r3", "2")]
    ):
        gangs.put(node(f"n{i}", cpu, block=block, rack=rack))
    gangs.put(composite("job", 2, topology="block"), *(group(name, 2, "job", "rack") for name in "ab"))
    gangs.put(*members("a", 2, nodeSelector={}), *members("b", 2))
    found = bound(gangs.cycles())
    assert len(found) == 4
    assert {found["a-0"], found["a-1"]} in ({"n0"}, {"n2"}, {"n3"})
    assert found["a-0"] == found["a-1"]
    assert found["b-0"] == found["b-1"]


def test_the_block_that_has_room_for_both_is_found(gangs: Harness) -> None:
    for i, (block, rack, cpu) in enumerate(
        [("b0", "r0", "3"), ("b0", "r1", "1"), ("b1", "r2", "2"), ("b1", "r3", "2")]
    ):
        gangs.put(node(f"n{i}", cpu, block=block, rack=rack))
    gangs.put(composite("job", 2, topology="block"), *(group(name, 2, "job", "rack") for name in "ab"))
    gangs.put(*members("a", 2), *members("b", 2))
    found = bound(gangs.cycles())
    assert {found["a-0"], found["b-0"]} == {"n2", "n3"}


def test_objects_may_come_in_any_order(gangs: Harness) -> None:
    gangs.put(node("n0", "4"), *members("a", 1), *members("b", 1), group("a", 1, "job"), group("b", 1, "job"))
    assert bound(gangs.cycles()) == {}
    waiting = gangs.engine.queue.group_entry(GroupKey("default", "a", NATIVE))
    assert waiting is not None
    assert waiting.held["a-0"] == ("GangScheduling", 'waiting for composite pod group "job" to appear')
    gangs.put(composite("job", 2))
    assert sorted(bound(gangs.cycles())) == ["a-0", "b-0"]


def test_without_its_root_a_tree_waits(gangs: Harness) -> None:
    gangs.put(composite("job", 2), group("a", 1, "job"), group("b", 1, "job"), *members("a", 1), *members("b", 1))
    said = gangs.cycles()
    assert conditions(said)["a"][0] == "False"
    gangs.lose("CompositePodGroup", "default", "job", "uid-job")
    gangs.put(node("n0", "4"))
    gangs.after(400)
    assert bound(gangs.cycles()) == {}
    gangs.put(composite("job", 2))
    gangs.after(60)
    assert len(bound(gangs.cycles())) == 2


def test_without_the_gate_each_group_is_scheduled_by_itself() -> None:
    harness = made(gate=False)
    harness.put(node("n0", "4"), composite("job", 2), group("a", 1, "job"), *members("a", 1))
    assert list(bound(harness.cycles())) == ["a-0"]
    assert validate(harness.engine.cluster) == []


def test_pods_that_do_not_agree_are_told(gangs: Harness) -> None:
    gangs.put(node("n0", "4"), composite("job", 2, priority=5), group("a", 1, "job"), group("b", 1, "job"))
    gangs.put(*members("a", 1, priority=5), *members("b", 1))
    said = gangs.cycles()
    assert conditions(said)["a"][1] == "SchedulerError"
    assert "same priority as the pod group's priority, got 0 and 5" in conditions(said)["b"][2]


def test_a_tree_with_too_many_groups_is_refused() -> None:
    harness = made()
    harness.put(node("n0", "4"), composite("job", 1))
    harness.put(*(group(f"g{i}", 1, "job") for i in range(MOST_GROUPS)), *members("g1", 1))
    said = harness.cycles()
    assert bound(said) == {}
    assert failures(said) == {"g1-0": "its tree has more than 1,000 groups, which is not supported"}
    harness.lose("PodGroup", "default", "g0", "uid-g0")
    harness.after(60)
    assert list(bound(harness.cycles())) == ["g1-0"]


def test_a_pod_that_goes_in_the_middle_has_all_tried_again() -> None:
    harness = made(Budget(slice=50, longest_slice=50))
    harness.put(node("n0", "4"), composite("job", 2), group("a", 1, "job"), group("b", 1, "job"))
    harness.put(*members("a", 2), *members("b", 1))
    said: list[Instruction] = []
    while not harness.engine.cluster.placement("a-0"):
        said += harness.cycle()
    harness.gone("Pod", "a-0")
    said += harness.cycles()
    assert sorted(bound(said)) == ["a-1", "b-0"]
    assert validate(harness.engine.cluster) == []


def test_a_pod_does_not_follow_a_tree_that_has_too_few_by_then(gangs: Harness) -> None:
    """All of it could be bound once. Then one pod was bound and deleted, and another one gave back what it held."""
    gangs.put(composite("t", 3), *(group(name, 1, "t") for name in "ghk"), *(members(name, 2)[0] for name in "ghk"))
    root, gathering = GroupKey("default", "t", COMPOSITE), Gathering(gangs.engine.cluster.pod_groups)
    assert [gathering.arrives(root, f"{name}-0") for name in "ghk"] == [False, False, False]
    assert list(gathering.released) == ["g-0", "h-0", "k-0"]
    for name in "gh":
        gathering.leaves(GroupKey("default", name, NATIVE), f"{name}-0")
    gangs.gone("Pod", "g-0")
    gangs.put(members("g", 2)[1])
    gathering.released.clear()
    assert [gathering.arrives(root, uid) for uid in ("g-1", "h-0")] == [False, False]
    assert list(gathering.released) == ["g-1", "h-0"]


@pytest.mark.parametrize("change", ["more groups", "more pods", "root gone", "group gone"])
def test_a_pod_does_not_follow_a_tree_that_asks_for_more_by_then(gangs: Harness, change: str) -> None:
    gangs.put(composite("t", 2), group("g", 1, "t"), group("h", 1, "t"), *members("g", 2), *members("h", 1))
    root, gathering = GroupKey("default", "t", COMPOSITE), gangs.engine.binding.gathering
    assert [gathering.arrives(root, uid) for uid in ("g-0", "h-0")] == [False, False]
    assert list(gathering.released) == ["g-0", "h-0"]
    match change:
        case "more groups":
            gangs.put(composite("t", 3))
        case "more pods":
            gangs.put(group("g", 3, "t"))
        case "root gone":
            gangs.lose("CompositePodGroup", "default", "t")
        case _:
            gangs.lose("PodGroup", "default", "h")
    assert not gathering.arrives(root, "g-1")
    assert list(gathering.released) == []
    for name, uid in (("g", "g-0"), ("h", "h-0"), ("g", "g-1")):
        gathering.leaves(GroupKey("default", name, NATIVE), uid)
    assert gathering.entries() == 0


def test_a_pod_that_comes_late_follows_its_tree_at_once(gangs: Harness) -> None:
    """The tree has enough pods on nodes already: nobody has to come with it."""
    gangs.put(node("n0", "4"), composite("job", None), group("a", 2, "job"), *members("a", 2))
    for name, where in bound(gangs.cycles()).items():
        gangs.bound(name)
        gangs.put(pod(name, "1", schedulingGroup={"podGroupName": "a"}, nodeName=where))
    gangs.put(*members("a", 3)[2:])
    assert list(bound(gangs.cycles())) == ["a-2"]


def test_a_tree_keeps_its_turn_when_its_groups_are_found() -> None:
    gangs = made()
    gangs.put(node("n0", "1"), *members("a", 1), group("a", 1, "job"))
    gangs.after(1)
    gangs.put(pod("late", "1"), composite("job", 1))
    assert list(bound(gangs.cycles())) == ["a-0"]


def test_a_node_that_goes_while_a_tree_is_assumed_has_all_tried_again() -> None:
    harness = made(Budget(slice=50, longest_slice=50))
    harness.put(*(node(f"n{i}", "1", rack=f"r{i}") for i in range(3)))
    harness.put(composite("job", 2), *(group(name, 1, "job", "rack") for name in "ab"))
    harness.put(*members("a", 1), *members("b", 1))
    said: list[Instruction] = []
    while (there := harness.engine.cluster.placement("a-0")) is None:
        said += harness.cycle()
    gone = harness.engine.cluster.nodes.names[there.row]
    harness.lose("Node", "", str(gone), "")
    said += harness.cycles()
    found = bound(said)
    assert sorted(found) == ["a-0", "b-0"]
    assert gone not in found.values()
    assert validate(harness.engine.cluster) == []


def test_somebody_else_on_the_best_node_has_all_tried_again() -> None:
    """Between the tries of two placements, another scheduler takes the room that was found."""
    harness = made(Budget(slice=50, longest_slice=50))
    harness.put(*(node(f"n{i}", "1", rack=f"r{i}") for i in range(3)))
    harness.put(composite("job", 1, topology="rack"), group("a", 1, "job"), *members("a", 1))
    said: list[Instruction] = []
    for _ in range(3):
        said += harness.cycle()
    harness.put(*(pod(f"other-{i}", "1", "other", nodeName=f"n{i}") for i in range(2)))
    said += harness.cycles()
    assert bound(said) == {"a-0": "n2"}
    assert validate(harness.engine.cluster) == []


def test_a_tree_that_costs_too_much_is_given_up() -> None:
    """Its namespace pays for each placement, and there is an end to it."""
    harness = made(Budget(slice=50, longest_slice=50, whole=200))
    harness.put(*(node(f"n{i}", "1", rack=f"r{i}", block=f"b{i % 4}") for i in range(24)))
    harness.put(composite("job", 2, topology="block"), *(group(name, 2, "job", "rack") for name in "ab"))
    harness.put(*members("a", 2), *members("b", 2))
    said = harness.cycles()
    assert bound(said) == {}
    assert conditions(said)["a"][1] == "SchedulerError"
    assert validate(harness.engine.cluster) == []


def test_a_tree_that_changes_in_the_middle_is_tried_as_it_is_then() -> None:
    harness = made(Budget(slice=50, longest_slice=50))
    harness.put(node("n0", "2"), composite("job", 1), group("a", 1, "job"), group("b", 1, "job"))
    harness.put(*members("a", 1), *members("b", 2))
    said: list[Instruction] = []
    while not harness.engine.cluster.placement("a-0"):
        said += harness.cycle()
    changed = composite("job", 2)
    harness.put(changed, group("b", 2, "job"))
    said += harness.cycles()
    assert bound(said) == {}
    harness.put(node("n1", "1"))
    harness.after(60)
    assert len(bound(harness.cycles())) == 3
    assert validate(harness.engine.cluster) == []
