"""percentageOfNodesToScore: how many feasible nodes are enough, and which come first."""

from typing import Any

import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework, Rotation, nodes_to_find, sample
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, node, pod, profile


@pytest.mark.parametrize(
    ("percentage", "nodes", "wanted"),
    [
        (40, 10, 10),
        (40, 1000, 400),
        (40, 6000, 2400),
        (1, 5000, 100),
        (3, 5000, 150),
        (100, 5000, 5000),
        (33, 101, 100),
        (0, 1000, 1000),
        (0, 6000, 6000),
    ],
)
def test_how_many(percentage: int, nodes: int, wanted: int) -> None:
    """That share of the nodes, at least a hundred, and all of them where nothing is asked for."""
    assert nodes_to_find(percentage, nodes) == wanted


ROWS = 10


@pytest.mark.parametrize(
    ("id", "feasible", "start", "wanted", "chosen", "then"),
    [
        ("from the first", [0, 2, 4, 6, 8], 0, 2, [0, 2], 3),
        ("from the middle", [0, 2, 4, 6, 8], 3, 2, [4, 6], 7),
        ("around the end", [0, 2, 4, 6, 8], 7, 3, [0, 2, 8], 3),
        ("exactly enough", [1, 9], 5, 2, [1, 9], 5),
        ("too few", [1], 4, 2, [1], 4),
        ("none", [], 4, 2, [], 4),
        ("more nodes before", [0, 1, 2], 99, 1, [0], 1),
    ],
)
def test_which(id: str, feasible: list[int], start: int, wanted: int, chosen: list[int], then: int) -> None:
    """Those that come first after where the last search ended; a search that finds too few has seen all nodes."""
    rotation = Rotation(start)
    found = sample(np.array(feasible, dtype=np.intp), np.ones(ROWS, dtype=np.bool_), wanted, ROWS, rotation)
    assert (list(found), rotation.start) == (chosen, then)


def test_among_some() -> None:
    """Only candidates are searched; rows without a node, or left out by PreFilter, are not looked at."""
    candidates = np.array([False, True, True, False, True])
    rotation = Rotation()
    found = sample(np.array([1, 2, 4]), candidates, 2, 3, rotation)
    assert (list(found), rotation.start) == ([1, 2], 2)
    assert list(sample(np.array([1, 2, 4]), candidates, 2, 3, rotation)) == [1, 4]


def framework(top: int | None = None, own: int | None = None) -> Framework:
    made: dict[str, Any] = profile("a") | ({} if own is None else {"percentageOfNodesToScore": own})
    fields: dict[str, Any] = {} if top is None else {"percentageOfNodesToScore": top}
    return build(decode(configuration(made, **fields)), IN_TREE)["a"]


@pytest.mark.parametrize(
    ("top", "own", "scored"),
    [(None, None, 300), (0, None, 300), (50, None, 150), (50, 40, 120), (50, 0, 300), (None, 100, 300), (1, None, 100)],
)
def test_a_profile_before_the_top(top: int | None, own: int | None, scored: int) -> None:
    """A profile's number counts before the one at the top; both ways of deciding look at equally many nodes."""
    decoder, cluster, asked = Decoder(), Cluster(), framework(top, own)
    for i in range(300):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}"))))
    waiting = decoder.pod(wire.encode(pod("web", cpu="1")))
    rotation = Rotation()
    first = asked.decide(waiting, cluster, rotation)
    again = [asked.decide_quickly(waiting, cluster, rotation) for _ in range(2)]
    assert [len(one.feasible) for one in (first, *again)] == [scored] * 3
    assert rotation.start == (3 * scored % 300 if scored < 300 else 0)
    assert len(asked.decide(waiting, cluster).feasible) == 300


def test_a_search_that_finds_nothing_has_seen_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of a pod that fits nowhere speaks of all nodes, as without a sample."""
    decoder, cluster, asked = Decoder(), Cluster(), framework(1)
    for i in range(150):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}", cpu="1"))))
    decision = asked.decide_quickly(decoder.pod(wire.encode(pod("big", cpu="2"))), cluster, Rotation())
    assert sum(int(mask.sum()) for one in decision.rejected for _, mask in one.reasons) == 150
