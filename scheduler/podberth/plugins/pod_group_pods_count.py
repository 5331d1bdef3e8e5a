"""PodGroupPodsCount: the placement into which more pods of the group fit is the better one.

Mirrors kube-scheduler `framework/plugins/podgrouppodscount`, which it knows only with the feature gate
TopologyAwareWorkloadScheduling (alpha).
"""

from collections.abc import Sequence

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAX_SCORE, Assignment, Plugin


class AnyArgs(Struct, rename="camel", frozen=True):
    """Arguments are accepted and have no effect."""


class PodGroupPodsCount(Plugin):
    """Scores by the number of pods, those that run already included."""

    name = "PodGroupPodsCount"
    Args = AnyArgs
    events = ClusterEvent.NOTHING

    def placement_score(self, assignment: Assignment, cluster: Cluster) -> int:
        """Return how many pods the group would have on nodes."""
        return assignment.running + len(assignment.pods)

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """Return each number in percent of the highest."""
        most = max(scores)
        if not most:
            raise ValueError("no pods from pod group are assigned to any of the candidate placements")
        return [score * MAX_SCORE // most for score in scores]
