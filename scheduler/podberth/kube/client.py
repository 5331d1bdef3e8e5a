"""Requests to one API server: bytes in, bytes out, two exceptions.

No typed models here: `writes` builds bodies, `reflector` reads answers. `flow` has requests wait for their turn, and
`http1` has the connections. URLs are taken as already encoded, no cookies, no redirects (they would carry the token
elsewhere), no compression (the API server gzips answers of 128 KiB and more when asked; inflating them would hold the
event loop).

An answer whose code says yes may be none of an API server's: a proxy or a load balancer between us may answer 200
with a page of its own, or with a JSON object that is none of the API's: `{}`, `{"status":"ok"}`, a Status that tells of
a failure. The code is its own then, and whether the server has acted is not known. Every answer is compared with what
was asked for (`of_an_api_server`), so that whoever decodes one finds the shell that the API promises: kind, apiVersion,
metadata, and for lists their items (k8s.io/apimachinery pkg/apis/meta/v1/types.go).
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, TypeVar
from urllib.parse import unquote, urlencode

import msgspec

from podberth.kube import resources
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable, described, one_line
from podberth.kube.flow import API, LANES, WATCH, Bucket, Gate, Lane, Places, Throttle
from podberth.kube.http1 import ConnectionPool, Response, Stream
from podberth.kube.objects import MALFORMED, ListPage, list_page
from podberth.kube.resources import Resource

T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

TRIES = 10  # per request, as client-go's maxRetries
RENEW_SECONDS = 60.0  # an exec plugin may ask a slow token service, or hang


class _LaneState:
    """The state of a lane: its places, its share of the rate, its pause."""

    def __init__(self, lane: Lane, throttle: Throttle, rng: Callable[[], float]) -> None:
        self.lane = lane
        self.places = Places(lane.width or 1_000_000)
        self.throttle = throttle
        self.gate = Gate(rng)

    async def admit(self, clock: Callable[[], float]) -> None:
        """Wait out a pause, then for our turn at the rate."""
        delay = self.gate.delay(clock())
        while delay:
            await asyncio.sleep(delay)
            delay = self.gate.delay(clock())
        await self.throttle.wait(self.lane)


class Client:
    """One API server; use as `async with Client(connection) as client`.

    `qps` and `burst` are clientConnection's (qps < 0: no limit), `timeout` seconds for a whole request unless it
    says otherwise. All methods raise `ApiError` for an answer that is not 2xx and `Unreachable` for none, which is
    what an answer counts as that no API server can have given to the request, whatever its code.
    `retries` counts repeated requests by HTTP code. `fence` tells the seconds for which we may still write (a leader's
    term); once they are over nothing that changes the cluster leaves, whatever waits here for its turn. `protobuf` is
    whether `writes` may use it, and turns False when the server does not speak it.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        qps: float = 50.0,
        burst: int = 100,
        timeout: float = 30.0,
        protobuf: bool = False,
        rng: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self.retries: dict[int, int] = {}
        self.fence: Callable[[], float] | None = None
        self.protobuf = protobuf
        self._qps = qps
        self._burst = burst
        self._timeout = timeout
        self._pool = ConnectionPool(connection, clock)
        self._headers = ""
        """The headers that go with every request, as lines."""
        self._lanes: dict[str, _LaneState] = {}
        self._rng = rng
        self._clock = clock
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        loop = asyncio.get_running_loop()
        shared = Throttle(Bucket(self._qps, self._burst), self._clock, loop.call_later)
        for lane in LANES:
            own = Throttle(Bucket(self._qps, self._burst), self._clock, loop.call_later) if lane.own_bucket else shared
            self._lanes[lane.name] = _LaneState(lane, own, self._rng)
        await self._refresh(force=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    # -- requests ------------------------------------------------------------------------------------------------

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: str = "",
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - of the request on the wire, not of waiting for our turn
        lane: Lane = API,
        tries: int = TRIES,
        patience: float | None = None,
        on_send: Callable[[], None] | None = None,
        since: float | None = None,
    ) -> bytes:
        """Send and read to the end. `path` and `query` are already encoded; `timeout` in seconds.

        `since`: when what this is for began, by the client's clock; in a lane that is full, what began first goes
        first. Without it: now. `patience`, `on_send`: as in `ConnectionPool.send`. A 401 renews the credentials and is
        tried once more; 429 and 503 with Retry-After pause the whole lane and are tried again up to `tries` times in
        all, whatever the verb: the server says that it did nothing.
        """
        state = self._lanes[lane.name]
        target = f"{path}?{query}" if query else path
        seconds = self._timeout if timeout is None else timeout
        connection, credentials = self.connection, self.connection.credentials
        refusal: ApiError | None = None
        attempt = 1
        renewed = False

        def leaves() -> None:
            self._left(verb, lane)  # once more: it may have waited for a connection
            if on_send is not None:
                on_send()

        await state.places.take(self._clock() if since is None else since)
        try:
            while True:
                await state.admit(self._clock)
                generation = credentials.generation
                if credentials.due():
                    await self._refresh(force=False)
                left, headers = self._left(verb, lane), self._headers
                if lane.accept:
                    headers = headers.replace(f"Accept: {JSON}\r\n", f"Accept: {lane.accept}\r\n", 1)
                message = self._pool.message(verb, target, headers, body, content_type)
                try:
                    answer = await self._pool.send(verb, message, seconds, left, patience=patience, on_send=leaves)
                except Unreachable as error:
                    if not error.timed_out:
                        connection.recheck_tls()  # TLS 1.3 tells of a refused certificate only after the handshake
                    raise
                if 200 <= answer.status < 300:
                    return of_an_api_server(verb, path, query, answer.body)
                refusal = ApiError.from_answer(answer.status, answer.body, answer.retry_after, answer.warnings)
                if refusal.status == 401 and not renewed:
                    renewed = True
                    if credentials.generation != generation:
                        self._authorize()  # another request has renewed them meanwhile
                    elif not await self._refresh(force=True):
                        raise refusal
                elif refusal.status in (429, 503) and refusal.retry_after is not None:
                    if refusal.has_cause("DisruptionBudget"):
                        raise refusal  # this pod may not go; the server is not busy
                    if lane.obeys:
                        state.gate.shut(self._clock(), refusal.retry_after)
                    if attempt >= tries:
                        raise refusal
                    attempt += 1
                else:
                    raise refusal
                self.retries[refusal.status] = self.retries.get(refusal.status, 0) + 1
        finally:
            refusal = None  # which refers to this frame once it is raised
            state.places.give_back()

    async def get(
        self,
        path: str,
        *,
        query: str = "",
        lane: Lane = API,
        tries: int = TRIES,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> bytes:
        """GET an object or a collection."""
        return await self.request("GET", path, query=query, lane=lane, tries=tries, timeout=timeout)

    async def create(
        self,
        path: str,
        body: bytes,
        content_type: str = JSON,
        *,
        lane: Lane = API,
        timeout: float | None = None,  # noqa: ASYNC109
        patience: float | None = None,
        on_send: Callable[[], None] | None = None,
        since: float | None = None,
    ) -> bytes:
        """POST to a collection or a subresource."""
        return await self.request(
            "POST",
            path,
            body=body,
            content_type=content_type,
            lane=lane,
            timeout=timeout,
            patience=patience,
            on_send=on_send,
            since=since,
        )

    async def turns(self, lane: Lane, most: int) -> int:
        """Wait for a turn in a lane; return how many requests may be sent now, from one to `most`."""
        state = self._lanes[lane.name]
        await state.admit(self._clock)
        found = 1
        while found < most and state.throttle.take():
            found += 1
        return found

    async def create_many(self, objects: Sequence[tuple[str, bytes]], content_type: str, *, lane: Lane) -> list[int]:
        """POST (path, body) pairs; return the statuses of those that were answered, as `_many` says."""
        requests = [(path, body, content_type) for path, body in objects]
        return [answer.status for answer in await self._many("POST", requests, lane, bodies=False)]

    async def patch_many(self, patches: Sequence[tuple[str, bytes, str]], *, lane: Lane) -> list[tuple[int, bytes]]:
        """PATCH (path, body, content type); return status and body of those that were answered, as `_many` says.

        The status is 0 where the answer is none of an API server's: what became of that patch is not known.
        """
        answers = await self._many("PATCH", patches, lane, bodies=True)
        return [_judged(patch[0], answer) for patch, answer in zip(patches, answers, strict=False)]

    async def _many(
        self, verb: str, requests: Sequence[tuple[str, bytes, str]], lane: Lane, *, bodies: bool
    ) -> list[Response]:
        """Send (path, body, content type) on one connection; return the answers of those that were answered, in order.

        They had their turn already (`turns`). Nothing is tried again here: what was not answered, or was refused for a
        while, is for whoever asks to send by itself. Raises Unreachable if nothing was sent.
        """
        if self.connection.credentials.due():
            await self._refresh(force=False)
        left, headers = self._left(verb, lane), self._headers
        messages = [self._pool.message(verb, path, headers, body, kind) for path, body, kind in requests]
        return await self._pool.send_many(
            messages, self._timeout, left, bodies=bodies, on_send=lambda: self._left(verb, lane)
        )

    async def patch(
        self,
        path: str,
        body: bytes,
        content_type: str = MERGE_PATCH,
        *,
        lane: Lane = API,
        since: float | None = None,
    ) -> bytes:
        """PATCH an object or a subresource."""
        return await self.request("PATCH", path, body=body, content_type=content_type, lane=lane, since=since)

    async def delete(self, path: str, body: bytes | None = None, *, lane: Lane = API) -> bytes:
        """DELETE an object; `body` is DeleteOptions."""
        return await self.request("DELETE", path, body=body, lane=lane)

    @asynccontextmanager
    async def stream(self, path: str, *, query: str = "", idle: float, lane: Lane = WATCH) -> AsyncIterator[Stream]:
        """GET without end; `idle` seconds without a byte end it (`Unreachable` with timed_out).

        The caller retries: a 401 alone is handled here.
        """
        await self._lanes[lane.name].admit(self._clock)
        target = f"{path}?{query}" if query else path
        renewed = False
        while True:
            if self.connection.credentials.due():
                await self._refresh(force=False)
            try:
                stream = await self._pool.open(self._pool.message("GET", target, self._headers, None, JSON), idle)
            except Unreachable as error:
                if not error.timed_out:
                    self.connection.recheck_tls()
                raise
            try:
                if 200 <= stream.status < 300:
                    yield stream
                    return
                refusal = ApiError.from_answer(stream.status, await _rest(stream), stream.retry_after)
            finally:
                stream.abort()  # the rest of a stream is not worth reading: the connection goes
            if refusal.status != 401 or renewed or not await self._refresh(force=True):
                try:
                    raise refusal
                finally:
                    del refusal  # which refers to this frame
            renewed = True

    def _left(self, verb: str, lane: Lane) -> float | None:
        """Return the seconds in which a write has to be on its way; None: nothing limits it. Raises Unreachable."""
        if self.fence is None or not lane.fenced or verb == "GET":
            return None
        left = self.fence()
        if left <= 0:
            raise Unreachable("not sent: we do not lead (any longer)", sent=False)
        return left

    async def _refresh(self, *, force: bool) -> bool:
        """Renew the credentials, once for all requests that ask meanwhile; True when there may be new ones.

        A failing renewal is not fatal while there is an old header: the server decides whether it still counts.
        """
        credentials = self.connection.credentials
        if force or credentials.due():
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.create_task(asyncio.to_thread(credentials.renew))
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    await asyncio.shield(self._renewing)
            except Exception as error:
                # ConfigError by its contract; but a credential plugin that fails in a way of its own must not end us.
                if credentials.header is None:
                    raise Unreachable(f"no credentials: {described(error)}", sent=False) from error
                return False
        self._authorize()
        return True

    def _authorize(self) -> None:
        header = self.connection.credentials.header
        fixed = [("User-Agent", self.connection.user_agent), ("Accept", JSON), *self.connection.headers]
        if header is not None:
            fixed.append(("Authorization", header))
        self._headers = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in fixed)


async def _rest(stream: Stream) -> bytes:
    """Return an answer to its end. Raises Unreachable."""
    parts = []
    while part := await stream.read():
        parts.append(part)
    return b"".join(parts)


def _judged(path: str, answer: Response) -> tuple[int, bytes]:
    """Return status and body of the answer to a PATCH; status 0 if no API server wrote it."""
    if 200 <= answer.status < 300:
        try:
            of_an_api_server("PATCH", path, "", answer.body)
        except Unreachable:
            return 0, b""
    return answer.status, answer.body


def _one_line(value: str) -> str:
    """Return a header's value; a line break in it (a token file with a stray one) would begin another header."""
    return value.replace("\r", "").replace("\n", "")


# -- lists ---------------------------------------------------------------------------------------------------------

MOST: Final = 500
"""Objects of a page, as client-go's pager asks for."""
PAGE_BYTES: Final = 16 << 20
_EXPIRED: Final = 410


async def list_pages(
    client: Client,
    path: str,
    selectors: Mapping[str, str] | None = None,
    *,
    first: int = MOST,
    most: int = MOST,
    page_bytes: int = PAGE_BYTES,
    tries: int = TRIES,
) -> AsyncIterator[tuple[bytes, ListPage]]:
    """Yield each page of a collection, as it came and decoded to its shell, for what reads it once and does not watch.

    A page is as long as the size of the last one's objects allows, so that no answer is larger than the caller wants to
    hold. Where the server has forgotten the state that the pages are of (410), the list goes on in the present state,
    with the token that the server offers for that (k8s.io/apiserver pkg/storage/etcd3/errors.go): each object that was
    there all the time comes once. `listwatch` pages by itself, because it needs a list of one moment.

    `selectors`: `fieldSelector`, `labelSelector`. `first`, `most`: objects of the first page, and of the others at
    most. `page_bytes`: what a page should come to, which one may exceed if its objects are larger than those before.
    `tries`: as in `Client.request`.

    Raises ApiError, and Unreachable, also for an answer that is no list.
    """
    limit, token = first, ""
    while True:
        query = {**(selectors or {}), "limit": str(limit), **({"continue": token} if token else {})}
        try:
            body = await client.get(path, query=urlencode(query), tries=tries)
        except ApiError as error:
            if error.status != _EXPIRED or error.next_page in ("", token):
                raise
            token = error.next_page
            continue
        page = read_answer(body, list_page.decode)
        yield body, page
        token = page.metadata.next
        if not token:
            return
        limit = max(1, min(most, page_bytes * len(page.items) // len(body))) if page.items else most


async def list_items(
    client: Client, path: str, selectors: Mapping[str, str] | None = None, *, tries: int = TRIES
) -> AsyncIterator[msgspec.Raw]:
    """Yield each object of a collection, undecoded. Arguments and errors are those of `list_pages`."""
    async for _, page in list_pages(client, path, selectors, tries=tries):
        for item in page.items or ():
            yield item


# -- the answers of an API server ----------------------------------------------------------------------------------

_SHOWN: Final = 200
"""Bytes of such an answer that are shown."""
_TAIL: Final = 4096
"""Bytes at the end of a list in which its metadata stand, if they come last."""

_PATH = re.compile(
    r"/(?:api|apis/([^/]+))/([^/]+)"
    r"(?:/namespaces/[^/]+(?=/)(?!/(?:status|finalize)(?:/|$)))?"
    r"(?:/([^/]+)(?:/([^/]+)(?:/(.+))?)?)?"
)
"""Group, version, plural, name and subresource of a path of the API."""
_TYPED_LIST = re.compile(
    rb'\{"kind":"(\w+)List","apiVersion":"([^"]+)",'
    rb'"metadata":\{[^{}]{0,4000}?"resourceVersion":"[^"]+"[^{}]{0,4000}\},"items":(?:\[|null\})'
)
"""The beginning of a list of one of kube-apiserver's own kinds, as it writes one."""
_CUSTOM_LIST = re.compile(rb'\{"apiVersion":"([^"]+)","items":\[')
_CUSTOM_LIST_ENDS = re.compile(
    rb'\],"kind":"(\w+)List","metadata":\{[^{}]*"resourceVersion":"[^"]+"[^{}]*\}\}\s*\Z',
)
"""The beginning and the end of a list of custom resources, whose fields it sorts by name."""

_KINDS = {(one.api_version, one.plural): one.kind for one in vars(resources).values() if isinstance(one, Resource)}
_NOT_STORED = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
"""API groups whose objects are questions: the answer is in the status, and there is no version."""
_METADATA_ONLY = ("PartialObjectMetadata", "meta.k8s.io/v1")


class _Object(msgspec.Struct):
    """Any JSON object."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _Shell(msgspec.Struct, rename="camel"):
    """The fields that every object has. A Status has a word for its status."""

    kind: str
    api_version: str
    metadata: _Meta
    spec: _Object | None = None
    status: _Object | str | None = None


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    resource_version: str
    next: str = ""


class _ListShell(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Kinds(msgspec.Struct, rename="camel"):
    """The kinds of an API group. Those of the core group come without an apiVersion."""

    kind: str
    group_version: str
    resources: list[_Object]


_shell = msgspec.json.Decoder(_Shell)
_list_shell = msgspec.json.Decoder(_ListShell)
_kinds = msgspec.json.Decoder(_Kinds)


def of_an_api_server(verb: str, path: str, query: str, body: bytes) -> bytes:
    """Return the body of an answer whose code says yes, if it is one to this request. Raises Unreachable if not.

    What is not known here is not compared: the kind of a resource that is not in `resources`, and the fields inside
    spec and status (`read_answer`). Paths outside the API may answer anything.
    """
    asked = _PATH.fullmatch(path)
    if asked is None:
        return body
    group, version, plural, name, subresource = asked.groups()
    api_version = f"{group}/{version}" if group else version
    try:
        if plural is None:
            said = _kinds.decode(body)
            fits = said.kind == "APIResourceList" and said.group_version == api_version
        elif name is None and verb == "GET":
            fits = _is_list(api_version, plural, body)
        elif name is None and verb == "DELETE":
            fits = _is_done(body) or _is_list(api_version, plural, body)
        elif subresource is not None and verb == "POST":
            fits = _is_done(body)
        else:
            fits = _is_object(verb, api_version, plural, name, body, dry_run="dryRun=" in query)
    except MALFORMED:
        fits = False
    if not fits:
        raise Unreachable(f"the answer is none of an API server's: {_shown(plural, body)}")
    return body


def read_answer(body: bytes, decode: Callable[[bytes], T]) -> T:
    """Return what an answer says, by a decoder that knows the fields inside spec and status.

    Raises Unreachable where one is of another type than the API promises: whoever wrote that is no API server.
    """
    try:
        return decode(body)
    except MALFORMED as error:
        raise Unreachable(f"the answer is none of an API server's: {one_line(str(error))[:_SHOWN]}") from error


def _is_object(verb: str, api_version: str, plural: str, name: str | None, body: bytes, *, dry_run: bool) -> bool:
    """Return whether it is the object that was read or written; of what was deleted the server may say only that."""
    said = _shell.decode(body)
    if verb == "DELETE" and said.kind == "Status":
        return said.status == "Success"
    if said.api_version != api_version or said.kind != _KINDS.get((api_version, plural), said.kind or None):
        return False
    if name is None and api_version.partition("/")[0] in _NOT_STORED:
        return isinstance(said.status, _Object)
    if isinstance(said.status, str) or not (said.metadata.resource_version or dry_run):
        return False
    return name is None or said.metadata.name == (unquote(name) if "%" in name else name)


def _is_done(body: bytes) -> bool:
    """Return whether it is a Status that says so."""
    said = _shell.decode(body)
    return said.kind == "Status" and said.status == "Success"


def _is_list(api_version: str, plural: str, body: bytes) -> bool:
    """Return whether it is a list of that kind, with a version.

    A page may have megabytes, and whoever asked for it reads it to the end anyway. So as a rule only the ends are
    looked at, which is where kube-apiserver says what a list is.
    """
    if (head := _TYPED_LIST.match(body)) is not None and body[-8:].rstrip().endswith((b"]}", b":null}")):
        kind, version = head.group(1).decode(), head.group(2).decode()
    elif (head := _CUSTOM_LIST.match(body)) is not None and (
        tail := _CUSTOM_LIST_ENDS.search(body, max(len(body) - _TAIL, 0))
    ) is not None:
        kind, version = tail.group(1).decode(), head.group(1).decode()
    else:
        said = _list_shell.decode(body)
        kind, version = said.kind.removesuffix("List"), said.api_version
        if not said.metadata.resource_version or kind == said.kind:
            return False
    if (kind, version) == _METADATA_ONLY:
        return True
    return bool(kind) and version == api_version and kind == _KINDS.get((api_version, plural), kind)


def _shown(plural: str | None, body: bytes) -> str:
    """Return the beginning of an answer, on one line; of what may be a secret nothing."""
    if plural == "secrets":
        return f"{len(body)} bytes that are no Secret that was asked for"
    return one_line(body[:_SHOWN].decode("utf-8", "replace")) or "it is empty"
