"""The known trap: a profile that is to pack nodes, and plugins that quietly outvote it.

Scores are summed, so a plugin decides only where what it gives outweighs what the others take. Whether it does is
not argued here but tried: the profile's own plugins score two nodes, one of them fuller, by the real engine.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scheduler.framework.plugin import MAX_SCORE
from scheduler.framework.runtime import Framework, Profile
from scheduler.model.pod import Pod
from scheduler.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from scheduler.plugins.registry import IN_TREE
from scheduler.whatif.lint.finding import Checked, Example, Finding, NodeScore
from scheduler.whatif.world import World

PACKER = NodeResourcesFit.name
_CPU, _MEMORY = 8, 32
"""What each node of a scene has: cores and GiB."""
_ALL_NODES = 100


class Scene(NamedTuple):
    """What two nodes hold, as (pods, cpu, GiB of memory) each, and what a pod (cpu, GiB) asks for."""

    used: tuple[int, float, float]
    emptier: tuple[int, float, float]
    asks: tuple[float, float]
    service: bool = True
    zones: bool = False

    def __str__(self) -> str:
        kin = "pods of the pod's own Service" if self.service else "other pods"
        where = "of two zones" if self.zones else "of one zone"
        cpu, memory = self.asks
        return (
            f"two nodes {where} with {_CPU} cores and {_MEMORY} GiB each, {_held(self.used, kin)} on `used` and "
            f"{_held(self.emptier, kin)} on `emptier`; the pod asks for {cpu:g} cpu and {memory:g} GiB"
        )


_EVEN, _NONE = (1, 4), (0, 0, 0)
SCENES = (
    *(Scene((pods, *_EVEN), _NONE, _EVEN, zones=zones) for zones in (False, True) for pods in (6, 4, 2)),
    Scene((4, *_EVEN), (2, 2, 1), (0.5, 8), service=False),
    Scene((5, *_EVEN), (3, 0.5, 8), (2, 2), service=False),
    Scene((4, *_EVEN), _NONE, _EVEN, service=False),
)


def _held(pods: tuple[int, float, float], kin: str) -> str:
    number, cpu, memory = pods
    return f"{number} {kin} of {cpu:g} cpu and {memory:g} GiB" if number else "nothing"


def packing(checked: Checked, percentage: int | None) -> Iterator[Finding]:
    """Findings on a profile whose NodeResourcesFit prefers used nodes."""
    path, args = checked.arguments(PACKER) or ("", None)
    if not isinstance(args, NodeResourcesFitArgs) or not _packs(args) or not checked.runs(PACKER, "score"):
        return
    where = f"{path}.scoringStrategy.type"
    kind = args.scoring_strategy.type
    lost = [example for example in (_tried(scene, checked.profile) for scene in SCENES) if example is not None]
    if lost:
        yield _outvoted(lost, checked.profile, kind, where)
    share = checked.config.percentage_of_nodes_to_score or percentage
    if share is not None and 0 < share < _ALL_NODES:
        yield Finding(
            "packing-sampled",
            f"{checked.path}.percentageOfNodesToScore",
            f"{kind} packs nodes, and only {share}% of the nodes that fit are scored",
            "The fullest node is among them only by chance, so pods are packed onto many nodes instead of few.",
            "Leave percentageOfNodesToScore out: Berth scores every node.",
        )


def _packs(args: NodeResourcesFitArgs) -> bool:
    """Whether a node gets more the more of it is used."""
    strategy = args.scoring_strategy
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio" and ratio is not None:
        return ratio.shape[-1].score > ratio.shape[0].score
    return strategy.type == "MostAllocated"


def _tried(scene: Scene, profile: Profile) -> Example | None:
    """The scene as the profile decides it, if it does not choose the node that the packer would."""
    plugins = tuple(plugin for plugin in profile.plugins("score") if plugin.name in IN_TREE)
    world, pod = _world(scene)
    framework = Framework(Profile(profile.name, {"score": plugins}, profile.weights))
    decision = framework.decide(pod, world.cluster)
    names = [str(world.cluster.nodes.names[row]) for row in decision.feasible]
    by_plugin = {part.plugin: part.weighted.tolist() for part in decision.scores}
    nodes = {
        name: NodeScore(name, {plugin: scores[i] for plugin, scores in by_plugin.items()}, 0)
        for i, name in enumerate(names)
    }
    nodes = {name: NodeScore(name, node.scores, sum(node.scores.values())) for name, node in nodes.items()}
    intended = max(nodes.values(), key=lambda node: node.scores.get(PACKER, 0))
    chosen = max(nodes.values(), key=lambda node: (node.total, node is not intended))
    if chosen.scores.get(PACKER, 0) == intended.scores.get(PACKER, 0):
        return None
    return Example(str(scene), intended.node, chosen.node, (intended, chosen))


def _outvoted(lost: list[Example], profile: Profile, kind: str, path: str) -> Finding:
    """The finding, with the scene that is lost by most."""
    worst = max(lost, key=lambda example: example.nodes[1].total - example.nodes[0].total)
    against = sorted({name for example in lost for name in _against(example)})
    weight = profile.weights[PACKER]
    most = " + ".join(f"{name} {profile.weights[name]} × {MAX_SCORE}" for name in against)
    total = sum(profile.weights[name] for name in against) * MAX_SCORE
    needed = max(_needed(example, weight) for example in lost)
    off = []
    if "PodTopologySpread" in against:
        off.append("switch the default spreading off (pluginConfig PodTopologySpread: defaultingType List)")
    off += [f"disable {name} at score" for name in against if name != "PodTopologySpread"]
    return Finding(
        "packing-outvoted",
        path,
        f"{kind} is to fill used nodes first, and is outvoted",
        f"NodeResourcesFit gives a node {weight} × {MAX_SCORE} = {weight * MAX_SCORE} at most; what pulls the other "
        f"way gives up to {most} = {total}. Tried on two nodes, `{worst.chosen}` wins over `{worst.intended}`.",
        f"Give NodeResourcesFit the weight {needed} or more at score (that wins every scene tried), or "
        f"{' and '.join(off)}.",
        worst,
    )


def _against(example: Example) -> list[str]:
    intended, chosen = example.nodes
    return [name for name, score in chosen.scores.items() if score > intended.scores[name] and name != PACKER]


def _needed(example: Example, weight: int) -> int:
    """The least weight with which the packer wins the example."""
    intended, chosen = example.nodes
    gain = (intended.scores[PACKER] - chosen.scores[PACKER]) // weight
    loss = sum(score - intended.scores[name] for name, score in chosen.scores.items() if name != PACKER)
    return loss // gain + 1


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
    pod = world.decode(_pod("new", scene.asks, labels, ""))
    assert isinstance(pod, Pod)
    return world, pod


def _node(name: str, zone: str) -> dict[str, object]:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    allocatable = {"cpu": str(_CPU), "memory": f"{_MEMORY}Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def _pod(name: str, size: Sequence[float], labels: dict[str, str], on: str) -> dict[str, object]:
    requests = {"cpu": f"{int(size[0] * 1000)}m", "memory": f"{int(size[1] * 1024)}Mi"}
    containers = [{"name": "main", "image": "registry.test/example:1", "resources": {"requests": requests}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, "nodeName": on}}
