"""Two evictors on the embedded API server: one leads and evicts, the other takes over when it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from scheduler.apiserver import ApiServer
from scheduler.controller.eviction.launch import lead
from scheduler.controller.eviction.vitals import Post
from scheduler.engine.eviction.settings import Settings
from scheduler.framework.config import default_configuration
from scheduler.framework.profiles import build
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.plugins.registry import registry
from tests.builders import Object
from tests.unit.eviction.conftest import OWNER, disk, keeping

EVENTS = "/apis/events.k8s.io/v1/events?fieldSelector=reason%3D{}"
BRISK = Settings(grace=0.2, changed_share=1.0)


class Api:
    """The tests' own view of the embedded API server."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def call(self, verb: str, path: str, body: Any = None, kind: str = "application/json") -> Object:
        """Any request that has to succeed."""
        headers = {"Content-Type": kind}
        async with self._session.request(verb, self.server.url + path, json=body, headers=headers) as response:
            answer: Object = await response.json()
            assert response.status < 300, answer
            return answer

    async def put(self, *objects: Object) -> None:
        """Create nodes and pods; a pod without a kubelet has to go without grace."""
        for document in objects:
            made = {key: value for key, value in document.items() if key != "status"}
            made["metadata"] = {k: v for k, v in made["metadata"].items() if k not in ("uid", "resourceVersion")}
            if made["kind"] == "Pod":
                made["spec"] = {**made["spec"], "terminationGracePeriodSeconds": 0}
                await self.call("POST", "/api/v1/namespaces/default/pods", made)
            else:
                await self.call("POST", "/api/v1/nodes", {**made, "status": document["status"]})

    async def relabel(self, node: str, kind: str) -> None:
        """Change the label that the promises read."""
        patch = {"metadata": {"labels": {"disk": kind}}}
        await self.call("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")

    async def pods(self) -> list[str]:
        """The names of the pods that are left."""
        found = await self.call("GET", "/api/v1/namespaces/default/pods")
        return sorted(item["metadata"]["name"] for item in found["items"])

    async def told(self, reason: str) -> list[str]:
        """Whom Events of this reason are about."""
        found = await self.call("GET", EVENTS.format(reason))
        return sorted(event["regarding"]["name"] for event in found["items"])


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """An embedded API server with three nodes and a pod on each of two."""
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        made = Api(server, session)
        other = {"ownerReferences": [{**OWNER, "apiVersion": "apps/v1", "uid": "other"}]}
        await made.put(disk("a"), disk("b"), disk("c"), keeping("on-a", "a"), keeping("on-b", "b", meta=other))
        yield made


async def until(claim: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait for a condition that others bring about."""
    async with asyncio.timeout(seconds):
        while True:
            if await claim():
                return
            await asyncio.sleep(0.02)


async def test_one_leads_at_a_time(api: Api) -> None:
    """The first evicts, alone; it gives the Lease back when it ends, and the second goes on."""
    frameworks = build(default_configuration(), registry())
    tasks: list[asyncio.Task[None]] = []

    async def holder() -> str:
        found = await api.call("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases")
        return "".join(lease["spec"].get("holderIdentity") or "" for lease in found["items"])

    async def held() -> bool:
        return bool(await holder())

    async with Client(Connection(host=api.server.url)) as one, Client(Connection(host=api.server.url)) as other:
        tasks.append(asyncio.create_task(lead(one, frameworks, BRISK, "default", Post("evictor"))))
        await until(held)
        first = await holder()
        tasks.append(asyncio.create_task(lead(other, frameworks, BRISK, "default", Post("evictor"))))
        await api.relabel("a", "hdd")

        async def only_b() -> bool:
            return await api.pods() == ["on-b"]

        await until(only_b)
        assert await holder() == first
        tasks[0].cancel()
        await asyncio.wait((tasks[0],))

        async def taken() -> bool:
            return await holder() not in ("", first)

        await until(taken)
        await api.relabel("b", "hdd")

        async def nobody() -> bool:
            return await api.pods() == []

        await until(nobody)
        tasks[1].cancel()
        await asyncio.wait((tasks[1],))
    assert await api.told("Evicting") == ["on-a", "on-b"]
    assert await api.told("PromiseBroken") == ["a", "b", "on-a", "on-b"]
