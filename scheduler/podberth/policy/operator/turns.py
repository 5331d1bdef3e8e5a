"""A queue of namespaces, first come, first served, in which each waits as long as its own last turn costs.

A namespace has a share of the operator: what it costs is charged in seconds of that share. It may run up `CREDIT`
seconds at once, and is then looked at no sooner than its share has paid for what it had. So a namespace whose policies
are expensive, many, or edited all the time waits for itself, and for nobody else.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable

CREDIT = 30.0
STEPS, BYTES, WRITES = 200_000.0, 1_000_000.0, 5.0
"""A second of a namespace's share pays for so much: steps of the analysis, bytes that are read, statuses written."""


class Turns:
    """A queue of namespaces, each in it once. Who takes one says when it is `done`: nobody else gets it meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready: list[tuple[float, int, str]] = []
        self._wanted: dict[str, int] = {}
        """Namespace → its ticket, which tells a live heap entry from a stale one."""
        self._paid: dict[str, float] = {}
        """Namespace → when its share will have paid for all that it had; who has no debt is not here."""
        self._busy: dict[str, float | None] = {}
        """Namespaces whose turn it is; since when they want another one, None: not yet."""
        self._tickets = itertools.count()
        self._awake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, namespace: str, *, after: float = 0.0) -> None:
        """Give this namespace a turn, in some seconds at the earliest; nothing changes if it is to have one already."""
        now = self._clock()
        if namespace in self._busy:
            again = self._busy[namespace]
            self._busy[namespace] = now + after if again is None else min(again, now + after)
        if namespace in self._wanted or namespace in self._busy:
            return
        ready = max(now + after, self._paid.get(namespace, now) - CREDIT)
        ticket = self._wanted[namespace] = next(self._tickets)
        heapq.heappush(self._ready, (ready, ticket, namespace))
        self._awake.set()

    def charge(self, namespace: str, *, steps: float = 0.0, size: float = 0.0, writes: float = 0.0) -> None:
        """Charge a namespace for its last turn."""
        now = self._clock()
        seconds = steps / STEPS + size / BYTES + writes / WRITES
        self._paid[namespace] = max(self._paid.get(namespace, now), now) + seconds
        if len(self._paid) > 1024 + 2 * len(self._wanted):
            self._paid = {name: paid for name, paid in self._paid.items() if paid > now}

    def wait(self, namespace: str) -> float:
        """Seconds for which a namespace waits for its own share."""
        return max(self._paid.get(namespace, 0.0) - CREDIT - self._clock(), 0.0)

    def take(self) -> str | None:
        """The namespace whose turn it is, if it is anybody's."""
        while self._ready and self._ready[0][0] <= self._clock():
            _, ticket, namespace = heapq.heappop(self._ready)
            if self._wanted.get(namespace) == ticket:
                del self._wanted[namespace]
                self._busy[namespace] = None
                return namespace
        return None

    def done(self, namespace: str) -> None:
        """Its turn is over; it gets another one if somebody wanted that meanwhile."""
        again = self._busy.pop(namespace)
        if again is not None:
            self.want(namespace, after=max(again - self._clock(), 0.0))

    async def next(self) -> str:
        """Wait until it is somebody's turn."""
        while True:
            self._awake.clear()
            namespace = self.take()
            if namespace is not None:
                if self._ready:
                    self._awake.set()  # for whoever waits beside us
                return namespace
            seconds = self._ready[0][0] - self._clock() if self._ready else None
            try:
                async with asyncio.timeout(seconds):
                    await self._awake.wait()
            except TimeoutError:
                continue
