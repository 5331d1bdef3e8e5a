"""What changed, in order: rows mostly. A reader remembers the version it has seen and asks what came since."""

from collections.abc import Hashable
from typing import Generic, TypeVar

KEPT = 65_536
"""At least so many changes are remembered, and up to twice as many."""

Entry = TypeVar("Entry", bound=Hashable)


class ChangeLog(Generic[Entry]):
    """An append-only list of what changed that forgets its beginning."""

    def __init__(self, start: int = 0) -> None:
        """`start`: the first version. For an older version, `since` returns None."""
        self.version = start
        """Counts every change ever."""
        self._changed: list[Entry] = []
        self._base = start

    def touch(self, entry: Entry) -> None:
        """Something changed."""
        self.version += 1
        self._changed.append(entry)
        if len(self._changed) > 2 * KEPT:
            del self._changed[:KEPT]
            self._base += KEPT

    def since(self, version: int) -> set[Entry] | None:
        """What changed after a version; None when that is too long ago to know."""
        if version < self._base:
            return None
        return set(self._changed[version - self._base :])


RowLog = ChangeLog[int]
"""The rows that changed."""
