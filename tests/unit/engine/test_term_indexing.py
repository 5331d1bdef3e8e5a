"""Affinity terms of placed pods: when they count, and who pays for it."""

from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Bind, Verified
from scheduler.engine.term_indexing import AT_ONCE
from scheduler.engine.timeline import Told
from scheduler.state.selector_index import TermIndex
from scheduler.state.validate import validate
from tests.builders import node, pod, term

from .conftest import NO_LIMITS, Harness

NODES = 4


class Indexed:
    """How many terms are put into the index of placed pods' terms."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        before = TermIndex.add

        def counting(index: TermIndex, *args: Any) -> int:
            self.number += index is harness.engine.cluster.incidence.terms.sets.index
            return before(index, *args)

        monkeypatch.setattr(TermIndex, "add", counting)

    def taken(self) -> int:
        """Since this was last asked."""
        number, self.number = self.number, 0
        return number


def opened(**more: Any) -> Harness:
    harness = Harness(limits=NO_LIMITS, **more)
    for i in range(NODES):
        harness.put(node(f"n{i}", cpu="400", pods="1000", labels={"host": f"n{i}"}))
    return harness


def repelling(name: str, count: int, salt: str, namespace: str = "mallory", on: str = "") -> dict[str, Any]:
    """A pod with so many terms of anti-affinity, each for the pods of all namespaces with one label."""
    terms = [term(f"{salt}-{i}", "host", namespaces_with="") for i in range(count)]
    return pod(name, uid=name, namespace=namespace, on=on, apart=terms)


def first_bind(harness: Harness, most: int = 200) -> tuple[str, int]:
    """The node of the next pod that is bound, and how many turns that took."""
    for i in range(most):
        for one in harness.cycle():
            if isinstance(one, Bind):
                return one.node, i + 1
    raise AssertionError(f"nobody is bound after {most} turns")


def test_what_was_there_at_the_start_counts_from_the_first_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it is: no pod is decided before all of it is indexed, in turns of a slice each."""
    harness = opened()
    for i in range(NODES - 1):
        harness.put(repelling(f"p{i}", 1_500, f"x{i}", on=f"n{i}"))
        harness.put(repelling(f"own{i}", 1, "app=", on=f"n{i}"))
    for i in range(NODES - 1):
        harness.put(pod(f"r{i}", uid=f"r{i}", on=f"n{i}", apart=[term("app=q", "host")]))
    indexed = Indexed(harness, monkeypatch)
    harness.put(pod("q", uid="q", labels={"app": "q"}))
    turns = []
    while not any(isinstance(one, Bind) and one.node == f"n{NODES - 1}" for one in harness.cycle()):
        turns.append(indexed.taken())
    assert sum(turns) + indexed.taken() >= 1_500 * (NODES - 1)
    assert max(turns) <= Budget().slice
    assert not harness.engine.cluster.incidence.terms.sets.behind


def test_what_was_there_at_the_start_is_indexed_before_the_first_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """While caches fill, between lists: the first decision of a process finds the index made."""
    harness = opened()
    for i in range(NODES - 1):
        harness.put(pod(f"r{i}", uid=f"r{i}", on=f"n{i}", apart=[term("app=q", "host")]))
    while harness.engine.queue.has_pending_work:
        harness.tick(0.0)
    indexed = Indexed(harness, monkeypatch)
    harness.put(pod("q", uid="q", labels={"app": "q"}))
    assert first_bind(harness, most=1) == (f"n{NODES - 1}", 1)
    assert indexed.taken() == 0
    assert told(harness, "q") == []


def test_terms_of_a_pod_that_is_placed_count_at_once_and_at_its_own_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 of them take more than a slice; the next pod finds them all, and indexes none."""
    harness = opened()
    harness.put(pod("first", uid="first"))
    harness.cycles()
    worst = repelling("worst", 2_000, "zz")
    worst["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].append(
        term("app=q", "host", namespaces_with="")
    )
    harness.put(worst)
    indexed = Indexed(harness, monkeypatch)
    where, turns = first_bind(harness)
    assert turns > 2
    assert indexed.taken() == 2_001
    taken = set()
    for i in range(NODES):
        harness.put(pod(f"q{i}", uid=f"q{i}", labels={"app": "q"}))
        taken.add(first_bind(harness)[0])
    assert where not in taken
    assert indexed.taken() == 0
    assert validate(harness.engine.cluster) == []


def test_ordinary_terms_that_others_placed_count_at_the_next_decision() -> None:
    """Another scheduler has placed a pod that keeps others away: nobody goes there from then on."""
    harness = opened()
    harness.put(pod("first", uid="first"))
    harness.cycles()
    for i in range(NODES - 1):
        harness.put(pod(f"r{i}", uid=f"r{i}", on=f"n{i}", apart=[term("app=q", "host")]))
    harness.put(pod("q", uid="q", labels={"app": "q"}))
    assert first_bind(harness) == (f"n{NODES - 1}", 1)


def test_thousands_of_terms_that_others_placed_are_their_namespaces_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of others are decided meanwhile, each with few of them; a second namespace's term does not wait behind."""
    harness = opened()
    harness.put(pod("first", uid="first"))
    harness.cycles()
    for i in range(20):
        harness.put(repelling(f"p{i}", 300, f"x{i}", on="n0"))
    for i in range(NODES - 1):
        harness.put(pod(f"r{i}", uid=f"r{i}", on=f"n{i}", namespace="team", apart=[term("app=q", "host")]))
    indexed = Indexed(harness, monkeypatch)
    harness.put(pod("o", uid="o", namespace="team", labels={"app": "q"}))
    turns = 0
    where = None
    while where is None:
        turns += 1
        where = next((one.node for one in harness.cycle() if isinstance(one, Bind)), None)
        assert indexed.taken() * 5 <= 2 * AT_ONCE
    assert where == f"n{NODES - 1}"
    assert turns <= 3
    assert harness.engine.cluster.incidence.terms.sets.behind
    harness.cycles()
    assert harness.engine.queue.turns.in_debt("mallory", harness.now)
    assert not harness.engine.queue.turns.in_debt("team", harness.now)
    assert not harness.engine.cluster.incidence.terms.sets.behind


def test_who_does_not_decide_goes_on_all_the_same() -> None:
    """A replica in waiting has no cycles: its ticks index what came, and take out what went."""
    harness = opened()
    for i in range(40):
        harness.put(repelling(f"p{i}", 200, f"x{i}", on="n0"))
    while harness.engine.queue.has_pending_work:
        harness.tick(0.0)
    for i in range(40):
        harness.gone("Pod", f"p{i}", "mallory")
    while harness.engine.queue.has_pending_work:
        harness.tick(0.0)
    sets = harness.engine.cluster.incidence.terms.sets
    assert len(sets.terms()) < 40 * 200
    assert validate(harness.engine.cluster) == []


def test_a_decision_is_not_verified_while_terms_wait() -> None:
    """A cluster made anew knows all terms: what differs would be no fault."""
    harness = opened(verify=1)
    harness.put(pod("first", uid="first"))
    harness.cycles()
    for i in range(NODES - 1):
        for k in range(4):
            harness.put(repelling(f"p{i}-{k}", 2_000, f"x{i}-{k}", on=f"n{i}"))
        harness.put(repelling(f"late{i}", 1, "app=", on=f"n{i}"))
    told = []
    for i in range(10):
        harness.put(pod(f"q{i}", uid=f"q{i}", namespace="team", labels={"app": "q"}))
        told += [one for one in harness.cycle() if isinstance(one, Verified)]
        assert not (told and harness.engine.cluster.incidence.terms.sets.behind)
    assert harness.engine.cluster.incidence.terms.sets.behind
    told = [one for one in harness.cycles() if isinstance(one, Verified)]
    harness.put(pod("last", uid="last", namespace="team", labels={"app": "q"}))
    told += [one for one in harness.cycles() if isinstance(one, Verified)]
    assert all(one.difference is None for one in told)


def told(harness: Harness, uid: str) -> list[Told]:
    """What the story of a pod says of terms that were indexed while it was active."""
    story = harness.engine.story(uid)
    assert story is not None
    return [entry for entry in story.entries if entry.kind == "termsIndexed"]


def test_a_story_says_what_a_pod_waited_for_at_the_start() -> None:
    """Each cycle of the start takes a tenth of a second here, and the pod is there from the first one on."""
    harness = opened()
    for i in range(NODES - 1):
        harness.put(repelling(f"p{i}", 1_500, f"x{i}", on=f"n{i}"))
        harness.put(repelling(f"own{i}", 10, f"y{i}", namespace="team", on=f"n{i}"))
    harness.put(pod("q", uid="q"))
    turns = 0
    while not any(isinstance(one, Bind) for one in harness.cycle()):
        harness.now += 0.1
        turns += 1
    assert turns > 1
    (one,) = told(harness, "q")
    entry = one.details
    assert entry["turns"] in (turns, turns + 1), "the last one may end in the cycle that decides"
    assert entry["seconds"] == pytest.approx(0.1 * turns)
    assert entry["terms"] == (1_500 + 10) * (NODES - 1)
    assert entry["steps"] >= entry["terms"]
    assert set(entry["broughtBy"]) == {"mallory", "team"}
    assert f"waited {0.1 * turns:.3f} s while 4,530 affinity terms of placed pods were indexed in" in one.text


def test_a_story_says_what_a_pod_waited_for_later() -> None:
    """Turns are taken between attempts: a pod's story has those from when it was active until it was tried."""
    harness = opened()
    harness.put(pod("first", uid="first"))
    harness.cycles()
    for i in range(40):
        harness.put(repelling(f"p{i}", 300, f"x{i}", on="n0"))
    harness.put(*(pod(f"q{i}", uid=f"q{i}", namespace="team") for i in range(100)))
    waited, turns = {"first": 0}, 0
    while len(waited) <= 100:
        bound = [one.pod.uid for one in harness.cycle() if isinstance(one, Bind)]
        waited |= dict.fromkeys(bound, turns)
        turns += not bound
        harness.now += 0.0 if bound else 0.1
    assert len(set(waited.values())) > 2
    for uid, taken in waited.items():
        entries = [entry.details for entry in told(harness, uid)]
        assert [(entry["turns"], entry["broughtBy"]) for entry in entries] == [(taken, ("mallory",))] * bool(taken)
        assert [entry["seconds"] for entry in entries] == pytest.approx([0.1 * taken] * bool(taken))
        assert all(entry["steps"] >= entry["terms"] > 0 for entry in entries)
