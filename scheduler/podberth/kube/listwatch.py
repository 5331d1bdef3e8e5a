"""List and watch as a machine of four phases, without sockets, clock or event loop, and the objects that it knows.

In the spirit of kube-rs' `watcher.rs` (Empty, InitPage, InitListed, Watching: one step at a time) with the rules of
client-go's `tools/cache/reflector.go`: page the LIST and fall back to an unpaged one when a page's snapshot expired,
watch from the list's resourceVersion with bookmarks and a random timeout of five to ten minutes, list again on 410,
watch again from the last version otherwise. Ask for the next `action`, do it, report what came of it; changes
collect until `take()`. `reflector` does the doing.

No LIST names a resourceVersion: an answer is then never older than what we have seen, whichever API server of several
gives it.

`KnownObjects` has (namespace, name) → (uid, resourceVersion), never the objects, as client-go's DeltaFIFO asks of its
knownObjects. A list is compared with that, so that deletions which no watch reported are found. A watch event is
applied only if it is newer; repeated and late ones are counted and dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from podberth.kube.errors import ApiError, Unreachable, read_status
from podberth.kube.flow import Backoff
from podberth.kube.objects import (
    MALFORMED,
    Added,
    Change,
    Deleted,
    Key,
    ListMeta,
    Meta,
    T,
    Updated,
    Version,
    changed_object,
    list_page,
    older,
    partial,
    read_version,
    watch_event,
)

WATCH_SECONDS = 300.0  # and up to twice that, as client-go's minWatchTimeout
SHORT_WATCH = 1.0  # s; a stream that ends sooner without an event counts as a failure (client-go: "very short watch")
HEALTHY_WATCH = 10.0  # s; a stream that lived so long lets the backoff start afresh
REFUSED_PAUSE = 10.0  # s, and up to twice that; 403 and 404 end when a person changes something
PAGE_SIZE = 500
LIST_SECONDS = 30.0  # for a page
LONGEST_LIST_SECONDS = 300.0  # after time-outs, each of which doubles it; and at once for a list without pages
UNHEARD_LIST_SECONDS = 60.0  # where nothing of the answer came: kube-apiserver itself gives up by then
PAGE_BYTES = 16 << 20  # of a page, if its objects are like those of the last one: its outer shell is read in one go
GROWTH, MOST_GROWTH = 4, 16  # of a page after each 410 between two pages, and how often 500 it may be
ERRORS_BEFORE_RELIST = 3  # ERROR events in a row without one good event between
TOMBSTONES = 8192  # deleted keys remembered, to tell a late event from a new object


class Counts(Struct):
    """Counts of the problems that a list or watch has had since the start, for metrics."""

    lists: int = 0  # complete ones
    relists: int = 0  # complete ones after the first
    watches: int = 0  # streams opened
    reconnects: int = 0  # streams that ended, whatever the reason
    events: int = 0  # lines applied, bookmarks included
    bookmarks: int = 0
    errors: int = 0  # ERROR events, refused requests, lost connections
    expired: int = 0  # 410, in whichever form it came
    stalls: int = 0  # streams given up because no byte came: dead paths, but quiet kinds too (see reflector)
    cut: int = 0  # streams that ended within a line
    garbled: int = 0  # lines or pages that were no JSON of the expected shape
    malformed: int = 0  # objects that the caller's decoder refused
    unknown: int = 0  # events of a type that we do not know
    duplicates: int = 0  # events that repeat what is known
    older: int = 0  # events that are older than what is known
    missed_deletes: int = 0  # deletions that only a relist showed
    checks: int = 0  # cross-checks that were made to the end
    lost: int = 0  # objects that a cross-check found to differ, and no event came
    went_back: int = 0  # times that the server was at an earlier version than before: its data is a backup's


class KnownObjects(Generic[T]):
    """Known objects of one kind; changes collect until `take`."""

    def __init__(
        self,
        decode: Callable[[msgspec.Raw], T],
        counts: Counts,
        on_malformed: Callable[[Key | None, Exception], None] | None = None,
    ) -> None:
        self.known: dict[Key, tuple[str, Version]] = {}
        self.position: Version = ""
        self.unreadable: dict[Key, tuple[str, Version]] = {}
        """Objects that are there in a version that the decoder refused."""
        self.on_deleted: Callable[[msgspec.Raw], None] | None = None
        """Gets each known object that a watch says was deleted, as it was at last."""
        self.went_back = False
        """The list under way shows an object in an earlier version than is known."""
        self._anew = False
        self._decode = decode
        self._counts = counts
        self._on_malformed = on_malformed
        self._changes: list[Change[T]] = []
        self._fresh: dict[Key, tuple[str, Version]] = {}
        self._buried: dict[Key, Version] = {}

    def take(self) -> list[Change[T]]:
        """Return the changes collected since the last call, in order."""
        changes = self._changes
        self._changes = []
        return changes

    def doubt(self) -> None:
        """Treat every known object as changed, so that the next list delivers all of them again."""
        self.known = {key: (uid, "") for key, (uid, _) in self.known.items()}
        self._fresh = {key: (uid, "") for key, (uid, _) in self._fresh.items()}

    def renew(self) -> None:
        """Have the next list replace everything: what is known is of a history that did not happen.

        Each object is then delivered as Deleted and Added, so that nothing that was concluded from it is left.
        """
        self._anew = True

    def is_gone(self, key: Key, version: Version) -> bool:
        """Return whether a deletion of the key, later than this version, was delivered lately."""
        return key in self._buried and not older(self._buried[key], version)

    def deleted_at(self, key: Key) -> Version:
        """Return the version of the latest deletion of the key that was delivered; empty if there was none lately."""
        return self._buried.get(key, "")

    # -- a list --------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """A list begins; drop what came of an unfinished one."""
        self._fresh = {}
        self._changes = []
        self.unreadable = {}
        self.went_back = False

    def listed(self, raw: msgspec.Raw, decode: Callable[[msgspec.Raw], T] | None = None) -> None:
        """One item of the list; `decode` instead of our own, for one that was decoded elsewhere."""
        try:
            found = (decode or self._decode)(raw)
        except MALFORMED as error:
            self._keep(raw, error)
            return
        key = (found.namespace, found.name)
        uid = found.uid
        version = read_version(found.resource_version)
        self._fresh[key] = (uid, version)
        before = self.known.get(key)
        if before is None:
            self._changes.append(Added(found))
        elif self._anew:
            self._changes += (Deleted(*key, before[0]), Added(found))
        elif before[0] != uid:
            self._replace(key, before[0], found)
        elif before[1] != version:
            self._changes.append(Updated(found))
            self.went_back = self.went_back or older(version, before[1])

    def _keep(self, raw: msgspec.Raw, error: Exception) -> None:
        """The object is still there, only unreadable: what was known of it stays, it is not taken for deleted."""
        meta = self._report(raw, error)
        if meta is not None:
            key = (meta.namespace, meta.name)
            before = self.known.get(key)
            if before is not None and before[0] == meta.uid:
                self._fresh[key] = before

    def finish(self, version: str) -> None:
        """The list is complete as of `version`: what it does not hold is gone."""
        fresh = self._fresh
        known = self.known
        gone: list[Change[T]] = [Deleted(*key, known[key][0]) for key in sorted(known.keys() - fresh.keys())]
        self._counts.missed_deletes += 0 if self._anew else len(gone)
        self._changes = gone + self._changes  # first what frees room
        self.known = fresh
        self._fresh = {}
        self._buried = {}
        self._anew = False
        self.position = read_version(version)

    def forget(self) -> None:
        """The kind itself is gone: everything is deleted."""
        self._changes = [Deleted(*key, uid) for key, (uid, _) in self.known.items()]
        self.known = {}

    # -- a watch -------------------------------------------------------------------------------------------------

    def upsert(self, raw: msgspec.Raw, decode: Callable[[msgspec.Raw], T] | None = None) -> None:
        """An ADDED or MODIFIED event; which of both it says does not matter, only what is known does.

        `decode`: as for `listed`.
        """
        try:
            found = (decode or self._decode)(raw)
        except MALFORMED as error:
            meta = self._report(raw, error)
            if meta is not None:
                self.advance(meta.resource_version)
            return
        self.put(found)

    def put(self, found: T) -> None:
        """An object that was added or changed."""
        key = (found.namespace, found.name)
        uid = found.uid
        version = read_version(found.resource_version)
        before = self.known.get(key)
        if before is None:
            # late, and of something deleted since: it would rise from the dead
            if older(version, self.position) and older(version, self._buried.get(key, "")):
                self._counts.older += 1
                return
            self._changes.append(Added(found))
        elif version == before[1]:
            self._counts.duplicates += 1
            return
        elif older(version, before[1]):
            self._counts.older += 1
            return
        elif uid == before[0]:
            self._changes.append(Updated(found))
        else:
            self._replace(key, before[0], found)
        self.known[key] = (uid, version)
        self.unreadable.pop(key, None)
        if not older(version, self.position):
            self.position = version

    def _replace(self, key: Key, uid: str, found: T) -> None:
        self._changes.append(Deleted(*key, uid))
        self._changes.append(Added(found))
        self._counts.missed_deletes += 1

    def delete(self, raw: msgspec.Raw) -> None:
        """A DELETED event. Only the metadata is read: an object that nobody can decode can still be deleted."""
        try:
            meta = partial.decode(raw).metadata
        except MALFORMED as error:
            self._counts.malformed += 1
            if self._on_malformed is not None:
                self._on_malformed(None, error)
            return
        key = (meta.namespace, meta.name)
        version = read_version(meta.resource_version)
        before = self.known.get(key)
        self.unreadable.pop(key, None)
        if before is None:
            self._counts.duplicates += 1
        elif older(version, before[1]):
            self._counts.older += 1
        else:
            del self.known[key]
            self._changes.append(Deleted(*key, before[0]))
            if self.on_deleted is not None:
                self.on_deleted(raw)
            self._buried.pop(key, None)
            self._buried[key] = version
            if len(self._buried) > TOMBSTONES:
                del self._buried[next(iter(self._buried))]
        self.advance(meta.resource_version)

    def bookmark(self, raw: msgspec.Raw) -> None:
        """A BOOKMARK: nothing changed up to its version."""
        try:
            self.advance(partial.decode(raw).metadata.resource_version)
        except MALFORMED:
            self._counts.garbled += 1
            return
        self._counts.bookmarks += 1

    def advance(self, text: str) -> None:
        """Everything up to this resourceVersion is applied."""
        version = read_version(text)
        if version and not older(version, self.position):
            self.position = version

    def _report(self, raw: msgspec.Raw, error: Exception) -> Meta | None:
        """Count and tell of an object that the decoder refused; return its metadata if that much can be read."""
        self._counts.malformed += 1
        meta: Meta | None
        try:
            meta = partial.decode(raw).metadata
        except MALFORMED:
            meta = None
        else:
            self.unreadable[meta.namespace, meta.name] = (meta.uid, read_version(meta.resource_version))
        if self._on_malformed is not None:
            self._on_malformed((meta.namespace, meta.name) if meta is not None else None, error)
        return meta


class LineSplitter:
    """Cuts a watch's byte stream into lines, whatever the chunks; linear in the bytes also for many megabytes.

    A watch is one JSON document a line (client-go frames it with a JSON decoder; the server writes a newline after
    each). Only whole lines come out, so an event that the network cut in two is never seen half.
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their newline and without empty ones."""
        end = chunk.find(b"\n")
        if end < 0:
            if chunk:
                self._parts.append(chunk)  # joined once, when the newline comes: no quadratic copying
            return []
        lines = chunk.split(b"\n")
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if rest := lines.pop():
            self._parts.append(rest)
        return [line for line in lines if line and not line.isspace()]

    @property
    def cut(self) -> bool:
        """Return whether an unfinished line is held back."""
        return bool(self._parts)

    def clear(self) -> None:
        """Drop what is held back: the stream it belonged to is gone."""
        self._parts.clear()


class Phase(enum.Enum):
    """The phase that a list/watch is in."""

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
    """Return the object that a line of a watch adds or changes, which is to be decoded; None: the line has none."""
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
        page_size: int = PAGE_SIZE,
        field_selector: str = "",
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
        self.take = self.objects.take
        self._decode = decode
        self._rng = rng
        self._page_size = self._limit = page_size
        self.selectors = {"fieldSelector": field_selector} if field_selector else {}
        """Parts of each query."""
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
            return AskVersion(urlencode({"limit": "1", **self.selectors}))
        if self.phase is Phase.LISTED:
            query = {"watch": "true", "resourceVersion": str(self.objects.position), "allowWatchBookmarks": "true"}
            query["timeoutSeconds"] = str(int(WATCH_SECONDS * (1 + self._rng())))
            return OpenWatch(urlencode({**query, **self.selectors}))
        if self.phase is Phase.EMPTY:
            self._start_list()
        page = {} if self._whole else {"limit": str(self._limit)}
        if self._next:
            page["continue"] = self._next
        seconds = LONGEST_LIST_SECONDS if self._whole else self._seconds
        return FetchPage(urlencode({**page, **self.selectors}), seconds)

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
        """Return the items of a page that came, each to be given to `objects.listed` before `page_done`.

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
        """Return whether the page whose items were given was the last one: `take` then has the difference to before.

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
        """Take note of a failed LIST or WATCH; return whether the kind is gone: `take` then deletes everything."""
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
        """Ask again slowly for a kind that is not allowed, or not there. The other kinds work on.

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
        """Take in bytes; return the whole lines among them, each to be given to `line` while the phase is WATCHING."""
        self.heard_at = now
        return self._lines.feed(chunk)

    def line(self, line: bytes, now: float, decode: Callable[[msgspec.Raw], T] | None = None) -> None:
        """Apply one event; a line that is no event ends the stream, and nothing of it is applied.

        `decode` instead of our own, for an object that was decoded elsewhere.
        """
        changed = changed_object(line)
        if changed is not None:
            try:
                found = (decode or self._decode)(changed)
            except MALFORMED:
                pass  # it may be another kind of line
            else:
                self.objects.put(found)
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
