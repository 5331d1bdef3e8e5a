"""Gangs that prefer to be in one domain: the narrowest level that takes them, few domains, neighbours together."""

from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Instruction, Preempt
from podberth.engine.pod_groups.placements import Placements
from podberth.engine.pod_groups.room import Path, filled, rank, used
from podberth.engine.stimuli import Follows
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import COSCHEDULING, NATIVE
from podberth.plugins.topology_placement_generator import TopologyPlacementGenerator
from tests.builders import Object
from tests.unit.work import calls

from .conftest import CONFIG, Harness, node, pod
from .test_gangs import bound, conditions, failures, group, member
from .test_gangs_by_topology import PLUGINS, PROFILE, on

LEVELS = ["block", "rack", "kubernetes.io/hostname"]
INDEX = "batch.kubernetes.io/job-completion-index"


def leveled(levels: list[str] = LEVELS) -> Harness:
    """A harness whose profile names levels."""
    args = [{"name": "TopologyPlacementGenerator", "args": {"levels": levels}}]
    config = {**CONFIG, "profiles": [{**PROFILE, "plugins": PLUGINS, "pluginConfig": args}]}
    harness = Harness(config)
    harness.handle(Follows(NATIVE, True))
    return harness


def gang(needed: int, preferred: str | None = "rack", required: str | None = None, **spec: Any) -> Object:
    asked = {"preferred": preferred, "required": required}
    made = group(min_count=needed, **spec)
    made["metadata"]["annotations"] = {f"podberth.dev/{how}-topology": key for how, key in asked.items() if key}
    return made


def ranked(count: int, cpu: str = "1", **spec: Any) -> list[Object]:
    """Pods with a rank each, which come in another order."""
    order = sorted(range(count), key=lambda i: (i * 7) % 11)
    return [member(f"train-{i}", cpu, labels={INDEX: str(i)}, **spec) for i in order]


def at(name: str, block: str, rack: str, cpu: int) -> Object:
    return node(name, str(cpu), block=block, rack=rack)


def small_town(harness: Harness) -> None:
    """Three blocks: racks of 4 and 3, of 2, 2 and 3, and one of 1. Racks of two blocks have the same name."""
    sizes = {"a": {"r1": 4, "r2": 3}, "b": {"r1": 2, "r2": 2, "r3": 3}, "c": {"r9": 1}}
    harness.put(*(at(f"{b}-{r}", b, r, cpu) for b, racks in sizes.items() for r, cpu in racks.items()))


@pytest.mark.parametrize(
    ("count", "where"),
    [
        (4, {"a-r1"}),
        (5, {"a-r1", "a-r2"}),
        (7, {"a-r1", "a-r2"}),
        (8, {"a-r1", "a-r2", "c-r9"}),
        (9, {"a-r1", "a-r2", "b-r1"}),
        (15, {"a-r1", "a-r2", "b-r1", "b-r2", "b-r3", "c-r9"}),
    ],
)
def test_the_narrowest_level_that_takes_all(count: int, where: set[str]) -> None:
    """One rack, or else one block and few of its racks, or else few blocks, the last one as small as can be."""
    harness = leveled()
    small_town(harness)
    harness.put(gang(count), *ranked(count))
    found = on(harness.cycles())
    assert len(found) == count
    if count == 9:
        assert {name.split("-")[0] for name in found.values()} == {"a", "b"}
        assert len(set(found.values())) == 3
    else:
        assert set(found.values()) == where
    assert validate(harness.engine.cluster) == []


def test_who_is_not_needed_goes_elsewhere() -> None:
    """Four start in the rack that takes them. A preference keeps no pod waiting: the fifth goes where there is room."""
    harness = leveled()
    small_town(harness)
    harness.put(gang(4), *ranked(5))
    found = on(harness.cycles())
    assert [found[f"train-{i}"] for i in range(4)] == ["a-r1"] * 4
    assert found["train-4"] not in ("", "a-r1")
    assert validate(harness.engine.cluster) == []


def test_who_comes_later_goes_elsewhere() -> None:
    """The gang runs in a rack that is full now. Whoever comes again, or is one more, has the other nodes."""
    harness = leveled()
    small_town(harness)
    harness.put(gang(4), *ranked(4))
    assert set(on(harness.cycles()).values()) == {"a-r1"}
    harness.put(member("train-9", labels={INDEX: "9"}))
    assert on(harness.cycles())["train-9"] not in ("", "a-r1")


def test_neighbouring_ranks_are_together() -> None:
    """Each rack has consecutive ranks, whatever the order in which the pods came."""
    harness = leveled()
    small_town(harness)
    harness.put(gang(12), *ranked(12))
    found = on(harness.cycles())
    assert len(found) == 12
    in_order = [found[f"train-{i}"] for i in range(12)]
    assert len([where for where, _ in groupby(in_order)]) == len(set(in_order))


def test_no_further_than_what_is_required() -> None:
    """Of seven pods all would fit into two blocks; one block is required."""
    harness = leveled()
    small_town(harness)
    harness.put(gang(8, required="block"), *ranked(8))
    said = harness.cycles()
    assert bound(said) == []
    (_, reason, message), *_ = conditions(said)
    assert reason == "Unschedulable"
    assert "0/12 placements are available, broadest placement status: minCount (8) cannot be satisfied" in message
    assert any("0/2 nodes are available" in text for text in failures(said).values())


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"preferred": "zone"}, '"zone" is no level of the topology: "block", "rack", "kubernetes.io/hostname"'),
        ({"preferred": "block", "required": "rack"}, '"block" is no level below "rack"'),
        ({"preferred": None, "required": "zone"}, "podberth.dev/required-topology"),
    ],
)
def test_what_is_no_level(asked: dict[str, Any], says: str) -> None:
    harness = leveled()
    small_town(harness)
    harness.put(gang(2, **asked), *ranked(2))
    ((_, reason, message),) = conditions(harness.cycles())
    assert reason == "SchedulerError"
    assert says in message


@pytest.mark.usefixtures("pod_by_pod")
@pytest.mark.parametrize("turns", range(1, 7))
def test_a_node_of_another_block_comes_where_one_of_a_rack_was(turns: int) -> None:
    """It has the row of a node that went while the gang was tried, and does not count as one of that rack."""
    harness = leveled()
    harness.put(at("a1", "a", "r1", 2), at("a2", "a", "r2", 2), at("a3", "a", "r3", 2))
    harness.put(gang(4, required="block"), *ranked(5))
    found: dict[str, str] = {}
    for _ in range(turns):
        found |= on(harness.cycle())
    harness.gone("Node", "a3")
    harness.put(at("b1", "b", "r1", 2))
    found |= on(harness.cycles())
    assert len(found) == 4
    assert set(found.values()) <= {"a1", "a2"}


def test_a_rack_whose_name_is_empty_is_not_the_whole_cluster() -> None:
    """Three of the four are in one rack, and it takes the last one."""
    harness = leveled(["rack"])
    harness.put(at("x", "a", "", 1), at("y", "a", "r1", 2), at("z", "a", "r2", 3), at("zz", "a", "r3", 3))
    harness.put(gang(4), *ranked(4))
    assert set(on(harness.cycles()).values()) == {"z", "x"}


def test_without_levels_annotations_do_not_count() -> None:
    """Not even those that name no level; and the pods are tried as they come."""
    harness = leveled([])
    harness.put(at("a", "a", "r1", 1), at("b", "b", "r2", 1), gang(2, "zone", "block"), *ranked(2))
    assert len(bound(harness.cycles())) == 2


def test_required_alone() -> None:
    """By annotation, where the API server would not keep the constraint, and in groups that have no field for it."""
    for api in (NATIVE, COSCHEDULING):
        harness = leveled()
        harness.handle(Follows(api, True))
        small_town(harness)
        made, pods = gang(5, None, "rack"), ranked(5)
        if api == COSCHEDULING:
            made["kind"], made["apiVersion"] = "PodGroup.scheduling.x-k8s.io", f"{COSCHEDULING}/v1alpha1"
            made["spec"] = {"minMember": 5}
            for one in pods:
                del one["spec"]["schedulingGroup"]
                one["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "train"
        harness.put(made, *pods)
        # Racks of the same name are one domain, as for kube-scheduler: r2 of both blocks takes five, and is full then.
        assert set(on(harness.cycles()).values()) == {"a-r2", "b-r2"}


def test_where_some_run_the_others_go() -> None:
    """Also if another rack would take them better; a broader level where theirs has no room."""
    harness = leveled()
    small_town(harness)
    harness.put(member("there", nodeName="b-r1"), gang(3), *ranked(2))
    assert set(on(harness.cycles()).values()) == {"b-r1", "b-r2"}


def test_pods_of_many_kinds_start_all_the_same() -> None:
    """Where they fill one domain after the other, a large one finds no room; then nodes are taken as they come."""
    harness = leveled()
    harness.put(at("a", "a", "r1", 4), at("b", "b", "r2", 3), gang(3))
    harness.put(member("train-0", "2"), member("train-1", "2"), member("train-2", "3"))
    assert len(bound(harness.cycles())) == 3


def test_preferences_of_pods_that_sums_say_nothing_of() -> None:
    """Pods with terms: each rack is tried, and then each block."""
    term = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "rack"}
    affinity = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    }
    harness = leveled()
    small_town(harness)
    harness.put(gang(7), *ranked(7, affinity=affinity))
    found = on(harness.cycles())
    assert set(found.values()) == {"a-r1", "a-r2"}
    in_order = [found[f"train-{i}"] for i in range(7)]
    assert len([where for where, _ in groupby(in_order)]) == 2


# -- by brute force -----------------------------------------------------------------------------------------------


@dataclass
class Town:
    """A small cluster and one gang of equal pods."""

    seed: int
    room: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(block, rack, node) → how many of the pods it takes."""

    def __post_init__(self) -> None:
        dice = Random(self.seed)
        for i in range(dice.randint(1, 12)):
            self.room[dice.choice("ab"), f"r{dice.randrange(3)}", f"n{i}"] = dice.randrange(4)
        self.count = dice.randint(1, max(2, sum(self.room.values()) + 1))
        self.preferred = dice.choice(LEVELS)
        broader = LEVELS[: LEVELS.index(self.preferred)]
        self.required = dice.choice((None, *broader))

    def takes(self, depth: int, inside: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
        """What each domain of a depth takes."""
        found: dict[tuple[str, ...], int] = {}
        for path, room in self.room.items():
            if path[: len(inside)] == inside:
                found[path[:depth]] = found.get(path[:depth], 0) + room
        return found

    def fewest(self, depth: int, inside: tuple[str, ...]) -> int:
        """How many domains of a depth are needed inside of one, whichever are taken."""
        left = self.count
        sizes = sorted(self.takes(depth, inside).values(), reverse=True)
        return next((i for i, size in enumerate(sizes, 1) if (left := left - size) <= 0), 1_000)


@pytest.mark.parametrize("part", range(4))
def test_against_brute_force(part: int) -> None:
    """Every level, required or not."""
    bound_at_all = 0
    for seed in range(part * 60, part * 60 + 60):
        town = Town(seed)
        harness = leveled()
        harness.put(*(at(name, block, rack, cpu) for (block, rack, name), cpu in town.room.items()))
        harness.put(gang(town.count, town.preferred, town.required), *ranked(town.count))
        found = on(harness.cycles())
        paths = {path[2]: path for path in town.room}
        deepest = LEVELS.index(town.preferred) + 1
        broadest = 0 if town.required is None else LEVELS.index(town.required) + 1
        level = next((d for d in range(deepest, broadest - 1, -1) if max(town.takes(d).values()) >= town.count), None)
        if level is None:
            assert found == {}, seed
            continue
        assert len(found) == town.count, seed
        bound_at_all += 1
        places = [paths[found[f"train-{i}"]] for i in range(town.count)]
        assert len({path[:level] for path in places}) == 1, (seed, "in one domain of the narrowest level that takes it")
        fits = [inside for inside, room in town.takes(level).items() if room >= town.count]
        if deepest > level:
            used_here = len({path[: level + 1] for path in places})
            assert used_here == min(town.fewest(level + 1, inside) for inside in fits), (seed, "few domains")
        leaves = [path[:deepest] for path in places]
        assert len([leaf for leaf, _ in groupby(leaves)]) == len(set(leaves)), (seed, "neighbours are together")
        assert validate(harness.engine.cluster) == []
    assert bound_at_all > 20


@pytest.mark.parametrize("seed", range(40))
def test_few_domains(seed: int) -> None:
    """As few as there can be, by trying every set; all of them are in the order, those that are needed first."""
    dice = Random(seed)
    room: dict[Path, int] = {(f"d{i}",): dice.randrange(6) for i in range(dice.randint(1, 7))}
    count = dice.randint(1, max(1, sum(room.values())))
    order = filled(room, count, frozenset())
    assert sorted(order) == sorted(path for path in room if room[path])
    if sum(room.values()) >= count:
        needed = used(order, room, count)
        sets = [[path for i, path in enumerate(room) if chosen >> i & 1] for chosen in range(1 << len(room))]
        best = min(len(some) for some in sets if sum(room[path] for path in some) >= count)
        assert needed == best
        last = order[needed - 1]
        left = count - sum(room[path] for path in order[: needed - 1])
        others = [room[path] for path in order[needed:] if room[path] >= left]
        assert all(room[last] <= other for other in others), "the last one is as small as can be"
    first = dice.choice(list(room))
    if room[first]:
        assert filled(room, count, {first})[0] == first


def test_ranks() -> None:
    """By number, not by text; pods without a rank come last; parts of a group are kept apart."""
    job = "jobset.sigs.k8s.io/job-index"

    def ordered(*labels: dict[str, str]) -> list[int]:
        pods: list[Any] = [Decoder().of_kind("Pod")(wire.encode(member("p", labels=one))) for one in labels]
        return sorted(range(len(pods)), key=lambda i: rank(pods[i]))

    assert ordered({INDEX: "10"}, {INDEX: "9"}, {}) == [1, 0, 2]
    assert ordered({job: "1", INDEX: "0"}, {job: "0", INDEX: "5"}) == [1, 0]
    assert ordered({INDEX: "x"}, {INDEX: "3"}, {INDEX: "9" * 400}) == [1, 2, 0]


def test_room_is_made_part_by_part() -> None:
    """A gang that removes others is planned as it would start: in one block and few racks, neighbours together."""
    harness = leveled()
    small_town(harness)
    sizes = {"a-r1": 4, "a-r2": 3, "b-r1": 2, "b-r2": 2, "b-r3": 3, "c-r9": 1}
    for where, cpu in sizes.items():
        harness.put(pod(f"low-{where}", str(cpu), nodeName=where, priority=-1))
    harness.put(gang(6), *ranked(6))
    said = harness.cycles()
    victims = {victim.name for one in said if isinstance(one, Preempt) for victim in one.victims}
    assert victims == {"low-a-r1", "low-a-r2"}
    nominated = [harness.engine.cluster.nominations.node_of.get(f"train-{i}") for i in range(6)]
    assert nominated == ["a-r1"] * 4 + ["a-r2"] * 2
    for name in victims:
        harness.gone("Pod", name)
    harness.after(60.0)
    found = on(harness.cycles())
    assert [found[f"train-{i}"] for i in range(6)] == nominated


def test_room_in_fewest_racks() -> None:
    """Of two blocks with room for the gang, the one in which it is in fewer racks, whatever the scores say."""
    harness = leveled()
    harness.put(at("a1", "a", "r1", 2), at("a2", "a", "r2", 2), at("a3", "a", "r3", 2))
    harness.put(at("b1", "b", "r4", 3), at("b2", "b", "r5", 3), at("b3", "b", "r6", 6), at("full", "c", "r7", 0))
    for where, cpu in {"a1": 2, "a2": 2, "a3": 2, "b1": 3, "b2": 3, "b3": 6}.items():
        priority = 1 if where == "b3" else -1
        harness.put(pod(f"on-{where}", str(cpu), nodeName=where, priority=priority))
    harness.put(gang(6), *ranked(6))
    said = harness.cycles()
    assert {victim.name for one in said if isinstance(one, Preempt) for victim in one.victims} == {"on-b1", "on-b2"}


def test_hosts_as_placements_are_made_and_measured_in_turns_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many as nodes, and what each takes is asked in the next turn."""
    harness = leveled()
    harness.put(*(at(f"h{i}", "a", f"r{i // 10}", 2) for i in range(300)))
    made = calls(monkeypatch, (TopologyPlacementGenerator, "placement_generate"), (Placements, "_room"))
    harness.put(gang(4, "kubernetes.io/hostname"), *ranked(4))
    said: list[Instruction] = []
    turns = []
    while harness.engine.has_work:
        made.clear()
        said += harness.cycle()
        turns.append(dict(made))
    assert {"placement_generate": 1} in turns
    assert {"_room": 1} in turns
    assert len(set(on(said).values())) == 2
