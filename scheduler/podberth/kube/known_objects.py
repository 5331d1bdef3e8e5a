"""Which objects of a kind are known, and the changes that follow from lists and watch events.

It keeps (namespace, name) → (uid, resourceVersion), never the objects. A list is compared with that, so that deletions
which no watch reported are found. A watch event is applied only if it is newer; repeated and late ones are counted and
dropped. `listwatch` feeds this; `reflector` takes the changes with `take`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import msgspec

from podberth.kube.changes import Added, Change, Counts, Deleted, Key, T, Updated
from podberth.kube.wire import MALFORMED, Meta, Version, older, partial, read_version

TOMBSTONES = 8192  # deleted keys remembered, to tell a late event from a new object


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
        """Whether the list under way shows an object in an earlier version than is known."""
        self._anew = False
        self._decode = decode
        self._counts = counts
        self._on_malformed = on_malformed
        self._changes: list[Change[T]] = []
        self._fresh: dict[Key, tuple[str, Version]] = {}
        self._buried: dict[Key, Version] = {}

    def take(self) -> list[Change[T]]:
        """The changes collected since the last call, in order."""
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
        """The version of the latest deletion of the key that was delivered; empty if there was none lately."""
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

    def try_upsert(self, raw: msgspec.Raw, decode: Callable[[msgspec.Raw], T] | None = None) -> bool:
        """As `upsert`, if the object can be decoded; otherwise nothing is done, and the answer is False."""
        try:
            found = (decode or self._decode)(raw)
        except MALFORMED:
            return False
        self.put(found)
        return True

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
        """Count and tell of an object that the decoder refused; its metadata if that much can be read."""
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
