"""Gangs by topology against brute force: a plain model tries every domain of small clusters, and says what comes."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

from podberth.engine.stimuli import Tick
from podberth.framework.interface import NODE, Plugin
from tests.builders import Object

from .conftest import CONFIG, pod
from .conftest import node as small_node
from .test_gangs import conditions, failures
from .test_gangs_at_random import GROUPS, STEPS, World
from .test_gangs_by_topology import BY_RACK, NOBODY, PROFILE, on, racks

FULL = 100
CASES = 80


class Last(Plugin):
    """The last node is the best one, so that each pod has one best node."""

    name = "Last"
    depends_on = NODE

    def score(self, pod: Any, cluster: Any, feasible: Any) -> Any:
        """By the number in its name."""
        return np.array([int(cluster.nodes.names[row][1:]) for row in feasible], dtype=np.int64)


@dataclass
class Node:
    """A node of the model; amounts in milli-cpu."""

    name: str
    rack: str | None
    cpu: int
    most: int
    taken: int = 0
    pods: int = 0


@dataclass
class Case:
    """A cluster and one gang."""

    seed: int
    nodes: list[Node] = field(default_factory=list)
    wants: list[int] = field(default_factory=list)
    needed: int = 1
    running: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        dice = Random(self.seed)
        for i in range(dice.randint(1, 7)):
            rack = dice.choice((None, "a", "b", "b", "c"))
            self.nodes.append(Node(f"n{i}", rack, dice.choice((1000, 2000, 3000)), dice.choice((2, 110))))
        alike = dice.choice((0, 500, 1000))
        self.wants = [alike or dice.choice((250, 500, 1000, 1500)) for _ in range(dice.randint(1, 6))]
        self.needed = max(1, len(self.wants) - dice.choice((0, 0, 1, 2)))
        racks = [node for node in self.nodes if node.rack is not None]
        if racks and dice.random() < 0.2:
            self.running = [node for node in [dice.choice(racks)] if node.cpu >= 1000]
        for node in self.running:
            node.taken, node.pods = 500, 1

    def domains(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            if node.rack is not None and (not self.running or node.rack == self.running[0].rack):
                found.setdefault(node.rack, []).append(node)
        return dict(sorted(found.items()))

    def tried(self, domain: list[Node]) -> tuple[dict[int, str], str]:
        """Pod → node, greedily; and why there are too few."""
        taken = {node.name: [node.taken, node.pods] for node in domain}
        found: dict[int, str] = {}
        for i, want in enumerate(self.wants):
            for node in reversed(domain):
                cpu, pods = taken[node.name]
                if cpu + want <= node.cpu and pods < node.most:
                    taken[node.name] = [cpu + want, pods + 1]
                    found[i] = node.name
                    break
            have, left = len(self.running) + len(found), len(self.wants) - i - 1
            if have + left < self.needed:
                return found, f"minCount ({self.needed}) cannot be satisfied: {have} scheduled, {left} remaining"
        return found, ""

    def score(self, domain: list[Node], found: dict[int, str]) -> int:
        """By NodeResourcesFit: cpu and memory, of which each pod counts for 200 Mi, and each node has 32 Gi."""
        cpu = sum(node.taken for node in domain) + sum(self.wants[i] for i in found)
        memory = 200 * (sum(node.pods for node in domain) + len(found))
        shares = (FULL * cpu // sum(node.cpu for node in domain), FULL * memory // (32 * 1024 * len(domain)))
        return sum(shares) // 2

    def expected(self) -> tuple[list[dict[int, str]], str]:
        """The best assignments, one of which is to come; or the message."""
        tried = {name: self.tried(domain) for name, domain in self.domains().items()}
        if not tried:
            return [], f"no feasible placements found, {NOBODY}"
        fitting = {name: found for name, (found, why) in tried.items() if not why}
        if not fitting:
            first = f"0/{len(tried)} placements are available, first placement status: {next(iter(tried.values()))[1]}"
            return [], f"pod group is unschedulable, {first}, {NOBODY}"
        most = max(map(len, fitting.values())) + len(self.running)
        totals = {
            name: self.score(self.domains()[name], found) + FULL * (len(found) + len(self.running)) // (most or 1)
            for name, found in fitting.items()
        }
        best = [found for name, found in fitting.items() if totals[name] == max(totals.values())]
        if not any(best):
            return [], f"pod group is unschedulable, {NOBODY}"
        return best, ""

    def objects(self) -> list[Object]:
        made: list[Object] = []
        for one in self.nodes:
            amounts = {"cpu": f"{one.cpu}m", "memory": "32Gi", "pods": str(one.most)}
            labels = {} if one.rack is None else {"rack": one.rack}
            status = {"allocatable": amounts, "capacity": amounts}
            made.append(
                {"kind": "Node", "metadata": {"name": one.name, "labels": labels}, "spec": {}, "status": status}
            )
        constraints = {"topology": [{"key": "rack"}]}
        spec = {"schedulingPolicy": {"gang": {"minCount": self.needed}}, "schedulingConstraints": constraints}
        made.append({"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}, "spec": spec})
        of: Object = {"schedulingGroup": {"podGroupName": "g"}}
        made += [pod(f"run{i}", "500m", nodeName=node.name, **of) for i, node in enumerate(self.running)]
        return made + [pod(f"p{i}", f"{want}m", **of) for i, want in enumerate(self.wants)]


ONLY = {
    "multiPoint": {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]},
    "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Last"}]},
}


def test_against_brute_force() -> None:
    """Which pods are bound, and where; else what the group is told."""
    ends = {"bound": 0, "said": 0}
    for seed in range(CASES):
        case = Case(seed)
        harness = racks(Last, more=ONLY)
        harness.put(*case.objects())
        said = harness.cycles()
        best, message = case.expected()
        where = on(said)
        if best:
            ends["bound"] += 1
            assert {int(name[1:]): node for name, node in where.items()} in best, seed
            assert conditions(said)[:1] == [("True", "Scheduled", "")], seed  # the rest may be tried again
        else:
            ends["said"] += 1
            assert where == {}, seed
            assert [condition[2] for condition in conditions(said)] == [message], seed
            assert set(failures(said)) == {f"p{i}" for i in range(len(case.wants))}, seed
            assert harness.engine.cluster.assumed() == 0, seed
    assert min(ends.values()) > CASES // 6, "cases of one kind only"


class InRacks(World):
    """As `World`, with groups that have to be in one rack."""

    def __init__(self, seed: int) -> None:
        self.racks: dict[str, str] = {}
        super().__init__(seed, {**CONFIG, "profiles": [PROFILE]})

    def show(self, document: Object) -> None:
        """Nodes are in racks, which they never leave."""
        name = document["metadata"]["name"]
        if document["kind"] == "Node":
            document["metadata"]["labels"]["rack"] = self.racks.setdefault(name, self.dice.choice("ab"))
        if document["kind"] == "PodGroup":
            document["spec"].update(BY_RACK)
        super().show(document)

    def check(self) -> None:
        """All pods of a group that have a node are in one rack."""
        super().check()
        cluster = self.engine.cluster
        for state in cluster.pod_groups:
            placements = [cluster.placement(uid) for uid in state.assigned]
            nodes = [cluster.nodes.names[one.row] for one in placements if one is not None]
            assert len({self.racks[name] for name in nodes if name}) <= 1, f"{state.key} is in two racks"


@pytest.mark.parametrize("seed", range(16))
def test_whatever_happens(seed: int) -> None:
    """No group is in two racks, and in the end nobody holds what nobody gets."""
    world = InRacks(seed)
    for name in GROUPS:
        world.group(name, 3)
    for i in range(3):
        world.show(small_node(f"n{i}", "4"))
    for _ in range(STEPS):
        world.something()
        world.check()
    for _ in range(4):
        world.end()
        world.now += 400.0
        world.do(Tick())
    world.check()
    assert world.engine.cluster.assumed() == 0
