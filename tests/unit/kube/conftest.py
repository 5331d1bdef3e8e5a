"""A scripted HTTP server for the kube room's tests: each test says what it answers, nothing is timed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from podberth.kube.client import Client
from podberth.kube.connection import Connection, Credentials
from tests.unit.kube.kubeconfigs import Authority

Answer = Callable[[Any], Awaitable[web.StreamResponse]]


@dataclass
class ScriptedServer:
    """Answers requests with `answer`, remembers them; `url` is where it listens."""

    url: str = ""
    answer: Answer | None = None
    seen: list[tuple[str, str]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs))
        self.authorizations.append(request.headers.get("Authorization"))
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.read())
        assert self.answer is not None
        return await self.answer(request)

    def client(self, credentials: Credentials | None = None, **settings: object) -> Client:
        """A client for this server without a rate limit unless `settings` say so."""
        connection = Connection(host=self.url) if credentials is None else Connection(self.url, credentials)
        return Client(connection, **{"qps": -1.0, **settings})  # type: ignore[arg-type]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A running server whose `answer` the test sets."""
    scripted = ScriptedServer()
    runner = web.ServerRunner(web.Server(scripted.handle), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert runner.addresses
    scripted.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield scripted
    await runner.cleanup()


async def until(claim: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Wait for a condition that other tasks bring about."""
    async with asyncio.timeout(seconds):
        while not claim():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Awaitable[None]]:
    """`await until(claim)`."""
    return until


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own proxy settings are not the tests' business."""
    for word in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(word, raising=False)
        monkeypatch.delenv(word.lower(), raising=False)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA for the whole run."""
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="session")
def issued(authority: Authority) -> tuple[Path, Path]:
    """A certificate and its key."""
    return authority.issue("somebody")
