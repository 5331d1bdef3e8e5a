"""From a configured profile to the plugins that run: defaults, multiPoint, precedence, arguments.

Mirrors kube-scheduler `apis/config/v1/default_plugins.go` (mergePlugins) and `framework/runtime/framework.go`
(expandMultiPointPlugins, getScoreWeights). `effective` is the way back: the configuration as it takes effect.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from podberth.framework.config import (
    API_VERSION,
    MAX_WEIGHT,
    ConfigError,
    PluginRef,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
    convert,
    without_nulls,
)
from podberth.framework.declaration import Foreign, declaration_of, is_foreign, problems_of_options
from podberth.framework.extenders import without_ignored
from podberth.framework.guard import described
from podberth.framework.interface import ALL_NODES, POINTS, Profile
from podberth.framework.runtime import Framework
from podberth.model.annotated import AnnotationsRead
from podberth.model.mistakes import nearest

DEFAULT_MULTI_POINT = (
    PluginRef("SchedulingGates"),
    PluginRef("PrioritySort"),
    PluginRef("NodeName"),
    PluginRef("NodeUnschedulable"),
    PluginRef("TaintToleration", 3),
    PluginRef("NodeAffinity", 2),
    PluginRef("NodePorts"),
    PluginRef("NodeResourcesFit", 1),
    PluginRef("VolumeRestrictions"),
    PluginRef("NodeVolumeLimits"),
    PluginRef("VolumeBinding"),
    PluginRef("VolumeZone"),
    PluginRef("PodTopologySpread", 2),
    PluginRef("InterPodAffinity", 2),
    PluginRef("DynamicResources", 2),
    PluginRef("DefaultPreemption"),
    PluginRef("NodeResourcesBalancedAllocation", 1),
    PluginRef("ImageLocality", 1),
    PluginRef("DefaultBinder"),
    PluginRef("NodeDeclaredFeatures"),
    PluginRef("GangScheduling"),
    PluginRef("RequiredDuringExecution"),
)
"""kube-scheduler's default plugins in its order, then GangScheduling, which is behind a gate there, and Berth's own."""

_UPSTREAM_ALSO = {
    "pre_enqueue": ("DefaultPreemption",),
    "pre_filter": (
        "NodeUnschedulable",
        "TaintToleration",
        "NodePorts",
        "NodeResourcesFit",
        "NodeVolumeLimits",
        "NodeDeclaredFeatures",
    ),
    "pre_score": (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
    ),
    "permit": ("GangScheduling",),
}
"""Points that a plugin has in kube-scheduler and not in Berth. A configuration may name them; they have no effect."""

_CAMEL = {point: point.split("_")[0] + "".join(word.title() for word in point.split("_")[1:]) for point in POINTS}
NO_PLUGIN = "no plugin of this name"
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
_NEEDED = {"queue_sort": "one queueSort plugin", "bind": "at least one bind plugin"}


def build(config: SchedulerConfiguration, registry: Mapping[str, Any]) -> dict[str, Framework]:
    """schedulerName → framework.

    Raises ConfigError with a line for each thing that is wrong.
    """
    config = without_ignored(config)
    frameworks: dict[str, Framework] = {}
    errors: list[str] = []
    sorting: tuple[str, Mapping[str, Any]] | None = None
    for i, profile in enumerate(config.profiles):
        try:
            built = build_profile(profile, registry, f"profiles[{i}]")
        except ConfigError as error:
            errors.append(str(error))
        else:
            own = _sorting(built, profile)
            sorting = own if sorting is None else sorting
            if own != sorting:
                others = f'the first has "{sorting[0]}"' if own[0] != sorting[0] else "its arguments, too"
                where = f'profiles[{i}].plugins.queueSort: Invalid value: "{own[0]}"'
                errors.append(f"{where}: must be the same for all profiles: {others}")
            percentage = profile.percentage_of_nodes_to_score
            if percentage is None:
                percentage = config.percentage_of_nodes_to_score
            if percentage in (None, 100):
                percentage = ALL_NODES
            frameworks[built.name] = Framework(replace(built, percentage=percentage))
    if errors:
        raise ConfigError("\n".join(errors))
    return frameworks


def _sorting(built: Profile, config: ProfileConfig) -> tuple[str, Mapping[str, Any]]:
    """Return the QueueSort plugin of a profile, and its arguments: the pods of all profiles are in one queue."""
    (plugin,) = built.plugins("queue_sort")
    given = (one.args for one in config.plugin_config if one.name == plugin.name)
    return plugin.name, without_type(next(given, {}))


def annotated(frameworks: Mapping[str, Framework]) -> AnnotationsRead:
    """Return the annotations that these profiles read, as `model.kinds.Decoder` wants it."""
    modes = ((name, framework.profile.annotated_affinity) for name, framework in frameworks.items())
    plugins = [plugin for framework in frameworks.values() for plugin in framework.profile.by_name.values()]
    return AnnotationsRead(
        {name: mode for name, mode in modes if mode is not None},
        frozenset(key for plugin in plugins for key in plugin.reads.node_annotations),
        frozenset(key for plugin in plugins for key in plugin.reads.pod_annotations),
    )


def build_profile(config: ProfileConfig, registry: Mapping[str, Any], path: str) -> Profile:
    """Instantiate one profile's plugins.

    Raises ConfigError.
    """
    errors = _unknown_plugins(config, registry, path)
    registry = _usable(config, registry)
    multi_point = _merge(config.plugins.multi_point, errors, f"{path}.plugins.multiPoint")
    names: dict[str, list[str]] = {}
    for point in POINTS:
        own: PluginSet = getattr(config.plugins, point)
        names[point] = _expand(point, own, multi_point, registry, errors, f"{path}.plugins.{_CAMEL[point]}")
    if errors:
        raise ConfigError("\n".join(errors))
    args: dict[str, Any] = {}
    plugins = _instantiate(config, {name for found in names.values() for name in found}, registry, path, args)
    points = {point: tuple(plugins[name] for name in found) for point, found in names.items()}
    for point, wanted in _NEEDED.items():
        if not points[point] or (point == "queue_sort" and len(points[point]) > 1):
            raise ConfigError(f"{path}.plugins.{_CAMEL[point]}: Invalid value: {wanted} is needed")
    if len(points["placement_generate"]) > 1:
        raise ConfigError(
            f"{path}.plugins.placementGenerate: Invalid value: at most one plugin may generate placements"
        )
    weights, for_placements = (
        _weights(own.enabled, multi_point) for own in (config.plugins.score, config.plugins.placement_score)
    )
    return Profile(config.scheduler_name or "", points, weights, args=args, placement_weights=for_placements)


def _weights(own: Iterable[PluginRef], multi_point: Iterable[PluginRef]) -> dict[str, int]:
    """Plugin → weight: a point's own word of it goes before that of multiPoint; 0 stands for 1 (getScoreWeights)."""
    weights: dict[str, int] = {}
    for ref in (*own, *multi_point):
        weights.setdefault(ref.name, ref.weight or 1)
    return weights


def _unknown_plugins(config: ProfileConfig, registry: Mapping[str, Any], path: str) -> list[str]:
    errors = []
    for point in (*POINTS, "multi_point"):
        chosen: PluginSet = getattr(config.plugins, point)
        for i, ref in enumerate(chosen.enabled):
            where = f"{path}.plugins.{field_of(point)}.enabled[{i}]"
            problem = _unusable(ref.name, f"{where}.name", registry)
            if problem:
                errors.append(problem)
            elif point != "multi_point" and not _may_name(registry, ref.name, point):
                errors.append(f'{where}.name: Invalid value: "{ref.name}": does not implement {_CAMEL[point]}')
            if ref.weight is not None and not 0 <= ref.weight <= MAX_WEIGHT:
                errors.append(f"{where}.weight: Invalid value: {ref.weight}: not in valid range [0-{MAX_WEIGHT}]")
    if config.plugins.pod_group_post_filter.enabled:
        where = f"{path}.plugins.podGroupPostFilter.enabled"
        errors.append(f"{where}: Forbidden: the plugins at postFilter are asked about groups, too")
    for i, plugin in enumerate(config.plugin_config):
        problem = _unusable(plugin.name, f"{path}.pluginConfig[{i}].name", registry)
        if problem:
            errors.append(problem)
    return errors


def _unusable(name: str, path: str, registry: Mapping[str, Any]) -> str:
    """Return what keeps a named plugin from being used; empty: nothing."""
    if name not in registry:
        meant = nearest(name, list(registry))
        hint = f" (did you mean {meant}?)" if meant else ""
        return f'{path}: Invalid value: "{name}": {NO_PLUGIN}{hint}'
    try:
        registry[name]
    except ConfigError as error:
        return f'{path}: Invalid value: "{name}": {error}'
    return ""


def _usable(config: ProfileConfig, registry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plugins that a profile may run or has arguments for; others that are installed are not imported."""
    refs = [ref for point in (*POINTS, "multi_point") for ref in getattr(config.plugins, point).enabled]
    names = {ref.name for ref in (*refs, *DEFAULT_MULTI_POINT)} | {plugin.name for plugin in config.plugin_config}
    return {name: registry[name] for name in names if not _unusable(name, "", registry)}


def _may_name(registry: Mapping[str, Any], name: str, point: str) -> bool:
    return point in declaration_of(registry[name]).points or name in _UPSTREAM_ALSO.get(point, ())


def without_type(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without the apiVersion and kind that kube-scheduler writes into them."""
    return {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}


def field_of(point: str) -> str:
    """Return the field of a configuration that an extension point has; multi_point is one here too."""
    return _CAMEL.get(point, "multiPoint")


def at_multi_point(config: ProfileConfig) -> list[PluginRef]:
    """Return what a profile has at multiPoint: the defaults with its changes."""
    return _merge(config.plugins.multi_point, [], "")


def _merge(custom: PluginSet, errors: list[str], path: str) -> list[PluginRef]:
    """Return the default multiPoint list with the profile's changes: a re-configured default stays in its place."""
    disabled = {ref.name for ref in custom.disabled}
    replaced = {}
    for i, ref in enumerate(custom.enabled):
        if ref.name in replaced:
            errors.append(f'{path}.enabled[{i}].name: Duplicate value: "{ref.name}"')
        replaced[ref.name] = ref
    merged = []
    placed = set()
    if "*" not in disabled:
        for ref in DEFAULT_MULTI_POINT:
            if ref.name in disabled:
                continue
            if ref.name in replaced:
                placed.add(ref.name)
            merged.append(replaced.get(ref.name, ref))
    return merged + [ref for name, ref in replaced.items() if name not in placed]


def _expand(
    point: str,
    own: PluginSet,
    multi_point: list[PluginRef],
    registry: Mapping[str, Any],
    errors: list[str],
    path: str,
) -> list[str]:
    """Return the names at one point: overrides first, then multiPoint's order, then the rest of the point's own."""

    def has(name: str) -> bool:
        return name in registry and point in declaration_of(registry[name]).points

    mine: list[str] = []
    for i, ref in enumerate(own.enabled):
        if ref.name in mine:
            errors.append(f'{path}.enabled[{i}].name: Duplicate value: "{ref.name}"')
        elif has(ref.name):
            mine.append(ref.name)
    disabled = {ref.name for ref in own.disabled}
    if "*" in disabled:
        return mine
    general = [ref.name for ref in multi_point if has(ref.name) and ref.name not in disabled]
    overrides = [name for name in mine if name in general]
    return overrides + [name for name in general if name not in mine] + [name for name in mine if name not in general]


def _instantiate(
    config: ProfileConfig, names: set[str], registry: Mapping[str, Any], path: str, made_with: dict[str, Any]
) -> dict[str, Any]:
    """Return the plugins by name, also those that only have arguments; `made_with` gets those of in-tree plugins."""
    args = {plugin.name: (f"[{i}]", plugin.args) for i, plugin in enumerate(config.plugin_config)}
    plugins: dict[str, Any] = {}
    errors: list[str] = []
    for name in sorted(names | set(args)):
        plugin_class = registry[name]
        entry, given = args.get(name, (f"[{name}]", {}))  # without an entry, it is named as one that is missing
        where = f"{path}.pluginConfig{entry}.args"
        given = without_type(given)
        try:
            parsed = convert(given, plugin_class.Args, where)
            problems = plugin_class.check(parsed, where)
            if problems:
                errors.extend(problems)
                continue
            plugins[name] = _make(plugin_class, parsed, path)
            if not is_foreign(plugin_class):
                made_with[name] = parsed
        except ConfigError as error:
            errors.append(str(error))
        except ValueError as error:
            errors.append(f"{where}.{error}")
    if errors:
        raise ConfigError("\n".join(errors))
    return plugins


def _make(plugin_class: Any, args: Any, path: str) -> Any:
    """Return the plugin. Whatever a third-party constructor raises is reported as an error of the configuration."""
    if not is_foreign(plugin_class):
        return plugin_class(args)
    where = f'{path}: plugin "{plugin_class.name}" of {plugin_class.__module__}'
    try:
        plugin = Foreign(plugin_class(args))
        problems = problems_of_options(plugin)
    except ValueError:
        raise
    except BaseException as error:  # SystemExit too: a plugin does not end the process
        raise ConfigError(f"{where}: {described(error)}") from error
    if problems:
        raise ConfigError(f"{where}: {'; '.join(problems)}")
    return plugin


def effective(config: SchedulerConfiguration, registry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration as plain values, in the order of its fields.

    Raises ConfigError when the configuration can't be built.
    """
    if not config.percentage_of_nodes_to_score:
        config = msgspec.structs.replace(config, percentage_of_nodes_to_score=_EVERY_NODE)
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
    used |= {ref.name for ref in at_multi_point(config)}  # as kube-scheduler does, though each point may disable it
    return made | {"plugins": plugins, "pluginConfig": _arguments(config, used, registry)}


def _arguments(config: ProfileConfig, used: set[str], registry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of each plugin that takes any, by name; of one that does not run, if some are given."""
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
