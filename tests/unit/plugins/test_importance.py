"""The pods of each node by importance: asked for row by row, and one row at a time."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.default_preemption.importance import Ranking
from scheduler.state.cluster import Cluster, Placement
from tests.unit.plugins.preempting import NODES, a_node, a_pod, rows

placed = st.lists(st.tuples(rows, st.integers(0, 2), st.integers(0, 3)), max_size=20)


def names(lists: Iterable[list[Placement]]) -> list[list[str]]:
    """Whom each list has."""
    return [[placement.pod.name for placement in some] for some in lists]


@given(placed, placed, st.integers(0, 3))
def test_many_rows_are_what_each_row_is(
    first: list[tuple[int, int, int]], more: list[tuple[int, int, int]], priority: int
) -> None:
    """Both when rows are ranked and when they were ranked before, and with the same steps."""
    cluster = Cluster()
    for i in range(NODES):
        cluster.put_node(a_node(i, 4))
    together, alone = Ranking(), Ranking()
    for number, part in enumerate((first, more)):
        for i, (row, of, started) in enumerate(part):
            cluster.assume(a_pod(f"p{number}-{i}", of, 1, started=started), row)
        for ranking in (together, alone):
            ranking.renew(cluster)
        every = list(range(NODES))
        found = list(together.each_below(every, priority, cluster))
        assert names(found) == names([alone.below(row, priority, cluster) for row in every])
        assert together.steps == alone.steps
        left = together.none_below(cluster.nodes.alive.nonzero()[0], priority, cluster)
        assert left.tolist() == alone.none_below(cluster.nodes.alive.nonzero()[0], priority, cluster).tolist()
