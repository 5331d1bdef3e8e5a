"""An answer without end, read as it comes: what a watch brings, by httptools' parser.

`exchange` has the connections and opens a stream on one of them; whoever opened it reads, and lets it go.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Protocol

from httptools import HttpParserError, HttpResponseParser

from podberth.kube.errors import Unreachable, described

MOST_WAITING = 2 << 20
"""Bytes that wait to be read before the connection is read no further."""


class Stream(Protocol):
    """The open end of an answer."""

    @property
    def status(self) -> int: ...

    @property
    def retry_after(self) -> str | None: ...

    async def read(self) -> bytes:
        """The bytes that have come, at least one; b"" at a proper end. Raises Unreachable when cut or silent."""

    def abort(self) -> None:
        """End it from our side; a waiting `read` raises Unreachable."""


class DirectStream(asyncio.Protocol):
    """A stream on a connection of ours, which it takes over for good; silent for `idle` seconds, it fails."""

    def __init__(self, transport: asyncio.Transport, idle: float) -> None:
        self.status = 0
        self.retry_after: str | None = None
        self.heard = False
        """Any byte of the answer has come."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parser = HttpResponseParser(self)
        self._unpacker: zlib._Decompress | None = None
        self._framed = False
        self._over = self._lost = False
        self._error: Unreachable | None = None
        self._chunks: list[bytes] = []
        self._waiting = 0
        self._paused = False
        self._news: asyncio.Future[None] | None = None
        self._idle = idle
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(idle, self._look)
        transport.set_protocol(self)

    async def ask(self, message: bytes) -> None:
        """Send a request and wait for the head of its answer. Raises Unreachable."""
        self._transport.write(message)
        while not self.status:
            await self._hear()

    async def read(self) -> bytes:
        """See Stream."""
        while not self._chunks:
            if self._over:
                return b""
            await self._hear()
        found = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting = 0
        if self._paused and self._error is None and not self._over:
            self._paused = False
            self._heard_at = self._loop.time()
            self._transport.resume_reading()
        return found

    def abort(self) -> None:
        """See Stream."""
        self._chunks.clear()
        self._fail(Unreachable("ended by us"))

    async def _hear(self) -> None:
        """Return when something has changed. Raises Unreachable."""
        if self._error is not None:
            # Another one for each who is told: an exception refers to where it was raised, which is here.
            raise Unreachable(str(self._error), timed_out=self._error.timed_out)
        self._news = self._loop.create_future()
        await self._news

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _fail(self, error: Unreachable) -> None:
        self._timer.cancel()
        if self._error is None and not self._over:
            self._error = error
        self._transport.abort()
        self._tell()

    def _look(self) -> None:
        """Whether it has been silent for too long; the clock is set again here, and not for each piece that comes."""
        silent = 0.0 if self._paused else self._loop.time() - self._heard_at
        if silent < self._idle:
            self._timer = self._loop.call_later(self._idle - silent, self._look)
        else:
            self._fail(Unreachable("the stream fell silent", timed_out=True))

    # -- asyncio's calls -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.heard = True
        self._heard_at = self._loop.time()
        if self._over or self._lost or self._error is not None:
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, zlib.error) as error:
            self._fail(Unreachable(f"the answer is not HTTP: {error}"))
            return
        if self._waiting > MOST_WAITING and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self.status and not self._framed:
            self._over = True  # a body that lasts until the end of the connection
        self._fail(Unreachable(described(error) if error else "server disconnected"))
        self._lost = True
        del self._parser  # which refers to us: without it nobody has to collect us, or our transport

    # -- httptools' calls ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length" or name == b"transfer-encoding":
            self._framed = True
        elif name == b"retry-after":
            self.retry_after = value.decode("latin-1")
        elif name == b"content-encoding" and value.lower() in (b"gzip", b"deflate"):
            self._unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status

    def on_body(self, body: bytes) -> None:
        if self._unpacker is not None:
            body = self._unpacker.decompress(body)
        if body:
            self._chunks.append(body)
            self._waiting += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._over = True
