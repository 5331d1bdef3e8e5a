"""What is kept of preemption's trials says what trying everything anew says, whatever happened in between."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from tests.unit.plugins.preempting import NODES, Crowd, a_framework, a_node, a_pod, anew, answer, changes, pods

ASKS = [("ask", 2, 4), ("ask", 2, 2)]

asking = st.tuples(st.just("ask"), st.just(2), st.sampled_from((2, 4, 4)))
events = st.one_of(changes, asking)


@settings(max_examples=120, deadline=None)
@given(st.lists(pods, min_size=2 * NODES, max_size=2 * NODES), st.lists(events, min_size=10, max_size=40))
def test_kept_trials_agree(start: list[Any], happenings: list[Any]) -> None:
    """After any sequence of events: the same node, the same victims, the same words."""
    crowd = Crowd(start)
    long_lived = a_framework()
    for i, (what, *detail) in enumerate([*ASKS, *happenings, *ASKS]):
        if what != "ask":
            crowd.change(what, *detail)
            continue
        priority, cpu = detail
        preemptor = a_pod(f"q{i}", priority, cpu)
        assert answer(long_lived, preemptor, crowd.cluster) == anew(preemptor, crowd.cluster)


def test_a_start_counts() -> None:
    """Of two nodes that cost the same, the one whose pod runs longer is spared, from the moment when that is known."""
    cluster = Cluster()
    framework = a_framework()
    for i in range(2):
        cluster.put_node(a_node(i, 4))
        cluster.put_pod(msgspec.structs.replace(a_pod(f"p{i}", 0, 4), node_name=f"n{i}"))
    assert answer(framework, a_pod("q", 2, 4), cluster)[0] == "n0"
    started = a_pod("p0", 0, 4, started=1)
    cluster.put_pod(msgspec.structs.replace(started, node_name="n0"))
    assert answer(framework, a_pod("q", 2, 4), cluster)[0] == "n1"


def test_a_nominated_pod_that_asks_for_more_counts() -> None:
    """Beside what it asked for at first the node helps, if both of its pods go; beside what it asks for now, nobody."""
    crowd, framework = Crowd([(0, 2, 0)] * 2 * NODES), a_framework()
    for row in range(1, NODES):
        crowd.change("node", row, 4, True)
    crowd.cluster.nominations.put(a_pod("kept", 3, 2), "n0")
    assert len(answer(framework, a_pod("q0", 2, 2), crowd.cluster)[1]) == 2
    crowd.cluster.nominations.put(a_pod("kept", 3, 4), "n0")
    assert answer(framework, a_pod("q1", 2, 2), crowd.cluster)[1] == set()
