"""Measures the longest turns of the event loop in CPU time of its thread, so that other processes do not count.

An event loop does not report how long a callback takes, so a timer runs every four milliseconds. Between two runs there
is at most one longer turn, and the thread's CPU time between them is what it took, or up to four milliseconds more.
While the loop is idle, the timer runs less often.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from podberth.service.quantiles import Quantiles

BEAT = 0.004
SLOWEST = 0.064
_RESTING = 0.1
"""The part of the time in CPU below which the loop counts as idle, so that the next beat comes later."""


class Blocks:
    """Beats on one loop. `clock` and `cpu` give seconds; `cpu` those of the loop's thread."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self.longest = 0.0
        """Seconds of CPU, at most `BEAT` too much."""
        self.longest_wall = 0.0
        """Seconds in which the loop did not turn, for whatever reason; at most `BEAT` too much."""
        self.busy = Quantiles()
        """CPU seconds of each beat while the loop was busy."""
        self._clock = clock
        self._cpu = cpu

    def start(self) -> None:
        """Beat on the running loop until `stop`. By timers alone: a task that sleeps would cost three times as much."""
        self._loop = asyncio.get_running_loop()
        self._wait = BEAT
        self._wall, self._spent = self._clock(), self._cpu()
        self._timer = self._loop.call_later(BEAT, self._due)

    def stop(self) -> None:
        """No further beats."""
        self._timer.cancel()

    def _due(self) -> None:
        wall, spent = self._clock(), self._cpu()
        self._wait = self.beat(self._wait, wall - self._wall, spent - self._spent)
        self._wall, self._spent = wall, spent
        self._timer = self._loop.call_later(self._wait, self._due)

    def beat(self, planned: float, wall: float, cpu: float) -> float:
        """One beat came; when the next one is due. After a slow one, only what made it late is sure to be one block."""
        late = wall - planned + BEAT
        held = min(cpu, late)
        self.longest = max(self.longest, held)
        self.longest_wall = max(self.longest_wall, late)
        if cpu < _RESTING * wall:
            return min(2 * planned, SLOWEST)
        self.busy.add(held)
        return BEAT
