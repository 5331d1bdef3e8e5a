"""Objects, revisions and history: what etcd and the watch cache are to the real server.

Events are stored once and served by two groups: they are translated between the core and the events.k8s.io form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules.status import JsonObject

# events.k8s.io name → core name; what is absent here has one name in both.
_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: name for name, core in _TO_CORE.items()}
encode = msgspec.json.Encoder().encode
# A real server has used up some revisions by the time it serves; clients that start from 1 are too late on both.
FIRST_REVISION = 100


def to_core(event: JsonObject) -> JsonObject:
    """Return an events.k8s.io event in its stored form."""
    return {_TO_CORE.get(name, name): value for name, value in event.items()}


def from_core(event: JsonObject) -> JsonObject:
    """Return a stored event as events.k8s.io shows it."""
    return {
        _FROM_CORE.get(name, name): value
        for name, value in event.items()
        if value or name not in {"reportingComponent", "reportingInstance"}
    }


def set_defaults(event: JsonObject) -> None:
    """Fields that the core form always shows, also when empty."""
    event.setdefault("involvedObject", {})
    event.setdefault("source", {})
    event.setdefault("firstTimestamp", None)
    event.setdefault("lastTimestamp", None)
    event.setdefault("eventTime", None)
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")


class Stored:
    """One version of one object: the parsed form, and its bytes from `"metadata":` on."""

    __slots__ = ("_views", "key", "obj", "rest", "revision")

    def __init__(self, key: str, obj: JsonObject, revision: int) -> None:
        self.key = key
        self.obj = obj
        self.revision = revision
        # An object with nothing beside kind and apiVersion can't occur: metadata is always there.
        self.rest = encode(obj)[1:]
        self._views: dict[str, bytes] = {}

    def rest_in(self, resource: Resource) -> bytes:
        """Return the bytes after kind and apiVersion, in the resource's own version."""
        if not resource.view:
            return self.rest
        if resource.view not in self._views:
            self._views[resource.view] = encode(from_core(self.obj))[1:]
        return self._views[resource.view]

    def full(self, resource: Resource) -> bytes:
        """Return the whole object as a get returns it."""
        return resource.prefix + self.rest_in(resource)

    def item(self, resource: Resource) -> bytes:
        """Return the object as an item of a list."""
        return resource.item_prefix + self.rest_in(resource)

    @property
    def uid(self) -> str:
        """Return the object's uid."""
        uid: str = self.obj["metadata"].get("uid", "")
        return uid

    def at(self, revision: int) -> Stored:
        """Return the object under a later revision, as DELETED events carry it."""
        return Stored(self.key, with_revision(self.obj, revision), revision)


def with_revision(obj: JsonObject, revision: int) -> JsonObject:
    """Return the object with its resourceVersion set; nothing deeper than metadata is copied."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


class Change:
    """One event in a collection's history, with the watch lines that were already made from it."""

    __slots__ = ("lines", "new", "old", "revision", "type")

    def __init__(self, type_: str, new: Stored, old: Stored | None) -> None:
        self.type = type_
        self.new = new
        self.old = old
        self.revision = new.revision
        self.lines: dict[tuple[str, bytes], bytes] = {}


class Listener(Protocol):
    """Whoever wants to hear of changes as they happen."""

    def offer(self, change: Change) -> None:
        """Take notice of one change."""


class Collection:
    """A kind's objects, with the tail of their history."""

    def __init__(self, history: int, oldest: int) -> None:
        self.items: dict[str, Stored] = {}
        self.history: deque[Change] = deque()
        self.listeners: dict[Listener, None] = {}
        """Watches in the order in which they came."""
        # The lowest resourceVersion from which a watch still sees everything.
        self.oldest = oldest
        self._limit = history
        self._ordered: list[Stored] | None = None

    def ordered(self) -> list[Stored]:
        """Return all objects in key order; the list is shared and must not be changed."""
        if self._ordered is None:
            self._ordered = [self.items[key] for key in sorted(self.items)]
        return self._ordered

    def replace(self, items: dict[str, Stored]) -> None:
        """Have these objects instead, and no history: what a restore from a backup does."""
        self.items = items
        self.history.clear()
        self._ordered = None

    def record(self, change: Change) -> None:
        """Put a change into effect, keep it, and tell the listeners."""
        if change.type == "DELETED":
            del self.items[change.new.key]
        else:
            self.items[change.new.key] = change.new
        self._ordered = None
        self.history.append(change)
        while len(self.history) > self._limit:
            self.oldest = self.history.popleft().revision
        for listener in list(self.listeners):
            listener.offer(change)

    def compact(self, revision: int) -> None:
        """Forget the history up to a revision."""
        while self.history and self.history[0].revision <= revision:
            self.history.popleft()
        self.oldest = max(self.oldest, revision)

    def since(self, revision: int) -> Iterator[Change]:
        """Return the changes after a revision, oldest first."""
        # Watches mostly start near the end, so look from there.
        late: list[Change] = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            late.append(change)
        return reversed(late)


class Store:
    """The collections of all kinds under one revision counter."""

    def __init__(self, history: int = 20_000) -> None:
        self.revision = FIRST_REVISION
        self.compacted = 0
        self._history = history
        self.collections: dict[str, Collection] = {}
        # Called after each write with the resource's collection name: CRDs and webhooks are served from here.
        self.on_write: dict[str, Callable[[], None]] = {}

    def collection(self, name: str) -> Collection:
        """Return the collection of a name; made on first use."""
        found = self.collections.get(name)
        if found is None:
            found = self.collections[name] = Collection(self._history, max(self.compacted, FIRST_REVISION))
        return found

    def get(self, resource: Resource, key: str) -> Stored | None:
        """Return one object, or None."""
        return self.collection(resource.collection).items.get(key)

    def create(self, resource: Resource, key: str, obj: JsonObject) -> Stored:
        """Add an object; the caller has made sure that the key is free."""
        self.revision += 1
        stored = Stored(key, with_revision(obj, self.revision), self.revision)
        return self._commit(resource, Change("ADDED", stored, None))

    def update(self, resource: Resource, old: Stored, obj: JsonObject) -> Stored:
        """Replace an object; a write that changes nothing makes no new revision, as on etcd."""
        if with_revision(obj, old.revision) == old.obj:
            return old
        self.revision += 1
        stored = Stored(old.key, with_revision(obj, self.revision), self.revision)
        return self._commit(resource, Change("MODIFIED", stored, old))

    def delete(self, resource: Resource, old: Stored, last: JsonObject | None = None) -> Stored:
        """Remove an object; its last state is kept in the history."""
        self.revision += 1
        gone = Stored(old.key, with_revision(last or old.obj, self.revision), self.revision)
        return self._commit(resource, Change("DELETED", gone, old))

    def _commit(self, resource: Resource, change: Change) -> Stored:
        self.collection(resource.collection).record(change)
        if notify := self.on_write.get(resource.collection):
            notify()
        return change.new

    def compact(self, revision: int | None = None) -> None:
        """Forget all history up to a revision (by default: everything), so that older watches get 410."""
        self.compacted = self.revision if revision is None else revision
        for collection in self.collections.values():
            collection.compact(self.compacted)

    def drop(self, name: str) -> None:
        """Forget a collection altogether, when its CRD went away; its objects are deleted, which watches show."""
        collection = self.collections.pop(name, None)
        if collection is None:
            return
        for stored in collection.ordered():
            self.revision += 1
            collection.record(Change("DELETED", stored.at(self.revision), stored))

    def objects(self, name: str) -> list[JsonObject]:
        """Return the parsed objects of a collection, for tests that look inside; don't change them."""
        return [stored.obj for stored in self.collection(name).ordered()]
