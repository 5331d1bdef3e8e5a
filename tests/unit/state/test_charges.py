"""What is charged for looking things up: no slice of an attempt does much more than it says."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler.model import wire
from scheduler.model.affinity import AffinityTerm
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from scheduler.state.cluster import Cluster
from tests.builders import label, node, pod, term
from tests.unit.work import calls

HOST = label("host")
SLICE = 500
MOST_SLICES = 1_000


def made(decoder: Decoder, name: str, on: str = "", **parts: Any) -> Pod:
    """A pod, perhaps placed."""
    return decoder.pod(wire.encode(pod(name, uid=name, on=on, **parts)))


@pytest.fixture
def town() -> tuple[Cluster, Decoder]:
    """Twenty nodes, and 1,000 placed pods with a label of their own each."""
    cluster, decoder = Cluster(), Decoder()
    for i in range(20):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}", labels={HOST: f"n{i}"}))))
    for i in range(1_000):
        cluster.put_pod(made(decoder, f"p{i}", f"n{i % 20}", labels={"app": f"a{i % 50}", "zz": f"x{i}"}))
    return cluster, decoder


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> Iterator[Counter[str]]:
    """How often a method is called."""
    with monkeypatch.context() as patched:
        yield calls(patched, (of, name))


def test_whoever_asks_first_for_a_labels_values_pays_for_reading_them(town: tuple[Cluster, Decoder]) -> None:
    """1,000 values are read once: that costs more than looking one up does."""
    cluster, decoder = town
    first, second = (made(decoder, f"q{i}", apart=[term(f"zz in x{i}", "host")]) for i in range(2))
    cluster.effort.begin(1_000_000)
    cluster.incidence.any_selected(first.shape.anti_affinity_terms, HOST)
    reading = cluster.effort.end()
    cluster.effort.begin(1_000_000)
    cluster.incidence.any_selected(second.shape.anti_affinity_terms, HOST)
    assert reading > 400
    assert cluster.effort.end() < 100


@pytest.mark.parametrize("kind", ["apart", "rather_apart"])
def test_a_pods_terms_are_hashed_once(
    kind: str, town: tuple[Cluster, Decoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in each of its slices, of which there are many, and in which nobody would be charged with it."""
    cluster, decoder = town
    terms = [term(f"zz notin y{i}", "host") for i in range(300)]
    parts: dict[str, Any] = {"apart": terms} if kind == "apart" else {kind: [(1, one) for one in terms]}
    worst, plugin = made(decoder, "worst", **parts), InterPodAffinity(InterPodAffinityArgs())
    rows = [0, 1]
    plugin.filter(worst, cluster)
    plugin.score(worst, cluster, rows)
    with counting(monkeypatch, AffinityTerm, "__hash__") as hashed:
        plugin.filter(worst, cluster)
        plugin.score(worst, cluster, rows)
    assert hashed.total() < 10


def test_a_column_of_labels_is_counted(town: tuple[Cluster, Decoder]) -> None:
    """Who names a label key of nodes first has its column made."""
    cluster, decoder = town
    for i in range(20):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}", labels={HOST: f"n{i}", "rack": f"r{i}"}))))
    cluster.effort.begin(1_000)
    cluster.nodes.label("rack")
    assert cluster.effort.end() >= 10
