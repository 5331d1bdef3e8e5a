"""Pods that name their node, as those of a DaemonSet do: only that one is looked at."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.framework.runtime import Framework
from podberth.framework.verify import differences
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.wire import encode
from tests.builders import node, pod
from tests.unit.plugins.preempting import a_framework

NODES = 6
decoder = Decoder()


def pinned(name: str, *terms: list[str], cpu: str = "1", **more: Any) -> Pod:
    """A pod for one of the named nodes of any term."""
    made = pod(name, cpu, **more)
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]} for values in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    made["spec"].setdefault("affinity", {})["nodeAffinity"] = required
    return decoder.pod(encode(made))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for i in range(NODES):
        cluster.put_node(decoder.node(encode(node(f"n{i}", cpu="4", zone="ab"[i % 2]))))
    return cluster


class Asked:
    """Which points of which plugins are asked."""

    def __init__(self, framework: Framework) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        framework.guard.timed = self._ask

    def _ask(self, plugin: Any, point: Callable[..., Any], *args: Any) -> Any:
        self.calls[plugin.name, point.__name__] += 1
        return point(*args)


def test_nobody_looks_at_all_nodes_for_the_room_on_one(cluster: Cluster) -> None:
    """One pod a node, and no two of one shape: nothing is computed for all nodes, and nothing is kept."""
    framework = a_framework()
    asked = Asked(framework)
    for i in range(NODES):
        decision = framework.decide_quickly(pinned(f"p{i}", [f"n{i}"]), cluster)
        assert [cluster.nodes.names[row] for row in decision.best()] == [f"n{i}"]
        assert decision.fitting == 1
    assert asked.calls["NodeResourcesFit", "filter_one"] == NODES
    assert ("NodeResourcesFit", "filter") not in asked.calls
    assert framework.computed == 0
    assert framework.kept() == (0, 0, 0, 0)


CASES: dict[str, Pod] = {
    "one node": pinned("p", ["n3"]),
    "one of two": pinned("p", ["n1"], ["n2"]),
    "a node that is not there": pinned("p", ["gone"]),
    "one is there": pinned("p", ["gone"], ["n4"]),
    "full": pinned("p", ["n0"], cpu="4"),
    "one of two is full": pinned("p", ["n0"], ["n5"], cpu="4"),
    "cordoned": pinned("p", ["n2"]),
    "preferred": pinned("p", ["n1"], ["n3"], ["n5"], labels={"app": "web"}),
    "apart": pinned("p", ["n0"], ["n1"], apart=["app=web per zone"]),
    "apart on one": pinned("p", ["n1"], apart=["app=web per zone"]),
    "not apart on one": pinned("p", ["n4"], apart=["app=web per zone"]),
    "repelled": pinned("p", ["n4"], labels={"app": "shy"}),
    "port is free": pinned("p", ["n1"], ports=["8080"]),
    "port is taken": pinned("p", ["n0"], ports=["8080"]),
    "tainted": pinned("p", ["n5"]),
    "tolerates": pinned("p", ["n5"], tolerate=["dedicated"]),
    "and a label": pinned("p", ["n1"], select={"zone": "b"}),
    "and another label": pinned("p", ["n1"], select={"zone": "a"}),
}


@pytest.mark.parametrize("case", CASES)
def test_as_in_full(cluster: Cluster, case: str) -> None:
    """Also once much is kept, and nodes have changed since."""
    framework, rebuilt = a_framework(), a_framework()
    there = pod("there", "3", labels={"app": "web"}, on="n0", ports=["8080"], apart=["app=shy per zone"])
    cluster.put_pod(decoder.pod(encode(there)))
    cluster.put_node(decoder.node(encode(node("n2", cpu="4", cordoned=True))))
    cluster.put_node(decoder.node(encode(node("n5", cpu="4", zone="b", taints=["dedicated:NoSchedule"]))))
    for _ in range(3):
        quickly, in_full = framework.decide_quickly(CASES[case], cluster), rebuilt.decide(CASES[case], cluster)
        assert differences(quickly, in_full) == ()
        assert np.array_equal(quickly.best(), in_full.best())
        assert quickly.fitting == in_full.fitting
        cluster.put_node(decoder.node(encode(node("n3", cpu="8", zone="a"))))
