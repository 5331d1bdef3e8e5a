"""The pods of each node by importance, the most important first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.plugins.default_preemption.sparing import Victim
from podberth.plugins.default_preemption.victims import Ranking, importance
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
    ranking = Ranking()
    for number, part in enumerate((first, more)):
        for i, (row, of, started) in enumerate(part):
            cluster.assume(a_pod(f"p{number}-{i}", of, 1, started=started), row)
        ranking.follow(cluster)
        for row in range(NODES):
            found = [placement.pod for placement in ranking.below(row, priority, cluster)]
            lower = [one for one in cluster.pods_on(row) if one.priority < priority]
            assert sorted(found, key=importance) == found
            assert {one.uid for one in found} == {one.uid for one in lower}
        every = cluster.nodes.alive.nonzero()[0]
        nobody = [not ranking.below(row, priority, cluster) for row in range(NODES)]
        assert ranking.none_below(every, priority, cluster).tolist() == nobody


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
