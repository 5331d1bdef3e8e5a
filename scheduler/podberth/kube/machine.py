"""What a process takes from the machine it runs on: two clocks, chance and a name.

Each service makes one and hands it down. The simulation of `tests/storm` hands its own down, and so everything that a
process does follows from a seed.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable

from msgspec import Struct, field


def boottime() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


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
    """As `monotonic`, and it goes on while the machine sleeps: for Leases."""


MACHINE = Machine()
"""The one that this process runs on."""
