"""`berth story` about a scheduler that runs on the embedded API server: each kind of entry, made to happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from structlog.testing import capture_logs

from podberth.apiserver import ApiServer, StatusError
from podberth.apiserver import server as embedded
from podberth.app.endpoints import PATH, Storyteller
from podberth.app.scheduler import Scheduler
from podberth.engine.story import Entry
from podberth.framework.binding import BindResult, Hold
from podberth.framework.config import decode
from podberth.framework.interface import Plugin
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import Elector, own_identity
from podberth.service.certificate import Certificate, self_signed
from podberth.service.serving import Address, Endpoints, Gate, Serving
from tests.builders import Object, configuration, node, pod, profile
from tests.extender import ExtenderServer, keep
from tests.registered import registry
from tests.storage import BOUND, claim, storage_class, using, volume
from tests.unit.cli.conftest import Berth, Outcome

PATIENCE = 60.0
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Pairs(Plugin):
    """Pods wait on permit until there are two of them; the one that is called lonely waits for a moment only."""

    name = "Pairs"

    def permit(self, assumed: Any, cluster: Any) -> Hold | None:
        if assumed.pod.name == "lonely":
            return Hold(0.05)
        others = list(assumed.waiting_pods)
        for other in others:
            other.allow(self.name)
        return None if others else Hold(600.0)


class Slow(Plugin):
    """Leaves the Binding to others, in a coroutine of its own."""

    name = "Slow"

    async def bind(self, assumed: Any) -> BindResult:
        return BindResult.SKIP


PLUGINS: dict[str, Any] = {plugin.name: plugin for plugin in (Pairs, Slow)}


class World:
    """A scheduler beside an API server, and how to ask for its stories."""

    def __init__(self, client: Client, scheduler: Scheduler, url: str, token: Path, berth: Berth) -> None:
        self.client = client
        self.scheduler = scheduler
        self._where = ("--server", url, "--token-file", str(token), "--insecure-skip-tls-verify")
        self._berth = berth

    async def ask(self, name: str, *arguments: str) -> Outcome:
        """The text of `berth story`."""
        return await asyncio.to_thread(self._berth, "story", f"default/{name}", *arguments, *self._where)

    async def told(self, name: str) -> Object:
        """The story of a pod as JSON. Its text says the same, line by line, and no time in it is wrong.

        The pod lives on meanwhile, and a long story loses entries of its middle: the text has those that it had before
        and after.
        """
        found, text = await self.ask(name, "-o", "json"), await self.ask(name)
        later = json.loads((await self.ask(name, "-o", "json")).out)["entries"]
        assert (found.code, text.code) == (0, 0), found.err + text.err
        story: Object = json.loads(found.out)
        lines = [line.strip() for line in text.out.splitlines()]
        first, now = (datetime.fromisoformat(time) for time in (story["entries"][0]["time"], story["toldAt"]))
        before = 0.0
        for entry in story["entries"]:
            assert set(entry) == {"kind", "seconds", "text", "details", "time"}
            assert before <= entry["seconds"] <= (now - first).total_seconds()
            after = (datetime.fromisoformat(entry["time"]) - first).total_seconds()
            assert after == pytest.approx(entry["seconds"], abs=0.001)
            before = entry["seconds"]
            if entry in later:
                assert f"{before:.1f} s  {entry['text']}" in lines
        return story

    async def until(self, name: str, *kinds: str) -> None:
        """Wait until all this has happened to a pod."""

        kept: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not set(kinds) <= set(kept):
                    await asyncio.sleep(0.005)
                    story = self.scheduler.engine.history.story_of("default", name)
                    kept = [] if story is None else [entry.kind for entry in story.entries]
        except TimeoutError:
            raise AssertionError(f"{name}: wanted {kinds}; there is\n{(await self.ask(name)).out}") from None


async def create(client: Client, path: str, *bodies: Object) -> None:
    """Create these objects, with their statuses; nodes lose the taint that a server gives to each new one."""
    for body in bodies:
        await client.create(path, msgspec.json.encode(body))
        if path == NODES:
            await client.patch(f"{path}/{body['metadata']['name']}", b'{"spec": {"taints": null}}')


@asynccontextmanager
async def running(
    server: ApiServer, config: Object, berth: Berth, home: Path, *, elected: bool = False
) -> AsyncIterator[World]:
    """A scheduler with its serving port."""

    async def admit(*_: Any) -> tuple[int, str]:
        return 200, "somebody"

    decoded, here = decode(config), Connection(host=server.url)
    certificate, key = self_signed()
    for name, content in (("tls.crt", certificate), ("tls.key", key), ("token", b"let-me-in")):
        (home / name).write_bytes(content)
    async with AsyncExitStack() as stack:
        client, own = [await stack.enter_async_context(Client(here, qps=-1)) for _ in range(2)]
        elector = Elector(own, "default", "berth", own_identity()) if elected else None
        scheduler = Scheduler(own, build(decoded, {**registry(), **PLUGINS}), decoded, elector=elector)
        files = Certificate(str(home / "tls.crt"), str(home / "tls.key"))
        lookups = {PATH: Storyteller(scheduler, elector).answer}
        serving = Serving(Address("127.0.0.1", 0, files), Gate(admit), Endpoints(lookups=lookups))
        serving.listen()
        schedules, serves = asyncio.create_task(scheduler.run()), asyncio.create_task(serving.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await scheduler.wait_synced()
            yield World(client, scheduler, f"https://127.0.0.1:{serving.port}", home / "token", berth)
        finally:
            scheduler.stop()
            await schedules
            serves.cancel()
            await asyncio.gather(serves, return_exceptions=True)


async def unlucky(asked: embedded.Connection) -> None:
    """The API server refuses the Binding of one pod."""
    if asked.info.name == "unlucky" and asked.info.subresource == "binding":
        raise StatusError(403, "Forbidden", "no Bindings on Sundays")


def of_class(name: str, pod: Object) -> Object:
    """The pod with this priority class."""
    pod["spec"]["priorityClassName"] = name
    return pod


async def test_every_kind_of_entry(berth: Berth, tmp_path: Path) -> None:
    """All that can happen to a pod happens to one, and is told in text and as JSON, with the time when it happened."""
    extender = ExtenderServer({"filter": keep("n1")})
    config = configuration(
        profile(),
        profile("pairs", plugins={"multiPoint": {"enabled": [{"name": "Pairs"}]}}),
        profile(
            "slow",
            plugins={"bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Slow"}, {"name": "DefaultBinder"}]}},
        ),
        extenders=[
            {"urlPrefix": extender.url, "filterVerb": "filter", "managedResources": [{"name": "example.com/dock"}]}
        ],
    )
    with capture_logs(), extender:
        async with ApiServer(fault=unlucky) as server, Client(Connection(host=server.url), qps=-1) as client:
            await create(client, NODES, node("n1", labels={"host": "n1"}, others={"example.com/dock": "4"}))
            await create(client, NODES, node("small", cpu="1", labels={"size": "small"}))
            for name, value in (("urgent", 1000), ("vital", 2000)):
                await create(client, PRIORITIES, {"metadata": {"name": name}, "value": value})
            await create(client, PODS, pod("web"))
            async with running(server, config, berth, tmp_path) as world:
                kinds = await _all_that_happens(world)
    assert kinds == {kind.__struct_config__.tag for kind in get_args(Entry)}


async def _all_that_happens(world: World) -> set[str]:
    """The kinds of entries that were told."""
    found: set[str] = set()

    async def happens(name: str, *kinds: str) -> Object:
        await world.until(name, *kinds)
        story = await world.told(name)
        said = {entry["kind"] for entry in story["entries"]}
        assert said.issuperset(kinds)
        found.update(said)
        return story

    client = world.client
    await happens("web", "queued", "assumed", "bound")
    await create(client, PODS, pod("gated", gates=["quota"]))
    await world.until("gated", "queued")
    await client.delete(f"{PODS}/gated")
    await happens("gated", "left")

    await create(client, PODS, pod("docked", others={"example.com/dock": "1"}))
    await happens("docked", "extendersAsked", "bound")
    await create(client, PODS, pod("slow", scheduler="slow"))
    await happens("slow", "pluginCalled", "bound")
    await create(client, PODS, pod("unlucky"))
    await happens("unlucky", "bindFailed", "reverted", "failed")

    await create(client, PODS, pod("first", scheduler="pairs"))
    story = await happens("first", "waitsOnPermit")
    assert (story["state"], story["entries"][-1]["details"]["seconds"]) == ("waiting on permit", {"Pairs": 600.0})
    await create(client, PODS, pod("second", scheduler="pairs"))
    await happens("first", "bindingPosted", "bound")
    await create(client, PODS, pod("lonely", scheduler="pairs"))
    await happens("lonely", "waitsOnPermit", "reverted", "failed")

    small = {"size": "small"}
    low = pod("low", "900m", select=small)
    low["metadata"]["finalizers"] = ["example.com/stays"]
    await create(client, PODS, low)
    await world.until("low", "bound")
    await create(client, PODS, of_class("urgent", pod("urgent", "900m", select=small)))
    await happens("urgent", "failed", "nominated")
    await happens("low", "chosenAsVictim")
    await create(client, PODS, of_class("vital", pod("vital", "900m", select=small)))
    await happens("urgent", "nominationCleared")

    await create(client, CLASSES, storage_class())
    await create(client, VOLUMES, volume("v", on=["host in n1"]))
    await client.patch(f"{VOLUMES}/v/status", b'{"status": {"phase": "Available"}}')
    await create(client, CLAIMS, claim("data"))
    await create(client, PODS, using(pod("stores"), "data"))
    await happens("stores", "preBindWrites", "preBindWaits")
    bound = {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": "v"}}
    await client.patch(f"{CLAIMS}/data", msgspec.json.encode(bound))
    await client.patch(f"{CLAIMS}/data/status", b'{"status": {"phase": "Bound"}}')
    await happens("stores", "bindingPosted", "bound")
    return found


async def test_another_leader_saw_the_first_part(berth: Berth, tmp_path: Path) -> None:
    """Told of a pod that is older than the term of who answers, if somebody led before; of no other."""
    places = [tmp_path / name for name in ("a", "b")]
    for place in places:
        place.mkdir()
    said = "Another leader saw the first part, and what it did is not told here."
    wide = pod("wide", "64")
    with capture_logs():
        async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
            await create(client, NODES, node("n1"))
            await create(client, PODS, wide)
            async with running(server, configuration(), berth, places[0], elected=True) as world:
                await world.until("wide", "failed")
                assert (await world.told("wide"))["leadsSince"] == ""
                assert said not in (await world.ask("wide")).out
            async with running(server, configuration(), berth, places[1], elected=True) as world:
                await world.until("wide", "failed")
                story = await world.told("wide")
                assert story["entries"][0]["time"] <= story["leadsSince"] <= story["toldAt"]
                since = story["leadsSince"][:19].replace("T", " ")
                assert f"This replica leads since {since} UTC. {said}\n" in (await world.ask("wide")).out
                await create(client, PODS, pod("young"))
                await world.until("young", "bound")
                assert (await world.told("young"))["leadsSince"] == ""
