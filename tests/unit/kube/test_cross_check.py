"""A comparison with a list finds what a watch lost: fed by hand, the time is an argument."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs

import pytest

from podberth.kube.cross_check import (
    ASKED_BURST,
    AT_ONCE,
    BEHIND_SECONDS,
    EVERY_SECONDS,
    LOOK_SECONDS,
    RETRY_SECONDS,
    SILENT_SECONDS,
    Back,
    CrossCheck,
    Lost,
)
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.listwatch import FetchPage, ListWatch, Pause
from tests.unit.kube.test_listwatch import feed, watching
from tests.unit.kube.wirekit import Thing, bookmark, event, listing, thing

START = 1000.0


class Checked:
    """A kind that is followed, and its checks. `now` moves when a turn says so."""

    def __init__(self, *known: dict[str, Any], version: int = 10, **settings: Any) -> None:
        self.now = START
        self.watch: ListWatch[Thing] = watching(*known, version=version, now=self.now)
        self.check = CrossCheck(self.watch, rng=lambda: 0.5, **settings)
        self.asked: list[dict[str, str]] = []

    def run(self, *pages: bytes, until: float) -> list[Lost | Back]:
        """Answer with these pages, until this time; what was found."""
        left = list(pages)
        found: list[Lost | Back] = []
        while self.now < until:
            match self.check.turn(self.now):
                case Pause(seconds):
                    self.now = min(self.now + seconds, until)
                case FetchPage(query):
                    self.asked.append({key: value[0] for key, value in parse_qs(query).items()})
                    if not left:
                        return found
                    self.check.page(left.pop(0), self.now)
                case Lost() | Back() as verdict:
                    found.append(verdict)
        return found

    def hear(self, *lines: bytes) -> None:
        feed(self.watch, *lines, now=self.now)


A, B, C = thing("a", 5), thing("b", 6), thing("c", 7)


@pytest.mark.parametrize(
    ("id", "listed", "lost"),
    [
        ("nothing", [A, B, C], 0),
        ("a deletion", [A, B], 1),
        ("all deletions", [], 3),
        ("a change", [A, B, thing("c", 12)], 1),
        ("a new object", [A, B, C, thing("d", 12)], 1),
        ("deleted and created again under its name", [A, B, thing("c", 12, uid="c2")], 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_lost(id: str, listed: list[dict[str, Any]], lost: int) -> None:
    """The watch has come as far as the list, and does not say so; silent or not, it is found within half a minute."""
    for words in ([bookmark(30)], []):
        world = Checked(A, B, C)
        world.hear(*words)
        found = world.run(listing(30, *listed), until=START + 30.0)
        assert found == ([Lost(lost)] if lost else [])
        assert (world.watch.counts.lost, world.watch.counts.checks) == (lost, 1)


def test_a_list_ahead_of_the_watch_is_no_loss() -> None:
    """A silent watch gets some seconds, one that is heard more, and what comes meanwhile settles it."""
    world = Checked(A, B)
    page = listing(30, A, thing("b", 20), thing("c", 21))
    assert world.run(page, until=START + EVERY_SECONDS * 0.625 + SILENT_SECONDS - LOOK_SECONDS) == []
    world.hear(event("MODIFIED", thing("b", 20)), event("ADDED", thing("c", 21)))
    assert world.run(until=world.now + BEHIND_SECONDS) == []
    assert (world.watch.counts.lost, world.watch.counts.checks) == (0, 1)


def test_a_slow_watch_that_is_heard_has_its_time() -> None:
    """Until then a new list would only burden a server that is busy."""
    world = Checked(A, B)
    world.run(listing(30, A), until=START + 14.0)
    world.hear(event("MODIFIED", thing("a", 12)))
    assert world.run(until=START + 12.5 + BEHIND_SECONDS - 1.0) == []
    assert world.run(until=START + 12.5 + BEHIND_SECONDS + 1.0) == [Lost(1)]


@pytest.mark.parametrize("uid", ["", "before"])
def test_a_backup_whose_versions_have_passed_ours(uid: str) -> None:
    """The list is later than all that is known, and has an object as it was before: that history did not happen."""
    world = Checked(A, B, version=20)
    world.run(until=START + 25.0)  # it asks for a list
    world.hear(event("MODIFIED", thing("b", 25)))
    earlier = thing("b", 6, uid=uid) if uid else thing("b", 6)
    assert world.run(listing(24, A, earlier), until=START + 25.0) == [], "of this version it may be as it was"
    assert world.run(listing(30, A, earlier), until=START + 60.0) == [Back()]


def test_changes_during_the_list_are_none() -> None:
    """Created, changed and deleted after the list's version, or between two pages of it."""
    world = Checked(A, B, C)
    assert world.run(listing(30, A, go_on="t"), until=START + 20.0) == []
    world.hear(
        event("ADDED", thing("d", 31)),
        event("MODIFIED", thing("a", 32)),
        event("DELETED", thing("b", 33)),
    )
    assert world.run(listing(30, B, C), until=START + 30.0) == []
    assert (world.watch.counts.lost, world.watch.counts.checks) == (0, 1)
    assert world.asked[1] == {"limit": "500", "continue": "t"}


def test_a_backup_that_has_what_was_deleted() -> None:
    """The list is later than a deletion, and has the object as it was before that (seed 208560 of the storm)."""
    world = Checked(A, B, version=20)
    world.run(until=START + 25.0)  # it asks for a list
    world.hear(event("DELETED", thing("b", 25)))
    assert world.run(listing(24, A, B), until=START + 25.0) == [], "then it was still there"
    assert world.run(listing(25, A, B), until=START + 60.0) == [Back()]


def test_an_unreadable_object_is_not_lost() -> None:
    """It is there, and known to be, in a version that nobody can read."""
    world = Checked(A, B)
    world.hear(event("MODIFIED", thing("a", 12, size="x")), event("ADDED", thing("c", 13, size="x")))
    assert world.run(listing(30, thing("a", 12), B, thing("c", 13)), until=START + 60.0) == []
    assert world.watch.counts.checks == 1
    world.hear(bookmark(40))
    assert world.run(listing(50, thing("a", 45), B), until=START + 60.0) == [Lost(1)]


def test_a_backup_is_noticed() -> None:
    """The server is at an earlier version than what it said before: nothing needs to settle."""
    world = Checked(A, B, version=40)
    assert world.run(listing(12, A), until=START + 20.0) == [Back()]


def test_many_objects_are_gone_through_in_parts() -> None:
    """Some thousands in a turn, so that nobody else waits for it."""
    many = [thing(f"p{i}", 5) for i in range(2 * AT_ONCE + 1)]
    world = Checked(*many)
    assert world.run(listing(30), until=START + 12.5 + 1.0) == []
    found = world.run(until=START + 30.0)
    assert found == [Lost(len(many))]


class Asked(dict[Any, Any]):
    """Known objects that note which of them were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[Any] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        """Any object."""
        self.names.add(key)
        return super().get(key, default)


def test_many_differences_are_gone_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many objects differ, and however long it takes to settle: each turn looks at some of them."""
    missed = 3 * AT_ONCE
    checked = Checked()
    known = checked.watch.objects.known = Asked()
    turn, most = checked.check.turn, 0

    def limited(now: float) -> Any:
        nonlocal most
        known.names.clear()
        found = turn(now)
        most = max(most, len(known.names))
        return found

    monkeypatch.setattr(checked.check, "turn", limited)
    listed = listing(20, *(thing(f"p{i}", 12) for i in range(missed)))
    assert checked.run(listed, until=START + 60) == [Lost(missed)]
    assert AT_ONCE - 1 <= most <= AT_ONCE


def test_pages_are_spread() -> None:
    """Over a quarter of the time between two checks, whatever their number."""
    world = Checked(*(thing(f"p{i}", 5) for i in range(5000)))
    world.run(*(listing(30, go_on="t") for _ in range(20)), until=START + 40.0)
    first, last = START + 12.5, world.now
    assert last - first == pytest.approx(20 * 0.25 * EVERY_SECONDS / 11)


def test_many_objects_are_compared_less_often() -> None:
    """A check costs as its objects do, so its share of the server's time is bounded."""
    every = {}
    for count in (25_000, 50_000):
        page = listing(30, *(thing(f"p{i}", 5) for i in range(count)))
        world = Checked(*(thing(f"p{i}", 5) for i in range(count)))
        world.run(page, until=START + 12.6)
        ended = world.now
        world.run(until=ended + 100.0)
        every[count] = world.now - ended
    assert every == {25_000: pytest.approx(20.0, abs=0.2), 50_000: pytest.approx(40.0, abs=0.2)}


def test_what_fails_is_tried_again_soon() -> None:
    """A page of a proxy's, a time-out, an expired page, and a Retry-After; but a refusal is slow."""
    world = Checked(A)
    world.run(b"<html>", until=START + 13.0)
    retries = []
    for error in (
        Unreachable("no answer in time", timed_out=True),
        ApiError(410, "Expired"),
        ApiError(429, retry_after=7.0),
        ApiError(403, "Forbidden"),
    ):
        world.run(until=world.now + 100.0)
        asked = world.now
        world.check.failed(error, asked)
        pause = world.check.turn(asked)
        assert isinstance(pause, Pause)
        retries.append(pause.seconds)
    assert retries == [pytest.approx(0.6 * RETRY_SECONDS), pytest.approx(0.6 * RETRY_SECONDS), 7.0, EVERY_SECONDS]
    assert world.watch.counts.checks == 0


def test_asked_for() -> None:
    """At once, but not without end: then the usual time has to do."""
    world = Checked(A)
    world.run(listing(30, A), until=START + 12.6)
    begun = []
    for _ in range(ASKED_BURST + 1):
        world.check.soon(world.now)
        world.run(until=world.now + 100.0)
        begun.append(world.now)
        world.check.page(listing(30, A), world.now)
        world.run(until=world.now + 0.1)
    gaps = [later - at for at, later in zip([START + 12.5, *begun], begun, strict=False)]
    assert gaps == [pytest.approx(5.0, abs=0.2)] * ASKED_BURST + [pytest.approx(EVERY_SECONDS, abs=0.2)]


def test_losses_in_a_row_are_repaired_ever_more_slowly() -> None:
    """A list costs more than a check: where a proxy loses each deletion, four times the usual is often enough."""
    world = Checked(A, B)
    times = []
    for _ in range(5):
        world.hear(bookmark(30))
        assert world.run(listing(30, A), until=world.now + 200.0) == [Lost(1)]
        times.append(world.now)
    gaps = [later - at for at, later in pairwise(times)]
    assert gaps == [pytest.approx(EVERY_SECONDS * factor, abs=1.0) for factor in (2, 4, 4, 4)]


def test_a_list_meanwhile_ends_the_check() -> None:
    """A 410 has repaired whatever there was."""
    world = Checked(A, B)
    world.run(listing(30, A), until=START + 13.0)
    world.watch.counts.lists += 1
    assert world.run(until=START + 30.0) == []
    assert world.watch.counts.lost == 0


def test_a_check_that_found_nothing_counts_as_heard() -> None:
    """The objects that are known were right when the check began, though the watch says nothing."""
    world = Checked(A)
    world.run(listing(30, A), until=START + 20.0)
    assert world.watch.heard_at == pytest.approx(START + 12.5)


def test_a_check_that_is_wanted_begins_at_once() -> None:
    """Its pages follow each other at once, and it has ended when nothing differs."""
    world = Checked(*(thing(f"p{i}", 5) for i in range(3)))
    world.check.want(world.now)
    pages = [listing(30, thing(f"p{i}", 5), go_on="t" if i < 2 else "") for i in range(3)]
    world.run(*pages, until=START + 0.01)
    assert (len(world.asked), world.check.wanted, world.watch.counts.checks) == (3, False, 1)


def test_a_check_that_had_begun_before_is_not_the_wanted_one() -> None:
    """Its list may be from before; so another one follows it at once."""
    world = Checked(A)
    world.run(until=START + 12.5)
    world.run(until=START + 13.0)  # it asks for a list
    world.now += 0.5
    world.check.want(world.now)
    world.run(listing(30, A), until=world.now + 0.01)
    assert (len(world.asked), world.check.wanted) == (3, True)
    world.run(listing(31, A), until=world.now + 0.01)
    assert not world.check.wanted


def test_what_a_wanted_check_finds_is_looked_at_again() -> None:
    """At once after the first repair, and later if that repairs nothing: a list costs the server something."""
    world = Checked(A, B)
    world.hear(bookmark(30))
    world.check.want(world.now)
    assert world.run(listing(30, A), listing(30, A), listing(30, A), until=START + 0.1) == [Lost(1), Lost(1)]
    assert (len(world.asked), world.check.wanted) == (2, True)
    assert world.run(listing(30, A, B), until=START + RETRY_SECONDS + 0.2) == []
    assert (len(world.asked), world.check.wanted) == (3, False)


def test_a_wanted_check_that_fails_is_made_again_soon() -> None:
    """An error of the server, which else is left alone until the next check, is tried again in seconds."""
    world = Checked(A)
    world.check.want(world.now)
    world.run(until=START + 0.1)
    world.check.failed(ApiError(500, "InternalError", "", None), world.now)
    world.run(listing(30, A), until=START + RETRY_SECONDS + 0.2)
    assert not world.check.wanted
    world.check.want(world.now)
    world.check.give_up()
    assert not world.check.wanted
