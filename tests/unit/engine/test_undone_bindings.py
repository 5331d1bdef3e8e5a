"""A restore of etcd from a backup that nobody has noticed shows a placed pod without its node."""

import pytest

from .conftest import Harness, node, pod


@pytest.mark.parametrize("scheduler", ["berth", "other"])
def test_a_placed_pod_without_its_node(harness: Harness, scheduler: str) -> None:
    """Its room is free, it waits again if it is ours, and the controller hears that there is another history."""
    harness.put(node("n1", cpu="1"), pod("p", "800m", scheduler, nodeName="n1", meta={"uid": "p"}))
    harness.put(pod("q", "800m", meta={"uid": "q"}))
    assert harness.binds() == {} and not harness.engine.take_undone()
    harness.put(pod("p", "800m", scheduler, meta={"uid": "p", "resourceVersion": "9"}))
    assert harness.engine.take_undone() and not harness.engine.take_undone()
    assert harness.engine.cluster.placement("p") is None
    assert (harness.engine.queue.get("p") is not None) == (scheduler == "berth")
    harness.after(60.0)
    assert len(harness.binds()) == 1


def test_an_assumed_pod_may_have_no_node_yet(harness: Harness) -> None:
    """Until the watch shows the Binding, other changes of the pod come without a node."""
    harness.put(node("n1"), pod("p", meta={"uid": "p"}))
    assert harness.binds() == {"p": "n1"}
    harness.put(pod("p", meta={"uid": "p", "resourceVersion": "9"}))
    harness.bound("p")
    harness.put(pod("p", meta={"uid": "p", "resourceVersion": "10"}))
    assert not harness.engine.take_undone()
    placement = harness.engine.cluster.placement("p")
    assert placement is not None and placement.assumed
