"""Plugins' coroutines: each ends in one answer, in time, and a step that blocks can be seen."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from structlog.testing import capture_logs

from podberth.apiserver import ApiServer
from podberth.app import calls as calls_module
from podberth.app.calls import Calls, Sources
from podberth.app.scheduler import Scheduler
from podberth.engine.instructions import Bind, CancelCall, Failed, Instruction, RunCall
from podberth.engine.stimuli import CallEnded, CallFailed, Refreshed, Stimulus
from podberth.framework.binding import Call
from podberth.framework.config import SchedulerConfiguration, decode
from podberth.framework.guard import Guard, point_name
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.kit import NODE, SOURCES, Plugin, Reads, Source, Unschedulable
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.plugins.registry import IN_TREE
from podberth.service.metrics import read
from tests.builders import configuration, node, pod, profile

POD = Decoder().pod(wire.encode(pod("web")))


class Own:
    name = "Own"


def call(work: Callable[[], Any], seconds: float = 30.0) -> Call:
    guard = Guard()
    guard.uninterrupted = True  # as under `berth run`
    return Call(POD, "n1", Own(), "pre_bind", seconds, work, guard)


async def answer_of(asked: Call) -> Stimulus:
    """Run a call to its end."""
    answers: asyncio.Queue[Stimulus] = asyncio.Queue()
    Calls(answers.put_nowait).start(RunCall(POD, asked))
    async with asyncio.timeout(30):
        return await answers.get()


async def fine() -> str:
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    loop.call_soon(done.set_result, "done")
    return await done


async def broken() -> None:
    await asyncio.sleep(0)
    raise LookupError("no such shelf")


async def late() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError as error:
        raise ValueError("I will not go") from error


async def exits() -> None:
    await asyncio.sleep(0)
    raise SystemExit(7)


async def interrupts() -> None:
    raise KeyboardInterrupt


async def gives_up() -> None:
    """As when something that it awaits was cancelled by somebody else."""
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    done.cancel()
    await done


@pytest.mark.parametrize(
    ("work", "seconds", "message"),
    [
        (exits, 30.0, "it tried to end the process (7)"),
        (interrupts, 30.0, "it was interrupted"),
        (gives_up, 30.0, "it was cancelled"),
        (broken, 30.0, "no such shelf"),
        (late, 0.01, "no answer within 10ms"),
        (stubborn, 0.01, "I will not go"),
    ],
    ids=["exits", "interrupts", "awaits what was cancelled", "raises", "hangs", "raises when cancelled"],
)
async def test_failures(work: Any, seconds: float, message: str) -> None:
    """What a coroutine raises, or that it did not end, is the answer."""
    asked = call(work, seconds)
    assert await answer_of(asked) == CallFailed(asked.pod.uid, asked, message)


async def test_an_answer() -> None:
    """The result of the coroutine; it may wait for anything on the way."""
    asked = call(fine)
    assert await answer_of(asked) == CallEnded(asked.pod.uid, asked, "done")


async def test_cancelled() -> None:
    """The coroutine is told, and nobody is answered."""
    answers: list[Stimulus] = []
    calls = Calls(answers.append)
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asked = call(work)
    calls.start(RunCall(POD, asked))
    await asyncio.sleep(0)
    calls.cancel(CancelCall(POD, asked))
    await ended.wait()
    await calls.close()
    assert (answers, len(calls)) == ([], 0)


class GoesOn:
    """A coroutine that does not end when it is cancelled."""

    def __init__(self) -> None:
        self.ended: asyncio.Queue[str] = asyncio.Queue()

    async def get(self) -> None:
        """Wait for ever."""
        try:
            while True:
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        finally:
            self.ended.put_nowait("ended")


async def test_one_that_goes_on_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod is answered, once, and it is ended: the process would wait for it."""
    monkeypatch.setattr(calls_module, "CLOSE_SECONDS", 0.01)
    answers: asyncio.Queue[Stimulus] = asyncio.Queue()
    calls, works = Calls(answers.put_nowait), GoesOn()
    late, cancelled = call(works.get, 0.01), call(works.get)
    async with asyncio.timeout(20):
        calls.start(RunCall(POD, late))
        assert await answers.get() == CallFailed(POD.uid, late, "no answer within 10ms")
        await works.ended.get()
        calls.start(RunCall(POD, cancelled))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await calls.close()
        await works.ended.get()
    assert (answers.empty(), len(calls)) == (True, 0)


async def test_one_that_cleans_up_has_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it returns when its time is over counts, if that takes no longer than a moment."""

    async def cleans() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "as it was before"

    asked = call(cleans, 0.01)
    assert await answer_of(asked) == CallEnded(POD.uid, asked, "as it was before")


async def test_nothing_is_started_by_who_does_not_lead() -> None:
    """An extender or a plugin would write what another leader decides now."""
    answers: list[Stimulus] = []
    calls, asked = Calls(answers.append, lambda: False), call(fine)
    calls.start(RunCall(POD, asked))
    assert answers == [CallFailed(POD.uid, asked, "not started: we do not lead (any longer)")]
    assert len(calls) == 0


async def test_each_step_is_guarded() -> None:
    """While a step of the coroutine runs, the guard names its plugin; while it waits, it does not."""
    seen: list[Any] = []

    async def work() -> None:
        assert asked.guard.running is not None
        seen.append((asked.guard.running[0].name, point_name(asked.guard.running)))
        await asyncio.sleep(0)
        assert asked.guard.running is not None
        seen.append((asked.guard.running[0].name, point_name(asked.guard.running)))

    asked = call(work)
    assert await answer_of(asked) == CallEnded(asked.pod.uid, asked, None)
    assert seen == [("Own", "PreBind")] * 2
    assert asked.guard.running is None


LOW = Unschedulable("the tide is low")


class Tide(Plugin):
    """Goes by what `says` answers, one answer after the other."""

    name = "Tide"
    depends_on = NODE | SOURCES
    says: Any
    timeout = 5.0

    def __init__(self, args: Any = None) -> None:
        self.tide = Source("tide", self._fetch, 0, interval=0.001, timeout=self.timeout)
        self.reads = Reads(sources=(self.tide,))

    async def _fetch(self) -> Any:
        answer = await self.says.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

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
        self.asked = asyncio.Event()
        self.sources = Sources(self.frameworks, self.told.put_nowait, lambda: self.now, self.asked.set)

    def profiles(self) -> dict[str, Framework]:
        """The profile with the plugin, made anew."""
        made = configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Tide"}]}}))
        return build(decode(made), {**IN_TREE, "Tide": Tide})

    async def first(self) -> None:
        """Wait until each source was called."""
        while self.sources.awaited():
            self.asked.clear()
            await self.asked.wait()

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
    waiting = asyncio.create_task(shore.first())
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
    assert failed["error"].startswith("low (test_calls.py:")
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
    await shore.first()
    assert (shore.tide.value, shore.tide.age) == (0, None)
    assert shore.sources.notes() == {"sources": "source tide of plugin Tide: no answer within 10ms"}
    assert "berth_plugin_source_age_seconds" not in [name for name, values in shore.metrics().items() if values]


async def test_a_start_does_not_wait_for_one_that_goes_on(monkeypatch: pytest.MonkeyPatch, shore: Shore) -> None:
    """A source that does not end when its time is over counts as called, is ended, and called again later."""
    works = GoesOn()
    monkeypatch.setattr(calls_module, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(Tide, "says", works)
    monkeypatch.setattr(Tide, "timeout", 0.01)
    shore.sources.follow(shore.profiles())
    await shore.first()
    assert shore.sources.notes() == {"sources": "source tide of plugin Tide: no answer within 10ms"}
    async with asyncio.timeout(20):
        for _ in range(2):
            await works.ended.get()


async def test_a_value_that_can_not_be_compared(shore: Shore) -> None:
    """It counts as another one, as a table of a library does that has no truth value."""

    class Table(int):
        def __ne__(self, other: object) -> bool:
            raise TypeError("the truth value of a table is ambiguous")

    for answer in (Table(7), Table(8)):
        Tide.says.put_nowait(answer)
        async with asyncio.timeout(20):
            assert await shore.told.get() == Refreshed("berth", "Tide")


async def test_a_reloaded_configuration_goes_on(shore: Shore) -> None:
    """The plugin is another one, and has the last value at once; who was there before asks no more."""
    Tide.says.put_nowait(7)
    await shore.first()
    shore.now, before = 3.0, shore.tide
    shore.frameworks = shore.profiles()
    shore.sources.follow(shore.frameworks)
    assert shore.tide is not before
    assert (shore.tide.value, shore.tide.age) == (7, 3.0)
    Tide.says.put_nowait(9)
    await shore.first()
    assert (shore.tide.value, before.value) == (9, 7)


def of_the_tide() -> tuple[SchedulerConfiguration, Mapping[str, Framework]]:
    """A configuration with the plugin, and its profiles."""
    config = decode(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Tide"}]}})))
    return config, build(config, {**IN_TREE, "Tide": Tide})


async def listed(scheduler: Scheduler) -> None:
    """All lists are in; of those who are waited for, sources are left."""
    while scheduler.freshness.awaited():  # noqa: ASYNC110 - one turn of the loop at a time
        await asyncio.sleep(0)


@pytest.mark.parametrize("reloads", [False, True], ids=["", "reloaded meanwhile"])
async def test_the_first_decision_has_a_value(monkeypatch: pytest.MonkeyPatch, reloads: bool) -> None:
    """The whole scheduler: a pod that was there before is decided once, with the first answer; the next one waits."""
    monkeypatch.setattr(Tide, "says", asyncio.Queue(), raising=False)
    monkeypatch.setattr(Tide, "timeout", 60.0)
    done: asyncio.Queue[Instruction] = asyncio.Queue()
    config, frameworks = of_the_tide()

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
        running = asyncio.create_task(scheduler.run())
        async with asyncio.timeout(60):
            await listed(scheduler)
            if reloads:
                await asyncio.sleep(0)
                config, frameworks = of_the_tide()
                scheduler.reconfigure(config, frameworks)
            Tide.says.put_nowait(7)
            assert (await until(Bind)).pod.name == "early"
            source = frameworks["berth"].profile.sources["Tide", "tide"]
            source.set(0)
            await put(pod("late"))
            assert "the tide is low" in (await until(Failed)).message
            Tide.says.put_nowait(8)
            assert (await until(Bind)).pod.name == "late"
        scheduler.stop()
        await running


async def test_the_end_does_not_wait_for_a_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that is told to end while it waits for a source ends."""
    monkeypatch.setattr(Tide, "says", asyncio.Queue(), raising=False)
    monkeypatch.setattr(Tide, "timeout", 60.0)
    config, frameworks = of_the_tide()
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        scheduler = Scheduler(client, frameworks, config)
        running = asyncio.create_task(scheduler.run())
        async with asyncio.timeout(30):
            await listed(scheduler)
            await asyncio.sleep(0)
            scheduler.stop()
            await running


async def test_the_end_of_the_scheduler_ends_what_it_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it ends: who has lost the Lease may not have an extender bind."""
    config = decode(configuration())
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
        scheduler = Scheduler(client, build(config, IN_TREE), config)
        running = asyncio.create_task(scheduler.run())
        await scheduler.wait_synced()
        scheduler.calls.start(RunCall(POD, call(late)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(scheduler.calls) == 0
