"""Answers requests on the serving thread. Imported when a service takes its address: others need no aiohttp."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import web
from prometheus_client import PROCESS_COLLECTOR, generate_latest

from podberth.service.metrics import CONTENT_TYPE, page
from podberth.service.pages import KINDS, health
from podberth.service.port import READ_BYTES, Limits, Port

if TYPE_CHECKING:
    from podberth.service.serving import Serving

PATIENCE = 10.0
"""Seconds that the main loop, and the API server behind it, get for an answer."""
FINISH_SECONDS = 1.0
LIMITS = Limits(most=128, of_peer=64, kept=16, ask=10.0, idle=75.0, answer=4 * PATIENCE)
MOST, MOST_OF_PEER = 32, 8
"""Requests that wait for the main loop or the API server at once; probes do not."""
Found = TypeVar("Found")


async def serve(
    listening: Sequence[socket.socket],
    contexts: AsyncIterator[ssl.SSLContext],
    source: Serving,
    main: asyncio.AbstractEventLoop,
    listens: Callable[[Port], None],
) -> None:
    """Answer on these sockets with each context in turn until there is none; calls `listens` when it does.

    The coroutines of `source` run on the main loop, its other methods on this thread. With another context others are
    trusted, so connections that were made before are closed.
    """
    pages = _Pages(source, main)
    try:
        async for context in contexts:
            pages.context = context
            if pages.listens:
                pages.port.cut_off()
                continue
            pages.port.start(listening, lambda: pages.context)
            pages.listens = True
            listens(pages.port)
    finally:
        await pages.port.stop(FINISH_SECONDS)
        for one in listening:
            one.close()


class _Pages:
    def __init__(self, source: Serving, main: asyncio.AbstractEventLoop) -> None:
        self.context: ssl.SSLContext | None = None
        self.listens = False
        self.port = Port("serving", self.handle, LIMITS, read_bufsize=READ_BYTES, lingering_time=0.0)
        self._source = source
        self._main = main
        self._asking: Counter[str] = Counter()
        """Requests of each peer that wait for the main loop or the API server."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, whatever it is. No cache is to keep what only some may read."""
        response = await self._answered(request)
        response.headers["Cache-Control"] = "no-cache, private"
        return response

    async def _answered(self, request: web.BaseRequest) -> web.Response:
        source, path, verbose = self._source, request.path, "verbose" in request.query
        if request.method not in ("GET", "HEAD"):
            return _text(405, "method not allowed")
        match path:
            case "/livez" | "/healthz":
                return _text(*health(path, source.live(), verbose=verbose, notes=source.notes()))
            case "/readyz":
                return _text(*health(path, source.ready(), verbose=verbose, notes=source.notes()))
        peer = self.port.peer(request)
        if not request.headers.get("Authorization", "").isascii():
            self.port.complaints.record("malformed", peer, "an Authorization header that is not ASCII")
            return _text(401, "want a bearer token of ASCII characters")
        if self._asking[peer] >= MOST_OF_PEER or self._asking.total() >= MOST:
            return self.port.busy(peer, 429)
        self._asking[peer] += 1
        try:
            return await self._guarded(request, self._certificate(request), peer)
        except TimeoutError:
            return _text(503, source.held() or f"no answer within {PATIENCE:g} s")
        finally:
            self._asking -= Counter((peer,))

    def _certificate(self, request: web.BaseRequest) -> bytes | None:
        """Return the client's, in DER form, as far as TLS has verified it against those who are trusted now."""
        transport = request.transport
        if transport is None or transport.get_extra_info("sslcontext") is not self.context:
            return None  # its handshake was under way when the context changed
        certificate: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate

    async def _guarded(self, request: web.BaseRequest, certificate: bytes | None, peer: str) -> web.Response:
        source, path, authorization = self._source, request.path, request.headers.get("Authorization")
        status, said = await self._on_main(source.authorize(authorization, path, certificate, peer))
        if status != 200:
            return _text(status, said)
        if path == "/metrics":
            body = page(await self._on_main(source.readings())) + generate_latest(PROCESS_COLLECTOR)
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
        if path == "/configz":
            settings = msgspec.json.encode({"componentconfig": await self._on_main(source.configuration())})
            return web.Response(body=settings, content_type="application/json")
        if path in KINDS:
            shown = source.zpage(path, ",".join(request.headers.getall("Accept", ())))
            return web.Response(body=shown.body, headers=shown.headers)
        status, found = await self._on_main(source.look_up(path, dict(request.query)))
        if isinstance(found, str):
            return _text(status, found)
        return web.Response(status=status, body=found, content_type="application/json")

    async def _on_main(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Have it done on the main loop. Raises TimeoutError."""
        doing = asyncio.run_coroutine_threadsafe(work, self._main)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.wrap_future(doing)


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers={"X-Content-Type-Options": "nosniff"})
