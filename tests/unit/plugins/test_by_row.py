"""Two ways to ask the plugins that look at what is placed: all rows, and one row."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.plugins import node_resources
from tests.builders import node, pod
from tests.unit.plugins.small import a_pod, cluster, plugin

RATIO = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 70, "score": 10}, {"utilization": 100, "score": 3}]}
GPU = "example.com/gpu"
RESOURCES = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 5}]
FITS: list[dict[str, Any]] = [
    {},
    *(
        {"scoringStrategy": {"type": kind, **more, **({"resources": RESOURCES} if weighted else {})}}
        for kind, more in (
            ("LeastAllocated", {}),
            ("MostAllocated", {}),
            ("RequestedToCapacityRatio", {"requestedToCapacityRatio": RATIO}),
        )
        for weighted in (False, True)
    ),
]
BALANCES: list[dict[str, Any]] = [{}, {"resources": [{"name": name} for name in ("cpu", "memory", GPU)]}]

CPU = st.sampled_from(["0", "1", "3", "7", "64"])
MEMORY = st.sampled_from(["0", "1", "1Gi", "7Gi", "512Gi", "69999999999999", "70368744177663", "70368744177664", "8Ei"])
SOME = st.sampled_from(["1m", "30m", "333m", "1", "5"])
SOME_MEMORY = st.sampled_from(["1", "123456789", "1Gi", "77Gi", "60Ti"])
GPUS = st.sampled_from([{}, {GPU: "1"}, {GPU: "3"}])
NODES = st.lists(st.tuples(CPU, MEMORY, GPUS), min_size=1, max_size=5)
PODS = st.lists(st.tuples(st.integers(0, 4), st.none() | SOME, st.none() | SOME_MEMORY, GPUS), max_size=8)


@pytest.mark.parametrize(
    ("name", "args"),
    [*(("NodeResourcesFit", args) for args in FITS), *(("NodeResourcesBalancedAllocation", args) for args in BALANCES)],
)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_all_rows_and_one_row_agree(name: str, args: dict[str, Any], data: st.DataObject) -> None:
    """Whatever nodes have and give, capacities that doubles can't hold and missing ones among them; kept or not."""
    made = plugin(name, **args)
    nodes = data.draw(NODES)
    objects = [node(f"n{i}", cpu=cpu, memory=memory, others=others) for i, (cpu, memory, others) in enumerate(nodes)]
    there = cluster(*objects)
    rows = np.arange(there.nodes.rows)
    for i, (on, cpu, memory, others) in enumerate(data.draw(PODS)):
        asking = a_pod(pod(f"p{i}", uid=f"p{i}", cpu=cpu, memory=memory, others=others))
        scores = made.score(asking, there, rows)
        if scores is not None:
            assert scores.dtype == np.int64
            assert scores.tolist() == [made.score_one(asking, there.nodes, row) for row in rows]
            assert made.score(asking, there, rows[1:]).tolist() == scores[1:].tolist()
        if name == "NodeResourcesFit":
            rejected = np.zeros(len(rows), dtype=np.bool_)
            for _, where in made.filter(asking, there):
                rejected |= where
            assert [made.filter_one(asking, there.nodes, row) for row in rows] == (~rejected).tolist()
        if on < len(rows):
            there.assume(asking, on)


@pytest.mark.parametrize("bits", [62, 0])
def test_rows_that_lack_resources(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Each row is scored by what it has, however many resources there are; rows without a node among them."""
    monkeypatch.setattr(node_resources, "BITS", bits)
    made = plugin("NodeResourcesFit", scoringStrategy={"type": "LeastAllocated", "resources": RESOURCES})
    there = cluster(*(node(f"n{i}", cpu="4", memory="8Gi", others={GPU: "2"} if i % 2 else {}) for i in range(6)))
    there.put_pod(a_pod(pod("lost", on="nowhere")))
    asking = a_pod(pod("p", uid="p", cpu="1", memory="1Gi", others={GPU: "1"}))
    rows = np.arange(there.nodes.rows)
    scores = made.score(asking, there, rows)
    assert scores.tolist() == [made.score_one(asking, there.nodes, row) for row in rows]
    assert len(set(scores.tolist())) == 3
