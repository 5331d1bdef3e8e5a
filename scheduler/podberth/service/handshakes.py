"""TLS handshakes of a port: which one begins next, so that those who are connected already are answered first.

A handshake costs the event loop more than a small request. So it begins only when all of the client's first message is
there, one in a turn of the loop, one peer after the other, and not in the turns in which a request is answered. Only so
many are under way at a time: who stops halfway loses the place to one who waits. Everything here runs on one loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict, deque
from collections.abc import Callable

MOST = 16
"""Handshakes under way at a time: as many may go on in one turn of the loop."""
STALLED_SECONDS = 0.5
"""A handshake that began so long ago gives way to one that waits."""
ANSWER_TURNS = 4
"""Turns of the loop in which a small request is read, handled and answered; and those that a handshake has alone."""
MOST_TURNS = 12
"""Turns that a handshake may have to wait for requests, however many come."""
_HEAD = 5
_LONGEST = 16 << 10
_HANDSHAKE = b"\x16"
"""The first byte of a TLS record that has a handshake."""


class Arrival:
    """A connection whose handshake is still to begin, or to end."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.connection = connection
        self.peer = peer
        self.ended = False
        self.waits: asyncio.Future[None] | None = None
        """Done when it may go on, or when it has been ended."""

    def end(self) -> None:
        """Hang up, wherever the handshake is: cancelled, asyncio might never close it."""
        self.ended = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.wake()

    def wake_at(self, length: int) -> None:
        """Be called readable only when so many bytes are there."""
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, length)

    def wake(self) -> None:
        """Let it go on."""
        if self.waits is not None and not self.waits.done():
            self.waits.set_result(None)


class Handshakes:
    """The handshakes of one port. For each: await `said`, then `begin`, and call `leave` when it is over.

    `gave_way` is told the peer of a handshake that was cut off for another.
    """

    def __init__(self, gave_way: Callable[[str], object]) -> None:
        self._gave_way = gave_way
        self._waiting: OrderedDict[str, deque[Arrival]] = OrderedDict()
        """Arrivals by peer; the first peer is next."""
        self._under_way: dict[Arrival, asyncio.TimerHandle] = {}
        self._stalled: dict[Arrival, None] = {}
        """The handshakes under way that give way to the next one that waits, the oldest first."""
        self._turning = False
        self._held = 0
        """Turns in which none begins."""
        self._waited = 0
        """Turns for which the next one has waited for requests."""

    def asked(self) -> None:
        """A request has arrived: no handshake begins until it can have been answered."""
        self._held = ANSWER_TURNS

    async def said(self, arrival: Arrival) -> None:
        """Wait until the client's first message is whole, or it is clear that none comes or that it is no TLS."""
        wanted, before = _HEAD, 0
        while not arrival.ended:
            await self._readable(arrival)
            try:
                head = arrival.connection.recv(wanted, socket.MSG_PEEK)
            except OSError:
                return  # the handshake will say so
            if head[:1] != _HANDSHAKE or len(head) == before:
                break
            if len(head) == wanted:
                if wanted > _HEAD or (length := int.from_bytes(head[3:], "big")) > _LONGEST:
                    break
                wanted += length
            before = len(head)
            arrival.wake_at(wanted)
        arrival.wake_at(1)

    async def _readable(self, arrival: Arrival) -> None:
        loop = asyncio.get_running_loop()
        arrival.waits = loop.create_future()
        loop.add_reader(arrival.connection, arrival.wake)
        try:
            await arrival.waits
        finally:
            loop.remove_reader(arrival.connection)

    async def begin(self, arrival: Arrival) -> bool:
        """Wait until it is its turn. Return False if it was ended meanwhile."""
        if arrival.ended:
            return False
        arrival.waits = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(arrival.peer, deque()).append(arrival)
        self._turn_soon()
        await arrival.waits
        return not arrival.ended

    def leave(self, arrival: Arrival) -> None:
        """Forget a handshake that is over, or was given up."""
        queue = self._waiting.get(arrival.peer, deque())
        if arrival in queue:
            queue.remove(arrival)
            if not queue:
                del self._waiting[arrival.peer]
        self._stalled.pop(arrival, None)
        timer = self._under_way.pop(arrival, None)
        if timer is not None:
            timer.cancel()
            self._turn_soon()

    def _turn_soon(self) -> None:
        if self._waiting and not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """One turn of the loop in which somebody waits."""
        self._turning = False
        if not self._waiting:
            return
        if self._held and self._waited < MOST_TURNS:
            self._held -= 1
            self._waited += 1
        else:
            if len(self._under_way) >= MOST and self._stalled:
                self._cut(next(iter(self._stalled)))
            if len(self._under_way) >= MOST:
                return  # one that is over, or stalls, has another turn
            self._begin()
        self._turn_soon()

    def _begin(self) -> None:
        peer, queue = self._waiting.popitem(last=False)
        arrival = queue.popleft()
        if queue:
            self._waiting[peer] = queue
        later = asyncio.get_running_loop().call_later(STALLED_SECONDS, self._stalls, arrival)
        self._under_way[arrival] = later
        self._waited, self._held = 0, ANSWER_TURNS
        arrival.wake()

    def _stalls(self, arrival: Arrival) -> None:
        self._stalled[arrival] = None
        self._turn_soon()

    def _cut(self, arrival: Arrival) -> None:
        self.leave(arrival)
        arrival.end()
        self._gave_way(arrival.peer)
