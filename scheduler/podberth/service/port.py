"""A port that serves HTTP by aiohttp, with limits on connections, times, and the size of requests.

aiohttp and asyncio take whoever comes, for as long as they stay. Here a connection is asking until a request of it has
arrived, answering until that is answered, and then idle. Room is made by the one that is longest about its handshake or
its headers, then by the one that was idle longest, then by one whose body is still to come; first of the peer that has
most connections. So whoever opens a thousand of them closes their own, and the newest, which may be a probe, finds
room. Requests that are being answered are not cut off for others: when there is nothing else left, a few places are
kept for new connections that ask for health.

Everything here runs on one event loop, which accepts connections and, once a second, closes those that are overdue.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import resource
import socket
import ssl
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from podberth.service.metrics import Asked, Counter, Family, Instrument, Labels

ACCEPT_AGAIN_SECONDS = 1.0
GIVEN_BACK_SECONDS = 0.05
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
LOOK_SECONDS = 1.0
TLS_CLOSE_SECONDS = 2.0
SPARE_DESCRIPTORS = 4
AFTER_OUR_END = "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"
"""OpenSSL's reason when a client goes on with what we have refused already."""
ANSWER_TURNS = 4
"""Turns of the loop in which a small request is read, handled and answered."""
MOST_TURNS = 12
"""Turns that one of `Turns` may have to wait for requests, however many come."""
MOST_HEADERS = 64
READ_BYTES = 16 << 10
PIECE_BYTES = 64 << 10
"""Received of one connection before others have their turn."""
HEALTH = frozenset(("/livez", "/healthz", "/readyz"))
CONNECTIONS = Family(
    "berth_port_connections", "gauge", "Open connections of each port that the process listens on.", ("port",)
)
OTHER_DESCRIPTORS = 256
"""Descriptors that a process of ours may need for all else: connections to the API server, files, its log."""
FEWEST = 16
LINE_SECONDS = 60.0
MOST_DETAIL = 200

Reason = Literal["tls", "malformed", "too-long", "late", "slow", "crowded", "busy", "no-descriptor"]
REFUSED = Family(
    "berth_port_refused_total",
    "counter",
    "Connections and requests that a port refused or closed, by reason. tls: the handshake failed; malformed: it was "
    "not HTTP, or its token was not ASCII; "
    "too-long: a line or header was over the limit; late: the request was not complete in time; slow: the "
    "client did not read the answer in time; crowded: closed to make room for a newer connection; busy: answered 429 "
    "or 503, because too many requests were in progress; no-descriptor: the process may open no more files.",
    ("port", "reason"),
)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Context = Callable[[], ssl.SSLContext | None]

log = structlog.get_logger("port")


class Port:
    """One port and its connections; `options` are aiohttp's. Make it on the loop on which it serves."""

    def __init__(
        self,
        name: str,
        handle: Handler,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.name = name
        self.connections = Connections(limits.within(descriptors()))
        self.complaints = Complaints(name, clock)
        given: dict[str, Any] = {"max_headers": MOST_HEADERS, **options}
        self.server = web.Server(
            self._handle,
            access_log=None,
            logger=self.complaints.logger(),
            keepalive_timeout=limits.idle,
            **given,
        )
        self._handler = handle
        self.turns = Turns()
        self._context: Context = lambda: None
        self.clock = clock
        self._of: dict[object, _Watched] = {}
        """Connections by aiohttp's protocol, which a request knows."""
        self._listening: list[socket.socket] = []
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False
        self._empty: asyncio.Event | None = None
        """Set when no connection is left, once somebody waits for that."""
        self._arriving: dict[asyncio.Task[None], Connection] = {}
        self._spare = _Spare(SPARE_DESCRIPTORS)
        self.piece = memoryview(bytearray(PIECE_BYTES))
        """The buffer into which each connection receives: one has its turn after the other."""

    def start(self, listening: Sequence[socket.socket], context: Context) -> None:
        """Take connections from these sockets until `stop`, each with the context of its moment; None: without TLS."""
        self._listening = list(listening)
        self._context = context
        for one in listening:
            one.setblocking(False)
            self._accepting(one)
        self._looking = asyncio.create_task(self._look())

    async def stop(self, seconds: float) -> None:
        """Accept nothing more; requests under way have so many seconds to end."""
        self._stopped = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        for held in self._arriving.values():
            held.end()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        self._spare.close()
        self.server.pre_shutdown()
        await self.server.shutdown(seconds)
        for one in self.connections:
            one.end()
        if self._of:  # who was told goodbye by TLS has a moment to answer
            self._empty = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TLS_CLOSE_SECONDS + 1.0):
                    await self._empty.wait()
        await asyncio.sleep(0)  # asyncio closes sockets a turn later

    def cut_off(self) -> None:
        """Close all connections: what they were accepted with does not count any more."""
        for connection in self.server.connections:
            connection.force_close()

    # -- accepting -----------------------------------------------------------------------------------------------

    def _accepting(self, listening: socket.socket) -> None:
        """Be called when somebody connects there."""
        if not self._stopped:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Take one connection: others have their turn before the next, however many wait."""
        try:
            connection, address = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # the client went away before its turn
        except OSError as error:
            if (seconds := self._without(error)) > 0:
                asyncio.get_running_loop().remove_reader(listening)
                asyncio.get_running_loop().call_later(seconds, self._accepting, listening)
            return
        connection.setblocking(False)
        held, gone = self.connections.enter(peer_of(address), self.clock())
        if gone is not None:
            self._cut(gone, "crowded")
        held.end = lambda: _hang_up(connection)
        task = asyncio.create_task(self._welcome(connection, held))
        self._arriving[task] = held
        task.add_done_callback(self._arriving.pop)

    def _without(self, error: OSError) -> float:
        """Give a spare descriptor where there is none for a connection, and close a connection to have it back.

        Returns the seconds until it is worth another try.
        """
        if error.errno not in NO_DESCRIPTOR:
            log.error("can't accept connections", port=self.name, error=str(error))
            return ACCEPT_AGAIN_SECONDS
        self.complaints.record("no-descriptor", "", error)
        gone = self.connections.first_to_go()
        if gone is not None:
            self.connections.leave(gone)
            self._cut(gone, "crowded")
        if self._spare.give():
            return 0.0
        return ACCEPT_AGAIN_SECONDS if gone is None else GIVEN_BACK_SECONDS

    async def _welcome(self, connection: socket.socket, held: Connection) -> None:
        watched = _Watched(self, held)
        try:
            if self._context() is not None:
                await _readable(connection)
                await self.turns.next()
                self.turns.hold()  # the next handshake waits as if this one were a request
            context = self._context()
            more: dict[str, Any] = {} if context is None else {"ssl_shutdown_timeout": TLS_CLOSE_SECONDS}
            await asyncio.get_running_loop().connect_accepted_socket(lambda: watched, connection, ssl=context, **more)
        except OSError as error:
            # Cut off, or the client went away, or it does not speak TLS. The traceback would keep all of it in memory.
            error.__traceback__ = None
            if isinstance(error, ssl.SSLError):
                self.complaints.record("tls", held.peer, error.reason or error)
        except Exception:  # one connection's trouble is not the port's
            log.error("a connection failed, this is a bug of Berth", port=self.name, exc_info=True)
        finally:
            if watched.lost:
                held.end = nothing
                self.connections.leave(held)

    async def _look(self) -> None:
        """Cut off what is overdue, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Cut off what is overdue now."""
        self._spare.fill()
        for one in self.connections.overdue(self.clock()):
            stage = one.stage
            self.connections.leave(one)
            if stage is Stage.IDLE:
                one.end()
            else:
                self._cut(one, "late" if stage is Stage.ASKING else "slow")

    def _cut(self, one: Connection, reason: Reason) -> None:
        self.complaints.record(reason, one.peer)
        one.end()

    # -- requests ------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        watched = self._of.get(request.protocol)
        if watched is None:
            return await self._handler(request)  # the client has gone
        watched.begins(request.content)
        try:
            if watched.held.kept and request.path not in HEALTH:
                return self.busy(watched.held.peer, 503)
            return await self._handler(request)
        finally:
            watched.ends()

    def busy(self, peer: str, status: int) -> web.Response:
        """Say that too much is under way."""
        self.complaints.record("busy", peer)
        response = web.Response(status=status, text="too much is under way, try again\n", headers={"Retry-After": "1"})
        response.force_close()
        return response

    def peer(self, request: web.BaseRequest) -> str:
        """Return whose request it is."""
        watched = self._of.get(request.protocol)
        return "" if watched is None else watched.held.peer

    def came(self, watched: _Watched) -> None:
        """Know a connection whose handshake is over by its protocol."""
        self._of[watched.inner] = watched

    def went(self, watched: _Watched) -> None:
        """Forget a connection that is closed."""
        self._of.pop(watched.inner, None)
        watched.held.end = nothing  # it would keep the transport, whose TLS keeps what it calls, which is `watched`
        self.connections.leave(watched.held)
        if self._empty is not None and not self._of:
            self._empty.set()


class _Watched(asyncio.BufferedProtocol):
    """Between a transport and aiohttp's protocol: sees how far the connection has come.

    It receives into the port's buffer. Without one TLS would make a quarter of a megabyte for each read.
    """

    def __init__(self, port: Port, held: Connection) -> None:
        self.inner: web.RequestHandler
        """There is one as soon as the handshake is over."""
        self.held = held
        self.lost = True
        """Not connected, or not any more."""
        self._port = port
        self._content: Any = None
        """The stream of the body of the request under way."""
        self._full = False
        """The client takes nothing of what was written."""

    def begins(self, content: Any) -> None:
        """A request's head is there; it is whole when its body is."""
        self._content = content
        self._turn(Stage.ANSWERING if content.is_eof() else Stage.RECEIVING)

    def ends(self) -> None:
        """Its answer is about to be written."""
        self._content = None
        self._turn(Stage.ANSWERING if self._full else Stage.IDLE)

    def _turn(self, stage: Stage) -> None:
        self._port.connections.turn(self.held, stage, self._port.clock())

    # -- asyncio's calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.lost = False
        self.inner = self._port.server()
        self.held.end = cast(asyncio.Transport, transport).abort
        self._turn(Stage.ASKING)
        self._port.came(self)
        self.inner.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._port.piece

    def buffer_updated(self, nbytes: int) -> None:
        if self.held.stage <= Stage.IDLE:
            self._port.turns.hold()
        if self.held.stage is Stage.IDLE and not self._full:
            self._turn(Stage.ASKING)
        self.inner.data_received(bytes(self._port.piece[:nbytes]))
        if self.held.stage is Stage.RECEIVING and self._content.is_eof():
            self._turn(Stage.ANSWERING)

    def eof_received(self) -> None:
        self.inner.eof_received()

    def pause_writing(self) -> None:
        self._full = True
        self._turn(Stage.ANSWERING)
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self._full = False
        self.inner.resume_writing()
        if self._content is None:
            self._turn(Stage.IDLE)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if isinstance(error, ssl.SSLError) and error.reason != AFTER_OUR_END:
            self._port.complaints.record("tls", self.held.peer, error.reason or error)
        self._port.went(self)
        self.inner.connection_lost(error)
        for message, _ in self.inner._messages:
            # Errors in what came after an error, which nobody will be told: their tracebacks hold what was sent.
            if (unsaid := getattr(message, "exc", None)) is not None:
                unsaid.__traceback__ = None


def _hang_up(connection: socket.socket) -> None:
    """End a connection in its handshake, wherever that is: cancelled, asyncio might never close it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


async def _readable(connection: socket.socket) -> None:
    """Wait until the client has said something, or was cut off."""
    loop = asyncio.get_running_loop()
    said = asyncio.Event()
    loop.add_reader(connection, said.set)
    try:
        await said.wait()
    finally:
        loop.remove_reader(connection)


class _Spare:
    """Descriptors that are kept, so that there is one when the process has used up all others."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: list[int] = []
        self.fill()

    def fill(self) -> None:
        """Open as many as there should be, or as many as the system gives."""
        with contextlib.suppress(OSError):
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def give(self) -> bool:
        """Let one go; False when there is none left."""
        if not self._kept:
            return False
        os.close(self._kept.pop())
        return True

    def close(self) -> None:
        """Let all go."""
        self._count = 0
        while self.give():
            pass


def instruments(ports: Iterable[Port]) -> list[Instrument]:
    """Return the metrics of several ports together."""
    found = list(ports)

    def open_now() -> Mapping[Labels, float]:
        return {(one.name,): float(len(one.connections)) for one in found}

    def refused() -> Mapping[Labels, float]:
        return {labels: n for one in found for labels, n in one.complaints.refused.read().values.items()}

    return [Asked(CONNECTIONS, open_now), Asked(REFUSED, refused)]


class Turns:
    """Lets one that waits go on in each turn of the event loop, first come, first served: a handshake, or a piece of a
    large body, which cost the loop more than a small request.

    Small requests go first: after `hold`, none goes on for as many turns as it takes to answer one.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._going = False
        self._held = 0
        self._waited = 0

    def hold(self) -> None:
        """Let a request that has arrived go before those that wait."""
        self._held = ANSWER_TURNS

    async def next(self) -> None:
        """Wait until it is the caller's turn."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._turn)
        await turn

    def _turn(self) -> None:
        if self._held and self._waited < MOST_TURNS:
            self._held -= 1
            self._waited += 1
        else:
            self._waited = 0
            self._next()
        self._going = bool(self._waiting)
        if self._going:
            asyncio.get_running_loop().call_soon(self._turn)

    def _next(self) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # else who waited has gone away
                first.set_result(None)
                return


class Stage(IntEnum):
    """The stage that a connection has come to; the lower has to go first."""

    ASKING = 0
    IDLE = 1
    RECEIVING = 2
    """A request's head is there, its body is not."""
    ANSWERING = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """`most` connections in all and `of_peer` from one address; `kept` more for health when all others are answering.

    A TLS handshake, and a request's line and headers, have to arrive in `ask` seconds each; who was answered may be
    silent for `idle` seconds; a body, and its answer, may take `answer` seconds each until the client has taken it.
    """

    most: int
    of_peer: int
    kept: int
    ask: float
    idle: float
    answer: float

    def within(self, descriptors: int) -> Limits:
        """Lower limits, where the process may open few files: half of those that nothing else needs."""
        most = min(self.most, max((descriptors - OTHER_DESCRIPTORS) // 2, FEWEST))
        return replace(self, most=most, of_peer=max(self.of_peer * most // self.most, 1))


class Connection:
    """One client; `end` cuts it off. `kept`: it has one of the places that are kept for health."""

    __slots__ = ("end", "kept", "peer", "since", "stage", "until")

    def __init__(self, peer: str, now: float, until: float) -> None:
        self.peer = peer
        self.stage = Stage.ASKING
        self.since = now
        self.until = until
        self.kept = False
        self.end: Callable[[], object] = nothing


class Connections:
    """The connections of one port."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._held: dict[Connection, None] = {}
        self._kept: dict[Connection, None] = {}
        """The connections in the places that are kept for health. They count for no limit but their own."""
        self._of_peer: Tally[str] = Tally()

    def __len__(self) -> int:
        return len(self._held) + len(self._kept)

    def __iter__(self) -> Iterator[Connection]:
        return iter((*self._held, *self._kept))

    def enter(self, peer: str, now: float) -> tuple[Connection, Connection | None]:
        """Take in a connection; return it, and the one that has to go for it."""
        new = Connection(peer, now, now + self.limits.ask)
        gone: Connection | None = None
        if self._of_peer[peer] >= self.limits.of_peer:
            gone = self.first_to_go(peer)
            new.kept = gone is None
        elif len(self._held) >= self.limits.most:
            gone = self.first_to_go()
            new.kept = gone is None
        if new.kept and len(self._kept) >= self.limits.kept:
            gone = next(iter(self._kept))
        if gone is not None:
            self.leave(gone)
        if new.kept:
            self._kept[new] = None
        else:
            self._held[new] = None
            self._of_peer[peer] += 1
        return new, gone

    def first_to_go(self, peer: str | None = None) -> Connection | None:
        """Return the connection to be closed when there has to be room; None when all are being answered. `peer`:
        whose.
        """
        waiting = [one for one in self._held if one.stage is not Stage.ANSWERING and (peer is None or one.peer == peer)]
        return min(waiting, key=lambda one: (one.stage, -self._of_peer[one.peer], one.since), default=None)

    def leave(self, one: Connection) -> None:
        """Forget a connection that is closed, or about to be. One that is forgotten already may be named again."""
        self._kept.pop(one, None)
        if one in self._held:
            del self._held[one]
            self._of_peer[one.peer] -= 1
            if not self._of_peer[one.peer]:
                del self._of_peer[one.peer]

    def turn(self, one: Connection, stage: Stage, now: float) -> None:
        """Note that a connection has come to a stage, and until when it may stay there."""
        limits = self.limits
        one.stage, one.since = stage, now
        one.until = now + {Stage.ASKING: limits.ask, Stage.IDLE: limits.idle}.get(stage, limits.answer)

    def overdue(self, now: float) -> list[Connection]:
        """Return the connections that have stayed in their stage for too long."""
        return [one for one in self if now >= one.until]


class Complaints:
    """Counts what a port refuses, by reason, and logs each reason at most once a minute.

    A request that is not HTTP, or a handshake that fails, is the client's fault and gets no traceback. A handler that
    raises is a bug in Berth, and gets one.
    """

    def __init__(self, port: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.refused = Counter(REFUSED)
        self._port = port
        self.clock = clock
        self._told: dict[Reason, tuple[float, int]] = {}
        """Reason → the time of its last line, and how often it was met since then."""

    def record(self, reason: Reason, peer: str, detail: object = "") -> None:
        """Count a refusal; log it if its reason had no line for a minute."""
        self.refused.add(1, self._port, reason)
        now = self.clock()
        told_at, times = self._told.get(reason, (float("-inf"), 0))
        if now - told_at < LINE_SECONDS:
            self._told[reason] = told_at, times + 1
            return
        self._told[reason] = now, 0
        said = str(detail)[:MOST_DETAIL]
        log.warning("refused", port=self._port, reason=reason, peer=peer, detail=said, times_since_last_line=times + 1)

    def logger(self) -> logging.Logger:
        """Return a logger for aiohttp, which would log each refusal with a traceback."""
        found = logging.Logger(f"port.{self._port}", logging.DEBUG)
        found.addHandler(_Heard(self))
        return found


class _Heard(logging.Handler):
    """Hears what aiohttp has to say of one request."""

    def __init__(self, complaints: Complaints) -> None:
        super().__init__()
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        peer = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        if isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
            error.__traceback__ = None  # it would keep in memory what the client has sent
            self._complaints.record("too-long" if isinstance(error, LineTooLong) else "malformed", peer, _said(error))
        elif isinstance(error, ConnectionError):
            pass  # the client went away
        elif record.levelno >= logging.WARNING:
            log.error("a request failed, this is a bug of Berth", peer=peer, said=record.getMessage(), exc_info=error)


def _said(error: BaseException) -> str:
    """Return the first line of an error's text: it says what was wrong, and the other ones show it."""
    return next(iter(str(getattr(error, "message", "") or error).splitlines()), type(error).__name__)


def peer_of(address: object) -> str:
    """Return what counts as one peer: an IPv4 address, or the 64 bits of an IPv6 address that one owner has of it."""
    host = address[0] if isinstance(address, tuple) else ""
    try:
        found = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return str(host)
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(found) >> 64 << 64))


def descriptors() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def nothing() -> None:
    """Stands for `end` as long as there is nothing to end."""
