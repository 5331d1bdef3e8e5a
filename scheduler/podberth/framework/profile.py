"""A profile: the plugins of one schedulerName, point by point."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from podberth.framework.plugin import Plugin
from podberth.framework.reads import Source
from podberth.framework.reservation import Reservation
from podberth.framework.sampling import ALL_NODES
from podberth.model.annotated import Mode


@dataclass(frozen=True)
class Profile:
    """A schedulerName and its plugins by extension point, in the order they run."""

    name: str
    points: dict[str, tuple[Plugin, ...]]
    weights: dict[str, int]
    percentage: int = ALL_NODES
    """How many feasible nodes are enough, in percent of all nodes (percentageOfNodesToScore)."""

    args: Mapping[str, Any] = field(default_factory=dict)
    """In-tree plugin → its arguments."""
    placement_weights: Mapping[str, int] = field(default_factory=dict)
    """Plugin → its weight at the point placement_score."""

    def plugins(self, point: str) -> tuple[Any, ...]:
        return self.points.get(point, ())

    @cached_property
    def by_name(self) -> Mapping[str, Any]:
        """All its plugins."""
        return {plugin.name: plugin for plugins in self.points.values() for plugin in plugins}

    # -- what any of its plugins may ask for -------------------------------------------------------------------------

    @cached_property
    def sources(self) -> Mapping[tuple[str, str], Source[Any]]:
        """(plugin, source) → each source of its plugins."""
        return {(name, one.name): one for name, plugin in self.by_name.items() for one in plugin.reads.sources}

    @cached_property
    def reservation(self) -> tuple[str, Reservation] | None:
        """Return (plugin, its Reservation) of the first plugin that reserves nodes for groups; None: none does."""
        found = ((name, plugin.reservation) for name, plugin in self.by_name.items())
        return next(((name, wanted) for name, wanted in found if wanted is not None), None)

    @cached_property
    def required_during_execution(self) -> bool:
        """Return whether pods that say nothing are held to their own requirements while they run."""
        return any(plugin.required_during_execution for plugin in self.by_name.values())

    @cached_property
    def annotated_affinity(self) -> Mode | None:
        """Return what affinity by annotation does to pods of this profile: what the first plugin says that says
        anything.
        """
        modes = (plugin.annotated_affinity for plugin in self.by_name.values())
        return next((mode for mode in modes if mode is not None), None)

    def apart(self) -> "Profile":
        """The same profile with fresh in-tree plugins, which have kept nothing yet.

        Third-party plugins stay the same: their state may be more than kept results.
        """
        made: dict[str, Plugin] = {}

        def own(plugin: Any) -> Plugin:
            if plugin.name not in made:
                made[plugin.name] = type(plugin)(self.args[plugin.name]) if plugin.name in self.args else plugin
            return made[plugin.name]

        return replace(self, points={point: tuple(map(own, plugins)) for point, plugins in self.points.items()})
