"""The API server of the simulated world: the embedded server's answers, below HTTP, behind simulated connections.

It acts on each request in one moment, and keeps an audit log of its own: what was asked, what was done, and when. What
goes wrong with a request or with a watch is asked of `Trouble`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from httptools import HttpRequestParser

from podberth.apiserver import protobuf, resources
from podberth.apiserver.admission import Admission
from podberth.apiserver.crd import Definitions
from podberth.apiserver.dispatch import Dispatch
from podberth.apiserver.listing import Watcher, WatchOptions, error_line, watch_options
from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules.selectors import Selection
from podberth.apiserver.rules.status import NothingServedError, StatusError, expired, forbidden
from podberth.apiserver.server import bootstrap
from podberth.apiserver.storage import Change, Store, Stored
from podberth.apiserver.users import Trail, User
from tests.storm.asked import OURS, Asked, Effect, Entry, Trouble, mistyped
from tests.storm.loop import Loop
from tests.storm.network import End, Network

PORT = 6443
ORPHANED_SECONDS = 9.0
"""Who has waited so long for an answer may have given up."""
HISTORY = 400
"""Changes of a kind that a watch can still ask for."""
BOOKMARK_SECONDS = 60.0
ACTORS = User("system:admin", ("system:masters", "system:authenticated"))


class Session(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._behind: deque[Asked] = deque()
        """Requests that wait for the answers to those before them."""
        self._answering = False
        self.end: End
        self.watch: Watch | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.end = transport  # type: ignore[assignment]
        self._server.sessions[self] = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.sessions.pop(self, None)
        if self.watch is not None:
            self.watch.stop()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) in _LENGTHS:
            self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        info, query = _read(method, self._url)
        asked = Asked(
            self._server.loop.here,
            self._headers.get(b"user-agent", b"").decode(),
            method,
            info,
            query,
            self._headers.get(b"content-type", b"application/json").decode(),
            b"".join(self._body),
        )
        if asked.content == protobuf.MEDIA_TYPE:
            asked.body = msgspec.json.encode(protobuf.read(asked.body))
        self._url, self._headers, self._body = b"", {}, []
        if self._answering:
            self._behind.append(asked)
            return
        self._answering = True
        self._server.asked(self, asked)

    def _go_on(self) -> None:
        """With the next request, as an API server does: one after the other."""
        if self.end.over:
            return
        asked = self._behind.popleft()
        asked.at = self._server.loop.here
        self._server.asked(self, asked)

    def answer(self, code: int, body: bytes, retry_after: int = 0) -> None:
        more = f"Retry-After: {retry_after}\r\n" if retry_after else ""
        head = f"HTTP/1.1 {code} -\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        self.end.write(head.encode() + body)
        self.answered()

    def answered(self) -> None:
        """The answer is complete: the next request has its turn."""
        if self._behind:
            self._server.loop.call_soon(self._go_on)
        else:
            self._answering = False


class Watch(Watcher):
    """One watch: lines go out as changes happen."""

    def __init__(self, server: Server, session: Session, asked: Asked, options: WatchOptions) -> None:
        info, query = asked.info, asked.query
        resource = server.dispatch.resource(info)
        selection = Selection(resource, info.namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        super().__init__(resource, server.store, selection)
        self.kind = info.plural
        self.user = asked.user
        self.stuck_at: float | None = None
        """Since when it is open, and silent."""
        self._server = server
        self._session = session
        self._options = options
        self._since = options.since if options.since is not None else 0
        session.watch = self

    def start(self) -> None:
        options, server = self._options, self._server
        self._session.end.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        expired_already = options.since is not None and options.since < self._collection.oldest
        told = expired_already and not self._session.end.peer.over  # who has given the request up hears nothing
        server.on_watch(self.user, self._resource.collection, options.since, told)
        if expired_already:
            too_old = f"too old resource version: {options.since} ({self._collection.oldest})"
            self.fail(expired(too_old))
            return
        self._begin(options)
        self._collection.listeners[self] = None
        loop = server.loop
        self._over = loop.call_later(options.timeout, self.finish)
        if options.bookmarks:
            self._marked = loop.call_later(BOOKMARK_SECONDS, self._mark)

    def offer(self, change: Change) -> None:
        if change.revision <= self._since:
            return  # also after a restore: the client says that it knows this already
        line = self._translate(change)
        if line is not None:
            self.send(line)

    def send(self, line: bytes) -> None:
        """Put a line on its way, if nothing has anything against it."""
        if self.stuck_at is not None or self._ended:
            return
        for meddle in self._server.trouble.lines:
            lines = meddle(self.kind, line)
            if lines is not None:
                for one in lines:
                    self._write(one)
                return
        self._write(line)

    def fail(self, error: StatusError) -> None:
        """An ERROR event, and the end."""
        self._write(error_line(error))
        self.finish()

    def finish(self) -> None:
        """The proper end of a stream."""
        if not self._ended and self.stuck_at is None:
            self._session.end.write(b"0\r\n\r\n")
            self._session.answered()
        self.stop()

    def stop(self) -> None:
        self._ended = True
        self._collection.listeners.pop(self, None)

    def _mark(self) -> None:
        if self._ended:
            return
        self.send(self._bookmark())
        self._marked = self._server.loop.call_later(BOOKMARK_SECONDS, self._mark)

    def _write(self, line: bytes) -> None:
        if not self._ended:
            self._session.end.write(b"%x\r\n%b\r\n" % (len(line), line))


class Server:
    """One API server, with its store."""

    def __init__(self, loop: Loop, network: Network, rng: Random, wall: Callable[[], float]) -> None:
        self.loop = loop
        self.network = network
        self.trouble = Trouble()
        self.audit: list[Entry] = []
        self.sessions: dict[Session, None] = {}
        self.up = True
        self.denied: set[str] = set()
        self.on_entry: Callable[[Entry, Asked | None], None] = lambda entry, asked: None
        self.on_restore: Callable[[], None] = lambda: None
        self.on_watch: Callable[[str, str, int | None, bool], None] = lambda user, kind, since, expired: None
        """Hears of each watch that begins, and whether somebody is told that the server has forgotten that version."""
        self.restored_at = float("-inf")
        self._lost: list[tuple[float, float]] = []
        """Spans of time whose writes were lost."""
        self._rng = rng
        self.store = Store(HISTORY)
        self.registry = Registry()
        bootstrap(self.store, self.registry)
        self._definitions = Definitions(self.store, self.registry)
        self._serve()
        self._backups: list[tuple[float, int, dict[str, dict[str, Stored]]]] = []
        network.listen(PORT, loop, lambda: Session(self))

    def _serve(self) -> None:
        admission = Admission(self.store, self.registry)
        self.dispatch = Dispatch(self.store, self.registry, admission, {}, None)

    def serve_more(self, resource: Resource) -> None:
        """Serve this, too, as if a feature gate were on."""
        self.registry.add(resource)
        self._serve()

    # -- requests ------------------------------------------------------------------------------------------------

    def asked(self, session: Session, asked: Asked) -> None:
        """A request came over a connection."""
        effect = None
        for look in self.trouble.requests:
            effect = look(asked)
            if effect is not None:
                break
        if effect is None:
            self._answer(session, asked, None)
        elif effect.orphan:
            session.end.wire.reset()
            asked.orphan = True
            self.loop.call_later(effect.orphan, self.act, asked)
        elif effect.after:
            asked.orphan = effect.after > ORPHANED_SECONDS
            self.loop.call_later(effect.after, self._answer, session, asked, effect)
        else:
            self._answer(session, asked, effect)

    def _answer(self, session: Session, asked: Asked, effect: Effect | None) -> None:
        if not self.up:
            return  # it died before it came to this
        if effect is None:
            if asked.info.verb == "watch":
                self._watch(session, asked)
            else:
                self._respond(session, *self.act(asked))
            return
        if effect.right and asked.info.verb == "watch":
            self._watch(session, asked)
            return
        if effect.acted or effect.right:
            code, body, wait = self.act(asked)
            if effect.mistyped and 200 <= code < 300 and asked.info.verb not in ("list", "watch"):
                body = mistyped(body, self._rng)
            if effect.right:
                self._later(effect.late, self._respond, session, code, body, wait)
                return
        else:
            self._note(asked, max(effect.code, 0), None)
        if effect.code > 0:
            status = effect.body or (_PAGE if effect.page else msgspec.json.encode(_status(effect.code)))
            self._later(effect.late, self._respond, session, effect.code, status, effect.retry_after)
        elif effect.code == 0:
            session.end.wire.reset()

    def _later(self, seconds: float, do: Callable[..., None], *args: Any) -> None:
        if seconds:
            self.loop.call_later(seconds, do, *args)
        else:
            do(*args)

    def _respond(self, session: Session, code: int, body: bytes, retry_after: int = 0) -> None:
        if session in self.sessions:
            session.answer(code, body, retry_after)

    def act(self, asked: Asked) -> tuple[int, bytes, int]:
        """Do what was asked, in one moment."""
        if not self.up:
            return 503, b"", 0
        trail = Trail(ACTORS)
        info = asked.info
        if not info.plural:
            return self._tell_kinds(asked)
        try:
            self._allow(asked)
            going = self.dispatch.answer(info, asked.query, asked.content, asked.body, trail)
            try:
                going.send(None)
            except StopIteration as done:
                code, body, wait = done.value.code, done.value.body, 0
            else:
                raise RuntimeError(f"{asked.what} waits, and nothing here should")
        except StatusError as error:
            code, body, wait = error.code, msgspec.json.encode(error.body()), error.retry_after or 0
        except NothingServedError:
            code, body, wait = 404, b"404 page not found\n", 0
        self._note(asked, code, trail)
        return code, body, wait

    def _tell_kinds(self, asked: Asked) -> tuple[int, bytes, int]:
        """Discovery: which kinds there are."""
        document = resources.document(self.registry, asked.info.path, "api.storm")
        self._note(asked, 404 if document is None else 200, None)
        return (404, b"404 page not found\n", 0) if document is None else (200, msgspec.json.encode(document), 0)

    def _note(self, asked: Asked, code: int, trail: Trail | None) -> None:
        info = asked.info
        entry = Entry(self.loop.here, asked.user, info.verb, info.resource, info.namespace, info.name, code)
        if trail is not None and trail.annotations:
            entry.uid = trail.annotations.get("berth/bound-uid", "")
            entry.node = trail.annotations.get("berth/bound-node", "")
        if info.subresource == "binding":
            entry.body = asked.body
        self.audit.append(entry)
        self.on_entry(entry, asked)

    def _allow(self, asked: Asked) -> None:
        if asked.info.plural in self.denied and asked.user.startswith(OURS):
            raise forbidden(asked.info.group, asked.info.plural, asked.info.name, "RBAC was changed")

    def _watch(self, session: Session, asked: Asked) -> None:
        if session not in self.sessions:
            return
        try:
            self._allow(asked)
            watch = Watch(self, session, asked, watch_options(asked.query, self.store, 3600.0))
        except StatusError as error:
            self._note(asked, error.code, None)
            session.answer(error.code, msgspec.json.encode(error.body()))
            return
        except NothingServedError:
            self._note(asked, 404, None)
            session.answer(404, b"404 page not found\n")
            return
        self._note(asked, 200, None)
        watch.start()

    # -- what actors do, without a network -----------------------------------------------------------------------

    def call(
        self, user: str, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> tuple[int, bytes]:
        """Ask as one that is near the server: code and body of the answer; 0 and nothing while it is down."""
        if not self.up or self.loop.stopped:
            return 0, b""
        raw = b"" if body is None else msgspec.json.encode(body)
        info, query = _read(method, path.encode())
        code, answer, _ = self.act(Asked(self.loop.here, user, method, info, query, content, raw))
        return code, answer

    def objects(self, plural: str) -> list[dict[str, Any]]:
        """What is stored, in key order."""
        return self.store.objects(self.registry.built_in(plural).collection)

    def stored(self, plural: str, key: str) -> dict[str, Any] | None:
        """One object."""
        found = self.store.get(self.registry.built_in(plural), key)
        return None if found is None else found.obj

    # -- what happens to it --------------------------------------------------------------------------------------

    def watches(self) -> list[Watch]:
        """The open ones, oldest first."""
        return [session.watch for session in self.sessions if session.watch is not None and not session.watch._ended]

    def stop(self) -> None:
        """The process ends; what is stored stays."""
        self.up = False
        self.network.refuse(PORT)
        for session in list(self.sessions):
            if session.watch is not None:
                session.watch.stop()
            session.end.wire.reset()
        self.sessions.clear()

    def start(self) -> None:
        """It is back; its watch cache begins anew."""
        self.up = True
        self.store.compact()
        self._serve()
        self.network.listen(PORT, self.loop, lambda: Session(self))

    def lost_since(self, at: float) -> bool:
        """Whether what was written then was lost."""
        return any(begin < at <= end for begin, end in self._lost)

    def back_up(self) -> None:
        """Keep a copy of everything."""
        before = self._backups[-1] if self._backups else None
        if before is not None and before[1] == self.store.revision:
            items = before[2]  # nothing was written since
        else:
            items = {name: dict(collection.items) for name, collection in self.store.collections.items()}
        self._backups.append((self.loop.here, self.store.revision, items))

    def forget(self) -> None:
        """At the end of the world: let go what is most of it, so that nobody has to look for cycles in it."""
        self.audit.clear()
        self._backups.clear()
        for collection in self.store.collections.values():
            collection.replace({})

    def restore(self, seconds: float) -> float | None:
        """Come back as it was that long ago: resourceVersions go back. The moment it goes back to; None: no backup."""
        found = [backup for backup in self._backups if backup[0] <= self.loop.here - seconds]
        if not found:
            return None
        at, revision, items = found[-1]
        self.stop()
        for name, collection in self.store.collections.items():
            collection.replace(dict(items.get(name, {})))
        self.store.revision = revision
        self.store.compact()
        for collection in self.store.collections.values():
            collection.oldest = revision
        self.restored_at = self.loop.here
        self._lost.append((at, self.loop.here))
        self._backups = [backup for backup in self._backups if backup[0] <= at]
        self.on_restore()
        return at


_LENGTHS = frozenset(map(len, (b"user-agent", b"content-type")))
"""Of the headers that are read."""


@lru_cache(4096)
def _read(method: str, url: bytes) -> tuple[resources.RequestInfo, dict[str, str]]:
    """What a request is about. The same are asked for again and again: Leases, and lists to compare with."""
    path, _, text = url.decode().partition("?")
    query = dict(parse_qsl(text, keep_blank_values=True))
    return resources.read(method, path, query), query


_PAGE = b"<html><body>We will be back soon.</body></html>"


def _status(code: int) -> dict[str, Any]:
    reasons = {409: "Conflict", 410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError"}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "injected",
        "reason": reasons.get(code, "ServiceUnavailable" if code == 503 else "Timeout"),
        "code": code,
    }
