"""Python's garbage collector, told to be brief: it looks at what is young, and never again at what has outlived that.

Cluster state is what is long-lived here, and it has no cycles: reference counts free it. Looking through it is time
in which the event loop stands still, half a microsecond an object (decision 24).
"""

from __future__ import annotations

import asyncio
import gc

YOUNG = 5_000
"""Container objects that come (less those that go) between two collections: what one of them looks at."""
DAY_SECONDS = 86_400.0


def be_brief() -> None:
    """From now on until the process ends."""
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    if _keep not in gc.callbacks:
        gc.callbacks.append(_keep)


async def look_through_daily() -> None:
    """Once a day find the few cycles that were alive while a collection ran, and died later.

    Half a microsecond an object, at one go; without it what a process of months has lost could not be bounded.
    """
    while True:
        await asyncio.sleep(DAY_SECONDS)
        gc.unfreeze()
        gc.collect()


def _keep(phase: str, _: dict[str, int]) -> None:
    """Whatever a collection leaves over is kept from all further ones, which is done in no time (gc.freeze)."""
    if phase == "stop":
        gc.freeze()
