"""Limits how many log lines of one kind are written: failures may happen thousands of times a second, and what a
tenant writes may be a reason for a line each time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

MOST = 10
SECONDS = 10.0
KINDS = 1024
"""So many kinds are remembered. A namespace may be part of a kind; if there are more, the others are one kind."""
_OTHERS = object()


class RateLimit:
    """A limit of `MOST` lines for each kind in `SECONDS`."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        """Kind → (when its while began, how many lines there would have been since); who began last stands last."""

    def write(self, kind: Hashable, say: Callable[..., object], event: str, /, **facts: Any) -> None:
        """Write a line with `say`, a method of a logger, unless this kind has had its lines.

        If lines were left out, the first one of the next while says how many: `lines_left_out`.
        """
        left_out = self._left_out(kind)
        if left_out is not None:
            say(event, **facts, **({"lines_left_out": left_out} if left_out else {}))

    def _left_out(self, kind: Hashable) -> int | None:
        """Return how many lines of this kind were left out before this one. None: do not write this one either."""
        now = self._clock()
        if len(self._kinds) >= KINDS and kind not in self._kinds:
            oldest, _ = next(iter(self._kinds.values()))
            kind = _OTHERS if now - oldest < SECONDS else kind
        since, lines = self._kinds.get(kind, (-SECONDS, 0))
        if now - since < SECONDS:
            self._kinds[kind] = (since, lines + 1)
            return 0 if lines < MOST else None
        self._kinds[kind] = (now, 1)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)
        return max(lines - MOST, 0)
