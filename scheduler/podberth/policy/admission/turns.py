"""Work that takes milliseconds is done in turns: one piece at a time, one namespace after the other.

Between two pieces the event loop has time to answer what is small, so nobody waits for more than one of them (decision
31). Of a namespace one piece is in line at a time, so who sends many waits behind themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from podberth.service.port import ANSWER_TURNS


class OverloadedError(Exception):
    """Nobody's turn came in time. `own`: because of the namespace's own work, and not that of others."""

    def __init__(self, namespace: str, *, own: bool) -> None:
        super().__init__(namespace)
        self.own = own


class NamespaceTurns:
    """At most `most` turns at a time, and one of each namespace. The namespace that waits longest is next."""

    def __init__(self, most: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The namespaces with work: tenants name them, so a lock is kept no longer than it is used."""
        self.waiting = 0
        """The number of those that wait for their turn."""

    @property
    def known(self) -> int:
        """The number of namespaces of which something is kept."""
        return len(self._of)

    @asynccontextmanager
    async def turn(self, namespace: str, seconds: float) -> AsyncIterator[None]:
        """Hold the namespace's turn, once it has come and what is small has been answered.

        Raises OverloadedError after so many seconds of waiting.
        """
        own = self._of.setdefault(namespace, asyncio.Lock())
        first = False
        async with AsyncExitStack() as held:
            self.waiting += 1
            try:
                async with asyncio.timeout(seconds):
                    await held.enter_async_context(own)
                    first = True
                    await held.enter_async_context(self._all)
            except TimeoutError:
                raise OverloadedError(namespace, own=not first) from None
            finally:
                self.waiting -= 1
            for _ in range(ANSWER_TURNS):
                await asyncio.sleep(0)
            yield
