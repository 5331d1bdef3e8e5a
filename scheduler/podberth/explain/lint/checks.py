"""Runs the checks of a configuration, and orders findings by what to mend first."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from podberth.explain.lint.arguments import arguments, weights
from podberth.explain.lint.finding import Checked, Finding
from podberth.explain.lint.packing import packing, preferences
from podberth.explain.lint.profiles import disabled, missing, named, no_preemption, reach, unknown, uses_priorities
from podberth.explain.lint.settings import settings
from podberth.explain.objects.world import World
from podberth.framework.config import ConfigError, Plugins, PluginSet, ProfileConfig, SchedulerConfiguration
from podberth.framework.interface import Plugin, Profile
from podberth.framework.profiles import NO_PLUGIN, at_multi_point, build_profile

_NEEDED = " is needed"
"""The end of what `build_profile` says of a point without a plugin that it has to have."""


class AnyArgs(Struct, rename="camel", frozen=True):
    """The arguments of a plugin that is not installed."""


class Absent(Plugin):
    """A stand-in for a plugin that is not installed, so that the rest of its profile can be checked."""

    Args = AnyArgs


def lint(config: SchedulerConfiguration, registry: Mapping[str, Any], world: World | None = None) -> list[Finding]:
    """Return the findings on a valid configuration. `world`: a cluster whose pods it is for, if there is one.

    Raises ConfigError when it is not, except for plugins that are not there: those are findings.
    """
    found: list[Finding] = []
    errors: list[str] = []
    profiles: list[Checked] = []
    for i, profile in enumerate(config.profiles):
        path = f"profiles[{i}]"
        found += unknown(profile, registry, path)
        try:
            built = _built(profile, registry, path)
        except ConfigError as error:
            errors += str(error).splitlines()
        else:
            if built is not None:
                profiles.append(Checked(profile, built, registry, path))
    if errors:
        raise ConfigError("\n".join(errors))
    found += settings(config)
    found += reach(profiles)
    if world is not None:
        found += named(profiles, world)
    for checked in profiles:
        for check in (missing, disabled, weights, arguments):
            found += check(checked)
        if world is None or uses_priorities(world):
            found += no_preemption(checked)
        found += packing(checked, config.percentage_of_nodes_to_score)
        found += preferences(checked)
    return found


def _built(config: ProfileConfig, registry: Mapping[str, Any], path: str) -> Profile | None:
    """Return the profile without the plugins that are not installed; None where it needs one of them.

    Raises ConfigError.
    """
    try:
        return build_profile(config, registry, path)
    except ConfigError as error:
        others = [line for line in str(error).splitlines() if NO_PLUGIN not in line]
        if others:
            raise ConfigError("\n".join(others)) from None
    # Their arguments stay, so that the places of the others are those of the file.
    absent = {plugin.name: Absent for plugin in config.plugin_config if plugin.name not in registry}
    used = {**absent, **{name: registry[name] for name in _named(config) if name in registry}}
    try:
        return build_profile(_without_unknown(config, registry), used, path)
    except ConfigError as error:
        if str(error).endswith(_NEEDED):
            return None
        raise


def _named(config: ProfileConfig) -> set[str]:
    """Return the plugins that a profile may run, or has arguments for; no others are imported."""
    points = (getattr(config.plugins, point) for point in Plugins.__struct_fields__)
    names = {ref.name for chosen in points for ref in chosen.enabled}
    return names | {ref.name for ref in at_multi_point(config)} | {plugin.name for plugin in config.plugin_config}


def _without_unknown(config: ProfileConfig, registry: Mapping[str, Any]) -> ProfileConfig:
    def known(chosen: PluginSet) -> PluginSet:
        return replace(chosen, enabled=[ref for ref in chosen.enabled if ref.name in registry])

    points = {point: known(getattr(config.plugins, point)) for point in Plugins.__struct_fields__}
    return replace(config, plugins=Plugins(**points))
