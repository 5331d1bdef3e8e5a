"""Whether an event loop still runs, seen from another thread by a count that grows with each turn."""

from __future__ import annotations

from collections.abc import Callable


class Signs:
    """For how long the count has stood still, as seen by looks now and then. Give it the time, it keeps none."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._seen: int | None = None
        self._since = 0.0

    def silent(self, now: float) -> float:
        """Seconds since the look that first found the count as it is; 0 when it has grown since the last look."""
        count = self._count()
        if count != self._seen:
            self._seen, self._since = count, now
        return now - self._since
