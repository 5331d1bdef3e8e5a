"""Large pods that others placed: read in turns, at the charge of their namespace, and counted once they are read."""

from itertools import pairwise
from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Bind
from scheduler.engine.stimuli import Put
from scheduler.model.shape import PodShape
from scheduler.model.wire import encode
from tests.builders import node, pod

from .conftest import Harness

MANY = 2_000


def _large(name: str, on: str = "n1", namespace: str = "mallory", **parts: Any) -> dict[str, Any]:
    """A pod with so many containers, each of which asks for a thousandth of a core."""
    made = pod(name, uid=name, namespace=namespace, on=on, **parts)
    asks = {"requests": {"cpu": "1m"}}
    made["spec"]["containers"] = [{"name": f"c{i}", "image": f"{name}:{i}", "resources": asks} for i in range(MANY)]
    return made


class Town(Harness):
    """An engine whose large pods come unread, as from the thread beside the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.beside = self.decoder.beside(placed_too=True)
        self.put(node("n1", cpu="8", pods="100"), node("n2", cpu="8", pods="100"))

    def put_large(self, *objects: dict[str, Any]) -> None:
        for document in objects:
            self.handle(Put(self.beside.pod(encode(document))))

    def used(self, row: int = 0) -> int:
        """Milli-CPU of a node that are taken."""
        nodes = self.engine.cluster.nodes
        return int(nodes.requested[nodes.resources["cpu"], row])

    def turns_until_read(self, most: int = 1_000) -> int:
        """Turns until no pod is left to be read."""
        for turn in range(most):
            if not self.engine.queue.term_indexing.unread:
                return turn
            self.cycle()
        raise AssertionError(f"something is unread after {most} turns")


@pytest.fixture
def town() -> Town:
    made = Town()
    made.put(pod("first", "1m", uid="first"))
    assert made.binds()
    return made


def test_it_counts_once_it_is_read_and_no_turn_is_long(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many containers: a turn reads for a part of a slice, and one pod's worth is not read at once."""
    town.put_large(_large("worst"))
    assert town.engine.cluster.placement("worst") is None
    parts: list[int] = []
    before = PodShape.read

    def counting(shape: PodShape, charge: Any) -> None:
        spent = 0

        def charged(steps: int) -> None:
            nonlocal spent
            spent += steps
            charge(steps)

        try:
            before(shape, charged)
        finally:
            parts.append(spent)

    monkeypatch.setattr(PodShape, "read", counting)
    before_used = town.used()
    assert town.turns_until_read() > 10
    assert max(parts) <= Budget().slice
    assert sum(parts) > 10 * MANY
    assert town.engine.cluster.placement("worst") is not None
    assert town.used() == before_used + MANY


def test_others_are_decided_in_between_and_do_not_pay(town: Town) -> None:
    """A tenant's ten large pods: another's pod is bound within a few turns, and that tenant is charged."""
    town.put_large(*(_large(f"worst-{i}") for i in range(10)))
    town.put(pod("other", "1m", uid="other"))
    turns = 0
    while not any(isinstance(one, Bind) for one in town.cycle()):
        turns += 1
        assert turns < 5
    town.turns_until_read(5_000)
    turns_taken = town.engine.queue.turns
    assert turns_taken.debt("mallory", town.now) > 10 * MANY
    assert turns_taken.debt("default", town.now) == 0


def test_what_they_share_is_counted_for_each(town: Town) -> None:
    """Pods with the same thousands of claims are read once; each of them is still counted in a turn of its own."""
    claims = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(MANY)]
    made = [pod(f"worst-{i}", uid=f"worst-{i}", namespace="mallory", on="n1") for i in range(5)]
    for one in made:
        one["spec"]["volumes"] = claims
    town.put_large(*made)
    unread = town.engine.queue.term_indexing.unread
    left = [len(unread)]
    while unread:
        town.cycle()
        left.append(len(unread))
    assert max(before - after for before, after in pairwise(left)) == 1
    assert town.engine.queue.turns.debt("mallory", town.now) > 5 * MANY


def test_namespaces_take_turns(town: Town) -> None:
    """The only large pod of a namespace does not wait for all of another's."""
    town.put_large(*(_large(f"worst-{i}") for i in range(10)), _large("one", namespace="tenant"))
    while town.engine.cluster.placement("one") is None:
        town.cycle()
    assert len(town.engine.queue.term_indexing.unread) >= 8


def test_what_was_there_at_the_start_counts_from_the_first_decision() -> None:
    """No pod is decided before the pods that the first lists brought are read; nobody is charged for that."""
    town = Town()
    town.put_large(_large("there", on="n1"))
    town.put(pod("q", "7500m", uid="q"))
    assert town.binds() == {"q": "n2"}
    assert town.used() == MANY
    assert town.engine.queue.turns.debt("mallory", town.now) == 0


def test_one_that_goes_meanwhile_never_counts(town: Town) -> None:
    """Deleted, or finished: nothing of it is left."""
    used = town.used()
    town.put_large(_large("a"), _large("b"))
    town.cycle()
    town.lose("Pod", "mallory", "a", "a")
    town.put_large(_large("b") | {"status": {"phase": "Succeeded"}})
    assert town.turns_until_read() == 0
    assert (town.used(), town.engine.cluster.placement("a")) == (used, None)


def test_a_waiting_pod_that_somebody_places_is_not_tried_any_more(town: Town) -> None:
    """Also while it is not read: to bind it would be refused."""
    town.put_large(_large("p", on=""))
    assert "p" in town.engine.queue
    town.put_large(_large("p"))
    assert "p" not in town.engine.queue
    assert town.binds() == {}
    town.turns_until_read()
    assert town.engine.cluster.placement("p") is not None


def test_a_node_is_kept_for_one_once_it_is_read(town: Town) -> None:
    """By who may write pods/status: a large waiting pod that names a node as its own."""
    named = _large("p", on="", priority=10)
    named["status"] = {"nominatedNodeName": "n1"}
    town.put_large(named)
    assert town.engine.cluster.nominations.node_of("p") is None
    town.turns_until_read()
    assert town.engine.cluster.nominations.node_of("p") == "n1"
    assert "p" in town.engine.queue
