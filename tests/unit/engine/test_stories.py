"""What is kept of all stories: bounded for each pod, for all together, and fair between namespaces."""

import gc
import tracemalloc
from typing import Any

import pytest

from podberth.engine import history as story_module
from podberth.engine.history import AT_ONCE, FIRST, LONGEST, Stories, Story
from podberth.engine.story import LONGEST_TEXT, Failed, Left, Queued
from tests.unit.work import lines

from .conftest import Harness, node, pod


def queued(at: float) -> Queued:
    return Queued(at, "active", "UnscheduledPodAdd", "", frozenset())


@pytest.fixture
def stories(monkeypatch: pytest.MonkeyPatch) -> Stories:
    """With room for twenty ordinary pods."""
    monkeypatch.setattr(story_module, "MOST", 20 * AT_ONCE)
    return Stories()


def lived(stories: Stories, namespace: str, name: str, entries: int = 1, *, ended: bool = False) -> Story:
    """A pod to which so much happened."""
    story = stories.begin(f"{namespace}/{name}", namespace, name, "berth")
    for at in range(entries):
        story.note(queued(float(at)))
    if ended:
        story.end(Left(float(entries), "deleted"))
    return story


def kept(stories: Stories, namespace: str, names: Any) -> set[str]:
    """Of these pods, those with a story."""
    return {name for name in names if stories.get(f"{namespace}/{name}") is not None}


def test_one_pod_a_million_times() -> None:
    """Its first entries and its latest ones are kept; how many went is told."""
    stories = Stories()
    story = lived(stories, "a", "busy", 1_000_000)
    assert len(story.kept) <= LONGEST
    assert [entry.at for entry in story.kept[:FIRST]] == [float(at) for at in range(FIRST)]
    latest = [entry.at for entry in story.kept[FIRST:]]
    assert latest == [float(at) for at in range(1_000_000 - len(latest), 1_000_000)]
    assert len(latest) >= LONGEST // 2
    assert story.left_out == 1_000_000 - len(story.kept)
    assert story.left_out_after == FIRST
    assert stories.entries == LONGEST


def test_those_that_have_ended_go_first(stories: Stories) -> None:
    """The one that ended first before others; those that wait stay."""
    for i in range(10):
        lived(stories, "a", f"waits{i}")
    for i in range(10):
        lived(stories, "a", f"ended{i}", ended=True)
    for i in range(4):
        lived(stories, "a", f"new{i}")
    assert kept(stories, "a", [f"waits{i}" for i in range(10)]) == {f"waits{i}" for i in range(10)}
    assert kept(stories, "a", [f"ended{i}" for i in range(10)]) == {f"ended{i}" for i in range(4, 10)}
    assert stories.entries == 20 * AT_ONCE


def test_a_tenant_with_very_many_pods_pays_alone(stories: Stories) -> None:
    """Those that have no more than their equal share lose nothing, though their pods ended long ago."""
    for i in range(5):
        lived(stories, "small", f"p{i}", ended=True)
        lived(stories, "other", f"p{i}")
    for i in range(1_000):
        lived(stories, "big", f"p{i}")
    everybody = [f"p{i}" for i in range(5)]
    assert kept(stories, "small", everybody) == kept(stories, "other", everybody) == set(everybody)
    assert kept(stories, "big", [f"p{i}" for i in range(1_000)]) == {f"p{i}" for i in range(990, 1_000)}


def test_a_pod_that_is_woken_over_and_over_pays_in_its_namespace(stories: Stories) -> None:
    """It takes no more than one story may have, and nothing from others."""
    for i in range(8):
        lived(stories, "small", f"p{i}")
    for i in range(12):
        lived(stories, "big", f"p{i}")
    lived(stories, "big", "busy", 100_000)
    everybody = [f"p{i}" for i in range(12)]
    assert kept(stories, "small", everybody) == set(everybody[:8])
    assert kept(stories, "big", ["busy"]) == {"busy"}
    assert stories.entries <= 20 * AT_ONCE


def test_more_namespaces_than_there_is_room_for(stories: Stories) -> None:
    """Nobody has more than anybody else, and the bound holds; an end of what went is no error."""
    for i in range(1_000):
        lived(stories, f"n{i}", "p", ended=True)
    assert stories.entries <= 20 * AT_ONCE
    assert len(stories) <= 20


def test_a_story_that_went_begins_anew(stories: Stories) -> None:
    """With what happens to the pod next, and it says how much is missing."""
    first = lived(stories, "a", "first", 3)
    for i in range(30):
        lived(stories, "a", f"p{i}")
    assert stories.get("a/first") is None
    assert (first.kept, first.left_out) == ([], 3)
    first.note(queued(99.0))
    assert stories.get("a/first") is first
    assert [entry.at for entry in first.kept] == [99.0]
    assert first.left_out == 3
    assert first.left_out_after == 0


def test_a_pod_that_comes_back_goes_on(stories: Stories) -> None:
    """One that left while its profile was gone, say: it does not count as ended any more."""
    lived(stories, "a", "back", ended=True)
    story = stories.begin("a/back", "a", "back", "berth")
    story.note(queued(5.0))
    for i in range(19):
        lived(stories, "a", f"ended{i}", ended=True)
    lived(stories, "a", "new")
    assert len(story.kept) == 3
    assert kept(stories, "a", ["back"]) == {"back"}


def test_entries_that_are_counted_later_are_there_at_once(stories: Stories) -> None:
    """Those of very many pods to which the same happens: they are told, and paid some pods at a time."""
    moved = [stories.begin(f"a/p{i}", "a", f"p{i}", "berth") for i in range(10)]
    for story in moved:
        story.note_later(queued(1.0))
    assert (stories.entries, bool(stories.late)) == (0, True)
    assert stories.get("a/p3") is moved[3]
    assert stories.named("a", "p3") == [moved[3]]
    assert stories.begin("a/p3", "a", "p3", "berth") is moved[3]
    stories.catch_up(4)
    assert (stories.entries, bool(stories.late)) == (4 * AT_ONCE, True)
    stories.catch_up(10)
    assert (stories.entries, bool(stories.late)) == (10 * AT_ONCE, False)
    assert [entry.at for entry in moved[3].kept] == [1.0]
    assert stories.named("a", "p3") == [moved[3]]


def test_few_entries_of_a_pod_are_counted_later(stories: Stories) -> None:
    """However often all pods move: what is kept stays bounded, and so is one story."""
    moved = [stories.begin(f"a/p{i}", "a", f"p{i}", "berth") for i in range(30)]
    for at in range(1_000):
        for story in moved:
            story.note_later(queued(float(at)))
        assert sum(len(story.kept) for story in moved) <= 20 * AT_ONCE + 30 * (AT_ONCE - 1)
        assert max(len(story.kept) - story.paid for story in moved) < AT_ONCE
    stories.catch_up(100)
    assert sum(len(story.kept) for story in moved) <= stories.entries <= 20 * AT_ONCE
    assert all(story.left_out + len(story.kept) == 1_000 for story in moved)


def test_a_pod_ends_before_its_entries_are_counted(stories: Stories) -> None:
    """Its story is whole, and counts as one that has ended."""
    story = stories.begin("a/gone", "a", "gone", "berth")
    story.note_later(queued(1.0))
    story.end(Left(2.0, "deleted"))
    stories.catch_up(10)
    assert [entry.at for entry in story.kept] == [1.0, 2.0]
    for i in range(20):
        lived(stories, "a", f"p{i}")
    assert kept(stories, "a", ["gone"]) == set()
    assert len(kept(stories, "a", [f"p{i}" for i in range(20)])) == 20


def test_a_story_goes_before_its_entries_are_counted(stories: Stories) -> None:
    """What is not there any more is not counted, nor found by name."""
    story = lived(stories, "a", "first", AT_ONCE)
    story.note_later(queued(9.0))
    for i in range(20):
        lived(stories, "a", f"p{i}")
    assert (story.kept, story.left_out) == ([], AT_ONCE + 1)
    assert stories.named("a", "first") == []
    stories.catch_up(10)
    assert (stories.entries, bool(stories.late)) == (20 * AT_ONCE, False)


def test_a_pod_comes_back_whose_story_went_before_its_entries_were_counted(stories: Stories) -> None:
    """It had ended: what is left of it goes on."""
    story = stories.begin("a/first", "a", "first", "berth")
    story.note_later(queued(1.0))
    story.end(Left(2.0, "deleted"))
    for i in range(20):
        lived(stories, "a", f"p{i}")
    assert stories.begin("a/first", "a", "first", "berth") is story
    assert not story.ended


def test_the_engine_tells_of_what_went(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that waits is known though its story went; who is gone and whose story went is not."""
    monkeypatch.setattr(story_module, "MOST", 5 * AT_ONCE)
    harness.put(node("n1"), pod("first"), *(pod(f"p{i}") for i in range(20)))
    timeline = harness.engine.history.story("first")
    assert timeline is not None
    assert (timeline.entries, timeline.left_out, timeline.state) == ([], 1, "unknown")
    harness.gone("Pod", "first")
    assert harness.engine.history.story("first") is None


def test_what_an_entry_takes() -> None:
    """As documented: the dearest entries, each with a message of its own, take no more than 1.25 KiB."""
    stories = Stories()
    many = 200
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(many):
            story = stories.begin(f"uid-{i}", "a", f"p{i}", "berth")
            for at in range(LONGEST):
                message = f"{i} {at} ".ljust(LONGEST_TEXT, "x")
                trace = [0.5 + at, *(part for step in range(4) for part in ("Filter", "Success", at + step + 0.25))]
                story.note(Failed(float(at) + 0.1, at, "Unschedulable", message, frozenset(("Fit",)), trace))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stories.entries == many * LONGEST
    assert taken / stories.entries <= 1.25 * 1024


def test_an_ordinary_pod_costs_one_payment() -> None:
    """Seen, assumed, bound: what is paid at once is enough."""
    harness = Harness()
    harness.put(node("n1"), *(pod(f"p{i}", cpu="1m") for i in range(10)))
    harness.cycles()
    for i in range(10):
        harness.bound(f"p{i}")
    assert harness.engine.history.stories.entries == 10 * AT_ONCE


def test_room_is_made_without_a_look_at_every_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may have thousands of namespaces with one pod each; each entry of anybody else's makes room."""
    costs = []
    for many in (100, 1_000):
        monkeypatch.setattr(story_module, "MOST", many * AT_ONCE)
        stories = Stories()
        for i in range(many):
            lived(stories, f"n{i}", "p")

        def others(stories: Stories = stories, many: int = many) -> None:
            for i in range(100):
                lived(stories, f"n{many - 1 - 37 * i % many}", f"other{i}", AT_ONCE + 1)

        costs.append(lines(others)[0])
        assert stories.entries <= many * AT_ONCE
    assert costs[1] < 2 * costs[0]
