"""Shares of single GPUs: what is asked for, which GPUs are chosen, and how fragmented they are."""

from math import inf
from typing import Any

import numpy as np
import pytest

from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.kit.testing import Proof, prove
from podberth.lab import Arrival, Change, World, run
from podberth.lab.gpus import SHARED_GPU, Fragmentation, GPUShare, Parts, Task, parts, plugins
from podberth.model import wire
from tests.builders import configuration, profile

TASKS = [{"cpu": 1000, "gpu": 500, "share": 0.5}, {"cpu": 4000, "gpu": 2000, "share": 0.5}]
STRATEGIES = ("None", "Packed", "FragmentationGradient")


def node(name: str, gpus: int, cpu: str = "8") -> dict[str, Any]:
    """A node with so many GPUs."""
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"} | ({SHARED_GPU: str(1000 * gpus)} if gpus else {})
    labels = {"kubernetes.io/hostname": name}
    metadata = {"name": name, "uid": name, "labels": labels}
    return {"kind": "Node", "metadata": metadata, "spec": {}, "status": {"allocatable": room}}


def pod(name: str, gpu: int, cpu: str = "100m") -> dict[str, Any]:
    """A pod that asks for thousandths of GPUs."""
    amounts = {"cpu": cpu, "memory": "64Mi"} | ({SHARED_GPU: str(gpu)} if gpu else {})
    container = {"name": "main", "image": "main", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": name, "namespace": "default", "uid": f"default/{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": {"schedulerName": "berth", "containers": [container]}}


class Theirs(GPUShare):
    """The plugin as one of somebody else: what such a one has given is not taken from it to verify a decision."""


def proven(strategy: str, nodes: list[dict[str, Any]], pods: list[dict[str, Any]], changes: int = 0) -> Proof:
    """Have the pods scheduled with the plugin."""
    return prove(Theirs, nodes=nodes, pods=pods, args={"strategy": strategy, "tasks": TASKS}, changes=changes)


@pytest.mark.parametrize(
    ("amount", "found"), [(1, Parts(1, 1)), (1000, Parts(1, 1000)), (1500, Parts(2, 750)), (8000, Parts(8, 1000))]
)
def test_parts(amount: int, found: Parts) -> None:
    """Up to 1,000 are of one GPU; more are spread over as few as can be."""
    assert parts(amount) == found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_pod_gets_parts_of_single_gpus(strategy: str) -> None:
    """Two of 600 take a GPU each; 800 are left of both together, and of no single one."""
    found = proven(strategy, [node("a", 2)], [pod("p", 600), pod("q", 600), pod("r", 500), pod("s", 400)])
    assert found.nodes == {"p": "a", "q": "a", "s": "a"}
    assert "1 node(s) had too little left of single GPUs" in found.messages["r"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_keeps_the_promises_of_a_plugin(strategy: str) -> None:
    """Pods and nodes come and go; kept answers, and those for some nodes, are as the others."""
    pods = [pod(f"p{i}", (300, 700, 1000, 2000, 0)[i % 5]) for i in range(12)]
    proven(strategy, [node("a", 2), node("b", 4), node("c", 1), node("none", 0)], pods, changes=60)


def test_shared_gpus_are_filled_first() -> None:
    """Packed: beside what is there, though another node is empty; whole ones on a node in use, if it has one."""
    pods = [pod("p", 300), pod("q", 300), pod("r", 1000), pod("without", 0)]
    placed = proven("Packed", [node("a", 2), node("b", 2)], pods).nodes
    assert placed["p"] == placed["q"] == placed["r"] == placed["without"]


def test_a_node_may_lose_gpus() -> None:
    """A pod keeps the one that is gone, and those that are left are counted without it."""
    world = World(
        "fewer",
        (wire.encode(node("a", 4)),),
        tuple(Arrival(at, wire.encode(pod(name, 1000)), inf) for at, name in enumerate("pqrs")),
        (Change(2.5, put=wire.encode(node("a", 2))),),
    )
    document = configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "GPUShare"}]}}))
    assert run(world, decode(document)).columns["decisions"]["node"] == ["a", "a", "a", None]


def test_fragmentation() -> None:
    """The part of the idle GPUs that a typical task is expected not to be able to use, computed by hand."""
    measure = Fragmentation([Task(1000, 500, 0.5), Task(4000, 2000, 0.25), Task(9000, 0, 0.25)])
    cpu = np.array([8000, 8000, 8000, 1000, 500])
    free = np.array([[1000, 1000], [1000, 400], [400, 400], [1000, 1000], [1000, 0]])
    # A task without GPUs can use none. With 1,000 milli-CPU left, only the small task fits.
    expected = [
        0.25 * 2000,
        0.25 * 1400 + 0.25 * 1400 + 0.5 * 400,
        800,
        0.5 * 2000,
        1000,
    ]
    assert measure.of(cpu, free).tolist() == pytest.approx(expected)


def test_the_gradient_keeps_whole_gpus_together() -> None:
    """Half of the tasks want two whole GPUs: a half goes where one GPU is in use already, and to that GPU."""
    pods = [pod("two", 2000, "1"), pod("half", 500), pod("other", 500)]
    placed = proven("FragmentationGradient", [node("a", 2), node("b", 3), node("c", 2)], pods).nodes
    assert placed["half"] == placed["other"]


def test_refused() -> None:
    """Fragmentation is measured by tasks."""
    config = {"name": "GPUShare", "args": {"strategy": "FragmentationGradient"}}
    profile = {"schedulerName": "p", "plugins": {"multiPoint": {"enabled": [{"name": "GPUShare"}]}}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile | {"pluginConfig": [config]}],
    }
    with pytest.raises(ConfigError, match=r"args\.tasks: Required value"):
        build(decode(document), plugins())
