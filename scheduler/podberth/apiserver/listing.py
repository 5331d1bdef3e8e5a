"""Lists and watches.

A list is paged over one consistent snapshot, by the resourceVersion rules. A watch is the stream of changes that one
client sees through its selectors.
"""

from __future__ import annotations

import asyncio
import base64
import json
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules.selectors import Selection
from podberth.apiserver.rules.status import (
    FieldError,
    StatusError,
    bad_request,
    expired,
    forbidden_field,
    invalid,
    invalid_value,
    too_large_version,
)
from podberth.apiserver.storage import Change, Collection, Store, Stored

Query = Mapping[str, str]
KEPT_SNAPSHOTS = 64

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
# A client that lets this many lines pile up is cut off, as the real watch cache does with its slow readers.
PENDING_LIMIT = 200_000


def flag(query: Query, name: str) -> bool:
    """Return a boolean parameter in Go's spellings; an empty value counts as true, as in `?watch=`."""
    return name in query and query[name].lower() not in {"false", "0", "f"}


def _number(query: Query, name: str) -> int:
    """Return a parameter that is a whole number; 0 when unset."""
    text = query.get(name, "")
    if text and not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def version(query: Query, watching: bool = False) -> int | None:
    """Return the resourceVersion parameter: None when unset."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdecimal():
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        problem = invalid_value("resourceVersion", text, detail)
        # Lists and watches differ here: storage finds out for a watch, and its error has no Status of its own.
        raise StatusError(500, "", str(problem)) if watching else bad_request(f"invalid resource version: {problem}")
    return int(text)


def check_options(query: Query, watching: bool) -> None:
    """Refuse parameters that are not served here, as ValidateListOptions refuses those of a gate that is off."""
    errors = list(_unserved(query, watching))
    if errors:
        raise invalid("meta.k8s.io", "ListOptions", "", errors)


def _unserved(query: Query, watching: bool) -> Iterator[FieldError]:
    field = "sendInitialEvents"
    if field in query:
        gate = " unless the WatchList feature gate is enabled"
        yield forbidden_field(field, f"{field} is forbidden for {'watch' + gate if watching else 'list'}")
    if "resourceVersionMatch" in query:
        yield forbidden_field("resourceVersionMatch", "the embedded API server lists the present only")


def watch_options(query: Query, store: Store, longest: float) -> WatchOptions:
    """Return the parameters of a watch."""
    check_options(query, watching=True)
    since = version(query, watching=True)
    return WatchOptions(
        since=since or None,
        bookmarks=flag(query, "allowWatchBookmarks"),
        timeout=float(_number(query, "timeoutSeconds") or longest),
    )


def _token(revision: int, after: str) -> str:
    body = {"v": "meta.k8s.io/v1", "rv": revision, "start": after + "\0"}
    return base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        body = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(body["rv"]), str(body["start"]).removesuffix("\0")
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


class Lists:
    """Answers list requests; keeps the snapshots that unfinished paged lists are read from."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[tuple[str, int], list[Stored]] = OrderedDict()

    def render(self, resource: Resource, namespace: str, query: Query) -> bytes:
        """Return the whole list, or one page of it."""
        selection = Selection(resource, namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        return self.encoded(resource, *self.select(resource, selection, query))

    def select(self, resource: Resource, selection: Selection, query: Query) -> tuple[list[Stored], dict[str, Any]]:
        """Return the selected objects of one page, and the list's metadata."""
        check_options(query, watching=False)
        limit = _number(query, "limit")
        objects, revision, after = self._snapshot(resource, query)
        if after:
            start = bisect_left(objects, after, key=lambda stored: stored.key)
            if start < len(objects) and objects[start].key == after:
                start += 1
            objects = objects[start:]
        chosen = [stored for stored in objects if selection.accepts(stored.key, stored.obj)]
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if limit and len(chosen) > limit:
            self._keep(resource, revision)
            metadata["continue"] = _token(revision, chosen[limit - 1].key)
            if selection.is_everything:
                metadata["remainingItemCount"] = len(chosen) - limit
            chosen = chosen[:limit]
        return chosen, metadata

    def _snapshot(self, resource: Resource, query: Query) -> tuple[list[Stored], int, str]:
        """Return the objects to list from, their revision, and the key after which this page starts."""
        store = self._store
        current = store.collection(resource.collection).ordered()
        if token := query.get("continue", ""):
            revision, after = _read_token(token)
            asked = version(query)
            if asked is not None and asked != 0:
                raise bad_request("specifying resource version is not allowed when using continue")
            if revision < 0:
                return current, store.revision, after
            kept = self._snapshots.get((resource.collection, revision))
            if kept is None or revision < store.compacted:
                raise expired(_TOO_OLD, {"continue": _token(-1, after)})
            return kept, revision, after
        asked = version(query)
        if asked is not None and asked > store.revision:
            raise too_large_version(asked, store.revision)
        return current, store.revision, ""

    def _keep(self, resource: Resource, revision: int) -> None:
        key = (resource.collection, revision)
        if revision == self._store.revision:
            self._snapshots[key] = self._store.collection(resource.collection).ordered()
        if key in self._snapshots:
            self._snapshots.move_to_end(key)
        while len(self._snapshots) > KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)

    def encoded(self, resource: Resource, chosen: list[Stored], metadata: dict[str, Any]) -> bytes:
        """Return a list of these objects, as a list request is answered."""
        head = b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % (
            msgspec.json.encode(resource.listed_as),
            msgspec.json.encode(resource.api_version),
            msgspec.json.encode(metadata),
        )
        return head + b",".join([stored.item(resource) for stored in chosen]) + b"]}"


def line(type_: str, body: bytes) -> bytes:
    """Return one watch event on the wire."""
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), body)


def error_line(error: StatusError) -> bytes:
    """Return an ERROR event: how a watch that has begun says that it can't go on."""
    return line("ERROR", msgspec.json.encode(error.body()))


@dataclass(frozen=True)
class WatchOptions:
    """The parameters of one watch request."""

    since: int | None  # None: start with what is there now
    bookmarks: bool
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

    def _bookmark(self) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        return line("BOOKMARK", self._resource.prefix + msgspec.json.encode({"metadata": metadata})[1:])

    def _begin(self, options: WatchOptions) -> None:
        if options.since is not None:
            for change in self._collection.since(options.since):
                self.offer(change)
            return
        for stored in self._collection.ordered():
            if self._selection.accepts(stored.key, stored.obj):
                self._pending.append(line("ADDED", stored.full(self._resource)))

    async def stream(self, options: WatchOptions, bookmark_interval: float) -> AsyncGenerator[bytes, None]:
        """Yield the lines to send, as joined chunks, until the timeout or the end of the server."""
        if options.since is not None and options.since < self._collection.oldest:
            too_old = f"too old resource version: {options.since} ({self._collection.oldest})"
            yield error_line(expired(too_old))
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
