"""Whether an event loop still runs, seen from another thread by a count that grows with each turn."""

from __future__ import annotations

from collections.abc import Callable


class Signs:
    """Tells for how long a count has stood still, as far as looks now and then can see. It is given the time."""

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
