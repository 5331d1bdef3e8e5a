"""The plugins that fit on a page: ports, images, names, cordons, gates, order."""

import numpy as np
import pytest

from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, SKIPPABLE
from tests.builders import Object, node, pod
from tests.unit.plugins.small import a_node, a_pod, cluster, plugin, pre_filter, rejected, scored

TAKEN = "node(s) didn't have free ports for the requested pod ports"
CORDONED = "!node(s) were unschedulable"
ELSEWHERE = "!node(s) didn't match the requested node name"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("wants", "used", "conflict"),
    [
        ("80", "80", True),
        ("80", "81", False),
        ("80", "80/UDP", False),
        ("10.0.0.1:80", "80", True),
        ("80", "10.0.0.1:80", True),
        ("10.0.0.1:80", "10.0.0.1:80", True),
        ("10.0.0.1:80", "10.0.0.2:80", False),
        (":::80", "80", True),
        (":::80", "10.0.0.1:80", False),
    ],
)
def test_node_ports(wants: str, used: str, conflict: bool) -> None:
    """Equal protocol and port, on the same address or any; `::` is an address like others, as upstream.

    A hint, one row, and the sums of preemption say the same as all rows.
    """
    made, asks = plugin("NodePorts"), pod("p", ports=[wants])
    holder = pod("e", ports=[used], on="n")
    assert rejected(made, asks, node("n"), node("m"), holder) == ({"n": [TAKEN]} if conflict else {})
    there, coming, placed = cluster(node("n"), node("m"), holder), a_pod(asks), a_pod(holder)
    assert made.pod_hint(coming, ClusterEvent.POD_GONE, placed) is conflict
    assert [made.filter_one(coming, there.nodes, row) for row in (0, 1)] == [not conflict, True]
    assert (made.needs(coming), made.takes(coming, placed.shape)) == ([0], [int(conflict)])
    assert made.free(coming, there.nodes, np.array([0, 1])).tolist() == [[-int(conflict), 0]]


def test_without_host_ports_there_is_nothing_to_add_up() -> None:
    """On any node, whoever is there."""
    made, asks, there = plugin("NodePorts"), a_pod(pod("p")), cluster(node("n"), pod("e", ports=["80"], on="n"))
    assert made.filter_one(asks, there.nodes, 0)
    assert (made.skips(asks.shape), made.skips(a_pod(pod("q", ports=["80"])).shape)) == (SKIPPABLE, NO_POINTS)
    assert (made.needs(asks), made.takes(asks, a_pod(pod("e", ports=["80"])).shape)) == ([], [])
    assert made.free(asks, there.nodes, np.array([0])).shape == (0, 1)


def test_node_ports_of_sidecars_count() -> None:
    """Those of other init containers do not: they have ended."""
    ported = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    sidecar = pod("e", init=[{"name": "s", "image": "s", "ports": ported, "restartPolicy": "Always"}], on="n")
    init = pod("f", init=[{"name": "i", "image": "i", "ports": ported}], on="m")
    found = rejected(plugin("NodePorts"), pod("p", ports=["80"]), node("n"), node("m"), sidecar, init)
    assert found == {"n": [TAKEN]}


@pytest.mark.parametrize(
    ("images", "scores"),
    [
        (["none:1"], [0, 0]),
        (["big:1"], [48, 0]),
        (["big:1", "none:1"], [23, 0]),
        (["tagless"], [7, 7]),
        (["tagless:latest"], [7, 7]),
        (["huge:1"], [0, 100]),
        (["small:1"], [0, 0]),
        (["big:1", "big:1"], [48, 0]),
        (["registry:5000/app"], [0, 8]),
    ],
)
def test_image_locality(images: list[str], scores: list[int]) -> None:
    """Size times the share of nodes that have it, from 23 MiB to 1000 MiB a container; `latest` where no tag is."""
    sizes = {"big:1": 990, "small:1": 20, "huge:1": 9000, "tagless:latest": 100, "registry:5000/app:latest": 210}
    held = {name: size * MIB for name, size in sizes.items()}
    on_n, on_m = ("big:1", "tagless:latest", "small:1"), ("tagless:latest", "huge:1", "registry:5000/app:latest")
    nodes = [node("n", images={i: held[i] for i in on_n}), node("m", images={i: held[i] for i in on_m})]
    assert scored(plugin("ImageLocality"), pod("p", images=images), *nodes) == dict(zip("nm", scores, strict=True))


def test_node_name() -> None:
    """A named node is the only one, whether it exists or not."""
    made = plugin("NodeName")
    assert pre_filter(made, pod("p"), node("n")) is None
    assert pre_filter(made, pod("p", on="n"), node("n")) == ["n"]
    assert rejected(made, pod("p"), node("n")) == {}
    assert rejected(made, pod("p", on="n"), node("n"), node("m")) == {"m": [ELSEWHERE]}
    assert rejected(made, pod("p", on="gone"), node("n")) == {"n": [ELSEWHERE]}


@pytest.mark.parametrize(
    ("tolerate", "out"),
    [
        ([], {"n": [CORDONED]}),
        (["node.kubernetes.io/unschedulable"], {}),
        (["node.kubernetes.io/unschedulable:NoSchedule"], {}),
        (["node.kubernetes.io/unschedulable:NoExecute"], {"n": [CORDONED]}),
        (["*"], {}),
    ],
)
def test_node_unschedulable(tolerate: list[str], out: dict[str, list[str]]) -> None:
    """A cordon is tolerated by way of its taint."""
    found = rejected(plugin("NodeUnschedulable"), pod("p", tolerate=tolerate), node("n", cordoned=True), node("m"))
    assert found == out


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, node("n"), True),
        (None, node("n", cordoned=True), False),
        (node("n", cordoned=True), node("n"), True),
        (node("n"), node("n"), False),
    ],
)
def test_node_unschedulable_wakes(old: Object | None, new: Object, wakes: bool) -> None:
    """When a node is uncordoned or comes without a cordon."""
    made = plugin("NodeUnschedulable")
    assert made.node_hint(a_pod(pod("p")), old and a_node(old), a_node(new)) is wakes


def test_scheduling_gates() -> None:
    """Named in the order of the spec."""
    made = plugin("SchedulingGates")
    assert made.pre_enqueue(a_pod(pod("p"))) is None
    reason = made.pre_enqueue(a_pod(pod("p", gates=["b", "a"])))
    assert (reason.text, reason.unresolvable) == ("waiting for scheduling gates: [b a]", True)


def test_priority_sort() -> None:
    """Highest priority first, then who came first."""
    made = plugin("PrioritySort")
    queued = [(pod("late"), 2.0), (pod("early"), 1.0), (pod("high", priority=5), 3.0), (pod("low", priority=-1), 0.0)]
    ranked = sorted(queued, key=lambda one: made.queue_sort(a_pod(one[0]), one[1]))
    assert [one[0]["metadata"]["name"] for one in ranked] == ["high", "early", "late", "low"]
