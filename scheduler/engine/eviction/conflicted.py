"""Pods in conflict with another scheduler's: who of them goes, one at a time, and what is read before.

Evicting one of the pods that got in each other's way is enough. It is the one with the lowest priority, and of equal
ones the youngest; the next one has its turn when the API let nobody evict that one, or it has nowhere to go.
"""

from scheduler.engine.eviction.followed import Broken, Stage
from scheduler.engine.eviction.observed import Observed
from scheduler.engine.placement_conflicts import Conflict
from scheduler.model.pod import Pod

_STUCK = frozenset(("NoOtherNode", "DisruptionBudget", "TwoDisruptionBudgets", "EvictionRefused"))
"""Events about a pod that may not go soon: another one may in its place."""
_Domain = tuple[str, str, str]


class Conflicted:
    """All conflicts, by what the conflict is about: kind of requirement, topology key, domain."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._by_domain: dict[_Domain, dict[str, Broken]] = {}

    def look(self, broken: Broken) -> Conflict | None:
        """What is wrong with a pod now; None: nothing any more."""
        self.forget(broken)
        conflict = broken.conflict = self._observed.conflicts.of(broken.followed.pod.uid)
        if conflict is not None:
            self._by_domain.setdefault(_domain(conflict), {})[broken.followed.pod.uid] = broken
        return conflict

    def forget(self, broken: Broken) -> None:
        """A pod is in no conflict any more, or gone."""
        if broken.conflict is None:
            return
        there = self._by_domain[_domain(broken.conflict)]
        del there[broken.followed.pod.uid]
        if not there:
            del self._by_domain[_domain(broken.conflict)]
        broken.conflict = None

    def others_on(self, broken: Broken) -> str | None:
        """The node of one of the other scheduler's pods, to be read; None: it is gone from there."""
        for other in () if broken.conflict is None else broken.conflict.others:
            placement = self._observed.cluster.placement(other.uid)
            if placement is not None:
                return self._observed.node(placement.row)
        return None

    def was_read(self, pods: frozenset[str]) -> None:
        """A node was read, and these pods (UIDs) are there and stay."""
        for there in self._by_domain.values():
            for broken in there.values():
                conflict = broken.conflict
                if conflict is not None and any(other.uid in pods for other in conflict.others):
                    broken.others_read = True

    def waits(self, broken: Broken) -> bool:
        """Whether another pod of the same conflict goes first."""
        conflict = broken.conflict
        if conflict is None:
            return False
        return any(
            other is not broken and related(conflict, other.conflict) and _comes_before(other, broken)
            for other in self._by_domain[_domain(conflict)].values()
        )


def _domain(conflict: Conflict) -> _Domain:
    return conflict.constraint, conflict.topology_key, conflict.domain


def related(one: Conflict, other: Conflict | None) -> bool:
    """Whether it is one and the same conflict, seen from two pods."""
    if other is None:
        return False
    in_one, in_other = {pod.uid for pod in one.others}, {pod.uid for pod in other.others}
    return bool(in_one & in_other) or other.pod.uid in in_one or one.pod.uid in in_other


def _comes_before(one: Broken, other: Broken) -> bool:
    if one.stage in (Stage.EVICTING, Stage.LEAVING):
        return True
    return not (_STUCK & one.told) and rank(one.followed.pod, other.followed.pod) < rank(
        other.followed.pod, one.followed.pod
    )


def rank(pod: Pod, beside: Pod) -> tuple[int, str, str]:
    """Of two pods in one conflict, the one whose rank is smaller goes first.

    The other's creation in place of its own: the later one of two is the younger.
    """
    return pod.priority, beside.created, pod.uid
