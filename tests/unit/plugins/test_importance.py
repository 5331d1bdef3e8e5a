"""The pods of each node by importance, the most important first."""

from hypothesis import given
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
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
