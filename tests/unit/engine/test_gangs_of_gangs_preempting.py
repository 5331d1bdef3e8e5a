"""Trees of pod groups that make room for themselves, and as victims: whose priority counts, and who goes with whom."""

from collections.abc import Iterator, Sequence

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Failed, Instruction
from scheduler.state.validate import validate
from tests.builders import Object

from .conftest import Harness, node, pod
from .test_gangs_of_gangs import bound, composite, conditions, group, made
from .test_gangs_preempting import ON_N0, member, running, victims


@pytest.fixture(params=["whole", "sliced"])
def gangs(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A harness that knows groups of groups, with slices as they are and with slices of almost nothing."""
    harness = made(Budget(slice=50, longest_slice=50) if request.param == "sliced" else None)
    yield harness
    assert validate(harness.engine.cluster) == []


def mode(of: Object, mode: str) -> Object:
    of["spec"]["disruptionMode"] = {mode: {}}
    return of


def job(needed: int = 2) -> list[Object]:
    """A tree of two groups with a pod each, of priority 5."""
    root = composite("job", needed, priority=5)
    leaves = [group(name, 1, "job", priority=5) for name in "ab"]
    return [root, *leaves, *(member(name, 0, priority=5) for name in "ab")]


def tree(root: str = "all", leaf: str = "single", priority: int = 0, of_leaf: int = 0) -> list[Object]:
    """Two groups that run below one root: of the first a pod on n0, of the second one on n1."""
    found = [mode(composite("old", None, priority=priority), root)]
    found += [mode(group(name, None, "old", priority=of_leaf), leaf) for name in "vw"]
    return [*found, member("v", 0, "n0", priority=of_leaf), member("w", 0, "n1", priority=of_leaf)]


def failures(said: Sequence[Instruction]) -> dict[str, str]:
    return {one.pod.name: one.message for one in said if isinstance(one, Failed)}


# -- trees that preempt ------------------------------------------------------------------------------------------------


def test_a_tree_removes_as_few_as_it_needs_and_starts_when_they_are_gone(gangs: Harness) -> None:
    gangs.put(*(node(f"n{i}", "2") for i in range(2)))
    gangs.put(*(running(f"low-{i}", f"n{i % 2}", started=i) for i in range(4)), *job())
    said = gangs.cycles()
    assert victims(said) == {"low-2", "low-3"}
    above = "pod group is unschedulable, 0/1 placements are available, first placement status: "
    more = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
    tail = ", pod group preemption: found a placement for podgroup, preempting 2 victims"
    assert conditions(said)["b"] == ("False", "Unschedulable", f"{above}{more}{tail}")
    nominations = gangs.engine.cluster.nominations
    assert {nominations.node_of("a-0"), nominations.node_of("b-0")} == {"n0", "n1"}
    gangs.put(pod("stranger", "1"))
    assert bound(gangs.cycles()) == {}
    for name in ("low-2", "low-3"):
        gangs.gone("Pod", name)
    gangs.after(20)
    assert sorted(bound(gangs.cycles())) == ["a-0", "b-0"]


def test_pods_that_had_a_node_in_vain_are_told_what_the_tree_is_told(gangs: Harness) -> None:
    gangs.put(node("n0", "1"), node("n1", "1"), running("low", "n1"), *job())
    said = gangs.cycles()
    assert victims(said) == {"low"}
    told = failures(said)
    assert told["b-0"] == "0/2 nodes are available: 2 Insufficient cpu."
    nominations = gangs.engine.cluster.nominations
    assert {nominations.node_of("a-0"), nominations.node_of("b-0")} == {"n0", "n1"}


def test_while_its_victims_leave_nobody_else_has_to(gangs: Harness) -> None:
    gangs.put(*(node(f"n{i}", "1") for i in range(3)), *(running(f"low-{i}", f"n{i}") for i in range(3)), *job())
    first = gangs.cycles()
    assert len(victims(first)) == 2
    gangs.put(node("n3", "500m"))
    gangs.after(10)
    said = gangs.cycles()
    assert victims(said) == set()
    assert conditions(said)["a"][2].endswith("pod group preemption: ongoing preemption on nominated nodes")


def test_a_tree_that_would_not_fit_an_empty_cluster_removes_nobody(gangs: Harness) -> None:
    gangs.put(node("n0", "1"), running("low", "n0"), *job())
    said = gangs.cycles()
    assert victims(said) == set()
    assert conditions(said)["a"][2].endswith(
        "pod group preemption: pod group is unschedulable, 0/1 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    )


def test_a_tree_is_planned_within_the_domains_that_its_groups_ask_for(gangs: Harness) -> None:
    """Both racks have two nodes, and a victim each that is in the way. The root asks for one rack."""
    for rack in ("r0", "r1"):
        gangs.put(*(node(f"{rack}-{i}", "1", rack=rack) for i in range(2)))
    gangs.put(running("low", "r1-0"), running("vital", "r0-0", priority=9))
    root, *others = job()
    root["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    gangs.put(root, *others)
    assert victims(gangs.cycles()) == {"low"}
    nominations = gangs.engine.cluster.nominations
    assert {nominations.node_of("a-0"), nominations.node_of("b-0")} == {"r1-0", "r1-1"}


def test_groups_that_are_not_needed_are_made_room_for_as_far_as_they_fit(gangs: Harness) -> None:
    """One of two is enough, and both fit in an empty cluster: a place is found for both, as in kube-scheduler."""
    gangs.put(*(node(f"n{i}", "1") for i in range(2)), *(running(f"low-{i}", f"n{i}") for i in range(2)))
    gangs.put(*job(needed=1))
    assert victims(gangs.cycles()) == {"low-0", "low-1"}


def test_nobody_is_spared_where_pods_that_held_a_node_in_vain_leave_no_room(gangs: Harness) -> None:
    """a does not fit, and b needs a node that a pod of a had, as in kube-scheduler, where both are counted: no victim
    can stay, wherever it is."""
    gangs.put(node("n0", "1"), node("n1", "1"), node("n2", "500m"))
    gangs.put(running("low-0", "n0"), running("low-1", "n1"), running("low-2", "n2", "500m"))
    gangs.put(composite("job", 1, priority=5), group("a", 3, "job", priority=5), group("b", 1, "job", priority=5))
    gangs.put(*(member("a", i, priority=5) for i in range(3)), member("b", 0, priority=5))
    assert victims(gangs.cycles()) == {"low-0", "low-1", "low-2"}


def test_the_terms_of_pods_that_held_a_node_in_vain_do_not_count_for_others(gangs: Harness) -> None:
    """The first pod of a repels the second one, so a does not fit; b may be where that pod was. There is room for all
    that both take, so the smaller victim is spared. Once b starts, nothing is kept for a any more."""
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [member("a", i, priority=5, affinity=apart) for i in range(2)] + [member("b", 0, priority=5)]
    for one in pods:
        one["metadata"]["labels"] = {"app": "a"}
    gangs.put(node("n0", "3"), running("low-0", "n0", "2", started=1), running("low-1", "n0", "500m"))
    gangs.put(composite("job", 1, priority=5), group("a", 2, "job", priority=5), group("b", 1, "job", priority=5))
    gangs.put(*pods)
    assert victims(gangs.cycles()) == {"low-0"}
    nominations = gangs.engine.cluster.nominations
    assert (nominations.node_of("a-0"), nominations.node_of("b-0")) == ("n0", "n0")
    gangs.gone("Pod", "low-0")
    gangs.after(20)
    assert bound(gangs.cycles()) == {"b-0": "n0"}
    assert not nominations.node_of("a-0")


# -- trees as victims --------------------------------------------------------------------------------------------------


def high() -> list[Object]:
    """A gang of one that can only be on n0."""
    return [group("high", 1, priority=5), member("high", 0, priority=5, nodeSelector=ON_N0)]


BY_A_GROUP_AND_BY_A_POD = pytest.mark.parametrize(
    "preemptor", [high(), [pod("high", "1", priority=5, nodeSelector=ON_N0)]], ids=["group", "pod"]
)


@pytest.mark.parametrize(
    "preemptor", [high(), [pod("high", "1", priority=5, nodeSelector=ON_N0)]], ids=["group", "pod"]
)
@pytest.mark.parametrize(
    ("root", "leaf", "gone"),
    [
        ("all", "single", {"v-0", "v-1", "w-0"}),
        ("all", "all", {"v-0", "v-1", "w-0"}),
        ("single", "all", {"v-0", "v-1"}),
        ("single", "single", {"v-0"}),
    ],
)
def test_the_broadest_group_that_goes_as_a_whole_does(
    gangs: Harness, preemptor: list[Object], root: str, leaf: str, gone: set[str]
) -> None:
    gangs.put(node("n0", "1"), node("n1", "8"), *tree(root, leaf), member("v", 1, "n1"), *preemptor)
    assert victims(gangs.cycles()) == gone


@pytest.mark.parametrize(
    "preemptor", [high(), [pod("high", "1", priority=5, nodeSelector=ON_N0)]], ids=["group", "pod"]
)
@pytest.mark.parametrize(("priority", "of_leaf", "gone"), [(5, 0, set()), (0, 9, {"v-0", "w-0"})])
def test_the_priority_of_the_root_counts(
    gangs: Harness, preemptor: list[Object], priority: int, of_leaf: int, gone: set[str]
) -> None:
    gangs.put(node("n0", "1"), node("n1", "8"), *tree(priority=priority, of_leaf=of_leaf), *preemptor)
    assert victims(gangs.cycles()) == gone


def test_without_the_gate_each_group_counts_for_itself() -> None:
    harness = made(gate=False)
    harness.put(node("n0", "1"), node("n1", "8"), *tree(priority=9), *high())
    assert victims(harness.cycles()) == {"v-0"}


@pytest.mark.parametrize(
    "preemptor", [high(), [pod("high", "1", priority=5, nodeSelector=ON_N0)]], ids=["group", "pod"]
)
def test_a_tree_is_more_important_than_a_larger_group(gangs: Harness, preemptor: list[Object]) -> None:
    """There is room for one of the two beside the newcomer."""
    gangs.put(node("n0", "3"), node("n1", "8"), *tree())
    gangs.put(mode(group("x", None), "all"), *(member("x", i, "n0" if not i else "n1") for i in range(4)))
    gangs.put(running("wall", "n0", "500m", priority=9), *preemptor)
    assert victims(gangs.cycles()) == {"x-0", "x-1", "x-2", "x-3"}


def test_what_is_kept_of_a_node_goes_by_trees_that_change(gangs: Harness) -> None:
    """The next of equal pods sees that the root goes one by one by now, and then that it is gone."""
    root, *others = tree("all")
    gangs.put(node("n0", "1"), node("n1", "8"), root, *others)
    gangs.put(running("wall", "n1", "7", priority=9))

    def next_one(name: str) -> set[str]:
        gangs.put(pod(name, "1", priority=5, nodeSelector=ON_N0))
        said = gangs.cycles()
        gangs.gone("Pod", name)
        for one in sorted(victims(said)):
            gangs.gone("Pod", one)
        gangs.put(member("v", 0, "n0"), member("w", 0, "n1"))
        gangs.after(60)
        gangs.cycles()
        return victims(said)

    assert next_one("first") == {"v-0", "w-0"}
    gangs.put(mode(composite("old", None), "single"))
    assert next_one("second") == {"v-0"}
    gangs.put(mode(composite("old", None), "all"))
    assert next_one("third") == {"v-0", "w-0"}
    gangs.lose("CompositePodGroup", "default", "old")
    assert next_one("fourth") == {"v-0"}
