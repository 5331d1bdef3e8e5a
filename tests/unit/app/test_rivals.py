"""Two Berths by accident: one default for the Lease's namespace, and who serves the same pods under another is told."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from podberth.apiserver import ApiServer
from podberth.app.evictor import launch
from podberth.app.evictor.launch import Post
from podberth.app.lease import Rivals, candidacy, lease_annotations
from podberth.evictor.gates import Settings
from podberth.framework.config import decode
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.kubeconfig import IN_CLUSTER
from podberth.kube.lease import Elector, own_identity
from tests.builders import configuration, profile

NAMES = ("berth", "packed")
CONFIG = decode(configuration(*map(profile, NAMES)))


async def held(client: Client, namespace: str, name: str = "berth", config: Any = CONFIG) -> Elector:
    """A Lease that somebody holds."""
    elector = Elector(client, namespace, name, own_identity(), annotations=lease_annotations(config))
    await elector.acquire()
    return elector


@pytest.mark.parametrize(
    ("made", "source", "wanted", "place"),
    [
        (True, "a kubeconfig", "", "berth"),
        (False, "a kubeconfig", "", "default"),
        (True, IN_CLUSTER, "", "default"),
        (True, "a kubeconfig", "kube-system", "kube-system"),
    ],
    ids=["a shell, beside the chart", "a shell, no such namespace", "a pod", "named"],
)
async def test_where_the_lease_is(made: bool, source: str, wanted: str, place: str) -> None:
    """A scheduler in a shell is a candidate for the Lease of the chart, if the chart's namespace is there."""
    config = decode(configuration(leaderElection={"leaderElect": True, "resourceNamespace": wanted}))
    async with ApiServer() as server, Client(Connection(host=server.url, source=source), qps=-1) as client:
        if made:
            await client.create("/api/v1/namespaces", b'{"metadata": {"name": "berth"}}')
        elector = candidacy(client, config)
        assert elector is not None
        led = asyncio.Event()

        async def work() -> None:
            led.set()

        async with asyncio.timeout(60):
            await elector.run(work)
        assert elector.place == (place, "berth")
        found = msgspec.json.decode(await client.get("/apis/coordination.k8s.io/v1/leases"))
        assert [lease["metadata"]["namespace"] for lease in found["items"]] == [place]


@pytest.mark.parametrize("made", [True, False], ids=["beside the chart", "no such namespace"])
async def test_the_evictors_lease_is_there_too(monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    """One default for both: an evictor in a shell took the context's namespace, and led beside the chart's."""
    posts: list[Post] = []

    async def serve(*_: object, **told: Any) -> None:
        async with asyncio.timeout(60):
            await posts[0].elector.run(done)

    async def done() -> None:
        pass

    def post(lease: str, elector: Elector) -> Post:
        posts.append(Post(lease, elector))
        return posts[0]

    monkeypatch.setattr(launch, "until_told", serve)
    monkeypatch.setattr(launch, "Post", post)
    monkeypatch.setattr(launch, "give_memory_back", lambda _: None)  # of this process, which runs other tests
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        if made:
            await client.create("/api/v1/namespaces", b'{"metadata": {"name": "berth"}}')
        connection = Connection(host=server.url, source="a kubeconfig")
        await launch.keep_promises(connection, {}, Settings(), namespace="", lease="berth-evictor")
    assert posts[0].elector.place == ("berth" if made else "default", "berth-evictor")


async def test_who_serves_the_same_pods() -> None:
    """Not we ourselves, nor who serves others, nor who is gone; each is said once, and in the notes while it lives."""
    time, serves = [0.0], ["berth"]
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        await client.create("/api/v1/namespaces", b'{"metadata": {"name": "berth"}}')
        own = await held(client, "default")
        await held(client, "berth", "others", decode(configuration(profile("other"))))
        rivals = Rivals(client, own, lambda: serves, clock=lambda: time[0])
        with capture_logs() as logs:
            await rivals.look()
            assert rivals.notes() == {}
            chart = await held(client, "berth", config=decode(configuration(profile("packed"))))
            await rivals.look()
            assert rivals.notes() == {}
            serves.append("packed")  # a reload
            await rivals.look()
            await rivals.look()
        (line,) = logs
        assert (line["log_level"], line["lease"], line["serves"]) == ("warning", "berth/berth", ["packed"])
        assert rivals.notes() == {"rivals": "the holder of the Lease berth/berth serves packed, too"}
        time[0] = 1000.0
        await rivals.look()
        assert rivals.notes() == {}, "nobody has renewed it"
        await chart.release()
        await rivals.look()
        assert rivals.found == {}


async def test_leases_that_may_not_be_read() -> None:
    """That is said once."""
    with capture_logs() as logs:
        async with ApiServer(tokens={"t": "me"}) as server, Client(Connection(host=server.url), qps=-1) as client:
            rivals = Rivals(client, None, lambda: NAMES)
            await rivals.look()
            await rivals.look()
    (line,) = logs
    assert line["event"] == "it is not known if another scheduler serves the same pods"


@pytest.mark.parametrize(("most", "most_read"), [(15, 40), (100, 15)])
async def test_a_tenant_with_many_leases(monkeypatch: pytest.MonkeyPatch, most: int, most_read: int) -> None:
    """Whoever may write Leases can say anything in them: so much is read, told and logged, and no more."""
    monkeypatch.setattr("podberth.app.lease.MOST", most)
    monkeypatch.setattr("podberth.app.lease.MOST_READ", most_read)
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        for i in range(60):
            await held(client, "default", f"berth-{i:02}")
        rivals = Rivals(client, None, lambda: NAMES)
        with capture_logs() as logs:
            await rivals.look()
    assert (len(rivals.found), len(logs)) == (15, 10)


async def test_pods_that_somebody_else_binds_first() -> None:
    """A few may be the last ones of a leader before us. If it goes on, it is said once, and noted while it does."""
    taken, notes = [0], []
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        rivals = Rivals(client, None, lambda: NAMES, lambda: taken[0])
        with capture_logs() as logs:
            for more in (50, 0, 3, 4, 5, 2):
                taken[0] += more
                await rivals.look()
                notes.append(rivals.notes().get("rivals", ""))
    assert notes == ["", "", "", *(f"somebody else bound {n} pods first in the last 60 s" for n in (4, 5)), ""]
    (line,) = logs
    assert (line["log_level"], line["pods"], line["serves"]) == ("warning", 7, ["berth", "packed"])
    assert line["event"].startswith("pods are bound by somebody else first: another scheduler may serve")
