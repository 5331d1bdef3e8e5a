"""Slots that namespaces share: of those that wait, the namespace that has used least gets the next one.

Use is counted in costs, not in requests, so a namespace with expensive work gets its turn less often. A namespace that
asked for nothing for a while starts where the others are, so it can't save up turns. `reviewer` uses lanes for judging
in workers, `server` for bytes of bodies, `owners` for requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

MOST_IDLE = 1024
"""The largest number of namespaces that are remembered although they have no work."""


class OverloadedError(Exception):
    """No slot was free in time. `own`: because of the namespace's own work, and not that of others."""

    def __init__(self, namespace: str, *, own: bool) -> None:
        super().__init__(namespace)
        self.own = own


class _Waiting(msgspec.Struct, eq=False):
    turn: asyncio.Future[None]
    weight: int
    cost: float


class _Lane(msgspec.Struct, eq=False):
    used: float
    busy: int = 0
    waiting: deque[_Waiting] = msgspec.field(default_factory=deque)


class Lanes:
    """`slots` in all, `each` for one namespace at a time; of one namespace `most` may wait, for `line` slots in all."""

    def __init__(self, slots: int, each: int, most: int, line: float = float("inf")) -> None:
        self._slots = slots
        self._each = each
        self.most = most
        self._line = line
        self._lanes: dict[str, _Lane] = {}
        self._in_line: dict[str, _Lane] = {}
        self._busy = 0
        self._now = 0.0

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return sum(len(lane.waiting) for lane in self._in_line.values())

    @property
    def kept(self) -> int:
        """The number of namespaces that are known, idle ones too; it is bounded, as tenants name them."""
        return len(self._lanes)

    @property
    def busy(self) -> int:
        """The number of slots in use."""
        return self._busy

    @asynccontextmanager
    async def slot(self, namespace: str, *, cost: float, until: float, weight: int = 1) -> AsyncIterator[None]:
        """Hold `weight` slots; see `enter`."""
        await self.enter(namespace, cost=cost, until=until, weight=weight)
        try:
            yield
        finally:
            self.leave(namespace, weight=weight)

    async def enter(self, namespace: str, *, cost: float, until: float, weight: int = 1) -> None:
        """Wait for `weight` slots, at the longest `until` this time of the loop; who is cancelled leaves the line.

        Raises OverloadedError.
        """
        lane = self._lanes.get(namespace)
        if lane is None:
            lane = self._lanes[namespace] = _Lane(self._now)
        me = _Waiting(asyncio.get_running_loop().create_future(), min(weight, self._each), cost)
        if len(lane.waiting) >= self.most or sum(one.weight for one in lane.waiting) + me.weight > self._line:
            raise OverloadedError(namespace, own=True)
        lane.waiting.append(me)
        self._in_line[namespace] = lane
        self._grant()
        try:
            async with asyncio.timeout_at(until):
                await me.turn
        except BaseException as error:
            own = lane.busy > 0 or lane.waiting[0] is not me
            if me.turn.done() and not me.turn.cancelled():
                self.leave(namespace, weight=weight)
            else:
                lane.waiting.remove(me)
                if not lane.waiting:
                    del self._in_line[namespace]
                self._grant()
            if isinstance(error, TimeoutError):
                raise OverloadedError(namespace, own=own) from None
            raise

    def leave(self, namespace: str, *, weight: int = 1) -> None:
        """Give the slots back: whoever is next has them at once."""
        weight = min(weight, self._each)
        self._lanes[namespace].busy -= weight
        self._busy -= weight
        self._grant()
        if len(self._lanes) > MOST_IDLE:
            self._forget()

    def _grant(self) -> None:
        while self._in_line:
            able = [
                (lane.used, name, lane)
                for name, lane in self._in_line.items()
                if lane.busy + lane.waiting[0].weight <= self._each
            ]
            if not able:
                return
            used, name, lane = min(able, key=lambda one: one[:2])
            if self._busy + lane.waiting[0].weight > self._slots:
                return  # nobody smaller goes first, or the large ones would never get in
            first = lane.waiting.popleft()
            if not lane.waiting:
                del self._in_line[name]
            self._now = max(used, self._now)
            lane.used = self._now + first.cost
            lane.busy += first.weight
            self._busy += first.weight
            first.turn.set_result(None)

    def _forget(self) -> None:
        """Forget namespaces that want nothing now; those that used least go first, as that would be forgiven anyway."""
        idle = sorted((lane.used, name) for name, lane in self._lanes.items() if not lane.busy and not lane.waiting)
        for _, name in idle[: len(self._lanes) - MOST_IDLE]:
            del self._lanes[name]
