"""Columns of label keys: whoever may create a pod may name any number of keys."""

import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.column import Column
from podberth.cache.rebuild import rebuilt
from podberth.cache.validate import validate
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.builders import node, pod

HOST = "kubernetes.io/hostname"


def with_nodes(count: int) -> tuple[Cluster, Decoder]:
    cluster, decoder = Cluster(), Decoder()
    for i in range(count):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}", labels={HOST: f"n{i}"}))))
    return cluster, decoder


def apart(decoder: Decoder, i: int, keys: int = 1) -> Pod:
    """A pod on a node that keeps others away by keys of its own."""
    selector = {"matchLabels": {"app": "x"}}
    terms = [{"topologyKey": f"example.com/key-{i}-{key}", "labelSelector": selector} for key in range(keys)]
    return decoder.pod(wire.encode(pod(f"p{i}", uid=f"p{i}", on=f"n{i % 3}", apart=terms)))


def test_twenty_thousand_keys_leave_no_trace() -> None:
    """Keys that no node has make no column; pods that are gone leave a bounded number of terms and sums."""
    cluster, decoder = with_nodes(3)
    for i in range(1_000):
        placed = apart(decoder, i, keys=20)
        for term in placed.shape.anti_affinity_terms:
            cluster.affinity.selected((term,), term.topology_key)
        cluster.put_pod(placed)
    assert len(cluster.nodes.columns) < 10
    for i in range(1_000):
        cluster.drop_pod(f"p{i}")
    for i in range(1_000):
        cluster.nodes.label(f"example.com/another-{i}")
    assert len(cluster.nodes.columns) < 1_000
    assert len(cluster.affinity.terms.sets) <= 1024
    assert len(cluster.affinity.sums) <= 2048
    assert HOST in cluster.nodes.columns
    assert validate(cluster) == []


def test_a_key_that_a_count_goes_by_is_followed() -> None:
    """A key that no node had when the count was made counts as soon as one has it, however many keys came since."""
    cluster, decoder = with_nodes(3)
    placed = apart(decoder, 1)
    cluster.put_pod(placed)
    for i in range(2, 2_000):
        cluster.nodes.label(f"example.com/key-{i}-0")
    labels = {HOST: "n1", "example.com/key-1-0": "a"}
    cluster.put_node(decoder.node(wire.encode(node("n1", labels=labels))))
    meant = decoder.pod(wire.encode(pod("meant", labels={"app": "x"})))
    existing = cluster.affinity.existing_terms(meant)
    assert existing is not None
    (repelled,) = existing.repelled.values()
    assert (repelled.total, repelled.anywhere(3).tolist()) == (1, [False, True, False])
    assert validate(cluster) == []


def test_a_label_that_no_sum_goes_by_leaves_sums_as_they_are() -> None:
    """Something may write one to all nodes again and again."""
    cluster, decoder = Cluster(), Decoder()
    there = [decoder.node(wire.encode(node("n0", labels={HOST: "n0", "example.com/beat": beat}))) for beat in "012"]
    cluster.put_node(there[0])
    repels = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
    cluster.put_pod(decoder.pod(wire.encode(pod("p", uid="p", on="n0", apart=[repels]))))
    meant = decoder.pod(wire.encode(pod("meant", labels={"app": "x"})))
    existing = cluster.affinity.existing_terms(meant)
    assert existing is not None
    for one in there[1:]:
        cluster.put_node(one)
        assert cluster.affinity.existing_terms(meant) is existing
    assert existing.computed == 1
    assert validate(cluster) == []


def test_who_goes_by_labels_looks_again_when_a_rebuilt_cluster_takes_over() -> None:
    """What was found by columns that were wrong must not be taken for what these say."""
    cluster, decoder = Cluster(), Decoder()
    cluster.put_node(decoder.node(wire.encode(node("n0"))))
    before = cluster.nodes.label_changes
    cluster.adopt(rebuilt(cluster))
    assert cluster.nodes.label_changes != before


def looked_up(column: Column[str], rows: int) -> bool:
    numbers = np.arange(len(column.values) + 1)
    return not np.shares_memory(column.gather(numbers, rows), numbers)


@pytest.mark.parametrize(("hosts", "in_order"), [(["a", "b", "c"], True), (["a", "a", "b"], False)])
def test_columns_know_whether_codes_are_rows(hosts: list[str], in_order: bool) -> None:
    """Where each row has a value of its own, counts by value are counts by row; else they are looked up."""
    cluster, decoder = Cluster(), Decoder()
    for i, host in enumerate(hosts):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}", labels={HOST: host}))))
    column = cluster.nodes.label(HOST)
    assert looked_up(column, len(hosts)) != in_order
    assert column.filled == len(hosts)
    again = Cluster()
    for _, one in cluster.nodes.live():
        again.put_node(one)
    again.nodes.columns.pop(HOST)  # so that it is filled at once, from all nodes
    assert again.nodes.label(HOST).codes[: len(hosts)].tolist() == column.codes[: len(hosts)].tolist()
    assert looked_up(again.nodes.label(HOST), len(hosts)) != in_order
    assert again.nodes.label(HOST).filled == len(hosts)
