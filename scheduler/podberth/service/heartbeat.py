"""Whether the event loop runs: a timer every quarter of a second, which is late by as much as the loop was busy."""

from __future__ import annotations

import asyncio
import time

from podberth.service.instruments import Family, Histogram, exponential

INTERVAL = 0.25
HELD_SECONDS = 4.0
"""Nothing of ours holds the loop for more than some hundredths of a second. From then on it is not ready: it gets
nothing done, and yet may go on at any moment."""
DEAD_SECONDS = 30.0
"""From then on it does not count as alive. A new process would begin with the same work, so it must be certain that
this one gets nowhere: three of the leader's renew deadlines, as `kube.lease` has it, and longer than any turn that was
ever seen (25 s)."""

LAG = Family(
    "berth_event_loop_lag_seconds",
    "histogram",
    "Seconds by which the event loop was late for a timer that runs four times a second.",
    (),
    exponential(0.001, 2, 14),
)


class Heartbeat:
    """The timer runs on the event loop of `run`; the other methods are for another thread."""

    def __init__(self) -> None:
        self.lag = Histogram(LAG)
        self._last: float | None = None

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            planned = time.monotonic() + INTERVAL
            self._last = planned - INTERVAL
            await asyncio.sleep(INTERVAL)
            self.lag.observe(max(time.monotonic() - planned, 0.0))

    def held(self) -> str | None:
        """Return why the event loop gets nothing done at the moment; None if it does."""
        return self._silent(HELD_SECONDS)

    def dead(self) -> str | None:
        """Return why the process has to be restarted; None if it need not be."""
        return self._silent(DEAD_SECONDS)

    def _silent(self, longer: float) -> str | None:
        if self._last is None:
            return None
        silent = time.monotonic() - self._last
        return f"the event loop has not turned for {silent:.1f} s" if silent > longer else None
