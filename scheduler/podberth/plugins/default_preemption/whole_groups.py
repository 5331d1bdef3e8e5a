"""Groups that go as a whole. What all their pods cost is summed up once, however many rows have pods of them."""

from msgspec import Struct

from podberth.cache.cluster import Cluster, Placement
from podberth.cache.groups import GroupState
from podberth.model.pod_group import GroupKey
from podberth.plugins.default_preemption.candidates import PRIORITY_OFFSET
from podberth.plugins.default_preemption.importance import started

_MOST = 1_000
"""For how many groups the sums are kept from attempt to attempt."""


class Together:
    """Pods that go together, the most important first, and what they cost."""

    __slots__ = ("highest", "placements", "start", "total")

    def __init__(self, placements: list[Placement]) -> None:
        self.placements = placements
        """Not to be changed by whoever asks."""
        pods = [placement.pod for placement in placements]
        self.highest = max((pod.priority for pod in pods), default=0)
        """The highest priority."""
        self.total = sum(pod.priority + PRIORITY_OFFSET for pod in pods)
        """The sum of the priorities."""
        self.start = min((started(pod) for pod in pods if pod.priority == self.highest), default="")
        """When the first of those with the highest priority started."""


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


class WholeGroups:
    """The sums of groups, each for one version of the group."""

    def __init__(self) -> None:
        self._known: dict[GroupKey, tuple[int, Together]] = {}
        """By group: its version, and the sums."""

    def make_room(self) -> None:
        """Forget, where there are too many."""
        if len(self._known) > _MOST:
            self._known.clear()

    def of_row(self, lower: list[Placement], cluster: Cluster) -> list[Whole] | None:
        """The victims that these pods of a row are, in the same order; None: each goes for itself."""
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
        """All pods of a group that have a node."""
        known = self._known.get(state.key)
        if known is not None and known[0] == state.version:
            return known[1]
        there = (cluster.placement(pod.uid) for pod in cluster.pod_groups.with_node_in(state.key))
        sums = Together([one for one in there if one is not None])
        self._known[state.key] = state.version, sums
        return sums
