"""kopf as a watcher, in this process, on the embedded API server: what it tells, what it never does, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from podberth.policy.operator.watch import Kopf, Watch

from podberth.apiserver import ApiServer
from podberth.kube.connection import Connection, Credential, Credentials
from podberth.policy.operator import watch as module
from podberth.policy.operator.replica import Operator
from podberth.policy.operator.settings import Settings
from tests.unit.policy.admission.conftest import CRD as PLAIN_CRD
from tests.unit.policy.admission.conftest import CRDS, POLICIES, Api, until
from tests.unit.policy.build import policy, rule

CRD = copy.deepcopy(PLAIN_CRD)
CRD["spec"]["versions"][0]["subresources"] = {"status": {}}
TEAM = POLICIES.format("team")
RULE = rule(set_labels={"team": "a"})


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """An embedded API server with two namespaces and no CRD."""
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        made = Api(server, session)
        for name in ("berth", "team"):
            assert (await made.create("/api/v1/namespaces", {"metadata": {"name": name}})).status == 201
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a CRD is tested, not waiting."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)


@contextlib.asynccontextmanager
async def watching(api: Api, *watched: str) -> AsyncIterator[tuple[Watch, list[str | None]]]:
    """A running watch, and what it told; ended afterwards."""
    told: list[str | None] = []
    async with api.client() as client:
        watch = Watch(client, Connection(host=api.server.url), watched, told.append)
        task = asyncio.create_task(watch.run())
        try:
            yield watch, told
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def put(api: Api, name: str) -> None:
    """Create a policy."""
    made = await api.create(TEAM, policy(name, RULE, namespace="team"))
    assert made.status == 201, made.body


@pytest.mark.parametrize("watched", [(), ("team",)])
async def test_tells_where(api: Api, watched: tuple[str, ...]) -> None:
    """A list is told as everywhere, each event by its namespace, and both prove that the watch is alive."""
    await api.create(CRDS, CRD)
    async with watching(api, *watched) as (watch, told):
        await until(lambda: None in told)
        await until(lambda: watch.pulse.unready() is None)
        await put(api, "one")
        await until(lambda: "team" in told)
        assert watch.pulse.dead() is None
        assert watch.runs == 1


async def test_writes_nothing(api: Api) -> None:
    """Neither annotations nor finalizers nor Events come from watching."""
    await api.create(CRDS, CRD)
    async with watching(api) as (_, told):
        await put(api, "one")
        await until(lambda: "team" in told)
        before = await api.get(f"{TEAM}/one")
        told.clear()
        await api.call("DELETE", f"{TEAM}/one")
        await until(lambda: "team" in told)
    assert before["metadata"].keys().isdisjoint({"annotations", "finalizers"})
    assert (await api.get("/apis/events.k8s.io/v1/namespaces/team/events"))["items"] == []


async def test_waits_for_the_crd(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the CRD it waits, alive, unready, and says so once; it goes on by itself, also after it was deleted."""
    async with watching(api) as (watch, told):
        await until(lambda: watch.pulse.absent)
        assert "CRD is missing" in str(watch.pulse.unready())
        assert watch.pulse.dead() is None
        await api.create(CRDS, CRD)
        await until(lambda: watch.pulse.unready() is None)
        await put(api, "one")
        await until(lambda: "team" in told)
        await api.call("DELETE", f"{CRDS}/metadatapolicies.podberth.dev")
        await until(lambda: watch.pulse.absent)
        told.clear()
        await api.create(CRDS, CRD)
        await put(api, "two")
        await until(lambda: "team" in told or None in told)
        await until(lambda: watch.pulse.unready() is None)
        assert watch.runs == 2
    assert capsys.readouterr().out.count("the CRD of MetadataPolicies is not there") == 2


async def test_ends_with_its_thread(api: Api) -> None:
    """Once it was cancelled no thread of kopf is left."""
    await api.create(CRDS, CRD)
    async with watching(api) as (_, told):
        await until(lambda: None in told)
        assert any(thread.name == "kopf" for thread in threading.enumerate())
    assert not any(thread.name == "kopf" for thread in threading.enumerate())


class Deaf(Kopf):
    """kopf that has taken its cancellation for something else, and goes on."""

    async def _operate(self) -> None:
        self.hear(None)
        await self._stop.wait()
        await asyncio.Event().wait()


async def test_ends_though_kopf_does_not(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """kopf that is told to stop, and does not, is cancelled: no thread of it is left."""
    monkeypatch.setattr(module, "END_SECONDS", 0.05)
    await api.create(CRDS, CRD)
    told: list[str | None] = []
    async with api.client() as client:
        watch = Watch(client, Connection(host=api.server.url), (), told.append)
        watch.kopf = Deaf
        task = asyncio.create_task(watch.run())
        await until(lambda: None in told)
        assert any(thread.name == "kopf" for thread in threading.enumerate())
        task.cancel()
        await asyncio.wait((task,))
    assert not any(thread.name == "kopf" for thread in threading.enumerate())


async def test_credentials_are_renewed(api: Api) -> None:
    """Requests of kopf carry our connection's credentials as they are at that moment."""
    issued: list[str] = []
    hours = itertools.count(0, 3600)

    def issue() -> Credential:
        issued.append(f"Bearer t{len(issued)}")
        return Credential(issued[-1], 60.0)

    await api.create(CRDS, CRD)
    told: list[str | None] = []
    async with api.client() as client:
        ours = Connection(api.server.url, Credentials(issue, lambda: float(next(hours))))
        watch = Watch(client, ours, (), told.append)
        task = asyncio.create_task(watch.run())
        await until(lambda: None in told)
        task.cancel()
        await asyncio.wait((task,))
    assert len(issued) > 1


async def test_whole_operator(api: Api) -> None:
    """Put together it leads, writes the status of a policy, answers probes, and gives its Lease back when it ends."""
    await api.create(CRDS, CRD)
    async with api.client() as client, api.client() as slow:
        operator = Operator(client, slow, Settings("berth", host="127.0.0.1", port=0, audit_seconds=0.0))
        running = asyncio.create_task(operator.run())
        await put(api, "one")

        async def written() -> bool:
            return "status" in await api.get(f"{TEAM}/one")

        await until(written)
        status: dict[str, Any] = (await api.get(f"{TEAM}/one"))["status"]
        assert [one["status"] for one in status["conditions"]] == ["True", "False", "True", "True", "True"]
        async with api.session.get(f"http://127.0.0.1:{operator.probe.port}/livez") as answer:
            assert answer.status == 200
            assert "leads" in await answer.text()
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()
    lease = await api.get("/apis/coordination.k8s.io/v1/namespaces/berth/leases/berth-operator")
    assert lease["spec"]["holderIdentity"] == ""
