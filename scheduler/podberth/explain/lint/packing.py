"""Finds weights that outvote what is meant: in a profile that is to pack nodes (the known trap), and what pods prefer.

Two nodes and a pod are scored by the profile's own plugins: who wins is tried by the real engine, not argued.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from podberth.explain.lint.finding import Checked, Example, Finding, NodeScore
from podberth.explain.objects.world import World
from podberth.framework.interface import MAX_SCORE, Profile
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.plugins.node_affinity import NodeAffinity
from podberth.plugins.node_resources import NodeResourcesFit, NodeResourcesFitArgs
from podberth.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from podberth.plugins.registry import IN_TREE

CPU, MEMORY = 8, 32
"""The size of each node of a scene: cores and GiB."""


class Scene(NamedTuple):
    """The load of two nodes, as (pods, cpu, GiB of memory) each, and what a pod (cpu, GiB) asks for.

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
    """Return the scene as the profile decides it, if it does not choose the node that the plugin `meant` likes best.

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
    """Return the plugins other than `meant` that score the chosen node higher than the intended one."""
    intended, chosen = example.nodes
    return [name for name, score in chosen.scores.items() if score > intended.scores[name] and name != meant]


def needed(example: Example, meant: str, weight: int) -> int:
    """Return the least weight with which `meant`, which has `weight`, wins."""
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


PACKER, PREFERENCE, SPREADER = NodeResourcesFit.name, NodeAffinity.name, PodTopologySpread.name
_ALL_NODES = 100

_EVEN, _NONE = (1, 4), (0, 0, 0)
PACKING = (
    *(Scene((pods, *_EVEN), _NONE, _EVEN, service=True, zones=zones) for zones in (False, True) for pods in (6, 4, 2)),
    Scene((4, *_EVEN), (2, 2, 1), (0.5, 8)),
    Scene((5, *_EVEN), (3, 0.5, 8), (2, 2)),
    Scene((4, *_EVEN), _NONE, _EVEN),
)
PREFERRING = tuple(
    Scene(used, emptier, asks, prefers=node)
    for used, emptier, asks in (((2, *_EVEN), (1, *_EVEN), _EVEN), ((1, 1, 2), (1, 0.5, 4), (0.5, 4)))
    for node in ("used", "emptier")
)
"""The nodes differ by one pod in eight, and the pod says which it wants."""


def packing(checked: Checked, percentage: int | None) -> Iterator[Finding]:
    """Yield findings on a profile whose NodeResourcesFit prefers used nodes."""
    path, args = checked.arguments(PACKER) or ("", None)
    if not isinstance(args, NodeResourcesFitArgs) or not _packs(args) or not checked.runs(PACKER, "score"):
        return
    where = f"{path}.scoringStrategy.type"
    kind = args.scoring_strategy.type
    lost = _lost(PACKING, checked.profile, PACKER)
    if lost:
        yield _outvoted(lost, checked, kind, where)
    own = checked.config.percentage_of_nodes_to_score
    share = percentage if own is None else own
    if share is not None and 0 < share < _ALL_NODES:
        yield Finding(
            "packing-sampled",
            f"{checked.path}.percentageOfNodesToScore",
            f"{kind} packs nodes, and only {share}% of the nodes that fit are scored",
            "The fullest node is among them only by chance, so pods are packed onto many nodes instead of few.",
            "Leave percentageOfNodesToScore out: Berth scores every node.",
        )


def preferences(checked: Checked) -> Iterator[Finding]:
    """Yield a finding for a weight so large that the preferred affinity of pods hardly counts."""
    lost = _lost(PREFERRING, checked.profile, PREFERENCE) if checked.runs(PREFERENCE, "score") else []
    if not lost:
        return
    profile, worst = checked.profile, max(lost, key=_margin)
    weight = profile.weights[PREFERENCE]
    rivals = sorted({name for example in lost for name in against(example, PREFERENCE)})
    wanted = max(needed(example, PREFERENCE, weight) for example in lost)
    yield Finding(
        "preferences-outvoted",
        f"{checked.path}.plugins.score",
        f"what pods prefer by node affinity is outvoted by {' and '.join(rivals)}",
        f"{PREFERENCE} gives the node that a pod prefers {weight} × {MAX_SCORE} = {weight * MAX_SCORE} at most; "
        f"{_most(rivals, profile)} can be given for the rest. Tried on two nodes that differ by one pod in eight, "
        f"`{worst.chosen}` wins over `{worst.intended}`.",
        f"Give {PREFERENCE} the weight {wanted} or more at score, or the others less.",
        worst,
    )


def _packs(args: NodeResourcesFitArgs) -> bool:
    """Return whether a node scores higher the more of it is used."""
    strategy = args.scoring_strategy
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio" and ratio is not None:
        return ratio.shape[-1].score > ratio.shape[0].score
    return strategy.type == "MostAllocated"


def _lost(scenes: tuple[Scene, ...], profile: Profile, meant: str) -> list[Example]:
    return [example for example in (tried(scene, profile, meant) for scene in scenes) if example is not None]


def _outvoted(lost: list[Example], checked: Checked, kind: str, path: str) -> Finding:
    """Return the finding, with the scene that is lost by most."""
    profile, worst = checked.profile, max(lost, key=_margin)
    rivals = sorted({name for example in lost for name in against(example, PACKER)})
    weight = profile.weights[PACKER]
    wanted = max(needed(example, PACKER, weight) for example in lost)
    off = []
    if SPREADER in rivals:
        where, args = checked.arguments(SPREADER) or ("", None)
        listed = isinstance(args, PodTopologySpreadArgs) and args.defaulting_type == "List"
        way = f"take {where}.defaultConstraints out" if listed else "switch the default spreading off"
        off.append(way if listed else f"{way} (pluginConfig PodTopologySpread: defaultingType List)")
    off += [f"disable {name} at score" for name in rivals if name != SPREADER]
    return Finding(
        "packing-outvoted",
        path,
        f"{kind} is to fill used nodes first, and is outvoted",
        f"{PACKER} gives a node {weight} × {MAX_SCORE} = {weight * MAX_SCORE} at most; what pulls the other way gives "
        f"up to {_most(rivals, profile)}. Tried on two nodes, `{worst.chosen}` wins over `{worst.intended}`.",
        f"Give {PACKER} the weight {wanted} or more at score (that wins every scene tried), or {' and '.join(off)}.",
        worst,
    )


def _most(names: list[str], profile: Profile) -> str:
    """Return the greatest sum that plugins can give a node, with its parts."""
    parts = " + ".join(f"{name} {profile.weights[name]} × {MAX_SCORE}" for name in names)
    return f"{parts} = {sum(profile.weights[name] for name in names) * MAX_SCORE}"


def _margin(example: Example) -> int:
    intended, chosen = example.nodes
    return chosen.total - intended.total
