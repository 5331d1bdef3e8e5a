"""Sums that no int64 holds: anybody may create pods that name their node, each with as much as a quantity may be."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.rebuild import rebuilt
from podberth.cache.validate import validate
from podberth.cache.view import row_with
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.builders import node, pod
from tests.registered import registry

GPU = "example.com/gpu"
MOST = {"cpu": "36028797018963", "memory": "32Pi", "others": {"ephemeral-storage": "32Pi", GPU: str(1 << 55)}}
MANY = 300
"""256 such pods are 2**63 of each."""
decoder = Decoder()


def a_pod(name: str, **parts: Any) -> Pod:
    return decoder.pod(wire.encode(pod(name, uid=name, **parts)))


def a_town(**others: str) -> Cluster:
    """Two nodes; with what the second one offers besides."""
    cluster = Cluster()
    cluster.put_node(decoder.node(wire.encode(node("n0"))))
    offer(cluster, others)
    return cluster


def offer(cluster: Cluster, others: dict[str, str]) -> None:
    cluster.put_node(decoder.node(wire.encode(node("n1", others=others))))


def crowd(cluster: Cluster, on: str) -> list[Pod]:
    pods = [a_pod(f"p{i}", on=on, **MOST) for i in range(MANY)]
    for one in pods:
        cluster.put_pod(one)
    return pods


def leave(cluster: Cluster, pods: Iterable[Pod]) -> None:
    for one in pods:
        cluster.drop_pod(one.uid)


def sums(cluster: Cluster) -> list[Any]:
    nodes = cluster.nodes
    return [nodes.requested.tolist(), nodes.nonzero.tolist(), nodes.pods.tolist(), nodes.unoffered, nodes.beyond(0)]


@pytest.mark.parametrize("on", ["nowhere", "n1"])
@pytest.mark.parametrize("others", [{}, {GPU: "4"}], ids=["", "offered"])
def test_pods_that_ask_for_more_together_than_a_column_holds(on: str, others: dict[str, str]) -> None:
    """Their node is full, the others take pods, and nothing is left of them when they go."""
    cluster = a_town(**others)
    empty = sums(cluster)
    framework = build(default_configuration(), registry())["berth"]
    pods = crowd(cluster, on)
    assert validate(cluster) == validate(rebuilt(cluster)) == []
    fits = {cluster.nodes.names[row] for row in framework.decide(a_pod("plain", cpu="1"), cluster).feasible}
    assert fits == {"n0", "n1"} - {on}
    leave(cluster, pods[::2])
    assert validate(cluster) == []
    leave(cluster, pods[1::2])
    assert validate(cluster) == []
    assert sums(cluster) == empty


def test_what_they_ask_for_is_offered_later() -> None:
    """And no more, and another resource takes its place."""
    cluster = a_town()
    empty = sums(cluster)
    pods = crowd(cluster, "n1")
    for others in ({GPU: "4"}, {"example.com/disk": "1"}, {GPU: "2", "example.com/disk": "1"}, {}):
        offer(cluster, others)
        assert validate(cluster) == []
    leave(cluster, pods)
    assert validate(cluster) == []
    assert sums(cluster)[2:] == empty[2:]


@pytest.mark.parametrize("there", [0, MANY], ids=["beside nobody", "beside others"])
def test_a_dry_run_with_them_leaves_no_trace(there: int) -> None:
    """Supposed together, beside small ones of which many are added up at once."""
    cluster = a_town(**{GPU: "4"})
    for one in [a_pod(f"t{i}", on="n0", **MOST) for i in range(there)]:
        cluster.put_pod(one)
    before = sums(cluster)
    small, large = a_pod("small", cpu="1", memory="1Gi"), a_pod("large", **MOST)
    where = [(one, row) for one in (small, large) for row in (0, 1) for _ in range(MANY)]
    with cluster.supposing(where, usage_only=True):
        assert (cluster.nodes.requested[:3, :2] > 1 << 60).all()
    assert sums(cluster) == before
    assert validate(cluster) == []


def test_one_row_without_some_of_them() -> None:
    """As the row is once they have gone."""
    cluster = a_town(**{GPU: "4"})
    pods = crowd(cluster, "n1")
    row = cluster.nodes.live_row("n1")
    assert row is not None
    view = row_with(cluster, row, pods[5:], [a_pod("new", **MOST)]).nodes
    leave(cluster, pods[5:])
    cluster.assume(a_pod("new", **MOST), row)
    for name in ("requested", "nonzero", "pods"):
        assert np.array_equal(getattr(view, name)[..., 0], getattr(cluster.nodes, name)[..., row])


@pytest.mark.parametrize("at", [0, 128], ids=["before", "after"])
def test_a_small_pod_takes_a_sum_past_what_a_column_holds(at: int) -> None:
    """128 of the largest pods are as much as a column holds; the sum is the same whoever came last."""
    cluster = a_town()
    pods = [a_pod(f"p{i}", on="n1", **MOST) for i in range(128)]
    pods.insert(at, a_pod("small", on="n1", cpu="1", memory="1Ki"))
    for one in pods:
        cluster.put_pod(one)
    assert validate(cluster) == validate(rebuilt(cluster)) == []
    leave(cluster, pods)
    assert validate(cluster) == []
