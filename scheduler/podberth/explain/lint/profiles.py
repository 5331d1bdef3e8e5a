"""Finds plugins that are not there, profiles that no pod reaches, and profiles that leave out what pods rely on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podberth.explain.judging.schema import shown
from podberth.explain.lint.finding import Checked, Finding
from podberth.explain.objects.world import World
from podberth.framework.config import ProfileConfig
from podberth.framework.declaration import declaration_of
from podberth.framework.interface import POINTS
from podberth.framework.profiles import at_multi_point, field_of
from podberth.model.mistakes import nearest
from podberth.model.pod import Pod
from podberth.model.selectors import is_qualified_name

_FIT = "NodeResourcesFit with scoringStrategy.type"
RETIRED = {
    "SelectorSpread": "PodTopologySpread, whose System defaults spread the pods of Services and controllers",
    "DefaultPodTopologySpread": "PodTopologySpread, whose System defaults spread the pods of Services and controllers",
    "NodeResourcesLeastAllocated": f"{_FIT} LeastAllocated",
    "NodeResourcesMostAllocated": f"{_FIT} MostAllocated",
    "RequestedToCapacityRatio": f"{_FIT} RequestedToCapacityRatio",
    "NodeLabel": "NodeAffinity with addedAffinity",
    "NodePreferAvoidPods": "a taint with the effect PreferNoSchedule",
    "EBSLimits": "NodeVolumeLimits",
    "GCEPDLimits": "NodeVolumeLimits",
    "AzureDiskLimits": "NodeVolumeLimits",
    "CinderLimits": "NodeVolumeLimits",
    "ResourceLimits": "nothing: no plugin scores limits any more",
}
"""Plugins that kube-scheduler had once → what does their work now."""

ELSEWHERE = frozenset(
    (
        "CapacityScheduling",
        "Coscheduling",
        "CrossNodePreemption",
        "LoadVariationRiskBalancing",
        "LowRiskOverCommitment",
        "NetworkOverhead",
        "NodeResourceTopologyMatch",
        "NodeResourcesAllocatable",
        "Peaks",
        "PodState",
        "PreemptionToleration",
        "QOSSort",
        "SySched",
        "TargetLoadPacking",
        "TopologicalSort",
    )
)
"""Plugins of kubernetes-sigs/scheduler-plugins: Go code, compiled into a scheduler of its own."""


def unknown(config: ProfileConfig, registry: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """Yield a finding for each place that names a plugin which does not exist."""
    for point in (*POINTS, "multi_point"):
        chosen = getattr(config.plugins, point)
        where = f"{path}.plugins.{field_of(point)}"
        for i, ref in enumerate(chosen.enabled):
            if ref.name not in registry:
                yield _absent(ref.name, f"{where}.enabled[{i}].name", registry)
        for i, ref in enumerate(chosen.disabled):
            if ref.name not in registry and ref.name != "*" and ref.name not in RETIRED and ref.name not in ELSEWHERE:
                yield Finding(
                    "disables-unknown-plugin",
                    f"{where}.disabled[{i}].name",
                    f"{ref.name} is to be switched off, and no plugin has this name",
                    "Nothing is switched off, and no error says so: the plugin that was meant goes on running.",
                    _meant(ref.name, registry) or "Remove the line.",
                )
    for i, plugin in enumerate(config.plugin_config):
        if plugin.name not in registry:
            yield _absent(plugin.name, f"{path}.pluginConfig[{i}].name", registry)


def disabled(checked: Checked) -> Iterator[Finding]:
    """Yield a finding for each plugin that is disabled where it does not run anyway."""
    general = {ref.name for ref in at_multi_point(checked.config)}
    usual = {ref.name for ref in at_multi_point(ProfileConfig())}
    for point, path, chosen in checked.sets():
        for i, ref in enumerate(chosen.disabled):
            plugin = checked.registry.get(ref.name)
            if plugin is None:
                continue
            there = usual if point == "multi_point" else general
            if ref.name in there and (point == "multi_point" or point in declaration_of(plugin).points):
                continue
            at = field_of(point)
            yield Finding(
                "disables-nothing",
                f"{path}.disabled[{i}].name",
                f"{ref.name} is switched off at {at}, where it does not run",
                "The line has no effect; where the plugin does run, it goes on running.",
                _runs_at(checked, ref.name),
            )


def _absent(name: str, path: str, registry: Mapping[str, Any]) -> Finding:
    refused = "`berth run` refuses the file."
    if name in RETIRED:
        what = f"{name} is a plugin that kube-scheduler had once"
        return Finding("retired-plugin", path, what, refused, f"Use {RETIRED[name]}.")
    if name in ELSEWHERE:
        what = f"{name} is a plugin of kubernetes-sigs/scheduler-plugins, which is not installed here"
        why = f"It is Go code that is compiled into a scheduler of its own. {refused}"
        remedy = (
            "Install a Python package that offers a plugin of this name (entry point podberth.plugins), or remove it."
        )
        return Finding("plugin-not-installed", path, what, why, remedy)
    meant = _meant(name, registry)
    install = "Install the package that offers it (entry point podberth.plugins), or remove the line."
    what = f"{name}: no plugin of this name, neither in Berth nor in an installed package"
    return Finding("unknown-plugin", path, what, refused, meant or install)


def _meant(name: str, registry: Mapping[str, Any]) -> str:
    near = nearest(name, list(registry))
    return f"Did you mean {near}?" if near else ""


def _runs_at(checked: Checked, name: str) -> str:
    points = [field_of(point) for point in POINTS if checked.runs(name, point)]
    return f"Remove the line, or switch it off where it runs: {', '.join(points)}." if points else "Remove the line."


KUBE_SCHEDULER = "default-scheduler"
_CONSEQUENCES = {
    "NodeName": "pods may go to another node than the one they name",
    "NodeUnschedulable": "pods go to nodes that are cordoned",
    "TaintToleration": "pods go to nodes whose taints they do not tolerate, and NoExecute taints evict them again",
    "NodeAffinity": "nodeSelector and node affinity are not looked at, and the kubelet refuses the pod (NodeAffinity)",
    "NodePorts": "two pods get one host port, and the kubelet refuses the second (NodePorts)",
    "NodeResourcesFit": "nodes are filled beyond what they have, and the kubelet refuses pods (OutOfcpu, OutOfmemory)",
    "VolumeRestrictions": "a ReadWriteOncePod claim is used twice",
    "NodeVolumeLimits": "more volumes are attached to a node than it can take",
    "VolumeBinding": "claims that wait for their first consumer are never bound, and the pod never starts",
    "VolumeZone": "pods go to zones where their volumes are not",
    "PodTopologySpread": "constraints that say DoNotSchedule are passed over",
    "InterPodAffinity": "required affinity and anti-affinity between pods are passed over",
}


def reach(profiles: Sequence[Checked]) -> Iterator[Finding]:
    """Yield findings on profile names: another scheduler's, ones that Events can't carry, or ones that look alike."""
    seen: dict[str, str] = {}
    for checked in profiles:
        name, path = checked.profile.name, f"{checked.path}.schedulerName"
        if name == KUBE_SCHEDULER:
            yield Finding(
                "profile-of-kube-scheduler",
                path,
                "the profile has the name that kube-scheduler answers to",
                "Both bind the same pods: they race for every pod that names no scheduler, and overfill nodes.",
                "Give the profile a name of its own, and let pods name it in spec.schedulerName.",
            )
        if not is_qualified_name(name):
            yield Finding(
                "profile-name-unusable",
                path,
                f"{shown(name)} is not a name that an Event can have as reportingController",
                "The API server refuses every event of this profile, so a pending pod has no event that says why.",
                "Use letters, digits, '-', '_' and '.', at most 63.",
            )
        alike = "".join(letter for letter in name.lower() if letter.isalnum())
        if alike in seen:
            yield Finding(
                "profile-names-alike",
                path,
                f"{shown(name)} and {shown(seen[alike])} differ in case or punctuation only",
                "A pod that spells it the other way is scheduled by the other profile, and no error says so.",
                "Choose names that can't be taken for each other.",
            )
        seen.setdefault(alike, name)


def missing(checked: Checked) -> Iterator[Finding]:
    """Yield default plugins that the profile does without, and what that means."""
    path = f"{checked.path}.plugins"
    if not checked.runs("SchedulingGates", "pre_enqueue"):
        yield Finding(
            "gates-missing",
            f"{path}.preEnqueue",
            "SchedulingGates does not run",
            "Pods with scheduling gates are tried all the same, and the API server refuses every binding of theirs.",
            "Enable SchedulingGates.",
        )
    absent = [name for name in _CONSEQUENCES if not checked.runs(name, "filter")]
    if absent:
        yield Finding(
            "filters-missing",
            f"{path}.filter",
            f"{', '.join(absent)} {'does' if len(absent) == 1 else 'do'} not filter nodes",
            f"{'; '.join(f'without {name} {_CONSEQUENCES[name]}' for name in absent)}.",
            "Enable them at filter or multiPoint.",
        )
    if not checked.profile.plugins("score"):
        yield Finding(
            "scores-missing",
            f"{path}.score",
            "no plugin scores nodes",
            "Every node that fits is as good as any other: the choice is by lot.",
            "Enable at least NodeResourcesFit at score.",
        )


def no_preemption(checked: Checked) -> Iterator[Finding]:
    """Yield a finding for a profile whose pods can't preempt each other."""
    if not checked.profile.plugins("post_filter"):
        yield Finding(
            "preemption-missing",
            f"{checked.path}.plugins.postFilter",
            "no plugin makes room for pods (DefaultPreemption does not run)",
            "A pod of high priority comes first in the queue, and then waits until a node has room.",
            "Enable DefaultPreemption, or give all pods of this profile preemptionPolicy: Never so that it is plain.",
        )


def named(profiles: Sequence[Checked], world: World) -> Iterator[Finding]:
    """Yield findings on profiles that no pod names, and on pods that nearly name one."""
    pods: list[Pod] = [*world.waiting.values(), *world.placed.values(), *world.finished.values()]
    asked = Counter(pod.scheduler_name for pod in pods)
    names = {checked.profile.name: f"{checked.path}.schedulerName" for checked in profiles}
    for name, path in names.items():
        if not asked[name]:
            yield Finding(
                "profile-unused",
                path,
                f"none of {len(pods)} pods names {name}",
                "A profile decides for pods whose spec.schedulerName is its name, and for no other.",
                "Name it in the pods (or let a MetadataPolicy do so), or remove the profile.",
            )
    waiting = Counter(pod.scheduler_name for pod in world.waiting.values())
    for name, count in sorted(waiting.items()):
        meant = None if name in names or not name else nearest(name, list(names))
        if meant is not None:
            yield Finding(
                "profile-misspelt",
                names[meant],
                f"{count} waiting {'pod names' if count == 1 else 'pods name'} {shown(name)}, "
                "which no profile is called",
                f"No scheduler binds them, and no error says so. {meant} was probably meant.",
                f"Let them name {meant}: the pods have to be created again for that.",
            )


def uses_priorities(world: World) -> bool:
    """Return whether one pod could preempt another: their priorities differ."""
    return len({pod.priority for pods in (world.waiting, world.placed) for pod in pods.values()}) > 1
