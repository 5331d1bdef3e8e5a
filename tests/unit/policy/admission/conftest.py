"""An embedded API server with the namespaces and the CRD that the admission server's tests need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from podberth.apiserver import ApiServer
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from tests.builders import definition

NAMESPACE = "berth"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/podberth.dev/v1alpha1/namespaces/{}/metadatapolicies"
CRD = definition("metadatapolicies", "podberth.dev", "v1alpha1", "MetadataPolicy")
"""Without rules of its own, as an older schema might be: what is stored is the evaluator's to refuse."""


@dataclass
class Answered:
    """What the API server said."""

    status: int
    body: dict[str, Any]
    warnings: list[str]


@dataclass
class Api:
    """The tests' own view of the embedded API server."""

    server: ApiServer
    session: aiohttp.ClientSession

    async def call(self, verb: str, path: str, body: Any = None, content_type: str = "application/json") -> Answered:
        """Any request."""
        headers = {"Content-Type": content_type}
        async with self.session.request(verb, self.server.url + path, json=body, headers=headers) as response:
            return Answered(response.status, await response.json(), response.headers.getall("Warning", []))

    async def create(self, path: str, body: Any) -> Answered:
        """POST."""
        return await self.call("POST", path, body)

    async def get(self, path: str) -> dict[str, Any]:
        """GET of something that is there."""
        found = await self.call("GET", path)
        assert found.status == 200, found.body
        return found.body

    def client(self) -> Client:
        """A client of the project's own for this server."""
        return Client(Connection(host=self.server.url), qps=-1.0)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """An embedded API server with our namespace, the namespace `team` and the CRD."""
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        made = Api(server, session)
        for name in (NAMESPACE, "team"):
            assert (await made.create("/api/v1/namespaces", {"metadata": {"name": name}})).status == 201
        assert (await made.create(CRDS, CRD)).status == 201
        yield made


async def until(claim: Callable[[], bool | Awaitable[bool]], *, seconds: float = 60.0) -> None:
    """Wait for a condition that other tasks bring about."""
    async with asyncio.timeout(seconds):
        while True:
            found = claim()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.005)
