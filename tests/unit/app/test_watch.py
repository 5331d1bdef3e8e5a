"""Nothing is decided on a cluster that can't be seen, and everybody is told why."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from podberth.app.scheduler import Scheduler
from podberth.app.watch import STALE_SECONDS, Freshness, Refusals, UnshownClaims
from podberth.cache.devices import Devices
from podberth.engine.instructions import Failed
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Gone, Put, Stimulus
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.kit import Cluster, Plugin, Pod, Reads, Rejections
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.lease import Elector
from podberth.kube.listwatch import Counts, KnownObjects
from podberth.kube.objects import Deleted
from podberth.kube.reflector import Reflector
from podberth.kube.resources import NAMESPACES, NODES, PODS, Resource
from podberth.model import wire
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID
from podberth.model.kinds import Decoder
from podberth.service.log import MOST_LINES
from tests.builders import configuration, node, pod, profile
from tests.registered import registry

from .test_pod_groups_followed import Followed


class Kind:
    """What a reflector says of itself."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.has_synced = True
        self.trusted = True
        self.astray = False
        self.refused: ApiError | None = None
        self.last_error: Unreachable | None = None
        self.silent: float | None = 1.0
        self.strayed = self.checked = 0

    def staleness(self) -> float | None:
        return self.silent

    def stray(self) -> None:
        self.strayed += 1

    def check_soon(self) -> None:
        self.checked += 1


class World:
    """Three kinds, of which two are needed."""

    def __init__(self) -> None:
        self.nodes, self.pods, self.others = Kind(NODES), Kind(PODS), Kind(NAMESPACES)
        self.woken = 0
        self.freshness = Freshness(self.wake)
        for kind in (self.nodes, self.pods, self.others):
            self.freshness.listen(cast(Reflector[Any], kind))

    def wake(self) -> None:
        self.woken += 1


FORBIDDEN = ApiError(403, "Forbidden", "no role")


@pytest.mark.parametrize(
    ("id", "change", "gap"),
    [
        ("forbidden", {"refused": FORBIDDEN}, "not allowed to follow Pods: 403 Forbidden: no role"),
        (
            "of a backup",
            {"astray": True, "trusted": False},
            "the API server's data is that of a backup, and its Pods are not listed yet",
        ),
        ("silent", {"silent": STALE_SECONDS + 1.0}, "nothing heard of Pods for 78s: the watch is silent"),
        (
            "not reached",
            {"silent": STALE_SECONDS + 1.0, "last_error": Unreachable("connection refused")},
            "nothing heard of Pods for 78s: connection refused",
        ),
        ("between two streams", {"trusted": False}, ""),
        ("silent for as long as a quiet kind is", {"silent": STALE_SECONDS}, None),
        ("before the first list", {"has_synced": False, "silent": 1e6}, None),
    ],
    ids=lambda value: value if isinstance(value, str) and "." not in value else "",
)
def test_what_stops_decisions(id: str, change: dict[str, Any], gap: str | None) -> None:
    """Of the kinds that every decision needs, and of no other. An empty gap is one of a moment: nobody is told."""
    world = World()
    vars(world.others).update(change)
    assert world.freshness.may_decide
    vars(world.pods).update(change)
    assert (world.freshness.may_decide, world.freshness.gap()) == (gap is None, gap or "")


def test_what_is_missing() -> None:
    """Kinds that have to be listed first are named with why they are not; so are forbidden ones that nobody needs."""
    world = World()
    assert (world.freshness.missing(), world.freshness.without()) == ("", "")
    for kind in (world.nodes, world.pods, world.others):
        kind.has_synced = False
    world.nodes.refused = world.others.refused = FORBIDDEN
    world.pods.last_error = Unreachable("connection refused")
    assert world.freshness.missing() == "Node (403 Forbidden: no role), Pod (connection refused)"
    assert world.freshness.without() == "Namespace (403 Forbidden: no role)"
    world.others.refused = ApiError(404, "NotFound", "no such kind")
    assert world.freshness.without() == ""
    world.others.refused = None
    assert world.freshness.missing().endswith("Namespace (the first list is under way)")


def test_it_is_said_once_and_work_goes_on_afterwards() -> None:
    """One line when it begins, whatever changes in the reason, and one when it is over."""
    world = World()
    with capture_logs() as logs:
        world.freshness.tell()
        world.nodes.refused = FORBIDDEN
        world.freshness.tell()
        world.nodes.refused, world.nodes.silent = None, 200.0
        world.freshness.tell()
        assert world.woken == 0
        world.nodes.silent = 0.0
        world.freshness.tell()
        world.freshness.tell()
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("error", "the cluster can't be seen, so nothing is decided"),
        ("info", "the cluster can be seen again"),
    ]
    assert world.woken == 1


def test_a_backup_is_every_kinds() -> None:
    """Whichever kind noticed it, the others are listed again too."""
    world = World()
    with capture_logs() as logs:
        world.freshness.restored(NAMESPACES)
    assert [kind.strayed for kind in (world.nodes, world.pods, world.others)] == [1, 1, 0]
    assert (logs[0]["log_level"], logs[0]["seen_at"]) == ("error", "Namespace")


def test_after_a_backup_all_kinds_are_listed_before_anything_is_decided() -> None:
    """The pods are unbound again, and their claims may have lost what they had. A kind that is refused is not waited
    for."""
    world = World()
    with capture_logs():
        world.freshness.restored(PODS)
    world.others.astray = True
    assert world.freshness.gap() == "the API server's data is that of a backup, and its Namespaces are not listed yet"
    world.others.refused = FORBIDDEN
    assert world.freshness.may_decide
    world.others.refused = None
    assert not world.freshness.may_decide
    world.freshness.trust()
    assert world.woken == 0
    world.others.astray = False
    world.freshness.trust()
    assert world.freshness.may_decide
    assert world.woken == 1


def test_work_goes_on_when_all_are_heard_again() -> None:
    """Not when the first of them is."""
    world = World()
    world.nodes.trusted = world.pods.trusted = False
    world.nodes.trusted = True
    world.freshness.trust()
    assert world.woken == 0
    world.pods.trusted = True
    world.freshness.trust()
    assert world.woken == 1


class Blind:
    """A view of the cluster that a test opens."""

    may_decide = False
    checked = 0

    def check_soon(self) -> None:
        self.checked += 1


async def test_the_loop_decides_nothing_meanwhile() -> None:
    """Changes are applied, and the pod waits; then it finds no room, which has nodes and pods compared."""
    config = decode(configuration())
    scheduler, blind = Scheduler(cast(Client, object()), build(config, registry()), config), Blind()
    scheduler.freshness = cast(Freshness, blind)
    failed = scheduler.carries[Failed]
    scheduler.carries = {kind: lambda _: None for kind in scheduler.carries} | {Failed: failed}
    decoder, engine = Decoder(), scheduler.engine
    for one in (decoder.node(wire.encode(node("n", cpu="1"))), decoder.pod(wire.encode(pod("web", cpu="9")))):
        scheduler.receive(Put(one))
    while scheduler.work(cycles=True):
        pass
    assert (engine.cluster.nodes.count, engine.queue.counts()[Place.ACTIVE], blind.checked) == (1, 1, 0)
    blind.may_decide = True
    while scheduler.work(cycles=True):
        pass
    assert (engine.queue.counts()[Place.ACTIVE], blind.checked) == (0, 1)


async def test_a_binding_that_is_undone() -> None:
    """A placed pod is listed without its node, in a later version: what is known of other kinds counts no more."""
    placed, waiting = pod("p", uid="p", on="n"), pod("p", uid="p")
    placed["metadata"]["resourceVersion"], waiting["metadata"]["resourceVersion"] = "5", "6"
    followed = Followed()
    await followed.lists(PODS, [placed])
    assert not any(reflector.astray for reflector in followed.scheduler.watch.reflectors)
    await followed.lists(PODS, [waiting])
    assert all(reflector.astray for reflector in followed.scheduler.watch.reflectors)
    assert followed.scheduler.freshness.restores == 1


def ended(phase: str, reason: str, scheduler: str = "berth") -> dict[str, Any]:
    document = pod("p", on="n1")
    document["spec"]["schedulerName"] = scheduler
    document["metadata"]["resourceVersion"] = "7"
    document["status"] = {"phase": phase, "reason": reason, "message": "Node didn't have enough resource: cpu"}
    return document


@pytest.mark.parametrize(
    ("id", "document", "want"),
    [
        ("no room", ended("Failed", "OutOfcpu"), {"OutOfcpu": 1}),
        ("too many pods", ended("Failed", "OutOfpods"), {"OutOfpods": 1}),
        ("a device", ended("Failed", "OutOfexample.com/gpu"), {"other": 1}),
        ("its program failed", ended("Failed", ""), {}),
        ("evicted", ended("Failed", "Evicted"), {}),
        ("ended well", ended("Succeeded", "OutOfcpu"), {}),
        ("another scheduler's", ended("Failed", "OutOfcpu", "other"), {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(id: str, document: dict[str, Any], want: dict[str, int]) -> None:
    """It is gone from the cache by the very event that counts it, so its room is free again."""
    decoder, refusals = Decoder(), Refusals(["berth"])
    known = KnownObjects(decoder.pod, Counts())
    known.on_deleted = refusals.see
    running = {**document, "status": {"phase": "Pending"}}
    running["metadata"] = {**document["metadata"], "resourceVersion": "6"}
    known.upsert(msgspec.Raw(msgspec.json.encode(running)))
    known.take()
    known.delete(msgspec.Raw(msgspec.json.encode(document)))
    (gone,) = known.take()
    assert isinstance(gone, Deleted)
    assert dict(refusals.counted) == want


def test_what_can_not_be_read_is_gone_all_the_same() -> None:
    """A status that is none costs nobody anything."""
    refusals = Refusals(["berth"])
    refusals.see(msgspec.Raw(b'{"metadata":{"name":"p"},"spec":[],"status":{"phase":"Failed"}}'))
    assert not refusals.counted


DEVICE = DeviceID("gpu.test", "n", "d0")


class Server:
    """The API server's answer to whoever asks for a claim."""

    def __init__(self, answer: Exception | None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def get(self, path: str) -> bytes:
        """GET."""
        self.asked.append(path)
        if self._answer is not None:
            raise self._answer
        return b"{}"


def devices() -> Devices:
    """A claim was made for a pod and written, and its watch has not shown it."""
    made = Devices()
    made.assume("\0p", Allocation((AllocatedDevice("r", DEVICE),), None), None)
    made.name("\0p", ("default", "p-extended-resources-x"))
    made.written("\0p", "7")
    return made


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (ApiError(404, "NotFound", "not found"), True),
        (ApiError(500, "InternalError", "no"), False),
        (Unreachable("no route"), False),
        (None, False),
    ],
)
def test_a_claim_that_is_not_shown_is_asked_for(answer: Exception | None, gone: bool) -> None:
    """Not the first time, as the watch may only be late; and only "not found" says that it is gone."""
    heard: list[Stimulus] = []
    there, server = devices(), Server(answer)
    looks = UnshownClaims(server, lambda: there, heard.append)  # type: ignore[arg-type]
    asyncio.run(looks.look())
    assert server.asked == []
    asyncio.run(looks.look())
    assert server.asked == ["/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/p-extended-resources-x"]
    assert heard == ([Gone("ResourceClaim", "default", "p-extended-resources-x", "")] if gone else [])
    for stimulus in heard:
        assert isinstance(stimulus, Gone)
        there.drop(stimulus.kind, stimulus.namespace, stimulus.name)
    assert there.allocated.is_taken(DEVICE) is not gone


async def test_lines_about_malformed_pods() -> None:
    """Pods that can't be read at all."""
    pods = [told(f"p{i}", namespace) for i, namespace in enumerate(["evil"] * 500 + ["team"] * 3)]
    for one in pods:
        one["spec"]["priority"] = "high"
    with capture_logs() as lines:
        await Followed().lists(PODS, pods)
    said = [line for line in lines if line["event"] == "an object can't be read and is left out"]
    assert Counter(line["key"][0] for line in said) == {"evil": MOST_LINES, "team": 3}


async def test_lines_about_parts_of_pods() -> None:
    """Pods of which parts can't be read."""
    pods = [told(f"p{i}", namespace) for i, namespace in enumerate(["evil"] * 500 + ["team"] * 3)]
    for one in pods:
        one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    with capture_logs() as lines:
        await Followed().lists(PODS, pods)
    said = [line for line in lines if line["event"] == "parts of a pod can't be read and are left out"]
    assert Counter(line["pod"].partition("/")[0] for line in said) == {"evil": MOST_LINES, "team": 3}


def told(name: str, namespace: str) -> dict[str, Any]:
    """A pod as a list shows it."""
    made: dict[str, Any] = pod(name, uid=name, namespace=namespace)
    made["metadata"]["resourceVersion"] = "5"
    return made


async def test_pods_beyond_a_limit_are_counted_by_limit() -> None:
    """Once each, waiting and placed; not those that wait for others. One Event for each that has a node."""
    waits, others, placed = told("waits", "team"), told("others", "team"), told("placed", "team")
    others["spec"]["schedulerName"] = "other"
    placed["spec"] |= {"nodeName": "n", "schedulerName": "other"}
    for one in (waits, others, placed):
        one["spec"]["tolerations"] = [{"key": f"k{i}"} for i in range(129)]
    world = Followed()
    said: list[tuple[str, str]] = []
    world.scheduler.writer.placed_too_large = lambda pod, profile: said.append((pod.name, profile))  # type: ignore[method-assign]
    for _ in range(2):
        await world.lists(PODS, [waits, others, placed, told("small", "team")])
    found = {("tolerations", "waiting"): 1.0, ("tolerations", "placed"): 1.0}
    assert world.scheduler.watch.too_large.read().values == found
    assert said == [("placed", "berth")]
    bound = {
        **waits,
        "metadata": {**waits["metadata"], "resourceVersion": "6"},
        "spec": {**waits["spec"], "nodeName": "n"},
    }
    await world.lists(PODS, [bound, others])
    assert world.scheduler.watch.too_large.read().values == {**found, ("tolerations", "placed"): 2.0}
    assert list(world.scheduler.watch.placed_too_large) == ["waits"]


async def test_extenders_get_an_object_that_was_made_anew() -> None:
    """Under its old name, while the watch did not look; and after a restore of etcd, where it may be the same one."""
    world = Followed(extenders=[{"urlPrefix": "http://e", "filterVerb": "filter"}])

    def kept() -> dict[str, str]:
        """The metadata that extenders would get."""
        found = world.scheduler.originals.get("Pod", "team", "web-0")
        return {} if found is None else msgspec.json.decode(found)["metadata"]

    before, anew = told("web-0", "team"), told("web-0", "team")
    anew["metadata"] |= {"uid": "another", "resourceVersion": "6"}
    for shown in (before, anew):
        await world.lists(PODS, [shown])
        assert kept()["uid"] == shown["metadata"]["uid"]
    world.reflector(PODS).stray()
    await world.lists(PODS, [anew])
    assert kept()["uid"] == "another"
    await world.lists(PODS, [])
    assert kept() == {}


async def test_extenders_never_get_an_older_version() -> None:
    """A watch that repeats events brings what was before, also of an object that was deleted since."""
    world = Followed(extenders=[{"urlPrefix": "http://e", "filterVerb": "filter"}])
    now = told("web-0", "team")

    def event(kind: str, version: str) -> dict[str, Any]:
        return {"type": kind, "object": {**now, "metadata": {**now["metadata"], "resourceVersion": version}}}

    def kept() -> str | None:
        found = world.scheduler.originals.get("Pod", "team", "web-0")
        return None if found is None else msgspec.json.decode(found)["metadata"]["resourceVersion"]

    world.server.events = [event("MODIFIED", "8"), event("MODIFIED", "4")]
    await world.lists(PODS, [now])
    assert kept() == "8"
    world.server.events = [event("DELETED", "9"), event("MODIFIED", "4")]
    await world.lists(PODS, [event("MODIFIED", "8")["object"]])
    assert kept() is None


class Elected:
    """An elector that wins at once."""

    identity = "us"
    leading = True

    @property
    def term(self) -> Elected:
        return self

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()


async def test_who_is_elected_tells_of_placed_pods_beyond_a_limit() -> None:
    """Who stands by says nothing, and the former leader may have been none of ours."""
    placed = told("placed", "team")
    placed["spec"] |= {"nodeName": "n", "tolerations": [{"key": f"k{i}"} for i in range(129)]}
    world = Followed(cast(Elector, Elected()))
    said: list[str] = []
    world.scheduler.writer.placed_too_large = lambda pod, profile: said.append(pod.name)  # type: ignore[method-assign]
    await world.lists(PODS, [placed])
    assert said == []
    await world.scheduler.lead_in_turn(asyncio.create_task(asyncio.sleep(0)), 0.0)
    assert said == ["placed"]


class OutOfService(Plugin):
    """Reads an annotation of nodes, and one of pods."""

    name = "OutOfService"
    reads = Reads(node_annotations=("example.com/out-of-service",), pod_annotations=("example.com/anywhere",))

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nothing: what is read is what matters here."""
        return ()


def test_what_a_new_plugin_reads_is_delivered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload that adds it has pods and nodes listed again, as they were decoded without their annotations."""
    again: list[Resource] = []
    monkeypatch.setattr(Reflector, "redeliver", lambda reflector: again.append(reflector.resource))
    followed = Followed()
    with_it = decode(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "OutOfService"}]}})))
    frameworks = build(with_it, {**registry(), "OutOfService": OutOfService})
    followed.scheduler.reconfigure(with_it, frameworks)
    assert again == [NODES, PODS]
    again.clear()
    followed.scheduler.reconfigure(with_it, frameworks)
    assert again == []
