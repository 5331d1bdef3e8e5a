"""Gangs whose pods have to be on the nodes of one domain: each domain is tried, the best one is taken."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Instruction, Verified
from podberth.engine.pod_groups import cycle, placements
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.schedule_one import SchedulingCycle
from podberth.engine.stimuli import Follows, Gone
from podberth.framework.config import decode
from podberth.framework.interface import Placement, Plugin
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE
from tests.builders import Object
from tests.messages import without_place
from tests.registered import registry

from .conftest import CONFIG, Harness, node, pod
from .test_gangs import bound, conditions, failures, group, member, members

PLUGINS = {"multiPoint": {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]}}
PROFILE = {"schedulerName": "berth", "plugins": PLUGINS}
BY_RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
NOBODY = "pod group preemption: No preemption victims found for incoming preemptor"


def racks(*plugins: Any, more: Object | None = None, verify: int = 0) -> Harness:
    """A harness with the plugins that upstream has with its gate."""
    made = {**PLUGINS, **(more or {})}
    harness = Harness({**CONFIG, "profiles": [{**PROFILE, "plugins": made}]}, *plugins, verify=verify)
    harness.handle(Follows(NATIVE, True))
    return harness


@pytest.fixture
def gangs() -> Iterator[Harness]:
    harness = racks()
    yield harness
    assert validate(harness.engine.cluster) == []


def in_rack(name: str, rack: str, cpu: str = "4") -> Object:
    return node(name, cpu, rack=rack)


def on(said: list[Instruction]) -> dict[str, str]:
    return {one.pod.name: one.node for one in said if isinstance(one, Bind)}


def placed(name: str, where: str) -> Object:
    return member(name, nodeName=where)


def test_all_are_in_one_rack(gangs: Harness) -> None:
    """One of a has room for some, b for all; the nodes of both together are not asked."""
    gangs.put(in_rack("a1", "a", "2"), in_rack("b1", "b", "2"), in_rack("b2", "b", "2"), node("n", "9"))
    gangs.put(group(min_count=4, **BY_RACK), *members(4))
    said = gangs.cycles()
    assert set(on(said).values()) == {"b1", "b2"}
    assert len(on(said)) == 4
    assert conditions(said) == [("True", "Scheduled", "")]


def test_without_the_plugin_the_constraint_does_not_count() -> None:
    """As in kube-scheduler without its gate."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(in_rack("a1", "a", "2"), in_rack("b1", "b", "2"), group(min_count=4, **BY_RACK), *members(4))
    assert set(on(harness.cycles()).values()) == {"a1", "b1"}


def test_the_fuller_rack_is_the_better_one(gangs: Harness) -> None:
    """NodeResourcesFit by MostAllocated over the rack, whatever single nodes are scored by."""
    gangs.put(*(in_rack(f"{rack}{i}", rack) for rack in "abc" for i in range(2)))
    gangs.put(pod("there", "3", nodeName="b1"), group(min_count=2, **BY_RACK), *members(2))
    assert set(on(gangs.cycles()).values()) <= {"b0", "b1"}


def test_the_rack_that_takes_more_is_the_better_one(gangs: Harness) -> None:
    """Two of four in a, which would be full; all four in b."""
    gangs.put(in_rack("a1", "a", "2"), in_rack("b1", "b", "5"), group(min_count=2, **BY_RACK), *members(4))
    said = gangs.cycles()
    assert on(said) == dict.fromkeys((f"train-{i}" for i in range(4)), "b1")


def test_what_is_said_if_no_rack_takes_them(gangs: Harness) -> None:
    """What came of the first one, by name."""
    gangs.put(in_rack("b1", "b", "1"), in_rack("a1", "a", "2"), group(min_count=3, **BY_RACK), *members(4))
    said = gangs.cycles()
    assert bound(said) == []
    first = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    why = f"pod group is unschedulable, 0/2 placements are available, first placement status: {first}"
    assert conditions(said) == [("False", "Unschedulable", f"{why}, {NOBODY}")]
    fits = f"pod group is unschedulable, {why}, {NOBODY}"
    short = "0/1 nodes are available: 1 Insufficient cpu."
    assert failures(said) == {"train-0": fits, "train-1": fits, "train-2": short, "train-3": short}
    assert gangs.engine.cluster.assumed() == 0
    gangs.put(in_rack("a2", "a", "2"))
    gangs.tick(60.0)
    assert set(on(gangs.cycles()).values()) == {"a1", "a2"}


def test_pods_that_were_not_tried_in_the_first_rack(gangs: Harness) -> None:
    gangs.put(in_rack("a1", "a", "1"), group(min_count=3, **BY_RACK), *members(3))
    said = gangs.cycles()
    why = (
        "pod group is unschedulable, 0/1 placements are available, first placement status: "
        "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
    )
    assert failures(said)["train-2"] == why


def test_no_rack_at_all(gangs: Harness) -> None:
    gangs.put(node("n1"), group(**BY_RACK), *members(2))
    said = gangs.cycles()
    assert conditions(said) == [("False", "Unschedulable", f"no feasible placements found, {NOBODY}")]
    assert failures(said) == dict.fromkeys(("train-0", "train-1"), "no feasible placements found")
    gangs.put(in_rack("a1", "a"))
    gangs.tick(60.0)
    assert len(bound(gangs.cycles())) == 2


def test_a_group_without_a_constraint_has_one_placement(gangs: Harness) -> None:
    gangs.put(node("n1", "1"), group(), *members(2))
    said = gangs.cycles()
    first = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    why = f"pod group is unschedulable, 0/1 placements are available, first placement status: {first}"
    assert conditions(said) == [("False", "Unschedulable", f"{why}, {NOBODY}")]


def test_where_some_run_the_others_go(gangs: Harness) -> None:
    """Also if another rack would be the better one."""
    gangs.put(in_rack("a1", "a", "9"), in_rack("b1", "b", "2"), in_rack("b2", "b", "1"))
    gangs.put(group(min_count=2, **BY_RACK), placed("first", "a1"), *members(2))
    assert set(on(gangs.cycles()).values()) == {"a1"}


def test_where_some_run_there_is_no_room(gangs: Harness) -> None:
    """There are enough already, so that the group has not failed for its minimum."""
    gangs.put(in_rack("a1", "a", "1"), in_rack("b1", "b"), group(min_count=1, **BY_RACK))
    gangs.put(placed("first", "a1"), member("more"))
    said = gangs.cycles()
    assert bound(said) == []
    assert conditions(said)[0][2].startswith(f"pod group is unschedulable, {NOBODY}")
    assert failures(said) == {"more": "0/1 nodes are available: 1 Insufficient cpu."}


CANNOT = "cannot determine domain for already scheduled pods: "


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (("a1", "b1"), "more than 1 domain found for pod group: a, b"),
        (("bare",), "no topology domain found for pod default/run-0"),
        (("gone",), 'getting node for pod default/run-0: nodeinfo not found for node name "gone"'),
    ],
)
def test_where_some_run_is_no_domain(gangs: Harness, where: tuple[str, ...], why: str) -> None:
    gangs.put(in_rack("a1", "a"), in_rack("b1", "b"), node("bare"), group(min_count=1, **BY_RACK))
    gangs.put(*(placed(f"run-{i}", name) for i, name in enumerate(where)), member("more"))
    said = gangs.cycles()
    assert conditions(said) == [("False", "SchedulerError", CANNOT + why)]
    assert failures(said) == {"more": CANNOT + why}


def many(harness: Harness, count: int = 30, cpu: str = "4") -> None:
    """Racks r10, r11, …, one node each."""
    harness.put(*(in_rack(f"n{10 + i}", f"r{10 + i}", cpu) for i in range(count)))


def test_others_are_tried_while_domains_are() -> None:
    """Others are tried in between, and nothing is held where the group was tried before."""
    harness = racks()
    many(harness)
    harness.put(group(min_count=4, **BY_RACK), *picky(4))
    assert harness.cycle() == []
    other: list[str] = []
    turns = 0
    found: dict[str, str] = {}
    while harness.engine.has_work:
        turns += 1
        assert harness.engine.cluster.assumed() <= 4 + len(other)
        if turns % 10 == 1 and turns < 50:
            harness.put(pod(f"other-{turns}", nodeName="", nodeSelector={"rack": "r39"}))
        for name, where in on(harness.cycle()).items():
            (other.append(name) if name.startswith("other") else found.setdefault(name, where))
    assert turns > 30, "more than one rack in a turn"
    assert len(other) == 5
    assert len(found) == 4
    assert len(set(found.values())) == 1
    assert validate(harness.engine.cluster) == []


def picky(count: int) -> list[Object]:
    """Pods for which sums say too little, so that every rack is tried."""
    term = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "rack"}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return [member(f"train-{i}", affinity=affinity) for i in range(count)]


def in_the_middle(gangs: Harness, turns: int = 12) -> None:
    """A gang of four whose racks are being tried."""
    gangs.put(group(min_count=4, **BY_RACK), *picky(4))
    for _ in range(turns):
        assert bound(gangs.cycle()) == []


@pytest.mark.parametrize("turns", range(1, 30, 3))
def test_a_pod_goes_while_racks_are_tried(turns: int) -> None:
    """The others begin again: three are no gang of four."""
    harness = racks()
    many(harness)
    in_the_middle(harness, turns)
    harness.gone("Pod", "train-2")
    assert bound(harness.cycles()) == []
    assert harness.engine.cluster.assumed() == 0
    harness.put(member("new"))
    harness.tick(60.0)
    said = harness.cycles()
    assert len(bound(said)) == 4
    assert len(set(on(said).values())) == 1
    assert validate(harness.engine.cluster) == []


@pytest.mark.parametrize("turns", range(1, 30, 3))
def test_nodes_come_and_go_while_racks_are_tried(turns: int) -> None:
    """A new rack is tried too, and is the only one with room; all the others go."""
    harness = racks()
    many(harness, cpu="3")
    in_the_middle(harness, turns)
    harness.put(in_rack("new", "zz", "8"))
    for i in range(0, 30, 2):
        harness.handle(Gone("Node", "", f"n{10 + i}", f"n{10 + i}"))
    said = harness.cycles()
    assert set(on(said).values()) == {"new"}
    assert validate(harness.engine.cluster) == []


@pytest.mark.parametrize("turns", range(1, 30, 3))
def test_a_reload_with_other_plugins_while_racks_are_tried(turns: int) -> None:
    """The group is tried from the start, by the plugins of now."""
    harness = racks()
    many(harness)
    in_the_middle(harness, turns)
    plugins = {"multiPoint": {"enabled": [{"name": "TopologyPlacementGenerator"}]}}
    other = {**CONFIG, "profiles": [{"schedulerName": "berth", "plugins": plugins}]}
    harness.engine.reconfigure(build(decode(other), registry()), 1.0, 10.0, harness.now)
    found = on(harness.cycles())
    assert len(found) == 4
    assert len(set(found.values())) == 1


@pytest.mark.usefixtures("pod_by_pod")
def test_the_best_rack_is_taken_meanwhile() -> None:
    """Room that was there when it was tried, and is gone: the next best one is taken."""
    harness = racks()
    harness.put(in_rack("a1", "a", "4"), in_rack("b1", "b", "8"), group(min_count=4, **BY_RACK), *picky(4))
    taken = False
    said: list[Instruction] = []
    while harness.engine.has_work and not bound(said):
        said += harness.cycle()
        placement = harness.engine.cluster.placement("train-0")
        if not taken and placement is not None and harness.engine.cluster.nodes.names[placement.row] == "b1":
            taken = True
            harness.put(pod("other", "1", nodeName="a1"))
    assert taken
    assert set(on(said).values()) == {"b1"}


def test_a_search_is_charged() -> None:
    """A namespace pays for all racks beyond the first, and others are tried before its next pods."""
    harness = racks()
    many(harness, 60, "3")
    harness.put(group(min_count=4, **BY_RACK), *picky(4))
    harness.cycles()
    assert harness.engine.queue.fair_share.owes("default", harness.now) > 60 * 3 * 200


def test_a_search_that_costs_too_much_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names its cap, and nothing is held."""
    monkeypatch.setattr(placements, "MOST_STEPS", 8_000)
    harness = racks()
    many(harness, 60, "3")
    harness.put(group(min_count=4, **BY_RACK), *picky(4))
    said = harness.cycles()
    ((status, reason, message),) = conditions(said)
    assert (status, reason) == ("False", "SchedulerError")
    gave_up = "gave up looking for a domain for podgroup default/train after 8,000 steps"
    assert message == f"{gave_up} (about 0.008 s of one core)"
    assert harness.engine.cluster.assumed() == 0


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that are tried, one after the other."""
    found: list[str] = []
    real = SchedulingCycle.schedule_pod

    def schedule_pod(self: SchedulingCycle, queued: QueuedPod, *args: Any, **others: Any) -> Any:
        found.append(queued.pod.name)
        return real(self, queued, *args, **others)

    monkeypatch.setattr(SchedulingCycle, "schedule_pod", schedule_pod)
    return found


def test_racks_that_are_too_small_are_not_tried(tries: list[str]) -> None:
    """Sums rule them out; the only one that is left is tried and kept."""
    harness = racks()
    many(harness, 40, "3")
    harness.put(in_rack("big", "r20x", "4"), group(min_count=4, **BY_RACK), *members(4))
    said = harness.cycles()
    assert set(on(said).values()) == {"big"}
    assert len(tries) == 4


def test_equal_pods_are_tried_in_the_best_rack_only(tries: list[str]) -> None:
    """Sums say how many each rack takes, and so how full it would be."""
    harness = racks()
    many(harness, 40, "8")
    harness.put(pod("there", "3", nodeName="n33"), group(min_count=4, **BY_RACK), *members(4))
    assert set(on(harness.cycles()).values()) == {"n33"}
    assert len(tries) == 4


def test_pods_of_two_kinds_are_tried_where_each_kind_would_fit(tries: list[str]) -> None:
    """Sums of each kind say too much: together they may not fit. The first rack is tried for what is said."""
    harness = racks()
    harness.put(in_rack("a1", "a", "1"), in_rack("b1", "b", "3"), in_rack("c1", "c", "4"), in_rack("d1", "d", "2"))
    harness.put(group(min_count=4, **BY_RACK), *members(3), member("big", "1001m"))
    said = harness.cycles()
    assert bound(said) == []
    assert conditions(said)[0][2].startswith("pod group is unschedulable, 0/4 placements are available")
    assert len(tries) == 2 + 4 + 4


def test_each_node_counts_for_whole_pods_in_the_sums(tries: list[str]) -> None:
    """Racks with enough in all, and too little on each node; pods that run, and the number of pods, count as well."""
    harness = racks()
    harness.put(*(in_rack(f"n{rack}{i}", rack, "1500m") for rack in "abcd" for i in range(3)))
    harness.put(in_rack("z0", "z", "8"), pod("there", "5", nodeName="z0"))
    harness.put(group(min_count=4, **BY_RACK), *members(4))
    said = harness.cycles()
    assert conditions(said)[0][2].startswith("pod group is unschedulable, 0/5 placements are available")
    assert len(tries) == 4


def test_pods_of_which_sums_say_too_little_are_tried_everywhere(tries: list[str]) -> None:
    harness = racks()
    many(harness, 10, "3")
    harness.put(group(min_count=4, **BY_RACK), *picky(4))
    assert bound(harness.cycles()) == []
    assert len(tries) == 4 * 10


def test_decisions_are_verified_within_a_rack() -> None:
    harness = racks(verify=1)
    many(harness, 3)
    harness.put(group(min_count=4, **BY_RACK), *picky(4))
    said = harness.cycles()
    assert len(bound(said)) == 4
    verified = [one for one in said if isinstance(one, Verified)]
    assert len(verified) == 16
    assert not [one for one in verified if one.difference is not None]


class Halves(Plugin):
    """A generator of a third party: the first half of the nodes, or the second."""

    name = "Halves"
    broken: ClassVar[str] = ""

    def placement_generate(self, group: Any, running: Any, cluster: Any) -> Any:
        """The two."""
        if self.broken == "generate":
            raise ValueError("no idea")
        if self.broken == "answer":
            return ["first"]
        rows = cluster.nodes.alive[: cluster.nodes.rows].nonzero()[0]
        return [
            Placement("one", rows[: len(rows) // 2]),
            Placement("two", rows[len(rows) // 2 :]),
            Placement("", rows[:0]),
        ]

    def placement_score(self, assignment: Any, cluster: Any) -> int:
        """The second one is better."""
        if self.broken == "score":
            raise ValueError("no number")
        return 101 if self.broken == "range" else 100 * (assignment.placement.name == "two")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("", ""),
        ("generate", "no idea"),
        ("answer", 'want placements, got "first"'),
        ("score", 'running PlacementScore plugins: plugin "Halves" failed with: no number'),
        (
            "range",
            'running PlacementScore plugins: plugin "Halves" failed with: want scores from 0 to 100, got 101',
        ),
    ],
)
def test_somebody_elses_placements(broken: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Halves, "broken", broken)
    only = {"multiPoint": {"enabled": [{"name": "Halves", "weight": 5}]}}
    harness = racks(Halves, more=only)
    harness.put(*(node(f"n{i}", "2") for i in range(4)), group(min_count=2), *members(2))
    said = harness.cycles()
    if broken:
        [(status, reason, text)] = conditions(said)
        assert (status, reason, without_place(text)) == ("False", "SchedulerError", message)
        assert harness.engine.cluster.assumed() == 0
    else:
        assert set(on(said).values()) <= {"n2", "n3"}
        assert len(on(said)) == 2


def test_the_labels_of_many_nodes_are_read_in_a_turn_of_their_own(
    gangs: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is done in that turn."""
    monkeypatch.setattr(cycle, "_MANY", 1)
    gangs.put(in_rack("a1", "a"), in_rack("b1", "b"), group("red", 1, **BY_RACK), member("red-0", of="red"))
    assert on(gangs.cycle()) == {}
    assert gangs.engine.cluster.assumed() == 0
    assert set(on(gangs.cycles())) == {"red-0"}
