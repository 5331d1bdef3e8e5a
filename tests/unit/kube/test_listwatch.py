"""The list/watch machine, fed by hand: no sockets, the time is an argument."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.listwatch import PAGE_BYTES, Action, AskVersion, FetchPage, ListWatch, OpenWatch, Pause, Phase
from podberth.kube.objects import Added, Change, Deleted, Key, Updated
from tests.unit.kube.wirekit import Thing, bookmark, decode, event, listing, status, thing


def machine(**settings: Any) -> ListWatch[Thing]:
    """A machine whose draws are all 1.0 (the longest pauses)."""
    return ListWatch(decode, rng=lambda: 1.0, **settings)


def fetch(m: ListWatch[Thing], page: bytes, now: float = 0.0) -> bool:
    """Answer the FetchPage that the machine asks for."""
    assert isinstance(m.action(now), FetchPage)
    for item in m.page(page, now):
        m.objects.listed(item)
    return m.page_done()


def test_pages_of_large_objects_become_short() -> None:
    """The next page has as many as make up a page of the bytes that are read in one go; and the full number again."""
    m = machine(page_size=500)
    large = {**thing("a", 1), "data": "x" * (PAGE_BYTES // 40)}
    asked = []
    for page in (listing(9, large, large, go_on="t"), listing(9, thing("b", 2), go_on="t"), listing(9, thing("c", 3))):
        fetch_page = m.action(0.0)
        assert isinstance(fetch_page, FetchPage)
        asked.append(parse_qs(fetch_page.query)["limit"])
        fetch(m, page)
    assert asked == [["500"], ["39"], ["500"]]


def test_an_object_larger_than_a_page_comes_alone() -> None:
    """A limit of nothing would be none."""
    m = machine(page_size=500)
    assert not fetch(m, listing(9, {**thing("a", 1), "data": "x" * PAGE_BYTES}, go_on="t"))
    fetch_page = m.action(0.0)
    assert isinstance(fetch_page, FetchPage)
    assert parse_qs(fetch_page.query)["limit"] == ["1"]


def watching(*items: dict[str, Any], version: int = 10, now: float = 0.0, **settings: Any) -> ListWatch[Thing]:
    """A machine that has listed these and has its stream open; its first changes are taken."""
    m = machine(**settings)
    assert fetch(m, listing(version, *items), now)
    m.take()
    assert isinstance(m.action(now), OpenWatch)
    m.opened(now)
    return m


def feed(m: ListWatch[Thing], *chunks: bytes, now: float = 0.0) -> list[str]:
    """Give the bytes to the open stream; the changes that follow, as words."""
    for chunk in chunks:
        for line in m.received(chunk, now):
            if m.phase is Phase.WATCHING:
                m.line(line, now)
    return words(m.take())


def words(changes: list[Change[Thing]]) -> list[str]:
    """`+a@3` added at version 3, `~a@4` updated, `-a/uid` deleted."""
    found = []
    for change in changes:
        match change:
            case Added(object=o):
                found.append(f"+{o.name}@{o.resource_version}")
            case Updated(object=o):
                found.append(f"~{o.name}@{o.resource_version}")
            case Deleted(name=name, uid=uid):
                found.append(f"-{name}/{uid}")
    return found


def following(m: ListWatch[Thing], now: float) -> Action:
    """The action after the server has said that it is at a later version than we."""
    action = m.action(now)
    if isinstance(action, AskVersion):
        m.version_came(listing(1_000_000), now)
        action = m.action(now)
    return action


def asked(action: object) -> dict[str, str]:
    """The query of an action as a dict."""
    assert isinstance(action, FetchPage | AskVersion | OpenWatch)
    return {key: value[0] for key, value in parse_qs(action.query).items()}


def test_a_list_is_paged_and_delivered_whole() -> None:
    """Pages are asked for by their continue token; changes count only when the last has come; then the watch begins."""
    m = machine(page_size=2, field_selector="spec.nodeName=")
    selectors = {"fieldSelector": "spec.nodeName="}
    assert asked(m.action(0)) == {"limit": "2", **selectors}
    assert not fetch(m, listing(7, thing("a", 1), thing("b", 2), go_on="t=1&x"))
    assert (m.phase, m.synced) == (Phase.LISTING, False)
    assert asked(m.action(0)) == {"limit": "2", "continue": "t=1&x", **selectors}
    assert fetch(m, listing(7, thing("c", 3)))
    assert (m.phase, m.synced) == (Phase.LISTED, True)
    assert words(m.take()) == ["+a@1", "+b@2", "+c@3"]
    assert asked(m.action(0)) == {
        "watch": "true",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "600",
        **selectors,
    }


def test_an_empty_list_and_null_items_are_lists() -> None:
    """`items: []` and `items: null` are both complete lists of nothing."""
    for body in (listing(1), b'{"metadata":{"resourceVersion":"1"},"items":null}'):
        m = machine()
        assert fetch(m, body)
        assert m.synced
        assert m.take() == []


def test_what_is_no_list_is_asked_for_again_after_a_pause() -> None:
    """A proxy's HTML with a 200 is neither a list nor the end: same page again, with backoff, counted."""
    m = machine()
    assert not fetch(m, b"<html>login</html>")
    assert m.action(0) == Pause(0.8)
    assert m.counts.garbled == 1
    assert fetch(m, listing(1, thing("a", 1)), now=1)


@pytest.mark.parametrize(
    ("chunks", "want", "known"),
    [
        ([event("ADDED", thing("b", 11))], ["+b@11"], {"a", "b"}),
        ([event("MODIFIED", thing("a", 11))], ["~a@11"], {"a"}),
        ([event("DELETED", thing("a", 11))], ["-a/uid-a"], set()),
        ([event("MODIFIED", thing("b", 11))], ["+b@11"], {"a", "b"}),
        ([event("ADDED", thing("a", 11))], ["~a@11"], {"a"}),
        ([event("ADDED", thing("a", 11, uid="new"))], ["-a/uid-a", "+a@11"], {"a"}),
        ([event("ADDED", thing("b", 11))[:20], event("ADDED", thing("b", 11))[20:]], ["+b@11"], {"a", "b"}),
        ([event("ADDED", thing("b", 11)) + event("DELETED", thing("b", 12))], ["+b@11", "-b/uid-b"], {"a"}),
        ([b"\n \r\n" + bookmark(20)], [], {"a"}),
        ([event("ADDED", thing("b", "opaque"))], ["+b@opaque"], {"a", "b"}),
    ],
    ids=[
        "added",
        "modified",
        "deleted",
        "late-added",
        "re-added",
        "replaced",
        "split",
        "short life",
        "blank",
        "opaque",
    ],
)
def test_events(chunks: list[bytes], want: list[str], known: set[str]) -> None:
    """Feed one stream's bytes to a machine that knows `a` at version 5, as of 10."""
    m = watching(thing("a", 5))
    assert feed(m, *chunks) == want
    assert {name for _, name in m.objects.known} == known


@pytest.mark.parametrize(
    ("line", "counter"),
    [
        (event("MODIFIED", thing("a", 5)), "duplicates"),
        (event("ADDED", thing("a", 5)), "duplicates"),
        (event("MODIFIED", thing("a", 4)), "older"),
        (event("DELETED", thing("a", 4)), "older"),
        (event("DELETED", thing("zzz", 11)), "duplicates"),
        (event("MODIFIED", thing("gone", 12)), "older"),
        (event("SURPRISE", thing("a", 11)), "unknown"),
    ],
)
def test_what_is_no_news_is_counted_and_ignored(line: bytes, counter: str) -> None:
    """Repeated, reordered and unknown events change nothing and show up in one counter (`gone` died at 13)."""
    m = watching(thing("a", 5), thing("gone", 6))
    assert feed(m, event("DELETED", thing("gone", 13))) == ["-gone/uid-gone"]
    assert feed(m, line) == []
    assert getattr(m.counts, counter) == 1
    assert m.phase is Phase.WATCHING
    assert len(m.objects.known) == 1


def test_a_late_event_of_another_object_still_counts() -> None:
    """Reordering between objects loses nothing: b's event from before a's is applied, and the position stays."""
    m = watching(thing("a", 5), thing("b", 6))
    assert feed(m, event("MODIFIED", thing("a", 12)), event("MODIFIED", thing("b", 11))) == ["~a@12", "~b@11"]
    assert feed(m, event("ADDED", thing("new", 9))) == ["+new@9"]
    assert m.objects.position == 12


def test_bookmarks_move_the_position_forward_only() -> None:
    """After a bookmark the next watch starts from it; an older one is not believed."""
    m = watching()
    feed(m, bookmark(40), bookmark(30))
    m.ended(100.0)
    assert asked(following(m, 100.0))["resourceVersion"] == "40"
    assert m.counts.bookmarks == 2


def test_a_cut_line_is_never_applied() -> None:
    """A stream that ends within an event is resumed from before it, and what came of it is forgotten."""
    m = watching(thing("a", 5))
    assert feed(m, event("MODIFIED", thing("a", 11)), event("DELETED", thing("a", 12))[:-9]) == ["~a@11"]
    m.ended(5.0, Unreachable("reset"))
    assert m.counts.cut == 1
    assert isinstance(following(m, 5.0), Pause)
    assert asked(following(m, 6.0))["resourceVersion"] == "11"
    m.opened(6.0)
    assert feed(m, event("DELETED", thing("a", 12))) == ["-a/uid-a"]


def test_a_line_that_is_no_event_ends_the_stream() -> None:
    """Garbage between events is not skipped (what it hid would be lost): the watch starts again before it."""
    m = watching(thing("a", 5))
    lines = event("MODIFIED", thing("a", 11)) + b'{"type":"MODI\n' + event("MODIFIED", thing("a", 13))
    assert feed(m, lines) == ["~a@11"]
    assert m.counts.garbled == 1
    assert following(m, 0) == Pause(0.8)
    assert asked(following(m, 1.0))["resourceVersion"] == "11"


def gone_event(now: float, m: ListWatch[Thing]) -> None:
    feed(m, event("ERROR", status(410, "Expired", "too old resource version: 1 (9)")), now=now)


def gone_answer(now: float, m: ListWatch[Thing]) -> None:
    m.ended(now)
    m.failed(ApiError(410, "Gone"), now)


@pytest.mark.parametrize("expire", [gone_event, gone_answer])
def test_410_lists_again_and_repairs_missed_deletes(expire: Any) -> None:
    """The relist gives the difference only, deletions first: `b` went unseen, `c` was replaced, `a` did not change."""
    m = watching(thing("a", 5), thing("b", 6), thing("c", 7), thing("d", 8))
    expire(60.0, m)
    assert asked(m.action(60.0)) == {"limit": "500"}
    again = listing(30, thing("a", 5), thing("c", 21, uid="c2"), thing("d", 22), thing("e", 23))
    assert fetch(m, again, now=60.0)
    assert words(m.take()) == ["-b/uid-b", "-c/uid-c", "+c@21", "~d@22", "+e@23"]
    assert (m.counts.relists, m.counts.expired, m.counts.missed_deletes) == (1, 1, 2)
    assert asked(m.action(60.0))["resourceVersion"] == "30"


def test_410_again_and_again_is_no_busy_loop() -> None:
    """The first 410 relists at once; when the fresh list's version is gone too, it pauses."""
    m = watching(now=0.0)
    gone_event(1.0, m)
    assert fetch(m, listing(30), now=1.0)
    m.opened(1.0)
    gone_event(1.0, m)
    assert isinstance(m.action(1.0), Pause)


def test_410_in_the_middle_of_paging_takes_larger_pages() -> None:
    """Pages that take longer than the server keeps a version become four times as large, and what came is dropped."""
    m = machine(page_size=1)
    limits = []
    for now in (0.0, 10.0):
        fetch(m, listing(7, thing("a", 1), go_on="t"), now)
        m.action(now)
        m.failed(ApiError(410, "Expired"), now)
        limits.append(asked(m.action(now))["limit"])
    assert limits == ["4", "16"]
    assert fetch(m, listing(9, thing("b", 2)), now=11.0)
    assert words(m.take()) == ["+b@2"]


def test_a_list_without_pages_is_not_asked_for_in_vain_for_ever() -> None:
    """It comes last, as in client-go's pager, has five minutes, and when they do not suffice, pages have a turn."""
    m = machine(page_size=1)
    for now in (0.0, 10.0, 20.0):
        fetch(m, listing(7, thing("a", 1), go_on="t"), now)
        m.action(now)
        m.failed(ApiError(410, "Expired"), now)
    assert m.action(20.0) == FetchPage("", 300.0)
    m.failed(Unreachable("no answer in time", timed_out=True), 320.0)
    action = m.action(400.0)
    assert isinstance(action, FetchPage)
    assert (asked(action)["limit"], action.seconds) == ("16", 60.0)
    m.failed(Unreachable("no answer in time", timed_out=True, heard=True), 460.0)
    again = m.action(500.0)
    assert isinstance(again, FetchPage)
    assert again.seconds == 120.0


def test_without_a_connection_no_list_was_too_slow() -> None:
    """A process may begin while it is cut off, and its first list that gets through may be lost (seed 606274)."""
    m = machine()
    for now in (0.0, 100.0, 300.0, 600.0):
        assert isinstance(m.action(now), FetchPage)
        m.failed(Unreachable("no connection in time", sent=False, timed_out=True), now)
    assert m.action(1000.0) == FetchPage("limit=500", 30.0)


def test_silence_is_not_waited_for_longer_than_the_server_would() -> None:
    """A list of which nothing came has a minute at most: when all go unanswered, the end of that is not missed."""
    m = machine()
    for now in (0.0, 100.0, 300.0, 600.0):
        assert isinstance(m.action(now), FetchPage)
        m.failed(Unreachable("no answer in time", timed_out=True), now)
    assert m.action(1000.0) == FetchPage("limit=500", 60.0)


@pytest.mark.parametrize("status", [403, 404])
def test_who_refuses_a_list_was_not_too_slow_for_it(status: int) -> None:
    """An answer that is lost after that is missed as soon as ever, and not five minutes later."""
    m = machine()
    for now in (0.0, 100.0, 300.0, 600.0):
        assert isinstance(m.action(now), FetchPage)
        m.failed(Unreachable("no answer in time", timed_out=True, heard=True), now)
    assert m.action(1000.0) == FetchPage("limit=500", 300.0)
    m.failed(ApiError(status, "no"), 1000.0)
    assert m.action(1100.0) == FetchPage("limit=500", 30.0)


def test_a_page_that_fails_is_fetched_again() -> None:
    """A lost connection in the middle of a list costs that page, not the list."""
    m = machine(page_size=1)
    fetch(m, listing(7, thing("a", 1), go_on="t"))
    m.action(0)
    m.failed(Unreachable("reset"), 0.0)
    assert m.action(0.0) == Pause(0.8)
    assert asked(m.action(0.8)) == {"limit": "1", "continue": "t"}
    assert fetch(m, listing(7, thing("b", 2)), now=0.8)
    assert words(m.take()) == ["+a@1", "+b@2"]


@pytest.mark.parametrize(
    ("code", "details", "pause", "then"),
    [
        (429, {"retryAfterSeconds": 5}, (5.0, 5.9), "watch"),
        (429, {}, (0.8, 0.8), "watch"),
        (500, {}, (0.8, 0.8), "watch"),
        (504, {}, (0.8, 0.8), "watch"),
        (400, {}, (0.8, 0.8), "list"),
    ],
)
def test_error_events(code: int, details: dict[str, Any], pause: tuple[float, float], then: str) -> None:
    """A server in trouble is asked again later from where we were; one that finds fault with us, from the start."""
    m = watching()
    feed(m, event("ERROR", status(code, "Whatever", **details)))
    wait = following(m, 0)
    assert isinstance(wait, Pause)
    assert pause[0] <= wait.seconds <= pause[1]
    assert isinstance(following(m, 20.0), OpenWatch if then == "watch" else FetchPage)


def test_error_events_without_end_lead_to_a_relist() -> None:
    """Three in a row without a good event: the version itself may be the trouble ("too large resource version")."""
    m = watching()
    now = 0.0
    for _ in range(2):
        feed(m, event("ERROR", status(504, "Timeout")), now=now)
        now += 50.0
        assert isinstance(following(m, now), OpenWatch)
        m.opened(now)
    feed(m, event("ERROR", status(504, "Timeout")), now=now)
    assert isinstance(following(m, now + 50.0), FetchPage)


def test_a_timeout_reconnects_at_once_and_a_short_watch_pauses() -> None:
    """The server's own timeout is no failure; a stream that closes at once without an event is."""
    m = watching(now=0.0)
    m.ended(400.0)
    assert isinstance(following(m, 400.0), OpenWatch)
    m.opened(400.0)
    m.ended(400.2)
    assert isinstance(following(m, 400.2), Pause)
    m.opened(402.0)
    feed(m, bookmark(11), now=402.0)
    m.ended(402.1)
    assert isinstance(following(m, 402.1), OpenWatch)


def test_a_silent_stream_is_reconnected_without_pause() -> None:
    """Silence (`timed_out`) counts as a stall and is followed by a new watch from the last version at once."""
    m = watching(now=0.0)
    m.ended(67.0, Unreachable("silent", timed_out=True))
    assert m.counts.stalls == 1
    assert asked(following(m, 67.0))["resourceVersion"] == "10"


def test_forbidden_waits_slowly_and_deletes_nothing() -> None:
    """403 is visible, keeps what is known, asks again after ten to twenty seconds, and goes when a watch opens."""
    m = watching(thing("a", 5))
    m.ended(30.0)
    m.action(30.0)
    assert not m.failed(ApiError(403, "Forbidden"), 30.0)
    assert not m.failed(ApiError(403, "Forbidden"), 31.0)
    assert m.refused is not None
    assert m.action(31.0) == Pause(20.0)
    assert fetch(m, listing(12, thing("a", 5)), now=51.0)
    assert m.take() == []
    m.action(51.0)
    m.opened(51.0)
    assert m.refused is None


def test_a_kind_that_is_gone_takes_its_objects_along_the_second_time() -> None:
    """One 404 may be a server that is starting; after the second, everything known is deleted, once."""
    m = watching(thing("a", 5))
    m.ended(30.0)
    m.action(30.0)
    assert not m.failed(ApiError(404, "NotFound"), 30.0)
    m.action(60.0)
    assert m.failed(ApiError(404, "NotFound"), 60.0)
    assert words(m.take()) == ["-a/uid-a"]
    m.action(90.0)
    assert not m.failed(ApiError(404, "NotFound"), 90.0)
    assert fetch(m, listing(99, thing("a", 98)), now=120.0)
    assert words(m.take()) == ["+a@98"]


@pytest.mark.parametrize(
    ("spelled", "changes", "events", "garbled", "malformed"),
    [
        (b'{"type":"MODIFIED","object":%b}', ["~a@11"], 1, 0, 0),
        (b'{"type": "MODIFIED", "object": %b }', ["~a@11"], 1, 0, 0),
        (b'{"object":%b,"type":"MODIFIED"}', ["~a@11"], 1, 0, 0),
        (b'{"type":"MODIFIED","object":%b,"more":{}}', ["~a@11"], 1, 0, 0),
        (b'{"type":"MODIFIED","object":%b', [], 0, 1, 0),
        (b'{"type":"MODIFIED","object":%b}}', [], 0, 1, 0),
        (b'{"type":"MODIFIED","object":[%b]}', [], 1, 0, 1),
        (b'{"type":"MODIFIED","object":}', [], 0, 1, 0),
        (b'{"type":"MODIFIED","object":%b}{"type":"MODIFIED","object":{}}', [], 0, 1, 0),
    ],
)
def test_a_change_in_any_spelling(
    spelled: bytes, changes: list[str], events: int, garbled: int, malformed: int
) -> None:
    """Lines that begin as kube-apiserver's do are not read to find their object; what comes of them is the same."""
    m = watching(thing("a", 5))
    body = json.dumps(thing("a", 11)).encode()
    assert feed(m, spelled.replace(b"%b", body) + b"\n") == changes
    assert (m.counts.events, m.counts.garbled, m.counts.malformed) == (events, garbled, malformed)


def test_a_malformed_object_stops_nothing() -> None:
    """It is reported by name and counted; what was known of it stays; it can still be deleted."""
    reports: list[Key | None] = []
    m = watching(thing("a", 5), thing("b", 6), on_malformed=lambda key, _: reports.append(key))
    bad = thing("a", 11, size="many")
    assert feed(m, event("MODIFIED", bad), event("MODIFIED", thing("b", 12))) == ["~b@12"]
    assert feed(m, event("ADDED", {"metadata": 7}), event("DELETED", {"metadata": 7})) == []
    gone_event(60.0, m)
    assert fetch(m, listing(30, thing("a", 11, size="many"), thing("new", 25, size=[]), thing("b", 12)), now=60.0)
    assert words(m.take()) == []
    m.action(60.0)
    m.opened(60.0)
    assert feed(m, event("DELETED", thing("a", 31, size="many"))) == ["-a/uid-a"]
    assert reports == [("ns", "a"), None, None, ("ns", "a"), ("ns", "new")]
    assert m.counts.malformed == 5


def test_deep_nesting_is_malformed_not_fatal() -> None:
    """An object nested a hundred thousand deep is refused by the decoder and the line ends the stream, no more."""
    m = watching(thing("a", 5))
    deep = b'{"type":"ADDED","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    assert feed(m, deep) == []
    assert m.counts.garbled + m.counts.malformed == 1


def test_a_resync_lists_again() -> None:
    """Asked for while watching, the next action after the stream ends is a list, without a pause."""
    m = watching(thing("a", 5))
    m.resync()
    m.ended(0.5, Unreachable("aborted"))
    assert isinstance(m.action(0.5), FetchPage)
    assert fetch(m, listing(11), now=0.5)
    assert words(m.take()) == ["-a/uid-a"]
    assert isinstance(m.action(0.5), OpenWatch)


def test_the_json_of_events_may_come_in_any_field_order() -> None:
    """`object` before `type` is as good; other fields are ignored."""
    m = watching()
    line = json.dumps({"object": {**thing("b", 11), "extra": [1, {"x": None}]}, "more": 1, "type": "ADDED"}).encode()
    assert feed(m, line + b"\n") == ["+b@11"]


def test_a_restored_cluster_is_noticed_before_the_next_watch() -> None:
    """After each stream the server says at which version it is: lower than ours, its data is a backup's.

    A watch from a version that the server does not have would be silent. What is known is replaced as a whole, even
    what looks the same: it may have been bound since, and is not any more.
    """
    m = watching(thing("a", 5), thing("b", 6), version=40)
    m.ended(60.0, Unreachable("reset"))
    assert m.doubtful
    assert asked(m.action(62.0)) == {"limit": "1"}
    m.version_came(listing(12, thing("a", 5), go_on="t"), 62.0)
    assert (m.astray, m.counts.went_back) == (True, 1)
    assert asked(m.action(62.0)) == {"limit": "500"}
    assert fetch(m, listing(12, thing("a", 5), thing("c", 7)), now=62.0)
    assert words(m.take()) == ["-b/uid-b", "-a/uid-a", "+a@5", "+c@7"]
    m.delivered()
    assert not (m.astray or m.doubtful)
    assert asked(m.action(62.0))["resourceVersion"] == "12"
    assert m.counts.missed_deletes == 0


def test_a_restored_cluster_that_has_passed_our_version_is_noticed_by_an_earlier_object() -> None:
    """A list shows an object in an earlier version than is known. Another one has come to the very version that is.

    So nothing of this list is taken: the next one replaces everything.
    """
    m = watching(thing("a", 5), thing("b", 20), version=40)
    m.ended(60.0, Unreachable("reset"))
    m.version_came(listing(50), 62.0)
    m.resync()
    restored = thing("a", 5), thing("b", 12), thing("c", 45)
    assert not fetch(m, listing(50, *restored), now=62.0)
    assert (m.astray, m.counts.went_back) == (True, 1)
    assert m.phase is Phase.EMPTY
    assert fetch(m, listing(51, *restored), now=62.0)
    assert words(m.take()) == ["-a/uid-a", "+a@5", "-b/uid-b", "+b@12", "+c@45"]
    m.delivered()
    assert (m.astray, m.counts.went_back) == (False, 1)


def test_a_cluster_that_was_not_restored_is_followed_from_where_we_were() -> None:
    """The same version, or a later one."""
    m = watching(thing("a", 5), version=40)
    m.ended(60.0)
    assert isinstance(m.action(60.0), AskVersion)
    m.version_came(listing(40), 60.0)
    assert asked(m.action(60.0))["resourceVersion"] == "40"
    assert not (m.doubtful or m.astray)


def test_nobody_knows_the_version_while_the_server_does_not_answer() -> None:
    """It stays in doubt: a page of a proxy's, an error and silence are no answer."""
    m = watching(thing("a", 5), version=40)
    m.ended(60.0)
    m.version_came(b"<html>", 60.0)
    assert isinstance(m.action(60.0), Pause)
    m.failed(ApiError(503, "ServiceUnavailable"), 61.0)
    m.failed(Unreachable("no answer in time", timed_out=True), 62.0)
    assert m.doubtful
    assert isinstance(m.action(100.0), AskVersion)


def test_a_list_may_be_the_first_to_tell_of_the_backup() -> None:
    """After a 410 the kind is listed anyway; and when the pages themselves go back, the list begins again."""
    m = watching(thing("a", 5), version=40, page_size=1)
    gone_event(60.0, m)
    assert fetch(m, listing(12, thing("a", 5)), now=60.0)
    assert words(m.take()) == ["-a/uid-a", "+a@5"]
    m.delivered()
    m.opened(60.0)
    gone_event(80.0, m)
    assert isinstance(m.action(90.0), FetchPage)
    assert not fetch(m, listing(12, thing("a", 5), go_on="t"), now=90.0)
    assert not fetch(m, listing(11, thing("b", 6)), now=90.0)
    assert asked(m.action(90.0)) == {"limit": "1"}
    assert fetch(m, listing(11, thing("b", 6)), now=90.0)
    assert words(m.take()) == ["-a/uid-a", "+b@6"]


def test_another_kind_may_tell_of_the_backup_while_this_one_lists() -> None:
    """The list under way may be of before, so that another follows it; until then nothing is believed."""
    m = watching(thing("a", 5), page_size=1)
    gone_event(60.0, m)
    fetch(m, listing(12, thing("a", 5), go_on="t"), now=60.0)
    m.stray()
    assert fetch(m, listing(12, thing("b", 6)), now=60.0)
    m.take()
    m.delivered()
    assert m.astray
    assert fetch(m, listing(12, thing("a", 5), thing("b", 6)), now=60.0)
    assert words(m.take()) == ["-a/uid-a", "+a@5", "-b/uid-b", "+b@6"]
    m.delivered()
    assert not m.astray


def test_opening_a_stream_says_nothing_about_objects() -> None:
    """`heard_at` is what the staleness that an administrator is alerted by goes by."""
    m = watching(now=0.0)
    m.ended(67.0, Unreachable("silent", timed_out=True))
    m.opened(68.0)
    assert m.heard_at == 0.0
