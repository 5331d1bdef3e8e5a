"""A profile: the plugins of one schedulerName, point by point."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.framework.plugin import Plugin
from scheduler.framework.sampling import ALL_NODES


@dataclass(frozen=True, slots=True)
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
    """As `weights`, at the point placement_score."""

    def plugins(self, point: str) -> tuple[Any, ...]:
        """The plugins of one point."""
        return self.points.get(point, ())

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
