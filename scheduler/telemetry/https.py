"""The serving thread's own part: requests in, answers out. Imported there, for a scheduler starts without it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
from aiohttp import web

from scheduler.telemetry.exposition import CONTENT_TYPE, page
from scheduler.telemetry.health import Checks, answer
from scheduler.telemetry.instruments import Reading

PATIENCE = 10.0
"""Seconds that the main loop, and the API server behind it, get for an answer."""
KEEPALIVE_SECONDS = 75.0
FINISH_SECONDS = 1.0
Found = TypeVar("Found")


class Source(Protocol):
    """What is served. The coroutines run on the main loop, the rest on the serving thread."""

    def live(self) -> Checks: ...
    def ready(self) -> Checks: ...
    def notes(self) -> Mapping[str, str]: ...
    def stalled(self) -> str | None: ...
    async def authorize(self, authorization: str | None, path: str) -> tuple[int, str]: ...
    async def readings(self) -> list[Reading]: ...
    async def pages(self) -> bytes: ...
    async def configuration(self) -> Any: ...


async def serve(
    listening: socket.socket,
    context: ssl.SSLContext,
    source: Source,
    main: asyncio.AbstractEventLoop,
    until: asyncio.Event,
    listens: Callable[[], None],
) -> None:
    """Answer on this socket until told to end; calls `listens` when it does."""
    pages = _Pages(source, main)
    runner = web.ServerRunner(
        web.Server(pages.handle, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS),
        handle_signals=False,
        shutdown_timeout=FINISH_SECONDS,
    )
    await runner.setup()
    await web.SockSite(runner, listening, ssl_context=context).start()
    listens()
    await until.wait()
    await runner.cleanup()


class _Pages:
    def __init__(self, source: Source, main: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._main = main

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, whatever it is."""
        source, path, verbose = self._source, request.path, "verbose" in request.query
        if request.method not in ("GET", "HEAD"):
            return _text(405, "method not allowed")
        match path:
            case "/livez" | "/healthz":
                return _text(*answer(path, source.live(), verbose=verbose))
            case "/readyz":
                return _text(*answer(path, source.ready(), verbose=verbose, notes=source.notes()))
        try:
            return await self._guarded(path, request.headers.get("Authorization"))
        except TimeoutError:
            return _text(503, source.stalled() or f"no answer within {PATIENCE:g} s")

    async def _guarded(self, path: str, authorization: str | None) -> web.Response:
        source = self._source
        status, said = await self._on_main(source.authorize(authorization, path))
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
