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


ROWS = ("b0 r0", "b1 r0", "b0 r1", "b0 r0", "b1 r2", "b1", "r0")
"""The block and the rack of each row; two rows miss one of them."""
B0R0, B0R1, B1R0, B1R2 = (("b0/r0", [0, 3], 0, 0), ("b0/r1", [2], 0, 0), ("b1/r0", [1], 0, 0), ("b1/r2", [4], 0, 0))
B0, B1 = ("b0", [0, 2, 3], 1, 2), ("b1", [1, 4], 1, 2)
B0_AS_THEY_COME, B1_AS_THEY_COME = ("b0/*", [0, 2, 3], 2, 0), ("b1/*", [1, 4], 2, 0)
ALL, ALL_AS_THEY_COME = ("", [0, 1, 2, 3, 4, 5, 6], 2, 4), ("/*", [0, 1, 2, 3, 4, 5, 6], 3, 0)


@pytest.mark.parametrize(
    ("required", "preferred", "running", "found"),
    [
        (None, "rack", [], [B0R0, B0R1, B1R0, B1R2, B0, B1, ALL, ALL_AS_THEY_COME]),
        ("block", "rack", [], [B0R0, B0R1, B1R0, B1R2, B0, B1, B0_AS_THEY_COME, B1_AS_THEY_COME]),
        (None, "rack", [3], [B0R0, B0, ALL, ALL_AS_THEY_COME]),
        (None, "rack", [0, 2], [B0, ALL, ALL_AS_THEY_COME]),
        (None, "rack", [0, 1], [ALL, ALL_AS_THEY_COME]),
        (None, "rack", [0, 5], [ALL, ALL_AS_THEY_COME]),
        ("block", "rack", [0, 1], []),
        ("rack", "rack", [], [B0R0, B0R1, B1R0, B1R2]),
        (
            None,
            "block",
            [],
            [
                ("b0", [0, 2, 3], 0, 0),
                ("b1", [1, 4, 5], 0, 0),
                ("", [0, 1, 2, 3, 4, 5, 6], 1, 2),
                ("/*", [0, 1, 2, 3, 4, 5, 6], 2, 0),
            ],
        ),
    ],
)
def test_placements_of_each_level(
    required: str | None, preferred: str, running: list[int], found: list[tuple[str, list[int], int, int]]
) -> None:
    """(name, rows, level, how many of the narrowest domains are filled one after the other), the narrowest first.

    A level in which a running pod's node has no domain, or in which they have several, has no placement.
    """
    cluster = Cluster()
    for i, where in enumerate(ROWS):
        labels = {{"b": "block", "r": "rack"}[one[0]]: one for one in where.split()}
        cluster.put_node(a_node(node(f"n{i}", labels=labels)))
    told = by_level(LEVELS, required, preferred, running, cluster.nodes)
    assert [(one.name, one.rows.tolist(), one.level, len(one.domains or ())) for one in told] == found
