"""The plugins through the engine itself: no cluster, no clock, plain API objects in and instructions out."""

from typing import Any

import msgspec
import pytest
from aiohttp import web
from berth_harbour.low_carbon import LowCarbon, LowCarbonArgs

from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Failed, RunCall
from podberth.engine.stimuli import CallEnded, Cycle, Put, Tick
from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.framework.status import Reject
from podberth.kit import testing
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry

Object = dict[str, Any]


def engine(plugin: str, **args: Any) -> Engine:
    """An engine with one of the plugins enabled, by its name alone: the package is installed."""
    profile = {
        "schedulerName": "berth",
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    kinds = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return Engine(build(decode({**kinds, "profiles": [profile]}), registry()))


def put(there: Engine, *objects: Object, now: float = 0.0) -> list[Any]:
    """Feed objects, then schedule what can be."""
    decoder = Decoder()
    done: list[Any] = []
    for made in objects:
        done += there.handle(Put(decoder.of_kind(made["kind"])(wire.encode(made))), now)
    while there.has_work:
        done += there.handle(Cycle(), now)
    return done


def node(name: str, cpu: str) -> Object:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name, "uid": name}, "status": {"allocatable": amounts}}


def ship(name: str, size: str = "2", convoy: str = "north") -> Object:
    labels = {"convoy": convoy, "convoy-size": size}
    resources = {"requests": {"cpu": "1"}}
    spec = {"schedulerName": "berth", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "sea", "uid": name, "labels": labels}, "spec": spec}


def bound(done: list[Any]) -> list[str]:
    return [one.pod.name for one in done if isinstance(one, Bind)]


def test_a_convoy_sails_together() -> None:
    """The first waits for the second; another convoy's ships do not count."""
    there = engine("Convoy")
    assert bound(put(there, node("n", "4"), ship("a"), ship("x", convoy="south"))) == []
    assert sorted(bound(put(there, ship("b")))) == ["a", "b"]


def test_a_convoy_that_does_not_fit_gives_its_room_back() -> None:
    """Two ships have room, the third has not: once the first has waited long enough, nobody waits any more."""
    there = engine("Convoy", patienceSeconds=30)
    put(there, node("n", "2"), ship("a", "3"))
    put(there, ship("b", "3"), ship("c", "3"), now=10.0)
    assert there.cluster.assumed() == 2
    failed = [one for one in there.handle(Tick(), 30.0) if isinstance(one, Failed)]
    assert sorted(one.pod.name for one in failed) == ["a", "b"]
    assert "rejected due to timeout after waiting 30s at plugin Convoy" in failed[0].message
    assert "1 convoy north lost a." in failed[1].message
    assert there.cluster.assumed() == 0


def test_a_ship_without_a_number_is_told() -> None:
    """Bad labels are the pod's problem: it is refused with the label's name."""
    (failed,) = [one for one in put(engine("Convoy"), node("n", "2"), ship("a", "two")) if isinstance(one, Failed)]
    assert failed.message == "0/1 nodes are available: 1 convoy without a number in the label convoy-size."


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            {"patienceSeconds": 0},
            "profiles[0].pluginConfig[0].args.patienceSeconds: Invalid value: 0.0: must be greater",
        ),
        ({"patience": 5}, "profiles[0].pluginConfig[0].args.patience: Unknown field"),
    ],
)
def test_arguments_are_checked(args: Object, says: str) -> None:
    """A wrong argument is refused before anything runs, with its path."""
    with pytest.raises(ConfigError) as refused:
        engine("Convoy", **args)
    assert says in str(refused.value)


@pytest.mark.parametrize(("status", "text", "goes"), [(200, "", True), (403, "the port is closed", False)])
async def test_asking_first(status: int, text: str, goes: bool) -> None:
    """The service decides; what it says is what the pod's condition says."""
    asked = []

    async def desk(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_get("/", desk)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    there = engine("AskFirst", url=site.name.replace(":0", f":{runner.addresses[0][1]}"))
    (run,) = [one for one in put(there, node("n", "2"), ship("a")) if isinstance(one, RunCall)]
    answer = await run.call.start()
    await runner.cleanup()
    assert asked == [{"pod": "sea/a", "node": "n"}]
    assert isinstance(answer, Reject) is not goes
    done = there.handle(CallEnded(run.call.pod.uid, run.call, answer), 0.0)
    assert bound(done) == (["a"] if goes else [])
    assert goes or "says no: the port is closed" in done[0].message


def in_zone(name: str, zone: str | None) -> Object:
    return testing.node(name, labels={} if zone is None else {"topology.kubernetes.io/zone": zone})


NODES = [in_zone("a", "north"), in_zone("b", "south"), in_zone("c", None)]


@pytest.mark.parametrize(("grams", "best"), [({"north": 400, "south": 20}, "b"), ({"north": 20, "south": 400}, "a")])
def test_the_cleanest_zone(grams: dict[str, int], best: str) -> None:
    """The last answer counts, for a zone that it does not name the worst of it; whatever else changes, too."""
    args = {"url": "http://127.0.0.1/"}
    proof = testing.prove(LowCarbon, nodes=NODES, pods=[testing.pod("web")], args=args, sources={"carbon": grams})
    assert proof.nodes == {"web": best}


async def test_what_the_service_says() -> None:
    """The answer's JSON is the value; anything else is an error, which the log tells."""
    said = ["[]", '{"north": 400}']

    async def desk(request: web.Request) -> web.Response:
        return web.Response(text=said.pop())

    app = web.Application()
    app.router.add_get("/", desk)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    source = LowCarbon(LowCarbonArgs(site.name.replace(":0", f":{runner.addresses[0][1]}"))).carbon
    assert await source.fetch() == {"north": 400}
    with pytest.raises(msgspec.ValidationError):
        await source.fetch()
    await runner.cleanup()
