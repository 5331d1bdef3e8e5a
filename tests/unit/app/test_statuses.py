"""Conditions and nominations of waiting pods: how many are written, which, in what order, and what is not."""

import asyncio
import json
from typing import Any, cast

import pytest

from podberth.app import reporting
from podberth.app.reporting import AT_ONCE, BESIDE_BINDINGS, LATELY_SECONDS, LONGEST_REST, REST, Statuses, UnderWay
from podberth.engine.stimuli import Stimulus, Unwritten
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.builders import pod

DECODER = Decoder()


def waiting(name: str, namespace: str = "default", version: str = "1") -> Pod:
    document = pod(name)
    document["metadata"].update(namespace=namespace, uid=f"{namespace}/{name}", resourceVersion=version)
    return DECODER.pod(wire.encode(document))


class Api:
    """Pods by path, with versions; patches wait while `shut`, and take as long as `takes` says."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.live: dict[str, dict[str, Any]] = {}
        self.patches: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.errors: list[Exception] = []
        self.most_at_once = self.at_once = 0
        self.answers: list[Stimulus] = []
        self.under_way = UnderWay()
        self.bindings: list[str] = []
        self.now = 0.0
        self.takes: list[float] = []
        self.rests: list[float] = []
        self.statuses = Statuses(
            cast(Client, self),
            self.answers.append,
            self.under_way,
            self.bindings,
            clock=lambda: self.now,
            sleep=self.rest,
        )

    async def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def add(self, each: Pod, version: str = "", **spec: Any) -> Pod:
        self.live[f"/api/v1/namespaces/{each.namespace}/pods/{each.name}"] = {
            "metadata": {"uid": each.uid, "resourceVersion": version or each.resource_version},
            "spec": spec,
        }
        return each

    async def patch(self, path: str, body: bytes, *_: Any, **__: Any) -> bytes:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        self.now += self.takes.pop(0) if self.takes else 0.0
        if self.errors:
            raise self.errors.pop(0)
        change = json.loads(body)
        live = self.live.get(path.removesuffix("/status"))
        if live is None:
            raise ApiError(404, "NotFound", "no such pod")
        if change["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        self.patches.append(change)
        self.paths.append(path)
        return b"{}"

    async def get(self, path: str, **_: Any) -> bytes:
        if path not in self.live:
            raise ApiError(404, "NotFound", "no such pod")
        return json.dumps(self.live[path]).encode()

    async def done(self) -> None:
        self.open.set()
        assert await self.under_way.drain(30.0) == 0

    def written(self) -> list[tuple[str, str | None, Any]]:
        """(pod, message, nomination) of each patch."""
        found = []
        for path, change in zip(self.paths, self.patches, strict=True):
            condition = change["status"].get("conditions")
            message = condition[0]["message"] if condition else None
            found.append((path.split("/")[-2], message, change["status"].get("nominatedNodeName", "-")))
        return found


async def test_a_storm_is_written_once_for_each_pod() -> None:
    """Ten pods say a hundred things each while the server is slow: what waits is bounded, the newest is written."""
    api = Api()
    api.open.clear()
    pods = [api.add(waiting(f"p{i}")) for i in range(AT_ONCE + 2)]
    for turn in range(100):
        for each in pods:
            api.statuses.want(each, ("Unschedulable", f"attempt {turn}"), None)
        await asyncio.sleep(0)
    assert len(api.statuses) == len(pods)
    await api.done()
    assert api.most_at_once == AT_ONCE
    by_pod: dict[str, list[str | None]] = {}
    for name, message, _ in api.written():
        by_pod.setdefault(name, []).append(message)
    assert all(len(said) <= 2 and said[-1] == "attempt 99" for said in by_pod.values())
    assert len(by_pod) == len(pods)


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storm of unschedulable pods of one tenant: beyond the bound they have to say it again; others don't."""
    monkeypatch.setattr(reporting, "MOST", 500)
    monkeypatch.setattr(reporting, "FEW", 20)
    api = Api()
    api.open.clear()
    for i in range(550):
        api.statuses.want(waiting(f"p{i}", "storm"), ("Unschedulable", "no"), None)
        if i == 0:
            await asyncio.sleep(0)
    assert len(api.statuses) <= 500
    assert all(isinstance(answer, Unwritten) for answer in api.answers)
    assert 0 < len(api.answers) <= 50
    assert api.statuses.dropped == len(api.answers)
    for i in range(20):
        api.statuses.want(waiting(f"q{i}", "quiet"), ("Unschedulable", "no"), None)
    assert len(api.answers) == api.statuses.dropped <= 50
    await api.under_way.drain(0.0)


async def test_conditions_step_back_for_bindings() -> None:
    """Few are written at a time while Bindings are under way, nominations aside; all places are used afterwards."""
    api = Api()
    api.open.clear()
    api.bindings.append("web-1")
    for i in range(3 * AT_ONCE):
        api.statuses.want(api.add(waiting(f"p{i}")), ("Unschedulable", "no"), None)
    await settled()
    assert api.at_once == BESIDE_BINDINGS
    api.statuses.want(api.add(waiting("preemptor")), ("Unschedulable", "no"), "n1")
    await settled()
    assert api.at_once == BESIDE_BINDINGS + 1
    api.bindings.clear()
    await api.done()
    assert api.most_at_once == AT_ONCE
    assert len(api.written()) == 3 * AT_ONCE + 1
    assert len(api.statuses) == 0


async def test_conditions_step_back_between_bindings() -> None:
    """A stream of pods that are bound has moments without a Binding under way: no storm of conditions fills them."""
    api = Api()
    api.open.clear()
    api.statuses.drop(waiting("web-1"))
    for i in range(3 * AT_ONCE):
        api.statuses.want(api.add(waiting(f"p{i}")), ("Unschedulable", "no"), None)
    await settled()
    assert api.at_once == BESIDE_BINDINGS
    api.now += LATELY_SECONDS
    await api.done()
    assert api.most_at_once == AT_ONCE
    assert len(api.written()) == 3 * AT_ONCE


async def test_places_of_conditions_rest_while_pods_are_bound() -> None:
    """The API server has other things to do for longer than each condition took; a nomination waits for none of it."""
    api = Api()
    api.takes = [0.05, 30.0]
    api.bindings.append("web-1")
    for i in range(2):
        api.statuses.want(api.add(waiting(f"p{i}")), ("Unschedulable", "no"), None)
        await settled()
    api.statuses.want(api.add(waiting("preemptor")), ("Unschedulable", "no"), "n1")
    await api.done()
    assert api.rests == pytest.approx([REST * 0.05, LONGEST_REST])
    assert [name for name, _, _ in api.written()] == ["p0", "p1", "preemptor"]


async def test_places_of_conditions_do_not_rest_without_bindings() -> None:
    """A storm of pods that fit nowhere has all places, all of the time."""
    api = Api()
    api.takes = [0.05] * 20
    for i in range(20):
        api.statuses.want(api.add(waiting(f"p{i}")), ("Unschedulable", "no"), None)
    await api.done()
    assert (api.rests, len(api.written())) == ([], 20)


async def settled() -> None:
    """Until every task has gone as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_namespaces_take_turns() -> None:
    """One tenant's storm does not keep another's condition waiting, and what frees a node goes before all."""
    api = Api()
    api.open.clear()
    for i in range(500):
        api.statuses.want(api.add(waiting(f"p{i}", "storm")), ("Unschedulable", "no"), None)
    await asyncio.sleep(0)
    api.statuses.want(api.add(waiting("quiet", "other")), ("Unschedulable", "no"), None)
    api.statuses.want(api.add(waiting("preemptor")), ("Unschedulable", "no"), "n1")
    await api.done()
    names = [name for name, _, _ in api.written()]
    assert names.index("preemptor") <= AT_ONCE
    assert names.index("quiet") <= AT_ONCE + 3


async def test_a_condition_and_a_nomination_become_one_write() -> None:
    """Whatever was not written yet of a pod is written together, the newest of each."""
    api = Api()
    api.open.clear()
    for i in range(AT_ONCE):
        api.statuses.want(api.add(waiting(f"busy{i}")), ("Unschedulable", "no"), None)
    await asyncio.sleep(0)
    each = api.add(waiting("p"))
    api.statuses.want(each, ("Unschedulable", "first"), None)
    api.statuses.want(each, None, "n1")
    api.statuses.want(each, ("Unschedulable", "second"), None)
    api.statuses.want(each, None, "")
    await api.done()
    assert [what for what in api.written() if what[0] == "p"] == [("p", "second", None)]


async def test_nothing_is_said_of_a_pod_that_is_being_bound() -> None:
    """What waits is dropped; what is under way names the version, so it can't land after the Binding."""
    api = Api()
    api.open.clear()
    pods = [api.add(waiting(f"p{i}")) for i in range(AT_ONCE + 1)]
    for each in pods:
        api.statuses.want(each, ("Unschedulable", "no"), None)
    await asyncio.sleep(0)
    for each in pods:
        api.statuses.drop(each)
        api.add(each, "2", nodeName="n1")
    assert len(api.statuses) == 0
    assert api.answers == [Unwritten(pods[-1].uid)]
    await api.done()
    assert api.patches == []
    assert api.answers == [Unwritten(pods[-1].uid)], "the others are bound: nothing has to be said again"


async def test_a_newer_version_is_no_obstacle() -> None:
    """Somebody labelled the pod: it is written on the version that is there, if the pod still waits."""
    api = Api()
    api.statuses.want(api.add(waiting("p"), "7"), ("Unschedulable", "no"), None)
    await api.done()
    (patch,) = api.patches
    assert patch["metadata"] == {"uid": "default/p", "resourceVersion": "7"}
    assert (api.statuses.written, api.answers) == (1, [])


@pytest.mark.parametrize(
    ("id", "errors"),
    [
        ("forbidden", [ApiError(403, "Forbidden", "no")]),
        ("unreachable", [Unreachable("gone away")]),
        ("refused, and not newer", [ApiError(409, "Conflict", "again")]),
        ("a fault", [KeyError("what")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_not_written(id: str, errors: list[Exception]) -> None:
    """The pod says it again at its next attempt, and the next write goes on."""
    api = Api()
    api.errors = errors
    api.statuses.want(api.add(waiting("p")), ("Unschedulable", "no"), None)
    await api.done()
    assert api.answers == [Unwritten("default/p")]
    api.statuses.want(api.add(waiting("q")), ("Unschedulable", "no"), None)
    await api.done()
    assert [name for name, _, _ in api.written()] == ["q"]


async def test_a_pod_that_is_always_newer_is_left_for_later() -> None:
    """Somebody writes it between any two requests of ours."""
    api = Api()
    each = api.add(waiting("p"))
    path, seen = "/api/v1/namespaces/default/pods/p", 0
    get = api.get

    async def and_changes(path: str, **how: Any) -> bytes:
        nonlocal seen
        found, seen = await get(path, **how), seen + 1
        api.live[path]["metadata"]["resourceVersion"] = f"9{seen}"
        return found

    api.live[path]["metadata"]["resourceVersion"] = "90"
    api.get = and_changes  # type: ignore[method-assign]
    api.statuses.want(each, ("Unschedulable", "no"), None)
    await api.done()
    assert (seen, api.answers, api.patches) == (reporting.TRIES, [Unwritten("default/p")], [])


@pytest.mark.parametrize("replaced", [False, True], ids=["gone", "replaced"])
async def test_who_is_gone_needs_no_condition(replaced: bool) -> None:
    """Nor has its successor of the same name to hear of it."""
    api = Api()
    each = waiting("p")
    if replaced:
        api.add(each, "9")
        api.live["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"] = "another"
    api.statuses.want(each, ("Unschedulable", "no"), None)
    await api.done()
    assert (api.patches, api.answers) == ([], [])
