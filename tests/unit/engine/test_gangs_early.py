"""Gangs that are tried before their backoff is over, since nothing else is to be done and something has changed."""

from collections.abc import Iterator

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Instruction
from podberth.engine.queue.fair_share import PAID_OFF, SHARE
from podberth.engine.queue.queued import Place, QueuedGroup
from podberth.engine.stimuli import Follows
from podberth.model.pod_group import NATIVE, GroupKey
from tests.builders import Object

from .conftest import Harness, node, pod
from .test_gangs import group, member

BACKOFF = 8.0
"""Seconds, after four attempts in vain."""
SHORTEST = 1.0
"""The shortest backoff: tries that are early are so far apart."""
SOON = 0.5


def bound(said: list[Instruction]) -> set[str]:
    return {one.pod.name for one in said if isinstance(one, Bind)}


def entry(gangs: Harness) -> QueuedGroup:
    found = gangs.engine.queue.groups.entry(GroupKey("default", "train"))
    assert found is not None
    return found


def on_n0(name: str, cpu: str = "1") -> Object:
    return pod(name, cpu, nodeName="n0")


def passes_by(gangs: Harness, cpu: str = "0") -> None:
    """A pod comes and goes that has no part in the gang's waiting, but who knows."""
    gangs.put(on_n0("passer", cpu))
    gangs.gone("Pod", "passer")


def next_tick(gangs: Harness) -> float:
    """In how many seconds there is something to do."""
    due = gangs.engine.next_tick()
    assert due is not None
    return max(due - gangs.now, 0.0)


@pytest.fixture
def waiting() -> Iterator[Harness]:
    """A gang of two that has just failed for the fourth time, as a pod is in the way."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n0", "2"), on_n0("big"), group(), member("train-0"), member("train-1"))
    harness.cycles()
    for _ in range(3):
        passes_by(harness)
        harness.tick(60.0)
        harness.cycles()
    assert entry(harness).rejections == 4
    assert harness.engine.queue.counts()[Place.UNSCHEDULABLE] == 2
    yield harness
    assert validate(harness.engine.cluster) == []


def test_room_becomes_free(waiting: Harness) -> None:
    waiting.gone("Pod", "big")
    assert waiting.engine.queue.counts()[Place.BACKOFF] == 2
    soon = next_tick(waiting)
    assert soon < SOON, "it does not leave the room empty until its backoff is over"
    waiting.tick(soon)
    assert bound(waiting.cycles()) == {"train-0", "train-1"}


def test_once_for_each_change(waiting: Harness) -> None:
    passes_by(waiting)
    waiting.tick(SOON)
    waiting.cycles()
    assert entry(waiting).rejections == 5
    assert next_tick(waiting) > 200, "only the time is left that brings everybody back"


@pytest.mark.parametrize("back_off", [False, True], ids=["unschedulable", "backing off"])
def test_not_after_what_takes_room(waiting: Harness, back_off: bool) -> None:
    """Another scheduler binds pods where the gang finds no room: none of them can help it."""
    if back_off:
        passes_room(waiting)
    tried = entry(waiting).attempts
    for i in range(8):
        waiting.put(on_n0(f"taken-{i}"))
        waiting.tick(SOON / 8)
        waiting.cycles()
    assert entry(waiting).attempts == tried
    assert next_tick(waiting) >= BACKOFF - SOON
    waiting.gone("Pod", "taken-0")
    assert next_tick(waiting) <= SHORTEST


def test_not_more_often_than_the_shortest_backoff(waiting: Harness) -> None:
    """Pods leave and others take their room, many times a second: for ten seconds all is new, and nothing fits."""
    tried, seconds = entry(waiting).attempts, 10.0
    for _ in range(int(seconds / SOON) * 4):
        passes_by(waiting, "1")
        waiting.tick(SOON / 4)
        waiting.cycles()
    assert 8 <= entry(waiting).attempts - tried <= seconds + 1


def passes_room(waiting: Harness) -> None:
    """A pod of ours takes the room of the last victim, and gives it back: the gang backs off."""
    waiting.gone("Pod", "big")
    waiting.put(pod("mine", "2", priority=1))
    waiting.cycles()
    waiting.tick(SOON)
    waiting.cycles()
    assert entry(waiting).rejections == 5
    waiting.bind_failed("mine")
    waiting.gone("Pod", "mine")


def test_not_for_what_we_give_back(waiting: Harness) -> None:
    """Gangs that pass each other their room would be tried without end."""
    passes_room(waiting)
    assert waiting.engine.queue.counts()[Place.BACKOFF] == 2
    assert next_tick(waiting) > BACKOFF


def test_a_change_while_it_backs_off_for_what_we_gave_back(waiting: Harness) -> None:
    """The last of its victims may leave while it waits out a backoff that began for another reason."""
    passes_room(waiting)
    assert next_tick(waiting) > BACKOFF
    passes_by(waiting)
    assert next_tick(waiting) <= SHORTEST
    waiting.tick(SHORTEST)
    assert bound(waiting.cycles()) == {"train-0", "train-1"}
    assert not waiting.engine.queue.groups.unchanged


def test_not_while_others_are_to_be_tried(waiting: Harness) -> None:
    waiting.gone("Pod", "big")
    waiting.put(pod("other", "1"))
    waiting.tick(SOON)
    assert waiting.engine.queue.counts()[Place.BACKOFF] == 2
    waiting.cycles()
    assert waiting.engine.cluster.placement("other") is not None
    waiting.tick(BACKOFF)
    assert bound(waiting.cycles()) == set(), "there is no room any more"


def test_who_costs_much_pays_first(waiting: Harness) -> None:
    """However much happens, gangs that never fit take a small part of the time."""
    passes_by(waiting)
    waiting.engine.queue.fair_share.charge("default", SHARE + PAID_OFF // 2, waiting.now)
    waiting.tick(next_tick(waiting))
    assert waiting.engine.queue.counts()[Place.BACKOFF] == 2
    assert next_tick(waiting) == pytest.approx(0.5, abs=0.05)
    waiting.tick(next_tick(waiting) + SOON)
    assert waiting.engine.queue.counts()[Place.ACTIVE] == 2


def test_no_longer_than_its_backoff(waiting: Harness) -> None:
    passes_by(waiting)
    waiting.engine.queue.fair_share.charge("default", 20 * PAID_OFF, waiting.now)
    waiting.tick(next_tick(waiting))
    assert next_tick(waiting) == pytest.approx(BACKOFF)


def test_not_after_an_error(waiting: Harness) -> None:
    entry(waiting).errors = 4
    passes_by(waiting)
    assert next_tick(waiting) == pytest.approx(BACKOFF)


def test_one_after_the_other(waiting: Harness) -> None:
    """Of two gangs that wait, each is tried once."""
    waiting.put(group("second"), member("second-0", of="second"), member("second-1", of="second"))
    waiting.cycles()
    passes_by(waiting)
    waiting.tick(SOON)
    assert waiting.engine.queue.counts()[Place.ACTIVE] == 2
    waiting.cycles()
    waiting.tick(next_tick(waiting))
    waiting.cycles()
    assert waiting.engine.queue.counts()[Place.UNSCHEDULABLE] == 4


@pytest.mark.usefixtures("pod_by_pod")
def test_something_happens_while_it_is_tried() -> None:
    """Events may come between its pods."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n0", "2"), on_n0("big"), group(), member("train-0"), member("train-1"))
    for seconds in (0.0, 60.0, 60.0, 60.0):
        harness.tick(seconds)
        harness.cycle()
        assert entry(harness).trying
        passes_by(harness)
        harness.cycles()
        assert harness.engine.queue.counts()[Place.BACKOFF] == 2
    assert entry(harness).rejections == 4
    assert next_tick(harness) < SOON
    assert validate(harness.engine.cluster) == []


@pytest.mark.parametrize("kept_busy", [False, True], ids=["alone", "beside others"])
def test_bindings_that_fail_beside_a_pod_that_waits(kept_busy: bool) -> None:
    """The gang has enough with two pods, whose Bindings fail each time; the third one has no room, and waits."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n0", "2"), group(), member("train-0"), member("train-1"), member("train-2"))
    pauses: list[float] = []
    tried_at = harness.now
    while len(pauses) < 7:
        sent = [one for one in harness.cycles() if isinstance(one, Bind)]
        if sent:
            pauses.append(harness.now - tried_at)
            tried_at = harness.now
        for one in sent:
            harness.bind_failed(one.pod.uid, 403)
        if kept_busy:
            passes_by(harness)
        harness.tick(next_tick(harness))
    assert pauses[1:] == pytest.approx([1.0, 2.0, 4.0, 8.0, 10.0, 10.0], abs=SOON)
    assert validate(harness.engine.cluster) == []
