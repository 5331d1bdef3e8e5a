"""The HTTP side: authentication, authorisation, faults, audit, and streams, around the answers of `dispatch`.

Upstream: k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import ClientConnectionResetError, web

from podberth.apiserver import protobuf, resources
from podberth.apiserver.admission import Admission
from podberth.apiserver.crd import Definitions
from podberth.apiserver.dispatch import Dispatch
from podberth.apiserver.listing import Watcher, watch_options
from podberth.apiserver.resources import Registry
from podberth.apiserver.rules import defaults, podgroups, strategy
from podberth.apiserver.rules.podgroups import PRIORITY_CLASSES
from podberth.apiserver.rules.selectors import Selection
from podberth.apiserver.rules.status import NothingServedError, StatusError, forbidden, unauthorized
from podberth.apiserver.rules.strategy import GIVEN
from podberth.apiserver.storage import Store
from podberth.apiserver.users import ANONYMOUS, MASTER, AuditEntry, Authorizer, Trail, User

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
HOST = "127.0.0.1"
BODY_LIMIT = 3 * 1024 * 1024
AUDITED = 500_000
"""Entries of the audit log that are kept."""
WATCH_SECONDS = 3600.0
"""The seconds that a watch lasts which names no time."""
JSON_HEADERS = {"Content-Type": "application/json"}
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
# system:public-info-viewer: readable without credentials.
_PUBLIC = _HEALTH | {"/version"}


def bootstrap(store: Store, registry: Registry) -> None:
    """Store what clients expect to be there."""
    for name in NAMESPACES:
        _add(store, registry, "namespaces", name, {})
    for name, (value, description) in PRIORITY_CLASSES.items():
        _add(store, registry, "priorityclasses", name, {"value": value, "description": description})


def _add(store: Store, registry: Registry, plural: str, name: str, content: dict[str, Any]) -> None:
    resource = registry.built_in(plural)
    metadata = {"name": name, "uid": GIVEN.uid(), "creationTimestamp": strategy.timestamp()}
    obj: dict[str, Any] = {"metadata": metadata, **content}
    defaults.apply(resource.kind, obj)
    strategy.prepare_create(resource, obj)
    store.create(resource, name, obj)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """aiohttp's own request, with the API's limit on bodies."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


class DropConnectionError(Exception):
    """Raised by a fault hook to cut the connection without an answer."""


class Connection:
    """The facts about a request that a fault hook gets."""

    def __init__(self, request: web.BaseRequest, info: resources.RequestInfo) -> None:
        self.request = request
        self.info = info


# Runs before each request: it may sleep, raise StatusError or DropConnectionError, or return an answer of its own.
Fault = Callable[[Connection], Awaitable[web.StreamResponse | None]]


class ApiServer:
    """An API server in this process: `async with ApiServer() as server`, then talk HTTP to `server.url`."""

    def __init__(
        self,
        port: int = 0,
        *,
        tokens: Mapping[str, User | str] | None = None,
        authorizer: Authorizer | None = None,
        history: int = 20_000,
        bookmark_interval: float = 60.0,
        fault: Fault | None = None,
        gates: Collection[str] = (),
    ) -> None:
        """`gates`: feature gates that are on beside those that are by default; GenericWorkload is known."""
        self.store = Store(history)
        self.registry = Registry([podgroups.POD_GROUPS] if podgroups.GATE in gates else [])
        self.tokens = {token: User(user) if isinstance(user, str) else user for token, user in (tokens or {}).items()}
        self.audit: deque[AuditEntry] = deque(maxlen=AUDITED)
        self.fault = fault
        self._port = port
        self._authorizer = authorizer
        self._bookmark_interval = bookmark_interval
        self._watchers: set[Watcher] = set()
        self._admission = Admission(self.store, self.registry)
        self._definitions = Definitions(self.store, self.registry)
        self._dispatch = Dispatch(self.store, self.registry, self._admission, self.tokens, authorizer)
        self._runner: web.ServerRunner | None = None
        self._address = ""
        bootstrap(self.store, self.registry)

    # --- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; what is stored survives a stop and another start on the same port."""
        server = web.Server(self._handle, request_factory=_request, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._address = f"{HOST}:{self._port}"

    async def stop(self) -> None:
        """End all watches and stop listening."""
        for watcher in list(self._watchers):
            watcher.end()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self._admission.close()

    @property
    def url(self) -> str:
        """Return where clients find the server."""
        return f"http://{self._address}"

    def kubeconfig(self, path: str | Path) -> Path:
        """Write a kubeconfig for this server, with the first token if there are any."""
        token = next(iter(self.tokens), "")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            "users": [{"name": "admin", "user": {"token": token} if token else {}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "admin"}}],
        }
        written = Path(path)
        written.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        return written

    # --- one request ------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        query: Mapping[str, str] = request.query if request.query_string else {}
        info = resources.read(request.method, request.path, query)
        trail = Trail(ANONYMOUS)
        code = 500
        try:
            if self.fault is not None:
                answer = await self.fault(Connection(request, info))
                if answer is not None:
                    code = answer.status
                    return answer
            trail.user = self._authenticate(request)
            self._authorize(trail.user, info)
            if info.verb == "watch" and info.plural:
                code = 200
                return await self._watch(request, info, query)
            code, body = await self._answer(request, info, query, trail)
            return self._json(code, body, trail)
        except StatusError as error:
            code = error.code
            response = self._json(code, msgspec.json.encode(error.body()), trail)
            if error.retry_after:
                response.headers["Retry-After"] = str(error.retry_after)
            return response
        except NothingServedError:
            code = 404
            return web.Response(status=404, text="404 page not found\n")
        except DropConnectionError:
            code = 0
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        finally:
            self.audit.append(
                AuditEntry(info.verb, request.path_qs, trail.user.name, code, time.time(), trail.annotations)
            )

    async def _answer(
        self, request: web.BaseRequest, info: resources.RequestInfo, query: Mapping[str, str], trail: Trail
    ) -> tuple[int, bytes]:
        if info.plural:
            body = await self._body(request)
            return await self._dispatch.answer(info, query, request.content_type, body, trail)
        if info.path in _HEALTH:
            return 200, b"ok"
        document = resources.document(self.registry, info.path, self._address)
        if document is None or request.method not in {"GET", "HEAD"}:
            raise NothingServedError
        return 200, msgspec.json.encode(document)

    async def _body(self, request: web.BaseRequest) -> bytes:
        if not request.can_read_body:
            return b""
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            text = f"Request entity too large: limit is {BODY_LIMIT}"
            raise StatusError(413, "RequestEntityTooLarge", text) from error
        if request.content_type != protobuf.MEDIA_TYPE:
            return body
        try:
            return msgspec.json.encode(protobuf.read(body))
        except protobuf.NotUnderstoodError as error:
            raise StatusError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: application/json",
            ) from error

    def _json(self, code: int, body: bytes, trail: Trail) -> web.Response:
        response = web.Response(status=code, body=body, headers=JSON_HEADERS)
        for warning in trail.warnings:
            response.headers.add("Warning", f"299 - {json.dumps(warning)}")
        return response

    def _authenticate(self, request: web.BaseRequest) -> User:
        if not self.tokens:
            return MASTER
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        user = self.tokens.get(token.strip())
        if scheme.lower() != "bearer" or user is None:
            raise unauthorized()
        return user

    def _authorize(self, user: User, info: resources.RequestInfo) -> None:
        if user.is_master or info.path in _PUBLIC:
            return
        resource = info.resource or info.path
        if user is not ANONYMOUS and (
            self._authorizer is None
            or self._authorizer(user, info.verb, info.group, resource, info.namespace, info.name)
        ):
            return
        if not info.plural:
            why = f'User "{user.name}" cannot {info.verb} path "{info.path}"'
            raise StatusError(403, "Forbidden", f"forbidden: {why}", {})
        where = f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
        raise forbidden(
            info.group,
            info.plural,
            info.name,
            f'User "{user.name}" cannot {info.verb} resource "{info.resource}" in API group "{info.group}"{where}',
        )

    async def _watch(
        self, request: web.BaseRequest, info: resources.RequestInfo, query: Mapping[str, str]
    ) -> web.StreamResponse:
        resource = self._dispatch.resource(info)
        fields = query.get("fieldSelector", "")
        if info.name:
            fields = f"{fields},metadata.name={info.name}" if fields else f"metadata.name={info.name}"
        selection = Selection(resource, info.namespace, query.get("labelSelector", ""), fields)
        options = watch_options(query, self.store, WATCH_SECONDS)
        watcher = Watcher(resource, self.store, selection)
        response = web.StreamResponse(headers=JSON_HEADERS)
        response.enable_chunked_encoding()
        self._watchers.add(watcher)
        lines = watcher.stream(options, self._bookmark_interval)
        try:
            await response.prepare(request)
            async for chunk in lines:
                await response.write(chunk)
            await response.write_eof()
        except (ClientConnectionResetError, ConnectionResetError, asyncio.CancelledError):
            # The client has gone; nobody is left to tell.
            pass
        finally:
            await lines.aclose()
            self._watchers.discard(watcher)
        return response
