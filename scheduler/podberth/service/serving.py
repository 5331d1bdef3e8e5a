"""HTTPS for probes and dashboards, on a thread and an event loop of its own.

So /livez can report a stuck main loop, and a handshake or a page of metrics never delays a decision. Everybody may read
/healthz, /livez and /readyz. For all other paths the API server is asked who the client is (unless a certificate
says so) and whether it may read the path. What has to be read on the main loop is read there, in one short turn.
Next stage: `https` answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import structlog
from msgspec import Struct, field

from podberth.service.certificate import Certificate, CertificateError
from podberth.service.loop import Heartbeat, tell_unhandled
from podberth.service.metrics import Instrument, Reading, of_process, read
from podberth.service.pages import About, Answer, Checks, zpage

if TYPE_CHECKING:
    from podberth.service.port import Port

BACKLOG = 128
CERTIFICATE_SECONDS = 10.0
CLOSE_SECONDS = 5.0
PATHS = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
"""The paths that every component serves besides /statusz, which lists them."""

log = structlog.get_logger("serving")


class ServingError(Exception):
    """We can't listen where we should: one line that names address and reason."""


Authorities = Callable[[Callable[[bytes], None], Callable[[str], None]], Awaitable[None]]


class Address(Struct, frozen=True):
    """An address to listen at, the certificate, and the component that listens.

    An empty host is every address, port 0 lets the system choose.
    """

    host: str
    port: int
    certificate: Certificate
    about: About = About()


class Gate(Struct, frozen=True):
    """Decides who may ask for what is not open to everybody; asked on the main loop."""

    authorize: Callable[[str | None, str, bytes | None, str], Awaitable[tuple[int, str]]]
    """(Authorization header, path, the client's certificate) → 200 when a GET is allowed, or the status to answer
    with, and why. The certificate is in DER form, and verified."""
    authorities: Authorities | None = None
    """Tells of the CAs (PEM) that sign clients' certificates, and of what keeps it from that, until cancelled."""


class Endpoints(Struct):
    """The answers of a component. Checks and notes are asked on the serving thread, the rest on the main loop."""

    live: Checks = field(default_factory=dict)
    ready: Checks = field(default_factory=dict)
    notes: Callable[[], Mapping[str, str]] = dict
    """Returns what does not work as it should, and is no reason to be unready."""
    instruments: Callable[[], list[Instrument]] = list
    configuration: Callable[[], Any] = dict
    lookups: Mapping[str, Callable[[Mapping[str, str]], tuple[int, str | bytes]]] = field(default_factory=dict)
    """Path → what a query comes to: a status, and JSON (bytes) or one line that says why there is none."""
    ports: Callable[[], list[Port]] = list
    """Other ports that this process listens on."""


class Serving:
    """One listening address: `listen`, then `run` once, both on the main loop."""

    def __init__(self, address: Address, gate: Gate, endpoints: Endpoints) -> None:
        self.port = address.port
        self._host = address.host
        self._heartbeat = Heartbeat()
        self._certificate = address.certificate
        self._about = address.about
        self._gate = gate
        self._endpoints = endpoints
        self._listening: list[socket.socket] = []
        self._port: Port | None = None
        self._bundle: bytes | None = None
        """The CAs (PEM) that the cluster names, for the serving thread."""
        self._look: Callable[[], object] | None = None
        """Wakes the serving thread, which looks whether there is something new, and whether it is to end."""
        self._closing = False

    def listen(self) -> None:
        """Take the address; `port` tells what it is. Raises ServingError.

        All that answers is imported before: who connects may take the last descriptor, and some modules can't be
        imported a second time.
        """
        import_module("podberth.service.https")
        import_module("cryptography.x509")
        self._listening = listen(self._host, self.port)
        self.port = int(self._listening[0].getsockname()[1])

    def shut(self) -> None:
        """Give the address back without having served."""
        for listening in self._listening:
            listening.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        thread = threading.Thread(target=self._served, args=(asyncio.get_running_loop(),), name="serving", daemon=True)
        thread.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._heartbeat.run())
                tasks.create_task(self._follow_authorities())
        finally:
            self._closing = True
            if self._look is not None and thread.is_alive():
                self._look()
            thread.join(CLOSE_SECONDS)

    async def _follow_authorities(self) -> None:
        if self._gate.authorities is None or self._certificate.authorities_file is not None:
            return

        def found(bundle: bytes) -> None:
            self._bundle = bundle
            if self._look is not None:
                self._look()

        def kept(why: str) -> None:
            log.info("client certificates are not accepted, only tokens are", reason=why[:300])

        await self._gate.authorities(found, kept)

    def _served(self, main: asyncio.AbstractEventLoop) -> None:
        try:
            # As the main loop is: of uvloop's connections nothing is left, of asyncio's a kilobyte each until the
            # garbage collector looks at what is old, which `collector` allows it once a day.
            with asyncio.Runner(loop_factory=type(main)) as runner:
                runner.get_loop().set_exception_handler(tell_unhandled)
                runner.run(self._serve(main))
        except Exception:
            log.exception("serving ended, this is a bug of Berth")

    async def _serve(self, main: asyncio.AbstractEventLoop) -> None:
        """Serve until told to end, on the serving thread."""
        from podberth.service.https import serve

        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self._look = lambda: loop.call_soon_threadsafe(news.set)
        if self._closing:
            self.shut()
            return

        def listens(port: Port) -> None:
            self._port = port
            log.info("serving", host=self._host or "*", port=self.port)

        await serve(self._listening, self._contexts(news), self, main, listens)

    async def _contexts(self, news: asyncio.Event) -> AsyncIterator[ssl.SSLContext]:
        """Yield the context to serve with, each time that it is another one, until told to end."""
        certificate = self._certificate
        with contextlib.suppress(CertificateError):  # it is told below, and what was loaded before is served
            certificate.refresh()
        follow_certificate = _Followed("certificate", certificate.refresh)
        follow_authorities = _Followed("CAs of clients", self._authorities_changed)
        served: ssl.SSLContext | None = None
        while not self._closing:
            news.clear()
            follow_certificate.look()
            follow_authorities.look()
            if certificate.context is not served:
                served = certificate.context
                yield served
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CERTIFICATE_SECONDS):
                    await news.wait()

    def _authorities_changed(self) -> bool:
        if self._bundle is None:
            return self._certificate.refresh_authorities()
        return self._certificate.trust(self._bundle, "the cluster's CAs of clients")

    # -- what `https` asks ---------------------------------------------------------------------------------------

    def held(self) -> str | None:
        """Return why the main loop gets nothing done for the moment."""
        return self._heartbeat.held()

    def live(self) -> Checks:
        """Return the checks of /livez and /healthz. A loop that is held may go on: it needs no new process."""
        return {"event-loop": self._heartbeat.dead, **self._endpoints.live}

    def ready(self) -> Checks:
        """Return the checks of /readyz."""
        return {"event-loop": self.held, **self._endpoints.ready}

    def notes(self) -> Mapping[str, str]:
        """Return the notes of `Endpoints`, and one about a loop that is held."""
        held = self.held()
        return {**self._endpoints.notes(), **({} if held is None else {"event-loop": held})}

    async def authorize(
        self, authorization: str | None, path: str, certificate: bytes | None, peer: str
    ) -> tuple[int, str]:
        """Return whether the client may read the path, as the gate says."""
        return await self._gate.authorize(authorization, path, certificate, peer)

    async def readings(self) -> list[Reading]:
        """Return every metric there is, now."""
        from podberth.service.port import instruments

        ports = [*([] if self._port is None else [self._port]), *self._endpoints.ports()]
        own = [self._heartbeat.lag, *instruments(ports), *of_process()]
        return read([*self._endpoints.instruments(), *own])

    async def configuration(self) -> Any:
        """Return what /configz shows."""
        return self._endpoints.configuration()

    def zpage(self, path: str, accept: str) -> Answer:
        """Return what one of `pages.KINDS` shows."""
        return zpage(path, accept, self._about, [*PATHS, *self._endpoints.lookups])

    async def look_up(self, path: str, query: Mapping[str, str]) -> tuple[int, str | bytes]:
        """Return what one of `Endpoints.lookups` says."""
        found = self._endpoints.lookups.get(path)
        return (404, "not found") if found is None else found(query)


class _Followed:
    """Something that may change, or not be usable any more; says so once."""

    def __init__(self, what: str, refresh: Callable[[], bool]) -> None:
        self._what = what
        self._refresh = refresh
        self._told = ""

    def look(self) -> None:
        """Take what is new."""
        try:
            if self._refresh():
                log.info("a changed file is in use now", what=self._what)
            self._told = ""
        except CertificateError as error:
            if str(error) != self._told:
                log.error(
                    "a changed file can't be used, the one before stays in use", what=self._what, error=str(error)
                )
            self._told = str(error)


def listen(host: str, port: int, backlog: int = BACKLOG) -> list[socket.socket]:
    """Return sockets that listen there; an empty host is every address, port 0 lets the system choose.

    Raises ServingError.
    """
    taken: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            where = (*address[:1], taken[0].getsockname()[1], *address[2:]) if taken else address
            taken.append(_bound(family, where, both=not host))
            taken[-1].listen(backlog)
    except OSError as error:
        for one in taken:
            one.close()
        why = (error.strerror or str(error)).lower()
        raise ServingError(f"{host or '*'}:{port}: can't listen there: {why}") from None
    return taken


def _addresses(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    if not host:
        return [(socket.AF_INET6, ("::", port))] if _speaks_ipv6() else [(socket.AF_INET, ("", port))]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in dict.fromkeys(found)]


def _speaks_ipv6() -> bool:
    """Return whether one socket can serve IPv4 and IPv6. A kernel may have IPv6 and have it turned off."""
    if not socket.has_dualstack_ipv6():
        return False
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
        try:
            tried.bind(("::", 0))
        except OSError:
            return False
    return True


def _bound(family: int, address: tuple[object, ...], *, both: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
