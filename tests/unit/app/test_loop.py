"""The loop itself: what is wrong with one pod does not stop it, whatever it is."""

import asyncio
from typing import Any, cast

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from podberth.app import scheduler as scheduler_module
from podberth.app.scheduler import LET_GO_BESIDE, LOOP_TURNS, Scheduler
from podberth.app.watch import Freshness
from podberth.cache.validate import validate
from podberth.engine.instructions import AskExtenders, Bind, Failed, Instruction
from podberth.engine.queue.queued import Place, QueuedPod
from podberth.engine.queue.scheduling_queue import AT_ONCE
from podberth.engine.stimuli import Bound, Cycle, ExtendersAnswered, Follows, Put, Stimulus
from podberth.framework.config import decode
from podberth.framework.extenders import NodesAnswer
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.machine import MACHINE, Machine
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import NATIVE
from tests.builders import configuration, node, pod
from tests.registered import registry
from tests.unit.engine.conftest import NO_LIMITS


class Idle:
    """A client that nobody calls."""


def costly(i: int) -> dict[str, Any]:
    """A pod with 300 terms of its own, each of which selects every pod."""
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": "zz", "operator": "NotIn", "values": [f"x{i}-{k}"]}]},
        }
        for k in range(300)
    ]
    made = pod(f"costly-{i}", namespace="mallory")
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return made


def busy_with_costly_pods(monkeypatch: pytest.MonkeyPatch, machine: Machine = MACHINE) -> Scheduler:
    """A scheduler whose instructions nobody carries out: 50 nodes, 100 placed pods, and 40 costly ones that wait."""
    monkeypatch.setattr(Freshness, "may_decide", True)
    config = decode(configuration())
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config, machine=machine)
    scheduler.carries = dict.fromkeys(scheduler.carries, lambda _instruction: None)
    decoder, engine = Decoder(limits=NO_LIMITS), scheduler.engine
    for i in range(50):
        engine.handle(Put(decoder.node(wire.encode(node(f"n{i}")))), 0.0)
    for i in range(100):
        engine.handle(Put(decoder.pod(wire.encode(pod(f"p{i}", labels={"app": f"a{i}"}, on=f"n{i % 50}")))), 0.0)
    for i in range(40):
        engine.handle(Put(decoder.pod(wire.encode(costly(i)))), 0.0)
    return scheduler


EXTENDER = {"urlPrefix": "http://e", "filterVerb": "filter"}


@pytest.mark.parametrize(
    ("where", "extenders"),
    [("decide_quickly", []), ("binding_plugins", []), ("binding_plugins", [EXTENDER])],
    ids=["in a decision", "after it", "after extenders answered"],
)
async def test_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch, where: str, extenders: list[Any]) -> None:
    """Its pod waits out a backoff, holds no room, and is told; the log has the traceback; the next pod is bound."""
    method: Any = getattr(Framework, where)

    def broken(self: Framework, subject: Any, *given: Any, **how: Any) -> Any:
        if subject.name == "bad":
            raise IndexError("row 7 of 3")
        return method(self, subject, *given, **how)

    monkeypatch.setattr(Framework, where, broken)
    config = decode(configuration(extenders=extenders))
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config)
    done: list[Instruction] = []
    scheduler.carries = dict.fromkeys(scheduler.carries, done.append)
    decoder = Decoder()
    scheduler.receive(Put(decoder.node(wire.encode(node("n")))))
    for name in ("bad", "good"):
        scheduler.receive(Put(decoder.pod(wire.encode(pod(name)))))
    with capture_logs() as logs:
        while scheduler.work(cycles=True):
            pass
        for ask in [one for one in done if isinstance(one, AskExtenders)]:
            scheduler.receive(ExtendersAnswered(ask.question, NodesAnswer(frozenset(["n"]), {}, {})))
        while scheduler.work(cycles=True):
            pass
    (failed,) = [one for one in done if isinstance(one, Failed)]
    assert (failed.pod.name, failed.reason) == ("bad", "SchedulerError")
    assert failed.message == "a bug of the scheduler, whose log says more"
    assert [(line["event"], line["exc_info"]) for line in logs] == [
        ("a scheduling cycle failed, this is a bug of Berth", True)
    ]
    engine = scheduler.engine
    assert [(queued.pod.name, queued.place) for queued in engine.queue] == [("bad", Place.BACKOFF)]
    assert engine.cluster.placement("default/good") is not None
    assert engine.cluster.assumed() == 1
    assert validate(engine.cluster) == []


@pytest.mark.parametrize(("stream", "later", "want"), [(60.0, 0.0001, 2), (0.0, 60.0, 1)], ids=["stream", "alone"])
async def test_news_in_a_stream_is_gathered(
    monkeypatch: pytest.MonkeyPatch, stream: float, later: float, want: int
) -> None:
    """Woken soon after falling asleep, it waits for what comes next; woken after a rest, it waits for nothing."""
    monkeypatch.setattr(scheduler_module, "STREAM_SECONDS", stream)
    config = decode(configuration())
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config)
    decoder = Decoder()
    first, second = (Put(decoder.node(wire.encode(node(name)))) for name in ("n1", "n2"))
    loop = asyncio.get_running_loop()
    loop.call_soon(scheduler.receive, first)
    follows = loop.call_later(later, scheduler.receive, second)
    await scheduler.wait(30.0)
    follows.cancel()
    assert scheduler.inbox == want


async def test_backoffs_end_while_there_is_no_end_of_work() -> None:
    """A queue that is never empty keeps nobody in backoff whose time is over."""
    config = decode(configuration())
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config)
    decoder, engine = Decoder(), scheduler.engine
    engine.handle(Put(decoder.pod(wire.encode(pod("web")))), 0.0)
    queued = engine.queue.pop(0.0)
    assert isinstance(queued, QueuedPod)
    engine.queue.requeue(queued, 0.0)
    for name in ("more", "and more"):
        engine.handle(Put(decoder.pod(wire.encode(pod(name)))), 0.0)
    places = [queued.place]
    scheduler.work(cycles=False)
    assert [*places, queued.place] == [Place.BACKOFF, Place.ACTIVE]


async def test_a_replica_that_stands_by_keeps_its_queue_current() -> None:
    """What is done some pods at a time goes on there too, though it schedules nothing."""
    config = decode(configuration())
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config)
    decoder, engine = Decoder(), scheduler.engine
    many = 3 * AT_ONCE
    for i in range(many):
        waiting = decoder.pod(wire.encode(pod(f"p{i}", labels={"app": "web"})))
        engine.handle(Put(waiting), 0.0)
        queued = engine.queue.pop(0.0)
        assert isinstance(queued, QueuedPod)
        engine.queue.add_unschedulable(queued, frozenset(("NodeResourcesFit",)), 0.0)
    scheduler.receive(Put(decoder.node(wire.encode(node("n")))))
    while scheduler.work(cycles=False):
        pass
    assert engine.queue.counts()[Place.UNSCHEDULABLE] == 0
    assert engine.queue.counts()[Place.ACTIVE] == many


async def test_others_have_their_turn_after_a_long_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs several turns of the loop, as bytes do until they are decoded, does not wait for attempts in each."""
    time = [0.0]
    scheduler = busy_with_costly_pods(monkeypatch, replace(MACHINE, monotonic=lambda: time[0]))
    handle, attempts = scheduler.engine.handle, [0]

    def takes_long(stimulus: Stimulus, now: float) -> list[Instruction]:
        attempts[0] += isinstance(stimulus, Cycle)
        time[0] += 0.02
        return handle(stimulus, now)

    monkeypatch.setattr(scheduler.engine, "handle", takes_long)
    loop = asyncio.create_task(scheduler.work_forever())
    tried: list[int] = []
    while scheduler.engine.has_work:
        before = attempts[0]
        for _ in range(LOOP_TURNS - 1):
            await asyncio.sleep(0)
        tried.append(attempts[0] - before)
    scheduler.stop()
    await loop
    assert sum(tried) >= 40
    assert max(tried) <= 1


async def test_a_large_gang_is_sent_in_parts() -> None:
    """It is decided at one go. A thousand Bindings at one go would be a thousand tasks that run in one turn."""
    config = decode(configuration())
    scheduler = Scheduler(
        cast(Client, Idle()), build(config, registry()), config, machine=replace(MACHINE, monotonic=lambda: 0.0)
    )
    posted: list[str] = []
    nothing: Any = dict.fromkeys(scheduler.carries, lambda _: None)
    scheduler.carries = nothing | {Bind: lambda bind: posted.append(bind.pod.uid)}
    decoder, engine = Decoder(), scheduler.engine

    count = 4 * LET_GO_BESIDE
    meta = {"name": "train", "namespace": "default", "uid": "train"}
    group = {"metadata": meta, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
    scheduler.receive(Follows(NATIVE, True))
    scheduler.receive(Put(decoder.of_kind("PodGroup")(wire.encode(group))))
    for i in range(10):
        scheduler.receive(Put(decoder.node(wire.encode(node(f"n{i}", pods="200")))))
    for i in range(count):
        member = pod(f"m{i}")
        member["spec"]["schedulingGroup"] = {"podGroupName": "train"}
        scheduler.receive(Put(decoder.pod(wire.encode(member))))
    most = known = 0
    while known < count + 1:
        while scheduler.work(cycles=True) or engine.next_tick() == 0.0:
            pass
        most = max(most, engine.in_flight)
        if not known:
            assert len(posted) == LET_GO_BESIDE
            scheduler.receive(Put(decoder.pod(wire.encode(pod("other")))))
        for uid in posted[known : known + 20]:
            scheduler.receive(Bound(uid))
        known = min(known + 20, len(posted))
    assert most <= LET_GO_BESIDE + 1
    assert posted.index("default/other") < count / 2, "others do not wait for all of the gang"
    assert len(set(posted)) == len(posted) == count + 1


async def test_every_instruction_is_carried_out() -> None:
    """Each kind that the engine knows has somebody who does it."""
    config = decode(configuration())
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config)

    def kinds(of: type[Instruction]) -> set[type[Instruction]]:
        return {of} if not of.__subclasses__() else {kind for each in of.__subclasses__() for kind in kinds(each)}

    assert set(scheduler.carries) == kinds(Instruction)
