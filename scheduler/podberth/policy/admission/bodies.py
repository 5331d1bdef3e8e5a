"""Reads the bodies of large reviews: each waits until it is admitted, and is then read piece by piece.

Receiving a megabyte costs milliseconds of the loop, most of them for TLS. So the connection of a large review is
paused as soon as its head is there. Its namespace, which the first bytes name, waits for room (`Lanes`). What is let in
is read in pieces of what the system has at that moment (32 KiB), one piece of one review in each turn: small reviews of
others, which are ready in the same turn, wait for one piece and never for a body. The bytes lie in one mapping of their
length, which the system has back at once.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from podberth.policy.admission.memory import block
from podberth.service.port import Turns

LIMIT = 8 << 20
"""The largest body in bytes: an object and its older self, each at most 3 MiB in the API server, and their wrapping."""
UNREAD_BYTES = 32 << 10
"""The largest number of bytes of an unread body that TLS buffers, and as many that the kernel does. The default would
be half a megabyte for every connection. TLS also decrypts as much as the kernel holds at once, so its two buffers grow
to this size and stay so until the connection ends.
"""


class TooLargeError(Exception):
    """A body is over the limit."""


class LargeBody:
    """The body of one request, received only in its turns. `length` None: the client did not send it."""

    def __init__(self, request: web.BaseRequest, length: int | None, turns: Turns) -> None:
        self._request = request
        self._turns = turns
        self._buffer = block(LIMIT if length is None else length)
        self._size = 0
        pause(request)

    @property
    def bytes(self) -> memoryview:
        """Return the part of the body that was read so far."""
        return self._buffer[: self._size]

    async def read(self, seconds: float, enough: int = LIMIT + 1) -> memoryview:
        """Read to the end, or until there is `enough` of it.

        Raises TimeoutError, TooLargeError.
        """
        content = self._request.content
        async with asyncio.timeout(seconds):
            while self._size < enough and not content.at_eof():
                if not content.is_eof() and content.total_bytes == self._size:
                    await self._turns.next()
                    resume(self._request)
                piece = await content.readany()
                if not content.is_eof():
                    pause(self._request)
                if self._size + len(piece) > len(self._buffer):
                    raise TooLargeError
                self._buffer[self._size : self._size + len(piece)] = piece
                self._size += len(piece)
        return self.bytes


def pause(request: web.BaseRequest) -> None:
    """Stop receiving on this connection; what TLS has received by then is kept."""
    if request.transport is not None:
        request.transport.pause_reading()


def resume(request: web.BaseRequest) -> None:
    """Receive on this connection again."""
    if request.transport is not None:
        request.transport.resume_reading()
