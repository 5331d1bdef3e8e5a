"""Whatever happens, in whatever order: no eviction without two observations, a target and a token.

The model below knows the API's objects alone and works everything out in plain Python.
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from podberth.cache.validate import validate
from podberth.evictor.messages import Evict, Look, Read
from tests.builders import Object
from tests.unit.evictor.conftest import GRACE, OWNER, Harness, disk, keeping

NODES = [f"n{i}" for i in range(5)]
DISKS = [None, "hdd", "ssd", "nvme"]
PROMISES: dict[str, set[Any]] = {
    '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}': {"ssd"},
    '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"NotIn","values":["hdd"]}]}]}': {
        None,
        "ssd",
        "nvme",
    },
    "true": set(DISKS),
    "{}": set(DISKS),
}
"""Annotation → disks of which it holds (or says nothing of)."""
ROOM = 4
LEAVING = 60.0
"""A pod that stays for so long after a yes is looked at anew."""
CAREFUL = {
    "node_rate": 1 / 40,
    "node_burst": 2,
    "namespace_rate": 1 / 20,
    "namespace_burst": 3,
    "cluster_rate": 1 / 10,
    "cluster_burst": 4,
    "changed_share": 0.6,
}


class Sequence(RuleBasedStateMachine):
    """An API, an evictor, and everybody who writes there."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(**CAREFUL)
        self.pods = 0
        self.broken_since: dict[str, float] = {}
        self.disks_seen: dict[str, set[str | None]] = {}
        """Node → disks it had since the last look."""
        self.asked: dict[str, Evict] = {}
        self.accepted: dict[str, float] = {}
        self.evictions: list[tuple[float, str]] = []
        self.blind = True

    # -- what the API has, and what follows from it --------------------------------------------------------------

    def objects(self, kind: str) -> dict[str, Object]:
        """By name."""
        return {o["metadata"]["name"]: o for (k, _), o in self.harness.objects.items() if k == kind}

    def disk(self, node: str) -> str | None:
        found: str | None = self.objects("Node")[node]["metadata"]["labels"].get("disk")
        return found

    def broken(self) -> set[str]:
        """Names of pods that their node has let down, slowly."""
        nodes, found = self.objects("Node"), set()
        for name, pod in self.objects("Pod").items():
            node, meta = pod["spec"].get("nodeName"), pod["metadata"]
            if node in nodes and meta.get("ownerReferences") and "deletionTimestamp" not in meta:
                promise = next(iter(meta.get("annotations", {}).values()), "true")
                if self.disk(node) not in PROMISES[promise]:
                    found.add(name)
        return found

    def load(self, node: str) -> int:
        return sum(pod["spec"].get("nodeName") == node for pod in self.objects("Pod").values())

    # -- who writes there ----------------------------------------------------------------------------------------

    @initialize(kinds=st.lists(st.sampled_from(DISKS), min_size=5, max_size=5))
    def begin(self, kinds: list[str | None]) -> None:
        for name, kind in zip(NODES, kinds, strict=True):
            self.put_node(name, kind)
        for name in NODES:
            self.add_pod(name, next(iter(PROMISES)), True)
        self.look(True, [201])

    @rule(name=st.sampled_from(NODES), kind=st.sampled_from(DISKS))
    def put_node(self, name: str, kind: str | None) -> None:
        self.harness.put(disk(name, kind, cpu=str(ROOM)))
        self.disks_seen.setdefault(name, set()).add(kind)

    @rule(name=st.sampled_from(NODES), kinds=st.lists(st.sampled_from(DISKS), min_size=2, max_size=3))
    def flap(self, name: str, kinds: list[str | None]) -> None:
        """Several changes, and no look between them."""
        for kind in kinds:
            self.put_node(name, kind)

    @rule(name=st.sampled_from(NODES))
    def lose_node(self, name: str) -> None:
        if name in self.objects("Node"):
            self.harness.lose("Node", name)
            self.disks_seen.setdefault(name, set()).update(DISKS)

    @rule(node=st.sampled_from(NODES), promise=st.sampled_from(list(PROMISES)), owned=st.booleans())
    def add_pod(self, node: str, promise: str, owned: bool) -> None:
        if self.load(node) < ROOM:
            self.pods += 1
            meta = {"ownerReferences": [{**OWNER, "uid": f"rs{self.pods % 3}"}] if owned else []}
            self.harness.put(keeping(f"p{self.pods}", node, promise, cpu="1", meta=meta))

    @rule(data=st.data(), promise=st.sampled_from(list(PROMISES)))
    def edit_pod(self, data: Any, promise: str) -> None:
        pods = self.objects("Pod")
        if pods:
            self.edit(data.draw(st.sampled_from(sorted(pods))), promise)

    def edit(self, name: str, promise: str) -> None:
        old = self.objects("Pod")[name]
        meta = {"ownerReferences": old["metadata"]["ownerReferences"]}
        if next(iter(old["metadata"]["annotations"].values())) != promise:
            self.broken_since.pop(name, None)
        self.harness.put(keeping(name, old["spec"]["nodeName"], promise, cpu="1", meta=meta))

    @rule(data=st.data())
    def remove_pod(self, data: Any) -> None:
        pods = self.objects("Pod")
        if pods:
            self.take(data.draw(st.sampled_from(sorted(pods))))

    def take(self, name: str) -> None:
        self.harness.lose("Pod", name)
        self.broken_since.pop(name, None)

    # -- time, and what the evictor does -------------------------------------------------------------------------

    @rule(
        seconds=st.sampled_from([0.0, 1.0, GRACE / 2, GRACE, 400.0]),
        fresh=st.sampled_from([True, True, True, False]),
        answers=st.lists(st.sampled_from([201, 201, 200, 429, 409, 500, 0, None]), min_size=1, max_size=4),
    )
    def pass_time(self, seconds: float, fresh: bool, answers: list[int | None]) -> None:
        self.harness.now += seconds
        self.look(fresh, answers)

    def look(self, fresh: bool, answers: list[int | None]) -> None:
        now = self.harness.now
        self.observe(fresh, now)
        reads = [one.node for one in self.harness.tell(Look(fresh)) if isinstance(one, Read)]
        if fresh:
            assert sum(self.harness.evictor.waiting().values()) == len(self.broken())
        evictions = [one for node in reads for one in self.harness.tell(self.harness.read(node))]
        for i, eviction in enumerate(one for one in evictions if isinstance(one, Evict)):
            self.check(eviction, now)
            self.answer(eviction, answers[i % len(answers)])

    def observe(self, fresh: bool, now: float) -> None:
        """The model's own first observations."""
        if not fresh:
            self.blind = True
            return
        broken, nodes = self.broken(), self.objects("Node")
        for name, pod in self.objects("Pod").items():
            node = pod["spec"]["nodeName"]
            moved = node in nodes and self.disks_seen.get(node, set()) - {self.disk(node)}
            if name not in broken:
                self.broken_since.pop(name, None)
            elif self.blind or moved or name not in self.broken_since:
                self.broken_since[name] = now
        self.disks_seen = {name: {self.disk(name)} for name in nodes}
        self.blind = False

    def check(self, eviction: Evict, now: float) -> None:
        name, nodes, pods = eviction.pod.name, self.objects("Node"), self.objects("Pod")
        assert name in self.broken(), "the API says that the promise holds"
        assert now - self.broken_since[name] >= GRACE, "there were not two observations a grace apart"
        assert eviction.target in nodes and eviction.target != eviction.node, "there is no target"
        promise = pods[name]["metadata"]["annotations"].popitem()
        pods[name]["metadata"]["annotations"] = dict([promise])
        assert self.disk(eviction.target) in PROMISES[promise[1]], "the target breaks the promise too"
        assert self.load(eviction.target) < ROOM, "the target has no room"
        assert now - self.accepted.get(name, -1e9) >= LEAVING, "it is on its way already"
        assert not self.harness.evictor.breaker.open, "the breaker is open"
        self.evictions.append((now, eviction.node))
        for burst, rate, where in (
            (CAREFUL["cluster_burst"], CAREFUL["cluster_rate"], None),
            (CAREFUL["namespace_burst"], CAREFUL["namespace_rate"], None),
            (CAREFUL["node_burst"], CAREFUL["node_rate"], eviction.node),
        ):
            times = [time for time, node in self.evictions if where in (None, node)]
            for i, first in enumerate(times):
                assert len(times) - i <= burst + (now - first) * rate + 1e-6, "there was no token"

    def answer(self, eviction: Evict, status: int | None) -> None:
        """The API says this; 200: after the watch told of it; None: yes, and the pod is slow to leave.

        A successor takes the target.
        """
        name = eviction.pod.name
        if status in (200, 201, None):
            self.accepted[name] = self.harness.now
        pod = self.objects("Pod")[name]
        if status == 200:
            self.take(name)
        self.harness.answer(name, 201 if status is None else status, budget=status == 429)
        if status == 201:
            self.take(name)
        if status in (200, 201):
            self.pods += 1
            promise = next(iter(pod["metadata"]["annotations"].values()))
            meta = {"ownerReferences": pod["metadata"]["ownerReferences"]}
            self.harness.put(keeping(f"p{self.pods}", eviction.target, promise, cpu="1", meta=meta))

    def teardown(self) -> None:
        assert validate(self.harness.evictor.observed.cluster) == []


NOT_ON_HDD = list(PROMISES)[1]


def test_a_node_is_recreated_between_two_looks() -> None:
    """The grace of the pods on it starts anew, though the new node lets them down as the old one did."""
    world = Sequence()
    world.begin([None, None, None, "ssd", "ssd"])
    world.lose_node("n0")
    world.put_node("n0", None)
    world.pass_time(GRACE, True, [201])
    assert sorted(node for _, node in world.evictions) == ["n1", "n2"]
    world.pass_time(GRACE, True, [201])
    assert sorted(node for _, node in world.evictions) == ["n0", "n1", "n2"]
    world.teardown()


def test_a_pod_that_leaves_is_edited() -> None:
    """The API said yes to its eviction: that the pod asks for something else since then evicts it no second time."""
    world = Sequence()
    world.begin(["hdd", "ssd", "ssd", "ssd", "ssd"])
    world.pass_time(GRACE, True, [None])
    world.edit("p1", NOT_ON_HDD)
    world.pass_time(0.0, True, [201])
    world.pass_time(GRACE, True, [201])
    assert [node for _, node in world.evictions] == ["n0"]
    world.pass_time(LEAVING, True, [201])
    world.pass_time(GRACE, True, [201])
    assert [node for _, node in world.evictions] == ["n0", "n0"]
    world.teardown()


def test_any_sequence_of_events() -> None:
    """Nodes and pods come, change and go, the watch falls silent, the API says yes, no, or nothing."""
    run_state_machine_as_test(
        Sequence,
        settings=settings(
            max_examples=int(os.environ.get("BERTH_EXAMPLES", "60")),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
