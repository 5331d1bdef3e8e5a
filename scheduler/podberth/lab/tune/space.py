"""The settings of a profile that a search may vary, and a configuration with values put in.

Only what changes decisions is varied: weights of scoring plugins, scoring strategies with their resources and shapes,
arguments that scores follow from. The share of nodes that is scored stays at all of them. Backoffs stay, too: an
attempt costs nothing on virtual time, so that the shortest would always seem the best.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import (
    ConfigError,
    PluginConfig,
    PluginRef,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)
from podberth.framework.profiles import build_profile, without_type
from podberth.lab.world import World
from podberth.model.annotated import NOTHING_READ
from podberth.model.kinds import Modelled
from podberth.model.namespaced import SelectingObject
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.resources import is_extended
from podberth.plugins.node_resources import STRATEGIES
from podberth.plugins.registry import registry
from podberth.plugins.shape_score import SHAPE_SCALE, broken_linear

Value = int | str | bool
Values = Mapping[str, Value]
"""Name of a setting → what it is set to."""
Object = Mapping[str, Any]

_HIGHEST = 10
"""The largest weight that is tried, unless the base has a larger one: only ratios of weights change decisions."""
_POINTS = (0, 50, 100)
"""Percent of utilization at which the shape of RequestedToCapacityRatio has a score of its own."""
_FIT, _BALANCED, _SPREAD, _AFFINITY = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "PodTopologySpread",
    "InterPodAffinity",
)
_STRATEGY, _SHAPE = f"{_FIT}.strategy", f"{_FIT}.shape."
_ALL = "all"
"""NodeResourcesBalancedAllocation balances all resources that pods of the world ask for."""
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_CONSTRAINTS: Mapping[str, Sequence[str] | None] = {"system": None, "none": (), "zone": (_ZONE,), "hostname": (_HOST,)}
"""Choice of default constraints → the topology keys of its list; None: kube-scheduler's own list."""


class Setting(msgspec.Struct, frozen=True):
    """One value that may vary: a whole number from `low` to `high`, or one of `choices`. `base`: where it begins."""

    name: str
    base: Value
    low: int = 0
    high: int = 0
    choices: tuple[Value, ...] = ()

    def __str__(self) -> str:
        values = "|".join(map(_text, self.choices)) or f"{self.low}..{self.high}"
        return f"{self.name} {values}"


def _text(value: Value) -> str:
    """Return a value as a configuration has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Space(msgspec.Struct, frozen=True):
    """What is varied of one profile. `idle`: weights that are not, as this world has nothing that the plugin scores."""

    base: SchedulerConfiguration
    profile: str
    settings: tuple[Setting, ...]
    resources: tuple[str, ...]
    """The resources that pods of the world ask for."""
    idle: tuple[str, ...] = ()

    def narrowed(self, patterns: Sequence[str]) -> "Space":
        """Return the space with the settings that a pattern such as `weight.*` names; all, where there is no pattern.

        Raises ObjectError for a pattern that names none, and for a shape that no strategy would read.
        """
        for pattern in patterns:
            if not any(fnmatchcase(setting.name, pattern) for setting in self.settings):
                there = ", ".join(setting.name for setting in self.settings)
                raise ObjectError(f"--vary: {msgspec.json.encode(pattern).decode()}: expected one or more of {there}")
        if not patterns:
            return self
        chosen = [each for each in self.settings if any(fnmatchcase(each.name, pattern) for pattern in patterns)]
        names, strategy = [each.name for each in chosen], self._strategy
        unread = [name for name in names if name.startswith(_SHAPE)]
        if unread and _STRATEGY not in names and strategy != STRATEGIES[2]:
            why = f"the strategy {strategy} reads no shape: vary {_STRATEGY}, too"
            raise ObjectError(f"--vary: {unread[0]}: {why}")
        return replace(self, settings=tuple(chosen))

    def begin(self) -> dict[str, Value]:
        """Return the values of the base."""
        return {setting.name: setting.base for setting in self.settings}

    def configuration(self, values: Values) -> SchedulerConfiguration:
        """Return the base with these values in its profile; what is as in the base is not written anew."""
        changed = self.changed(values)
        # Points that the base lacks keep their score when others are moved.
        shape = any(name.startswith(_SHAPE) for name in changed)
        new = {name: values[name] for name in values if name in changed or (shape and name.startswith(_SHAPE))}
        profiles = [
            _applied(each, new, self.resources) if each.scheduler_name == self.profile else each
            for each in self.base.profiles
        ]
        return replace(self.base, profiles=profiles)

    def changed(self, values: Values) -> dict[str, tuple[Value, Value]]:
        """Return the settings that differ from the base and have an effect: (its value, the new one).

        A plugin whose weight is 0 has no arguments to speak of, and only RequestedToCapacityRatio has a shape.
        """
        off = tuple(f"{name.removeprefix('weight.')}." for name, value in values.items() if _is_off(name, value))
        if values.get(_STRATEGY, self._strategy) != STRATEGIES[2]:
            off = (*off, _SHAPE)
        return {
            setting.name: (setting.base, values[setting.name])
            for setting in self.settings
            if values.get(setting.name, setting.base) != setting.base and not setting.name.startswith(off)
        }

    @property
    def _strategy(self) -> str:
        """Return the strategy of the base."""
        return _strategy(_args(_profile(self.base, self.profile), _FIT).get("scoringStrategy") or {})


def _is_off(name: str, value: Value) -> bool:
    return name.startswith("weight.") and value == 0


def space(base: SchedulerConfiguration, profile: str, world: World) -> Space:
    """Return all that may vary of a profile in a world.

    Raises ConfigError where the profile can't be built, ObjectError for an object that can't be read.
    """
    config = _profile(base, profile)
    built = build_profile(config, registry(), "profiles[0]")
    found = world.decoded(NOTHING_READ)
    things = [*found.objects, *found.arrivals, *(change for change in found.changes if not isinstance(change, tuple))]
    asked = {name for thing in things if isinstance(thing, Pod) for name in thing.shape.requests}
    resources = sorted(asked, key=lambda name: (is_extended(name), name))
    scored = _scored(things, config)
    settings: list[Setting] = []
    idle: list[str] = []
    for plugin in built.plugins("score"):
        if not scored.get(plugin.name, True):
            idle.append(f"weight.{plugin.name}")
            continue
        settings.append(_weight(f"weight.{plugin.name}", built.weights[plugin.name]))
        settings += _arguments(plugin.name, _args(config, plugin.name), resources)
    if not settings:
        raise ConfigError(f"profiles: {profile}: has no plugin at score whose weight would change a decision")
    return Space(base, profile, tuple(settings), tuple(resources), tuple(idle))


def _profile(base: SchedulerConfiguration, name: str) -> ProfileConfig:
    return next(each for each in base.profiles if each.scheduler_name == name)


def _scored(things: Sequence[Modelled], config: ProfileConfig) -> dict[str, bool]:
    """Return, for plugins of which it can be told, whether anything here is scored by them. All others count as
    scoring.
    """
    added = _args(config, "NodeAffinity").get("addedAffinity") or {}  # to the preferences of each pod
    prefers = bool(added.get("preferredDuringSchedulingIgnoredDuringExecution"))
    shapes = list({thing.shape for thing in things if isinstance(thing, Pod)})
    nodes = [thing for thing in things if isinstance(thing, Node)]
    selecting = any(isinstance(thing, SelectingObject) for thing in things)  # their pods are spread by default
    soft = any(taint.effect == "PreferNoSchedule" for node in nodes for taint in node.taints)
    return {
        "NodeAffinity": prefers or any(shape.has_preferred_node_affinity for shape in shapes),
        _AFFINITY: any(shape.affinity_terms or shape.preferred_pod_terms for shape in shapes),
        _SPREAD: selecting or any(shape.spread for shape in shapes),
        "DynamicResources": any(shape.claims for shape in shapes),
        "VolumeBinding": any(shape.volumes.claims for shape in shapes),
        "TaintToleration": soft,
        "ImageLocality": any(node.images for node in nodes),
    }


def _args(config: ProfileConfig, plugin: str) -> dict[str, Any]:
    return without_type(next((each.args for each in config.plugin_config if each.name == plugin), {}))


def _weight(name: str, base: int) -> Setting:
    """Return a setting that is a weight."""
    return Setting(name, base, 0, max(_HIGHEST, base))


def _arguments(plugin: str, args: Object, resources: Sequence[str]) -> list[Setting]:
    """Return what may vary of a plugin's arguments."""
    match plugin:
        case "NodeResourcesFit":
            given = args.get("scoringStrategy") or {}
            scores = _scores(given)
            there = broken_linear(np.array(_POINTS), sorted(scores.items())).tolist()
            weights = {each["name"]: each.get("weight") or 1 for each in given.get("resources") or ()}
            weights = weights or {"cpu": 1, "memory": 1}
            return [
                Setting(_STRATEGY, _strategy(given), choices=STRATEGIES),
                *(Setting(f"{_SHAPE}{at}", score, 0, SHAPE_SCALE) for at, score in zip(_POINTS, there, strict=True)),
                *(_weight(f"{_FIT}.resource.{name}", weights.get(name, 0)) for name in resources),
            ]
        case "NodeResourcesBalancedAllocation":
            balanced = [each["name"] for each in args.get("resources") or ()] or ["cpu", "memory"]
            usual = ",".join(balanced)
            all_of_them = set(balanced) >= set(resources)
            return [] if all_of_them else [Setting(f"{_BALANCED}.resources", usual, choices=(usual, _ALL))]
        case "InterPodAffinity":
            ignored = bool(args.get("ignorePreferredTermsOfExistingPods"))
            return [
                Setting(f"{_AFFINITY}.hardPodAffinityWeight", args.get("hardPodAffinityWeight", 1), 0, 100),
                Setting(f"{_AFFINITY}.ignorePreferredTermsOfExistingPods", ignored, choices=(False, True)),
            ]
        case "PodTopologySpread":
            own = args.get("defaultConstraints") or ()
            base = "given" if own else "none" if args.get("defaultingType") == "List" else "system"
            return [
                Setting(f"{_SPREAD}.defaultConstraints", base, choices=(*(["given"] if own else []), *_CONSTRAINTS))
            ]
    return []


def _strategy(given: Object) -> str:
    """Return the type of a scoringStrategy; without one, kube-scheduler's own."""
    return given.get("type") or STRATEGIES[0]


def _scores(strategy: Object) -> dict[int, int]:
    """Return the score at each utilization of a strategy's shape; one without a shape rises from 0 to 100 %."""
    shape = (strategy.get("requestedToCapacityRatio") or {}).get("shape")
    usual = {0: 0, 100: SHAPE_SCALE}
    return {point.get("utilization", 0): point.get("score", 0) for point in shape} if shape else usual


def _applied(config: ProfileConfig, values: Values, resources: Sequence[str]) -> ProfileConfig:
    """Return the profile with the values put in."""
    score = config.plugins.score
    for name, value in values.items():
        if name.startswith("weight."):
            score = _weighted(score, name.removeprefix("weight."), int(value))
    args = {each.name: each.args for each in config.plugin_config}
    _put(args, _FIT, _fit(values, args.get(_FIT, {})))
    if values.get(f"{_BALANCED}.resources") == _ALL:
        _put(args, _BALANCED, {"resources": [{"name": name, "weight": 1} for name in resources]})
    _put(args, _AFFINITY, {name.partition(".")[2]: each for name, each in values.items() if name.startswith(_AFFINITY)})
    chosen = values.get(f"{_SPREAD}.defaultConstraints", "given")
    if chosen != "given":
        keys = _CONSTRAINTS[str(chosen)]
        listed = [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"} for key in keys or ()]
        kind = "System" if keys is None else "List"
        _put(args, _SPREAD, {"defaultingType": kind, "defaultConstraints": listed})
    plugins = replace(config.plugins, score=score)
    return replace(config, plugins=plugins, plugin_config=[PluginConfig(name, each) for name, each in args.items()])


def _put(args: dict[str, dict[str, Any]], plugin: str, given: Object) -> None:
    if given:
        args[plugin] = {**args.get(plugin, {}), **given}


def _weighted(score: PluginSet, plugin: str, weight: int) -> PluginSet:
    """Return the plugins at score with a weight for one of them; 0 takes it out."""
    enabled = [ref for ref in score.enabled if ref.name != plugin]
    disabled = [ref for ref in score.disabled if ref.name != plugin]
    if weight:
        return PluginSet([*enabled, PluginRef(plugin, weight)], disabled)
    if not any(ref.name == "*" for ref in disabled):
        disabled.append(PluginRef(plugin))
    return PluginSet(enabled, disabled)


def _fit(values: Values, args: Object) -> dict[str, Any]:
    """Return the scoring strategy of the arguments with the values put in.

    Resources whose weight is 0 are left out; if all are, the list is kube-scheduler's own, cpu and memory.
    """
    mine = {name: value for name, value in values.items() if name.startswith(f"{_FIT}.")}
    if not mine:
        return {}
    given = args.get("scoringStrategy") or {}
    kind = mine.get(_STRATEGY, _strategy(given))
    weights = {each["name"]: each.get("weight") or 1 for each in given.get("resources") or ()}
    weights = weights or {"cpu": 1, "memory": 1}
    prefix = f"{_FIT}.resource."
    weights |= {name.removeprefix(prefix): int(value) for name, value in mine.items() if name.startswith(prefix)}
    found: dict[str, Any] = {
        "type": kind,
        "resources": [{"name": name, "weight": weight} for name, weight in weights.items() if weight]
        or [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
    }
    if kind == STRATEGIES[2]:
        new = {int(name.removeprefix(_SHAPE)): int(value) for name, value in mine.items() if name.startswith(_SHAPE)}
        points = sorted((_scores(given) | new).items())
        found["requestedToCapacityRatio"] = {"shape": [{"utilization": at, "score": score} for at, score in points]}
    return {"scoringStrategy": found}


def document(configuration: SchedulerConfiguration) -> dict[str, Any]:
    """Return a configuration as plain values, without top-level fields that are as by default, and without what is
    empty.
    """
    found, usual = (msgspec.to_builtins(each) for each in (configuration, SchedulerConfiguration()))
    header: dict[str, Any] = {name: found.pop(name) for name in ("apiVersion", "kind")}
    return header | dict(_filled({name: value for name, value in found.items() if value != usual[name]}))


def _filled(value: Any) -> Any:
    """Return plain values without what is empty; arguments of plugins stay as they are."""
    if isinstance(value, dict):
        parts = {name: each if name == "args" else _filled(each) for name, each in value.items()}
        return {name: each for name, each in parts.items() if each not in (None, {}, [])}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def packed(configuration: SchedulerConfiguration) -> bytes:
    """Return a configuration as JSON, as a task has it."""
    return msgspec.json.encode(document(configuration))
