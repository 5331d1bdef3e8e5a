"""Sums of the placed pods' terms that select a pod: how many pods have these terms, per value of a topology key."""

from enum import IntEnum

from podberth.cache.column import Codes, Ints
from podberth.cache.nodes import Nodes
from podberth.cache.pod_classes import PodClasses
from podberth.cache.row_counts import RowCounts
from podberth.cache.sums import ByTopology
from podberth.cache.weights import Weights

REPELS = 0
"""The weight of required anti-affinity."""
HARD = 1 << 20
"""The weight of required affinity, which scores with the plugin's hardPodAffinityWeight."""


class Kind(IntEnum):
    """What a term of a placed pod wants of the pod that it selects. Each kind is added up by itself.

    Preferences are two kinds, by their sign: pods that attract as much as they avoid count, though they add up to
    nothing.
    """

    REPELS = 0
    """Required anti-affinity."""
    HARD = 1
    """Required affinity."""
    ATTRACTS = 2
    """Preferred affinity; this kind and the next count by their weights."""
    AVOIDS = 3
    """Preferred anti-affinity."""


def kind_of(weight: int) -> Kind:
    """The kind of a term with this weight."""
    if weight in (REPELS, HARD):
        return Kind.REPELS if weight == REPELS else Kind.HARD
    return Kind.ATTRACTS if weight > 0 else Kind.AVOIDS


class ExistingTermSums:
    """Sums for pods that the same terms select. Placed pods are counted by the set of terms that they have."""

    def __init__(self, by: bytes) -> None:
        """`by`: the numbers of the terms (`existing_terms.pack`)."""
        self.repelled: dict[str, ByTopology]
        """Pods that keep it away (required anti-affinity), each as often as its terms do."""
        self.hard: dict[str, ByTopology]
        """Pods that must have it near (required affinity)."""
        self.attracted: dict[str, ByTopology]
        """Weights of pods that would rather have it near."""
        self.avoided: dict[str, ByTopology]
        """Weights, below 0, of pods that would rather have it away."""
        self.by = by
        """The numbers of the terms that mean the pod."""
        self.users = 0
        """How many maps of labels use it."""
        self.version = -1
        """The version of the counts that was seen last."""
        self.sets = 0
        """How many sets were seen."""
        self._parts: list[tuple[Weights, ByTopology]]
        """What each set counts for, and the sum that it counts in."""
        self._by_sum: dict[int, Weights]
        self._keys = -1
        self._relabels = -1
        self.begin()

    @property
    def preferred(self) -> list[ByTopology]:
        """Weights of pods that would rather have it near, or away."""
        return [*self.attracted.values(), *self.avoided.values()]

    @property
    def repels(self) -> bool:
        """Return whether any pod on a node keeps it away."""
        return bool(self.repelled) and any(one.total for one in self.repelled.values())

    @property
    def repulsions(self) -> int:
        """Return how many terms of pods on nodes keep it away, each pod counted by itself."""
        return sum(int(one.by_code().sum()) for one in self.repelled.values())

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.by) + 400 + sum(w.size + s.counts.nbytes for w, s in self._parts)

    def repulsion(self, of: int, row: int) -> int:
        """Return how many terms of a set keep the pod away from the values that a row has."""
        found = 0
        for one in self.repelled.values():
            if one.column is not None and int(one.column.codes[row]) >= 0:
                found += self._by_sum[id(one)].get(of)
        return found

    def repulsion_by(self, key: str, of: int) -> int:
        """Return how many terms of a set keep the pod away from values of one topology key."""
        return self._by_sum[id(self.repelled[key])].get(of)

    def holds(self, placed: RowCounts, nodes: Nodes, pods: PodClasses, sets: int) -> bool:
        """Return whether the sums are up to date."""
        return (
            self.version == placed.version
            and self.sets == sets
            and self._keys == nodes.key_changes
            and self._relabels == pods.relabels
        )

    def stale(self, nodes: Nodes, pods: PodClasses) -> bool:
        """Return whether labels of nodes changed, so that everything has to be added up again."""
        return self.version < 0 or self._keys != nodes.key_changes or self._relabels != pods.relabels

    def seen(self, version: int, nodes: Nodes, pods: PodClasses, sets: int) -> None:
        """The sums are those of this version."""
        self.version, self.sets = version, sets
        self._keys, self._relabels = nodes.key_changes, pods.relabels

    # -- what sets count for -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget all sums."""
        self.repelled, self.hard, self.attracted, self.avoided = {}, {}, {}, {}
        self._parts, self._by_sum = [], {}
        self.version = -1

    def weigh(self, key: str, weight: int, of: int, nodes: Nodes) -> None:
        """A set has one more term that selects the pod."""
        kind = kind_of(weight)
        weights = self._part(key, kind, nodes)
        if weights is not None:
            weights.set(of, weights.get(of) + (1 if kind in (Kind.REPELS, Kind.HARD) else weight))

    def weigh_all(self, key: str, kind: Kind, sets: Codes, each: Ints | Codes, nodes: Nodes) -> None:
        """Do what `weigh` does for many terms of one kind at once."""
        weights = self._part(key, kind, nodes)
        if weights is not None:
            weights.add_each(sets, each)

    def _part(self, key: str, kind: Kind, nodes: Nodes) -> Weights | None:
        sums = (self.repelled, self.hard, self.attracted, self.avoided)[kind]
        found = sums.get(key)
        if found is None:
            column = nodes.topology(key)
            if column is None:
                return None
            found = sums[key] = ByTopology(column)
            weights = self._by_sum[id(found)] = Weights()
            self._parts.append((weights, found))
        return self._by_sum[id(found)]

    # -- sums ----------------------------------------------------------------------------------------------------

    def add_up(self, placed: RowCounts) -> None:
        """Add up all pods that are placed."""
        for weights, one in self._parts:
            one.start(one.column)
            found, each = weights.weighed(placed)
            assert one.column is not None
            counts = (each != 0) & (one.column.codes[found.rows] >= 0)
            found, each = found.at(counts), each[counts]
            one.add_all(found.rows, found.counts * each, int(found.counts.sum()))

    def follow(self, placed: RowCounts) -> None:
        """Apply the changes since the last look."""
        for weights, one in self._parts:
            for row, amount, weight in weights.since(placed, self.version):
                one.count(row, amount, weight)
        self.version = placed.version
