"""Room that is kept for trees of pod groups that wait behind smaller pods."""

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.stimuli import Follows
from scheduler.model.pod_group import COMPOSITE, NATIVE
from scheduler.state.validate import validate
from tests.builders import Object, configuration

from .conftest import Harness, node
from .test_gangs_of_gangs import bound, composite, conditions, group, profile
from .test_gangs_of_gangs_preempting import failures
from .test_gangs_preempting import member
from .test_gangs_reserving import EPOCH, SOON, events, running, small

KEPT = "room is kept for it on 2 nodes until 2026-01-01T00:26:40Z, it should have it all by 2026-01-01T00:20:00Z"


@pytest.fixture(params=["whole", "sliced"])
def busy(request: pytest.FixtureRequest) -> Harness:
    """Three nodes of four cores. On n0 a pod ends at 1100, on n1 one ends at 1200, on n2 one never does."""
    budget = Budget(slice=50, longest_slice=50) if request.param == "sliced" else None
    harness = Harness(configuration(profile(reservation=SOON)), budget=budget)
    harness.engine.epoch = EPOCH
    harness.handle(Follows(NATIVE, True))
    harness.handle(Follows(COMPOSITE, True))
    harness.put(*(node(f"n{i}") for i in range(3)))
    harness.put(running("a", "n0", lasts=100), running("b", "n1", lasts=200))
    harness.put(running("c", "n2", restartPolicy="Always"))
    return harness


def job(needed: int = 2) -> list[Object]:
    """A tree of two groups with a pod each, which takes a whole node."""
    leaves = [group(name, 1, "job") for name in "ab"]
    return [composite("job", needed), *leaves, *(member(name, 0, cpu="4") for name in "ab")]


def test_room_is_kept_where_the_tree_would_start_first(busy: Harness) -> None:
    busy.put(*job())
    said = busy.cycles()
    assert {name: message.endswith(f", {KEPT}") for name, (_, _, message) in conditions(said).items()} == {
        "a": True,
        "b": True,
    }
    assert events(said) == [("RoomKept", KEPT)]
    busy.put(small("short", "3", lasts=200), small("long", "3", lasts=201))
    busy.put(small("filler", "3"))
    said = busy.cycles()
    found = bound(said)
    assert set(found) == {"short", "filler"} or set(found) == {"short", "long"}
    assert all(node == "n2" for name, node in found.items() if name != "short"), "nothing is kept there"
    (message,) = failures(said).values()
    away = "2 node(s) whose room is kept for compositepodgroup default/job until 2026-01-01T00:26:40Z"
    assert message.startswith(f"0/3 nodes are available: 1 Insufficient cpu, {away}. preemption: ")


def test_the_tree_starts_as_soon_as_its_room_is_free(busy: Harness) -> None:
    busy.put(*job())
    busy.cycles()
    busy.put(*(small(f"s{i}", "3") for i in range(4)))
    assert set(busy.binds().values()) == {"n2"}
    for now, name in ((1100.0, "a"), (1200.0, "b")):
        busy.now = now
        busy.gone("Pod", name)
        found = bound([*busy.tick(0.0), *busy.cycles()])
    assert found == {"a-0": "n0", "b-0": "n1"} or found == {"a-0": "n1", "b-0": "n0"}
    assert not busy.engine.cluster.kept_room
    assert validate(busy.engine.cluster) == []


def test_room_is_kept_for_the_groups_that_fit_only(busy: Harness) -> None:
    """One is enough, and the other one never fits."""
    busy.put(composite("job", 1), group("a", 2, "job"), group("b", 1, "job"))
    busy.put(member("a", 0, cpu="4"), member("a", 1, cpu="8"), member("b", 0, cpu="4"))
    busy.cycles()
    (room,) = busy.engine.cluster.kept_room.by_profile.values()
    assert room.names == ["n0"]
    assert room.planned == {"a-0": "", "a-1": "", "b-0": "n0"}


def test_no_room_is_kept_for_a_tree_that_would_not_fit_even_then(busy: Harness) -> None:
    busy.put(composite("job", 2), group("a", 1, "job"), group("b", 3, "job"))
    busy.put(member("a", 0, cpu="4"), *(member("b", i, cpu="4") for i in range(3)))
    said = busy.cycles()
    assert conditions(said)["a"][2].endswith(
        "no room is kept for it: there is too little room even if all pods end that may"
    )
    assert not busy.engine.cluster.kept_room
