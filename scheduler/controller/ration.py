"""Limits how many log lines of one kind are written, for failures that happen thousands of times a second."""

import time
from collections.abc import Callable, Hashable

MOST = 10
SECONDS = 10.0


class Ration:
    """A limit of lines for each kind and period. The first line of the next period says how many were left out."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[Hashable, tuple[float, int]] = {}
        """Kind → (when its while began, how many lines there would have been since)."""

    def left_out(self, kind: Hashable) -> int | None:
        """How many lines of this kind were left out before this one. None: do not write this one either."""
        now = self._clock()
        since, lines = self._kinds.get(kind, (-SECONDS, 0))
        if now - since >= SECONDS:
            self._kinds[kind] = (now, 1)
            return max(lines - MOST, 0)
        self._kinds[kind] = (since, lines + 1)
        return 0 if lines < MOST else None
