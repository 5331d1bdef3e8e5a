"""Placements by levels are found once for all groups that do not run yet, as long as nodes stay as they are."""

from typing import Any

import msgspec
import pytest

from podberth.cache.cluster import Cluster
from podberth.model.pod_group import PREFERRED_TOPOLOGY, PodGroup
from podberth.plugins import topology_placement_generator
from podberth.plugins.topology_levels import by_level
from tests.builders import Object, node
from tests.unit.plugins.preempting import decoder
from tests.unit.plugins.small import a_node, plugin

LEVELS = ["block", "rack"]


def _node(i: int, block: int) -> Object:
    return node(f"n{i}", labels={"block": f"b{block}", "rack": f"r{i % 3}"})


def _group(name: str, preferred: str) -> PodGroup:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {PREFERRED_TOPOLOGY: preferred}}
    document = {"kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    made = decoder.of_kind("PodGroup")(msgspec.json.encode(document))
    assert isinstance(made, PodGroup)
    return made


def _said(found: Any) -> list[Any]:
    return [(one.name, one.rows.tolist(), one.level, one.path, _said(one.domains)) for one in found or ()]


def test_placements_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And anew once a node comes, goes or has another label."""
    asked: list[str] = []

    def counted(levels: list[str], required: str | None, preferred: str, *rest: Any) -> Any:
        asked.append(preferred)
        return by_level(levels, required, preferred, *rest)

    monkeypatch.setattr(topology_placement_generator, "by_level", counted)
    made, cluster = plugin("TopologyPlacementGenerator", levels=LEVELS), Cluster()
    for i in range(9):
        cluster.put_node(a_node(_node(i, i % 2)))
    for change in range(3):
        if change == 1:
            cluster.put_node(a_node(_node(0, 5)))
        elif change == 2:
            cluster.drop_node("n3")
        asked.clear()
        for preferred in LEVELS * 2:
            found = made.placement_generate(_group(f"of-{preferred}", preferred), (), cluster)
            assert _said(found) == _said(by_level(LEVELS, None, preferred, (), cluster.nodes))
        assert asked == LEVELS


def test_a_level_that_no_node_has() -> None:
    """Then there are no domains, and the group may be anywhere."""
    cluster = Cluster()
    cluster.put_node(a_node(_node(0, 0)))
    made = plugin("TopologyPlacementGenerator", levels=["row", "rack"])
    found = made.placement_generate(_group("g", "rack"), (), cluster)
    assert [(one.name, one.rows.tolist(), one.domains) for one in found] == [("", [0], ())]
