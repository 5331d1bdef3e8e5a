"""The tests' own client: synchronous, over http.client, sharing no code with the scheduler that it checks."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import ssl
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """The API server refused; `reason` is the machine's word (`NotFound`, `Conflict`, …)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Told(NamedTuple):
    """An answer: an object below status 300, else a Status."""

    status: int
    body: Object
    warnings: list[str]


class Api:
    """One user's view of an API server. Paths are the server's own: `/api/v1/nodes`, `/apis/…`.

    Safe to use from several threads: each request takes a connection of its own from the idle ones, or opens one.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        ca: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        timeout: float = 60,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "User-Agent": "berth-tests"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=ca)
            if certificate is not None:
                self._tls.load_cert_chain(*certificate)
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections; the next request opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # What tests say

    def get(self, path: str, **query: Any) -> Object:
        """One object, or a List as the server gives it."""
        return self._json("GET", path, query=query)

    def text(self, path: str, **query: Any) -> str:
        """A body that is not JSON: health, metrics, logs."""
        return self._send("GET", path, query=query).decode()

    def list(self, path: str, limit: int = 2000, **query: Any) -> list[Object]:
        """All items below a path, page by page."""
        items: list[Object] = []
        following = ""
        while True:
            page = self.get(path, limit=limit, **({"continue": following} if following else {}), **query)
            items += page["items"]
            following = page["metadata"].get("continue", "")
            if not following:
                return items

    def create(self, path: str, body: Object, **query: Any) -> Object:
        """POST an object to its collection, or to a subresource such as `…/pods/web/binding`."""
        return self._json("POST", path, body, query=query)

    def replace(self, path: str, body: Object, **query: Any) -> Object:
        """PUT a whole object."""
        return self._json("PUT", path, body, query=query)

    def patch(self, path: str, body: Any, kind: str = "merge", **query: Any) -> Object:
        """PATCH with one of `merge`, `strategic`, `json` or `apply` (which needs `fieldManager`)."""
        return self._json("PATCH", path, body, query=query, content_type=PATCH_TYPES[kind])

    def delete(self, path: str, grace: int | None = 0, **options: Any) -> Object:
        """DELETE an object or a whole collection; without a kubelet only a grace of 0 lets a bound pod go."""
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return self._json("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def watch(self, path: str, idle: float = 30, **query: Any) -> Generator[Object, None, None]:
        """Events `{"type", "object"}` until the server ends the watch; TimeoutError after `idle` silent seconds.

        A resourceVersion that is too old is no ApiError but an event of type ERROR with code 410.
        """
        connection = self._connect(idle)
        try:
            connection.request("GET", self._target(path, {"watch": "true", **query}), headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _error(response.status, response.reason, response.read())
            with response:
                while line := response.readline():
                    yield json.loads(line)
        finally:
            connection.close()

    def create_many(self, path: str, bodies: Iterable[Object], connections: int = 8) -> int:
        """Create many objects in one collection at the server's pace; their number. The first refusal is raised."""
        return self._spread([(path, json.dumps(body).encode()) for body in bodies], connections)

    def bind_many(self, namespace: str, bindings: Iterable[tuple[str, str]], connections: int = 8) -> int:
        """Bind pods to nodes, given as (pod, node), by hand, for tests that need a full cluster; their number."""
        return self._spread(
            [
                (
                    f"/api/v1/namespaces/{namespace}/pods/{pod}/binding",
                    json.dumps(
                        {
                            "apiVersion": "v1",
                            "kind": "Binding",
                            "metadata": {"name": pod},
                            "target": {"kind": "Node", "name": node},
                        }
                    ).encode(),
                )
                for pod, node in bindings
            ],
            connections,
        )

    def tell(self, method: str, path: str, body: Any, **query: Any) -> Told:
        """A request whatever its answer is, and the warnings that came with it."""
        headers = {**self._headers, "Content-Type": "application/json"}
        with self._connection() as connection:
            connection.request(method, self._target(path, query), json.dumps(body).encode(), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            said = response.headers.get_all("Warning") or []
        return Told(response.status, answer, [_unquoted(one) for one in said])

    # How it is said

    def _spread(self, posts: Sequence[tuple[str, bytes]], connections: int) -> int:
        waiting = iter(posts)
        taking = threading.Lock()

        def work() -> None:
            while True:
                with taking:
                    post = next(waiting, None)
                if post is None:
                    return
                try:
                    self._send("POST", *post)
                except BaseException:
                    with taking:  # nobody goes on after a refusal
                        for _ in waiting:
                            pass
                    raise

        with ThreadPoolExecutor(connections) as threads:
            for done in [threads.submit(work) for _ in range(connections)]:
                done.result()
        return len(posts)

    def _json(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        raw = None if body is None else json.dumps(body).encode()
        answer: Object = json.loads(self._send(method, path, raw, query, content_type))
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        query: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        headers = self._headers if body is None else {**self._headers, "Content-Type": content_type}
        with self._connection() as connection:
            connection.request(method, self._target(path, query or {}), body, headers)
            response = connection.getresponse()
            answer = response.read()
        if response.status >= 300:
            raise _error(response.status, response.reason, answer)
        return answer

    def _target(self, path: str, query: dict[str, Any]) -> str:
        return self._prefix + path + ("?" + urlencode(query) if query else "")

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = self._take() or self._connect(self._timeout)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _take(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not _readable(connection):
                return connection
            connection.close()


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Whether something waits on an idle connection: the server's goodbye, as after its restart."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _error(status: int, reason: str, body: bytes) -> ApiError:
    text = body.decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        return ApiError(status, reason, text.strip())
    if not isinstance(said, dict):
        return ApiError(status, reason, text.strip())
    return ApiError(status, said.get("reason") or reason, said.get("message") or "")


def _unquoted(header: str) -> str:
    """The text of a Warning header (RFC 7234): `299 - "text"`."""
    quoted = header.encode("latin-1").decode().partition('"')[2].rpartition('"')[0]
    return re.sub(r"\\(.)", r"\1", quoted)
