"""What one tenant's promises may cost the evictor in one turn, and that others' are seen to meanwhile."""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.evictor import evictor, gates, notices, observed
from podberth.evictor.followed import breach
from podberth.evictor.messages import Read, RecordPodEvent
from podberth.model.promise import NodeRequirement
from podberth.model.selectors import Requirement
from tests.builders import Object
from tests.unit.evictor.conftest import DISKS, GRACE, Harness, disk, keeping


def absurd(number: int, terms: int = 60) -> str:
    """A promise unlike all others, of many terms that read the label `disk`."""
    found = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [f"ssd-{number}-{i}", "ssd"]}]}
        for i in range(terms)
    ]
    return json.dumps({"nodeSelectorTerms": found})


def of(namespace: str, pod: Object) -> Object:
    """The same pod in another namespace."""
    pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}/{pod['metadata']['name']}"}
    return pod


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each requirement that was put to a node."""
    sizes: list[int] = []
    real = NodeRequirement.holds

    def counted(wanted: NodeRequirement, name: str, labels: Mapping[str, str]) -> bool:
        sizes.append(observed.size(wanted))
        return real(wanted, name, labels)

    monkeypatch.setattr(NodeRequirement, "holds", counted)
    return sizes


def crowded(pods: int) -> Harness:
    """A node full of absurd promises, and one ordinary pod of another tenant that came last."""
    harness = Harness()
    harness.put(disk("a", cpu="900", pods="2000"), disk("b"))
    for i in range(pods):
        harness.put(of("noisy", keeping(f"noisy-{i}", "a", absurd(i), cpu="1m")))
    harness.put(of("quiet", keeping("quiet", "a", DISKS, cpu="1m")))
    while harness.evictor.observed.has_news:
        harness.look()
    return harness


def test_a_look_asks_so_much_and_no_more(asked: list[int]) -> None:
    """A node's label changes under three hundred absurd promises: each look asks a part."""
    harness = crowded(300)
    harness.put(disk("a", "hdd", cpu="900", pods="2000"))
    looks = 0
    while harness.evictor.observed.has_news:
        asked.clear()
        harness.look()
        looks += 1
        assert sum(asked) <= observed.QUESTIONS + 200
    assert looks > 1
    assert len(harness.evictor.broken) == 301
    assert {broken.before["disk"] for broken in harness.evictor.broken.values() if broken.before} == {"ssd"}


def test_a_look_without_anything_due_asks_no_node(asked: list[int]) -> None:
    """Most looks are such: the evictor looks after each batch of changes, of whatever they are."""
    harness = crowded(3)
    asked.clear()
    harness.look()
    harness.put(disk("b", "hdd"))
    harness.look()
    assert not asked
    harness.put(disk("a", "hdd", cpu="900", pods="2000"))
    harness.look()
    assert len(asked) == 4


def test_the_one_that_waits_longest_has_its_turn(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a node changes, and however costly the promises of others are, each is asked in its turn."""
    harness = crowded(3)
    monkeypatch.setattr(observed, "QUESTIONS", 30)
    asked.clear()
    kind = "hdd"
    for _ in range(12):
        harness.put(disk("a", kind, cpu="900", pods="2000"))
        harness.look()
        kind = "ssd" if kind == "hdd" else "hdd"
    assert sum(size > 100 for size in asked) >= 3 * 3
    assert sum(size < 10 for size in asked) >= 3


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b"]), st.integers(1, 4)), max_size=8),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["ssd", "hdd"])), max_size=8),
    st.integers(1, 60),
)
def test_parts_come_to_the_whole(pods: list[tuple[int, str, int]], changes: list[tuple[str, str]], most: int) -> None:
    """Looks that may cost next to nothing find in the end what one that may cost anything finds at once."""
    found = []
    for limit in (most, 10**9):
        harness = Harness()
        with patch.object(observed, "QUESTIONS", limit):
            harness.put(disk("a"), disk("b"))
            for i, (kind, node, terms) in enumerate(pods):
                harness.put(keeping(f"p{i}", node, absurd(kind, terms), cpu="1m"))
            for node, label in changes:
                harness.put(disk(node, label))
                harness.look()
            while harness.evictor.observed.has_news:
                harness.look()
        found.append({uid: broken.reason for uid, broken in harness.evictor.broken.items()}.keys())
    assert found[0] == found[1]


def test_proofs_of_a_turn_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """For few pods another node is looked for in one turn, and each namespace has its part of them."""
    tried: list[str] = []
    real = evictor.find_target

    def counted(pod: Any, *more: Any) -> Any:
        tried.append(pod.namespace)
        return real(pod, *more)

    monkeypatch.setattr(evictor, "find_target", counted)
    harness = Harness(node_burst=1000, namespace_burst=1000, cluster_burst=1000)
    harness.put(disk("a", cpu="900", pods="2000"))
    for i in range(200):
        harness.put(of("noisy", keeping(f"noisy-{i}", "a", DISKS, cpu="1m")))
    harness.put(of("quiet", keeping("quiet", "a", DISKS, cpu="1m")))
    harness.look()
    harness.put(disk("a", "hdd", cpu="900", pods="2000"))
    harness.look()
    harness.now += GRACE
    harness.look()
    assert len(tried) == evictor.PROOFS
    assert "quiet" in tried
    for _ in range(30):
        tried.clear()
        harness.after(1.0)
        assert len(tried) <= evictor.PROOFS


def test_a_pod_that_asks_too_much_is_followed_by_nobody() -> None:
    """A selector of thousands of terms costs nothing at any look; its author is told once."""
    terms = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]} for _ in range(2000)]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    harness = Harness()
    harness.put(disk("a"))
    pod = keeping("absurd", "a", "true", cpu="1m")
    pod["spec"]["affinity"] = affinity
    for version in ("1", "2"):
        harness.put({**pod, "metadata": {**pod["metadata"], "resourceVersion": version}})
        harness.look()
    assert not harness.evictor.observed.followed
    (note,) = harness.notes("InvalidPromise")
    assert "2,000 node affinity terms, at most 128: the evictor does not follow it" in note


def test_a_breach_is_told_in_few_words() -> None:
    """A pod may ask for thousands of values of thousands of labels; an Event names some."""
    wanted = NodeRequirement(
        tuple(Requirement(f"k{i}", "In", frozenset(f"value-{j}" for j in range(500))) for i in range(500)), None
    )
    told = breach(wanted, "a", {})
    assert len(told) < 2500
    assert told.endswith("and 495 more")


def test_pods_do_not_open_the_breaker() -> None:
    """Edits of pods on every node leave the breaker alone; nodes that change still open it."""
    harness = Harness(changed_share=0.2)
    nodes = [f"n{i}" for i in range(10)]
    harness.put(*(disk(name) for name in nodes))
    for name in nodes:
        harness.put(of("noisy", keeping(f"noisy-{name}", name)))
        harness.put(of("quiet", keeping(f"quiet-{name}", name)))
    harness.look()
    impossible = DISKS.replace("ssd", "none")
    for name in nodes:
        harness.put(of("noisy", keeping(f"noisy-{name}", name, impossible, meta={"resourceVersion": "2"})))
        harness.put(of("noisy", keeping(f"late-{name}", name, impossible)))
    harness.look()
    assert len(harness.evictor.broken) == 20
    assert not harness.evictor.breaker.open
    harness.put(*(disk(name, "hdd") for name in nodes[:3]))
    harness.look()
    assert harness.evictor.breaker.open


def test_due_promises_are_seen_to_in_parts() -> None:
    """Of thousands that are due at one moment, each look sees to some, and the next comes at once."""
    harness = Harness(node_rate=0.001)
    harness.put(disk("a", cpu="900", pods="5000"))
    for i in range(evictor.MOST_DUE + 500):
        harness.put(keeping(f"p{i}", "a", DISKS, cpu="1m"))
    harness.look()
    harness.put(disk("a", "hdd", cpu="900", pods="5000"))
    harness.look()
    harness.now += GRACE
    harness.deaf = True
    harness.look()
    assert harness.evictor.waiting()["grace"] == 500
    assert (harness.evictor.next_look(harness.now) or 0.0) <= harness.now
    harness.look()
    assert harness.evictor.waiting()["grace"] == 0


def test_what_the_breaker_holds_is_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of nodes at once: so many are read and so many pods told of in a second, each namespace in its turn."""
    popped: list[Any] = []

    def pop(heap: list[Any]) -> Any:
        popped.append(heapq.heappop(heap))
        return popped[-1]

    monkeypatch.setattr(evictor, "heapq", SimpleNamespace(heappush=heapq.heappush, heappop=pop))
    harness = Harness(changed_share=0.1)
    nodes = [f"n{i:03}" for i in range(200)]
    harness.put(*(disk(name) for name in nodes))
    for name in nodes:
        for i in range(3):
            harness.put(of("noisy", keeping(f"noisy-{name}-{i}", name, cpu="1m")))
    harness.put(of("quiet", keeping("quiet", nodes[5], cpu="1m")))
    harness.look()
    harness.put(*(disk(name, "hdd") for name in nodes))
    harness.look()
    harness.now += GRACE
    began, reads, told = harness.now, 0, []
    while (at := harness.evictor.next_look(harness.now)) is not None and harness.now < began + 120:
        harness.now = max(at, harness.now + 0.05)
        said = len(harness.said)
        harness.look()
        reads += sum(isinstance(one, Read) for one in harness.said[said:])
        told += [one.pod.name for one in harness.said[said:] if isinstance(one, RecordPodEvent)]
        passed = harness.now - began
        assert reads <= 20 + 5 * passed + 1
        assert len(told) <= notices.BURST + notices.RATE * passed + 1
        if len(told) >= notices.BURST:
            assert "quiet" in told
    assert sorted(told) == sorted(["quiet", *(f"noisy-{name}-{i}" for name in nodes for i in range(3))])
    assert reads == len(nodes)
    assert len(popped) <= 5 * len(told)


def test_appointments_forget_who_did_not_come() -> None:
    """Whoever has an appointment keeps it; those that were missed take no room for ever, and cost no look at all."""
    appointments = gates.Appointments(5.0, 20)
    assert [appointments.wait(f"n{i}", 0.0) for i in range(20)] == [0.0] * 20
    waits = [appointments.wait(f"late-{i}", 0.0) for i in range(5000)]
    assert waits[:2] == pytest.approx([0.2, 0.4]) and waits == sorted(waits)
    assert appointments.wait("late-9", 1.0) == pytest.approx(1.0)
    assert appointments.wait("late-9", 2.0) == 0.0
    assert appointments.wait("late-9", 2.0) == pytest.approx(998.2)
