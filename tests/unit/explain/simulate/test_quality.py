"""Room that is of no use, and other figures of a cluster."""

import numpy as np
import pytest

from podberth.explain.objects.world import World
from podberth.explain.simulate.outcome import Mix, quality, stranded
from podberth.model.pod import Pod
from tests.builders import node, pod


def mix(*requests: tuple[int, ...]) -> Mix:
    """Pods that ask for so much CPU and memory."""
    found = Mix([], ("cpu", "memory"))
    found.requests = np.array(requests, dtype=np.int64)
    found.counts = np.ones(len(requests), dtype=np.int64)
    return found


@pytest.mark.parametrize(
    ("free", "pods", "want"),
    [
        pytest.param((4, 4), mix((1, 1)), (0, 0), id="all of it can be used"),
        pytest.param((4, 0), mix((1, 1)), (4, 0), id="CPU without memory"),
        pytest.param((1, 4), mix((2, 1)), (1, 4), id="too little CPU for anyone"),
        pytest.param((1, 4), mix((2, 1), (1, 1)), (0.5, 2), id="for one of two"),
        pytest.param((1, 4), mix((2, 0), (0, 1)), (1, 0), id="who does not ask for memory does not strand it"),
        pytest.param((1, 4), mix((9, 1), (1, 1)), (0, 0), id="who never fits does not count"),
        pytest.param((1, 4), mix((9, 9)), (0, 0), id="nobody ever fits"),
    ],
)
def test_stranded(free: tuple[int, int], pods: Mix, want: tuple[float, float]) -> None:
    """One node of 4 and 4, so much of it free."""
    total = np.array([[4], [4]], dtype=np.int64)
    assert stranded(total, np.array(free, dtype=np.int64)[:, None], pods)[:, 0] == pytest.approx(want)


def test_quality() -> None:
    """A node that is half full and an empty one."""
    world = World()
    world.add_all([node("a", cpu="4", memory="4Gi"), node("b", cpu="4", memory="4Gi"), pod("p", cpu="2", on="a")])
    found = quality(world.cluster, Mix([p for p in world.placed.values() if isinstance(p, Pod)], ("cpu", "memory")))
    assert (found.nodes, found.nodes_in_use, found.pods) == (2, 1, 1)
    assert found.allocated == {"cpu": 0.25, "memory": 0.0}
    assert found.load_spread == {"cpu": 0.25, "memory": 0.0}
