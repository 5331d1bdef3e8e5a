"""The watch of MetadataPolicies: kopf, and the only module that knows it.

kopf runs in a thread and an event loop of its own, because it takes every task of its loop for its own when it ends.
It only watches: no peering (equal peers pause each other; our Lease does that), no change handlers (they write
annotations and finalizers), no Events, no following of CRDs. When MetadataPolicies are not served, at the start or
after their CRD was deleted, kopf gives up, and is started again once they are; that waiting is done here, with our own
client. It is started again as well when resourceVersions go back, which kopf does not notice. Each event only names a
namespace: `reconciler` reads what is there, so a deletion that kopf missed in a relist (it never tells of those) does
no harm, and each list that kopf makes is told as "look at everything".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
import structlog

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, ConfigError, Unreachable
from podberth.kube.objects import MALFORMED, Version, list_page, older, read_version
from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.operator.pulse import STREAM_SECONDS, Pulse
from podberth.service.loop import tell_unhandled

LOOK_SECONDS = 2.0
"""Between two looks whether MetadataPolicies are served."""
CHECK_SECONDS = 10.0
"""Between two looks whether they still are: a stream may stay open, and silent, after the CRD was deleted."""
END_SECONDS = 15.0
_CANCELLED_AGAIN = 10
"""So often what has not ended then is cancelled once more, a second apart."""

log = structlog.get_logger("watch")
Hear = Callable[[str | None], None]


class Watch:
    """`hear(namespace)` is called in the loop of `run` when something changed there (None: perhaps everywhere)."""

    def __init__(
        self,
        client: Client,
        connection: Connection,
        watched: tuple[str, ...],
        hear: Hear,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kopf: Callable[[Connection, tuple[str, ...], list[str], Pulse], Kopf] = Kopf
        self._client = client
        self._connection = connection
        self._watched = watched
        self._hear = hear
        self._paths = [METADATA_POLICIES.path(namespace) for namespace in watched or (None,)]
        self.pulse = Pulse(self._paths, clock)
        self._version: Version = ""
        """The resourceVersion of the latest list."""
        self.runs = 0
        """kopf was started so many times: once, and again each time that the CRD was gone or a backup was restored."""

    async def run(self) -> None:
        """Watch until cancelled."""
        said = ""
        while True:
            await self._served()
            self.runs += 1
            ended = await self._one_run()
            if ended != said and not await self._gone():
                log.warning("the watch ended and is started again", reason=ended[:300])
                said = ended
            await asyncio.sleep(LOOK_SECONDS / 2)

    async def _served(self) -> None:
        """Wait until MetadataPolicies can be listed; say once what stands in the way."""
        said = ""
        looks = 0
        while True:
            try:
                for path in self._paths:
                    self.pulse.tried(path)
                    await self._client.get(path, query="limit=1", tries=1)
            except (ApiError, Unreachable) as error:
                self.pulse.absent = isinstance(error, ApiError) and error.status == 404
                if self.pulse.absent:
                    self.pulse.heard_all()
                    looks += 1
                    if looks == 2:
                        self._hear(None)  # what is owned goes with the policies that it was made of
                told = "CRD" if self.pulse.absent else str(error)
                if told != said and self.pulse.absent:
                    log.warning("the CRD of MetadataPolicies is not there, waiting for it")
                elif told != said:
                    log.error("MetadataPolicies can't be listed, trying again", error=told[:300])
                said = told
                await asyncio.sleep(LOOK_SECONDS)
            else:
                self.pulse.absent = False
                if said:
                    log.info("the CRD of MetadataPolicies is there")
                return

    async def _gone(self) -> bool:
        """Return whether the API server says that there are no MetadataPolicies; anything else is
        for kopf to find out.
        """
        try:
            await self._client.get(self._paths[0], query="limit=1", tries=1)
        except ApiError as error:
            return error.status == 404
        except Unreachable:
            return False
        return False

    async def _over(self) -> str:
        """Return why kopf has to begin anew, though it doesn't know; empty when it need not.

        After etcd was restored from a backup, kopf's position lies in the future, and the API server says nothing of
        what happens until then.
        """
        try:
            body = await self._client.get(self._paths[0], query="limit=1", tries=1)
            version = read_version(list_page.decode(body).metadata.resource_version)
        except ApiError as error:
            return "MetadataPolicies are not served any more" if error.status == 404 else ""
        except (Unreachable, *MALFORMED):
            return ""
        before, self._version = self._version, version
        return "resourceVersions went back: etcd was restored from a backup" if older(version, before) else ""

    async def _one_run(self) -> str:
        """Run kopf until it gives up, and say why; end it when cancelled."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()
        runner = self.kopf(self._connection, self._watched, self._paths, self.pulse)

        def hear(namespace: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # our loop has ended before the thread did
                loop.call_soon_threadsafe(self._hear, namespace)

        def finish(reason: str) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, ended, reason)

        runner.hear, runner.finish = hear, finish
        runner.start()
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=CHECK_SECONDS)
                if not ended.done() and (why := await self._over()):
                    return why
            return ended.result()
        finally:
            runner.stop()
            await asyncio.wait((ended,), timeout=END_SECONDS)
            for _ in range(_CANCELLED_AGAIN):
                if not ended.done():
                    runner.cancel()
                    await asyncio.wait((ended,), timeout=1.0)
            await asyncio.to_thread(runner.join, 1.0)


class Kopf:
    """One run of kopf, in its own thread and loop."""

    hear: Hear
    finish: Callable[[str], None]

    def __init__(self, connection: Connection, watched: tuple[str, ...], paths: list[str], pulse: Pulse) -> None:
        self._connection = connection
        self._watched = watched
        self._paths = frozenset(paths)
        self._pulse = pulse
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._sessions: list[aiohttp.ClientSession] = []
        self._thread = threading.Thread(target=self.run, name="kopf", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(seconds)

    def connector(self) -> aiohttp.BaseConnector:
        """Return how requests get to the API server."""
        tls = self._connection.tls
        return aiohttp.TCPConnector(limit=0, ssl=True if tls is None else tls.context())

    def run(self) -> None:
        """The thread's work."""
        reason = "kopf stopped"
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                self._loop.set_exception_handler(tell_unhandled)
                runner.run(self._operate())
        except asyncio.CancelledError:
            reason = "kopf was cancelled"
        except Exception as error:  # noqa: BLE001 - whatever ends kopf, `Watch` starts it again and says why
            reason = f"{type(error).__name__}: {error}"
        self.finish(reason)

    def stop(self) -> None:
        """End it; called from another thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)

    def cancel(self) -> None:
        """Cancel all that it does; called from another thread.

        When a watch ends at the moment in which kopf is stopped, kopf may take the cancellation for that end, go on to
        watch, and never stop.
        """

        def cancel() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(cancel)

    async def _operate(self) -> None:
        _tame_logging()
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, errors=kopf.ErrorsMode.TEMPORARY)(self._login)
        group, version, plural = METADATA_POLICIES.group, METADATA_POLICIES.version, METADATA_POLICIES.plural
        kopf.on.event(group, version, plural, registry=registry)(self._event)
        where: Any = {"namespaces": list(self._watched)} if self._watched else {"clusterwide": True}
        try:
            await kopf.operator(registry=registry, settings=_settings(), standalone=True, stop_flag=self._stop, **where)
        finally:
            for session in self._sessions:
                await session.close()

    async def _event(self, *, namespace: str | None, **_: Any) -> None:
        """Something happened to a policy."""
        for path in (METADATA_POLICIES.path(namespace), METADATA_POLICIES.path()):
            self._pulse.heard(path)
        self.hear(namespace)

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        """A session with our own connection's certificates and (renewed) credentials, whose requests are listened to.

        kopf asks again after a 401.
        """
        connection = self._connection
        if self._sessions:
            connection.recheck_tls()
            try:
                await asyncio.to_thread(connection.credentials.renew)
            except ConfigError as error:
                raise kopf.TemporaryError(str(error), delay=10) from error
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._starts)
        trace.on_request_end.append(self._ends)
        session = aiohttp.ClientSession(
            connector=self.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=[("User-Agent", f"{connection.user_agent} operator"), *connection.headers],
            proxy=connection.proxy,
            trace_configs=[trace],
            middlewares=(self._names_only,),
        )
        self._sessions.append(session)
        return kopf.AiohttpSession(server=connection.host, aiohttp_session=session)

    async def _names_only(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Ask a watch for metadata instead of policies: that something changed, and where, is all we use.

        A tenant may change policies of a megabyte all day. Not so for lists, of which the API server gives `items:
        null` in that form when there are none, which kopf does not understand: those come in small chunks.
        """
        if request.method == "GET" and "watch" in request.url.query and self._followed(request.url.path) is not None:
            request.headers["Accept"] = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        return await send(request)

    async def _starts(
        self, _session: aiohttp.ClientSession, _context: SimpleNamespace, request: aiohttp.TraceRequestStartParams
    ) -> None:
        if (path := self._followed(request.url.path)) is not None:
            self._pulse.tried(path)
        credentials = self._connection.credentials
        if credentials.due():
            with contextlib.suppress(ConfigError):  # the old ones may still do; if not, a 401 says so
                await asyncio.to_thread(credentials.renew)
        if credentials.header is not None:
            request.headers["Authorization"] = credentials.header

    async def _ends(
        self, _session: aiohttp.ClientSession, _context: SimpleNamespace, request: aiohttp.TraceRequestEndParams
    ) -> None:
        path = self._followed(request.url.path)
        if path is not None and request.response.status == 200:
            self._pulse.heard(path)
            if "watch" not in request.url.query:
                self.hear(None)  # a list: whatever was deleted unseen before it is told by nobody else

    def _followed(self, path: str) -> str | None:
        """The stream that a request belongs to."""
        return next((known for known in self._paths if path.endswith(known)), None)


def _settings() -> kopf.OperatorSettings:
    """kopf as a watcher that writes nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.persistence.finalizer = "podberth.dev/never-set"  # kopf removes what it takes for its own; not the default
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.exit_timeout = 0.5
    settings.watching.server_timeout = STREAM_SECONDS  # an int: API servers refuse 55.0
    settings.watching.client_timeout = 2 * STREAM_SECONDS
    settings.watching.connect_timeout = 10.0
    settings.watching.chunk_size = 3  # of a list: a policy may have 1.5 MB, and take ten times that once it is read
    settings.networking.request_timeout = 30.0
    settings.networking.error_backoffs = (1, 2, 5)
    return settings


class _Bridge(logging.Handler):
    """kopf's own log, less what repeats itself, as ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said = ""

    def emit(self, record: logging.LogRecord) -> None:
        """One line, with no object in it: kopf's lines name objects at most."""
        said = record.getMessage()[:300]
        if said != self._said and "OS signals are ignored" not in said:
            log.log(record.levelno, "kopf", said=said)
        self._said = said


def _tame_logging() -> None:
    logger = logging.getLogger("kopf")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if not any(isinstance(handler, _Bridge) for handler in logger.handlers):
        logger.addHandler(_Bridge())


def _resolve(future: asyncio.Future[str], reason: str) -> None:
    if not future.done():
        future.set_result(reason)
