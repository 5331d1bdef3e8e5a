"""Weights that outvote what is meant: a profile that is to pack nodes (the known trap), and what pods prefer."""

from collections.abc import Iterator

from podberth.explain.lint.finding import Checked, Example, Finding
from podberth.explain.lint.scenes import Scene, against, needed, tried
from podberth.framework.normalize import MAX_SCORE
from podberth.framework.profile import Profile
from podberth.plugins.node_affinity import NodeAffinity
from podberth.plugins.node_resources.fit import NodeResourcesFit, NodeResourcesFitArgs
from podberth.plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from podberth.plugins.pod_topology_spread.plugin import PodTopologySpread

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
    """Findings on a profile whose NodeResourcesFit prefers used nodes."""
    path, args = checked.arguments(PACKER) or ("", None)
    if not isinstance(args, NodeResourcesFitArgs) or not _packs(args) or not checked.runs(PACKER, "score"):
        return
    where = f"{path}.scoringStrategy.type"
    kind = args.scoring_strategy.type
    lost = _lost(PACKING, checked.profile, PACKER)
    if lost:
        yield _outvoted(lost, checked, kind, where)
    share = checked.config.percentage_of_nodes_to_score or percentage
    if share is not None and 0 < share < _ALL_NODES:
        yield Finding(
            "packing-sampled",
            f"{checked.path}.percentageOfNodesToScore",
            f"{kind} packs nodes, and only {share}% of the nodes that fit are scored",
            "The fullest node is among them only by chance, so pods are packed onto many nodes instead of few.",
            "Leave percentageOfNodesToScore out: Berth scores every node.",
        )


def preferences(checked: Checked) -> Iterator[Finding]:
    """A weight so large that what pods prefer by their own affinity hardly counts."""
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
    """Return whether a node gets more the more of it is used."""
    strategy = args.scoring_strategy
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio" and ratio is not None:
        return ratio.shape[-1].score > ratio.shape[0].score
    return strategy.type == "MostAllocated"


def _lost(scenes: tuple[Scene, ...], profile: Profile, meant: str) -> list[Example]:
    return [example for example in (tried(scene, profile, meant) for scene in scenes) if example is not None]


def _outvoted(lost: list[Example], checked: Checked, kind: str, path: str) -> Finding:
    """The finding, with the scene that is lost by most."""
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
    """The greatest sum that plugins can give a node, with how it is made up."""
    parts = " + ".join(f"{name} {profile.weights[name]} × {MAX_SCORE}" for name in names)
    return f"{parts} = {sum(profile.weights[name] for name in names) * MAX_SCORE}"


def _margin(example: Example) -> int:
    intended, chosen = example.nodes
    return chosen.total - intended.total
