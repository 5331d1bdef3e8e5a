"""While pods of other namespaces come, costly work rests after each of its turns."""

from scheduler.engine.instructions import Bind, Failed
from scheduler.engine.stimuli import Follows
from scheduler.engine.turns import LATELY, LONGEST_REST, REST
from scheduler.model.pod_group import NATIVE

from .conftest import Harness, node
from .test_costly_pods import SLICE, of, opened
from .test_gangs import group, member, members

TOOK = 0.004


def begun(first: str = "b") -> Harness:
    """A pod of namespace `first`, then the first slice of a costly one of namespace `a`, which took 4 ms."""
    harness = opened()
    harness.put(of(first, "first"))
    assert [one.pod.name for one in harness.cycle() if isinstance(one, Bind)] == ["first"]
    harness.put(of("a", "big", 20 * SLICE))
    assert harness.cycle() == []
    assert harness.engine.attempts.slices == 1
    harness.engine.queue.turns.rest(TOOK, harness.now)
    return harness


def test_it_rests_while_others_come() -> None:
    """No cycle and no tick goes on with it; the shell is told when it goes on."""
    harness = begun()
    engine = harness.engine
    assert engine.rests(harness.now)
    assert engine.next_tick() == harness.now + REST * TOOK
    for _ in range(5):
        assert harness.cycle() == []
    harness.after(REST * TOOK / 2)
    assert engine.attempts.slices == 1
    harness.after(REST * TOOK / 2)
    assert not engine.rests(harness.now)
    assert engine.next_tick() is None
    harness.cycle()
    assert engine.attempts.slices == 2


def test_others_do_not_rest() -> None:
    """A pod that comes meanwhile is decided at once."""
    harness = begun()
    harness.put(of("b", "second"))
    assert not harness.engine.rests(harness.now)
    assert [one.pod.name for one in harness.cycle() if isinstance(one, Bind)] == ["second"]
    assert harness.engine.rests(harness.now)
    assert harness.engine.attempts.slices == 1


def test_alone_it_does_not_rest() -> None:
    """Nor for pods of its own namespace, nor for those that came long ago."""
    harness = begun("a")
    assert not harness.engine.rests(harness.now)
    harness = begun()
    harness.after(LATELY)
    harness.cycle()
    harness.engine.queue.turns.rest(TOOK, harness.now)
    assert not harness.engine.rests(harness.now)


def test_a_rest_is_bounded() -> None:
    """A machine that stood still does not make it long."""
    harness = begun()
    harness.engine.queue.turns.rest(10.0, harness.now)
    assert harness.engine.next_tick() == harness.now + LONGEST_REST


def test_others_in_debt_are_nobody_to_rest_for() -> None:
    """Two costly tenants: neither has the other rest, so one of them has its turn at once."""
    harness = opened()
    harness.put(of("a", "one", 20 * SLICE), of("b", "two", 20 * SLICE))
    harness.cycle()
    harness.cycle()
    harness.after(LATELY)
    for slices in range(3, 8):
        harness.cycle()
        harness.engine.queue.turns.rest(TOOK, harness.now)
        assert not harness.engine.rests(harness.now)
        assert harness.engine.attempts.slices == slices


def test_all_of_it_comes_to_its_end() -> None:
    """Rests are between slices, and nothing else changes."""
    harness = begun()
    rested = 0
    while "big" in harness.engine.queue:
        harness.put(of("b", f"p{rested}"))
        harness.cycle()
        if harness.engine.rests(harness.now):
            rested += 1
            harness.after(REST * TOOK)
        harness.cycle()
        harness.engine.queue.turns.rest(TOOK, harness.now)
    assert harness.engine.attempts.steps >= 20 * SLICE
    assert rested >= 15


def test_telling_a_large_gang_that_it_has_no_nodes_rests() -> None:
    """Each pod that is told is written and comes back by the watch; pods of others come in between."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n", "1000"), group(min_count=1_001), *members(1_000), member("last", "1001"))
    engine, told, rested = harness.engine, 0, 0
    while engine.has_work:
        harness.put(of("b", f"p{rested}"))
        taken = engine.queue.turns.taken
        said = harness.cycle()
        told += len([one for one in said if isinstance(one, Failed)])
        if engine.queue.turns.taken != taken:
            engine.queue.turns.rest(TOOK, harness.now)
        while not engine.rests(harness.now) and engine.has_work and told < 1_001:
            taken = engine.queue.turns.taken
            told += len([one for one in harness.cycle() if isinstance(one, Failed)])
            if engine.queue.turns.taken != taken:
                engine.queue.turns.rest(TOOK, harness.now)
        if engine.rests(harness.now):
            assert engine.groups.tells
            assert engine.next_tick() == engine.queue.turns.rests_until
            rested += 1
            harness.after(REST * TOOK)
    assert told == 1_001
    assert rested >= 1_000 // 128
