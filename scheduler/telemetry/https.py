"""The serving thread's own part: requests in, answers out. Imported there, for a scheduler starts without it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
import structlog
from aiohttp import web

from scheduler.telemetry.exposition import CONTENT_TYPE, page
from scheduler.telemetry.health import Checks, answer
from scheduler.telemetry.instruments import Reading

PATIENCE = 10.0
"""Seconds that the main loop, and the API server behind it, get for an answer."""
KEEPALIVE_SECONDS = 75.0
FINISH_SECONDS = 1.0
ACCEPT_AGAIN_SECONDS = 1.0
Found = TypeVar("Found")

log = structlog.get_logger("serving")


class Source(Protocol):
    """What is served. The coroutines run on the main loop, the rest on the serving thread."""

    def live(self) -> Checks: ...
    def ready(self) -> Checks: ...
    def notes(self) -> Mapping[str, str]: ...
    def held(self) -> str | None: ...
    async def authorize(self, authorization: str | None, path: str, certificate: bytes | None) -> tuple[int, str]: ...
    async def readings(self) -> list[Reading]: ...
    async def pages(self) -> bytes: ...
    async def configuration(self) -> Any: ...


async def serve(
    listening: socket.socket,
    contexts: AsyncIterator[ssl.SSLContext],
    source: Source,
    main: asyncio.AbstractEventLoop,
    listens: Callable[[], None],
) -> None:
    """Answer on this socket with each context in turn until there is none; calls `listens` when it does.

    With another context others are trusted, so connections that were made before are closed.
    """
    pages = _Pages(source, main)
    accepting: asyncio.Task[None] | None = None
    async for context in contexts:
        pages.context = context
        if accepting is None:
            accepting = asyncio.create_task(pages.accept(listening))
            listens()
        for connection in pages.server.connections:
            connection.force_close()
    if accepting is not None:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
    listening.close()
    pages.server.pre_shutdown()
    await pages.server.shutdown(FINISH_SECONDS)


class _Pages:
    def __init__(self, source: Source, main: asyncio.AbstractEventLoop) -> None:
        self.context: ssl.SSLContext | None = None
        self.server = web.Server(self.handle, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS)
        self._source = source
        self._main = main

    async def accept(self, listening: socket.socket) -> None:
        """Take connections until cancelled, each with the context of its moment, which asyncio's own server can't."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        async with asyncio.TaskGroup() as handshakes:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:  # too many files are open, mostly
                    log.error("can't accept connections", error=str(error))
                    await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                    continue
                handshakes.create_task(self._welcome(connection))

    async def _welcome(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # a handshake that failed is the client's to tell
            await loop.connect_accepted_socket(self.server, connection, ssl=self.context)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, whatever it is."""
        source, path, verbose = self._source, request.path, "verbose" in request.query
        if request.method not in ("GET", "HEAD"):
            return _text(405, "method not allowed")
        match path:
            case "/livez" | "/healthz":
                return _text(*answer(path, source.live(), verbose=verbose, notes=source.notes()))
            case "/readyz":
                return _text(*answer(path, source.ready(), verbose=verbose, notes=source.notes()))
        try:
            return await self._guarded(path, request.headers.get("Authorization"), self._certificate(request))
        except TimeoutError:
            return _text(503, source.held() or f"no answer within {PATIENCE:g} s")

    def _certificate(self, request: web.BaseRequest) -> bytes | None:
        """The client's, in DER form, as far as TLS has verified it against those who are trusted now."""
        transport = request.transport
        if transport is None or transport.get_extra_info("sslcontext") is not self.context:
            return None  # its handshake was under way when the context changed
        certificate: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate

    async def _guarded(self, path: str, authorization: str | None, certificate: bytes | None) -> web.Response:
        source = self._source
        status, said = await self._on_main(source.authorize(authorization, path, certificate))
        if status != 200:
            return _text(status, said)
        if path == "/metrics":
            body = page(await self._on_main(source.readings())) + await self._on_main(source.pages())
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
        if path == "/configz":
            settings = msgspec.json.encode({"componentconfig": await self._on_main(source.configuration())})
            return web.Response(body=settings, content_type="application/json")
        return _text(404, "not found")

    async def _on_main(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Have it done on the main loop. Raises TimeoutError."""
        doing = asyncio.run_coroutine_threadsafe(work, self._main)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.wrap_future(doing)


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers={"X-Content-Type-Options": "nosniff"})
