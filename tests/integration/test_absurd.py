"""Objects that the API server accepts and no machine has: the rest of the cluster goes on."""

from __future__ import annotations

from collections.abc import Callable

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import NODES, anti_affinity, node, nodes, pod, pods_path

ABSURD: Object = {
    "memory": "9E",
    "cpu": "1E30",
    "ephemeral-storage": "1e60",
    "example.com/thing": "9223372036854775807",
}


def test_absurd_node(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A node with more of everything than int64 holds is named in one line, and pods are scheduled as before."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [*nodes(3, "sane"), node("absurd", **ABSURD)])
    berth = harbour.berth(control_plane)
    api.create_many(path, anti_affinity(4, berth.scheduler_name))
    pods = checks.wait_bound(api, real_namespace, 4)
    assert len({checks.node_of(found) for found in pods}) == 4
    marked(berth.lines("parts of a node can't be read and are left out"), "absurd")
    api.patch(f"{NODES}/absurd", {"metadata": {"labels": {"seen": "again"}}})
    api.create(path, pod("later", berth.scheduler_name))
    checks.wait_bound(api, real_namespace, 5)
    marked(berth.lines("parts of a node can't be read and are left out"), "absurd")
    berth.end()


def test_absurd_pods(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Pods that ask for more than there is in the world are told so, foreign ones fill their node, others go on."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(2, "mortal"))
    foreign = pod("foreign", "nobody", memory="9E", cpu="1E18")
    foreign["spec"]["nodeName"] = "mortal-0"
    api.create(path, foreign)
    berth = harbour.berth(control_plane)
    api.create(path, pod("glutton", berth.scheduler_name, memory="9E", cpu="1E30"))
    said = checks.condition(checks.wait_condition(api, real_namespace, "glutton"))["message"]
    assert said.startswith("0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.")
    api.create_many(path, [pod(f"web-{i}", berth.scheduler_name) for i in range(5)])
    pods = checks.wait_bound(api, real_namespace, 6)
    bound = {found["metadata"]["name"]: checks.node_of(found) for found in pods if checks.node_of(found)}
    assert bound == {"foreign": "mortal-0", **{f"web-{i}": "mortal-1" for i in range(5)}}
    marked(
        berth.lines("parts of a pod can't be read and are left out"),
        f"{real_namespace}/foreign",
        f"{real_namespace}/glutton",
    )
    assert len(berth.lines("not scheduled")) == 1
    berth.end()


def marked(lines: list[Object], *names: str) -> None:
    """There is exactly one line for each of these objects."""
    assert sorted(str(line.get("node") or line.get("pod")) for line in lines) == sorted(names), lines
