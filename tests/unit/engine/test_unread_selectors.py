"""Long selectors of Services, sets and budgets: read in turns, at the charge of their namespace, before they count."""

from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.stimuli import Put
from scheduler.model.namespaced import SelectingObject, UnreadSelector
from scheduler.model.selectors import LabelSelector
from scheduler.model.wire import encode
from tests.builders import node, pod
from tests.unit.work import calls, lines

from .conftest import Harness

MANY = 4_000


def _selecting(kind: str, more: dict[str, str], **status: Any) -> dict[str, Any]:
    """One that selects by thousands of labels of the tenant's."""
    labels = {f"k{i}": "v" for i in range(MANY)} | more
    selector: Any = labels if kind == "Service" else {"matchLabels": labels}
    metadata = {"name": "long", "namespace": "mallory", "uid": f"long-{kind}"}
    return {"kind": kind, "metadata": metadata, "spec": {"selector": selector}, "status": status}


class Town(Harness):
    """An engine that has decided about a pod, so that nothing is of the start."""

    def __init__(self) -> None:
        super().__init__()
        self.put(node("n1"), pod("first", uid="first"))
        assert self.binds()

    def known(self, kind: str) -> SelectingObject | None:
        """What counts now."""
        return self.engine.cluster.selecting.get(kind, {}).get("mallory", {}).get("long")

    def written(self, document: dict[str, Any]) -> SelectingObject:
        """A change of it, as the watch brings it."""
        found = self.decoder.of_kind(document["kind"])(encode(document))
        assert isinstance(found, SelectingObject)
        self.handle(Put(found))
        return found

    def turns_until_read(self, most: int = 1_000) -> int:
        """Turns until nothing is left to be read."""
        for turn in range(most):
            if not self.engine.queue.term_indexing.unread:
                return turn
            self.cycle()
        raise AssertionError(f"something is unread after {most} turns")


@pytest.fixture
def town() -> Town:
    return Town()


def test_decoding_does_nothing_for_each_label(town: Town) -> None:
    """What others write comes behind it on the watch. It was 12 ms for as much as is decoded on the loop."""
    for kind in ("PodDisruptionBudget", "ReplicaSet", "Service"):
        raw = encode(_selecting(kind, {}))
        taken, found = lines(lambda raw=raw, kind=kind: town.decoder.of_kind(kind)(raw))  # type: ignore[misc]
        assert isinstance(found, SelectingObject)
        assert taken < 100
        assert len(found.selector.requirements) == MANY


@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "ReplicaSet", "Service"])
def test_it_counts_once_it_is_read_and_no_turn_is_long(town: Town, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []
    before = UnreadSelector.read

    def counting(one: UnreadSelector, of: str, charge: Any) -> LabelSelector:
        spent.append(0)

        def charged(steps: int) -> None:
            spent[-1] += steps
            charge(steps)

        return before(one, of, charged)

    monkeypatch.setattr(UnreadSelector, "read", counting)
    town.written(_selecting(kind, {}))
    assert town.known(kind) is None
    assert town.turns_until_read() > 2
    assert max(spent) <= Budget().slice
    found = town.known(kind)
    assert found is not None
    assert found.complete
    assert len(found.selector.requirements) == MANY
    turns = town.engine.queue.turns
    assert turns.debt("mallory", town.now) > MANY
    assert turns.debt("default", town.now) == 0


def test_what_is_written_again_and_again_is_read_once(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = calls(monkeypatch, (LabelSelector, "working_out"))
    for turn in range(50):
        town.written(_selecting("PodDisruptionBudget", {"turn": f"{turn}"}))
    town.turns_until_read()
    found = town.known("PodDisruptionBudget")
    assert found is not None
    assert found.selector.requirements[-1].values == {"49"}
    assert counted["working_out"] == 1


def test_until_then_the_version_before_it_counts(town: Town) -> None:
    first = town.written(_selecting("PodDisruptionBudget", {}))
    town.turns_until_read()
    town.written(_selecting("PodDisruptionBudget", {"more": "v"}))
    assert town.known("PodDisruptionBudget") is first


def test_what_is_said_of_a_budget_counts_at_once(town: Town) -> None:
    """Its status changes with each eviction; its selector is as it was, read or not."""
    town.written(_selecting("PodDisruptionBudget", {}, disruptionsAllowed=1))
    town.cycle()
    latest = town.written(_selecting("PodDisruptionBudget", {}, disruptionsAllowed=2))
    town.turns_until_read()
    assert town.known("PodDisruptionBudget") is latest
    town.written(_selecting("PodDisruptionBudget", {}, disruptionsAllowed=3))
    found = town.known("PodDisruptionBudget")
    assert found is not None
    assert found.allowed == 3
    assert found.complete


def test_one_that_goes_or_gets_short_meanwhile_never_counts(town: Town) -> None:
    town.written(_selecting("Service", {}))
    town.gone("Service", "long", "mallory")
    assert town.turns_until_read() == 0
    assert town.known("Service") is None
    town.written(_selecting("Service", {}))
    short = _selecting("Service", {})
    short["spec"]["selector"] = {"app": "a"}
    written = town.written(short)
    assert town.turns_until_read() == 0
    assert town.known("Service") is written


def test_what_was_there_at_the_start_counts_from_the_first_decision() -> None:
    """Nobody is charged for it."""
    town = Harness()
    document = _selecting("Service", {})
    town.put(node("n1"), pod("first", uid="first"))
    town.handle(Put(town.decoder.of_kind("Service")(encode(document))))
    assert town.binds()
    assert town.engine.cluster.selecting["Service"]["mallory"]["long"].complete
    assert town.engine.queue.turns.debt("mallory", town.now) == 0


def test_one_that_can_not_be_honoured_says_why(town: Town) -> None:
    """It selects nothing, as a short one would."""
    document = _selecting("ReplicaSet", {"not a key": "v"})
    found = town.written(document)
    town.turns_until_read()
    assert found.selector.nothing
    assert found.problem is not None
    assert "not a key" in found.problem
