"""List and watch as a machine of four phases, without sockets, clock or event loop.

In the spirit of kube-rs' `watcher.rs` (Empty, InitPage, InitListed, Watching: one step at a time) with the rules of
client-go's `tools/cache/reflector.go`: page the LIST and fall back to an unpaged one when a page's snapshot expired,
watch from the list's resourceVersion with bookmarks and a random timeout of five to ten minutes, list again on 410,
watch again from the last version otherwise. Ask for the next `action`, do it, report what came of it; changes
collect in `take()`. `reflector` does the doing.

No LIST names a resourceVersion: an answer is then never older than what we have seen, whichever API server of several
gives it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from podberth.kube.backoff import Backoff
from podberth.kube.changes import Change, Counts, Key, T
from podberth.kube.errors import ApiError, Unreachable, read_status
from podberth.kube.known_objects import KnownObjects
from podberth.kube.lines import LineSplitter
from podberth.kube.wire import MALFORMED, ListMeta, changed_object, list_page, older, read_version, watch_event

WATCH_SECONDS = 300.0  # and up to twice that, as client-go's minWatchTimeout
SHORT_WATCH = 1.0  # s; a stream that ends sooner without an event counts as a failure (client-go: "very short watch")
HEALTHY_WATCH = 10.0  # s; a stream that lived so long lets the backoff start afresh
REFUSED_PAUSE = 10.0  # s, and up to twice that; 403 and 404 end when a person changes something
LIST_SECONDS = 30.0  # for a page
LONGEST_LIST_SECONDS = 300.0  # after time-outs, each of which doubles it; and at once for a list without pages
UNHEARD_LIST_SECONDS = 60.0  # where nothing of the answer came: kube-apiserver itself gives up by then
PAGE_BYTES = 16 << 20  # of a page, if its objects are like those of the last one: its outer shell is read in one go
GROWTH, MOST_GROWTH = 4, 16  # of a page after each 410 between two pages, and how often 500 it may be
ERRORS_BEFORE_RELIST = 3  # ERROR events in a row without one good event between


class Phase(enum.Enum):
    """Where a list/watch stands."""

    EMPTY = "empty"  # nothing usable: list from the start
    LISTING = "listing"  # some pages came, more to fetch
    LISTED = "listed"  # as of a version: watch from it
    WATCHING = "watching"  # a stream is open


class FetchPage(Struct, frozen=True):
    """GET the collection with this query, within so many seconds."""

    query: str
    seconds: float = LIST_SECONDS


class AskVersion(Struct, frozen=True):
    """GET one object of the collection with this query: only the list's resourceVersion is of interest."""

    query: str


class OpenWatch(Struct, frozen=True):
    """GET the collection as a stream with this query."""

    query: str


class Pause(Struct, frozen=True):
    """Ask again after this many seconds."""

    seconds: float


Action: TypeAlias = FetchPage | AskVersion | OpenWatch | Pause


def object_of(line: bytes) -> msgspec.Raw | None:
    """The object that a line of a watch adds or changes, which is to be decoded; None: the line has none."""
    try:
        event = watch_event.decode(line)
    except MALFORMED:
        return None
    return event.object if event.type in ("MODIFIED", "ADDED") else None


class ListWatch(Generic[T]):
    """One kind's list and watch.

    `decode` makes an object of the bytes (of a list item or an event's object; it must copy what it keeps of a
    `msgspec.Raw`), `on_malformed(key or None, error)` hears of the objects it refused. `now` is seconds of one
    monotonic clock. `heard_at` is when the server last said anything about the objects, None before: that it opened a
    stream says nothing about them. `doubtful`: since a stream ended it is not known whether the server's history goes
    on from our position. `astray`: it does not (etcd was restored from a backup), and the list anew is not complete.
    """

    def __init__(
        self,
        decode: Callable[[msgspec.Raw], T],
        *,
        rng: Callable[[], float],
        page_size: int = 500,
        field_selector: str = "",
        label_selector: str = "",
        on_malformed: Callable[[Key | None, Exception], None] | None = None,
    ) -> None:
        self.phase = Phase.EMPTY
        self.synced = False
        self.refused: ApiError | None = None
        self.heard_at: float | None = None
        self.doubtful = False
        self.astray = False
        self.counts = Counts()
        self.objects: KnownObjects[T] = KnownObjects(decode, self.counts, on_malformed)
        self._rng = rng
        self._page_size = self._limit = page_size
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._selectors = {word: text for word, text in selectors.items() if text}
        self._backoff = Backoff(rng)
        self._lines = LineSplitter()
        self._next = ""  # continue token
        self._whole = False  # list without pages
        self._there = False  # it was listed since it was gone last
        self._page: ListMeta | None = None
        self._not_before = 0.0
        self._opened_at = 0.0
        self._good_events = 0  # in this stream
        self._errors_in_row = 0
        self._lists_in_row = 0  # since the last good event
        self._resync = False
        self._seconds = LIST_SECONDS
        self._scale = 1

    def action(self, now: float) -> Action:
        """Return what to do next; not asked for while a stream is open."""
        if self._not_before > now:
            return Pause(self._not_before - now)
        if self._resync and self.phase is Phase.LISTED:
            self.phase = Phase.EMPTY
        if self.phase is Phase.LISTED and self.doubtful:
            return AskVersion(urlencode({"limit": "1", **self._selectors}))
        if self.phase is Phase.LISTED:
            query = {"watch": "true", "resourceVersion": str(self.objects.position), "allowWatchBookmarks": "true"}
            query["timeoutSeconds"] = str(int(WATCH_SECONDS * (1 + self._rng())))
            return OpenWatch(urlencode({**query, **self._selectors}))
        if self.phase is Phase.EMPTY:
            self._start_list()
        page = {} if self._whole else {"limit": str(self._limit)}
        if self._next:
            page["continue"] = self._next
        seconds = LONGEST_LIST_SECONDS if self._whole else self._seconds
        return FetchPage(urlencode({**page, **self._selectors}), seconds)

    def resync(self) -> None:
        """List again at the next occasion (the caller ends an open stream), to repair what a watch may have lost."""
        self._resync = True

    def stray(self) -> None:
        """The server's data is that of a backup: list again, and believe nothing that is known."""
        self.astray = True
        self._resync = True

    @property
    def to_list(self) -> bool:
        """Return whether it was asked to list again, which an open stream would put off."""
        return self._resync

    def take(self) -> list[Change[T]]:
        """The changes collected since the last call, in order."""
        return self.objects.take()

    # -- LIST ----------------------------------------------------------------------------------------------------

    def _start_list(self, *, whole: bool = False) -> None:
        self.phase = Phase.LISTING
        self.objects.restart()
        if self.astray:
            self.objects.renew()
        self._next = ""
        self._whole = whole
        self._resync = False

    def page(self, body: bytes, now: float) -> list[msgspec.Raw]:
        """A page came: its items, each to be given to `objects.listed` before `page_done`.

        What is no list (an object of another kind) has no items, and the same page is asked for again after a pause.
        """
        self.heard_at = now
        try:
            page = list_page.decode(body)
        except MALFORMED:
            self.counts.garbled += 1
            self._page = None
            self._pause(now)
            return []
        if self._judge(page.metadata) and self._next:
            self.phase = Phase.EMPTY  # the pages before are of what no longer is
            return []
        self._page = page.metadata
        items = page.items or []
        most = self._page_size * self._scale
        self._limit = max(1, min(most, PAGE_BYTES * len(items) // len(body))) if items else most
        return items

    def version_came(self, body: bytes, now: float) -> None:
        """The answer to AskVersion."""
        self.heard_at = now
        try:
            self._judge(list_page.decode(body).metadata)
        except MALFORMED:
            self.counts.garbled += 1
            self._pause(now)
        if self.astray:
            self.phase = Phase.EMPTY

    def _judge(self, list_: ListMeta) -> bool:
        """Return whether it turns out that the server's data is that of a backup.

        A list says which version the server is at, and it never was at a later one, unless its data was replaced. (That
        is so since no LIST names a resourceVersion.) A watch from a version that the server does not have yet would
        stay silent until it has.
        """
        self.doubtful = False
        if not older(read_version(list_.resource_version), self.objects.position) or not self.synced or self.astray:
            return False
        self._goes_astray()
        return True

    def _goes_astray(self) -> None:
        self.astray = True
        self.counts.went_back += 1
        self.objects.renew()

    def page_done(self) -> bool:
        """The items were given; True when that was the last page: `take` then holds the difference to before.

        A list never shows an object in an earlier version than was known before it, unless the server's data was
        replaced: then it is another history, though it has passed our position meanwhile. In that one, an object may
        have come to the very version that is known, and differ.
        """
        page = self._page
        if page is None:
            return False
        self._page = None
        self._backoff.reset()
        if self.objects.went_back:
            self._goes_astray()
            self.phase = Phase.EMPTY
            return False
        self._next = page.next
        if page.next:
            return False
        self.objects.finish(page.resource_version)
        self.counts.lists += 1
        self.counts.relists += self.synced
        self._lists_in_row += 1
        self.synced = self._there = True
        self.phase = Phase.LISTED
        self.doubtful = False
        self._seconds = LIST_SECONDS
        self._scale = 1
        return True

    def delivered(self) -> None:
        """The changes of a whole list were delivered: what is known is what the server has."""
        self.astray = self.astray and self._resync

    # -- failures ------------------------------------------------------------------------------------------------

    def failed(self, error: ApiError | Unreachable, now: float) -> bool:
        """A LIST or the opening of a WATCH failed. True when the kind is gone: `take` then deletes everything."""
        self.counts.errors += 1
        if isinstance(error, Unreachable):
            if error.timed_out and error.sent and self.phase is Phase.LISTING:  # not where there was no connection
                self._timed_out(heard=error.heard)
            self._pause(now)
        elif error.status == 410:
            self._expired(now)
        elif error.status in (403, 404):
            return self._refuse(error, now)
        else:
            if error.status < 500 and error.status not in (401, 408, 429):
                self.phase = Phase.EMPTY  # it does not like our query (a token, a version): start over
            self._pause(now, error.retry_after)
        return False

    def _refuse(self, error: ApiError, now: float) -> bool:
        """Not allowed, or no such kind. The rest of the kinds work on, this one asks again slowly.

        A server that has just started may answer 404 for a custom kind; the second time, it means it. What is
        forbidden is still there, so 403 deletes nothing.
        """
        self._not_before = now + max(error.retry_after or 0.0, REFUSED_PAUSE * (1 + self._rng()))
        gone = error.status == 404 and self.refused is not None and self.refused.status == 404
        self.refused = error
        self.phase = Phase.EMPTY
        self._seconds = LIST_SECONDS  # it has answered: what took too long before was no long list
        self.objects.restart()
        if not gone or not self._there:
            return False
        self._there = False
        self.objects.forget()
        return True

    def _timed_out(self, *, heard: bool) -> None:
        """A list took too long: the next one has more time. One without pages is not tried again as it was."""
        self._seconds = min(2 * self._seconds, LONGEST_LIST_SECONDS if heard else UNHEARD_LIST_SECONDS)
        if self._whole:
            self.phase = Phase.EMPTY
            self._scale = MOST_GROWTH
            self._limit = self._page_size * self._scale

    def _expired(self, now: float) -> None:
        self.counts.expired += 1
        listing = self.phase is Phase.LISTING
        if listing and self._next:
            # The pages took longer than the server keeps a version: fewer and larger ones are quicker. When that does
            # not help, none at all, as client-go's pager does at once (FullListIfExpired).
            self._scale *= GROWTH
            self._limit = min(self._limit * GROWTH, self._page_size * self._scale)
            self._start_list(whole=self._scale > MOST_GROWTH)
            return
        self.phase = Phase.EMPTY
        if listing or self._lists_in_row > 1:  # at once only the first time since a good event
            self._pause(now)

    def _pause(self, now: float, at_least: float | None = None) -> None:
        self._not_before = now + self._backoff.failed(now, at_least)

    # -- WATCH ---------------------------------------------------------------------------------------------------

    def opened(self, now: float) -> None:
        """The stream answered 200."""
        self.phase = Phase.WATCHING
        self.refused = None
        self.counts.watches += 1
        self._good_events = 0
        self._opened_at = now
        self._lines.clear()

    def received(self, chunk: bytes, now: float) -> list[bytes]:
        """Bytes came: the whole lines among them, each to be given to `line` while the phase is WATCHING."""
        self.heard_at = now
        return self._lines.feed(chunk)

    def line(self, line: bytes, now: float, decode: Callable[[msgspec.Raw], T] | None = None) -> None:
        """Apply one event; a line that is no event ends the stream, and nothing of it is applied.

        `decode` instead of our own, for an object that was decoded elsewhere.
        """
        changed = changed_object(line)
        if changed is not None and self.objects.try_upsert(changed, decode):
            self._good_events += 1
            self.counts.events += 1
            return
        try:
            event = watch_event.decode(line)
        except MALFORMED:
            self.counts.garbled += 1
            self._end(now)
            self._pause(now)
            return
        word = event.type
        if word == "MODIFIED" or word == "ADDED":
            self.objects.upsert(event.object, decode)
        elif word == "DELETED":
            self.objects.delete(event.object)
        elif word == "BOOKMARK":
            self.objects.bookmark(event.object)
        elif word == "ERROR":
            self._error(ApiError.from_event(read_status(event.object)), now)
            return
        else:
            self.counts.unknown += 1
            return
        self._good_events += 1
        self.counts.events += 1

    def _error(self, error: ApiError, now: float) -> None:
        self.counts.errors += 1
        self._end(now)
        self._errors_in_row += 1
        if error.status == 410 or error.reason in ("Expired", "Gone"):
            self._expired(now)
            return
        if error.status not in (429, 500, 503, 504) or self._errors_in_row >= ERRORS_BEFORE_RELIST:
            self.phase = Phase.EMPTY
            self._errors_in_row = 0
        self._pause(now, error.retry_after)

    def ended(self, now: float, lost: Unreachable | None = None) -> None:
        """The stream is over: by the server's timeout (`lost` is None), silence, or a broken connection."""
        if self._lines.cut:
            self.counts.cut += 1
        self._lines.clear()
        if self.phase is not Phase.WATCHING:
            return  # a line said why already
        brief = now - self._opened_at < SHORT_WATCH and not self._good_events
        self._end(now)
        if self._resync:
            return  # we ended it ourselves
        if lost is not None and lost.timed_out:
            self.counts.stalls += 1  # no pause: connecting again shows soon enough whether the server is there
        elif lost is not None or brief:
            self.counts.errors += 1
            self._pause(now)

    def _end(self, now: float) -> None:
        self.phase = Phase.LISTED
        self.doubtful = True
        self.counts.reconnects += 1
        if now - self._opened_at >= HEALTHY_WATCH:
            self._backoff.reset()
        if self._good_events:
            self._errors_in_row = 0
            self._lists_in_row = 0
