"""The affinity terms that placed pods carry, and what they say to a pod that they mean.

Upstream: the existing pods' half of plugins/interpodaffinity (existingAntiAffinityCounts, processExistingPod). Pods
that the same terms mean share the sums. A term is put into the index when somebody is next asked about, at the cost of
that attempt's slice, so that a pod that carries thousands can be placed at once.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.model.affinity import AffinityTerm
from scheduler.model.pod import NO_LABELS, Pod
from scheduler.model.shape import PodShape
from scheduler.state.column import Codes, Ints
from scheduler.state.effort import Effort
from scheduler.state.nodes import Nodes
from scheduler.state.pod_classes import PodClasses
from scheduler.state.row_counts import RowCounts
from scheduler.state.selector_index import TermIndex
from scheduler.state.sums import ByTopology
from scheduler.state.weights import Weights

REPELS = 0
"""`Carried.weight` of required anti-affinity."""
HARD = 1 << 20
"""`Carried.weight` of required affinity, which scores with the plugin's hardPodAffinityWeight."""

IDLE = 1024
"""So many terms are kept that no pod carries: a dry run takes pods away and puts them back."""
DEAD = 4096
"""So many numbers of terms without pods are left unused before all that knows them is made anew."""
_SHAPES = 4096
_ASKED = 16_384
_KEPT_BYTES = 32 << 20
_ONE_BY_ONE = 4
_SOME = 1024
_CATCH_UP = 64
_STEPS_TO_INDEX = 5


@dataclass(slots=True, eq=False)
class Carried:
    """A term that placed pods carry, as required anti-affinity or for scoring (`weight`)."""

    number: int
    term: AffinityTerm
    weight: int
    carriers: int = 0
    indexed: int = -1
    """Its number in the index; -1: it is not there yet."""
    gone: bool = False


@dataclass(slots=True, eq=False)
class Asked:
    """Pods of one namespace and one map of labels: which terms mean them."""

    namespace: str
    labels: Mapping[str, str]
    born: int = 0
    """So many terms were looked at."""
    changes: int = -1
    """Namespaces had changed so often."""
    by: Codes | None = None
    """The numbers of the terms, ascending."""
    towards: "Towards | None" = None


class Towards:
    """What the terms that mean a pod add up to, per value of the node labels that they name."""

    def __init__(self, by: Codes) -> None:
        self.repelled: dict[str, ByTopology] = {}
        """Pods that keep it away (required anti-affinity)."""
        self.hard: dict[str, ByTopology] = {}
        """Pods that must have it near (required affinity)."""
        self.preferred: dict[str, ByTopology] = {}
        """Weights of pods that would rather have it near, or away."""
        self.by = by
        self._weights = Weights()
        which = np.zeros(int(by.max(initial=-1)) + 1, dtype=np.bool_)
        which[by] = True
        self._weights.add(which, 1)
        self._weights.settle()
        self.version = -1
        """The version of the counts that was seen last."""
        self._keys = -1
        self._relabels = -1

    @property
    def repels(self) -> int:
        """How often a pod on a node keeps it away."""
        return sum(one.total for one in self.repelled.values())

    @property
    def size(self) -> int:
        """Bytes, about."""
        sums = (*self.repelled.values(), *self.hard.values(), *self.preferred.values())
        return self.by.nbytes + self._weights.size + sum(one.counts.nbytes for one in sums)

    def means(self, number: int) -> bool:
        """Whether a term is among those that mean the pod."""
        return bool(self._weights.get(number))

    def sum_of(self, carried: Carried, nodes: Nodes) -> ByTopology | None:
        """Where a term counts; None where no node has its label."""
        key = carried.term.topology_key
        sums = self.repelled if carried.weight == REPELS else self.hard if carried.weight == HARD else self.preferred
        found = sums.get(key)
        if found is None:
            column = nodes.topology(key)
            if column is None:
                return None
            found = sums[key] = ByTopology(column, np.int32 if carried.weight in (REPELS, HARD) else np.int64)
        return found

    def holds(self, placed: RowCounts, nodes: Nodes, pods: PodClasses) -> bool:
        """Whether nothing happened since that the sums do not know."""
        return self.version == placed.version and self._keys == nodes.key_changes and self._relabels == pods.relabels

    def stale(self, nodes: Nodes, pods: PodClasses) -> bool:
        """Whether the labels of nodes changed, so that all has to be added up anew."""
        return self.version < 0 or self._keys != nodes.key_changes or self._relabels != pods.relabels

    def seen(self, version: int, nodes: Nodes, pods: PodClasses) -> None:
        """The sums are those of this version."""
        self.version, self._keys, self._relabels = version, nodes.key_changes, pods.relabels

    def weighed(self, placed: RowCounts) -> tuple[Codes, Codes, Codes]:
        """(term, row, count) where the terms that mean the pod are carried."""
        found, weights = self._weights.weighed(placed)
        found = found.at(weights > 0)
        return found.numbers, found.rows, found.counts


_NOTHING = Towards(np.zeros(0, dtype=np.int32))
"""Nobody carries any term."""


class ExistingTerms:
    """All terms that placed pods carry, by number."""

    def __init__(self, nodes: Nodes) -> None:
        self.placed = RowCounts()
        """Pods that carry each term, by row."""
        self._nodes = nodes
        self._terms: list[Carried | None] = []
        self._free: list[int] = []
        self._dead: list[int] = []
        self._by_term: dict[tuple[AffinityTerm, int], Carried] = {}
        self._by_shape: dict[PodShape, tuple[Carried, ...]] = {}
        self._idle: dict[int, Carried] = {}
        self._index = TermIndex()
        self._by_index: Codes = np.zeros(64, dtype=np.int32)
        """The number of each term of the index."""
        self._to_index: deque[Carried] = deque()
        self._born: list[Carried] = []
        """In the order in which they were indexed, since numbers were last used again."""
        self._weights: Ints = np.zeros(64, dtype=np.int64)
        self._keys: Codes = np.zeros(64, dtype=np.int32)
        self._key_codes: dict[str, int] = {}
        self._asked: dict[tuple[str, int], Asked] = {}
        self._towards: dict[bytes, Towards] = {}
        self._kept = 0

    def __len__(self) -> int:
        """How many terms there are, some of which nobody carries any more."""
        return len(self._by_term)

    def all(self) -> list[Carried]:
        """Every term, and some that nobody carries any more."""
        return list(self._by_term.values())

    def add(self, shape: PodShape, row: int, amount: int) -> None:
        """So many more pods of this shape on a row, or fewer."""
        if not (shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms):
            return
        add = self.placed.add
        for carried in self.of(shape):
            if not carried.carriers:
                self._idle.pop(carried.number, None)
            carried.carriers += amount
            add(carried.number, row, amount)
            if not carried.carriers:
                self._idle[carried.number] = carried
        while len(self._idle) > IDLE:
            self._end(next(iter(self._idle.values())))

    def of(self, shape: PodShape) -> tuple[Carried, ...]:
        """The terms that pods of a shape carry."""
        found = self._by_shape.get(shape)
        if found is None or any(carried.gone for carried in found):
            if len(self._by_shape) >= _SHAPES:
                self._by_shape.clear()
            terms = [(term, REPELS) for term in shape.anti_affinity_terms]
            terms += [(term, HARD) for term in shape.affinity_terms]
            terms += [(preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms]
            found = self._by_shape[shape] = tuple(self._carried(term, weight) for term, weight in terms)
        return found

    def towards(self, pod: Pod, pods: PodClasses, effort: Effort) -> Towards:
        """What placed pods' terms add up to for a pod.

        Raises SliceOver; asked again, it gets further.
        """
        if not self._by_term:
            return _NOTHING
        asked = self._asked.get((pod.namespace, id(pod.labels)))
        current = (
            asked is not None
            and not self._to_index
            and asked.born == len(self._born)
            and asked.changes == pods.namespace_changes
        )
        towards = asked.towards if asked is not None and current else None
        if towards is not None and towards.holds(self.placed, self._nodes, pods):
            return towards
        if asked is None or not current:
            self._bring_index_up(effort)
            if asked is None:
                if len(self._asked) >= _ASKED:
                    self._asked.clear()
                asked = self._asked[pod.namespace, id(pod.labels)] = Asked(pod.namespace, pod.labels)
            self._match(asked, pods, effort)
        towards = asked.towards
        if towards is None:
            towards = asked.towards = self._shared(asked)
        self._catch_up(towards, pods, effort)
        return towards

    def named_by(self, towards: Towards) -> list[AffinityTerm]:
        """The required anti-affinity terms by which placed pods keep a pod away from some node."""
        found = []
        for number in towards.by.tolist():
            carried = self._terms[number]
            if carried is not None and carried.weight == REPELS:
                column = self._nodes.topology(carried.term.topology_key)
                if column is not None and any(column.codes[row] >= 0 for row, _ in self.placed.rows_of(number)):
                    found.append(carried.term)
        return found

    def repulsion(self, shape: PodShape, row: int, towards: Towards) -> int:
        """How many of the terms that keep a pod away a pod of this shape would carry, where they count on a row."""
        found = 0
        for carried in self.of(shape):
            if carried.weight == REPELS and towards.means(carried.number):
                column = self._nodes.topology(carried.term.topology_key)
                found += column is not None and int(column.codes[row]) >= 0
        return found

    @property
    def worn(self) -> bool:
        """Whether so many numbers are unused that it is worth while to use them again."""
        return len(self._dead) > DEAD + len(self._by_term)

    def reuse(self) -> None:
        """Use numbers again, and forget whatever went by what they meant before."""
        self._asked.clear()
        self._towards.clear()
        self._kept = 0
        self._index.reuse()
        self._free += self._dead
        self._dead = []
        self._born = [carried for carried in self._by_term.values() if carried.indexed >= 0]
        self.placed.forget_changes()
        used = {carried.term.topology_key for carried in self._by_term.values()}
        if 2 * len(used) < len(self._key_codes):
            self._key_codes = {key: code for code, key in enumerate(used)}
            for carried in self._by_term.values():
                self._keys[carried.number] = self._key_codes[carried.term.topology_key]

    # -- terms ---------------------------------------------------------------------------------------------------

    def _carried(self, term: AffinityTerm, weight: int) -> Carried:
        found = self._by_term.get((term, weight))
        if found is None:
            number = self._free.pop() if self._free else len(self._terms)
            found = self._by_term[(term, weight)] = Carried(number, term, weight)
            if number == len(self._terms):
                self._terms.append(found)
                if number >= len(self._weights):
                    self._weights = np.concatenate((self._weights, np.zeros_like(self._weights)))
                    self._keys = np.concatenate((self._keys, np.zeros_like(self._keys)))
            else:
                self._terms[number] = found
            self._weights[number] = weight
            self._keys[number] = self._key_codes.setdefault(term.topology_key, len(self._key_codes))
            self._idle[number] = found
            self._to_index.append(found)
        return found

    def _end(self, idle: Carried) -> None:
        del self._idle[idle.number]
        del self._by_term[(idle.term, idle.weight)]
        self._terms[idle.number] = None
        self._dead.append(idle.number)
        idle.gone = True
        if idle.indexed >= 0:
            self._index.remove(idle.indexed)

    def _bring_index_up(self, effort: Effort) -> None:
        while self._to_index:
            carried = self._to_index.popleft()
            if not carried.gone:
                indexed = carried.indexed = self._index.add(carried.term)
                if indexed >= len(self._by_index):
                    self._by_index = np.concatenate((self._by_index, np.zeros_like(self._by_index)))
                self._by_index[indexed] = carried.number
                self._born.append(carried)
                effort.charge(_STEPS_TO_INDEX)

    # -- who is asked about --------------------------------------------------------------------------------------

    def _match(self, asked: Asked, pods: PodClasses, effort: Effort) -> None:
        of_namespace = pods.labels_of_namespace(asked.namespace) or NO_LABELS
        if asked.by is None or asked.changes != pods.namespace_changes:
            asked.by, asked.changes, asked.born = np.zeros(0, dtype=np.int32), pods.namespace_changes, 0
            asked.towards = None
        fresh = len(self._born) - asked.born
        if fresh <= _ONE_BY_ONE:
            new = np.array(
                [
                    carried.number
                    for carried in self._born[asked.born :]
                    if not carried.gone and carried.term.selects(asked.namespace, of_namespace, asked.labels)
                ],
                dtype=np.int32,
            )
        else:
            start = min(carried.indexed for carried in self._born[asked.born :]) if fresh <= _SOME else 0
            means = self._index.select(asked.namespace, of_namespace, asked.labels, start)
            new = self._by_index[start + np.flatnonzero(means)]
        asked.born = len(self._born)
        if len(new):
            # By hand: NumPy's set operations import a fifth of NumPy when they are first called.
            both = np.sort(np.concatenate((asked.by, new)))
            asked.by = both[np.concatenate(((True,), both[1:] != both[:-1]))]
            asked.towards = None
        effort.charge(1 + min(fresh, 10 + len(self._index) // 300))

    def _shared(self, asked: Asked) -> Towards:
        """The sums of all pods that the same terms mean."""
        assert asked.by is not None
        key = asked.by.tobytes()
        found = self._towards.get(key)
        if found is None:
            if self._kept > _KEPT_BYTES:
                self._towards.clear()
                self._asked = {key: one for key, one in self._asked.items() if one.towards is None}
                self._kept = 0
            found = self._towards[key] = Towards(asked.by)
        return found

    def _catch_up(self, towards: Towards, pods: PodClasses, effort: Effort) -> None:
        placed, nodes = self.placed, self._nodes
        behind = placed.version - towards.version
        changes = None
        if not towards.stale(nodes, pods) and (behind <= _CATCH_UP or 20 * behind < len(placed)):
            changes = placed.since(towards.version)
        if changes is None:
            before = towards.size
            self._add_up(towards)
            self._kept += towards.size - before
            cost = 10 + len(placed) // 100
        else:
            means = towards.means
            for number, row, amount in changes:
                if means(number):
                    carried = self._terms[number]
                    if carried is not None:
                        counted = towards.sum_of(carried, nodes)
                        if counted is not None:
                            counted.count(row, amount, 1 if carried.weight in (REPELS, HARD) else carried.weight)
            cost = behind // 8
        towards.seen(placed.version, nodes, pods)
        effort.charge(cost)

    def _add_up(self, towards: Towards) -> None:
        towards.repelled, towards.hard, towards.preferred = {}, {}, {}
        if not len(towards.by):
            return
        numbers, rows, counts = towards.weighed(self.placed)
        keys, weights = self._keys[numbers], self._weights[numbers]
        for key in self._keys_on_nodes():
            of_key = keys == self._key_codes[key]
            if not of_key.any():
                continue
            column = self._nodes.topology(key)
            assert column is not None
            of_key &= column.codes[rows] >= 0
            for sums, which in (
                (towards.repelled, of_key & (weights == REPELS)),
                (towards.hard, of_key & (weights == HARD)),
                (towards.preferred, of_key & (weights != REPELS) & (weights != HARD)),
            ):
                if which.any():
                    weighed = sums is towards.preferred
                    made = sums[key] = ByTopology(column, np.int64 if weighed else np.int32)
                    each = weights[which] if weighed else 1
                    made.add_all(rows[which], counts[which] * each, int(counts[which].sum()))

    def _keys_on_nodes(self) -> list[str]:
        """Label keys that terms name and nodes have."""
        keys, codes = self._nodes.label_keys, self._key_codes
        return (
            [key for key in keys if key in codes] if len(keys) < len(codes) else [key for key in codes if key in keys]
        )
