"""The configuration as it takes effect: every default filled in, every profile's plugins listed point by point.

What comes out is a configuration again and means the same: `decode(effective(c))` builds the profiles that `c` builds.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from podberth.framework.config import API_VERSION, ProfileConfig, SchedulerConfiguration, convert, without_nulls
from podberth.framework.plugin import POINTS
from podberth.framework.profiles import build_profile, field_of, without_type

_EVERY_NODE = 100
_ALL = [{"name": "*"}]
_TYPED = frozenset(
    (
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    )
)
"""Plugins whose arguments kube-scheduler has a kind for, and writes it."""


def effective(config: SchedulerConfiguration, registry: Mapping[str, Any]) -> dict[str, Any]:
    """A KubeSchedulerConfiguration as plain values, in the order of its fields.

    Raises ConfigError when the configuration can't be built.
    """
    if not config.percentage_of_nodes_to_score:
        config = replace(config, percentage_of_nodes_to_score=_EVERY_NODE)
    found: dict[str, Any] = without_nulls(msgspec.to_builtins(config))
    found["profiles"] = [_profile(profile, registry, f"profiles[{i}]") for i, profile in enumerate(config.profiles)]
    return found


def _profile(config: ProfileConfig, registry: Mapping[str, Any], path: str) -> dict[str, Any]:
    built = build_profile(config, registry, path)
    weights_at = {"score": built.weights, "placement_score": built.placement_weights}
    plugins: dict[str, Any] = {}
    for point in POINTS:
        weights = weights_at.get(point)
        enabled: list[dict[str, Any]] = [
            {"name": plugin.name} if weights is None else {"name": plugin.name, "weight": weights[plugin.name]}
            for plugin in built.plugins(point)
        ]
        plugins[field_of(point)] = {"enabled": enabled, "disabled": _ALL} if enabled else {"disabled": _ALL}
    plugins["multiPoint"] = {"disabled": _ALL}
    made: dict[str, Any] = {"schedulerName": built.name}
    if config.percentage_of_nodes_to_score is not None:
        made["percentageOfNodesToScore"] = config.percentage_of_nodes_to_score
    used = {plugin.name for point in POINTS for plugin in built.plugins(point)}
    return made | {"plugins": plugins, "pluginConfig": _arguments(config, used, registry)}


def _arguments(config: ProfileConfig, used: set[str], registry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The arguments of every plugin that takes any, by name; those of a plugin that does not run too, if given."""
    given = {plugin.name: plugin.args for plugin in config.plugin_config}
    found = []
    for name in sorted(used | set(given)):
        kind = registry[name].Args
        if not msgspec.structs.fields(kind):
            continue
        args = convert(without_type(given.get(name, {})), kind, name)
        defaulted = args.defaulted() if hasattr(args, "defaulted") else args
        typed = {"apiVersion": API_VERSION, "kind": f"{name}Args"} if name in _TYPED else {}
        # As kube-scheduler writes them: a list that is empty is left out.
        filled = {key: value for key, value in without_nulls(msgspec.to_builtins(defaulted)).items() if value != []}
        if typed or filled:
            found.append({"name": name, "args": typed | filled})
    return found
