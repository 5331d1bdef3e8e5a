"""Runs parts in lanes: the lanes at the same time, the parts of a lane one after another.

What no lane has of its own is taken by whichever is free: so no core is idle while there is something left to do.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from tests.parts.part import Part

SAY_SECONDS = 60.0
"""So often a line says how far each part is: a CI that hears nothing for long gives up."""
_LOOK_SECONDS = 0.1


def run(lanes: Iterable[Iterable[Part]], say: Callable[[str], None], others: Iterable[Part] = ()) -> list[Part]:
    """The parts that failed. Each says how it went as soon as it has ended; in the end none is left running.

    `others`: a lane that has run its own parts takes the next of these, so the longest should be first.
    """
    waiting, left = [deque(lane) for lane in lanes], deque(others)
    running: list[Part | None] = [None] * len(waiting)
    failed: list[Part] = []
    said = time.monotonic()
    try:
        while any(waiting) or left or any(running):
            for number, lane in enumerate(waiting):
                part = running[number]
                if part is not None and part.ended:
                    running[number] = None
                    say(_told(part))
                    if not part.passed:
                        failed.append(part)
                        if part.gate:
                            say("Nothing else is run.")
                            return failed
                if running[number] is None and (lane or left):
                    running[number] = begun = (lane or left).popleft()
                    begun.start()
            if time.monotonic() - said >= SAY_SECONDS:
                said = time.monotonic()
                say("  ".join(f"{part.name}: {part.percent or 'under way'}." for part in running if part is not None))
            time.sleep(_LOOK_SECONDS)
    finally:
        for part in running:
            if part is not None:
                part.kill()
    return failed


def _told(part: Part) -> str:
    minutes, seconds = divmod(round(part.seconds), 60)
    how = "passed" if part.passed else "FAILED"
    return f"\n== {part.name}: {how} after {minutes} min {seconds} s\n{part.report()}"
