"""A process takes from the machine it runs on: clocks, chance, a name, and an event loop.

Each service makes one `Machine` and hands it down. The simulation of `tests/storm` hands its own down, and so
everything that a process does follows from a seed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
import socket
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

boottime: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds that go on while the machine sleeps, where the system has such a clock (Linux)."""


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class Machine(Struct, frozen=True):
    """`monotonic` and `wall` give seconds, `chance` a number from 0 to 1 (without 1)."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    name: str = field(default_factory=_own_name)
    """No other process that runs has this name."""
    boottime: Callable[[], float] = boottime
    """A clock as `monotonic` that goes on while the machine sleeps: for Leases."""


MACHINE = Machine()
"""The one that this process runs on."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes an event loop for `asyncio.Runner(loop_factory=…)`: uvloop's where it is installed (the extra
    `fast`); None, which is asyncio's own, elsewhere.
    """
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
