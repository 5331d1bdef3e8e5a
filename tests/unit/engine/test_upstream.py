"""A bug that kube-scheduler had in 2026 and that devices have no part in: see docs/evidence/storm.md."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.cache.nodes import Nodes
from podberth.framework.kept_results import OnNodeResults

from .conftest import Harness, node, pod

PODS = 12


def test_137707_equal_pods_are_not_filtered_twice(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """k/k #137707: for each of many equal small pods all filters were asked about its predecessor's node beforehand.

    In Berth that node is the only one that they are asked about again at all. From the second equal pod on, nothing is
    asked about all nodes any more.
    """
    looks: list[set[int] | None] = []
    all_of_them, some_of_them = OnNodeResults.compute_all, OnNodeResults.compute_rows

    def compute_all(self: OnNodeResults, nodes: Nodes, *asked: Any) -> None:
        looks.append(None)
        all_of_them(self, nodes, *asked)

    def compute_rows(self: OnNodeResults, nodes: Nodes, rows: set[int], *asked: Any) -> None:
        looks.append(set(rows))
        some_of_them(self, nodes, rows, *asked)

    monkeypatch.setattr(OnNodeResults, "compute_all", compute_all)
    monkeypatch.setattr(OnNodeResults, "compute_rows", compute_rows)
    harness.put(*(node(f"n{i}") for i in range(20)))
    harness.put(*(pod(f"p{i}", labels={"app": "same"}) for i in range(PODS)))
    went = [harness.engine.cluster.nodes.live_row(node) for node in harness.binds().values()]
    assert len(went) == PODS
    # A shape's results are kept when it is seen a second time; the second pod's look is at the first one's node, too.
    assert looks == [None, None, *({row} for row in went[1:-1])]
