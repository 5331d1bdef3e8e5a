"""Whether the event loop turns: a beat every quarter of a second, late by as much as the loop was held up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from scheduler.telemetry.instruments import Family, Histogram, exponential

INTERVAL = 0.25
STALLED_SECONDS = 4.0
"""Nothing of ours holds the loop for more than some hundredths of a second; a garbage collection may for tenths."""

LAG = Family(
    "berth_event_loop_lag_seconds",
    "histogram",
    "How much later than planned the event loop came to its heartbeat, four times a second.",
    (),
    exponential(0.001, 2, 14),
)


class Heartbeat:
    """Beats on the loop that runs `run`; asked from another thread, which goes on when that loop does not."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.lag = Histogram(LAG)
        self._clock = clock
        self._last: float | None = None

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            planned = self._clock() + INTERVAL
            self._last = planned - INTERVAL
            await asyncio.sleep(INTERVAL)
            self.lag.observe(max(self._clock() - planned, 0.0))

    def stalled(self) -> str | None:
        """Why the loop does not count as alive, None while it does."""
        if self._last is None:
            return None
        silent = self._clock() - self._last
        return f"the event loop has not turned for {silent:.1f} s" if silent > STALLED_SECONDS else None
