"""Results that are kept between questions, keyed by the versions of what they were computed from.

Code that changes something bumps its version, mostly by an entry in a `ChangeLog`, and calls nothing. Code that keeps a
result compares versions when the result is needed (`KeptResult`). So neither has to know the other, and a change costs
the same however much is kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

KEPT = 8_192
"""The least number of changes that a log remembers; it may hold twice as many. A reader that is further behind computes
everything, which costs less than as many single changes unless there are ten times as many nodes.
"""
FEW = 1_024
"""The same for logs whose changes take their reader some microseconds each, in one turn."""
_OFFERED = 10_000
"""The number of keys that were seen once and are remembered."""
_LOOK = 64
"""The number of things that are kept between two checks of the memory that all of them take."""

Entry = TypeVar("Entry", bound=Hashable)
Changes = TypeVar("Changes")
Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class ChangeLog(Generic[Entry]):
    """An append-only list of what changed, in order, that forgets its beginning."""

    def __init__(self, start: int = 0, kept: int | None = None) -> None:
        """`start`: the first version. For an older version, `since` returns None.

        `kept`: how many changes are remembered at least, and up to twice as many; `KEPT` unless told.
        """
        self.version = start
        """Counts every change ever."""
        self._changed: list[Entry] = []
        self._base = start
        self._kept = KEPT if kept is None else kept

    @property
    def remembered(self) -> int:
        """Return the number of changes that are remembered."""
        return len(self._changed)

    def touch(self, entry: Entry) -> None:
        """Append a change."""
        self.version += 1
        self._changed.append(entry)
        if len(self._changed) > 2 * self._kept:
            del self._changed[: self._kept]
            self._base += self._kept

    def since(self, version: int) -> set[Entry] | None:
        """Return the set of changes after a version; None when they are not remembered."""
        if version < self._base:
            return None
        return set(self._changed[version - self._base :])

    def entries_since(self, version: int) -> list[Entry] | None:
        """Return the changes after a version one by one and in order; None when they are not remembered."""
        return None if version < self._base else self._changed[version - self._base :]

    def begin_again(self) -> None:
        """Append a change of everything: no version before this one is remembered."""
        self.version += 1
        self._changed = []
        self._base = self.version


RowLog = ChangeLog[int]
"""The rows that changed."""


class SeveralLogs:
    """Several logs that one result follows. Its version is the tuple of theirs."""

    def __init__(self, *logs: ChangeLog[Any]) -> None:
        self.version = tuple([log.version for log in logs])


class KeptResult(ABC, Generic[Changes]):
    """A result, the versions of what it was computed from, and one rule for when it is computed again.

    It holds for a `basis` and for a version of a log. The basis is a tuple of all that it depends on as a whole:
    objects by identity, counts, versions. The log has changes that can be applied one after the other. With another
    basis, everything is computed. With another version of the log, the changes since are applied, unless `changes`
    says that they are not remembered, or that computing everything costs less.
    """

    basis: tuple[object, ...] | None = None
    version: Any = -1
    computed: int = 0
    """The number of times that everything was computed: a version of this result, for those computed from it."""

    def renew(self, basis: tuple[object, ...], log: Any, asked: Any) -> bool:
        """Bring the result up to date; returns whether everything was computed.

        `log`: anything with a `version`, such as `SeveralLogs`. `asked` is passed on. If an exception is raised, the
        result counts as before, and is brought up to date the next time. So `compute` stores nothing before everything
        is computed, and `apply` may be called again with the same changes if it may raise.
        """
        if self.basis == basis:
            if self.version == log.version:
                return False
            changes = self.changes(log, asked)
            if changes is not None:
                self.apply(changes, asked)
                self.version = log.version
                return False
        self.compute(asked)
        self.basis, self.version = basis, log.version
        self.computed += 1
        return True

    @abstractmethod
    def changes(self, log: Any, asked: Any) -> Changes | None:
        """Return the changes since `version`; None: compute everything."""

    @abstractmethod
    def apply(self, changes: Changes, asked: Any) -> None:
        """Apply changes to the result."""

    @abstractmethod
    def compute(self, asked: Any) -> None:
        """Compute everything."""


class KeptByRow(KeptResult[set[int]]):
    """A result for each node row, kept by a log of rows: those that changed are computed again while they are few.

    From one row in `repair_at_most` on, computing all rows at once costs little more. What is asked first is the nodes.
    """

    repair_at_most = 8
    """Rows are repaired while they are at most one in this many; a single row always is."""

    def changes(self, log: RowLog, asked: Any) -> set[int] | None:
        """Return the rows that changed, if they are few."""
        changed = log.since(self.version)
        if changed is not None and (len(changed) == 1 or len(changed) * self.repair_at_most <= asked[0].rows):
            return changed
        return None


class Bounded(dict[Key, Thing]):
    """A dict with at most `most` things, which drops the least recently used first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def recall(self, key: Key) -> Thing | None:
        """Return the thing of a key, or None; it counts as used now."""
        found = self.pop(key, None)
        if found is not None:
            self[key] = found
        return found

    def keep(self, key: Key, thing: Thing) -> None:
        """Keep a thing."""
        self.pop(key, None)
        while len(self) >= self.most:
            self.drop_oldest()
        self[key] = thing

    def drop_oldest(self) -> Thing:
        """Drop the least recently used thing, and return it."""
        return self.pop(next(iter(self)))


class HasSize(Protocol):
    """A thing that knows how much memory it takes."""

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""


Large = TypeVar("Large", bound=HasSize)


class BoundedBytes(Bounded[Key, Large]):
    """A `Bounded` that also drops the oldest things while all of them take more than `most_bytes`.

    Things grow while they are kept, so all are looked at whenever so many more have come: `look`.
    """

    def __init__(self, most: int, most_bytes: int, look: int = _LOOK) -> None:
        super().__init__(most)
        self._most_bytes = most_bytes
        self._look = look
        self._made = 0

    def keep(self, key: Key, thing: Large) -> None:
        """Keep a thing."""
        self._made += 1
        if self._made >= self._look:
            self._made = 0
            size = sum(one.size for one in self.values())
            while size > self._most_bytes and self:
                size -= self.drop_oldest().size
        super().keep(key, thing)


class Recurring(Bounded[Key, Thing]):
    """A `Bounded` that keeps a thing only from its second use on: things used once would displace shared ones.

    Besides, the memory of a thing that is not kept is reused at once, while it is still in the processor's cache.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._offered: set[int] = set()
        """Hashes of keys. If two collide, a thing is kept one time too early, which does no harm."""

    def keep(self, key: Key, thing: Thing) -> None:
        """Keep a thing if its key was seen before."""
        offered = hash(key)
        if offered in self._offered:
            super().keep(key, thing)
            return
        if len(self._offered) >= _OFFERED:
            self._offered.clear()
        self._offered.add(offered)
