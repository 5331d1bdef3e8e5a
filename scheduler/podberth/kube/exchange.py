"""Requests over kept-alive HTTP/1.1 connections: the pool of them. One connection is `line`'s.

Binding a pod is two requests of a few hundred bytes, so a client's own cost is most of what binding costs us: measured
against a bare responder, aiohttp takes 150 µs of CPU for each and this takes 25. Answers without end are `streaming`'s,
and what goes through a proxy is `proxied`'s.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

from podberth.kube.errors import Unreachable, described, without_trace
from podberth.kube.line import Line, Response
from podberth.kube.streaming import DirectStream

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
_IDEMPOTENT = frozenset(("GET", "PUT", "DELETE"))


class Exchange:
    """Kept-alive connections to one server. `host` is scheme://name[:port]; at most one request on each at a time."""

    def __init__(self, host: str, server_name: str | None, clock: Callable[[], float]) -> None:
        parts = urlsplit(host)
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._server_name = server_name or self._name
        self._secure = parts.scheme == "https"
        self._prefix = parts.path
        self._authority = parts.netloc.rpartition("@")[2]
        self._clock = clock
        self._idle: deque[Line] = deque()
        self._stretched: deque[Line] = deque()
        """Idle connections with stretched buffers. Lists take them first and watches never, so that there are few."""
        self._waiting: deque[asyncio.Future[Line | None]] = deque()
        """Requests that wait for a connection that gets free, or for their turn to open one."""
        self._left: set[Line] = set()
        """Connections on which an answer may still come that nobody waits for any more."""
        self._connecting = 0
        self._context: ssl.SSLContext | None = None

    @property
    def waiting(self) -> int:
        """Return how many requests wait for a connection that gets free, or for their turn to open one."""
        return sum(not waiting.done() for waiting in self._waiting)

    def close(self) -> None:
        """Close what nobody waits for; requests under way are their callers' to cancel."""
        self._close_idle()
        while self._left:
            self._left.pop().close()

    def _close_idle(self) -> None:
        for idle in (self._idle, self._stretched):
            while idle:
                idle.pop().close()

    def message(self, verb: str, target: str, headers: str, body: bytes | None, content_type: str) -> bytes:
        """The bytes of a request. `headers`: whole lines, each with its CRLF."""
        head = f"{verb} {self._prefix}{target} HTTP/1.1\r\nHost: {self._authority}\r\n{headers}"
        if body is None:
            return f"{head}\r\n".encode("latin-1")
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return b"%b%b" % ((head + length).encode("latin-1"), body)

    async def send(
        self,
        verb: str,
        message: bytes,
        context: ssl.SSLContext | None,
        seconds: float,
        within: float | None = None,
        *,
        patience: float | None = None,
        on_send: Callable[[], None] | None = None,
    ) -> Response:
        """Send a `message` and return the answer, whatever its status; `seconds` for all of it.

        `within`: seconds in which it has to be on its way, or it is not sent; afterwards it takes its time. `patience`:
        seconds after which we stop to wait for the answer, while the server still has its `seconds`. `on_send` is
        called right before the message leaves, and holds it back by raising. Raises Unreachable: `sent` tells whether
        the server may have acted.
        """
        began = self._clock()
        deadline = began + seconds
        latest = deadline if within is None else min(began + within, deadline)
        first, then = (self._stretched, self._idle) if verb == "GET" else (self._idle, self._stretched)
        line = self._take(context, first, then)
        if line is None and self._connecting >= CONNECTING:
            line = await self._freed(context, latest - began)
        reused = line is not None
        left = acted = False
        while True:
            if line is None:
                line = await self._connect(context, latest - self._clock(), acted=acted)
            if within is not None and self._clock() > latest:
                self._put_back(line, context)  # this process stood still while it waited
                raise Unreachable("not sent: its time is over", sent=acted, timed_out=True)
            if on_send is not None and not left:
                try:
                    on_send()
                except BaseException:
                    self._put_back(line, context)
                    raise
            answer = line.ask(message)
            left, acted = True, verb != "GET"
            asked = self._clock()
            until = deadline if patience is None else min(asked + patience, deadline)
            loop = asyncio.get_running_loop()
            timer = loop.call_later(max(until - asked, 0.0), self._late, line, answer, asked, deadline)
            try:
                found = await answer
            except Unreachable as error:
                # A server may close an idle connection just as we use it. Then it has not acted on the request;
                # but who can tell, so only what may be done twice is.
                if not (reused and verb in _IDEMPOTENT and not line.heard) or error.timed_out:
                    raise
                reused, line = False, None
                continue
            except asyncio.CancelledError:
                line.close()
                raise
            finally:
                timer.cancel()
                del answer, timer  # its exception refers to this frame
            self._put_back(line, context)
            return found

    async def send_many(
        self,
        messages: list[bytes],
        context: ssl.SSLContext | None,
        seconds: float,
        within: float | None = None,
        *,
        bodies: bool = False,
    ) -> list[Response]:
        """Send requests on one connection, one behind the other, and return the answers of those that were answered.

        The server answers in the same order. `seconds` for all of it, `within` as in `send`. `bodies`: they are
        wanted, and not only the statuses. Raises Unreachable if nothing was sent.
        """
        began = self._clock()
        latest = began + (seconds if within is None else min(within, seconds))
        line = self._take(context, self._idle, self._stretched)
        if line is None and self._connecting >= CONNECTING:
            line = await self._freed(context, latest - began)
        if line is None:
            line = await self._connect(context, latest - self._clock())
        if self._clock() > latest:
            self._put_back(line, context)
            raise Unreachable("not sent: its time is over", sent=False, timed_out=True)
        done = line.ask_many(b"".join(messages), len(messages), bodies=bodies)
        timer = asyncio.get_running_loop().call_later(max(began + seconds - self._clock(), 0.0), line.close)
        try:
            found = await done
        except asyncio.CancelledError:
            line.close()
            raise
        finally:
            timer.cancel()
        if len(found) == len(messages):
            self._put_back(line, context)
        else:
            line.close()
        return found

    async def open(self, message: bytes, context: ssl.SSLContext | None, idle: float) -> DirectStream:
        """Send a GET and return its answer as soon as its head is there, whatever its status.

        It takes over an idle connection where there is one that is not stretched: after a short list, its watch needs
        no handshake of its own. Raises Unreachable, also when the server is silent for `idle` seconds.
        """
        line = self._take(context, self._idle)
        while True:
            reused = line is not None
            asked = self._clock()
            stream = DirectStream((line or await self._connect(context, CONNECT_SECONDS)).hand_over(), idle)
            try:
                async with asyncio.timeout(HEAD_SECONDS if reused else None):
                    await stream.ask(message)
            except Unreachable as error:
                if not reused or stream.heard or error.timed_out:
                    raise
                line = None  # closed by the server just as we took it
            except TimeoutError:
                stream.abort()
                self._distrust(asked)
                line = None
            except asyncio.CancelledError:
                stream.abort()
                raise
            else:
                return stream

    def _late(self, line: Line, answer: asyncio.Future[Response], asked: float, deadline: float) -> None:
        if not answer.done():
            said = f"no answer in time from {self._authority}"
            answer.set_exception(Unreachable(said, timed_out=True, heard=line.heard))
        if not line.heard:
            self._distrust(asked)
        # Closing it would tell the server to stop, which may be about to do what it was asked.
        self._left.add(line)
        asyncio.get_running_loop().call_later(max(deadline - self._clock(), 0.0), self._end, line)

    def _end(self, line: Line) -> None:
        self._left.discard(line)
        line.close()

    def _distrust(self, since: float) -> None:
        """One connection was silent since then: the others may be dead as well, but for those that answered later."""
        for idle in (self._idle, self._stretched):
            for line in [line for line in idle if line.idle_since <= since]:
                idle.remove(line)
                line.close()

    def _take(self, context: ssl.SSLContext | None, *pools: deque[Line]) -> Line | None:
        """An idle connection of the first pool that has one."""
        if context is not self._context:
            self._close_idle()  # certificates were rotated: the new ones show on new connections only
            self._context = context
        for idle in pools:
            while idle:
                line = idle.pop()
                if not line.closed and self._clock() - line.idle_since < KEEPALIVE_SECONDS:
                    return line
                line.close()
        return None

    def _put_back(self, line: Line, context: ssl.SSLContext | None) -> None:
        if line.closed or context is not self._context:
            line.close()
            return
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(line)
                return
        line.idle_since = self._clock()
        (self._stretched if line.stretched else self._idle).append(line)
        # The first is the longest idle: what no longer gets its turn is closed one by one.
        for idle in (self._idle, self._stretched):
            if idle and self._clock() - idle[0].idle_since > KEEPALIVE_SECONDS:
                idle.popleft().close()

    async def _freed(self, context: ssl.SSLContext | None, seconds: float) -> Line | None:
        """A connection that another request has done with; None when it is our turn to open one."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Line | None] = loop.create_future()
        patience = PATIENCE + APART * self.waiting
        self._waiting.append(waiting)
        timer = loop.call_later(min(seconds, patience), _give_up, waiting)
        try:
            line = await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._pass_on(waiting.result(), context)
            raise
        finally:
            timer.cancel()
        if line is not None and (line.closed or context is not self._context):
            line.close()
            return None
        return line

    def _pass_on(self, line: Line | None, context: ssl.SSLContext | None) -> None:
        """Give the next in the queue what one no longer needs: a connection, or (None) the turn to open one."""
        if line is not None:
            self._put_back(line, context)
            return
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    async def _connect(self, context: ssl.SSLContext | None, seconds: float, *, acted: bool = False) -> Line:
        """A new connection; `acted`: for a request by which the server may have acted already. Raises Unreachable."""
        self._connecting += 1
        try:
            return await self._handshake(context, seconds)
        except Unreachable as error:
            error.sent = acted
            raise
        finally:
            self._connecting -= 1
            self._pass_on(None, context)

    async def _handshake(self, context: ssl.SSLContext | None, seconds: float) -> Line:
        loop = asyncio.get_running_loop()
        secure = (context or ssl.create_default_context()) if self._secure else None
        try:
            async with asyncio.timeout(min(seconds, CONNECT_SECONDS)):
                transport, line = await loop.create_connection(
                    Line, self._name, self._port, ssl=secure, server_hostname=self._server_name if secure else None
                )
        except TimeoutError as error:
            raise Unreachable(f"no connection to {self._authority} in time", sent=False, timed_out=True) from error
        except (OSError, ssl.SSLError) as error:
            # Asyncio's frames refer to the connection, and to the future that has this error.
            raise Unreachable(
                f"cannot connect to {self._authority}: {described(error)}", sent=False
            ) from without_trace(error)
        keep_alive(transport.get_extra_info("socket"))
        return line


def _give_up(waiting: asyncio.Future[Line | None]) -> None:
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
