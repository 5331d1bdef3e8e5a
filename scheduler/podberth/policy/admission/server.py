"""HTTPS for reviews and probes: bounded reading, plain answers, and an end that fails nobody.

`/mutate` and `/validate` take AdmissionReviews, `/livez`, `/healthz` and `/readyz` are for probes, `/metrics` for
Prometheus. Until the policies are known, reviews are answered 503: the API server's failurePolicy decides, not we.

Of a large review nothing but the beginning is received until its namespace's turn comes, so what lies in memory is
bounded. The beginning names the namespace.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping

import structlog
from aiohttp import web

from podberth.policy.admission import review
from podberth.policy.admission.review import BIG_BYTES, Bytes
from podberth.policy.admission.reviewer import Reviewer, ReviewReply
from podberth.policy.admission.turns import NamespaceTurns, OverloadedError
from podberth.policy.options import Pass
from podberth.service.metrics import CONTENT_TYPE, Asked, Counter, Family, Histogram, Instrument, page, read
from podberth.service.port import Limits, Port
from podberth.service.serving import listen

LIMIT = 8 << 20
"""The largest body in bytes: an object and its older self, each at most 3 MiB in the API server, and their wrapping."""
BODIES = 4
"""The number of large reviews that are received at a time, each of another namespace."""
BODY_SECONDS = 1.0
"""Seconds of the wait for a body, of the three that the API server waits for the answer; see `reviewer.PATIENCE` for
the rest.
"""
READ_SECONDS = 10.0
UNREAD_BYTES = 32 << 10
"""The largest number of bytes of an unread body that TLS buffers, and as many that the kernel does. The default would
be half a megabyte for every connection."""
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
REVIEWS = Family(
    "berth_admission_reviews_total",
    "counter",
    "Reviews that were answered, by outcome",
    ("endpoint", "operation", "outcome"),
)
SECONDS = Family(
    "berth_admission_review_seconds",
    "histogram",
    "Seconds from the last byte of a review to its answer",
    ("endpoint",),
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)

log = structlog.get_logger("admission")


class Metrics:
    """Counters of one server; `gauges` (name → help text, how to read it) are read when the metrics are."""

    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        self._reviews = Counter(REVIEWS)
        self._seconds = Histogram(SECONDS)
        self._gauges = [_asked(Family(name, "gauge", about), value) for name, (about, value) in gauges.items()]

    def count(self, endpoint: str, operation: str, outcome: str, seconds: float) -> None:
        """Count a review that was answered. All three labels have a few known values only."""
        self._reviews.add(1.0, endpoint, operation, outcome)
        self._seconds.observe(seconds, endpoint)

    def instruments(self) -> list[Instrument]:
        return [self._reviews, self._seconds, *self._gauges]

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return page(read(self.instruments()))


def _asked(family: Family, value: Callable[[], float]) -> Asked:
    return Asked(family, lambda: {(): float(value())})


class TooLargeError(Exception):
    """A body is over the limit."""


class AdmissionServer:
    """Serves one `Reviewer` by the TLS context of its certificates. `unready` says why reviews can't be answered yet,
    or None.
    """

    def __init__(
        self,
        reviewer: Reviewer,
        metrics: Metrics,
        tls: Callable[[], ssl.SSLContext],
        unready: Callable[[], str | None],
    ) -> None:
        self.port = 0
        self.draining = False
        self.bodies = NamespaceTurns(BODIES)
        self._reviewer = reviewer
        self._metrics = metrics
        self._tls = tls
        self._unready = unready
        self._listens: Port | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 lets the system choose (`port` tells). Raises ServingError."""
        listening = listen(host, port, BACKLOG)
        for one in listening:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES)  # connections inherit it
        self._listens = Port(
            "webhook",
            self.handle,
            LIMITS,
            request_factory=_request,
            handler_cancellation=True,  # who hangs up waits for nothing any more
            read_bufsize=BIG_BYTES,
            lingering_time=0.0,  # see `_turned_away`
            auto_decompress=False,  # nobody packs reviews, but a few packed bytes could unpack to gigabytes
        )
        self._listens.start(listening, self._tls)
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
        _pause(request)
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
                return await self._answer(await _received(request), request, pass_)
            head = await _received(request, review.HEAD_BYTES)
            hint = review.hint(head)
            _pause(request)
            async with self.bodies.turn(hint.namespace, BODY_SECONDS):
                if request.transport is not None:
                    request.transport.resume_reading()
                return await self._answer(await _received(request, begun=head), request, pass_)
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


def _pause(request: web.BaseRequest) -> None:
    """Receive nothing more on this connection; what TLS has received by then is kept."""
    if request.transport is not None:
        request.transport.pause_reading()


async def _received(request: web.BaseRequest, enough: int = LIMIT + 1, begun: Bytes = b"") -> bytearray:
    """Return what `begun` begins, read to its end, or until there is `enough` of it.

    Raises TimeoutError, TooLargeError.
    """
    body = bytearray(begun)
    async with asyncio.timeout(READ_SECONDS):
        while len(body) < enough and not request.content.at_eof():
            body += await request.content.readany()
    if len(body) > LIMIT:
        raise TooLargeError
    return body


def _response(answer: ReviewReply) -> web.Response:
    kind = "application/json" if answer.status == 200 else "text/plain; charset=utf-8"
    return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": kind})


def _text(status: int, text: str = "") -> web.Response:
    said = text or {404: "not found", 405: "method not allowed"}.get(status, str(status))
    return web.Response(status=status, text=f"{said}\n")


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
