"""Pods yield to those that nodes are kept for: found by sums for all such nodes at once, as one by one."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.validate import validate
from podberth.framework.config import decode
from podberth.framework.filters import FilterPlugins
from podberth.framework.interface import (
    ANYTHING,
    OTHER_NODES,
    PODS_ELSEWHERE,
    PODS_HERE,
    SOURCES,
    VOLUMES,
    DependsOn,
    Plugin,
)
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.framework.status import Rejections, Unschedulable
from podberth.model.pod import Pod
from podberth.plugins.node_resources import NodeResourcesFit as Fit
from tests.builders import configuration, label, node, pod, profile, term
from tests.registered import registry
from tests.unit.plugins.preempting import a_framework, decoder

NODES = 6
MANY = 300


def a_pod(name: str, cpu: int, priority: int = 0, **parts: Any) -> Pod:
    """A pod with so many CPUs."""
    made = pod(name, uid=name, cpu=str(cpu), **parts)
    made["spec"]["priority"] = priority
    return decoder.pod(msgspec.json.encode(made))


def a_town(nodes: int) -> Cluster:
    """Nodes with 4 CPUs."""
    cluster = Cluster()
    for i in range(nodes):
        made = node(f"n{i}", cpu="4", pods="4", labels={label("host"): f"n{i}", label("zone"): f"z{i % 2}"})
        cluster.put_node(decoder.node(msgspec.json.encode(made)))
    return cluster


def one_by_one(framework: Framework, asks: Pod, cluster: Cluster) -> list[int]:
    """The rows that take a pod, as upstream finds them: each with the pods that it is kept for, and without."""
    alive = cluster.nodes.alive[: cluster.nodes.rows].copy()
    passed, _ = framework.filters.run(asks, cluster, alive)
    for name in list(cluster.nominations.nodes()):
        row = cluster.nodes.live_row(name)
        ahead = [o for o in cluster.nominations.on(name) if o.priority >= asks.priority and o.uid != asks.uid]
        if row is None or not ahead:
            continue
        mask = np.zeros(len(alive), dtype=np.bool_)
        mask[row] = True
        with cluster.supposing((other, row) for other in ahead):
            with_them, _ = framework.filters.run(asks, cluster, mask)
        passed[row] &= with_them[row]
    return np.flatnonzero(passed).tolist()


apps = st.sampled_from(["a", "b"])
terms = st.sampled_from([[], [], ["app=a"], ["app=b"]])
kept = st.tuples(st.integers(0, NODES), st.integers(0, 4), st.integers(0, 2), apps, terms, st.booleans())
asking = st.tuples(st.integers(1, 4), st.integers(0, 2), apps, terms, terms, st.sampled_from([(), ("80",)]))


@settings(max_examples=150, deadline=None)
@given(st.lists(kept, max_size=12), st.lists(asking, min_size=1, max_size=4), st.lists(kept, max_size=3))
def test_the_same_nodes_as_one_by_one(nominated: list[Any], asked: list[Any], later: list[Any]) -> None:
    """Whatever nominated pods and the one that asks need, repel or attract; also when nominations change in between."""
    cluster, framework = a_town(NODES), a_framework()
    cluster.assume(a_pod("placed", 1, labels={"app": "a"}), 0)

    def nominate(i: int, one: Any) -> None:
        row, cpu, priority, app, apart, port = one
        parts = {"labels": {"app": app}, "apart": [term(t, "host") for t in apart], "ports": ("80",) if port else ()}
        cluster.nominations.put(a_pod(f"k{i}", cpu, priority, **parts), f"n{row}")

    for i, one in enumerate(nominated):
        nominate(i, one)
    for change in (None, *later):
        if change is not None:
            nominate(change[0], change)
            cluster.nominations.drop(f"k{change[1]}")
        for j, (cpu, priority, app, near, apart, ports) in enumerate(asked):
            parts: dict[str, Any] = {"near": [term(t, "zone") for t in near], "apart": [term(t, "host") for t in apart]}
            asks = a_pod(f"q{j}", cpu, priority, labels={"app": app}, ports=ports, **parts)
            should = one_by_one(a_framework(), asks, cluster)
            for _ in range(3):  # the second time, memos are at hand
                quick = framework.decide_quickly(asks, cluster)
                assert bool(len(quick.feasible)) == bool(should)
                assert quick.fitting == len(should) or not quick.quick
                assert set(quick.best().tolist()) <= set(should)
            assert framework.find(asks, cluster, nominated=False).feasible.tolist() == should


@pytest.mark.parametrize("cpu", [1, 4])
def test_nominated_pods_are_not_tried_one_by_one(cpu: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others' nominated pods, with room beside them or not, and a pod with terms of its own: few passes of filters."""
    cluster, framework = a_town(MANY), a_framework()
    for i in range(MANY - 1):
        made = msgspec.structs.replace(a_pod(f"k{i}", cpu, 1_000, labels={"app": "kept"}), namespace="other")
        cluster.nominations.put(made, f"n{i}")
    passes = 0
    before = FilterPlugins.run

    def counting(self: FilterPlugins, *args: Any, **how: Any) -> Any:
        nonlocal passes
        passes += 1
        return before(self, *args, **how)

    monkeypatch.setattr(FilterPlugins, "run", counting)
    asks = a_pod("q", 2, labels={"app": "q"}, apart=[term("app=q", "host")])
    found = framework.decide_quickly(asks, cluster)
    assert found.fitting == (MANY if cpu == 1 else 1)
    assert len(framework.find(asks, cluster).feasible) == found.fitting
    assert passes <= 4


def test_nominated_pods_that_ask_for_more_together_than_an_int64() -> None:
    """Their node takes nobody else; the others do."""
    cluster, framework = a_town(2), a_framework()
    for i in range(MANY):
        cluster.nominations.put(a_pod(f"k{i}", (1 << 55) // 1_000, 1_000), "n0")
    asks = a_pod("q", 2)
    assert framework.decide_quickly(asks, cluster).fitting == 1
    assert framework.find(asks, cluster).feasible.tolist() == one_by_one(framework, asks, cluster) == [1]


def test_nominated_pods_are_added_up_once_for_all_who_need_the_same_things(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of many different sizes ask: what each nominated pod takes is not looked up again for every size."""
    cluster, framework = a_town(MANY), a_framework()
    for i in range(MANY - 1):
        made = pod(f"k{i}", uid=f"k{i}", cpu=f"{1_000 + i}m", namespace="other")
        made["spec"]["priority"] = 1_000
        cluster.nominations.put(decoder.pod(msgspec.json.encode(made)), f"n{i}")
    looked = 0
    before = Fit.takes

    def counting(self: Fit, *args: Any) -> Any:
        nonlocal looked
        looked += 1
        return before(self, *args)

    monkeypatch.setattr(Fit, "takes", counting)
    for i in range(40):
        made = pod(f"q{i}", uid=f"q{i}", cpu=f"{1_000 + i}m", memory=f"{1 + i}Mi")
        framework.decide_quickly(decoder.pod(msgspec.json.encode(made)), cluster)
    assert 0 < looked <= MANY


class OneEach(Plugin):
    name = "OneEach"
    depends_on = PODS_HERE
    taken = Unschedulable("node(s) have a pod of this app")

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        return [(self.taken, self.there(cluster) > 0)]

    def there(self, cluster: Cluster) -> Ints:
        raise NotImplementedError


class Counts(OneEach):
    def there(self, cluster: Cluster) -> Ints:
        return cluster.count_pods("default", {"app": "a"})


class Lists(OneEach):
    def there(self, cluster: Cluster) -> Ints:
        pods = map(cluster.pods_on, range(cluster.nodes.rows))
        return np.array([sum(one.labels["app"] == "a" for one in some) for some in pods], dtype=np.int64)


def _declaring(plugin: type[OneEach], depends_on: DependsOn, elsewhere: bool | None) -> type[OneEach]:
    """The plugin with this declaration. `elsewhere`: its answer to `looks_elsewhere`; None: it has no such method."""
    said: dict[str, Any] = {"depends_on": depends_on, "__module__": __name__}
    if elsewhere is not None:
        said["looks_elsewhere"] = lambda self, pod, cluster, others: elsewhere
    return type("Declaring", (plugin,), said)


OF_ONES_OWN = [
    _declaring(plugin, depends_on, elsewhere)
    for plugin in (Counts, Lists)
    for depends_on, elsewhere in (
        (PODS_HERE, None),
        (PODS_HERE | OTHER_NODES, None),
        (PODS_HERE | VOLUMES, None),
        (PODS_HERE | SOURCES, None),
        (PODS_HERE | PODS_ELSEWHERE, False),
        (PODS_HERE | PODS_ELSEWHERE, True),
        (ANYTHING, None),
        (ANYTHING, False),
    )
]


@pytest.mark.parametrize("plugin", OF_ONES_OWN)
def test_a_filter_of_ones_own_sees_nominated_pods(plugin: type[OneEach]) -> None:
    """Whether it counts pods or lists them, and whatever else it looks at, in the quick way and in the full one."""
    wanted = decode(configuration(profile("berth", {"multiPoint": {"enabled": [{"name": "OneEach"}]}})))
    framework, cluster = build(wanted, {**registry(), "OneEach": plugin})["berth"], a_town(2)
    cluster.nominations.put(a_pod("kept", 1, 1_000, labels={"app": "a"}), "n0")
    for priority, fits in ((0, [1]), (2_000, [0, 1])):
        asks = a_pod("q", 1, priority, labels={"app": "a"})
        assert framework.decide_quickly(asks, cluster).fitting == len(fits)
        assert framework.decide(asks, cluster).feasible.tolist() == fits
    assert validate(cluster) == []


@pytest.mark.parametrize("apart", [[], [term("app=c", "host")]])
@pytest.mark.parametrize("plugin", OF_ONES_OWN)
def test_preemption_removes_whom_a_filter_of_ones_own_counts(plugin: type[OneEach], apart: list[Any]) -> None:
    """Also for a pod that looks at other nodes, for which one node is tried after the other."""
    wanted = decode(configuration(profile("berth", {"multiPoint": {"enabled": [{"name": "OneEach"}]}})))
    framework, cluster = build(wanted, {**registry(), "OneEach": plugin})["berth"], a_town(2)
    for i, app in enumerate("aab"):
        cluster.assume(a_pod(f"p{i}", 1, i, labels={"app": app}), i % 2)
    asks = a_pod("q", 1, 1_000, labels={"app": "a"}, apart=apart)
    found = framework.post_filter_result(asks, cluster, framework.decide(asks, cluster))
    assert (found.node, [victim.uid for victim in found.victims]) == ("n0", ["p0"])
    assert validate(cluster) == []


@pytest.mark.parametrize(("select", "supposed"), [({"nowhere": "x"}, 0), ({}, MANY)])
def test_who_fits_no_node_by_itself_is_not_tried_beside_nominated_pods(
    select: dict[str, str], supposed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever pods are there, a node without its label does not take it. Who needs more room is tried."""
    cluster, framework = a_town(MANY), a_framework()
    for i in range(MANY):
        made = msgspec.structs.replace(a_pod(f"k{i}", 1, 1_000, labels={"app": "kept"}), namespace="other")
        cluster.nominations.put(made, f"n{i}")
    tried = 0
    before = Cluster.supposing

    def counting(self: Cluster, placed: Any, **how: Any) -> Any:
        nonlocal tried
        placed = list(placed)
        tried += len(placed)
        return before(self, placed, **how)

    monkeypatch.setattr(Cluster, "supposing", counting)
    decision = framework.decide(a_pod("q", 2 if select else 8, select=select), cluster)
    assert tried == supposed
    assert not len(decision.feasible)
    assert sum(int(np.count_nonzero(mask)) for one in decision.rejected for _, mask in one.reasons) == MANY


@pytest.mark.parametrize(("others", "select"), [(0, {}), (MANY, {"nowhere": "x"})])
def test_nothing_is_added_up_where_nobody_else_keeps_a_node_that_passes(
    others: int, select: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that comes to its own nominated node, and one that fits none of the nodes that others keep."""
    cluster, framework = a_town(MANY), a_framework()
    asks = a_pod("q", 1, 1_000, select=select)
    cluster.nominations.put(asks, "n0")
    for i in range(others):
        cluster.nominations.put(a_pod(f"k{i}", 1, 1_000), f"n{i}")
    looked = 0
    before = Fit.free

    def counting(self: Fit, *args: Any) -> Any:
        nonlocal looked
        looked += 1
        return before(self, *args)

    monkeypatch.setattr(Fit, "free", counting)
    decision = framework.decide_quickly(asks, cluster)
    assert decision.fitting == (0 if select else 1)
    assert not looked
