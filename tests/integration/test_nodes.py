"""Nodes come, are cordoned, uncordoned and deleted while pods wait; others' pods take room."""

from __future__ import annotations

from collections.abc import Callable

from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import NODES, node, pod, pods_path


def test_nodes_come_and_go(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A waiting pod is told why after each change, and bound once a node takes it; a deleted node takes none."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("small", cpu="1")])
    berth = harbour.berth(control_plane)
    api.create(path, pod("big", berth.scheduler_name, cpu="2"))
    checks.wait_condition(api, real_namespace, "big", "0/1 nodes are available: 1 Insufficient cpu.")

    cordoned = node("cordoned")
    cordoned["spec"] = {"unschedulable": True}
    add_nodes(control_plane, [cordoned])
    api.create(path, pod("big-too", berth.scheduler_name, cpu="2"))
    text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    checks.wait_condition(api, real_namespace, "big-too", text)

    control_plane.kubectl("uncordon", "cordoned")
    checks.wait_bound(api, real_namespace, 2)
    assert {checks.node_of(found) for found in api.list(path)} == {"cordoned"}

    control_plane.kubectl("cordon", "cordoned")
    berth.wait_known()
    api.create(path, pod("small-one", berth.scheduler_name))
    checks.wait_bound(api, real_namespace, 3)
    assert checks.node_of(api.get(f"{path}/small-one")) == "small"

    api.delete(f"{NODES}/small")
    berth.wait_known()
    api.create(path, pod("late", berth.scheduler_name))
    checks.wait_condition(api, real_namespace, "late", "0/1 nodes are available: 1 node(s) were unschedulable.")
    add_nodes(control_plane, [node("small")])  # as new: what was bound to its namesake still takes room on it
    checks.wait_bound(api, real_namespace, 4)
    assert checks.node_of(api.get(f"{path}/late")) == "small"
    api.create(path, pod("fills", berth.scheduler_name, cpu="3800m"))
    checks.wait_bound(api, real_namespace, 5)
    assert checks.overfull(api) == []
    api.create(path, pod("one-more", berth.scheduler_name))
    text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    checks.wait_condition(api, real_namespace, "one-more", text)
    berth.end()


def test_many_wait_for_nodes(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """50 waiting pods are all bound while nodes for ten of them come at a time, and no node is overfull."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("none", cpu="0")])
    berth = harbour.berth(control_plane)
    api.create_many(path, [pod(f"crowd-{i}", berth.scheduler_name, cpu="1") for i in range(50)])
    checks.wait_events(api, real_namespace, "FailedScheduling", 50)
    for i in range(5):
        add_nodes(control_plane, [node(f"ten-{i}", cpu="10")])
        checks.wait_bound(api, real_namespace, 10 * (i + 1))
    assert checks.overfull(api) == []
    checks.scheduled_once_each(api, real_namespace, api.list(path), berth.scheduler_name)
    berth.end()


def test_foreign_pods_count(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Pods that others put on our nodes take room, also while we run, and give it back when they go."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("full", cpu="1"), node("free", cpu="1")])
    before = pod("before", "nobody", cpu="900m")
    before["spec"]["nodeName"] = "full"
    api.create(path, before)
    berth = harbour.berth(control_plane)
    api.create(path, pod("mine", berth.scheduler_name, cpu="500m"))
    checks.wait_bound(api, real_namespace, 2)
    assert checks.node_of(api.get(f"{path}/mine")) == "free"

    during = pod("during", "nobody", cpu="500m")
    api.create(path, during)
    api.bind_many(real_namespace, [("during", "free")])
    api.create(path, pod("waits", berth.scheduler_name, cpu="500m"))
    waiting = checks.wait_condition(api, real_namespace, "waits")
    assert checks.condition(waiting)["message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
        "2 No preemption victims found for incoming pod."
    )
    api.delete(f"{path}/before")
    wait_for("the pod that waited", lambda: checks.node_of(api.get(f"{path}/waits")) == "full", checks.BOUND)
    assert checks.overfull(api) == []
    berth.end()
