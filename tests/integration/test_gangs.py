"""Pod groups on real processes: a gang starts whole or not at all, and kube-scheduler says the same."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from podberth.cli.main import run
from tests.builders import COSCHEDULING_CRD
from tests.controlplane import namespaces
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.admission import served
from tests.integration.berth import Harbour
from tests.integration.classes import CLASSES, make_class
from tests.integration.objects import node, pod, pods_path
from tests.integration.proxy import Proxy, behind

ROOT = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
THEIRS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
PART = 5
"""So many Bindings of a gang are sent before its scheduler is killed."""


class Halting(Proxy):
    """A proxy that passes so many Bindings on, and holds all others for ever: what is bound then is known."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._sent = 0

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/binding"):
            self._sent += 1
            if self._sent > PART:
                await asyncio.Event().wait()
        return await super()._pass(request)


@pytest.fixture
def halting(gated: ControlPlane) -> Iterator[Halting]:
    """Between a scheduler and the API server."""
    between = Halting(gated)
    with between:
        yield between


@pytest.fixture
def slots(gated: ControlPlane, add_nodes: Callable[..., None]) -> Callable[[int], None]:
    """`slots(8)`: add so many nodes, each of which has room for one member, and for some small pods."""

    def add(count: int) -> None:
        prefix = f"slot-{secrets.token_hex(3)}"
        add_nodes(gated, [node(f"{prefix}-{i}", cpu="1") for i in range(count)])

    return add


def group(api: Api, namespace: str, name: str, needed: int) -> None:
    """Create a gang."""
    spec = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    api.create(ROOT.format(namespace), {"metadata": {"name": name}, "spec": spec})


def members(name: str, count: int, scheduler: str) -> list[Object]:
    """Pods of a gang; each needs a node for itself."""
    reference = {"podGroupName": name}
    return [pod(f"{name}-{i}", scheduler, cpu="600m", memory="10Mi", schedulingGroup=reference) for i in range(count)]


def bound(api: Api, namespace: str, prefix: str = "") -> list[str]:
    """The names of bound pods that begin so."""
    pods = api.list(pods_path(namespace), fieldSelector="spec.nodeName!=")
    return sorted(each["metadata"]["name"] for each in pods if each["metadata"]["name"].startswith(prefix))


def condition(api: Api, namespace: str, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a group's PodGroupInitiallyScheduled."""
    found = api.get(f"{ROOT.format(namespace)}/{name}")["status"].get("conditions", [])
    for one in found:
        if one["type"] == "PodGroupInitiallyScheduled":
            return one["status"], one["reason"], one["message"]
    return "", "", ""


def wait_said(api: Api, namespace: str, name: str, status: str) -> tuple[str, str, str]:
    """Wait until a group's condition has this status; the condition."""

    def said() -> tuple[str, str, str] | None:
        found = condition(api, namespace, name)
        return found if found[0] == status else None

    return wait_for(f"{name} to be {status}", said, checks.BOUND, 0.2)


def test_a_gang_waits_for_room_for_all_of_it(
    gated: ControlPlane, space: str, slots: Callable[[int], None], harbour: Harbour
) -> None:
    """Of 8 that have 6 places none is bound, and plain pods beside them are; with two places more, all 8 are."""
    api = gated.api
    slots(6)
    berth = harbour.berth(gated)
    group(api, space, "train", 8)
    api.create_many(pods_path(space), members("train", 8, berth.scheduler_name))
    _, reason, message = wait_said(api, space, "train", "False")
    assert reason == "Unschedulable"
    assert message.startswith("minCount (8) cannot be satisfied: 6 scheduled, ")
    plain = [pod(f"plain-{i}", berth.scheduler_name, cpu="50m", memory="10Mi") for i in range(6)]
    api.create_many(pods_path(space), plain)
    checks.wait_bound(api, space, 6)
    assert bound(api, space) == sorted(each["metadata"]["name"] for each in plain)
    slots(2)
    wait_said(api, space, "train", "True")
    wait_for("all members", lambda: len(bound(api, space, "train-")) == 8, checks.BOUND, 0.2)
    checks.bound_once_each(gated, space, api.list(pods_path(space)))
    assert checks.overfull(api) == []
    berth.end()


def test_a_gang_of_a_live_cluster_is_explained(
    gated: ControlPlane,
    space: str,
    slots: Callable[[int], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its group and pods are read from the API server; the change that is offered for the group makes it start."""
    api = gated.api
    slots(3)
    group(api, space, "train", 4)
    api.create_many(pods_path(space), members("train", 4, "berth"))
    asked = ["explain", "podgroup/train", "-n", space, "--kubeconfig", str(gated.kubeconfig(tmp_path / "kubeconfig"))]

    def explained() -> tuple[int, Object]:
        code = run([*asked, "-o", "json"])
        answer: Object = json.loads(capsys.readouterr().out)
        return code, answer

    code, answer = explained()
    assert (code, answer["outcome"], answer["fits"]) == (1, "unschedulable", 3)
    assert answer["stopped"]["pod"].startswith(f"{space}/train-")
    (offered,) = [one for one in answer["remedies"] if one["text"].startswith("start with 3 pods together")]
    (command,) = offered["commands"]
    patch = json.loads(shlex.split(command)[-1])
    api.patch(f"{ROOT.format(space)}/train", patch)
    assert explained()[0] == 0


def test_of_three_gangs_with_room_for_one_exactly_one_runs(
    gated: ControlPlane, space: str, slots: Callable[[int], None], harbour: Harbour
) -> None:
    """Their pods come mixed; two gangs wait whole."""
    api = gated.api
    slots(8)
    berth = harbour.berth(gated)
    gangs = ("red", "green", "blue")
    for name in gangs:
        group(api, space, name, 6)
    each = [members(name, 6, berth.scheduler_name) for name in gangs]
    api.create_many(pods_path(space), [one for several in zip(*each, strict=True) for one in several])

    def said() -> dict[str, str] | None:
        """A gang that was told to wait first may start later, and its condition is written after its Bindings."""
        found = {name: condition(api, space, name)[0] for name in gangs}
        return found if sorted(found.values()) == ["False", "False", "True"] else None

    statuses = wait_for("one gang to run", said, checks.BOUND, 0.2)
    (runs,) = [name for name in gangs if statuses[name] == "True"]
    wait_for("a whole gang", lambda: len(bound(api, space)) == 6, checks.BOUND, 0.2)
    assert bound(api, space) == [f"{runs}-{i}" for i in range(6)]
    assert checks.overfull(api) == []
    berth.end()


def killed_in_the_middle(proxy: Halting, cluster: ControlPlane, space: str, count: int, harbour: Harbour) -> str:
    """A scheduler that was killed when a part of a gang of so many pods was bound; its schedulerName."""
    name = f"berth-{secrets.token_hex(4)}"
    berth = behind(proxy, harbour, name)
    group(cluster.api, space, "train", count)
    cluster.api.create_many(pods_path(space), members("train", count, name))
    wait_for("a part of the gang", lambda: len(bound(cluster.api, space)) == PART, checks.BOUND)
    berth.kill()
    return name


def test_killed_between_the_first_and_the_last_binding(
    gated: ControlPlane, space: str, slots: Callable[[int], None], harbour: Harbour, halting: Halting
) -> None:
    """SIGKILL when a part of a gang is bound: the next Berth completes it, and binds nothing twice."""
    api = gated.api
    slots(16)
    name = killed_in_the_middle(halting, gated, space, 16, harbour)
    assert len(bound(api, space)) == PART
    again = harbour.berth(gated, name)
    wait_for("the whole gang", lambda: len(bound(api, space)) == 16, checks.BOUND, 0.2)
    checks.bound_once_each(gated, space, api.list(pods_path(space)))
    wait_said(api, space, "train", "True")
    again.end()


def test_its_room_is_taken_after_a_kill(
    gated: ControlPlane, space: str, slots: Callable[[int], None], harbour: Harbour, halting: Halting
) -> None:
    """SIGKILL in the middle, and another pod takes a place that the rest needs.

    The next Berth binds no more of the gang, says so, holds nothing, and completes the gang once there is room again.
    """
    api = gated.api
    slots(12)
    name = killed_in_the_middle(halting, gated, space, 12, harbour)
    part = bound(api, space)
    used = {one["spec"]["nodeName"] for one in api.list(pods_path(space), fieldSelector="spec.nodeName!=")}
    free = next(each["metadata"]["name"] for each in api.list("/api/v1/nodes") if each["metadata"]["name"] not in used)
    api.create(pods_path(space), pod("thief", "nobody", cpu="600m", memory="10Mi", nodeName=free))
    again = harbour.berth(gated, name)
    wait_for("the group to be told", lambda: _why(api, space, part), checks.BOUND, 0.2)
    assert bound(api, space, "train-") == part, "no more of it is bound as long as it does not fit"
    assert checks.overfull(api) == []
    slots(1)
    wait_for("the whole gang", lambda: len(bound(api, space, "train-")) == 12, checks.BOUND, 0.2)
    checks.bound_once_each(gated, space, [one for one in api.list(pods_path(space)) if _mine(one)])
    assert checks.overfull(api) == []
    again.end()


def _mine(one: Object) -> bool:
    return str(one["metadata"]["name"]).startswith("train-")


def _why(api: Api, namespace: str, part: list[str]) -> bool:
    """Whether each pod of the gang that has no node was told that the gang does not fit."""
    waiting = [one for one in api.list(pods_path(namespace)) if _mine(one) and one["metadata"]["name"] not in part]
    said = [
        each["message"]
        for one in waiting
        for each in one["status"].get("conditions", [])
        if each["type"] == "PodScheduled"
    ]
    return len(said) == len(waiting) and all("minCount (12) cannot be satisfied" in one for one in said[:1])


def test_a_gang_of_scheduler_plugins(
    gated: ControlPlane, space: str, slots: Callable[[int], None], harbour: Harbour
) -> None:
    """The label and minMember do the same, on a cluster that has the custom resource; its phase is written."""
    api = gated.api
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(definitions, COSCHEDULING_CRD)
    try:
        wait_for("the kind", lambda: served(api, THEIRS.format(space)), checks.BOUND, 0.2)
        slots(2)
        berth = harbour.berth(gated)
        body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        api.create(THEIRS.format(space), {**body, "metadata": {"name": "train"}, "spec": {"minMember": 3}})
        pods = [
            pod(f"train-{i}", berth.scheduler_name, cpu="600m", memory="10Mi", labels={LABEL: "train"})
            for i in range(3)
        ]
        api.create_many(pods_path(space), pods)
        wait_for("the phase Pending", lambda: _phase(api, space) == "Pending", checks.BOUND, 0.2)
        assert bound(api, space) == []
        slots(1)
        wait_for("the whole gang", lambda: len(bound(api, space)) == 3, checks.BOUND, 0.2)
        wait_for("the phase Scheduling", lambda: _phase(api, space) == "Scheduling", checks.BOUND, 0.2)
        berth.end()
    finally:
        api.delete(f"{definitions}/podgroups.scheduling.x-k8s.io")


@pytest.fixture
def classes(gated: ControlPlane) -> Iterator[tuple[str, str]]:
    """The names of two priority classes, the lower one first."""
    names = [f"{which}-{secrets.token_hex(3)}" for which in ("low", "high")]
    for value, name in enumerate(names):
        make_class(gated.api, name, 1000 * (value + 1))
    yield names[0], names[1]
    for name in names:
        gated.api.delete(f"{CLASSES}/{name}")


@pytest.mark.parametrize("who", ["berth", "kube-scheduler"])
def test_a_gang_of_higher_priority_pushes_another_out_as_a_whole(
    gated: ControlPlane,
    space: str,
    slots: Callable[[int], None],
    classes: tuple[str, str],
    harbour: Harbour,
    who: str,
) -> None:
    """Though two of its three places are enough. Plain pods of equal priority stay."""
    api, (low, high) = gated.api, classes
    slots(4)
    if who == "berth":
        berth = harbour.berth(gated)
        scheduler = berth.scheduler_name
    else:
        scheduler = f"kube-{secrets.token_hex(4)}"
        harbour.started.append(gated.start_kube_scheduler(scheduler_name=scheduler, gates=["GenericWorkload"]))
    api.create(pods_path(space), pod("plain", scheduler, cpu="600m", memory="10Mi", priorityClassName=high))
    checks.wait_bound(api, space, 1)
    for name, needed, of in (("old", 3, low), ("new", 2, high)):
        mode: Object = {"disruptionMode": {"all": {}}, "priorityClassName": of}
        spec: Object = {"schedulingPolicy": {"gang": {"minCount": needed}}, **mode}
        api.create(ROOT.format(space), {"metadata": {"name": name}, "spec": spec})
        pods = members(name, needed, scheduler)
        for one in pods:
            one["spec"]["priorityClassName"] = of
        api.create_many(pods_path(space), pods)
        wait_for(f"gang {name}", lambda: len(bound(api, space, name)) == needed, checks.BOUND, 0.2)  # noqa: B023
    # Two places are enough for the new gang: it may start a moment before the third victim is gone.
    wait_for("the old gang to be gone", lambda: bound(api, space) == ["new-0", "new-1", "plain"], checks.BOUND, 0.2)
    uid = api.get(f"{ROOT.format(space)}/new")["metadata"]["uid"]
    events = f"/apis/events.k8s.io/v1/namespaces/{space}/events"

    def preempted() -> dict[str, str]:
        return {one["regarding"]["name"]: one["note"] for one in api.list(events) if one["reason"] == "Preempted"}

    wait_for("an event for each victim", lambda: len(preempted()) == 3, checks.BOUND, 0.2)
    assert preempted() == {f"old-{i}": f"Preempted by podgroup {uid} on node cluster" for i in range(3)}
    assert wait_said(api, space, "new", "True") == ("True", "Scheduled", "")
    assert checks.overfull(api) == []
    if who == "berth":
        berth.end()


def _phase(api: Api, namespace: str) -> str:
    phase: str = api.get(f"{THEIRS.format(namespace)}/train").get("status", {}).get("phase", "")
    return phase


OUTCOMES = {"whole": (3, 3, 3), "part": (2, 7, 5), "none": (6, 7, 0)}
"""Gang → how many of its pods it needs, how many it has, and how many are bound on five nodes."""
KUBE_TRIALS = 3


def test_kube_scheduler_says_the_same(gated: ControlPlane, add_nodes: Callable[..., None], harbour: Harbour) -> None:
    """One after the other, each with equal nodes of its own: a gang that fits, one in part, one that does not.

    On the same nodes, a gang would be tried while its scheduler may not have seen yet that the pods before it are gone.
    What is told of it then depends on when that is, and kube-scheduler may leave pods of it asleep for five minutes.
    It was also seen to leave a gang alone whose nodes nobody had been on, so it is given a second and a third one.
    """
    api = gated.api
    kube = f"kube-{secrets.token_hex(4)}"
    harbour.started.append(gated.start_kube_scheduler(scheduler_name=kube, gates=["GenericWorkload"]))
    berth = harbour.berth(gated)
    trials = [*((kube, trial) for trial in range(KUBE_TRIALS)), (berth.scheduler_name, 0)]
    for scheduler, trial in trials:
        for name in OUTCOMES:
            place = f"{scheduler}-{name}-{trial}"
            add_nodes(gated, [node(f"{place}-{i}", cpu="1", labels={"place": place}) for i in range(5)])
    for name in OUTCOMES:
        assert _outcome(api, berth.scheduler_name, name, 1) == _outcome(api, kube, name, KUBE_TRIALS)
    berth.end()


Outcome = tuple[tuple[str, str, str], tuple[list[str]]]
"""A group's condition, and the message of each pod that waits."""


def _outcome(api: Api, scheduler: str, name: str, trials: int) -> Outcome:
    """What becomes of a gang, in the first of the trials that comes to its end."""
    for trial in range(trials - 1):
        with suppress(AssertionError):
            return _trial(api, scheduler, name, trial, checks.BOUND / trials)
    return _trial(api, scheduler, name, trials - 1, checks.BOUND)


def _trial(api: Api, scheduler: str, name: str, trial: int, seconds: float) -> Outcome:
    needed, count, fit = OUTCOMES[name]
    space = namespaces.create(api)
    group(api, space, name, needed)
    pods = members(name, count, scheduler)
    for one in pods:
        one["spec"]["nodeSelector"] = {"place": f"{scheduler}-{name}-{trial}"}
    api.create_many(pods_path(space), pods)

    def outcome() -> Outcome | None:
        said, told = condition(api, space, name), _told(api, space, count - fit)
        ended = said[0] == ("False" if name == "none" else "True") and _is_bound(api, space, fit)
        return (said, told) if ended and told is not None else None

    return wait_for(f"the end of {name} with {scheduler}", outcome, seconds, 0.2)


def _is_bound(api: Api, namespace: str, count: int) -> bool:
    return len(bound(api, namespace)) == count


def _told(api: Api, namespace: str, count: int) -> tuple[list[str]] | None:
    """The messages of waiting pods, once each of them has one. In a tuple: there may be none."""
    waiting = [each for each in api.list(pods_path(namespace)) if not checks.node_of(each)]
    found = sorted(checks.condition(each).get("message", "") for each in waiting)
    return (found,) if len(found) == count and all(found) else None
