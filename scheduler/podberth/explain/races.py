"""Placed pods whose requirements another scheduler broke about the same time, for `berth explain` and for a plan."""

from collections.abc import Mapping, Sequence

from podberth.cache.cluster import Cluster
from podberth.engine.placement_conflicts import Conflict, PlacementConflicts, has_requirements
from podberth.evictor.conflicted import rank, related
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.promise import ANNOTATION
from podberth.model.shape import keeps_own


class Races:
    """Looks at placed pods. Others' pods are gathered when the first one is asked about that requires anything."""

    def __init__(self, cluster: Cluster, frameworks: Mapping[str, Framework]) -> None:
        self._cluster = cluster
        self._frameworks = frameworks
        self._conflicts: PlacementConflicts | None = None

    def of(self, pod: Pod) -> Conflict | None:
        """Return what does not hold for this pod because of another scheduler's; None: nothing, or it costs too much to
        tell.

        The pod has to be on its node.
        """
        if pod.scheduler_name not in self._frameworks or not has_requirements(pod):
            return None
        if self._conflicts is None:
            self._conflicts = PlacementConflicts(self._cluster, self._frameworks, all_others=True)
            for placement in self._cluster.placements():
                self._conflicts.other_placed(placement.pod)
        return self._conflicts.of(pod.uid)

    def mended(self, pod: Pod) -> bool:
        """Return whether the evictor may move a pod for that: its owner, or its profile, asks for it."""
        profile = self._frameworks[pod.scheduler_name].profile
        return keeps_own(pod.shape, by_profile=profile.required_during_execution)

    def note(self, pod: Pod) -> str:
        """Return what there is to say of a pod; empty: nothing."""
        conflict = self.of(pod)
        if conflict is None:
            return ""
        if self.mended(pod):
            return f"{conflict.text}; the evictor moves one of them"
        return f'{conflict.text}; nobody mends that: the evictor does for pods with the annotation {ANNOTATION}: "true"'


def in_turn(conflicts: Sequence[Conflict]) -> list[tuple[Conflict, Conflict | None]]:
    """Each with the one that goes before it: of several that are one conflict, the evictor takes one at a time."""
    found: list[tuple[Conflict, Conflict | None]] = []
    for conflict in conflicts:
        first = conflict
        for other in conflicts:
            if related(conflict, other) and rank(other.pod, first.pod) < rank(first.pod, other.pod):
                first = other
        found.append((conflict, None if first is conflict else first))
    return found
