"""Two nodes and a pod, scored by a profile's own plugins: who wins is tried by the real engine, not argued.

Scores are summed, so a plugin decides only where what it gives outweighs what the others give.
"""

from collections.abc import Sequence
from typing import NamedTuple

from podberth.explain.lint.finding import Example, NodeScore
from podberth.explain.world import World
from podberth.framework.profile import Profile
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE

CPU, MEMORY = 8, 32
"""What each node of a scene has: cores and GiB."""


class Scene(NamedTuple):
    """What two nodes hold, as (pods, cpu, GiB of memory) each, and what a pod (cpu, GiB) asks for.

    `service`: all pods are of one Service. `prefers`: the node that the pod would rather have, by its own affinity.
    """

    used: tuple[int, float, float]
    emptier: tuple[int, float, float]
    asks: tuple[float, float]
    service: bool = False
    zones: bool = False
    prefers: str = ""

    def __str__(self) -> str:
        kin = "pods of the pod's own Service" if self.service else "other pods"
        where = "of two zones" if self.zones else "of one zone"
        cpu, memory = self.asks
        return (
            f"two nodes {where} with {CPU} cores and {MEMORY} GiB each, {_held(self.used, kin)} on `used` and "
            f"{_held(self.emptier, kin)} on `emptier`; the pod asks for {cpu:g} cpu and {memory:g} GiB"
            f"{f', and prefers `{self.prefers}`' if self.prefers else ''}"
        )


def tried(scene: Scene, profile: Profile, meant: str) -> Example | None:
    """The scene as the profile decides it, if it does not choose the node that the plugin `meant` likes best.

    Only in-tree plugins score: what a package's plugin may want of a cluster that is not there, nobody knows.
    """
    plugins = tuple(plugin for plugin in profile.plugins("score") if plugin.name in IN_TREE)
    world, pod = _world(scene)
    decision = Framework(Profile(profile.name, {"score": plugins}, profile.weights)).decide(pod, world.cluster)
    by_plugin = {part.plugin: part.weighted.tolist() for part in decision.scores}
    nodes = []
    for i, row in enumerate(decision.feasible):
        scores = {plugin: given[i] for plugin, given in by_plugin.items()}
        nodes.append(NodeScore(str(world.cluster.nodes.names[row]), scores, sum(scores.values())))
    intended = max(nodes, key=lambda node: node.scores.get(meant, 0))
    chosen = max(nodes, key=lambda node: (node.total, node is not intended))
    if chosen.scores.get(meant, 0) == intended.scores.get(meant, 0):
        return None
    return Example(str(scene), intended.node, chosen.node, (intended, chosen))


def against(example: Example, meant: str) -> list[str]:
    """The plugins that pull the other way."""
    intended, chosen = example.nodes
    return [name for name, score in chosen.scores.items() if score > intended.scores[name] and name != meant]


def needed(example: Example, meant: str, weight: int) -> int:
    """The least weight with which `meant`, which has `weight`, wins."""
    intended, chosen = example.nodes
    gain = (intended.scores[meant] - chosen.scores[meant]) // weight
    loss = sum(score - intended.scores[name] for name, score in chosen.scores.items() if name != meant)
    return loss // gain + 1


def _held(pods: tuple[int, float, float], kin: str) -> str:
    number, cpu, memory = pods
    return f"{number} {kin} of {cpu:g} cpu and {memory:g} GiB" if number else "nothing"


def _world(scene: Scene) -> tuple[World, Pod]:
    world = World()
    world.add_all([_node("used", "zone-1"), _node("emptier", "zone-2" if scene.zones else "zone-1")])
    labels = {"app": "example"}
    if scene.service:
        metadata = {"name": "example", "namespace": "default"}
        world.add_all([{"kind": "Service", "metadata": metadata, "spec": {"selector": labels}}])
    theirs = labels if scene.service else {}
    for node, (number, *size) in (("used", scene.used), ("emptier", scene.emptier)):
        world.add_all(_pod(f"{node}-{i}", size, theirs, node) for i in range(number))
    pod = world.decode(_pod("new", scene.asks, labels, "", scene.prefers))
    assert isinstance(pod, Pod)
    return world, pod


def _node(name: str, zone: str) -> dict[str, object]:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    allocatable = {"cpu": str(CPU), "memory": f"{MEMORY}Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def _pod(name: str, size: Sequence[float], labels: dict[str, str], on: str, prefers: str = "") -> dict[str, object]:
    requests = {"cpu": f"{int(size[0] * 1000)}m", "memory": f"{int(size[1] * 1024)}Mi"}
    containers = [{"name": "main", "image": "registry.test/example:1", "resources": {"requests": requests}}]
    spec: dict[str, object] = {"containers": containers, "nodeName": on}
    if prefers:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [prefers]}]}
        preferred = [{"weight": 100, "preference": term}]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": spec,
    }
