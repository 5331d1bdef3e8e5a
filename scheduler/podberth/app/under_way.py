"""Work that was started and not waited for: writes, and questions to extenders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any


class UnderWay:
    """Tasks that go on until they are done, or until somebody ends them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do this from now on."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self, seconds: float) -> int:
        """Wait for all of it, and for what it starts; how many tasks did not end in time and were cancelled."""
        until = self._clock() + seconds
        while self._tasks and (left := until - self._clock()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        late = [task for task in self._tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)
