"""What waiting pods with thousands of terms keep: counted in shapes whose terms stay read, and in bytes."""

import gc
import tracemalloc
from typing import Any

import pytest

from scheduler.engine import attempts
from scheduler.engine.instructions import Failed
from scheduler.engine.long_terms import LongTerms
from scheduler.model import terms, wire
from scheduler.model.affinity import AffinityTerm, parse_affinity_term
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.wire import encode
from scheduler.state import incidence
from scheduler.state.members import Members
from scheduler.state.sums import Selected
from scheduler.state.validate import validate
from tests.builders import node, pod

from .conftest import Harness

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = 300


def _asks(name: str, namespace: str = "mallory", count: int = TERMS, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    """A pod with so many anti-affinity terms, which no other pod has."""
    made = pod(name, cpu, namespace=namespace, uid=name)
    asked = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": "zz", "operator": "NotIn", "values": [f"{name}-{i}"]}]},
        }
        for i in range(count)
    ]
    made["spec"] |= {"affinity": {"podAntiAffinity": {REQUIRED: asked}}, **spec}
    return made


def _decoded(document: dict[str, Any]) -> Pod:
    return Decoder().pod(encode(document))


def _read(found: Pod) -> Pod:
    found.shape.read(lambda _: None)
    return found


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many pods' terms stay read; there is room for the text of so many."""
    weight = _decoded(_asks("a-pod")).shape.weight
    monkeypatch.setattr(attempts, "LongTerms", lambda: LongTerms(4 * weight))
    return 4


def test_waiting_pods_forget_most_terms(few: int, harness: Harness) -> None:
    """A tenant's crowd that fits nowhere: the terms of its last pods stay read, of the others the text stays."""
    harness.put(node("n1", cpu="1"))
    for i in range(12):
        harness.put(_asks(f"p{i}"))
    harness.cycles()
    complete = [queued.pod.name for queued in harness.engine.queue if queued.pod.shape.complete]
    assert 0 < len(complete) <= few


def test_what_was_forgotten_is_read_again_and_paid_for(few: int, harness: Harness) -> None:
    """The next attempt decides by the same terms, and its namespace is charged for reading them."""
    harness.put(node("n1", cpu="1"))
    for i in range(12):
        harness.put(_asks(f"p{i}"))
    harness.cycles()
    forgotten = {queued.pod.name: queued.pod for queued in harness.engine.queue if not queued.pod.shape.complete}
    assert len(forgotten) >= 12 - few
    steps = harness.engine.attempts.steps
    harness.put(node("n2", cpu="2"))
    said = [one for one in [*harness.tick(20.0), *harness.cycles()] if isinstance(one, Failed)]
    assert {one.pod.name for one in said} == forgotten.keys()
    assert harness.engine.attempts.steps - steps > len(forgotten) * TERMS
    for name, again in forgotten.items():
        assert again.shape.anti_affinity_terms == _decoded(_asks(name)).shape.anti_affinity_terms


def test_a_crowd_makes_its_own_namespace_forget(few: int) -> None:
    """The terms of another namespace's pod stay read, whoever was tried since."""
    kept = LongTerms(few * _decoded(_asks("a-pod")).shape.weight)
    other = _read(_decoded(_asks("b-pod", "tenant")))
    kept.note(other.shape)
    crowd = [_read(_decoded(_asks(f"p-{i:02}"))) for i in range(20)]
    for one in crowd:
        kept.note(one.shape)
    assert other.shape.complete
    assert [one.shape.complete for one in crowd[-2:]] == [True, True]
    assert sum(one.shape.complete for one in crowd) == few - 1
    assert len(kept) == few


def test_one_that_is_larger_than_all_there_is_room_for_stays() -> None:
    """It is needed now; the next one takes its place."""
    kept = LongTerms(1)
    first, second = (_read(_decoded(_asks(name))) for name in ("a", "b"))
    for one in (first, second):
        kept.note(one.shape)
    assert (first.shape.complete, second.shape.complete, len(kept)) == (False, True, 1)


def test_terms_that_count_for_others_are_not_forgotten(few: int, harness: Harness) -> None:
    """A pod that was placed repels as before, and goes without reading a term again."""
    harness.put(node("n1"))
    harness.put(_asks("placed", cpu="1m"))
    harness.cycles()
    placed = harness.engine.cluster.placement("placed")
    assert placed is not None
    for i in range(3 * few):
        harness.put(_asks(f"p{i}"))
    harness.cycles()
    assert placed.pod.shape.complete
    placed.pod.shape.forget()
    assert placed.pod.shape.complete
    assert validate(harness.engine.cluster) == []


def test_events_do_not_read_terms(few: int, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod whose terms are forgotten is woken instead: its attempt pays, not whoever caused the event."""
    harness.put(node("n1", cpu="1"))
    for i in range(12):
        harness.put(_asks(f"p{i}"))
    harness.cycles()
    read: list[str] = []

    def parse(term: wire.PodAffinityTerm, namespace: str, path: str) -> AffinityTerm:
        read.append(path)
        return parse_affinity_term(term, namespace, path)

    monkeypatch.setattr(terms, "parse_affinity_term", parse)
    harness.put(node("n2", cpu="2"))
    gated = _asks("gated", schedulingGates=[{"name": "example.com/never"}])
    harness.put(gated)
    harness.put(gated | {"metadata": gated["metadata"] | {"labels": {"now": "other"}}})
    assert read == []


@pytest.mark.parametrize("near", [False, True])
def test_what_can_not_help_wakes_nobody(near: bool, few: int, harness: Harness) -> None:
    """Pods come to nodes all the time. That helps who must be near others, and not who must be apart from them."""
    harness.put(node("n1", cpu="8"), pod("a", "1m", on="n1"))
    for i in range(12):
        made = _asks(f"p{i}")
        if near:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}
            made["spec"]["affinity"]["podAffinity"] = {REQUIRED: [term]}
        harness.put(made)
    harness.cycles()
    forgotten = sum(not queued.pod.shape.complete for queued in harness.engine.queue)
    assert forgotten >= 12 - few
    harness.put(pod("b", "1m", on="n1"))
    tried = [one for one in [*harness.tick(20.0), *harness.cycles()] if isinstance(one, Failed)]
    assert len(tried) == (forgotten if near else 0)


def _kept(document: dict[str, Any], *, tried: bool) -> int:
    """Bytes that a waiting pod keeps. `tried`: its terms were read, and forgotten."""
    raw = encode(document)
    gc.collect()
    tracemalloc.start()
    try:
        found = _decoded(document)
        if tried:
            _read(found).shape.forget()
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        assert found.uid
    finally:
        tracemalloc.stop()
    assert len(raw) > 90_000
    return kept


@pytest.mark.parametrize("tried", [False, True], ids=["not tried yet", "tried"])
def test_a_waiting_pod_keeps_less_than_was_written(tried: bool) -> None:
    """700 terms are 110 KB of text, and took 480 KB before the first attempt and 860 KB after it."""
    _kept(_asks("warm", count=700), tried=tried)
    assert _kept(_asks("worst", count=700), tried=tried) < 50_000


def test_sums_of_many_terms_are_bounded_by_what_their_terms_take(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums hold the terms that they are about, whoever else forgets them."""
    monkeypatch.setattr(incidence, "KEPT_BYTES", 2 << 20)
    harness.put(node("n1"), pod("there", on="n1", uid="there"))
    for i in range(12):
        harness.put(_asks(f"p{i}", cpu="1m"))
    harness.cycles()
    sums = harness.engine.cluster.incidence.sums
    assert sum(len(key[0]) for key in sums) <= (2 << 20) // 800 + 2 * TERMS
    one = next(iter(sums.values()))
    assert isinstance(one, Selected)
    assert one.size > 1_000 * TERMS
    assert Members((), None).size == 0
