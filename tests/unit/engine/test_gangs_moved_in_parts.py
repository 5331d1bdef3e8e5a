"""Large gangs that are tried again: what costs much for each of their pods is done in parts, or not at all."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from podberth.engine.binding_table import State
from podberth.engine.history import Stories
from podberth.engine.queue.groups import in_order
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.stimuli import Follows
from podberth.model.pod_group import NATIVE
from tests.builders import Object

from .conftest import Harness, node, pod
from .test_gangs import each_turn, group, member, members, settled

AT_ONCE = 256
MANY = 3 * AT_ONCE
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
    for _ in each_turn(harness):
        yield


def places(harness: Harness) -> set[str]:
    """The places that the gang's pods are in, by their stories."""
    entries = [harness.engine.history.story(f"train-{i}") for i in range(MANY - 1)]
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
        assert paid() <= AT_ONCE
    for _ in turns(large):
        assert paid() <= 2 * AT_ONCE
    while large.engine.next_tick() == 0.0:
        large.tick(0.0)
        assert paid() <= 2 * AT_ONCE
    assert not large.engine.history.stories.late
    settled(large)


def test_a_turn_does_not_look_at_all_pods_of_the_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they all are still assumed is known without asking about each of them."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(*nodes(), group(min_count=MANY), *members(MANY))
    looked, count = counted(monkeypatch, harness.engine.binding, "state"), 0
    for _ in each_turn(harness):
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
    """Looking at all its pods is enough for one turn. Pods that come before it may be tried before the next."""
    large.put(member("last"))
    assumed = counted(monkeypatch, large.engine.binding, "assume")
    large.cycle()
    assert (large.engine.groups.has_work, assumed()) == (True, 0)
    large.put(pod("later", "0"), pod("before", "0", priority=10))
    large.cycle()
    assert large.engine.binding.state("before") is not None
    assert large.engine.binding.state("later") is None


def test_the_order_of_pods(large: Harness) -> None:
    """Priority first, then attempts, then who came first."""
    story = Stories().begin("x", "a", "x", "berth")
    waiting = next(iter(large.engine.queue)).pod
    pods: list[QueuedPod] = []
    for arrival, (priority, attempts) in enumerate([(0, 1), (5, 0), (0, 2), (5, 1), (0, 1), (5, 1)]):
        queued = QueuedPod(replace(waiting, priority=priority), 0.0, story, attempts=attempts, arrival=arrival)
        pods.append(queued)
    assert [queued.arrival for queued in in_order(reversed(pods))] == [3, 5, 1, 2, 0, 4]
