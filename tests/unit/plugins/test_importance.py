"""The pods of each node by importance, the most important first."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.plugins.default_preemption.sparing import Victim
from podberth.plugins.default_preemption.victims import Priorities, importance
from tests.unit.plugins.preempting import NODES, a_node, a_pod, rows

placed = st.lists(st.tuples(rows, st.integers(0, 2), st.integers(0, 3)), max_size=20)


@given(placed, placed, st.integers(0, 3))
def test_those_of_lower_priority(
    first: list[tuple[int, int, int]], more: list[tuple[int, int, int]], priority: int
) -> None:
    """Both when rows are ranked and when they were ranked before."""
    cluster = Cluster()
    for i in range(NODES):
        cluster.put_node(a_node(i, 4))
    priorities = Priorities()
    for number, part in enumerate((first, more)):
        for i, (row, of, started) in enumerate(part):
            cluster.assume(a_pod(f"p{number}-{i}", of, 1, started=started), row)
        priorities.follow(cluster)
        every = np.arange(NODES)
        inhabited, numbers, placements = priorities.below(every, priority, cluster)
        pods = iter([placement.pod for placement in placements])
        found = {row: list(islice(pods, number)) for row, number in zip(inhabited, numbers, strict=True)}
        for row in range(NODES):
            lower = [one for one in cluster.pods_on(row) if one.priority < priority]
            assert found.get(row, []) == sorted(lower, key=importance)
        assert priorities.none_below(every, priority, cluster).tolist() == [row not in found for row in range(NODES)]


@pytest.mark.parametrize(
    "starts",
    [
        ["2026-01-01T00:00:09Z", None, "2025-12-31T23:59:59Z", "2026-01-01T00:00:10Z"],
        ["2026-01-01T00:00:09.5Z", "2026-01-01T00:00:09Z", None, "of old"],
        ["2026-01-01T00:00:0:Z", "2026-01-01T00:00:09Z", "2026-01-01 00:00:08Z"],
        ["2026-01-01T00:00:0\u0669Z", "2026-01-01T00:00:09Z"],
    ],
    ids=["as the API server writes them", "of other lengths", "of other forms", "of other letters"],
)
def test_starts_sort_as_texts(starts: list[str | None]) -> None:
    """Whatever they are; who has not started starts last."""
    cluster, priorities = Cluster(), Priorities()
    cluster.put_node(a_node(0, 4))
    for i, start in enumerate(starts):
        cluster.assume(replace(a_pod(f"p{i}", 0, 0), started=start), 0)
    priorities.follow(cluster)
    found = [placement.pod for placement in priorities.below(np.array([0]), 1, cluster)[2]]
    assert found == sorted(cluster.pods_on(0), key=importance)


def victim(priority: int, *, rank: int = 0, pods: int = 1, started: int = 5) -> Victim:
    """A pod, or a group of so many pods, of which the first started then and all others at 9."""
    there = [a_pod(f"p{i}", 0, 1, started=9 if i else started) for i in range(pods)]
    return Victim([(pod, 0) for pod in there], priority, rank, min(pod.started or "" for pod in there))


@pytest.mark.parametrize(
    ("why", "more", "less"),
    [
        ("a higher priority", victim(2, started=9), victim(1, rank=1, pods=3, started=1)),
        ("a group before a pod", victim(1, rank=1, started=9), victim(1, pods=3, started=1)),
        ("more pods", victim(1, pods=3, started=8), victim(1, pods=2, started=1)),
        ("the longer running", victim(1, pods=2, started=3), victim(1, pods=2, started=4)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_more_important_of_two_victims(why: str, more: Victim, less: Victim) -> None:
    """By MoreImportantVictim of kube-scheduler, rule after rule: what comes later speaks for the other one."""
    assert more.importance < less.importance
