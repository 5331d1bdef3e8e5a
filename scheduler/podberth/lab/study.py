"""Plays a world with several profiles, and sets their results side by side: `berth simulate --trace`.

It is played as it is, with pods that come and go, and inflated, with pods that only come (`variations.inflated`).
"""

from collections.abc import Callable, Iterable
from math import inf

import msgspec
from msgspec.structs import replace

from podberth.framework.config import PluginConfig, PluginRef, Plugins, PluginSet, ProfileConfig, SchedulerConfiguration
from podberth.lab.gpus import SHARED_GPU, GPUShare, typical
from podberth.lab.play import run
from podberth.lab.result import Result
from podberth.lab.variations import filled, inflated, measure
from podberth.lab.world import World
from podberth.model.annotated import NOTHING_READ
from podberth.model.node import Node

Progress = Callable[[str], None]


def _filling(resources: Iterable[str]) -> PluginConfig:
    weights = [{"name": name, "weight": 1} for name in resources]
    return PluginConfig("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": weights}})


TRACE_PROFILES = SchedulerConfiguration(
    profiles=[
        ProfileConfig(scheduler_name="default"),
        ProfileConfig(scheduler_name="packed", plugin_config=[_filling(("cpu", "memory", SHARED_GPU))]),
    ]
)
"""`packed` fills the nodes that are the fullest, by CPU, memory and GPU alike; all else is as in `default`."""


def profiles_for(world: World, given: SchedulerConfiguration | None = None) -> SchedulerConfiguration:
    """Return the profiles with which a world is played: `given`, or TRACE_PROFILES.

    Where pods share GPUs, each has the plugin GPUShare, and beside TRACE_PROFILES there are two that score by what is
    left of single GPUs and nothing else: `packed-gpus` prefers GPUs and nodes in use, `fragmentation` what fragments
    the GPUs the least for the typical tasks of the world.
    """
    chosen = given or TRACE_PROFILES
    if measure(world) != SHARED_GPU:
        return chosen
    profiles = chosen.profiles
    if given is None:
        tasks = [msgspec.to_builtins(task) for task in typical(world.decoded(NOTHING_READ).arrivals)]
        profiles = [
            *profiles,
            *(
                ProfileConfig(
                    scheduler_name=name,
                    plugins=Plugins(score=PluginSet([PluginRef(GPUShare.name)], [PluginRef("*")])),
                    plugin_config=[PluginConfig(GPUShare.name, {"strategy": strategy, "tasks": tasks})],
                )
                for name, strategy in (("packed-gpus", "Packed"), ("fragmentation", "FragmentationGradient"))
            ),
        ]
    return replace(chosen, profiles=[_with_shares(profile) for profile in profiles])


def _with_shares(profile: ProfileConfig) -> ProfileConfig:
    """Return a profile with GPUShare, unless it has it."""
    points = profile.plugins
    if any(ref.name == GPUShare.name for ref in points.multi_point.enabled):
        return profile
    more = replace(points.multi_point, enabled=[*points.multi_point.enabled, PluginRef(GPUShare.name)])
    return replace(profile, plugins=replace(points, multi_point=more))


class Look(msgspec.Struct, rename="camel", frozen=True):
    """A look at a run of the first seed. `used`, `stranded`: of the resource by which the load is measured, as shares
    of all there is.
    """

    at: float
    nodes_in_use: int
    waiting: int
    used: float
    stranded: float


class Played(msgspec.Struct, rename="camel", frozen=True):
    """What became of a world by one profile."""

    profile: str
    figures: list[dict[str, float]]
    """Those of a Result, for each seed; of an inflation, all but the numbers of pods as they were at its end."""
    looks: list[Look]


class Study(msgspec.Struct, rename="camel", frozen=True):
    """A world, how it was played, and what came of it. Field names are stable; fields may be added."""

    world: str
    nodes: int
    pods: int
    seeds: int
    measure: str
    """The resource by which the load is measured; empty where pods ask for nothing that nodes have."""
    fill: float
    """Lifetimes were multiplied until the pods of some moment asked for this share of what is scarcest; 0: they are as
    they were.
    """
    load: float
    """In the inflation, what was asked for of `measure` over what is there."""
    departures: list[Played]
    """By profile, as pods come and go."""
    inflation: list[Played]
    """By profile, as they only come; empty where they ask for nothing."""


def study(
    world: World, configuration: SchedulerConfiguration, load: float, fill: float, seeds: int, progress: Progress
) -> Study:
    """Play the world with each profile and as many seeds."""
    resource = measure(world)
    longer = filled(world, fill) if fill else world
    names = [str(profile.scheduler_name) for profile in configuration.profiles]

    def played(name: str, what: str, worlds: Callable[[int], World], *, at_the_end: bool) -> Played:
        results = []
        for seed in range(seeds):
            progress(f"{name}: {what}, seed {seed + 1} of {seeds}")
            results.append(run(worlds(seed), configuration, profile=name, seed=seed))
        return Played(name, [_figures(each, at_the_end=at_the_end) for each in results], _looks(results[0], resource))

    inflations = [inflated(world, load, seed) for seed in range(seeds)] if resource else []
    return Study(
        world=world.name,
        nodes=sum(isinstance(thing, Node) for thing in world.decoded(NOTHING_READ).objects),
        pods=len(world.arrivals),
        seeds=seeds,
        measure=resource,
        fill=fill,
        load=load,
        departures=[played(name, "arrivals and departures", lambda _: longer, at_the_end=False) for name in names],
        inflation=[played(name, "inflation", inflations.__getitem__, at_the_end=True) for name in names if inflations],
    )


def _figures(result: Result, *, at_the_end: bool) -> dict[str, float]:
    if not at_the_end:
        return result.summary
    return result.figures(inf) | {name: result.summary[name] for name in ("pods", "bound", "bound_share")}


def _looks(result: Result, resource: str) -> list[Look]:
    used, free = result.columns["utilisation"], result.columns["fragmentation"]
    return [
        Look(at, nodes, waiting, taken / max(there, 1), stranded / max(there, 1))
        for at, name, nodes, waiting, taken, there, stranded in zip(
            *(used[name] for name in ("at", "resource", "nodes_in_use", "waiting", "used", "allocatable")),
            free["stranded"],
            strict=True,
        )
        if name == (resource or "cpu")
    ]
