"""Large gangs that are tried again: what is done for each of their pods is done some pods at a time, or not at all."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.engine.binding_table import State
from scheduler.engine.pod_groups.asking import AT_ONCE as ASKED_AT_ONCE
from scheduler.engine.pod_groups.entry import in_order
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.stimuli import Follows
from scheduler.engine.story import Stories
from scheduler.model.pod_group import NATIVE
from tests.builders import Object

from .conftest import Harness, node, pod
from .test_gangs import group, member, members, settled, slices

MANY = 3 * ASKED_AT_ONCE
"""So many pods that what is done for all of them takes several turns."""


def nodes() -> list[Object]:
    """Room for exactly so many pods."""
    return [node(f"n{i}", str(MANY // 8)) for i in range(8)]


@pytest.fixture
def large() -> Harness:
    """A large gang that waits, as its last pod has not come yet."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(*nodes(), group(min_count=MANY), *members(MANY - 1))
    assert harness.cycles() == []
    return harness


def counted(monkeypatch: pytest.MonkeyPatch, what: Any, name: str) -> Callable[[], int]:
    """How often this was called since it was asked last."""
    do, calls = getattr(what, name), [0]

    def call(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return do(*args, **kwargs)

    def since() -> int:
        calls[0], been = 0, calls[0]
        return been

    monkeypatch.setattr(what, name, call)
    return since


def turns(harness: Harness) -> Iterator[None]:
    """All turns, those for work that is put off included."""
    for _ in slices(harness):
        yield


def places(harness: Harness) -> set[str]:
    """The places that the gang's pods are in, by their stories."""
    entries = [harness.engine.story(f"train-{i}") for i in range(MANY - 1)]
    return {entry.entries[-1].details.get("queue", "") for entry in entries if entry is not None}


def test_all_stories_say_so_when_a_gang_moves_and_are_counted_in_parts(
    large: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move takes one turn for all pods; to make room for what it adds to their stories takes several."""
    paid = counted(monkeypatch, Stories, "pay")
    for cpu in ("1000", "1001"):  # the first move fills what is paid in advance
        large.put(member("last", cpu))
        assert places(large) == {"active"}
        large.gone("Pod", "last")
        assert places(large) == {"gated"}
        assert paid() <= ASKED_AT_ONCE
    for _ in turns(large):
        assert paid() <= 2 * ASKED_AT_ONCE
    assert not large.engine.queue.stories.late
    settled(large)


def test_a_gang_that_missed_something_is_asked_in_parts(large: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something happened while it was tried: the plugins are asked about all its pods, some in each turn."""
    asked = counted(monkeypatch, large.engine.queue.frameworks["berth"], "pre_enqueue")
    large.put(member("last", "1000"))
    large.cycle()
    assert large.engine.groups.has_work
    large.put(node("other", "1m"))
    asked()
    most = 0
    for _ in turns(large):
        most = max(most, asked())
        settled(large)
    assert 0 < most <= ASKED_AT_ONCE + 1
    assert large.engine.queue.counts() == {
        Place.ACTIVE: 0,
        Place.BACKOFF: MANY,
        Place.UNSCHEDULABLE: 0,
        Place.GATED: 0,
    }


@pytest.mark.parametrize("change", ["gated", "deleted", "joined", "group"])
def test_what_happens_while_it_is_asked_about(change: str) -> None:
    """Its attempt is over, and not all of its pods were asked about: it goes nowhere before that, and then on."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(*nodes(), group(min_count=MANY), *members(MANY - 1), member("last", "1000"))
    queue, noticed = harness.engine.queue, False
    while harness.engine.has_work and not queue.wakes_groups:
        harness.cycle()
        if harness.engine.groups.has_work and not noticed:
            noticed = True
            harness.put(node("other", "1m"))
    assert queue.wakes_groups
    match change:
        case "gated":
            harness.put(member("train-5", schedulingGates=[{"name": "wait"}]))
        case "deleted":
            harness.gone("Pod", "train-5")
        case "joined":
            harness.put(member("late"))
        case "group":
            harness.put(group(min_count=MANY - 1))
    if queue.wakes_groups:
        assert queue.counts()[Place.GATED] == len(queue), "not all were asked about"
    while queue.wakes_groups:
        harness.cycle()
    settled(harness)
    waits = Place.GATED if change in ("gated", "deleted") else Place.BACKOFF
    assert queue.counts()[waits] == len(queue)
    assert len(queue) == MANY + {"deleted": -1, "joined": 1}.get(change, 0)
    entry = queue.group_entry(next(iter(queue)).entry.key)
    assert entry is not None
    assert entry.leader is not None, "it has a place among those that wait"
    if change == "gated":
        harness.put(member("train-5"))
        harness.cycles()
        assert queue.counts()[Place.BACKOFF] == len(queue)
        settled(harness)


def test_a_slice_does_not_look_at_all_pods_of_the_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they all are still assumed is known without asking about each of them."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(*nodes(), group(min_count=MANY), *members(MANY))
    looked, count = counted(monkeypatch, harness.engine.binding, "state"), 0
    for _ in slices(harness):
        count += 1
    assert harness.engine.cluster.assumed() == MANY
    assert count > 6
    assert looked() <= 2 * MANY


def test_a_pod_that_is_lost_is_found_at_once(large: Harness) -> None:
    """One of them gives back its node behind the attempt's back: all are tried again from the start."""
    large.put(member("last"))
    binding = large.engine.binding
    while large.engine.has_work and binding.state("train-7") is not State.GROUP_DECIDING:
        large.cycle()
    binding.give_back("train-7", large.now, quietly=True)
    large.cycles()
    assert large.engine.cluster.assumed() == MANY
    settled(large)


def test_a_large_gang_is_begun_in_one_turn_and_tried_in_the_next(
    large: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at all its pods is enough for one turn; pods of others may come before the next."""
    large.put(member("last"))
    assumed = counted(monkeypatch, large.engine.binding, "assume")
    large.cycle()
    assert (large.engine.groups.has_work, assumed()) == (True, 0)
    large.put(pod("other", "0"))
    large.cycle()
    assert large.engine.binding.state("other") is not None


def test_the_order_of_pods(large: Harness) -> None:
    """Priority first, then attempts, then who came first."""
    story = Stories().begin("x", "a", "x", "berth")
    waiting = next(iter(large.engine.queue)).pod
    pods: list[QueuedPod] = []
    for arrival, (priority, attempts) in enumerate([(0, 1), (5, 0), (0, 2), (5, 1), (0, 1), (5, 1)]):
        queued = QueuedPod(replace(waiting, priority=priority), 0.0, story, attempts=attempts, arrival=arrival)
        pods.append(queued)
    assert [queued.arrival for queued in in_order(reversed(pods))] == [3, 5, 1, 2, 0, 4]
