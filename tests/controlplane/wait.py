"""Wait for a condition, never for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(what: str, probe: Callable[[], Found | None], timeout: float = 120, interval: float = 0.05) -> Found:
    """Call the probe until it gives something true and return that; fail naming what was waited for."""
    deadline = time.monotonic() + timeout
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}; last seen: {found!r}")
        time.sleep(interval)
