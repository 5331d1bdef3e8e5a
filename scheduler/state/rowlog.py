"""Which rows changed, in order. A reader remembers the version it has seen and asks what came since."""

_KEPT = 65_536


class RowLog:
    """An append-only list of row numbers that forgets its beginning."""

    def __init__(self, start: int = 0) -> None:
        """`start`: the first version; whoever has seen less is told that it is too long ago."""
        self._rows: list[int] = []
        self._base = start

    @property
    def version(self) -> int:
        """Counts every change ever."""
        return self._base + len(self._rows)

    def touch(self, row: int) -> None:
        """A row changed."""
        self._rows.append(row)
        if len(self._rows) > 2 * _KEPT:
            del self._rows[:_KEPT]
            self._base += _KEPT

    def since(self, version: int) -> set[int] | None:
        """The rows that changed after a version; None when that is too long ago to know."""
        if version < self._base:
            return None
        return set(self._rows[version - self._base :])
