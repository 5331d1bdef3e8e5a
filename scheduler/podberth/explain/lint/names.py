"""Names of plugins that are not there, and switching off what does not run."""

from collections.abc import Iterator, Mapping
from typing import Any

from podberth.explain.lint.finding import Checked, Finding
from podberth.framework.config import ProfileConfig
from podberth.framework.declaration import declaration_of
from podberth.framework.plugin import POINTS
from podberth.framework.profiles import at_multi_point, field_of
from podberth.model.fields import nearest

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
    """Every place that names a plugin which is not there."""
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
    """Plugins that are switched off where they do not run anyway."""
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
