"""A bug that kube-scheduler had in 2026 and that devices have no part in: see docs/evidence/storm.md."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.framework.result_cache import OnNodeResults

from .conftest import Harness, node, pod

PODS = 12


def test_137707_equal_pods_are_not_filtered_twice(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """k/k #137707: for each of many equal small pods all filters were asked about its predecessor's node beforehand.

    In Berth that node is the only one that they are asked about again at all. From the second equal pod on, nothing is
    asked about all nodes any more.
    """
    looks: list[set[int] | None] = []
    all_of_them, some_of_them = OnNodeResults.compute, OnNodeResults.apply

    def compute(self: OnNodeResults, asked: Any) -> None:
        looks.append(None)
        all_of_them(self, asked)

    def apply(self: OnNodeResults, changes: set[int], asked: Any) -> None:
        looks.append(set(changes))
        some_of_them(self, changes, asked)

    monkeypatch.setattr(OnNodeResults, "compute", compute)
    monkeypatch.setattr(OnNodeResults, "apply", apply)
    harness.put(*(node(f"n{i}") for i in range(20)))
    harness.put(*(pod(f"p{i}", labels={"app": "same"}) for i in range(PODS)))
    went = [harness.engine.cluster.nodes.live_row(node) for node in harness.binds().values()]
    assert len(went) == PODS
    # A shape's results are kept when it is seen a second time; the second pod's look is at the first one's node, too.
    assert looks == [None, None, *({row} for row in went[1:-1])]
