"""Pods that fit nowhere: what Berth writes of them is what kube-scheduler writes, and written once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.classes import CLASSES, make_class
from tests.integration.objects import HOSTNAME, NODES, ZONE, apart, near, node, on, pod, pods_path

HUGE = {"nvidia.com/gpu": "1"}
FIELDS = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["absent"]}]}
PENDING: dict[str, dict[str, Any]] = {
    "cpu": {"cpu": "9"},
    "cpu-and-memory": {"cpu": "9", "memory": "90Gi"},
    "room-left-nowhere": {"cpu": "1500m"},
    "selector": {"nodeSelector": {"disk": "ssd"}},
    "zone": {"affinity": on(ZONE, ["zone-9"])},
    "zone-and-cpu": {"affinity": on(ZONE, ["zone-1"]), "cpu": "3"},
    "named-node": {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [FIELDS]}}
        }
    },
    "affinity": {"affinity": near({"app": "nobody"}, ZONE)},
    "anti-affinity": {"affinity": apart({"app": "resident"}, ZONE)},
    "unwanted": {"labels": {"app": "noisy"}, "cpu": "1"},
    "extended": {"cpu": "1", "resources": HUGE},
    "port": {"ports": [8080]},
    "meek": {"cpu": "9", "priorityClassName": "MEEK"},
    "meek-and-no-room": {"cpu": "1500m", "priorityClassName": "MEEK"},
    "tolerant": {"cpu": "9", "tolerations": [{"operator": "Exists"}]},
}


def pending(name: str, scheduler: str, ports: Any = (), resources: Any = None, **how: Any) -> Object:
    """A pod of the table."""
    made = pod(name, scheduler, **how)
    container = made["spec"]["containers"][0]
    container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    for name, asked in (resources or {}).items():
        container["resources"]["requests"][name] = asked
        container["resources"]["limits"] = {name: asked}
    return made


@pytest.fixture
def meek(control_plane: Cluster) -> Iterator[str]:
    """The name of a priority class whose pods preempt nobody."""
    name = f"meek-{secrets.token_hex(4)}"
    make_class(control_plane.api, name, 7, preemptionPolicy="Never")
    yield name
    control_plane.api.delete(f"{CLASSES}/{name}")


def settle(api: Api, namespace: str) -> None:
    """Residents on the nodes a-0 to b-1: half the CPU, port 8080, and an objection to pods labelled noisy."""
    keep_away = apart({"app": "noisy"}, HOSTNAME)
    for name in ("a-0", "a-1", "b-0", "b-1"):
        resident = pending(
            f"on-{name}", "nobody", cpu="1", ports=[8080], labels={"app": "resident"}, affinity=keep_away
        )
        resident["spec"]["nodeName"] = name
        api.create(pods_path(namespace), resident)


def said(api: Api, namespace: str, name: str) -> tuple[Object, list[tuple[str, ...]]]:
    """A pod's PodScheduled without times, and its FailedScheduling events as (type, action, note)."""
    found = checks.wait_condition(api, namespace, name)
    written = {word: value for word, value in checks.condition(found).items() if not word.endswith("Time")}
    uid = found["metadata"]["uid"]

    def about() -> list[tuple[str, ...]]:
        failures = checks.events(api, namespace, "FailedScheduling")
        return [(e["type"], e["action"], e["note"]) for e in failures if e["regarding"]["uid"] == uid]

    return written, wait_for(f"the event of {name}", about, checks.BOUND)


def test_messages_are_kube_schedulers(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], meek: str
) -> None:
    """Twins, one for each scheduler, on one state of the cluster get the same condition and the same event."""
    api = control_plane.api
    tainted = node("tainted", "zone-2")
    tainted["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    cordoned = node("cordoned", "zone-2", cpu="8")
    cordoned["spec"] = {"unschedulable": True}
    small = [node(name, f"zone-{i % 2}", cpu="2") for i, name in enumerate(("a-0", "a-1", "b-0", "b-1"))]
    add_nodes(control_plane, [*small, tainted, cordoned])
    settle(api, real_namespace)
    berth = harbour.berth(control_plane)
    _, kube_name = harbour.kube_scheduler(control_plane)
    path = pods_path(real_namespace)
    for name, how in PENDING.items():
        if "priorityClassName" in how:
            how = {**how, "priorityClassName": meek}
        api.create(path, pending(f"{name}-ours", berth.scheduler_name, **how))
        api.create(path, pending(f"{name}-theirs", kube_name, **how))
    ours = {name: said(api, real_namespace, f"{name}-ours") for name in PENDING}
    theirs = {name: said(api, real_namespace, f"{name}-theirs") for name in PENDING}
    assert ours == theirs
    condition, events = ours["cpu"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/6 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        "4 Insufficient cpu. preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling.",
        "observedGeneration": 1,
    }
    assert events == [("Warning", "Scheduling", condition["message"])]
    controllers = {e["reportingController"] for e in checks.events(api, real_namespace, "FailedScheduling")}
    assert controllers == {berth.scheduler_name, kube_name}
    berth.end()


def test_no_nodes(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Without any node the message is kube-scheduler's too, and the first node ends the wait."""
    api, path = control_plane.api, pods_path(real_namespace)
    if api.list(NODES):
        pytest.skip("somebody's own cluster has nodes")
    berth = harbour.berth(control_plane)
    api.create(path, pod("first", berth.scheduler_name))
    waiting = checks.wait_condition(api, real_namespace, "first")
    assert checks.condition(waiting)["message"] == "no nodes available to schedule pods"
    add_nodes(control_plane, [node("only")])
    assert [checks.node_of(found) for found in checks.wait_bound(api, real_namespace, 1)] == ["only"]
    berth.end()


def test_same_failure_is_written_once(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A second attempt with the same outcome leaves the pod's resourceVersion as it was, and adds no event."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("here", "zone-0"), node("there", "zone-1")])
    berth = harbour.berth(control_plane, log_level="debug")  # a message that was said before is said at debug level
    beside = on(ZONE, ["zone-0"]) | near({"app": "db"}, ZONE)
    api.create(path, pod("stuck", berth.scheduler_name, affinity=beside))
    written = checks.wait_condition(api, real_namespace, "stuck")["metadata"]["resourceVersion"]
    checks.wait_events(api, real_namespace, "FailedScheduling", 1)

    # What it wants to be with, where it may not go: worth a try for all that InterPodAffinity knows, and no help.
    api.create(path, pod("far", "nobody", labels={"app": "db"}, nodeName="there"))
    wait_for("the second attempt", lambda: len(attempts(berth.lines("not scheduled"), "stuck")) >= 2, checks.BOUND)
    api.create(path, pod("after", berth.scheduler_name, cpu="99"))
    checks.wait_condition(api, real_namespace, "after")
    assert api.get(f"{path}/stuck")["metadata"]["resourceVersion"] == written
    failures = checks.events(api, real_namespace, "FailedScheduling")
    assert [e["regarding"]["name"] for e in failures if e["regarding"]["name"] == "stuck"] == ["stuck"]

    api.create(path, pod("close", "nobody", labels={"app": "db"}, nodeName="here"))
    wait_for("the pod to be bound", lambda: checks.node_of(api.get(f"{path}/stuck")) == "here", checks.BOUND)
    berth.end()


def attempts(lines: list[Object], name: str) -> list[int]:
    """The attempt numbers logged of a pod."""
    return [line["attempt"] for line in lines if line["pod"].endswith(f"/{name}")]
