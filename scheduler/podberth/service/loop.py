"""An event loop that is not held up: how long its turns are, whether it turns at all, and what keeps them short.

`Blocks` measures its longest turns, `Heartbeat` tells another thread that it runs. Python's garbage collector is told
to be brief: it looks at what is young, twice, and never at what has outlived that. Cluster state is what is long-lived
here, and it has no cycles: reference counts free it. Looking through it is time in which the event loop stands still,
half a microsecond an object (decision 12). The C library can be told to give memory back: by default it keeps what was
freed, up to 32 MB once a large block was, and a process stays as large as it was in its busiest moment.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable
from typing import Any

import structlog

from podberth.service.metrics import Family, Histogram, Quantiles, exponential

BEAT = 0.004
SLOWEST = 0.064
_RESTING = 0.1
"""The part of the time in CPU below which the loop counts as idle, so that the next beat comes later."""
INTERVAL = 0.25
HELD_SECONDS = 4.0
"""Nothing of ours holds the loop for more than some hundredths of a second. From then on it is not ready: it gets
nothing done, and yet may go on at any moment."""
DEAD_SECONDS = 30.0
"""The time without a beat from which on the loop does not count as alive. A new process would begin with the same work,
so it must be certain that this one gets nowhere: three of the leader's renew deadlines, as `kube.lease` has it, and
longer than any turn that was ever seen (25 s)."""

LAG = Family(
    "berth_event_loop_lag_seconds",
    "histogram",
    "Seconds by which the event loop was late for a timer that runs four times a second.",
    (),
    exponential(0.001, 2, 14),
)
YOUNG = 2_500
"""Container objects that come (less those that go) between two collections: what one of them looks at."""
WORK = 250
"""Changes and decisions between two collections at most. Python counts objects that come less those that go. Where
10,000 waiting pods are kept anew, as many old objects go as new ones come: nothing is collected for a long time, and
then one collection looks at all that came (17,000 objects were seen, 20 to 80 ms)."""
AGED = 4
"""Every so many of these collections look at what the others left over, too, and keep what is left then. An object that
was in use by chance while one collection ran (a request, an exception) is found by the next, and not kept for a day."""
DAY_SECONDS = 86_400.0
_worked = 0
"""Changes and decisions since the last collection."""
_collections = 0
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""`mallopt`'s names for them (malloc.h of glibc)."""
FREE_BYTES = 2 << 20
"""Kept at the end of the heap; with less, each piece of a large body would be asked for anew."""
TRIM_SECONDS = 60.0
MOST_TEXT = 300
"""Characters of what is said of a task, a callback or a connection."""

log = structlog.get_logger("loop")


class Blocks:
    """Measures the longest turns of one loop in CPU time of its thread, so that other processes do not count.

    An event loop does not report how long a callback takes, so a timer runs every four milliseconds. Between two runs
    there is at most one longer turn, and the thread's CPU time between them is what it took, or up to four milliseconds
    more. While the loop is idle, the timer runs less often. `clock` and `cpu` give seconds; `cpu` those of the thread.
    """

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
        """Note that a beat came; return when the next is due. Only what made a beat late is sure to be one block."""
        late = wall - planned + BEAT
        held = min(cpu, late)
        self.longest = max(self.longest, held)
        self.longest_wall = max(self.longest_wall, late)
        if cpu < _RESTING * wall:
            return min(2 * planned, SLOWEST)
        self.busy.add(held)
        return BEAT


class Heartbeat:
    """Tells if the loop runs: a timer every quarter of a second is late by as much as the loop was busy.

    The timer runs on the event loop of `run`; the other methods are for another thread.
    """

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


def tell_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what no task caught, as `loop.set_exception_handler` asks.

    `context`: as asyncio and uvloop make it, a message and mostly an exception.

    Only a connection that was cut in the moment in which uvloop wrote to it has no traceback: its requests are told so
    in the ordinary way.
    """
    error, where = context.get("exception"), context.get("message")
    if "protocol" in context and isinstance(error, RuntimeError) and "the handler is closed" in str(error):
        log.warning("a connection was cut while it was written to", where=where, reason=str(error))
    else:
        about = {key: str(value)[:MOST_TEXT] for key, value in context.items() if key not in ("message", "exception")}
        log.error("an error that nobody waited for, this is a bug of Berth", where=where, about=about, exc_info=error)


def collect_briefly() -> None:
    """Collect what is young only, from now on until the process ends."""
    gc.freeze()
    gc.set_threshold(YOUNG, 1, 10)
    gc.enable()
    if _keep not in gc.callbacks:
        gc.callbacks.append(_keep)


def worked(number: int) -> None:
    """Count changes applied or decisions taken, and collect garbage if there were many since the last collection."""
    global _worked, _collections
    _worked += number
    if _worked >= WORK:
        _worked = 0
        if _keep in gc.callbacks:
            _collections += 1
            gc.collect(0 if _collections % AGED else 1)


async def collect_daily() -> None:
    """Once a day find the few cycles that were alive while a collection ran, and died later.

    Half a microsecond an object, at one go; without it what a process of months has lost could not be bounded.
    """
    while True:
        await asyncio.sleep(DAY_SECONDS)
        gc.unfreeze()
        gc.collect()


def _keep(phase: str, about: dict[str, int]) -> None:
    """Keep what two collections leave over from all further ones, which is done in no time (gc.freeze)."""
    global _worked
    if phase == "stop":
        _worked = 0
        if about["generation"]:
            gc.freeze()


def give_memory_back(large: int) -> None:
    """Have blocks of `large` bytes and more be mappings of their own; does nothing where it is not glibc.

    Not for `berth run`: arrays over all nodes are that large, and each would be mapped and cleared anew.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, large)
        mallopt(_TRIM_THRESHOLD, FREE_BYTES)


def trim_memory() -> None:
    """Give back the pages in which nothing is in use any more, wherever they lie; does nothing where it is not glibc.

    Takes 0.3 to 0.5 ms for each MB that is free, in which nothing else in the process can allocate.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


async def trim_memory_each_minute() -> None:
    """Give free memory back each minute: pieces of requests and of lists leave holes that no threshold prevents.

    Only a service for whose answer nobody waits may do so.
    """
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        trim_memory()
