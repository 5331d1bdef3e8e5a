"""The story on a cluster that is not ours: in its own namespace, on what is there, and gone without a trace."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from podberth.apiserver.server import ApiServer
from podberth.apiserver.users import User
from podberth.kube.client import Client
from podberth.kube.connection import Connection, Credential, Credentials
from podberth.kube.errors import ApiError
from podberth.kube.resources import DEVICE_CLASSES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from podberth.testing.demo import acts
from podberth.testing.demo import run as running
from podberth.testing.demo.cast import HOSTNAME, ZONE, node, pod
from podberth.testing.demo.play import Play
from podberth.testing.demo.recording import Act, Recording, Step
from podberth.testing.demo.run import Options, elsewhere


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A server as a stranger would have it."""
    async with ApiServer() as server:
        yield server


def connection(server: ApiServer, token: str | None = None) -> Connection:
    """How to reach it."""
    credentials = Credentials(lambda: Credential(f"Bearer {token}" if token else None))
    credentials.renew()
    return Connection(host=server.url, credentials=credentials)


async def names(server: ApiServer) -> list[str]:
    """Everything the story could have left, by name."""
    async with Client(connection(server)) as client:
        found: list[str] = []
        for resource in (NAMESPACES, NODES, PODS, RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS):
            listed = msgspec.json.decode(await client.get(resource.path()))
            found += [f"{resource.kind} {item['metadata']['name']}" for item in listed["items"]]
        return found


async def furnish(server: ApiServer, *documents: tuple[str, dict[str, Any]]) -> None:
    """Put objects on the server: (path, document)."""
    async with Client(connection(server)) as client:
        for path, document in documents:
            await client.create(path, msgspec.json.encode(document))


class Audience:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[Act | Step] = []
        self.notices: list[str] = []

    def __call__(self, told: Act | Step, recording: Recording) -> None:
        self.heard.append(told)

    def step(self, kind: str, pod: str) -> Step:
        """The last step of a kind about a pod."""
        return [each for each in self.heard if isinstance(each, Step) and (each.kind, each.pod) == (kind, pod)][-1]


async def test_without_nodes_it_brings_its_own_and_takes_them_along(server: ApiServer) -> None:
    """The whole story, and the cluster is as before."""
    before = await names(server)
    audience = Audience()
    recording = await elsewhere(connection(server), audience, Options(), audience.notices.append)
    assert ("19 of 19", "pods bound") in [row[:2] for row in recording.summary]
    assert audience.step("bound", "report-0").node == "c3"
    assert await names(server) == before
    assert [notice.rpartition(" is ")[2] for notice in audience.notices] == ["gone."]


async def test_real_nodes_are_used_as_they_are(server: ApiServer) -> None:
    """Small pods on the nodes that are there; acts that would need more are left out by name."""
    rows = [node("n1", "x", 4, 8), node("n2", "y", 4, 8), node("n3", "y", 4, 8)]
    theirs = pod("theirs", "default-scheduler", cpu=1500, memory=64, nodeName="n1")
    await furnish(server, *((NODES.path(), row) for row in rows), (PODS.path("default"), theirs))
    before = await names(server)
    audience = Audience()
    recording = await elsewhere(connection(server), audience, Options(), audience.notices.append)
    left_out = [act.title for act in recording.acts if act.text.startswith("Left out on this cluster")]
    assert left_out == [
        "A GPU job that claims its device",
        "Policies decide which objects may be created, and which scheduler gets a pod",
        "A gang: all or nothing",
    ]
    assert sum(card.cpu for card in recording.pods.values() if card.mine) < 1000
    assert recording.steps[0].puts == {"default/theirs": "n1"}
    zones = {recording.nodes[audience.step("bound", f"db-{i}").node].zone for i in range(2)}
    assert zones == {"x", "y"}
    assert "needs 5 cpu" in dict((audience.step("pending", "report-0").explanation or pytest.fail()).nodes)["n1"]
    assert audience.step("bound", "report-0").node in ("n1", "n2", "n3")
    assert await names(server) == before


async def test_missing_labels_leave_acts_out(server: ApiServer) -> None:
    """One node without labels: no spreading, no neighbours, and the rest is told."""
    bare = node("n1", "x", 4, 8)
    del bare["metadata"]["labels"][ZONE], bare["metadata"]["labels"][HOSTNAME]
    await furnish(server, (NODES.path(), bare))
    audience = Audience()
    recording = await elsewhere(connection(server), audience, Options(), audience.notices.append)
    left_out = [act.text for act in recording.acts if act.text.startswith("Left out on this cluster")]
    assert len(left_out) == 5
    assert audience.step("bound", "migrate-0").node == "n1"


async def test_a_full_cluster_is_told_as_it_is(server: ApiServer) -> None:
    """When nothing fits, the story says so and still ends."""
    full = pod("full", "default-scheduler", cpu=4000, memory=64, nodeName="n1")
    await furnish(server, (NODES.path(), node("n1", "x", 4, 8)), (PODS.path("default"), full))
    audience = Audience()
    recording = await elsewhere(connection(server), audience, Options(), audience.notices.append)
    assert ("0 of 15", "pods bound") in [row[:2] for row in recording.summary]
    assert "Insufficient cpu" in audience.step("pending", "batch-0").lines[0]


async def broken(play: Play) -> None:
    """An act that fails."""
    raise RuntimeError("the lamp fell down")


async def endless(play: Play) -> None:
    """An act that waits for ever."""
    await asyncio.get_running_loop().create_future()


async def test_an_error_leaves_nothing_behind(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks in the middle comes out, after everything is deleted."""
    monkeypatch.setattr(running, "ACTS", (acts.opening, acts.database, broken))
    before = await names(server)
    audience = Audience()
    with pytest.raises(RuntimeError, match="lamp"):
        await elsewhere(connection(server), audience, Options(), audience.notices.append)
    assert audience.step("bound", "db-2")
    assert await names(server) == before


async def test_ctrl_c_leaves_nothing_behind(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled in the middle (what asyncio makes of Ctrl-C), it tidies up before it ends."""
    monkeypatch.setattr(running, "ACTS", (acts.opening, acts.database, endless))
    before = await names(server)
    placed = asyncio.Event()

    def hear(told: Act | Step, recording: Recording) -> None:
        if isinstance(told, Step) and told.pod == "db-2":
            placed.set()

    story = asyncio.create_task(elsewhere(connection(server), hear, Options(), lambda notice: None))
    await placed.wait()
    assert await names(server) != before
    story.cancel()
    with pytest.raises(asyncio.CancelledError):
        await story
    assert await names(server) == before


async def test_without_rights_it_says_so_at_once() -> None:
    """A refused namespace is the server's own error; nothing was made, so nothing is cleaned."""

    def only_reads(user: Any, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        return verb in ("get", "list", "watch")

    async with ApiServer(tokens={"t": User("reader")}, authorizer=only_reads) as server:
        notices: list[str] = []
        with pytest.raises(ApiError, match="cannot create resource"):
            await elsewhere(connection(server, "t"), Audience(), Options(), notices.append)
        assert notices == []


async def test_nobody_is_preempted_for_a_story(server: ApiServer) -> None:
    """Pods of lower priority on somebody's nodes keep their place, also when the story's pods find none."""
    low = {"metadata": {"name": "low"}, "value": -10}
    full = pod("full", "default-scheduler", cpu=4000, memory=64, nodeName="n1", priorityClassName="low")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await furnish(server, (classes, low), (NODES.path(), node("n1", "x", 4, 8)), (PODS.path("default"), full))
    audience = Audience()
    await elsewhere(connection(server), audience, Options(), audience.notices.append)
    assert "Pod full" in await names(server)
    assert audience.step("pending", "batch-0").lines == ["0/1 nodes are available: 1 Insufficient cpu."]
