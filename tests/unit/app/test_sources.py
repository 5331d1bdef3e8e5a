"""Sources are refreshed beside the loop: the first decision has a value, a failure leaves the last one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest
from structlog.testing import capture_logs

from podberth.apiserver import ApiServer
from podberth.app.scheduler import Scheduler
from podberth.app.sources import Sources
from podberth.engine.instructions import Bind, Failed, Instruction
from podberth.engine.stimuli import Refreshed, Stimulus
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.kit import NODE, SOURCES, Plugin, Reads, Source, Unschedulable
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.plugins.registry import IN_TREE
from podberth.service.metrics import read
from tests.builders import configuration, node, pod, profile

LOW = Unschedulable("the tide is low")


class Tide(Plugin):
    """Goes by what `says` answers, one answer after the other."""

    name = "Tide"
    depends_on = NODE | SOURCES
    says: asyncio.Queue[Any]
    timeout = 5.0

    def __init__(self, args: Any = None) -> None:
        self.tide = Source("tide", self._fetch, 0, interval=0.001, timeout=self.timeout)
        self.reads = Reads(sources=(self.tide,))

    async def _fetch(self) -> int:
        answer = await self.says.get()
        if isinstance(answer, BaseException):
            raise answer
        return int(answer)

    def filter(self, pod: Any, cluster: Any) -> Any:
        """No node, until something came."""
        return [(LOW, np.full(cluster.nodes.rows, self.tide.value == 0))]


Tide.__module__ = "outside"


class Shore:
    """Sources that run, and what the engine is told."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Stimulus] = asyncio.Queue()
        self.now = 0.0
        self.frameworks = self.profiles()
        self.sources = Sources(self.frameworks, self.told.put_nowait, lambda: self.now)

    def profiles(self) -> dict[str, Framework]:
        """The profile with the plugin, made anew."""
        made = configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Tide"}]}}))
        return build(decode(made), {**IN_TREE, "Tide": Tide})

    @property
    def tide(self) -> Source[int]:
        """The source of the profile of now."""
        return self.frameworks["berth"].profile.sources["Tide", "tide"]

    def metrics(self) -> dict[str, dict[Any, float]]:
        """Name → labels → value."""
        return {found.family.name: dict(found.values) for found in read(self.sources.instruments())}


@pytest.fixture
async def shore(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shore]:
    """A running one."""
    monkeypatch.setattr(Tide, "says", asyncio.Queue(), raising=False)
    made = Shore()
    running = asyncio.create_task(made.sources.run())
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_last_value_counts(shore: Shore) -> None:
    """A start waits for the first answer; the engine is told of other values only, the log of a failure once."""
    waiting = asyncio.create_task(shore.sources.first())
    await asyncio.sleep(0)
    assert not waiting.done()
    Tide.says.put_nowait(7)
    await waiting
    assert (shore.tide.value, await shore.told.get()) == (7, Refreshed("berth", "Tide"))
    shore.now = 5.0
    with capture_logs() as logs:
        for answer in (LookupError("low"), LookupError("low"), 7, 8):
            Tide.says.put_nowait(answer)
        assert await shore.told.get() == Refreshed("berth", "Tide")
    assert (shore.tide.value, shore.tide.age, shore.told.empty()) == (8, 0.0, True)
    failed, again = logs
    assert failed["event"] == "a source is not refreshed, its last value counts"
    assert failed["error"].startswith("low (test_sources.py:")
    assert failed["at"].partition(":")[0] == __file__
    assert again["event"] == "a source is refreshed again"
    shore.now = 9.0
    key = ("berth", "Tide", "tide")
    assert shore.metrics() == {
        "berth_plugin_source_age_seconds": {key: 4.0},
        "berth_plugin_source_refreshes_total": {(*key, "success"): 3.0, (*key, "error"): 2.0},
    }


async def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch, shore: Shore) -> None:
    """The default counts, and /readyz says so. A start waits no longer than that."""
    monkeypatch.setattr(Tide, "timeout", 0.01)
    shore.frameworks = shore.profiles()
    shore.sources.follow(shore.frameworks)
    await shore.sources.first()
    assert (shore.tide.value, shore.tide.age) == (0, None)
    assert shore.sources.notes() == {"sources": "source tide of plugin Tide: no answer within 10ms"}
    assert "berth_plugin_source_age_seconds" not in [name for name, values in shore.metrics().items() if values]


async def test_a_reloaded_configuration_goes_on(shore: Shore) -> None:
    """The plugin is another one, and has the last value at once; who was there before asks no more."""
    Tide.says.put_nowait(7)
    await shore.sources.first()
    shore.now, before = 3.0, shore.tide
    shore.frameworks = shore.profiles()
    shore.sources.follow(shore.frameworks)
    assert shore.tide is not before
    assert (shore.tide.value, shore.tide.age) == (7, 3.0)
    Tide.says.put_nowait(9)
    await shore.sources.first()
    assert (shore.tide.value, before.value) == (9, 7)


async def test_the_first_decision_has_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole scheduler: a pod that was there before is decided once, with the first answer; the next one waits."""
    monkeypatch.setattr(Tide, "says", asyncio.Queue(), raising=False)
    done: asyncio.Queue[Instruction] = asyncio.Queue()
    config = decode(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Tide"}]}})))
    frameworks = build(config, {**IN_TREE, "Tide": Tide})

    async def until(kind: type[Instruction]) -> Any:
        while not isinstance(found := await done.get(), kind):
            assert not isinstance(found, Failed)
        return found

    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:

        async def put(made: Any) -> None:
            path = "/api/v1/nodes" if made["kind"] == "Node" else "/api/v1/namespaces/default/pods"
            await client.create(path, msgspec.json.encode(made))

        for made in (node("n"), pod("early")):
            await put(made)
        scheduler = Scheduler(client, frameworks, config, observe=done.put_nowait)
        first = scheduler.sources.first

        async def listed() -> None:
            """All lists are in, and nothing is decided yet."""
            Tide.says.put_nowait(7)
            await first()

        monkeypatch.setattr(scheduler.sources, "first", listed)
        running = asyncio.create_task(scheduler.run())
        async with asyncio.timeout(60):
            assert (await until(Bind)).pod.name == "early"
            source = frameworks["berth"].profile.sources["Tide", "tide"]
            source.set(0)
            await put(pod("late"))
            assert "the tide is low" in (await until(Failed)).message
            Tide.says.put_nowait(8)
            assert (await until(Bind)).pod.name == "late"
        scheduler.stop()
        await running
