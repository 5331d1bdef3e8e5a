"""Pods that must not be bound yet, any more, or under another's UID."""

from __future__ import annotations

from collections.abc import Callable

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import node, nodes, pod, pods_path


def test_gated(control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]) -> None:
    """A gated pod waits until its last gate is gone, whatever else is bound meanwhile."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("gate")])
    berth = harbour.berth(control_plane)
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    api.create(path, pod("gated", berth.scheduler_name, schedulingGates=gates))
    api.patch(f"{path}/gated", {"spec": {"schedulingGates": gates[1:]}})
    api.create(path, pod("free", berth.scheduler_name))
    checks.wait_bound(api, real_namespace, 1)
    gated = api.get(f"{path}/gated")
    assert checks.node_of(gated) == ""
    assert checks.condition(gated)["reason"] == "SchedulingGated"
    api.patch(f"{path}/gated", {"spec": {"schedulingGates": None}})
    checks.wait_bound(api, real_namespace, 2)
    assert checks.events(api, real_namespace, "FailedScheduling") == []
    berth.end()


def test_terminating(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A pending pod that is being deleted, before we start or while it waits, is not bound any more."""
    api, path = control_plane.api, pods_path(real_namespace)
    name = "berth-terminating"

    def held(pod_name: str) -> None:
        body = pod(pod_name, name)
        body["metadata"]["finalizers"] = ["example.com/held"]
        api.create(path, body)

    held("leaves-first")
    api.delete(f"{path}/leaves-first")
    held("leaves-later")
    berth = harbour.berth(control_plane, name)
    checks.wait_condition(api, real_namespace, "leaves-later")
    api.delete(f"{path}/leaves-later")
    api.create(path, pod("stays", name))
    checks.wait_condition(api, real_namespace, "stays")  # then it has heard of the deletion before it, too
    add_nodes(control_plane, [node("terminating")])
    checks.wait_bound(api, real_namespace, 1)
    unbound = {p["metadata"]["name"] for p in api.list(path) if not checks.node_of(p)}
    assert unbound == {"leaves-first", "leaves-later"}
    berth.end()
    for pod_name in unbound:
        api.patch(f"{path}/{pod_name}", {"metadata": {"finalizers": None}})


def test_recreated(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A pod that waited, was deleted and created anew under its name is bound as the new one."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("again", cpu="1")])
    berth = harbour.berth(control_plane)
    api.create(path, pod("twice", berth.scheduler_name, cpu="2"))
    old = checks.wait_condition(api, real_namespace, "twice")["metadata"]["uid"]
    api.delete(f"{path}/twice")
    new = api.create(path, pod("twice", berth.scheduler_name))["metadata"]["uid"]
    (found,) = checks.wait_bound(api, real_namespace, 1)
    assert found["metadata"]["uid"] == new != old
    checks.scheduled_once_each(api, real_namespace, [found], berth.scheduler_name)
    berth.end()


def test_churn(audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]) -> None:
    """Pods deleted and recreated under their names while they are being bound: each Binding hit the pod it meant."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, nodes(5, "churn"))
    berth = harbour.berth(audited)
    names = [f"churn-{i}" for i in range(10)]
    for _ in range(5):
        for name in names:
            api.create(path, pod(name, berth.scheduler_name, cpu="1"))
        for name in names:
            api.delete(f"{path}/{name}")
    for name in names:
        api.create(path, pod(name, berth.scheduler_name, cpu="1"))
    last = {found["metadata"]["uid"]: checks.node_of(found) for found in checks.wait_bound(api, audited_namespace, 10)}

    def recorded() -> list[Object] | None:
        """A pod is seen bound a moment before the line of its Binding is written."""
        asked = checks.bindings(audited, audited_namespace)
        granted = {e["requestObject"]["metadata"]["uid"] for e in asked if e["responseStatus"]["code"] == 201}
        return asked if last.keys() <= granted else None

    asked = wait_for("the audit of the Bindings", recorded, checks.BOUND, 0.2)
    granted = [e["requestObject"] for e in asked if e["responseStatus"]["code"] == 201]
    uids = [body["metadata"]["uid"] for body in granted]
    assert len(uids) == len(set(uids))
    assert last.items() <= {body["metadata"]["uid"]: body["target"]["name"] for body in granted}.items()
    assert {e["responseStatus"]["code"] for e in asked} <= {201, 404, 409}
    assert checks.overfull(api) == []
    berth.end()


def test_other_schedulers_pods(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Pods of another schedulerName, and pods that are bound already, are left alone."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("alone")])
    berth = harbour.berth(control_plane)
    api.create(path, pod("theirs", "somebody-else"))
    bound = pod("placed", berth.scheduler_name)
    bound["spec"]["nodeName"] = "alone"
    api.create(path, bound)
    api.create(path, pod("mine", berth.scheduler_name))
    wait_for("our pod", lambda: checks.node_of(api.get(f"{path}/mine")), checks.BOUND)
    assert checks.node_of(api.get(f"{path}/theirs")) == ""
    mine = [found for found in api.list(path) if found["metadata"]["name"] == "mine"]
    checks.scheduled_once_each(api, real_namespace, mine, berth.scheduler_name)
    assert berth.end()["bound"] == 1
