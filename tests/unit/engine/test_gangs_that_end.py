"""How the attempt of a group ends: in parts, also if pods go meanwhile or a turn breaks; and how it begins again."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from podberth.engine.binding_table import State
from podberth.engine.instructions import Bind, Failed, Instruction, PatchCondition
from podberth.engine.pod_groups.gathering import AT_ONCE
from podberth.engine.stimuli import Bound, Broke, Follows, Unwritten
from podberth.model.pod_group import NATIVE

from .conftest import Harness, node, pod
from .test_gangs import bound, conditions, each_turn, failures, group, member, members, settled

MANY_PODS = {"allocatable": {"cpu": "400", "memory": "32Gi", "pods": "400"}, "capacity": {"cpu": "400"}}


@pytest.fixture
def gangs(harness: Harness) -> Harness:
    """A harness whose API server serves PodGroups."""
    harness.handle(Follows(NATIVE, True))
    return harness


def test_pods_without_a_node_are_told_in_parts(gangs: Harness) -> None:
    """Also if the group starts: of 400 pods, few fit; the others are tried once more."""
    gangs.put(node("n1", "3"), group(min_count=None), *members(400))
    told: list[int] = []
    started: list[str] = []
    said_of_group = []
    for said in each_turn(gangs):
        told.append(len(failures(said)))
        started += bound(said)
        said_of_group += conditions(said)
    assert len(started) == 3
    assert (sum(told), max(told) <= 128) == (2 * 397, True)
    assert said_of_group[0] == ("True", "Scheduled", "")
    assert len(gangs.engine.queue) == 397
    settled(gangs)


def test_a_condition_that_could_not_be_written_while_the_others_are_told(gangs: Harness) -> None:
    """It is said with the next attempt that comes to the same."""
    gangs.put(node("n1", "3"), group(min_count=300), *members(300))
    steps = each_turn(gangs)
    told: list[str] = []
    while not told:
        told = list(failures(next(steps)))
    assert gangs.engine.groups.attempt is not None, "others are still to be told"
    gangs.handle(Unwritten(told[0]))
    assert len(told) + sum(len(failures(said)) for said in steps) == 300
    gangs.tick(400.0)
    again = [one for said in each_turn(gangs) for one in said if isinstance(one, Failed)]
    assert (len(again), [one.pod.name for one in again if not one.repeated]) == (300, [told[0]])


@pytest.mark.usefixtures("pod_by_pod")
def test_a_condition_that_another_leader_has_written_over_while_the_pod_is_tried(gangs: Harness) -> None:
    """The attempt that is under way comes to what was shown before: it is written all the same."""
    gangs.put(node("n1", "1"), group(min_count=2), *members(2))
    ours = {one.pod.name: one.message for one in gangs.cycles() if isinstance(one, PatchCondition)}
    gangs.tick(400.0)
    gangs.cycle()
    assert gangs.engine.groups.attempt is not None
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "said last"}
    gangs.put(member("train-1") | {"status": {"phase": "Pending", "conditions": [condition]}})
    said = [(one.pod.name, one.message) for one in gangs.cycles() if isinstance(one, PatchCondition)]
    assert said == [("train-1", ours["train-1"])]


def test_pods_go_while_the_others_are_told(gangs: Harness) -> None:
    """Those that start are bound and gone before all others know that they do not."""
    gangs.put(node("n1", "2"), group(min_count=None), *members(300))
    steps = each_turn(gangs)
    started: list[str] = []
    while not started:
        started += bound(next(steps))
    for name in [*started, "train-290"]:
        gangs.gone("Pod", name)
    for said in steps:
        started += bound(said)
    assert len(gangs.engine.queue) + gangs.engine.cluster.assumed() == 297
    settled(gangs)


def terminates(gangs: Harness, name: str) -> None:
    gangs.put(member(name, meta={"uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}))


@pytest.mark.parametrize(
    ("goes", "waits"),
    [
        (lambda gangs, name: gangs.gone("Pod", name), 0),
        (terminates, 0),
        (lambda gangs, name: gangs.put(member(name, nodeName="n1")), 0),
        (lambda gangs, _: gangs.handle(Follows(NATIVE, False)), 1),
    ],
    ids=["deleted", "terminating", "placed", "in no group any more"],
)
def test_a_pod_that_came_back_goes_while_the_others_are_sent(
    gangs: Harness, goes: Callable[[Harness, str], None], waits: int
) -> None:
    """Its Binding has failed, so that it waits with its group again, of which not all pods were sent on yet."""
    gangs.put(node("n1", "400") | {"status": MANY_PODS}, group(min_count=None), *members(300))
    posted = bound(next(said for said in each_turn(gangs) if bound(said)))
    assert len(posted) == 128
    gangs.bind_failed(posted[0], 404)
    assert posted[0] in gangs.engine.queue
    goes(gangs, posted[0])
    posted += [name for said in each_turn(gangs) for name in bound(said)]
    assert sorted(posted) == sorted(f"train-{i}" for i in range(300)), "each once"
    assert len(gangs.engine.queue) == waits
    settled(gangs)


def test_a_pod_that_lost_its_node_goes_while_the_others_are_sent(gangs: Harness) -> None:
    """The others give back what they hold when they are asked to go on, and wait until there are enough again."""
    nodes = [node(name, "400") | {"status": MANY_PODS} for name in ("n1", "n2")]
    gangs.put(*nodes, group(min_count=200), *members(200))
    binding = gangs.engine.binding
    while (state := binding.state("train-0")) is not State.GROUP_GATHERING:
        assert state in (None, State.GROUP_DECIDING)
        gangs.cycle()
    gangs.gone("Node", "n2")
    back = [name for name in (f"train-{i}" for i in range(200)) if name in gangs.engine.queue]
    assert back
    gangs.gone("Pod", back[0])
    assert bound(gangs.cycles()) == []
    gangs.put(member("late"))
    gangs.tick(10.0)
    assert len({name for said in each_turn(gangs) for name in bound(said)}) == 200
    settled(gangs)


def test_a_turn_that_breaks(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours: nobody holds anything, all are told, and the group is tried again after its backoff."""
    gangs.put(node("n1", "4"), group(min_count=3), *members(3))
    framework = gangs.engine.queue.frameworks["berth"]
    decide, asked = framework.decide_quickly, []

    def breaks(pod: Any, *others: Any, **more: Any) -> Any:
        asked.append(pod.name)
        if len(asked) == 3:
            raise IndexError("list index out of range")
        return decide(pod, *others, **more)

    monkeypatch.setattr(framework, "decide_quickly", breaks)
    with pytest.raises(IndexError):
        gangs.cycles()
    assert gangs.engine.cluster.assumed() == 2
    said = gangs.handle(Broke("IndexError: list index out of range"))
    assert failures(said) == dict.fromkeys(asked, "IndexError: list index out of range")
    assert conditions(said) == [("False", "SchedulerError", "IndexError: list index out of range")]
    assert gangs.engine.cluster.assumed() == 0
    gangs.tick(2.0)
    assert len(bound(gangs.cycles())) == 3
    settled(gangs)


def breaks_at(nth: int, monkeypatch: pytest.MonkeyPatch, what: Any, name: str) -> None:
    """Have the nth call of this raise, which is a fault of ours."""
    do, calls = getattr(what, name), itertools.count(1)

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == nth:
            raise IndexError("list index out of range")
        return do(*args, **kwargs)

    monkeypatch.setattr(what, name, call)


def broken(harness: Harness) -> tuple[list[Instruction], list[Instruction]]:
    """(what was said before a turn raised, what was said then)."""
    before: list[Instruction] = []
    with pytest.raises(IndexError):
        for said in each_turn(harness):
            before += said
    return before, harness.handle(Broke("a fault"))


@pytest.mark.usefixtures("pod_by_pod")
def test_a_turn_that_breaks_is_not_charged_to_the_pod_before(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod had its turn between two of the gang: its Binding stands, and it is the gang that is tried again."""
    gangs.put(node("n1", "8"), group(min_count=3), *members(3))
    assert gangs.cycle() == []
    gangs.put(pod("plain", priority=1))
    assert bound(gangs.cycle()) == ["plain"]
    breaks_at(1, monkeypatch, gangs.engine.queue.frameworks["berth"], "decide_quickly")
    with pytest.raises(IndexError):
        gangs.cycle()
    said = gangs.handle(Broke("a fault"))
    assert failures(said) == dict.fromkeys(("train-0", "train-1", "train-2"), "a fault")
    assert gangs.engine.binding.state("plain") is State.BIND_POSTING
    assert not gangs.engine.has_work
    gangs.tick(2.0)
    assert len(bound(gangs.cycles())) == 3
    settled(gangs)


@pytest.mark.parametrize("asked", [False, True], ids=["between two pods", "while plugins are asked"])
def test_pods_that_are_being_bound_stay_when_a_later_turn_breaks(
    gangs: Harness, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Their Bindings may be stored: they keep their room until they are answered, as after any other cycle."""
    gangs.put(node("n1", "400") | {"status": MANY_PODS}, group(min_count=None), *members(300))
    binding = gangs.engine.binding
    breaks_at(200, monkeypatch, *((binding.gathering, "arrives") if asked else (binding, "happens")))
    before, then = broken(gangs)
    posted, more = bound(before), bound(then)
    assert (len(posted), len(more)) == (128, 71)
    assert {binding.state(name) for name in posted + more} == {State.BIND_POSTING}
    said = then + [one for said in each_turn(gangs) for one in said]
    assert failures(said) == {f"train-{i}": "a fault" for i in range(199, 300)}
    assert gangs.engine.cluster.assumed() == len(posted + more)
    assert [condition[0] for condition in conditions(before + said)] == ["True"]
    for name in posted:
        gangs.bound(name)
    gangs.tick(2.0)  # it backs off
    again = [name for said in each_turn(gangs) for name in bound(said)]
    assert sorted(posted + more + again) == sorted(f"train-{i}" for i in range(300)), "each is bound once"
    settled(gangs)


def test_a_gang_that_breaks_while_it_is_sent_is_bound_together(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that went on wait for the others, which are tried again."""
    gangs.put(node("n1", "400") | {"status": MANY_PODS}, group(min_count=300), *members(300))
    breaks_at(200, monkeypatch, gangs.engine.binding, "happens")
    before, then = broken(gangs)
    assert bound(before + then) == []
    assert [name for said in each_turn(gangs) for name in bound(said)] == []
    assert gangs.engine.cluster.assumed() == 199
    gangs.tick(2.0)  # it backs off
    assert len({name for said in each_turn(gangs) for name in bound(said)}) == 300
    settled(gangs)


def test_a_gang_that_breaks_gives_back_in_parts(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was held when it broke is given back some pods at a time."""
    gangs.put(node("n1", "400") | {"status": MANY_PODS}, group(min_count=300), *members(300))
    breaks_at(1, monkeypatch, gangs.engine.groups.reservations, "started")
    before, then = broken(gangs)
    assert failures(then) == {}
    held, said = [gangs.engine.cluster.assumed()], before + then
    for some in each_turn(gangs):
        held.append(gangs.engine.cluster.assumed())
        said += some
    assert conditions(said) == [("False", "SchedulerError", "a fault")]
    assert held[-1] == 0
    assert max(before - after for before, after in itertools.pairwise(held)) <= 128
    gangs.tick(2.0)  # it backs off
    assert len([name for said in each_turn(gangs) for name in bound(said)]) == 300
    settled(gangs)


def test_the_rest_of_a_gang_waits_until_some_are_bound(gangs: Harness) -> None:
    """It may be bound, and waits for its turn only: that takes as long as it takes."""
    gangs.engine.binding.let_go_beside = 2
    gangs.put(node("n1", "4"), group(min_count=4), *members(4))
    assert bound(gangs.cycles()) == ["train-0", "train-1"]
    assert gangs.tick(1_000.0) == []
    assert gangs.engine.cluster.assumed() == 4
    assert gangs.engine.next_tick() is None, "nothing is to be done before there is an answer"
    assert bound(gangs.bind_failed("train-0", 409)) == ["train-2"]
    assert bound(gangs.handle(Bound("train-1"))) == ["train-3"]
    settled(gangs)


@pytest.mark.usefixtures("pod_by_pod")
def test_a_pod_that_was_let_go_and_lost_its_node_goes_on_with_its_gang_only() -> None:
    """It is being tried again by the time at which it would have been bound: the others have no node yet."""
    gangs = Harness()
    gangs.handle(Follows(NATIVE, True))
    gangs.engine.binding.let_go_beside = 1
    gangs.put(node("n1"), pod("other"))
    assert bound(gangs.cycles()) == ["other"]
    gangs.put(node("n2", "8"), group(min_count=2), *members(2, "4"))
    assert bound(gangs.cycles()) == []
    assert gangs.engine.binding.state("train-0") is State.GROUP_GATHERING
    gangs.gone("Node", "n2")
    gangs.put(node("n3", "8"))
    gangs.tick(2.0)
    gangs.cycle()
    assert gangs.engine.binding.state("train-0") is State.GROUP_DECIDING
    gangs.bound("other")
    assert gangs.engine.binding.state("train-0") is State.GROUP_DECIDING
    assert bound(gangs.cycles()) == ["train-0"]
    assert bound(gangs.handle(Bound("train-0"))) == ["train-1"]
    assert gangs.engine.binding.writing == 1
    settled(gangs)


def test_the_rest_of_a_gang_does_not_wait_for_all_others(gangs: Harness) -> None:
    """Others are decided meanwhile, and there may be no end of them: after some of these it is the gang's turn."""
    gangs.engine.binding.let_go_beside = 2
    gangs.put(node("n1", "400") | {"status": MANY_PODS}, group(min_count=40), *members(40))
    sent = bound(gangs.cycles())
    assert sent == ["train-0", "train-1"]
    others = 0
    while len(sent) < 40:
        assert others < 2 * AT_ONCE
        gangs.put(pod(f"other-{others}"))
        others += 1
        sent += [name for name in bound(gangs.cycles()) if name.startswith("train-")]
    assert len(set(sent)) == 40
    assert others == 2 * AT_ONCE
    settled(gangs)


@pytest.mark.usefixtures("pod_by_pod")
def test_it_begins_again_at_once() -> None:
    """A pod of the group goes: the others give back what they hold and are tried again in the same turn."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", "8"), group(min_count=4), *members(5))
    harness.cycle()
    harness.cycle()
    assert harness.engine.cluster.assumed() == 2
    harness.gone("Pod", "train-0")
    assert harness.engine.cluster.assumed() == 1
    harness.put(member("late"))
    harness.cycle()
    held = [name for name in ("train-1", "train-2") if harness.engine.cluster.placement(name) is not None]
    assert held == ["train-1"]
    assert sorted(bound(harness.cycles())) == ["late", "train-1", "train-2", "train-3", "train-4"]
    settled(harness)


def test_what_is_kept_of_a_decision_does_not_grow_with_the_nodes(gangs: Harness) -> None:
    """All pods of a large group are decided before the first one is bound, and thousands of nodes may take each."""
    gangs.put(*(node(f"n{i}", "2") for i in range(300)), group(min_count=3), *members(5))
    gangs.put(member("train-last", cpu="100"))
    said = [one for some in each_turn(gangs) for one in some]
    found = [one.decision for one in said if isinstance(one, Bind)]
    assert [(one.fitting, len(one.feasible)) for one in found] == [(300, 1)] * 5
    failed = [one.decision for one in said if isinstance(one, Failed) and one.decision is not None]
    assert failed
    assert all(one.nodes == 300 and not one.rejected for one in failed)
