"""HTTPS for reviews and probes: bounded reading, plain answers, and an end that fails nobody.

`/mutate` and `/validate` take AdmissionReviews, `/livez`, `/healthz` and `/readyz` are for probes, `/metrics` for
Prometheus. Until the policies are known, reviews are answered 503: the API server's failurePolicy decides, not we.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import structlog
from aiohttp import web

from podberth.policy.admission import review
from podberth.policy.admission.bodies import LIMIT, UNREAD_BYTES, LargeBody, TooLargeError, pause
from podberth.policy.admission.lanes import Lanes, OverloadedError
from podberth.policy.admission.metrics import Metrics
from podberth.policy.admission.review import Bytes
from podberth.policy.admission.reviewer import BIG_BYTES, Reviewer, ReviewReply
from podberth.policy.admission.tls import ServingTls
from podberth.policy.options import Pass
from podberth.service.metrics import CONTENT_TYPE
from podberth.service.port import Limits, Port, Turns
from podberth.service.serving import listen

BODIES, BODIES_EACH = 16 << 20, 4 << 20
"""The largest number of bytes of big reviews held at once, in all and of one namespace; a larger body takes the whole
share.
"""
BODIES_WAITING, BYTES_WAITING = 64, 8 << 20
"""Big reviews of one namespace that may wait with their bodies unread, and their bytes: each costs its connection's
buffers. One more is refused."""
BODY_SECONDS = 1.0
"""Seconds of the wait for a body, of the three that the API server waits for the answer; see `reviewer.PATIENCE` for
the rest.
"""
READ_SECONDS = 10.0
TOLD_SECONDS = 0.5
"""A client that is refused before its body has come has so long to read the answer. Then the connection is closed, and
the rest is never received. If it were closed at once, it would be reset before the client has read anything."""
LIMITS = Limits(most=512, of_peer=448, kept=16, ask=10.0, idle=120.0, answer=60.0)
"""An API server opens a connection for each review under way, some hundreds at most, and keeps 25 idle ones for 90 s:
`idle` is longer, so that it is never we who close them, under its feet. It may reach us by the address of a proxy that
others use too, so one peer may have nearly all; the rest is for probes, and for the other API servers."""
BACKLOG = 1024
FINISH_SECONDS = 15.0
PASSES: dict[str, Pass] = {"/mutate": "mutate", "/validate": "validate"}

log = structlog.get_logger("admission")


class AdmissionServer:
    """Serves one `Reviewer`. `unready` says why reviews can't be answered yet, or None."""

    def __init__(
        self, reviewer: Reviewer, metrics: Metrics, tls: ServingTls, unready: Callable[[], str | None]
    ) -> None:
        self.port = 0
        self.draining = False
        self._reviewer = reviewer
        self._metrics = metrics
        self._tls = tls
        self._unready = unready
        self._listens: Port | None = None
        self.bodies = Lanes(BODIES, BODIES_EACH, BODIES_WAITING, BYTES_WAITING)
        self._turns = Turns()

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 lets the system choose (`port` tells). Raises ServingError."""
        listening = listen(host, port, BACKLOG)
        for one in listening:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES)  # connections inherit it
        self._listens = Port(
            "webhook",
            self.handle,
            LIMITS,
            turns=self._turns,
            request_factory=_request,
            handler_cancellation=True,  # who hangs up waits for nothing any more
            read_bufsize=BIG_BYTES,
            lingering_time=0.0,  # see `_turned_away`
            auto_decompress=False,  # nobody packs reviews, but a few packed bytes could unpack to gigabytes
        )
        self._listens.start(listening, lambda: self._tls.context)
        self.port = int(listening[0].getsockname()[1])

    def ports(self) -> list[Port]:
        """Return the ports on which it listens."""
        return [] if self._listens is None else [self._listens]

    async def drain(self, seconds: float) -> None:
        """Fail readiness, go on answering for a while (each answer ends its connection), then finish and stop."""
        self.draining = True
        await asyncio.sleep(seconds)
        await self.stop()

    async def stop(self) -> None:
        """Accept nothing more, finish what is under way."""
        listens, self._listens = self._listens, None
        if listens is not None:
            await listens.stop(FINISH_SECONDS)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request of any kind."""
        path = request.path
        pass_ = PASSES.get(path)
        if pass_ is not None:
            response = await self._review(request, pass_)
        elif request.method not in ("GET", "HEAD"):
            response = _text(405 if path in ("/livez", "/healthz", "/readyz", "/metrics") else 404)
        elif path in ("/livez", "/healthz"):
            response = _text(200, "ok")
        elif path == "/readyz":
            why = "shutting down" if self.draining else self._unready()
            response = _text(200, "ok") if why is None else _text(503, why)
        elif path == "/metrics":
            response = web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
        else:
            response = _text(404)
        if self.draining:
            response.force_close()
        if not request.content.is_eof():
            await self._turned_away(request, response)
        return response

    async def _turned_away(self, request: web.BaseRequest, response: web.Response) -> None:
        """Answer a request whose body has not come, receive nothing more of it, and end its connection."""
        pause(request)
        response.force_close()
        await response.prepare(request)
        await response.write_eof()
        await asyncio.sleep(TOLD_SECONDS)
        if request.transport is not None:
            request.transport.abort()

    async def _review(self, request: web.BaseRequest, pass_: Pass) -> web.Response:
        if request.method != "POST":
            return _text(405)
        if request.content_type != "application/json" or "Content-Encoding" in request.headers:
            return _text(415, "want application/json, not packed")
        if (why := self._unready()) is not None:
            return _text(503, why)
        length = request.content_length
        if length is not None and length > LIMIT:
            return self._too_large(pass_)
        try:
            if length is not None and length < BIG_BYTES:
                async with asyncio.timeout(READ_SECONDS):
                    body = await request.read()
                return await self._answer(body, request, pass_)
            large = LargeBody(request, length, self._turns)
            hint = review.hint(await large.read(READ_SECONDS, review.HEAD_BYTES))
            weight = length or LIMIT
            until = asyncio.get_running_loop().time() + BODY_SECONDS
            async with self.bodies.slot(hint.namespace, cost=weight, weight=weight, until=until):
                return await self._answer(await large.read(READ_SECONDS), request, pass_)
        except TooLargeError:
            return self._too_large(pass_)
        except TimeoutError:
            return _text(408, "the review took too long to arrive")
        except OverloadedError as error:
            answer = self._reviewer.overloaded(hint, error)
            self._metrics.count(pass_, "", answer.outcome, BODY_SECONDS)
            return _response(answer)
        except asyncio.CancelledError:
            self._metrics.count(pass_, "", "gone", 0.0)
            raise

    async def _answer(self, body: Bytes, request: web.BaseRequest, pass_: Pass) -> web.Response:
        started = time.perf_counter()
        try:
            answer = await self._reviewer.answer(body, pass_)
        except Exception:  # a bug of ours, said as such: the failurePolicy decides
            log.error("a review failed, this is a bug of Berth", path=request.path, exc_info=True)
            self._metrics.count(pass_, "", "failed", time.perf_counter() - started)
            return _text(500, "this review met a bug in Berth; its log has the details")
        self._metrics.count(pass_, answer.operation, answer.outcome, time.perf_counter() - started)
        return _response(answer)

    def _too_large(self, pass_: Pass) -> web.Response:
        self._metrics.count(pass_, "", "too-large", 0.0)
        return _text(413, f"a review may have {LIMIT} bytes")


def _response(answer: ReviewReply) -> web.Response:
    kind = "application/json" if answer.status == 200 else "text/plain; charset=utf-8"
    return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": kind})


def _text(status: int, text: str = "") -> web.Response:
    return web.Response(status=status, text=f"{text or web_reason(status)}\n")


def web_reason(status: int) -> str:
    """Return the status in words, for answers without other text."""
    return {404: "not found", 405: "method not allowed"}.get(status, str(status))


def _request(message: object, payload: object, protocol: object, writer: object, task: object) -> web.BaseRequest:
    """aiohttp's own request, with our limit on bodies, and on what is kept of a body that nobody reads yet."""
    transport = getattr(protocol, "transport", None)
    if transport is not None:
        transport.set_read_buffer_limits(high=UNREAD_BYTES)
    return web.BaseRequest(
        message,  # type: ignore[arg-type]
        payload,  # type: ignore[arg-type]
        protocol,  # type: ignore[arg-type]
        writer,  # type: ignore[arg-type]
        task,  # type: ignore[arg-type]
        asyncio.get_running_loop(),
        client_max_size=LIMIT,
    )
