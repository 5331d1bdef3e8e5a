"""HTTP extenders without the HTTP: which pods they want to be asked about, and what their answers mean.

Mirrors kube-scheduler `extender.go`, `schedule_one.go` (findNodesThatPassExtenders, prioritizeNodes) and
`scheduler.go` (buildExtenders). The calls themselves are the shell's (`podberth.app.extenders`).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.framework.config import Extender, PluginConfig, ProfileConfig, SchedulerConfiguration
from podberth.framework.decision import Decision, PluginScores, Rejected
from podberth.framework.interface import MAX_SCORE
from podberth.framework.status import Reason
from podberth.model.pod import Pod

EXTENDER = "Extender"
"""The plugin name under which a pod waits that extenders rejected. Any change may help it."""
MAX_EXTENDER_PRIORITY = 10
_FIT = "NodeResourcesFit"


class Scores(Struct, frozen=True):
    """One extender's scores, 0..10, by node."""

    extender: str
    weight: int
    by_node: Mapping[str, int]


class NodesAnswer(Struct, frozen=True):
    """The extenders' answer about the nodes that they were asked about."""

    kept: frozenset[str]
    failed: Mapping[str, str]
    """Node → why not; removing pods may help."""
    unresolvable: Mapping[str, str]
    """Node → why not; removing pods would not help."""
    scores: Sequence[Scores] = ()


class NodesQuestion(Struct, frozen=True, eq=False):
    """A question to extenders: to which of these nodes a pod may go, and how good they are. Compared by identity."""

    pod: Pod
    extenders: tuple[Extender, ...]
    nodes: tuple[str, ...]


class VictimsQuestion(Struct, frozen=True, eq=False):
    """Asks on which of these nodes these pods may be removed for another. Compared by identity."""

    pod: Pod
    extenders: tuple[Extender, ...]
    victims: Mapping[str, tuple[tuple[Pod, ...], int]]
    """Node → (pods to remove, how many of them overdraw a disruption budget)."""


Question = NodesQuestion | VictimsQuestion
VictimsAnswer = Mapping[str, tuple[tuple[str, ...], int]]
"""Node → (UIDs of the pods to remove, how many of them overdraw a disruption budget)."""


def in_order(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Return the extenders in the order in which they are asked: those that may fail come last."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def interested(extender: Extender, pod: Pod) -> bool:
    """Return whether an extender wants to be asked about a pod: it manages no resources, or one
    that the pod requests.
    """
    managed = extender.managed_resources
    return not managed or any(resource.name in pod.shape.requests for resource in managed)


def without_ignored(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the configuration in which NodeResourcesFit leaves out what extenders manage (ignoredByScheduler)."""
    ignored = [
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    if not ignored:
        return config
    return replace(config, profiles=[_ignoring(profile, ignored) for profile in config.profiles])


def keep_accepted(decision: Decision, answer: NodesAnswer, asked: Iterable[str], cluster: Cluster) -> bool:
    """Leave out the nodes that extenders rejected. False: none is left, but extenders were not asked about some."""
    nodes = cluster.nodes
    feasible = np.zeros(nodes.rows, dtype=np.bool_)
    feasible[decision.feasible] = True
    asked_about = nodes.named(asked)
    kept = feasible & asked_about & nodes.named(answer.kept)
    lost = feasible & asked_about & ~kept
    reasons: dict[Reason, Bools] = {}
    for row in map(int, np.flatnonzero(lost)):
        name = nodes.names[row] or ""
        reason = Reason(answer.failed.get(name, ""), unresolvable=name not in answer.failed)
        if name in answer.unresolvable:
            reason = Reason(answer.unresolvable[name], unresolvable=True)
        reasons.setdefault(reason, np.zeros(nodes.rows, dtype=np.bool_))[row] = True
    if reasons:
        decision.rejected.append(Rejected(EXTENDER, list(reasons.items())))
    decision.feasible = np.flatnonzero(kept)
    return bool(len(decision.feasible)) or not (feasible & ~asked_about).any()


def add_scores(decision: Decision, answer: NodesAnswer, cluster: Cluster) -> None:
    """Add the extenders' scores to the totals; a node without one gets none."""
    if decision.totals is None:
        return
    names = [cluster.nodes.names[row] or "" for row in decision.feasible]
    for scores in answer.scores:
        raw = np.array([scores.by_node.get(name, 0) for name in names], dtype=np.int64)
        weighted = raw * scores.weight * (MAX_SCORE // MAX_EXTENDER_PRIORITY)
        decision.totals = decision.totals + weighted
        decision.scores.append(PluginScores(scores.extender, scores.weight, raw, weighted))


def _ignoring(profile: ProfileConfig, ignored: list[str]) -> ProfileConfig:
    rest = [plugin for plugin in profile.plugin_config if plugin.name != _FIT]
    args = next((plugin.args for plugin in profile.plugin_config if plugin.name == _FIT), {})
    return replace(profile, plugin_config=[*rest, PluginConfig(_FIT, {**args, "ignoredResources": ignored})])
