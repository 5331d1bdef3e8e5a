"""A plain HTTP client for the contract tests: requests in, status and JSON out, watches as iterators."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

JsonObject = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

PATIENCE = 60.0


class Reply(NamedTuple):
    """An answer: the HTTP status, the decoded body, the headers."""

    code: int
    body: Any
    headers: Any

    def ok(self) -> Any:
        """The body of an answer that must be a success."""
        assert self.code < 300, self.body
        return self.body

    def refused(self, code: int, reason: str = "") -> str:
        """The message of an answer that must be this refusal, as a well-formed Status."""
        assert self.code == code, self.body
        assert self.body["kind"] == "Status"
        assert self.body["apiVersion"] == "v1"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == code
        assert self.body.get("reason", "") == reason, self.body
        return str(self.body["message"])


class Events:
    """The events of one watch; `next` fails the test when nothing comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, JsonObject]:
        """The next event's type and object."""
        async with asyncio.timeout(PATIENCE):
            line = await self._response.content.readline()
        assert line, "the watch ended"
        event = json.loads(line)
        return event["type"], event["object"]

    async def rest(self) -> list[tuple[str, JsonObject]]:
        """All events until the server ends the watch."""
        async with asyncio.timeout(PATIENCE):
            lines = (await self._response.content.read()).splitlines()
        events = [json.loads(line) for line in lines]
        return [(event["type"], event["object"]) for event in events]


class Api:
    """Talks to one API server as its administrator."""

    def __init__(self, url: str, token: str = "", ca_file: str = "", embedded: Any = None) -> None:
        self.url = url
        self.embedded = embedded
        self.ssl: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=60)
        self._session = aiohttp.ClientSession(headers=headers, read_bufsize=2**22, timeout=timeout)

    async def close(self) -> None:
        """Let the connections go."""
        await self._session.close()
        # TLS connections are closed in the background; the loop must turn for that before it ends.
        if self.url.startswith("https"):
            await asyncio.sleep(0.05)

    async def call(self, method: str, path: str, body: Any = None, content: str = "", **query: Any) -> Reply:
        """One request."""
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        # A stream of bytes is what aiohttp wants for large bodies.
        data = None if text is None else io.BytesIO(text.encode())
        headers = {"Content-Type": content or "application/json"} if data is not None else {}
        params = {key: str(value) for key, value in query.items()}
        async with self._session.request(
            method, self.url + path, data=data, headers=headers, params=params, ssl=self.ssl
        ) as reply:
            answer = await reply.text()
            return Reply(reply.status, json.loads(answer) if answer.startswith("{") else answer, reply.headers)

    async def get(self, path: str, **query: Any) -> Reply:
        """GET an object or a list."""
        return await self.call("GET", path, **query)

    async def post(self, path: str, body: Any, **query: Any) -> Reply:
        """POST an object."""
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: Any) -> Reply:
        """PUT an object."""
        return await self.call("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, content: str = STRATEGIC_PATCH, **query: Any) -> Reply:
        """PATCH an object."""
        return await self.call("PATCH", path, body, content, **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Reply:
        """DELETE an object or a collection."""
        return await self.call("DELETE", path, body, **query)

    @asynccontextmanager
    async def watch(self, path: str, **query: Any) -> AsyncIterator[Events]:
        """Watch a collection."""
        params = {"watch": "true", **{key: str(value) for key, value in query.items()}}
        async with self._session.get(self.url + path, params=params, ssl=self.ssl) as response:
            assert response.status == 200, await response.text()
            yield Events(response)

    async def eventually(self, path: str, wanted: Any, **query: Any) -> Any:
        """Ask again until the answer is as wanted; for what a server does in its own time."""
        async with asyncio.timeout(PATIENCE):
            while True:
                reply = await self.get(path, **query)
                if wanted(reply):
                    return reply.body
                await asyncio.sleep(0.05)


def pod(name: str, /, **spec: Any) -> JsonObject:
    """A small pod; `labels`, `annotations` and `finalizers` go to its metadata."""
    metadata: JsonObject = {"name": name}
    for part in ("labels", "annotations", "finalizers"):
        if part in spec:
            metadata[part] = spec.pop(part)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}], **spec},
    }


def names(body: JsonObject) -> list[str]:
    """The names in a list."""
    return [item["metadata"]["name"] for item in body["items"]]


def condition(obj: JsonObject, type_: str) -> JsonObject:
    """One condition of an object's status, or an empty one."""
    conditions = obj.get("status", {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == type_), {})
