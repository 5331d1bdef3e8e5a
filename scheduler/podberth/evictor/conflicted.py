"""Decides which of the pods in conflict with another scheduler's is evicted, one at a time, and which nodes are read
before.

Evicting one of the pods that got in each other's way is enough. It is the one with the lowest priority, and of equal
ones the youngest; the next one has its turn when the API let nobody evict that one, or it has nowhere to go.
"""

from collections.abc import Iterator

from podberth.engine.placement_conflicts import Conflict
from podberth.evictor.followed import Broken, Stage
from podberth.evictor.observed import Observed
from podberth.model.pod import Pod

_STUCK = frozenset(("NoOtherNode", "DisruptionBudget", "TwoDisruptionBudgets", "EvictionRefused"))
"""Reasons of Events about a pod that may not go soon: another one may go in its place."""


class Conflicted:
    """Finds which pod of a conflict goes first, by an index of conflicts by pod."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._with: dict[str, dict[str, Broken]] = {}
        """UID of a pod → by UID, our pods that are in conflict with it, or it itself."""

    def look(self, broken: Broken) -> Conflict | None:
        """Look up the conflict of a pod again, and return it; None: there is none any more."""
        self.forget(broken)
        conflict = broken.conflict = self._observed.conflicts.of(broken.followed.pod.uid)
        if conflict is not None:
            for uid in _pods(conflict):
                self._with.setdefault(uid, {})[conflict.pod.uid] = broken
        return conflict

    def forget(self, broken: Broken) -> None:
        """Drop the conflict of a pod that is in none any more, or gone."""
        if broken.conflict is None:
            return
        for uid in _pods(broken.conflict):
            there = self._with[uid]
            del there[broken.conflict.pod.uid]
            if not there:
                del self._with[uid]
        broken.conflict = None

    def others_on(self, broken: Broken) -> str | None:
        """Return the node of one of the other scheduler's pods, to be read; None: none of them is placed any more."""
        for other in () if broken.conflict is None else broken.conflict.others:
            placement = self._observed.cluster.placement(other.uid)
            if placement is not None:
                return placement.pod.node_name
        return None

    def was_read(self, pods: frozenset[str]) -> None:
        """Note that a node was read, and that these pods (UIDs) are there and stay."""
        for uid in pods & self._with.keys():
            for own, broken in self._with[uid].items():
                if own != uid:
                    broken.others_read = True

    def waits(self, broken: Broken) -> bool:
        """Return whether another pod of the same conflict is to be evicted before this one."""
        return any(_comes_before(other, broken) for other in self._related(broken))

    def _related(self, broken: Broken) -> Iterator[Broken]:
        """Yield the other pods that are in the same conflict (`related`)."""
        conflict = broken.conflict
        seen = {broken.followed.pod.uid}
        for uid in () if conflict is None else _pods(conflict):
            for own, other in self._with[uid].items():
                if own not in seen and conflict is not None and other.conflict is not None:
                    seen.add(own)
                    if _about(other.conflict) == _about(conflict):
                        yield other


def related(one: Conflict, other: Conflict) -> bool:
    """Return whether two pods see the same conflict: one about the same thing, with a pod in common."""
    return _about(one) == _about(other) and not _pods(one).isdisjoint(_pods(other))


def _pods(conflict: Conflict) -> set[str]:
    """Return the UIDs of all pods in a conflict."""
    return {conflict.pod.uid, *(other.uid for other in conflict.others)}


def _about(conflict: Conflict) -> tuple[str, str, str]:
    return conflict.constraint, conflict.topology_key, conflict.domain


def _comes_before(one: Broken, other: Broken) -> bool:
    if one.stage in (Stage.EVICTING, Stage.LEAVING):
        return True
    return not (_STUCK & one.told) and rank(one.followed.pod, other.followed.pod) < rank(
        other.followed.pod, one.followed.pod
    )


def rank(pod: Pod, beside: Pod) -> tuple[int, str, str]:
    """Return the rank of a pod in a conflict with another one: the pod with the smaller rank is evicted first.

    The other's creation in place of its own: the later one of two is the younger.
    """
    return pod.priority, beside.created, pod.uid
