"""Groups that go as a whole. What all their pods cost is summed up once, however many rows have pods of them."""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from scheduler.model.pod import Pod
from scheduler.model.pod_group import GroupKey
from scheduler.plugins.default_preemption.budgets import DrawnTogether
from scheduler.plugins.default_preemption.candidates import PRIORITY_OFFSET
from scheduler.plugins.default_preemption.importance import started
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.pod_groups import GroupState

_MOST = 1_000
"""For how many groups the sums are kept from attempt to attempt."""
_AT_ONCE = 500
"""How many pods are added between two charges."""


class Together:
    """Pods that go together, the most important first, and what they cost."""

    __slots__ = ("drawn", "highest", "placements", "start", "total")

    def __init__(self, placements: list[Placement]) -> None:
        self.placements: list[Placement] = []
        """Not to be changed by whoever asks."""
        self.highest = 0
        """The highest priority."""
        self.total = 0
        """The sum of the priorities."""
        self.start = ""
        """When the first of those with the highest priority started."""
        self.drawn = DrawnTogether()
        """What they draw on disruption budgets."""
        self.add(placements)

    def add(self, placements: list[Placement]) -> None:
        """Count more pods."""
        if not placements:
            return
        pods = [placement.pod for placement in placements]
        priorities = [pod.priority for pod in pods]
        highest = max(priorities)
        start = min([started(pod) for pod in pods if pod.priority == highest])
        if not self.placements or highest > self.highest:
            self.highest, self.start = highest, start
        elif highest == self.highest:
            self.start = min(self.start, start)
        self.total += sum(priorities) + PRIORITY_OFFSET * len(pods)
        self.placements += placements


class Whole(Struct, eq=False):
    """A victim on a row: a pod, or all pods of a group that goes as a whole."""

    key: str | GroupKey
    """Its UID, or the group."""
    here: list[Placement]
    """Its pods on this row."""
    group: Together | None
    """All pods of the group; None: it is a pod."""

    @property
    def everywhere(self) -> list[Placement]:
        """All its pods."""
        return self.here if self.group is None else self.group.placements

    def together(self) -> Together:
        """All its pods, and what they cost."""
        return Together(self.here) if self.group is None else self.group


class _Known(Struct, eq=False):
    version: int
    coming: Iterator[Pod]
    """Pods that are not counted yet."""
    sums: Together


class WholeGroups:
    """The sums of groups, each for one version of the group."""

    def __init__(self) -> None:
        self._known: dict[GroupKey, _Known] = {}

    def make_room(self) -> None:
        """Forget, where there are too many."""
        if len(self._known) > _MOST:
            self._known.clear()

    def of_row(self, lower: list[Placement], cluster: Cluster) -> list[Whole] | None:
        """The victims that these pods of a row are, in the same order; None: each goes for itself.

        Raises SliceOver.
        """
        groups = cluster.pod_groups
        if not len(groups):
            return None
        found: list[Whole] = []
        known: dict[GroupKey, Whole] = {}
        for placement in lower:
            state = groups.whole(placement.pod)
            if state is None:
                found.append(Whole(placement.pod.uid, [placement], None))
                continue
            whole = known.get(state.key)
            if whole is None:
                whole = known[state.key] = Whole(state.key, [], self._sums(state, cluster))
                found.append(whole)
            whole.here.append(placement)
        return found if known else None

    def _sums(self, state: GroupState, cluster: Cluster) -> Together:
        """All pods of a group that have a node; goes on where it was interrupted, if the group is the same."""
        known = self._known.get(state.key)
        if known is None or known.version != state.version:
            known = self._known[state.key] = _Known(
                state.version, cluster.pod_groups.with_node_in(state.key), Together([])
            )
        while some := list(islice(known.coming, _AT_ONCE)):
            there = (cluster.placement(pod.uid) for pod in some)
            known.sums.add([one for one in there if one is not None])
            cluster.effort.charge(len(some))
        return known.sums
