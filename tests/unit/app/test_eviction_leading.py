"""Two evictors on the embedded API server: one leads and evicts, the other takes over when it ends."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from podberth.apiserver import ApiServer
from podberth.apiserver.rules.strategy import GIVEN
from podberth.app.evictor.launch import Post, lead
from podberth.cli.main import run
from podberth.evictor.gates import Settings
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.service.election import candidate
from tests.builders import Object
from tests.registered import registry
from tests.unit.evictor.conftest import OWNER, disk, keeping

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
        return sorted(event["regarding"]["name"] for event in await self.events(reason))

    async def events(self, reason: str) -> list[Object]:
        """Events of this reason."""
        found = await self.call("GET", EVENTS.format(reason))
        items: list[Object] = found["items"]
        return items


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


def post(client: Client) -> Post:
    """A candidate for the one Lease."""
    return Post("evictor", candidate(client, "default", "evictor"))


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
        tasks.append(asyncio.create_task(lead(one, frameworks, BRISK, post(one))))
        await until(held)
        first = await holder()
        tasks.append(asyncio.create_task(lead(other, frameworks, BRISK, post(other))))
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


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SPACED = Settings(
    grace=0.2,
    changed_share=1.0,
    retry=0.2,
    retry_most=0.2,
    owner_backoff=300.0,
    node_burst=1000,
    namespace_burst=1000,
    cluster_burst=1000,
)
DELAYED = 600.0
"""For so many seconds the budget lets nobody go: longer than the spacing."""


@asynccontextmanager
async def leading(client: Client) -> AsyncIterator[None]:
    """An evictor that leads while the block runs."""
    frameworks = build(default_configuration(), registry())
    task = asyncio.create_task(lead(client, frameworks, SPACED, post(client)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def allow(api: Api, disruptions: int) -> None:
    """What the disruption controller would write."""
    counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": disruptions}
    patch = {"status": {"observedGeneration": 1, **counts}}
    await api.call("PATCH", f"{BUDGETS}/web/status", patch, "application/merge-patch+json")


async def test_the_next_leader_keeps_the_spacing(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget delays an eviction for longer than the spacing; its successor waits all the same, and is said to.

    The Event, `evictor --dry-run` and `explain` name the same moment, and the pod goes no sooner. What is long ago and
    what is over goes by the server's clock, which is moved here: nobody has to be quick, nor to wait.
    """
    behind = DELAYED
    monkeypatch.setattr(GIVEN, "wall", lambda: time.time() - behind)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 0, "selector": {}}}
    await api.call("POST", BUDGETS, budget)
    await allow(api, 0)
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    await api.call("PATCH", "/api/v1/namespaces/default/pods/on-a/status", status, "application/merge-patch+json")

    async def gone() -> bool:
        return "on-a" not in await api.pods()

    with capture_logs():  # lines of the log would go to the output that is read here
        async with Client(Connection(host=api.server.url)) as client:
            async with leading(client):
                await api.relabel("a", "hdd")
                await _told(api, "Evicting")
                behind = 0.0  # from here on it was meant to go long ago
                await allow(api, 1)
                await until(gone)
                await _told(api, "Evicted")
            await api.call("DELETE", f"{BUDGETS}/web")
            await api.put(keeping("on-a", "a"))
            async with leading(client):
                await _told(api, "EvictionHeld")
                kubeconfig = str(api.server.kubeconfig(tmp_path / "kubeconfig"))
                where = ("--kubeconfig", kubeconfig, "-o", "json")
                await asyncio.to_thread(run, ["evictor", "--dry-run", *where])
                plan = json.loads(capsys.readouterr().out)
                await asyncio.to_thread(run, ["explain", "on-a", *where])
                explained = json.loads(capsys.readouterr().out)
            assert not await gone()
            behind = -SPACED.owner_backoff - 2.0  # and now the spacing is over
            async with leading(client):
                await until(gone)
    (planned,) = (one for one in plan["evictions"] if one["name"] == "on-a")
    assert planned["action"] == "waits"
    assert planned["notBefore"] == explained["promise"]["notBefore"]
    (held,) = await api.events("EvictionHeld")
    said = held["note"].rpartition("not evicted before ")[2]
    apart = datetime.fromisoformat(said) - datetime.fromisoformat(planned["notBefore"])
    assert abs(apart.total_seconds()) <= DELAYED / 10  # whole seconds, and the machine may be busy


async def _told(api: Api, reason: str) -> None:
    async def told() -> bool:
        return bool(await api.told(reason))

    await until(told)
