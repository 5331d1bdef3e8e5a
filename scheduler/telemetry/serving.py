"""HTTPS for probes and dashboards, on a thread and an event loop of its own.

So a stalled main loop is seen and said by /livez, and a handshake or a page of metrics never holds up a decision.
/healthz, /livez and /readyz are open; for /metrics and /configz the API server is asked who it is and whether they may.
What has to be read on the main loop is read there, in one short turn. Next stage: `https` answers.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from scheduler.telemetry import process
from scheduler.telemetry.certificate import Certificate, CertificateError
from scheduler.telemetry.health import Checks
from scheduler.telemetry.heartbeat import Heartbeat
from scheduler.telemetry.instruments import Instrument, Reading, read

CERTIFICATE_SECONDS = 10.0
CLOSE_SECONDS = 2.0
BACKLOG = 128

log = structlog.get_logger("serving")


class ServingError(Exception):
    """We can't listen where we should: one line that names address and reason."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and with what; an empty host is every address, port 0 lets the system choose."""

    host: str
    port: int
    certificate: Certificate


@dataclass(slots=True)
class Endpoints:
    """What a component has to say. Checks and notes are asked on the serving thread, the rest on the main loop."""

    authorize: Callable[[str | None, str], Awaitable[tuple[int, str]]]
    """(Authorization header, path) → 200 when a GET is allowed, or the status to answer with, and why."""
    live: Checks = field(default_factory=dict)
    ready: Checks = field(default_factory=dict)
    notes: Callable[[], Mapping[str, str]] = dict
    """What does not work as it should, and is no reason to be unready."""
    instruments: Callable[[], list[Instrument]] = list
    pages: Callable[[], bytes] = bytes
    """Further metrics, in Prometheus' text format already."""
    configuration: Callable[[], Any] = dict


@asynccontextmanager
async def beside(address: Address, endpoints: Endpoints) -> AsyncIterator[None]:
    """Serve while the block runs. Raises ServingError."""
    serving = Serving(address, endpoints)
    serving.listen()
    running = asyncio.create_task(serving.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Serving:
    """One listening address: `listen`, then `run` once, both on the main loop."""

    def __init__(self, address: Address, endpoints: Endpoints) -> None:
        self.port = address.port
        self._host = address.host
        self._heartbeat = Heartbeat()
        self._certificate = address.certificate
        self._endpoints = endpoints
        self._listening: socket.socket | None = None
        self._end: Callable[[], object] | None = None
        self._closing = False

    def listen(self) -> None:
        """Take the address; `port` tells what it is. Raises ServingError."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self._host, self.port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            why = (error.strerror or str(error)).lower()
            raise ServingError(f"{self._host or '*'}:{self.port}: can't listen there: {why}") from None
        self.port = int(listening.getsockname()[1])
        self._listening = listening

    def shut(self) -> None:
        """Give the address back without having served."""
        if self._listening is not None:
            self._listening.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        thread = threading.Thread(target=self._served, args=(asyncio.get_running_loop(),), name="serving", daemon=True)
        thread.start()
        try:
            await self._heartbeat.run()
        finally:
            self._closing = True
            if self._end is not None and thread.is_alive():
                self._end()
            thread.join(CLOSE_SECONDS)

    def _served(self, main: asyncio.AbstractEventLoop) -> None:
        try:
            asyncio.run(self._serve(main))
        except Exception:
            log.exception("serving ended, a bug")

    async def _serve(self, main: asyncio.AbstractEventLoop) -> None:
        """On the serving thread."""
        from scheduler.telemetry.https import serve

        assert self._listening is not None
        loop, until = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(until.set)
        if self._closing:
            self._listening.close()
            return
        self._certificate.refresh()
        following = asyncio.ensure_future(self._follow_certificate())

        def listens() -> None:
            log.info("serving", host=self._host or "*", port=self.port)

        await serve(self._listening, self._certificate.context, self, main, until, listens)
        following.cancel()

    async def _follow_certificate(self) -> None:
        told = ""
        while True:
            await asyncio.sleep(CERTIFICATE_SECONDS)
            try:
                if self._certificate.refresh():
                    log.info("serves a new certificate")
                told = ""
            except CertificateError as error:
                if str(error) != told:
                    log.error("certificate not usable, serves the one before", error=str(error))
                told = str(error)

    # -- what `https` asks ---------------------------------------------------------------------------------------

    def stalled(self) -> str | None:
        """Why the main loop does not count as alive."""
        return self._heartbeat.stalled()

    def live(self) -> Checks:
        """Those of /livez and /healthz."""
        return {"event-loop": self.stalled, **self._endpoints.live}

    def ready(self) -> Checks:
        """Those of /readyz."""
        return {"event-loop": self.stalled, **self._endpoints.ready}

    def notes(self) -> Mapping[str, str]:
        """As in Endpoints."""
        return self._endpoints.notes()

    async def authorize(self, authorization: str | None, path: str) -> tuple[int, str]:
        """As in Endpoints."""
        return await self._endpoints.authorize(authorization, path)

    async def readings(self) -> list[Reading]:
        """Every metric there is, now."""
        return read([*self._endpoints.instruments(), self._heartbeat.lag, *process.instruments()])

    async def pages(self) -> bytes:
        """As in Endpoints."""
        return self._endpoints.pages()

    async def configuration(self) -> Any:
        """What /configz shows."""
        return self._endpoints.configuration()
