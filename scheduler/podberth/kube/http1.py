"""Requests over kept-alive HTTP/1.1 connections to one server: the pool, one connection, and a stream.

Binding a pod is two requests of a few hundred bytes, so a client's own cost is most of what binding costs us: measured
against a bare responder, aiohttp takes 150 µs of CPU for each and this, on httptools' parser, takes 25.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast
from urllib.parse import unquote, urlsplit

from httptools import HttpParserError, HttpResponseParser
from msgspec import Struct

from podberth.kube.connection import Connection
from podberth.kube.errors import Unreachable, described, without_trace

CONNECT_SECONDS = 10.0
CONNECTING = 4
"""Handshakes at a time. A crowd of bindings that each waited for its own would hold up the first of them; while these
are under way, the others take what gets free."""
PATIENCE = 1.0
"""Seconds after which a request opens a connection of its own all the same: those handshakes may be stuck."""
APART = 0.02
"""Seconds by which each of those that wait is more patient than the one before it. A handshake takes a millisecond or
two of CPU, and requests that began together would have all theirs in the same turn of the event loop."""
UNACKNOWLEDGED = 15.0
"""Seconds after which TCP gives up a connection on which what we sent is not acknowledged. Keepalive does not notice
that: it only probes connections that are idle."""
HEAD_SECONDS = 10.0
"""Seconds in which a watch on a connection that was idle has to begin to answer: it may have died meanwhile."""
KEEPALIVE_SECONDS = 45.0  # kube-apiserver closes idle connections after 90 s, load balancers from 60 s: be first
STRETCHING_BYTES = 32 << 10
"""An answer longer than this may stretch the buffers of its connection."""
MOST_WAITING = 2 << 20
"""Bytes of a stream that wait to be read before the connection is read no further."""
_IDEMPOTENT = frozenset(("GET", "PUT", "DELETE"))
_HEADERS = "Content-Length", "Transfer-Encoding", "Retry-After", "Content-Encoding", "Warning"
_HEADER_LENGTHS = frozenset(map(len, _HEADERS))
"""Answers have eight headers and more; most of them are none of ours, which their length already tells."""


class Response(Struct):
    """A whole response. `retry_after` is the header's value, `warnings` those of the `Warning` headers."""

    status: int
    body: bytes
    retry_after: str | None
    warnings: Sequence[str] = ()


class ConnectionPool:
    """Kept-alive connections to one server, direct or through its proxy; at most one request on each at a time.

    Where the server's certificates change (`Connection.context`), new connections replace the old ones.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        parts = urlsplit(connection.host)
        self._connection = connection
        self._secure = parts.scheme == "https"
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._server_name = connection.server_name or self._name
        self._authority = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path
        self._proxy = None if connection.proxy is None else _Proxy(connection.proxy)
        self._proxy_headers = ""
        if self._proxy is not None and not self._secure:  # it is asked for whole URLs, and makes no tunnel
            self._prefix = f"http://{self._authority}{parts.path}"
            self._proxy_headers = self._proxy.headers
        self._clock = clock
        self._idle: deque[HttpConnection] = deque()
        self._stretched: deque[HttpConnection] = deque()
        """Idle connections with stretched buffers. Lists take them first and watches never, so that there are few."""
        self._waiting: deque[asyncio.Future[HttpConnection | None]] = deque()
        """Requests that wait for a connection that gets free, or for their turn to open one."""
        self._left: set[HttpConnection] = set()
        """Connections on which an answer may still come that nobody waits for any more."""
        self._connecting = 0
        self._context: ssl.SSLContext | None = None
        """The connections that are in use were made with this one."""

    @property
    def waiting(self) -> int:
        """Return how many requests wait for a connection that gets free, or for their turn to open one."""
        return sum(not waiting.done() for waiting in self._waiting)

    def close(self) -> None:
        """Close what nobody waits for; requests under way are their callers' to cancel."""
        self._close_idle()
        while self._left:
            self._left.pop().close()

    def message(self, verb: str, target: str, headers: str, body: bytes | None, content_type: str) -> bytes:
        """Return the bytes of a request. `headers`: whole lines, each with its CRLF."""
        head = f"{verb} {self._prefix}{target} HTTP/1.1\r\nHost: {self._authority}\r\n{headers}{self._proxy_headers}"
        if body is None:
            return f"{head}\r\n".encode("latin-1")
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return b"%b%b" % ((head + length).encode("latin-1"), body)

    # -- requests ------------------------------------------------------------------------------------------------

    async def send(
        self,
        verb: str,
        message: bytes,
        seconds: float,
        within: float | None = None,
        *,
        patience: float | None = None,
        on_send: Callable[[], None] | None = None,
    ) -> Response:
        """Send a `message` and return the answer, whatever its status; `seconds` for all of it.

        `within`: seconds in which it has to be on its way, or it is not sent; afterwards it takes its time. `patience`:
        seconds after which we stop to wait for the answer, while the server still has its `seconds`. `on_send` is
        called each time right before the message leaves, and holds it back by raising. Raises Unreachable: `sent`
        tells whether the server may have acted.
        """
        began = self._clock()
        deadline = began + seconds
        latest = deadline if within is None else min(began + within, deadline)
        connection = await self._take_or_wait(latest - began, long_answer=verb == "GET")
        reused = connection is not None
        acted = False
        while True:
            if connection is None:
                connection = await self._connect(latest - self._clock(), acted=acted)
            if within is not None and self._clock() > latest:
                self._put_back(connection)  # this process stood still while it waited
                raise Unreachable("not sent: its time is over", sent=acted, timed_out=True)
            if on_send is not None:
                self._may_leave(connection, on_send, acted=acted)
            answered = connection.ask(message)
            acted = verb != "GET"
            asked = self._clock()
            until = deadline if patience is None else min(asked + patience, deadline)
            loop = asyncio.get_running_loop()
            timer = loop.call_later(max(until - asked, 0.0), self._late, connection, asked, deadline)
            try:
                found = await answered
            except asyncio.CancelledError:
                connection.close()
                raise
            finally:
                timer.cancel()
            if found:
                self._put_back(connection)
                return found[0]
            # A server may close an idle connection just as we use it. Then it has not acted on the request; but who
            # can tell, so only what may be done twice is.
            silent = not connection.heard and not connection.gave_up
            if not (reused and silent and verb in _IDEMPOTENT):
                raise connection.failure()
            reused, connection = False, None

    async def send_many(
        self,
        messages: list[bytes],
        seconds: float,
        within: float | None = None,
        *,
        bodies: bool = False,
        on_send: Callable[[], object] | None = None,
    ) -> list[Response]:
        """Send requests on one connection, one behind the other, and return the answers of those that were answered.

        The server answers in the same order. `seconds` for all of it, `within` and `on_send` as in `send`. `bodies`:
        they are wanted, and not only the statuses. Raises Unreachable if nothing was sent.
        """
        began = self._clock()
        latest = began + (seconds if within is None else min(within, seconds))
        connection = await self._take_or_wait(latest - began)
        if connection is None:
            connection = await self._connect(latest - self._clock())
        if self._clock() > latest:
            self._put_back(connection)
            raise Unreachable("not sent: its time is over", sent=False, timed_out=True)
        if on_send is not None:
            self._may_leave(connection, on_send)
        answered = connection.ask(b"".join(messages), len(messages), bodies=bodies)
        timer = asyncio.get_running_loop().call_later(max(began + seconds - self._clock(), 0.0), connection.close)
        try:
            found = await answered
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            timer.cancel()
        if len(found) < len(messages):
            connection.close()
        self._put_back(connection)
        return found

    def _may_leave(self, connection: HttpConnection, on_send: Callable[[], object], *, acted: bool = False) -> None:
        """Ask whether a message may leave. If that raises, others get the connection.

        `acted`: it left before, and the server may have acted on it.
        """
        try:
            on_send()
        except BaseException as error:
            self._put_back(connection)
            if acted and isinstance(error, Unreachable):
                error.sent = True
            raise

    async def open(self, message: bytes, idle: float) -> Stream:
        """Send a GET and return its answer as soon as its head is there, whatever its status.

        It takes over an idle connection where there is one that is not stretched: after a short list, its watch needs
        no handshake of its own. Raises Unreachable, also when the server is silent for `idle` seconds.
        """
        self._follow_certificates()
        connection = self._take(self._idle)
        while True:
            reused = connection is not None
            asked = self._clock()
            stream = Stream((connection or await self._connect(CONNECT_SECONDS)).hand_over(), idle)
            try:
                async with asyncio.timeout(HEAD_SECONDS if reused else None):
                    await stream.ask(message)
            except Unreachable as error:
                if not reused or stream.heard or error.timed_out:
                    raise
                connection = None  # closed by the server just as we took it
            except TimeoutError:
                stream.abort()
                self._distrust(asked)
                connection = None
            except asyncio.CancelledError:
                stream.abort()
                raise
            else:
                return stream

    def _late(self, connection: HttpConnection, asked: float, deadline: float) -> None:
        said = f"no answer in time from {self._authority}"
        if not connection.give_up(Unreachable(said, timed_out=True, heard=connection.heard)):
            return
        if not connection.heard:
            self._distrust(asked)
        # Closing it would tell the server to stop, which may be about to do what it was asked.
        self._left.add(connection)
        asyncio.get_running_loop().call_later(max(deadline - self._clock(), 0.0), self._end, connection)

    def _end(self, connection: HttpConnection) -> None:
        self._left.discard(connection)
        connection.close()

    def _distrust(self, since: float) -> None:
        """Close idle connections: one was silent since then, and those that have not answered later may be dead too."""
        for idle in (self._idle, self._stretched):
            for connection in [connection for connection in idle if connection.idle_since <= since]:
                idle.remove(connection)
                connection.close()

    # -- who gets which connection -------------------------------------------------------------------------------

    def _follow_certificates(self) -> None:
        """Close idle connections when certificates were rotated: the new ones show on new connections only."""
        context = self._connection.context()
        if context is not self._context:
            self._close_idle()
            self._context = context

    def _close_idle(self) -> None:
        for idle in (self._idle, self._stretched):
            while idle:
                idle.pop().close()

    async def _take_or_wait(self, seconds: float, *, long_answer: bool = False) -> HttpConnection | None:
        """Return an idle connection, or one that another request has done with; None: open one."""
        self._follow_certificates()
        first, then = (self._stretched, self._idle) if long_answer else (self._idle, self._stretched)
        connection = self._take(first, then)
        return await self._freed(seconds) if connection is None and self._connecting >= CONNECTING else connection

    def _take(self, *pools: deque[HttpConnection]) -> HttpConnection | None:
        """Return an idle connection of the first pool that has one."""
        for idle in pools:
            while idle:
                connection = idle.pop()
                if not connection.closed and self._clock() - connection.idle_since < KEEPALIVE_SECONDS:
                    return connection
                connection.close()
        return None

    def _put_back(self, connection: HttpConnection) -> None:
        if connection.closed or connection.context is not self._context:
            connection.close()
            return
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(connection)
                return
        connection.idle_since = self._clock()
        (self._stretched if connection.stretched else self._idle).append(connection)
        # The first is the longest idle: what no longer gets its turn is closed one by one.
        for idle in (self._idle, self._stretched):
            if idle and self._clock() - idle[0].idle_since > KEEPALIVE_SECONDS:
                idle.popleft().close()

    async def _freed(self, seconds: float) -> HttpConnection | None:
        """Return a connection that another request has done with; None when it is our turn to open one."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[HttpConnection | None] = loop.create_future()
        patience = PATIENCE + APART * self.waiting
        self._waiting.append(waiting)
        timer = loop.call_later(min(seconds, patience), _give_up, waiting)
        try:
            connection = await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._pass_on(waiting.result())
            raise
        finally:
            timer.cancel()
        if connection is not None and (connection.closed or connection.context is not self._context):
            connection.close()
            return None
        return connection

    def _pass_on(self, connection: HttpConnection | None) -> None:
        """Give the next in the queue what one no longer needs: a connection, or (None) the turn to open one."""
        if connection is not None:
            self._put_back(connection)
            return
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    # -- new connections -----------------------------------------------------------------------------------------

    async def _connect(self, seconds: float, *, acted: bool = False) -> HttpConnection:
        """Open a connection; `acted`: for a request by which the server may have acted already. Raises Unreachable."""
        self._connecting += 1
        try:
            return await self._handshake(seconds)
        except Unreachable as error:
            error.sent = acted
            raise
        finally:
            self._connecting -= 1
            self._pass_on(None)

    async def _handshake(self, seconds: float) -> HttpConnection:
        loop = asyncio.get_running_loop()
        context = self._context
        secure = (context or ssl.create_default_context()) if self._secure else None
        server_name = self._server_name if secure else None
        try:
            async with asyncio.timeout(min(seconds, CONNECT_SECONDS)):
                if self._proxy is None:
                    transport, connection = await loop.create_connection(
                        HttpConnection, self._name, self._port, ssl=secure, server_hostname=server_name
                    )
                else:
                    transport, connection = await self._proxy.connect(self._name, self._port, secure, server_name)
        except TimeoutError as error:
            raise Unreachable(f"no connection to {self._authority} in time", sent=False, timed_out=True) from error
        except (OSError, ssl.SSLError) as error:
            # Asyncio's frames refer to the connection, and to the future that has this error.
            raise Unreachable(
                f"cannot connect to {self._authority}: {described(error)}", sent=False
            ) from without_trace(error)
        connection.context = context
        keep_alive(transport.get_extra_info("socket"))
        return connection


def _give_up(waiting: asyncio.Future[HttpConnection | None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def keep_alive(sock: socket.socket) -> None:
    """Have TCP notice a dead peer in about 30 s, also where the kernel would take two hours, or a quarter of one.

    Where the system has no such option (macOS), it takes as long as it does there.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * UNACKNOWLEDGED))


class HttpConnection(asyncio.Protocol):
    """One connection, carrying one request at a time, or several, one behind the other.

    It and its parser refer to each other. Once it is lost or handed over that ends, so that it goes without the garbage
    collector, which looks through what has lived for a while once a day: a connection of TLS takes some 50 kB.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.context: ssl.SSLContext | None = None
        self.closed = False
        self.heard = False
        """Any byte of the answer has come."""
        self.gave_up = False
        """Whoever asked waits no longer."""
        self.stretched = False
        """It has carried a long answer. What waits to be decrypted is kept by OpenSSL in a buffer that grows and never
        shrinks: up to 330 KiB for as long as the connection lives."""
        self.idle_since = 0.0
        self._gone = False
        self._parser: HttpResponseParser
        """There is one once it is connected: a handshake that fails ends nothing."""
        self._done: asyncio.Future[list[Response]] | None = None
        self._found: list[Response] = []
        self._wanted = 0
        self._error: Unreachable | None = None
        self._body: list[bytes] = []
        self._retry_after: str | None = None
        self._warnings: Sequence[str] = ()
        self._encoding = b""
        self._framed = False

    def ask(self, messages: bytes, count: int = 1, *, bodies: bool = True) -> asyncio.Future[list[Response]]:
        """Send requests, one behind the other; the future has their answers in that order.

        It has fewer when the connection ends first, or somebody gives up: `failure` says why. Without `bodies` only the
        statuses are looked at.
        """
        self._done = asyncio.get_running_loop().create_future()
        self._found, self._wanted = [], count
        self._framed = not bodies  # else its headers say so
        self.heard = self.gave_up = False
        if not bodies:
            self._parser = HttpResponseParser(_Statuses(self))
        self.transport.write(messages)
        return self._done

    def give_up(self, error: Unreachable) -> bool:
        """Have the one that asked wait no longer. Return False if nobody waits: the answer came in this very turn."""
        if self._done is None:
            return False
        self.gave_up = True
        self._fail(error)
        return True

    def _fail(self, error: Unreachable) -> None:
        done, self._done = self._done, None
        if done is not None and not done.done():
            self._error = error
            done.set_result(self._found)

    def failure(self) -> Unreachable:
        """Return why an answer did not come, once: an exception refers to where it was raised, and that to us."""
        error, self._error = self._error, None
        return error or Unreachable("the answer stopped half way")

    def close(self) -> None:
        """End it; an answer under way never comes."""
        self.closed = True
        if not self._gone:
            self.transport.abort()

    def hand_over(self) -> asyncio.Transport:
        """Return its transport, for somebody else; nothing more is asked of it."""
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
        if self._gone:
            return
        status = self._parser.get_status_code()
        if error is None and self._done is not None and self._wanted == 1 and status >= 200 and not self._framed:
            self._answered(status)  # a body that lasts until the end of the connection
        elif self.heard:
            self._fail(Unreachable("the answer stopped half way"))
        else:
            self._fail(Unreachable(described(error) if error else "server disconnected"))
        self._let_go()

    # -- httptools' calls ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) not in _HEADER_LENGTHS:
            return
        name = name.lower()
        if name == b"content-length" or name == b"transfer-encoding":
            self._framed = True
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name == b"warning":
            self._warnings = (*self._warnings, value.decode("utf-8", "replace"))
        elif name == b"content-encoding":
            self._encoding = value.lower()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            if not self._parser.should_keep_alive():
                self.closed = True
            self._answered(status)

    def _answered(self, status: int) -> None:
        """Take an answer that is complete now."""
        if self._done is None:
            self.close()  # nobody asked, or nobody waits any more
            return
        body = b"".join(self._body)
        self.stretched = self.stretched or len(body) > STRETCHING_BYTES
        if self._encoding in (b"gzip", b"deflate"):
            try:
                body = zlib.decompress(body, 32 + zlib.MAX_WBITS)
            except zlib.error as error:
                self._fail(Unreachable(f"the answer can't be unpacked: {error}"))
                self.close()
                return
        self._found.append(Response(status, body, self._retry_after, self._warnings))
        self._body = []
        self._retry_after = None
        self._warnings = ()
        self._encoding = b""
        self._framed = False
        if len(self._found) == self._wanted:
            self._parser = HttpResponseParser(self)
            done, self._done = self._done, None
            if done.done():
                self.close()
            else:
                done.set_result(self._found)


class _Statuses:
    """A parser's calls for answers of which only the status is looked at: it is not told of headers and bodies."""

    def __init__(self, connection: HttpConnection) -> None:
        self.on_message_complete = connection.on_message_complete


class Stream(asyncio.Protocol):
    """An answer without end, read as it comes, on a connection that it takes over for good: what a watch brings.

    Silent for `idle` seconds, it fails.
    """

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
        """Return the bytes that have come, at least one; b"" at a proper end. Raises Unreachable when cut or silent."""
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
        """End it from our side; a waiting `read` raises Unreachable."""
        self._chunks.clear()
        self._fail(Unreachable("ended by us"))

    async def _hear(self) -> None:
        """Wait until something has changed. Raises Unreachable."""
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
        """Fail if it has been silent for too long; the clock is set again here, and not for each piece that comes."""
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


class _Proxy:
    """An HTTP proxy (`http` or `https`, with or without a user), as Go's net/http uses one."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self.headers = ""
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers = f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}\r\n"

    async def connect(
        self, name: str, port: int, secure: ssl.SSLContext | None, server_name: str | None
    ) -> tuple[asyncio.Transport, HttpConnection]:
        """Connect to a server: with TLS (`secure`) through a tunnel, without TLS to the proxy itself.

        Raises OSError, also if the proxy makes no tunnel.
        """
        loop = asyncio.get_running_loop()
        own = ssl.create_default_context() if self._secure else None
        if secure is None:
            return await loop.create_connection(HttpConnection, self._name, self._port, ssl=own)
        transport, tunnel = await loop.create_connection(_Tunnel, self._name, self._port, ssl=own)
        try:
            where = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
            transport.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{self.headers}\r\n".encode("latin-1"))
            await tunnel.made
            connection = HttpConnection()
            inner = await loop.start_tls(transport, connection, secure, server_hostname=server_name)
        except BaseException:
            transport.abort()
            raise
        assert inner is not None
        connection.connection_made(inner)
        return inner, connection


class _Tunnel(asyncio.Protocol):
    """The connection to a proxy until it has made a tunnel. An answer with any other status is an OSError."""

    def __init__(self) -> None:
        self.made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.made.done() or b"\r\n\r\n" not in self._head:
            return
        line = self._head.split(b"\r\n", 1)[0].decode("latin-1")
        if line[:5] == "HTTP/" and line[8:10] == " 2":
            self.made.set_result(None)
        else:
            self.made.set_exception(OSError(f"the proxy says {line[:100]}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.made.done():
            self.made.set_exception(error or OSError("the proxy has ended the connection"))
