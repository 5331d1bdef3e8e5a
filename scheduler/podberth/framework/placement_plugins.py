"""Asks the plugins that say on which nodes a pod group may be, and which of these placements is the best.

Mirrors kube-scheduler `framework/runtime/framework.go` (RunPlacementGeneratePlugins, RunPlacementScorePlugins).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.framework.guard import Guard
from podberth.framework.normalize import MAX_SCORE
from podberth.framework.placement import Assignment, Placement, Running
from podberth.framework.profile import Profile
from podberth.framework.status import PluginError, shown
from podberth.model.pod_group import PodGroup


class PlacementPlugins:
    """The plugins of one profile at these two points."""

    def __init__(self, profile: Profile, guard: Guard) -> None:
        self._generator = next(iter(profile.plugins("placement_generate")), None)
        weights = profile.placement_weights
        self._scorers = [(plugin, weights.get(plugin.name, 1)) for plugin in profile.plugins("placement_score")]
        self._ask = guard

    @property
    def wanted(self) -> bool:
        """Return whether groups are scheduled placement by placement. Otherwise the whole cluster is tried at once."""
        return self._generator is not None

    def generate(self, group: PodGroup, running: Sequence[Running], cluster: Cluster) -> list[Placement]:
        """The placements in the order in which they are tried, each with nodes.

        Raises PluginError.
        """
        plugin, nodes = self._generator, cluster.nodes
        found: Any = plugin and self._ask(plugin, plugin.placement_generate, group, running, cluster)
        if plugin is None or found is None:
            return [Placement("", np.flatnonzero(nodes.alive[: nodes.rows]))]
        for one in found:
            if not isinstance(one, Placement):
                raise PluginError(plugin.name, f"want placements, got {shown(one)}", "PlacementGenerate")
        return [one for one in found if len(one.rows)]

    def scores(self, assignment: Assignment, cluster: Cluster) -> tuple[int, ...]:
        """Each plugin's score of one placement, not normalized.

        Raises PluginError.
        """
        return tuple(int(self._ask(plugin, plugin.placement_score, assignment, cluster)) for plugin, _ in self._scorers)

    def totals(self, scores: Sequence[tuple[int, ...]]) -> list[int]:
        """The total of each placement, by what `scores` has said of each.

        Raises PluginError.
        """
        totals = [0] * len(scores)
        for (plugin, weight), said in zip(self._scorers, zip(*scores, strict=True), strict=True):
            normalized = self._ask(plugin, plugin.normalize_placements, said)
            for i, score in enumerate(normalized):
                if not 0 <= score <= MAX_SCORE:
                    wanted = f"want scores from 0 to {MAX_SCORE}, got {score}"
                    raise PluginError(plugin.name, wanted, "PlacementScore")
                totals[i] += score * weight
        return totals
