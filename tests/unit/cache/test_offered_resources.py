"""Columns of resources: whoever may create a pod may ask for any name, and only what nodes offer has a column."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.framework.config import default_configuration
from podberth.framework.decision import fit_error
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.node import MOST_RESOURCES
from tests.builders import node, pod
from tests.registered import registry

decoder = Decoder()
GPU = "example.com/gpu"


def _node(name: str, **offers: str) -> Any:
    made = node(name, cpu="4", pods="10")
    made["status"]["allocatable"] |= {f"example.com/{what}": amount for what, amount in offers.items()}
    return decoder.node(wire.encode(made))


def _pod(name: str, on: str = "", **asks: str) -> Any:
    made = pod(name, uid=name, on=on or None, others={f"example.com/{what}": amount for what, amount in asks.items()})
    return decoder.pod(wire.encode(made))


def _checked(cluster: Cluster) -> None:
    assert validate(cluster) == []


def test_names_that_no_node_offers_have_no_column() -> None:
    """Asked for by thousands, placed and gone: the matrices stay as they are."""
    cluster = Cluster()
    cluster.put_node(_node("n0", gpu="2"))
    shape = cluster.nodes.requested.shape
    framework = build(default_configuration(), registry())["berth"]
    for i in range(20):
        many = {f"r{i}-{j}": "1" for j in range(50)}
        framework.decide(_pod(f"w{i}", **many), cluster)
        cluster.put_pod(_pod(f"p{i}", on="n0", **many))
    assert set(cluster.nodes.resources) == {"cpu", "memory", "ephemeral-storage", GPU}
    assert len(cluster.nodes.unoffered) == 1000
    _checked(cluster)
    for i in range(20):
        cluster.drop_pod(f"p{i}")
    assert cluster.nodes.requested.shape == shape
    assert cluster.nodes.unoffered == {}


def test_what_was_asked_for_counts_once_it_is_offered() -> None:
    """A node comes to offer what its pods ask for, stops, and another begins: sums are right at each moment."""
    cluster = Cluster()
    cluster.put_node(_node("n0"))
    cluster.put_pod(_pod("p0", on="n0", gpu="2", disk="1"))
    cluster.put_pod(_pod("p1", on="n0", gpu="1"))
    cluster.put_pod(_pod("zero", on="n0", gpu="0", fpga="0"))
    _checked(cluster)
    assert cluster.nodes.unoffered == {GPU: {0: 3}, "example.com/disk": {0: 1}}
    cluster.put_node(_node("n0", gpu="4"))
    _checked(cluster)
    assert cluster.nodes.requested[cluster.nodes.resources[GPU], 0] == 3
    cluster.put_node(_node("n1", disk="8"))
    _checked(cluster)
    cluster.put_node(_node("n0"))
    _checked(cluster)
    assert cluster.nodes.unoffered == {GPU: {0: 3}}
    cluster.drop_pod("p0")
    cluster.drop_node("n1")
    _checked(cluster)
    cluster.put_node(_node("n0", fpga="1", gpu="1"))
    _checked(cluster)
    framework = build(default_configuration(), registry())["berth"]
    assert (
        fit_error(framework.decide(_pod("w", gpu="1"), cluster))
        == "0/1 nodes are available: 1 Insufficient " + GPU + "."
    )


def test_a_node_that_changes_what_it_offers_uses_the_same_columns() -> None:
    """A kubelet writes other names again and again: as many columns as names at a time."""
    cluster = Cluster()
    for i in range(200):
        cluster.put_node(_node("n0", **{f"r{i}": "1", f"s{i}": "1"}))
    _checked(cluster)
    assert len(cluster.nodes.allocatable) <= 16


def test_dry_runs_with_names_that_no_node_offers() -> None:
    """Supposed and taken back, one at a time and many at once: as before."""
    cluster = Cluster()
    cluster.put_node(_node("n0", gpu="2"))
    shape = _pod("p", gpu="1", disk="3").shape
    cluster.nodes.suppose_all([(0, shape)] * 40, 1)
    assert cluster.nodes.unoffered == {"example.com/disk": {0: 120}}
    cluster.nodes.suppose_all([(0, shape)] * 40, -1)
    _checked(cluster)
    assert cluster.nodes.unoffered == {}


def test_the_message_names_each_resource_that_is_missing() -> None:
    """No node has them, so no preemption helps."""
    cluster = Cluster()
    for i in range(3):
        cluster.put_node(_node(f"n{i}"))
    framework = build(default_configuration(), registry())["berth"]
    decision = framework.decide(_pod("w", **{f"r{j}": "1" for j in range(64)}), cluster)
    assert len([pair for rejected in decision.rejected for pair in rejected.reasons]) == 64
    assert fit_error(decision).count("3 Insufficient example.com/r") == 64
    assert decision.unresolvable(3).all()


def test_of_a_node_with_thousands_of_resources_some_hundred_count() -> None:
    """A kubelet writes 10,000 names: what everybody needs counts, of the rest as many as any real node has."""
    made = node("n0", cpu="4", pods="10")
    made["status"]["allocatable"] = {f"example.com/r{i}": "1" for i in range(10_000)} | made["status"]["allocatable"]
    read = decoder.node(wire.encode(made))
    assert (read.allocatable["cpu"], read.allowed_pods, read.allocatable["example.com/r0"]) == (4000, 10, 1)
    assert len(read.allocatable) <= MOST_RESOURCES
    (problem,) = read.problems
    assert problem.startswith("status.allocatable: Too many: ")
    cluster = Cluster()
    cluster.put_node(read)
    assert len(cluster.nodes.allocatable) <= 2 * MOST_RESOURCES
    _checked(cluster)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["place", "remove", "offer"]), st.integers(0, 3), st.integers(0, 5)), max_size=12
)


@settings(deadline=None, max_examples=40)
@given(CHANGES)
def test_what_pods_ask_for_counts_while_it_is_offered(changes: list[tuple[str, int, int]]) -> None:
    """Pods come and go while nodes offer some of these, and stop."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.put_node(_node(name))
    for what, which, number in changes:
        match what:
            case "place":
                cluster.put_pod(_pod(f"p{which}", on=f"n{number % 2}", **{f"r{i}": str(i) for i in range(number)}))
            case "remove":
                cluster.drop_pod(f"p{which}")
            case "offer":
                cluster.put_node(_node(f"n{which % 2}", **{f"r{i}": "100" for i in range(number)}))
        assert validate(cluster) == []
