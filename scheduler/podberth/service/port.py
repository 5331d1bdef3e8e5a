"""A port that serves HTTP by aiohttp, with limits on connections, times, and the size of requests.

`connections` says which connection is closed when there is no room, `complaints` counts what was refused. Everything
here runs on one event loop, which accepts connections and, once a second, closes those that are overdue.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import structlog
from aiohttp import web

from podberth.service.complaints import REFUSED, Complaints, Reason
from podberth.service.connections import Connection, Connections, Limits, Stage, descriptors, nothing, peer_of
from podberth.service.handshakes import Arrival, Handshakes
from podberth.service.metrics import Asked, Family, Instrument, Labels

ACCEPT_AGAIN_SECONDS = 1.0
GIVEN_BACK_SECONDS = 0.05
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
LOOK_SECONDS = 1.0
TLS_CLOSE_SECONDS = 2.0
SPARE_DESCRIPTORS = 4
AFTER_OUR_END = "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"
"""What OpenSSL says when a client goes on with what we have refused already."""
MOST_HEADERS = 64
READ_BYTES = 16 << 10
PIECE_BYTES = 64 << 10
"""Received of one connection before others have their turn."""
HEALTH = frozenset(("/livez", "/healthz", "/readyz"))
CONNECTIONS = Family(
    "berth_port_connections", "gauge", "Open connections of each port that the process listens on.", ("port",)
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
        self.on_asked: Callable[[], object] = nothing
        """Called when something of a request has come, for whoever lets it pass."""
        self._context: Context = lambda: None
        self._clock = clock
        self._of: dict[object, _Watched] = {}
        """By aiohttp's protocol, which a request knows."""
        self._listening: list[socket.socket] = []
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False
        self._empty: asyncio.Event | None = None
        """Set when no connection is left, once somebody waits for that."""
        self._arriving: dict[asyncio.Task[None], Connection] = {}
        self._handshakes = Handshakes(lambda peer: self.complaints.record("crowded", peer))
        self._spare = _Spare(SPARE_DESCRIPTORS)
        self.piece = memoryview(bytearray(PIECE_BYTES))
        """What is received, of whichever connection: one has its turn after the other."""

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
        held, gone = self.connections.enter(peer_of(address), self._clock())
        if gone is not None:
            self._cut(gone, "crowded")
        arrival = Arrival(connection, held.peer)
        held.end = arrival.end
        task = asyncio.create_task(self._welcome(arrival, held))
        self._arriving[task] = held
        task.add_done_callback(self._arriving.pop)

    def _without(self, error: OSError) -> float:
        """There is no descriptor for a connection, mostly: give a spare one, and close a connection to have it back.

        Seconds until it is worth another try.
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

    async def _welcome(self, arrival: Arrival, held: Connection) -> None:
        watched = _Watched(self, held)
        try:
            if self._context() is not None:
                await self._handshakes.said(arrival)
                if not await self._handshakes.begin(arrival):
                    arrival.connection.close()
                    return
            context = self._context()
            more: dict[str, Any] = {} if context is None else {"ssl_shutdown_timeout": TLS_CLOSE_SECONDS}
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: watched, arrival.connection, ssl=context, **more
            )
        except OSError as error:
            # Cut off, or the client went away, or it does not speak TLS. The traceback would keep all of it in memory.
            error.__traceback__ = None
            if isinstance(error, ssl.SSLError):
                self.complaints.record("tls", held.peer, error.reason or error)
        except Exception:  # one connection's trouble is not the port's
            log.error("a connection failed, this is a bug of Berth", port=self.name, exc_info=True)
        finally:
            self._handshakes.leave(arrival)
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
        for one in self.connections.overdue(self._clock()):
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

    def now(self) -> float:
        """The time by which connections are overdue."""
        return self._clock()

    def asked(self) -> None:
        """Something of a request has come: handshakes let it pass."""
        self._handshakes.asked()
        self.on_asked()

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
        """What the body of the request under way is read from."""
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
        self._port.connections.turn(self.held, stage, self._port.now())

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
            self._port.asked()
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
    """The metrics of several ports together."""
    found = list(ports)

    def open_now() -> Mapping[Labels, float]:
        return {(one.name,): float(len(one.connections)) for one in found}

    def refused() -> Mapping[Labels, float]:
        return {labels: n for one in found for labels, n in one.complaints.refused.read().values.items()}

    return [Asked(CONNECTIONS, open_now), Asked(REFUSED, refused)]
