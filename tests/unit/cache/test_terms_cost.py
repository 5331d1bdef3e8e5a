"""What terms cost, in work that is counted: looks at labels, and sums that are touched."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.cache.rebuild import rebuilt
from podberth.cache.row_counts import ByTopology, RowCounts
from podberth.cache.selected_pods import PodClasses, Selected
from podberth.cache.validate import validate
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.namespaced import Namespace
from podberth.model.pod import Pod
from podberth.model.selectors import Condition, LabelSelector
from podberth.model.terms import AffinityTerm
from tests.builders import label, namespace, node, pod, term
from tests.unit.work import calls

HOST = "kubernetes.io/hostname"
KINDS = 1_000
TERMS = 100


def a_namespace(decoder: Decoder, text: bytes) -> Namespace:
    found = decoder.of_kind("Namespace")(text)
    assert isinstance(found, Namespace)
    return found


def town(kinds: int, nodes: int = 20) -> tuple[Cluster, Decoder]:
    """Nodes with placed pods, no two of which have equal labels."""
    cluster, decoder = Cluster(), Decoder()
    cluster.put_namespace(a_namespace(decoder, wire.encode(namespace("default"))))
    for i in range(nodes):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}", labels={HOST: f"n{i}"}))))
    for i in range(kinds):
        labels = {"app": f"a{i % 50}", "zz": f"x{i}"}
        cluster.put_pod(decoder.pod(wire.encode(pod(f"p{i}", uid=f"p{i}", on=f"n{i % nodes}", labels=labels))))
    return cluster, decoder


def hostile(decoder: Decoder, kind: str, count: int) -> Pod:
    """A legal pod: `count` terms over all namespaces, each of which selects nearly every pod."""
    terms = [term(f"zz notin x{i}", "host", namespaces_with="") for i in range(count)]
    parts: dict[str, Any] = {"rather_apart": [(1, one) for one in terms]} if kind == "rather_apart" else {kind: terms}
    return decoder.pod(wire.encode(pod("hostile", uid="hostile", **parts)))


def look(cluster: Cluster, asks: Pod) -> None:
    """What InterPodAffinity asks for a pod."""
    shape, affinity = asks.shape, cluster.affinity
    if shape.affinity_terms:
        affinity.selected(shape.affinity_terms, HOST)
    if shape.anti_affinity_terms:
        affinity.any_selected(shape.anti_affinity_terms, HOST)
    if shape.preferred_pod_terms:
        affinity.preferred(shape.preferred_pod_terms, HOST)
    affinity.existing_terms(asks)


def repelled(cluster: Cluster, asks: Pod) -> bool:
    """Whether the terms of a placed pod keep this one away from some node."""
    existing = cluster.affinity.existing_terms(asks)
    return existing is not None and existing.repels


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often anything was held against the labels of one thing, and how often a sum was changed."""
    return calls(
        monkeypatch,
        (LabelSelector, "matches"),
        (Condition, "accepts"),
        (AffinityTerm, "selects"),
        (ByTopology, "count"),
    )


@pytest.mark.parametrize("kind", ["near", "apart", "rather_apart"])
def test_terms_are_not_held_against_each_kind_of_pods(kind: str, looks: Counter[str]) -> None:
    """A few looks a term, however many kinds of pods there are: not 300 × 1,000."""
    cluster, decoder = town(KINDS)
    looks.clear()
    look(cluster, hostile(decoder, kind, TERMS))
    assert looks.total() < 10 * TERMS


@pytest.mark.parametrize("kind", ["near", "apart", "rather_apart"])
def test_terms_of_placed_pods_are_not_held_against_each_pod(kind: str, looks: Counter[str]) -> None:
    """Pods with labels never seen before: a few looks each, however many terms placed pods carry."""
    cluster, decoder = town(10)
    cluster.assume(hostile(decoder, kind, TERMS), 0)
    look(cluster, decoder.pod(wire.encode(pod("first", uid="first", labels={"zz": "first"}))))
    looks.clear()
    others = [decoder.pod(wire.encode(pod(f"o{i}", uid=f"o{i}", labels={"zz": f"o{i}"}))) for i in range(50)]
    for other in others:
        look(cluster, other)
    assert looks.total() < 10 * len(others)


def test_the_terms_that_select_many_pods_are_kept_once() -> None:
    """Beside 256,000 terms, their numbers are 32 KB, and 16,384 pods may have asked."""
    cluster, decoder = town(10)
    cluster.assume(hostile(decoder, "apart", TERMS), 0)
    for i in range(20):
        look(cluster, decoder.pod(wire.encode(pod(f"o{i}", uid=f"o{i}", labels={"zz": f"o{i}"}))))
    asked = cluster.affinity.terms.asked.values()
    assert len(asked) == 20
    assert len({id(one.by) for one in asked}) == 1


def test_a_pod_that_comes_changes_no_sum_that_nobody_asks_for(looks: Counter[str]) -> None:
    """However many sums are kept: whoever asks next catches up, with what came since."""
    cluster, decoder = town(10)
    for i in range(100):
        look(cluster, hostile(decoder, "apart", 1 + i))
    kept = len(cluster.affinity.sums)
    looks.clear()
    for i in range(20):
        cluster.assume(decoder.pod(wire.encode(pod(f"o{i}", uid=f"o{i}", labels={"app": "o"}))), i)
    assert kept >= 100
    assert looks["count"] == 0
    look(cluster, hostile(decoder, "apart", 1))
    assert 0 < looks["count"] <= 20


def test_a_sum_is_caught_up_with_what_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many apps, each asks about its own pods: the pods of others that came since are not gone through."""
    cluster, decoder = town(10)
    first, second = (
        [
            decoder.pod(
                wire.encode(
                    pod(f"{name}{i}", uid=f"{name}{i}", labels={"app": f"own{i}"}, apart=[term(f"app=own{i}", "host")])
                )
            )
            for i in range(200)
        ]
        for name in ("first", "second")
    )
    for apps in (first, second):
        for i, app in enumerate(apps):
            cluster.assume(app, i % 20)
        if apps is second:
            monkeypatch.setattr(RowCounts, "since", lambda self, version: pytest.fail("all changes are gone through"))
        for app in apps:
            look(cluster, app)
    for app in second:
        assert cluster.affinity.any_selected(app.shape.anti_affinity_terms, HOST).total == 2
        assert repelled(cluster, app)
    monkeypatch.undo()
    assert validate(cluster) == []


def test_placed_terms_take_no_array_each() -> None:
    """128 terms by hostname at 500 nodes: an array for each would be 256 KB a pod."""
    cluster, decoder = town(10, nodes=500)
    cluster.assume(hostile(decoder, "apart", 128), 0)
    look(cluster, decoder.pod(wire.encode(pod("o", uid="o", labels={"app": "o"}))))
    sums = [one for kept in cluster.affinity.terms.sums.values() for one in kept.repelled.values()]
    assert sum(one.counts.nbytes for one in sums) < 100_000


def test_the_first_question_goes_through_no_placed_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was counted as it came, and what a dry run has changed counts too."""
    cluster, decoder = town(4, nodes=2)
    (one, *_) = cluster.pods_on(0)
    cluster.drop_pod(one.uid)
    supposed = decoder.pod(wire.encode(pod("supposed", uid="supposed", labels={"app": "a1"})))
    left_out = cluster.placement("p3")
    assert left_out is not None
    cluster.leave_out(left_out)
    with cluster.supposing([(supposed, 1)]):
        added = calls(monkeypatch, (PodClasses, "add"))
        assert cluster.count_pods("default").tolist() == [1, 2]
        assert not added
    cluster.put_back(left_out)
    assert cluster.count_pods("default").tolist() == [1, 2]
    assert validate(cluster) == []


CHANGES = st.lists(st.tuples(st.sampled_from(["come", "go", "relabel", "namespace"]), st.integers(0, 9)), max_size=8)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["near", "apart", "rather_apart"]), st.integers(1, 12), CHANGES)
def test_sums_follow_changes(kind: str, count: int, changes: list[tuple[str, int]]) -> None:
    """Asked again after each change, they are those of a cluster that is rebuilt from its objects."""
    cluster, decoder = town(12, nodes=4)
    cluster.assume(hostile(decoder, kind, 3), 1)
    asks = hostile(decoder, kind, count)
    look(cluster, asks)
    for one in changes:
        change(cluster, decoder, *one)
        look(cluster, asks)
        anew = rebuilt(cluster)
        look(anew, asks)
        for question, kept in cluster.affinity.sums.items():
            assert by_value(kept) == by_value(anew.affinity.sums[question])
        assert repelled(cluster, asks) == repelled(anew, asks)
        assert validate(cluster) == []


@pytest.mark.parametrize("kind", ["apart", "rather_apart"])
def test_a_pods_terms_are_hashed_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by each plugin, nor in each attempt."""
    cluster, decoder = town(10)
    asks = hostile(decoder, kind, TERMS)
    look(cluster, asks)
    hashed = calls(monkeypatch, (AffinityTerm, "__hash__"))
    look(cluster, asks)
    assert hashed.total() < 10


def change(cluster: Cluster, decoder: Decoder, what: str, which: int) -> None:
    match what:
        case "come":
            labels = {"zz": f"new{which}"}
            cluster.put_pod(decoder.pod(wire.encode(pod(f"c{which}", uid=f"c{which}", on="n2", labels=labels))))
        case "go":
            cluster.drop_pod(f"p{which}")
        case "relabel":
            cluster.put_node(decoder.node(wire.encode(node("n1", labels={HOST: f"other{which}"}))))
        case "namespace":
            cluster.put_namespace(a_namespace(decoder, wire.encode(namespace("default", owner=f"o{which}"))))


def by_value(kept: Selected) -> dict[str | None, int]:
    """Counts by the value of the label, which has another code elsewhere."""
    if kept.column is None:
        return {}
    counts = zip(kept.column.values, kept.by_code().tolist(), strict=False)
    return {value: number for value, number in counts if number}


def test_keys_of_terms_are_spelled_alike() -> None:
    """The builders' `host` is the label that is asked about here."""
    assert label("host") == HOST
