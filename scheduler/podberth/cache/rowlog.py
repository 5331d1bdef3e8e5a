"""What changed, in order: rows mostly. A reader remembers the version it has seen and asks what came since."""

from collections.abc import Hashable
from typing import Generic, TypeVar

KEPT = 8_192
"""At least so many changes are remembered, and up to twice as many. Who is later computes everything, which costs less
than as many changes one by one unless there are ten times as many nodes."""
FEW = 1_024
"""The same of changes that take their reader some microseconds each, in one turn."""

Entry = TypeVar("Entry", bound=Hashable)


class ChangeLog(Generic[Entry]):
    """An append-only list of what changed that forgets its beginning."""

    def __init__(self, start: int = 0, kept: int | None = None) -> None:
        """`start`: the first version. For an older version, `since` returns None.

        `kept`: how many changes are remembered at least, and up to twice as many; `KEPT` unless told.
        """
        self.version = start
        """Counts every change ever."""
        self._changed: list[Entry] = []
        self._base = start
        self._kept = KEPT if kept is None else kept

    def touch(self, entry: Entry) -> None:
        """Something changed."""
        self.version += 1
        self._changed.append(entry)
        if len(self._changed) > 2 * self._kept:
            del self._changed[: self._kept]
            self._base += self._kept

    def since(self, version: int) -> set[Entry] | None:
        """Return what changed after a version; None when that is too long ago to know."""
        if version < self._base:
            return None
        return set(self._changed[version - self._base :])


RowLog = ChangeLog[int]
"""The rows that changed."""
