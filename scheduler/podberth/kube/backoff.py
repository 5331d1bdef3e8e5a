"""How long to wait after a failure: capped, exponential, jittered, and forgotten after a quiet time.

The figures are client-go's for reflectors (tools/cache/reflector.go: 800 ms, doubling to 30 s, reset after two
minutes without a failure). The jitter is full (AWS' term: uniform between nothing and the step) so that a fleet
that lost its server together does not come back together; client-go adds up to the step on top instead.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Delays in seconds; give it the time, it keeps none."""

    __slots__ = ("_at", "_rng", "_step", "cap")

    BASE = 0.8
    QUIET = 120.0  # after so long without a failure, the next one counts as the first
    FLOOR = 0.1  # full jitter may draw next to nothing, several times running; never spin

    def __init__(self, rng: Callable[[], float], *, cap: float = 30.0) -> None:
        self.cap = cap
        self._rng = rng
        self._step = 0.0
        self._at = 0.0

    def failed(self, now: float, at_least: float | None = None) -> float:
        """Seconds to wait before the next try; `at_least` is a server's Retry-After."""
        if now - self._at > self.QUIET:
            self._step = 0.0
        self._at = now
        self._step = min(self._step * 2 or self.BASE, self.cap)
        delay = max(self._rng() * self._step, self.FLOOR)
        # jitter on top of the server's own figure too: it gave the same one to everybody
        return delay if at_least is None else at_least + min(delay, at_least * 0.5 + self.FLOOR)

    def reset(self) -> None:
        """Forget past failures: things work."""
        self._step = 0.0
