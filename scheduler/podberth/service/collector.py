"""Python's garbage collector, told to be brief: it looks at what is young, twice, and never at what has outlived that.

Cluster state is what is long-lived here, and it has no cycles: reference counts free it. Looking through it is time
in which the event loop stands still, half a microsecond an object (decision 12).
"""

from __future__ import annotations

import asyncio
import gc

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


def be_brief() -> None:
    """Collect what is young only, from now on until the process ends."""
    gc.freeze()
    gc.set_threshold(YOUNG, 1, 10)
    if _keep not in gc.callbacks:
        gc.callbacks.append(_keep)


def worked(number: int) -> None:
    """So many changes were applied or decisions taken: collect, if there were many since the last collection."""
    global _worked, _collections
    _worked += number
    if _worked >= WORK:
        _worked = 0
        if _keep in gc.callbacks:
            _collections += 1
            gc.collect(0 if _collections % AGED else 1)


async def look_through_daily() -> None:
    """Once a day find the few cycles that were alive while a collection ran, and died later.

    Half a microsecond an object, at one go; without it what a process of months has lost could not be bounded.
    """
    while True:
        await asyncio.sleep(DAY_SECONDS)
        gc.unfreeze()
        gc.collect()


def _keep(phase: str, about: dict[str, int]) -> None:
    """What two collections leave over is kept from all further ones, which is done in no time (gc.freeze)."""
    global _worked
    if phase == "stop":
        _worked = 0
        if about["generation"]:
            gc.freeze()
