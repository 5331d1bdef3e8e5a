"""What preemption looks at: a part of the nodes at a time, and each node a few times however many there are."""

from typing import Any

import msgspec
import pytest

from scheduler.plugins.default_preemption import select_victims, victims
from scheduler.plugins.default_preemption.importance import Ranking
from scheduler.state.cluster import Cluster
from scheduler.state.effort import Effort, SliceOver
from tests.builders import node, pod
from tests.unit.plugins.preempting import a_framework, a_pod, answer, decoder

MOST_SLICES = 5_000


class Looks:
    """How often the pods of a node were looked at: in all, and at most between two charges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = self.most = self._now = 0
        below, each_below, charge = Ranking.below, Ranking.each_below, Effort.charge

        def look(nodes: int) -> None:
            self.total += nodes
            self._now += nodes
            self.most = max(self.most, self._now)

        def looking(*args: Any) -> Any:
            look(1)
            return below(*args)

        def looking_at_each(ranking: Ranking, rows: list[int], *args: Any) -> Any:
            look(len(rows))
            return each_below(ranking, rows, *args)

        def charging(effort: Effort, steps: int) -> None:
            self._now = 0
            charge(effort, steps)

        monkeypatch.setattr(Ranking, "below", looking)
        monkeypatch.setattr(Ranking, "each_below", looking_at_each)
        monkeypatch.setattr(Effort, "charge", charging)


def _at_once(monkeypatch: pytest.MonkeyPatch, **bounds: int) -> None:
    """Bounds of how much is tried at a time."""
    for name, bound in bounds.items():
        for module in (select_victims, victims):
            monkeypatch.setattr(module, name, bound)


def _full(nodes: int, priority: int, *, lower: bool = True) -> Cluster:
    """Nodes that one pod fills, each with a label of its own.

    `lower`: beside them, one that is too small for a preemptor has a pod of the lowest priority.
    """
    cluster = Cluster()
    if lower:
        cluster.put_node(decoder.node(msgspec.json.encode(node("small", cpu="1", pods="5"))))
        cluster.put_pod(msgspec.structs.replace(a_pod("low", -10, 1), node_name="small"))
    for i in range(nodes):
        made = node(f"n{i}", cpu="4", pods="5", labels={"host": f"n{i}"})
        cluster.put_node(decoder.node(msgspec.json.encode(made)))
        cluster.put_pod(msgspec.structs.replace(a_pod(f"p{i}", priority, 4), node_name=f"n{i}"))
    return cluster


def _one_of_no_use(cluster: Cluster) -> None:
    """A pod of low priority that takes nothing: without one, no node has to be looked at."""
    cluster.put_pod(msgspec.structs.replace(a_pod("low", 0, 0), node_name="n0"))


def _apart() -> Any:
    """A preemptor whose own terms make a filter look beyond one node: nodes are tried one by one."""
    made = pod("q", cpu="4")
    term = {"labelSelector": {"matchLabels": {"app": "a0"}}, "topologyKey": "host"}
    made["spec"] |= {
        "priority": 5,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }
    return decoder.pod(msgspec.json.encode(made))


def _asked(preemptor: Any, cluster: Cluster) -> None:
    framework = a_framework()
    for _ in range(MOST_SLICES):
        cluster.effort.begin(5_000, cluster.effort.spent)
        try:
            answer(framework, preemptor, cluster)
            return
        except SliceOver:
            continue
        finally:
            cluster.effort.end()
    raise AssertionError(f"no answer after {MOST_SLICES} slices")


def test_nodes_without_victims_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether anybody could be preempted there or not: so many nodes, and then a charge."""
    _at_once(monkeypatch, CHUNK=100)
    cluster = _full(400, priority=5)
    _one_of_no_use(cluster)
    looks = Looks(monkeypatch)
    _asked(a_pod("q", 5, 4), cluster)
    assert looks.total >= 400
    assert looks.most <= 100


def test_nodes_that_sums_decide_are_tried_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch costs a dozen calls of NumPy beside its nodes: 600 nodes with a victim each are one batch."""
    cluster = _full(600, priority=0)
    looks = Looks(monkeypatch)
    _asked(a_pod("q", 5, 4), cluster)
    assert looks.most >= 600


def test_nobody_looks_for_victims_where_no_pod_has_a_lower_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that fit nowhere are tried again and again, and most clusters have one priority: no node is looked at."""
    cluster = _full(40, priority=5, lower=False)
    looks = Looks(monkeypatch)
    framework, preemptor = a_framework(), a_pod("q", 5, 4)
    found = framework.post_filter_result(preemptor, cluster, framework.decide(preemptor, cluster))
    assert looks.total == 0
    said = "0/40 nodes are available: 40 No preemption victims found for incoming pod."
    assert (found.node, found.text) == ("", f"preemption: {said}")


@pytest.mark.parametrize("case", ["nobody to preempt", "by sums", "one by one"])
def test_looks_grow_with_the_nodes_and_not_faster(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the nodes: four times the looks, or a few more. All of them once for each node would be 16 times."""
    _at_once(monkeypatch, CHUNK=50, CHUNK_ASKED=20)
    preemptor = _apart() if case == "one by one" else a_pod("q", 5, 4)
    looked = []
    for nodes in (100, 400):
        cluster = _full(nodes, priority=5 if case == "nobody to preempt" else 0)
        if case == "nobody to preempt":
            _one_of_no_use(cluster)
        with monkeypatch.context() as patched:
            looks = Looks(patched)
            _asked(preemptor, cluster)
        looked.append(looks.total)
    assert looked[0] >= 100 if case != "one by one" else looked[0] > 0
    assert looked[1] <= 6 * looked[0]
