"""Watches: the stream of changes that one client sees through its selectors.

Upstream: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go (convertToWatchEvent), pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec

from podberth.apiserver.resources import Resource
from podberth.apiserver.selectors import Selection
from podberth.apiserver.status import StatusError, expired, too_large_version
from podberth.apiserver.storage import Change, Collection, Store, Stored

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# A client that lets this many lines pile up is cut off, as the real watch cache does with its slow readers.
PENDING_LIMIT = 200_000


def line(type_: str, body: bytes) -> bytes:
    """One watch event on the wire."""
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), body)


def error_line(error: StatusError) -> bytes:
    """An ERROR event: how a watch that has begun says that it can't go on."""
    return line("ERROR", msgspec.json.encode(error.body()))


@dataclass(frozen=True)
class WatchOptions:
    """The parameters of one watch request."""

    since: int | None  # None: start with what is there now
    initial_events: bool
    bookmarks: bool
    announces_end: bool  # sendInitialEvents: a bookmark marks the end of the initial events
    timeout: float


class Watcher:
    """One client's view of a collection: filters changes and queues the lines to send."""

    def __init__(self, resource: Resource, store: Store, selection: Selection) -> None:
        self._resource = resource
        self._store = store
        self._collection: Collection = store.collection(resource.collection)
        self._selection = selection
        self._pending: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._ended = False

    def offer(self, change: Change) -> None:
        """Queue the line for a change, if this client is to see it."""
        translated = self._translate(change)
        if translated is None:
            return
        self._pending.append(translated)
        self._wake.set()
        if len(self._pending) > PENDING_LIMIT:
            self.end()

    def end(self) -> None:
        """Finish the stream after what is queued."""
        self._ended = True
        self._wake.set()

    def _translate(self, change: Change) -> bytes | None:
        """Return what a change looks like through the selection: an object leaving it is DELETED, one entering it
        ADDED.
        """
        if self._selection.is_everything:
            if not self._selection.accepts(change.new.key, change.new.obj):
                return None
            return self._line(change.type, change, change.new)
        before = change.old is not None and self._selection.accepts(change.old.key, change.old.obj)
        after = change.type != "DELETED" and self._selection.accepts(change.new.key, change.new.obj)
        if before and after:
            return self._line("MODIFIED", change, change.new)
        if after:
            return self._line("ADDED", change, change.new)
        if before and change.old is not None:
            # The state in which it was last selected, under the revision at which it left.
            last = change.new if change.type == "DELETED" else change.old.at(change.revision)
            return self._line("DELETED", change, last)
        return None

    def _line(self, type_: str, change: Change, stored: Stored) -> bytes:
        cached = change.lines.get((type_, self._resource.prefix))
        if cached is None:
            cached = change.lines[type_, self._resource.prefix] = line(type_, stored.full(self._resource))
        return cached

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return line("BOOKMARK", self._resource.prefix + msgspec.json.encode({"metadata": metadata})[1:])

    def _begin(self, options: WatchOptions) -> None:
        if options.since is not None and not options.initial_events:
            for change in self._collection.since(options.since):
                self.offer(change)
        if options.initial_events:
            for stored in self._collection.ordered():
                if self._selection.accepts(stored.key, stored.obj):
                    self._pending.append(line("ADDED", stored.full(self._resource)))
        if options.announces_end and options.bookmarks:
            self._pending.append(self._bookmark({INITIAL_EVENTS_END: "true"}))

    async def stream(self, options: WatchOptions, bookmark_interval: float) -> AsyncGenerator[bytes, None]:
        """The lines to send, as joined chunks, until the timeout or the end of the server."""
        if options.since is not None and not options.initial_events and options.since < self._collection.oldest:
            too_old = f"too old resource version: {options.since} ({self._collection.oldest})"
            yield error_line(expired(too_old))
            return
        if options.announces_end and options.since is not None and options.since > self._store.revision:
            yield error_line(too_large_version(options.since, self._store.revision))
            return
        self._begin(options)
        self._collection.listeners[self] = None
        clock = asyncio.get_running_loop().time
        try:
            deadline = clock() + options.timeout
            next_bookmark = clock() + bookmark_interval
            while True:
                if self._pending:
                    chunk = b"".join(self._pending)
                    self._pending.clear()
                    yield chunk
                    continue
                if self._ended:
                    return
                now = clock()
                if now >= deadline:
                    if options.bookmarks:
                        yield self._bookmark()
                    return
                if options.bookmarks and now >= next_bookmark:
                    next_bookmark = now + bookmark_interval
                    yield self._bookmark()
                    continue
                self._wake.clear()
                wait_until = min(deadline, next_bookmark) if options.bookmarks else deadline
                try:
                    async with asyncio.timeout(wait_until - now):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            self._collection.listeners.pop(self, None)
