"""`berth COMMAND` that tells what it keeps: `python -m bench.telling COMMAND OPTIONS`, which `bench.soak` starts.

SIGPROF has it look through all its objects, free what only cycles keep, and log a line with how many there are of each
type, and with what C code has in use. SIGVTALRM has it close the connections that are idle.

With `BERTH_SOAK_BOUNDS=16` what is kept up to a bound is kept up to a sixteenth of it: at a bound that is reached after
hours, what fills up and what leaks look alike.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections import Counter
from typing import Any

import structlog

from podberth.cache import kept_results, row_counts
from podberth.cli.main import run
from podberth.engine import history
from podberth.kube import listwatch
from podberth.kube.http1 import ConnectionPool

KEPT = "kept"
"""The event of the line."""
ASK = signal.SIGPROF
LET_GO = signal.SIGVTALRM
CLOSED = "idle connections closed"
"""The event that tells of it."""
BOUNDS = "BERTH_SOAK_BOUNDS"
"""The environment variable that says by how much bounds are divided."""
_INTERNED = 20_000
"""Texts that are enough to have the table grow."""
FEWEST = 50
"""Of a type of which there are fewer, the line says nothing."""

log = structlog.get_logger("soak")


class _Heap(ctypes.Structure):
    """What glibc's mallinfo2 returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "used", "free", "keepcost")
    )


def heap() -> dict[str, int]:
    """KiB that C code and large Python objects have in use, and KiB that are free within; nothing without glibc."""
    library = ctypes.CDLL(None)
    try:
        info = library.mallinfo2
    except AttributeError:
        return {}
    info.restype = _Heap
    found = info()
    return {"heapUsed": (found.used + found.hblkhd) >> 10, "heapFree": found.free >> 10}


def kept() -> dict[str, Any]:
    """What is in use once all is freed that can be. Also what the collector was told to leave alone is looked at."""
    gc.unfreeze()
    gc.collect()
    gc.unfreeze()  # `podberth.service.loop` has frozen what was left
    types = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    gc.freeze()
    many = {name: count for name, count in types.most_common() if count >= FEWEST}
    return {**heap(), "blocks": sys.getallocatedblocks(), "objects": types.total(), "types": many}


def close_idle() -> int:
    """Close connections that nobody uses: how many are open by chance would count as memory. How many clients did."""
    gc.unfreeze()  # what is frozen is not among the objects
    clients = [one for one in gc.get_objects() if isinstance(one, ConnectionPool)]
    gc.freeze()
    for one in clients:
        one.close()
    return len(clients)


def divide_bounds(by: int) -> None:
    """Of all that fills for longest: entries of stories, keys of deleted objects, and logs of what changed."""
    history.MOST //= by
    listwatch.TOMBSTONES //= by
    kept_results.KEPT //= by
    row_counts.REMEMBERED //= by


def widen_interned() -> None:
    """Have Python's table of interned texts grow now, and not at some minute of a run.

    A start fills three quarters of it. When 11,000 more texts have come, and be they gone again, a table of twice the
    size is made: 942 KiB at once, which looks like a leak and never comes again.
    """
    for i in range(_INTERNED):
        sys.intern(f"{KEPT} {i}")


def tell_when_asked() -> None:
    """From now on, in a turn of the event loop: what is interrupted by a signal may hold a lock that the log wants."""
    divide_bounds(int(os.environ.get(BOUNDS, "1")))
    widen_interned()

    def tell() -> None:
        log.info(KEPT, **kept())

    def let_go() -> None:
        log.info(CLOSED, clients=close_idle())

    for number, what in ((ASK, tell), (LET_GO, let_go)):
        signal.signal(number, lambda *_, what=what: asyncio.get_running_loop().call_soon_threadsafe(what) and None)


if __name__ == "__main__":
    tell_when_asked()
    sys.exit(run(sys.argv[1:]))
