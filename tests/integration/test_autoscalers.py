"""Autoscalers read what Berth writes: a pod that no node takes asks for a new one, and no other pod does."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import autoscalers, checks
from tests.integration.berth import Harbour
from tests.integration.classes import CLASSES, make_class
from tests.integration.objects import NODES, node, pod, pods_path
from tests.integration.test_gangs import group
from tests.integration.volumes import Disks

NEEDS_A_NODE = ("Unschedulable", False, "unschedulable", True)
HAS_ROOM = (True, "nominated", False)
VERDICTS = {
    "no-room": NEEDS_A_NODE,
    "no-label": NEEDS_A_NODE,
    "no-claim": NEEDS_A_NODE,
    "gang-0": NEEDS_A_NODE,
    "gang-1": NEEDS_A_NODE,
    "gated": ("SchedulingGated", False, "ignored", False),
    "large": ("SchedulerError", False, "ignored", False),
    "preempts": ("Unschedulable", *HAS_ROOM),
    "gets-a-disk": ("", *HAS_ROOM),
    "held-0": ("WaitingForGroup", False, "ignored", False),
    "held-1": ("", *HAS_ROOM),
}
"""Pod → the reason of its condition, whether it is nominated, and what Cluster Autoscaler and Karpenter make of it."""


@pytest.fixture
def disks(gated: ControlPlane, space: str) -> Iterator[Disks]:
    """Storage of a provisioner that never answers."""
    made = Disks(gated, space)
    made.make_class(provisioner="example.com/slow")
    yield made
    made.close()


@pytest.fixture
def high(gated: ControlPlane) -> Iterator[str]:
    """A priority class above all pods without one."""
    name = f"high-{secrets.token_hex(4)}"
    make_class(gated.api, name, 1000)
    yield name
    gated.api.delete(f"{CLASSES}/{name}")


def test_each_kind_of_waiting_pod_is_counted_as_it_should_be(
    gated: ControlPlane, space: str, add_nodes: Callable[..., None], harbour: Harbour, disks: Disks, high: str
) -> None:
    """Only pods that no node takes ask for one. Those that hold room, or that a new node does not help, do not."""
    api, path = gated.api, pods_path(space)
    rooms = {"gang": 1, "preempts": 1, "gets-a-disk": 1, "held": 2, "no-claim": 1}
    nodes = [f"{space}-{kind}-{i}" for kind, count in rooms.items() for i in range(count)]
    add_nodes(gated, [node(name, cpu="1", labels={"for": name.rpartition("-")[0]}) for name in nodes])
    berth = harbour.berth(gated)

    def make(name: str, at: str = "", **how: object) -> Object:
        selector = {"for": f"{space}-{at}"} if at else {}
        return pod(name, berth.scheduler_name, nodeSelector=selector, **{"cpu": "600m", **how})  # type: ignore[arg-type]

    def volume(claim: str) -> list[Object]:
        return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]

    many = [{"key": f"key-{i}", "operator": "Exists"} for i in range(129)]
    victim = pod("victim", "nobody", cpu="800m", nodeName=f"{space}-preempts-0", terminationGracePeriodSeconds=300)
    gang: list[Object] = [{"schedulingGroup": {"podGroupName": name}} for name in ("gang", "held")]
    for name in ("gang", "held"):
        group(api, space, name, 2)
    for claim in ("slow", "slow-too"):
        disks.make_claim(claim)
    api.create(path, victim)
    api.create_many(
        path,
        [
            make("no-room", cpu="99"),
            make("no-label", "nowhere"),
            make("no-claim", "no-claim", volumes=volume("gone")),
            *(make(f"gang-{i}", "gang", **gang[0]) for i in range(2)),
            make("gated", schedulingGates=[{"name": "example.com/wait"}]),
            make("large", tolerations=many),
            make("preempts", "preempts", priorityClassName=high),
            make("gets-a-disk", "gets-a-disk", volumes=volume("slow")),
            make("held-0", "held", **gang[1]),
            make("held-1", "held", volumes=volume("slow-too"), **gang[1]),
        ],
    )

    def verdicts() -> dict[str, tuple[str, bool, str, bool]]:
        found = {one["metadata"]["name"]: one for one in api.list(path)}
        del found["victim"]
        return {name: counted(one) for name, one in found.items()}

    with contextlib.suppress(AssertionError):  # the next line says more
        wait_for("all pods to be told", lambda: verdicts() == VERDICTS, 60, 0.2)
    assert verdicts() == VERDICTS
    assert checks.overfull(api) == []
    berth.end()


def counted(found: Object) -> tuple[str, bool, str, bool]:
    """A row of VERDICTS."""
    reason, nominated = checks.condition(found).get("reason", ""), "nominatedNodeName" in found["status"]
    return reason, nominated, autoscalers.cluster_autoscaler(found), autoscalers.karpenter(found)


def test_their_taints(gated: ControlPlane, space: str, add_nodes: Callable[..., None], harbour: Harbour) -> None:
    """A pod goes to no node that is to go, and to one that may go only if there is no other; a node that starts takes
    it once the last of its taints is off."""
    api, path = gated.api, pods_path(space)
    taints = {
        "deleted": [autoscalers.DELETED],
        "disrupted": [autoscalers.DISRUPTED],
        "candidate": [autoscalers.CANDIDATE],
        "starts": [autoscalers.STARTUP, autoscalers.UNREGISTERED],
    }
    made = [
        {**node(f"{space}-{name}", cpu="1", labels={"of": space}), "spec": {"taints": t}} for name, t in taints.items()
    ]
    add_nodes(gated, [*made, node(f"{space}-plain", cpu="1", labels={"of": space})])
    berth = harbour.berth(gated)
    for name in ("first", "second", "third"):
        api.create(path, pod(name, berth.scheduler_name, cpu="800m", nodeSelector={"of": space}))
        if name != "third":
            wait_for(f"{name} to be bound", lambda: checks.node_of(api.get(f"{path}/{name}")), checks.BOUND)  # noqa: B023
    where = [checks.node_of(api.get(f"{path}/{name}")) for name in ("first", "second")]
    assert where == [f"{space}-plain", f"{space}-candidate"]
    waits = checks.wait_condition(api, space, "third")
    assert autoscalers.cluster_autoscaler(waits) == "unschedulable"
    new = f"{NODES}/{space}-starts"
    api.patch(new, {"spec": {"taints": [autoscalers.STARTUP]}})
    berth.wait_known()
    assert checks.node_of(api.get(f"{path}/third")) == ""
    api.patch(new, {"spec": {"taints": []}})
    wait_for("third to be bound", lambda: checks.node_of(api.get(f"{path}/third")) == f"{space}-starts", checks.BOUND)
    berth.end()
