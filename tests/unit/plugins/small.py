"""One plugin on a few nodes: API dicts in, node names and numbers out."""

from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.explain.objects.world import World
from podberth.framework.config import convert
from podberth.framework.interface import RemovedPods
from podberth.framework.status import Narrow, Reject, Rejections
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import Object

_decoder = Decoder()


def plugin(name: str, **args: Any) -> Any:
    """A plugin with its arguments as a configuration spells them."""
    made = IN_TREE[name]
    return made(convert(args, made.Args, "args"))


def a_pod(document: Object) -> Pod:
    """A decoded pod."""
    return _decoder.pod(wire.encode(document))


def a_node(document: Object) -> Node:
    """A decoded node."""
    return _decoder.node(wire.encode(document))


def cluster(*objects: Object) -> Cluster:
    """A cluster of these objects, its columns validated."""
    world = World()
    world.add_all(objects)
    assert validate(world.cluster) == []
    return world.cluster


def pre_filter(made: Any, pod: Object, *objects: Object) -> Any:
    """None, the reason of a Reject, or the sorted names of a Narrow."""
    found = made.pre_filter(a_pod(pod), cluster(*objects))
    if isinstance(found, Reject):
        return found.reason.text
    return sorted(found.names) if isinstance(found, Narrow) else None


def rejected(made: Any, pod: Object, *objects: Object) -> dict[str, list[str]]:
    """Node → reasons, `!` before those that preemption can't help with."""
    there = cluster(*objects)
    return reasons(made.filter(a_pod(pod), there), there)


def rejected_with_none_gone(made: Any, pod: Object, *objects: Object) -> dict[str, list[str]]:
    """As `rejected`, by what a dry run of preemption asks when no pod has gone yet."""
    there = cluster(*objects)
    removed = RemovedPods(np.arange(there.nodes.rows), [], np.zeros(0, dtype=np.intp))
    return reasons(made.filter_removed(a_pod(pod), there, removed), there)


def reasons(found: Rejections, there: Cluster) -> dict[str, list[str]]:
    """Node → reasons, `!` before those that preemption can't help with."""
    out: dict[str, list[str]] = {}
    for reason, rows in found:
        for row in np.flatnonzero(rows & there.nodes.alive[: there.nodes.rows]):
            out.setdefault(str(there.nodes.names[row]), []).append("!" * reason.unresolvable + reason.text)
    return out


def scored(made: Any, pod: Object, *objects: Object, among: str = "") -> dict[str, int] | None:
    """Node → raw score over the live nodes (or those of `among`); None when the plugin takes no part."""
    return scored_there(made, pod, cluster(*objects), among)


def normalized(made: Any, pod: Object, *objects: Object, among: str = "") -> dict[str, int] | None:
    """Node → score of 0..100."""
    return scored_there(made, pod, cluster(*objects), among, normalized=True)


def scored_there(
    made: Any, document: Object, there: Cluster, among: str = "", *, normalized: bool = False
) -> dict[str, int] | None:
    """As `scored` or `normalized`, in a cluster that there is."""
    pod = a_pod(document)
    rows = [row for row, node in there.nodes.live() if not among or node.name in among.split()]
    feasible = np.array(rows, dtype=np.intp)
    scores = made.score(pod, there, feasible)
    if scores is None:
        return None
    if isinstance(scores, int):
        scores = np.full(len(rows), scores, dtype=np.int64)
    if normalized:
        scores = made.normalize(scores, pod, there, feasible)
    assert scores.dtype == np.int64
    return {str(there.nodes.names[row]): score for row, score in zip(rows, scores.tolist(), strict=True)}
