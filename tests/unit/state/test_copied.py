"""A copy of a cluster follows it, whatever happens to the cluster and whoever is left out of the copy meanwhile."""

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.state.cluster import Cluster
from scheduler.state.copied import FollowingCopy
from scheduler.state.effort import SliceOver
from scheduler.state.rebuild import differing, rebuilt
from scheduler.state.validate import validate
from tests.builders import pod, term
from tests.unit.plugins.preempting import NODES, Crowd, changes, decoder, pods

HOST = "kubernetes.io/hostname"
ASKS = decoder.pod(msgspec.json.encode(pod("asks", labels={"app": "none"}, apart=[term("app in a0", HOST)])))


def in_slices(cluster: Cluster, work: Any) -> Any:
    """What comes of it, each part in a slice of its own."""
    for _ in range(10_000):
        cluster.effort.begin(1)
        try:
            return work()
        except SliceOver:
            continue
        finally:
            cluster.effort.end()
    raise AssertionError("it comes to no end")


def seen(cluster: Cluster) -> list[Any]:
    """What filters ask of pods elsewhere."""
    rows, incidence = cluster.nodes.rows, cluster.incidence
    selected = incidence.selected(ASKS.shape.anti_affinity_terms, HOST)
    repelled = incidence.existing_terms(ASKS).repelled
    by_key = {key: one.by_row(rows).tolist() for key, one in repelled.items() if one.total}
    return [selected.by_row(rows).tolist(), by_key]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(pods, min_size=2 * NODES, max_size=2 * NODES),
    st.lists(st.tuples(st.lists(changes, max_size=4), st.sets(st.integers(0, 30))), min_size=1, max_size=6),
)
def test_it_is_what_a_new_copy_would_be(start: list[Any], turns: list[tuple[list[Any], set[int]]]) -> None:
    """After each turn: the same numbers on each node and per domain, without the same pods."""
    crowd = Crowd(start)
    cluster = crowd.cluster
    copy = FollowingCopy(cluster)
    for happened, away in turns:
        for change in happened:
            crowd.change(*change)
        made = in_slices(cluster, copy.up_to_date)
        there = [one for i in away if (one := cluster.placement(f"default/p{i}")) is not None]
        together = {"first": there[: len(there) // 2], "second": there[len(there) // 2 :]}
        in_slices(cluster, lambda together=together: copy.leave_out(together))
        anew = rebuilt(cluster)
        for one in there:
            anew.leave_out(one)
        assert list(differing(made.nodes, anew.nodes, np.arange(cluster.nodes.rows))) == []
        assert made.nodes.names == cluster.nodes.names
        assert seen(made) == seen(anew)
        assert validate(cluster) == []


def test_a_copy_is_let_go_of_in_parts() -> None:
    """What grows with pods is emptied some entries at a time."""
    crowd = Crowd([(0, 2, i % 2) for i in range(2 * NODES)])
    for i in range(5_000):
        made = decoder.pod(msgspec.json.encode(pod(f"own-{i}", labels={"own": f"{i}"})))
        crowd.cluster.put_pod(msgspec.structs.replace(made, node_name="n0"))
    copy = FollowingCopy(crowd.cluster)
    pods = copy.up_to_date().incidence.pods
    left = [len(pods), *(len(pods) for _ in copy.end())]
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 2_000
    assert len(crowd.cluster.incidence.pods) > 5_000
    assert validate(crowd.cluster) == []
