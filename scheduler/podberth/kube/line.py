"""One kept-alive HTTP/1.1 connection: a protocol around httptools' parser. `exchange` has the pool of them."""

from __future__ import annotations

import asyncio
import zlib
from typing import cast

from httptools import HttpParserError, HttpResponseParser
from msgspec import Struct

from podberth.kube.errors import Unreachable, described

_HEADER_LENGTHS = frozenset(map(len, ("Content-Length", "Transfer-Encoding", "Retry-After", "Content-Encoding")))
"""Answers have eight headers and more; most of them are none of ours, which their length already tells."""
STRETCHING_BYTES = 32 << 10
"""An answer longer than this may stretch the buffers of its connection."""


class Response(Struct):
    """A whole response. `retry_after` is the header's value."""

    status: int
    body: bytes
    retry_after: str | None


class _Statuses:
    """The answers to several requests that went out together: of each its status, and nothing else is looked at."""

    def __init__(self, line: Line, wanted: int) -> None:
        self.found: list[Response] = []
        self.done: asyncio.Future[list[Response]] = asyncio.get_running_loop().create_future()
        self._wanted = wanted
        self._line = line

    def on_message_complete(self) -> None:
        """As httptools calls it."""
        line = self._line
        status = line.status()
        if status < 200:
            return
        if not line.stays():
            line.closed = True
        self.found.append(Response(status, self._body(), None))
        if len(self.found) == self._wanted:
            line.all_answered()

    def _body(self) -> bytes:
        """The body of the answer that is complete now."""
        return b""


class _Whole(_Statuses):
    """The answers to several requests that went out together, each with its body."""

    def __init__(self, line: Line, wanted: int) -> None:
        super().__init__(line, wanted)
        self._parts: list[bytes] = []

    def on_body(self, body: bytes) -> None:
        """As httptools calls it."""
        self._parts.append(body)

    def _body(self) -> bytes:
        parts, self._parts = self._parts, []
        body = b"".join(parts)
        self._line.stretched = self._line.stretched or len(body) > STRETCHING_BYTES
        return body


class Line(asyncio.Protocol):
    """One connection, carrying one request at a time, or several, one behind the other (`ask_many`).

    It and its parser refer to each other. Once it is lost or handed over that ends, so that it goes without the garbage
    collector, which looks through what has lived for a while once a day: a connection of TLS takes some 50 kB.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.closed = False
        self._gone = False
        self.heard = False
        """Any byte of the answer has come."""
        self.stretched = False
        """It has carried a long answer. What waits to be decrypted is kept by OpenSSL in a buffer that grows and never
        shrinks: up to 330 KiB for as long as the connection lives."""
        self.idle_since = 0.0
        self._answer: asyncio.Future[Response] | None = None
        self._parser: HttpResponseParser
        """There is one once it is connected: a handshake that fails ends nothing."""
        self._body: list[bytes] = []
        self._retry_after: str | None = None
        self._encoding = b""
        self._framed = False
        self._statuses: _Statuses | None = None

    def ask_many(self, messages: bytes, count: int, *, bodies: bool) -> asyncio.Future[list[Response]]:
        """Send several requests; the future has the answers, fewer of them when the connection ends first.

        `bodies`: they are wanted, and not only the status.
        """
        statuses = self._statuses = (_Whole if bodies else _Statuses)(self, count)
        self._parser = HttpResponseParser(statuses)
        self.heard = False
        self.transport.write(messages)
        return statuses.done

    def status(self) -> int:
        """The HTTP status of the answer at hand."""
        return self._parser.get_status_code()

    def stays(self) -> bool:
        """Return whether the connection may be used after the answer at hand."""
        return self._parser.should_keep_alive()

    def all_answered(self) -> None:
        """If there were several requests: each has its answer now, or will get none."""
        statuses, self._statuses = self._statuses, None
        if statuses is None:
            return
        self._reset()
        if not statuses.done.done():
            statuses.done.set_result(statuses.found)

    def ask(self, message: bytes) -> asyncio.Future[Response]:
        """Send a request; the future raises Unreachable when the connection ends first."""
        self._answer = asyncio.get_running_loop().create_future()
        self.heard = False
        self.transport.write(message)
        return self._answer

    def close(self) -> None:
        """End it; an answer under way never comes."""
        self.closed = True
        if not self._gone:
            self.transport.abort()

    def hand_over(self) -> asyncio.Transport:
        """Its transport, for somebody else; nothing more is asked of it."""
        transport = self.transport
        self._let_go()
        return transport

    def _let_go(self) -> None:
        if not self._gone:
            self.closed = self._gone = True
            del self._parser, self.transport

    # -- asyncio's calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._gone:
            return
        self.heard = True
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(Unreachable(f"the answer is not HTTP: {error}"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if not self._gone:
            self._end(error)
            self._let_go()

    def _end(self, error: Exception | None) -> None:
        """Tell who waits for an answer."""
        self.all_answered()
        if self._answer is None or self._answer.done():
            return
        status = self._parser.get_status_code()
        if error is None and status >= 200 and not self._framed:
            self._finish()  # a body that lasts until the end of the connection
        elif self.heard:
            self._fail(Unreachable("the answer stopped half way"))
        else:
            self._fail(Unreachable(described(error) if error else "server disconnected"))

    # -- httptools' calls ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) not in _HEADER_LENGTHS:
            return
        name = name.lower()
        if name == b"content-length" or name == b"transfer-encoding":
            self._framed = True
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name == b"content-encoding":
            self._encoding = value.lower()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            if not self._parser.should_keep_alive():
                self.closed = True
            self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        body = b"".join(self._body)
        self.stretched = self.stretched or len(body) > STRETCHING_BYTES
        status, retry_after, encoding = self._parser.get_status_code(), self._retry_after, self._encoding
        self._reset()
        if answer is None or answer.done():
            self.close()  # nobody asked, or nobody waits any more
            return
        if encoding in (b"gzip", b"deflate"):
            try:
                body = zlib.decompress(body, 32 + zlib.MAX_WBITS)
            except zlib.error as error:
                answer.set_exception(Unreachable(f"the answer can't be unpacked: {error}"))
                return
        answer.set_result(Response(status, body, retry_after))

    def _fail(self, error: Unreachable) -> None:
        self.all_answered()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._answer = None

    def _reset(self) -> None:
        self._parser = HttpResponseParser(self)
        self._body = []
        self._retry_after = None
        self._encoding = b""
        self._framed = False
