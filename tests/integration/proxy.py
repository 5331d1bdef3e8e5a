"""A proxy between a client and the API server that loses, holds back and cuts, on loopback and by a test's word.

It speaks plain HTTP to the client and takes its token along. Watches pass line by line, so that one event can be lost
while the rest of the stream goes on, as with a proxy or a cache that has a fault.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp
import yaml
from aiohttp import web

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration.berth import Berth, Harbour

PASSED = ("Authorization", "Accept", "Content-Type")
_LINE = 8 << 20
"""Bytes that an event may have."""
Rewrites = Callable[[str, bytes], Sequence[bytes]]
"""What comes instead of a line (the path of its watch, and the line). Without a newline at its end, the stream ends."""
Loses = Callable[[str, Object], bool]
"""Whether an event (the path of its watch, and the event itself) is lost."""


@dataclass(eq=False)
class _Stream:
    request: web.BaseRequest
    silent: bool = False
    """Nothing passes any more, though it stays open."""


class Proxy:
    """One proxy, in a thread of its own. As a context it runs."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.ca is not None
        self.loses: Loses = lambda path, event: False
        self.rewrites: Rewrites | None = None
        self.lost: Counter[str] = Counter()
        """Events that were lost, by their type."""
        self.lists: Counter[str] = Counter()
        """Whole lists that were asked for, by path; not those of metadata."""
        self.checks: Counter[str] = Counter()
        """Lists of metadata, by path."""
        self.refused: set[str] = set()
        """Paths of which nothing may be read (403), as when a role is taken away."""
        self._streams: list[_Stream] = []
        self._cluster = cluster
        self._tls = ssl.create_default_context(cafile=str(cluster.ca))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())  # and what is still to be closed
        self._loop.close()

    def kubeconfig(self, path: Path) -> Path:
        """Credentials of the cluster's administrator, and the proxy's address."""
        document = yaml.safe_load(self._cluster.kubeconfig(path).read_text())
        document["clusters"][0]["cluster"] = {"server": self.url}
        path.write_text(yaml.safe_dump(document))
        return path

    def silence(self, path: str) -> None:
        """Let nothing pass any more on the streams of a path that are open, once there is one; they stay open."""
        wait_for("a stream to silence", lambda: self._of(path))

        async def hush() -> None:
            for stream in self._of(path):
                stream.silent = True

        asyncio.run_coroutine_threadsafe(hush(), self._loop).result(30)

    def refuse(self, path: str) -> None:
        """Take the right to read a path away; streams of it that are open end, as they do at their time-out."""

        async def cut() -> None:
            self.refused.add(path)
            for stream in self._of(path):
                assert stream.request.transport is not None
                stream.request.transport.close()

        asyncio.run_coroutine_threadsafe(cut(), self._loop).result(30)

    def _of(self, path: str) -> list[_Stream]:
        return [stream for stream in self._streams if stream.request.path == path]

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            self._cluster.url, connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), read_bufsize=_LINE
        )
        self._runner = web.ServerRunner(web.Server(self._pass), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        # First, as it aborts what is under way; a connection over TLS that is only closed waits for the other end.
        await self._session.close()
        await self._runner.cleanup()
        answering = asyncio.all_tasks() - {asyncio.current_task()}
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        if self._session.closed:
            return web.Response(status=503)
        if request.path in self.refused and request.method == "GET":
            denied = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "the role was taken away"}
            return web.json_response(denied, status=403)
        headers = {name: request.headers[name] for name in PASSED if name in request.headers}
        watch = "watch" in request.query
        if request.method == "GET" and not watch and "limit" in request.query and request.query["limit"] != "1":
            (self.checks if "PartialObjectMetadataList" in headers.get("Accept", "") else self.lists)[request.path] += 1
        timeout = aiohttp.ClientTimeout(total=None if watch else 60)
        body = await request.read()
        async with self._session.request(
            request.method, request.path_qs, headers=headers, data=body or None, timeout=timeout
        ) as found:
            kept = {name: found.headers[name] for name in ("Content-Type", "Retry-After") if name in found.headers}
            if not watch or found.status != 200:
                return web.Response(status=found.status, headers=kept, body=await found.read())
            return await self._pass_stream(request, found, kept)

    async def _pass_stream(
        self, request: web.BaseRequest, found: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers=headers)
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        stream = _Stream(request)
        self._streams.append(stream)
        try:
            async for line in found.content:
                if stream.silent:
                    continue
                event = json.loads(line)
                if self.loses(request.path, event):
                    self.lost[event["type"]] += 1
                    continue
                for part in [line] if self.rewrites is None else self.rewrites(request.path, line):
                    await answer.write(part)
                    if not part.endswith(b"\n"):
                        assert request.transport is not None
                        request.transport.close()
                        return answer
        except (aiohttp.ClientError, ConnectionError):
            pass  # one end went; the other is told by the end of this answer
        finally:
            self._streams.remove(stream)
        return answer


def behind(proxy: Proxy, harbour: Harbour, name: str, **more: object) -> Berth:
    """A scheduler that reaches the API server through the proxy."""
    berth = harbour.berth_at(proxy.kubeconfig(harbour.home / f"{name}.kubeconfig"), name, **more)  # type: ignore[arg-type]
    berth.wait_synced()
    return berth
