"""The limits of kopf, and what the operator does instead.

- *A timer or a daemon puts a finalizer on its object* (`requires_finalizer=True` in kopf/on.py), and an object with a
  finalizer can't be deleted while no operator runs. So audits have a clock of their own (`audit`).
- *A delete handler that is optional is called only while a finalizer holds the object* (`detect_changing_cause` in
  kopf/_core/intents/causes.py), so deletions are told by `kopf.on.event`.
- *A handler's patch reaches the object that it was called for*, but a policy changes what is true of its neighbours. So
  the statuses of a namespace are written together (`reconcile`); kopf writes `status.kopf`.
- *The essence of an object is all of it*: a policy of a megabyte would have a second megabyte in its status, and etcd
  takes 1.5. `Essence` is the generation.
- *`kopf.index` costs the square of the number of objects*: each that is indexed wakes all that wait until the others
  are (`operator_indexed` in kopf/_core/reactor/processing.py), which for 2,000 policies is 20 s of CPU. `index.Index`
  is filled by a list and by event handlers. No namespace is looked at until it has all that there is.
- *Nobody tells what was deleted between two lists*, nor what went with its CRD (`continuous_watch` in
  kopf/_cogs/clients/watching.py). `index.Missed` compares the index with a list of its own.
- *A resourceVersion that goes back*, because etcd was restored, leaves a watch silent until it is reached again.
  `index.Missed` looks for that, too, and ends the term: what was learned since then was never true.
- *Which kinds there are is asked once*: kopf looks again when a CRD comes, but before the API server says in its
  discovery that it serves it, and then never again (`process_discovered_resource_event` in
  kopf/_core/reactor/observation.py). So kopf begins when it can find MetadataPolicies (`until_served`), and the term
  ends when they are gone: the next process waits for them. kopf needs to watch neither CRDs nor namespaces for that.
- *When it ends, kopf cancels each task of its loop that began after it* (`run_tasks` in kopf/_core/reactor/running.py).
  So it is the last that begins in a term, and a process has one term.
- *It may never end*. When one watcher fails, kopf cancels the others. A watcher that is cancelled together with its
  pause-waiter takes that for a pause (`stream` in kopf/_cogs/clients/api.py), starts again, and waits for credentials
  that nobody will get any more. So the term ends `ENDING_SECONDS` after the first of kopf's root tasks has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, ConfigError, Unreachable
from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.operator.enforcement import SETS
from podberth.policy.operator.listing import served

STREAM_SECONDS = 55
"""A watch lasts so long: each new one that is answered proves the path, the credentials and kopf's own loop."""
STALE_SECONDS = 150.0
"""Almost three streams: not ready."""
DEAD_SECONDS = 600.0
"""Not answered for so long: a new process reads new certificates and may do better."""
ENDING_SECONDS = 10.0
"""The time that kopf has to end; of this it gives its own tasks 5 s."""
WRITERS = 8
"""Connections by which kopf writes at once: it would make one for each object."""
AGAIN_SECONDS = 1.0

log = structlog.get_logger("watch")


class Essence(kopf.StatusDiffBaseStorage):
    """Tells changes of a spec by the generation."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> Any:
        """Return what is compared, and kept in the status."""
        return {"generation": body.metadata.get("generation", 0)}

    def fetch(self, *, body: kopf.Body) -> Any:
        """Return what the status has; None for something else, which an older CRD may have let in."""
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            return super().fetch(body=body)
        return None


class Pulse:
    """Signs that kopf is alive: when each of its streams was last answered. The oldest counts.

    A kopf that no longer asks, while the API server answers others, is found by `index.Missed`.
    """

    def __init__(self, streams: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._answered: dict[str, float | None] = dict.fromkeys(streams)
        self.absent = False
        """The API server says that there are no MetadataPolicies: as good an answer as any, but not ready."""

    def begin(self) -> None:
        """Count from now: a replica that stood by, or waited for MetadataPolicies, has followed nothing."""
        self.absent = False
        self._answered = dict.fromkeys(self._answered)
        self._started = self._clock()

    def heard(self, path: str) -> None:
        """The API server answered a request: note it if that is for one of the streams."""
        for stream in self._answered:
            if path.endswith(stream):
                self._answered[stream] = self._clock()

    def missing(self) -> None:
        """The API server answered that there are no MetadataPolicies."""
        self.absent = True
        self._answered = dict.fromkeys(self._answered, self._clock())

    def age(self) -> float | None:
        """Seconds since the stream that was silent longest was answered; None if one never was."""
        return None if None in self._answered.values() else self.silence()

    def silence(self) -> float:
        """Return the seconds since the stream that was silent longest was answered, or since the beginning."""
        return self._clock() - min(self._started if when is None else when for when in self._answered.values())

    def dead(self) -> str | None:
        """Return why a new process should take over; None while there is life."""
        silence = self.silence()
        if silence <= DEAD_SECONDS:
            return None
        return f"the watch of MetadataPolicies has had no answer for {silence:.0f} s"

    def unready(self) -> str | None:
        """Return why what we know may be old; None when it is fresh."""
        age = self.age()
        if self.absent:
            return "there are no MetadataPolicies on this API server: the CRD is missing"
        if age is None:
            return "the watch of MetadataPolicies was not answered yet"
        if age > STALE_SECONDS:
            return f"the watch of MetadataPolicies has had no answer for {age:.0f} s"
        return None


class Session:
    """Gives kopf sessions with our own connection's certificates and (renewed) credentials, and listens to them.

    `relisted` is set by each list of policies, or of sets: of what was deleted before it, nobody may have told.
    `streams`: the connections that watches hold.
    """

    def __init__(self, connection: Connection, pulse: Pulse, streams: int) -> None:
        self.relisted = asyncio.Event()
        self._connection = connection
        self._pulse = pulse
        self._connections = streams + WRITERS
        self._sessions: list[aiohttp.ClientSession] = []

    def connector(self) -> aiohttp.BaseConnector:
        """Return how requests get to the API server."""
        tls = self._connection.tls
        return aiohttp.TCPConnector(limit=self._connections, ssl=True if tls is None else tls.context())

    async def open(self) -> kopf.AiohttpSession:
        """Return a session. kopf asks for another one after a 401.

        Raises kopf.TemporaryError.
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
            middlewares=[self._named],
        )
        self._sessions = [*(one for one in self._sessions if not one.closed), session]
        return kopf.AiohttpSession(server=connection.host, aiohttp_session=session)

    async def close(self) -> None:
        """Close what kopf has not closed, because it was cancelled."""
        for session in self._sessions:
            await session.close()

    async def _named(self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Ask for the certificate of the name that the connection gives, if that is not the one in the URL."""
        request.server_hostname = self._connection.server_name
        return await send(request)

    async def _starts(
        self, _session: aiohttp.ClientSession, _context: SimpleNamespace, request: aiohttp.TraceRequestStartParams
    ) -> None:
        credentials = self._connection.credentials
        if credentials.due():
            with contextlib.suppress(ConfigError):  # the old ones may still do; if not, a 401 says so
                await asyncio.to_thread(credentials.renew)
        if credentials.header is not None:
            request.headers["Authorization"] = credentials.header

    async def _ends(
        self, _session: aiohttp.ClientSession, _context: SimpleNamespace, request: aiohttp.TraceRequestEndParams
    ) -> None:
        if request.response.status != 200:
            return
        self._pulse.heard(request.url.path)
        if request.url.name in (METADATA_POLICIES.plural, SETS.plural) and "watch" not in request.url.query:
            self.relisted.set()


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]


_groups = msgspec.json.Decoder(_Groups).decode


async def until_served(client: Client, pulse: Pulse) -> None:
    """Wait until the API server's discovery, which is all that kopf looks at, has MetadataPolicies."""
    said = ""
    while True:
        try:
            if await _served(client):
                break
            pulse.missing()
            told = "the CRD of MetadataPolicies is not there, waiting for it"
        except (ApiError, Unreachable) as error:
            told = f"the API server does not say which kinds it has, trying again: {error}"
        if told != said:
            log.warning(told[:300])
        said = told
        await asyncio.sleep(AGAIN_SECONDS)
    if pulse.absent:
        log.info("the CRD of MetadataPolicies is there")
    pulse.begin()


async def _served(client: Client) -> bool:
    found = read_answer(await client.get("/apis", tries=1), _groups)
    kind = METADATA_POLICIES
    return any(one.name == kind.group for one in found.groups) and kind.plural in await served(client, kind.root)


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


def tame_logging() -> None:
    """Have kopf's warnings in our log, and no other line of its own."""
    logger = logging.getLogger("kopf")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if not any(isinstance(handler, _Bridge) for handler in logger.handlers):
        logger.addHandler(_Bridge())
