"""What stands in the way of a pod on each node that rejected it, the nodes closest to fitting first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podberth.cache.column import Bools
from podberth.explain.asking import Asking
from podberth.framework.changes import HOSTNAME, Uncordon
from podberth.framework.decision import Decision, narrowed_text
from podberth.framework.status import PluginError, Reason, Rejections
from podberth.model.pod import Pod
from podberth.model.quantity import BOUND

KEPT_FOR = "keptFor"
"""Of an obstacle that is there only as the node is kept for other pods: who they are."""
_PINS = "NodeAffinity"
_ELSEWHERE = 1000.0
"""More than a node can lack otherwise."""


@dataclass(slots=True)
class Obstacle:
    """One reason against one node. `first`: of the plugin that the node ended at, not of one that never got to ask."""

    plugin: str
    reason: Reason
    first: bool
    detail: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Stuck:
    """A node that can't take the pod, and everything in its way."""

    row: int
    node: str
    plugin: str
    obstacles: list[Obstacle] = field(default_factory=list)
    distance: tuple[float, int] = (0.0, 0)


def stuck_at(asking: Asking, decision: Decision) -> list[Stuck]:
    """Every rejected node with all that stands in its way, the ones closest to fitting first."""
    if decision.verdict is not None:
        return []
    found: dict[int, Stuck] = {}
    nodes = asking.inquiry.cluster.nodes
    if decision.left_out is not None:
        reason = Reason(narrowed_text(decision), unresolvable=True)
        for row in np.flatnonzero(decision.left_out).tolist():
            found[row] = Stuck(row, nodes.names[row] or "", decision.narrowed_by[0])
            found[row].obstacles.append(Obstacle(decision.narrowed_by[0], reason, True))
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            for row in np.flatnonzero(where).tolist():
                stuck = found.setdefault(row, Stuck(row, nodes.names[row] or "", rejected.plugin))
                stuck.obstacles.append(Obstacle(rejected.plugin, reason, True))
    by_itself: set[tuple[int, str]] = set()
    for plugin, reason, where in _all_rejections(asking, decision):
        by_itself.update((row, plugin) for row in asking.kept if row < len(where) and where[row])
        for row in np.flatnonzero(where).tolist():
            known = found.get(row)
            if known is not None and not _repeats(asking, known, plugin, reason):
                known.obstacles.append(Obstacle(plugin, reason, False))
    for stuck in found.values():
        for obstacle in stuck.obstacles:
            obstacle.detail, obstacle.numbers = asking.detail(stuck.row, obstacle.plugin, obstacle.reason)
            if stuck.row in asking.kept and (stuck.row, obstacle.plugin) not in by_itself:
                pods = [pod.key for pod in asking.kept[stuck.row]]
                obstacle.detail += f": {stuck.node} is kept for {', '.join(pods)}"
                obstacle.numbers = {**obstacle.numbers, KEPT_FOR: pods}
        stuck.distance = _distance(asking, stuck)
    return sorted(found.values(), key=lambda stuck: (stuck.distance, stuck.node))


def _repeats(asking: Asking, stuck: Stuck, plugin: str, reason: Reason) -> bool:
    """Return whether this was said of the node already: by the same plugin, or of a cordon, which is a mark and a
    taint.
    """
    if any(o.plugin == plugin and (o.first or o.reason == reason) for o in stuck.obstacles):
        return True
    if not asking.inquiry.cluster.nodes.unschedulable[stuck.row]:
        return False

    def only_cordoned(plugin: str, reason: Reason) -> bool:
        fixes = asking.fixes(stuck.row, plugin, [reason])
        return {change for fix in fixes for change in fix} == {Uncordon(stuck.node)}

    return only_cordoned(plugin, reason) and any(only_cordoned(o.plugin, o.reason) for o in stuck.obstacles)


def _all_rejections(asking: Asking, decision: Decision) -> Iterator[tuple[str, Reason, Bools]]:
    """Yield what every filter says of every node, also of those that an earlier one had rejected."""
    if not decision.nodes:
        return
    inquiry, framework = asking.inquiry, asking.framework
    for plugin in framework.profile.plugins("filter"):
        try:
            found: Rejections = framework.guard(plugin, plugin.filter, inquiry.pod, inquiry.cluster)
        except PluginError as error:  # the decision itself never got to ask it
            asking.failed("not every reason is shown", error)
            continue
        for reason, where in found:
            yield plugin.name, reason, where & inquiry.cluster.nodes.alive[: len(where)]


def _distance(asking: Asking, stuck: Stuck) -> tuple[float, int]:
    """Return how far a node is from taking the pod: what is missing of each thing, as a share of what the pod asks for.

    What has no amount counts as one, and so does once more what the node would not have if it were empty. Of a pod that
    is pinned to some nodes, all others come after these. Second: the plugins whose rejection no preemption can help.
    """
    hopeless = len({o.plugin for o in stuck.obstacles if o.reason.unresolvable})
    pinned = asking.inquiry.once("pinned", lambda: _pinned(asking.inquiry.pod))
    total = 0.0
    for obstacle in stuck.obstacles:
        share = _missing(obstacle.numbers)
        total += 1.0 if share is None else share + obstacle.reason.unresolvable
        if pinned and obstacle.plugin == _PINS:
            total += _ELSEWHERE
    return total, hopeless


def _pinned(pod: Pod) -> bool:
    """Return whether the pod asks for nodes by their names."""
    affinity = pod.shape.required_node_affinity
    terms = () if affinity is None else affinity.terms
    labels = [*pod.shape.node_selector, *(r for term in terms for r in term.labels)]
    return bool(affinity and affinity.names) or any(r.key == HOSTNAME and r.operator == "In" for r in labels)


def _missing(numbers: Mapping[str, Any]) -> float | None:
    """The share that is missing of what is needed; None where the numbers do not say."""
    needed, free = numbers.get("needed"), numbers.get("free")
    if isinstance(needed, int | float) and isinstance(free, int | float) and 0 < needed <= BOUND and abs(free) <= BOUND:
        return (needed - free) / needed
    return None
