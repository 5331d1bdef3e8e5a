"""The affinity terms of placed pods: which of them select a pod, and what they add up to for it.

Upstream: the existing pods' half of plugins/interpodaffinity (existingAntiAffinityCounts, processExistingPod). Which
terms there are, and which pods have them, is kept by `term_sets`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from scheduler.model.affinity import AffinityTerm
from scheduler.model.pod import NO_LABELS, Pod
from scheduler.model.shape import PodShape
from scheduler.state.column import Bools, Codes, Ints
from scheduler.state.effort import Effort
from scheduler.state.existing_term_sums import HARD, REPELS, ExistingTermSums, Kind
from scheduler.state.marks import NONE, numbers, pack, unpack
from scheduler.state.nodes import Nodes
from scheduler.state.pod_classes import PodClasses
from scheduler.state.term_sets import TermSet, TermSets

_ASKED = 16_384
_KEPT_BYTES = 32 << 20
_ONE_BY_ONE = 24
_SOME = 1024
_FEW = 1024
"""So many terms are looked up one by one; more of them are found by a pass over all."""
_WEIGHED = 256
"""Up to this many terms of new sets are added one by one; with more of them, adding up everything costs less."""


class Asked(Struct, eq=False):
    """Pods of one namespace with the same labels, and the terms that select them."""

    namespace: str
    labels: Mapping[str, str]
    born: int = 0
    """How many terms were looked at."""
    changes: int = -1
    """The count of namespace changes for which the terms are right."""
    by: bytes = NONE
    """The numbers of the terms (`marks`)."""
    sums: ExistingTermSums | None = None


class ExistingTerms:
    """All affinity terms of placed pods."""

    def __init__(self, nodes: Nodes) -> None:
        self.sets = TermSets()
        self._nodes = nodes
        self._asked: dict[tuple[str, int], Asked] = {}
        self.sums: dict[bytes, ExistingTermSums] = {}
        """The numbers of the terms that select a pod → their sums."""
        self._kept = 0
        self._parts: tuple[tuple[int, int], list[_Part]] | None = None
        """(sets, changes of nodes' label keys) for which they are right, and the terms by topology key and kind."""

    def sums_for(self, pod: Pod, pods: PodClasses, effort: Effort) -> ExistingTermSums:
        """The sums of the placed pods' terms that select a pod."""
        sets = self.sets
        if not sets.known:
            return _NOTHING
        asked = self._asked.get((pod.namespace, id(pod.labels)))
        if asked is None:
            if len(self._asked) >= _ASKED:
                self._forget()
            asked = self._asked[pod.namespace, id(pod.labels)] = Asked(pod.namespace, pod.labels)
        if asked.born != sets.born.count or asked.changes != pods.namespace_changes:
            self._match(asked, pods, effort)
        if not asked.by:
            return _NOTHING
        sums = asked.sums
        if sums is None:
            sums = self._shared(asked)
        if not sums.holds(sets.placed, self._nodes, pods, sets.sets_born.count):
            self._catch_up(sums, pods, effort)
        return sums

    def named_by(self, sums: ExistingTermSums) -> list[AffinityTerm]:
        """The required anti-affinity terms by which placed pods keep a pod away from some node."""
        found = []
        for number in numbers(sums.by).tolist():
            carried = self.sets.term(number)
            if carried is None or carried.weight != REPELS:
                continue
            column = self._nodes.topology(carried.term.topology_key)
            rows = (row for of, _ in self.sets.in_sets.rows_of(number) for row, _ in self.sets.placed.rows_of(of))
            if column is not None and any(column.codes[row] >= 0 for row in rows):
                found.append(carried.term)
        return found

    def repulsion(self, shape: PodShape, row: int, sums: ExistingTermSums) -> int:
        """How many of a placed pod's terms keep another pod away from a row. `shape`: the placed pod's."""
        of = self.sets.find(shape)
        return 0 if of is None else sums.repulsion(of.number, row)

    def reuse(self) -> None:
        """Use numbers again, and forget everything that refers to their old meaning."""
        self._forget()
        self.sets.reuse()

    def _forget(self) -> None:
        self._asked.clear()
        self.sums.clear()
        self._kept = 0
        self._parts = None

    # -- who is asked about --------------------------------------------------------------------------------------

    def _match(self, asked: Asked, pods: PodClasses, effort: Effort) -> None:
        """Find the terms that select the pods, among those that were added since the last look."""
        of_namespace = pods.labels_of_namespace(asked.namespace) or NO_LABELS
        if asked.changes != pods.namespace_changes:
            asked.by, asked.changes, asked.born = NONE, pods.namespace_changes, 0
            self._leave(asked)
        sets = self.sets
        many, came = sets.born.count - asked.born, sets.born.since(asked.born)
        asked.born = sets.born.count
        which = None
        if came is not None and many <= _ONE_BY_ONE:
            new = [
                carried.number
                for carried in came
                if not carried.gone and carried.term.selects(asked.namespace, of_namespace, asked.labels)
            ]
            if new:
                which = unpack(asked.by, len(sets.index))
                which[new] = True
        else:
            start = min(carried.number for carried in came) if came is not None and many <= _SOME else 0
            means = sets.index.select(asked.namespace, of_namespace, asked.labels, start)
            means &= sets.counting[start : start + len(means)]
            if means.any():
                which = unpack(asked.by, len(sets.index))
                which[start:] |= means
        if which is not None:
            by = pack(which)
            if by != asked.by:
                asked.by = by
                self._leave(asked)
        effort.count(1 + min(many, 10 + len(sets.index) // 300))

    def _leave(self, asked: Asked) -> None:
        """The sums are not right for these pods any more; if no other pods use them, they are dropped."""
        sums, asked.sums = asked.sums, None
        if sums is not None:
            sums.users -= 1
            if not sums.users:
                self._kept -= sums.size
                self.sums.pop(sums.by, None)

    def _shared(self, asked: Asked) -> ExistingTermSums:
        """The sums that all pods share that the same terms select."""
        found = self.sums.get(asked.by)
        if found is None:
            if self._kept > _KEPT_BYTES:
                self.sums.clear()
                self._kept = 0
                for one in self._asked.values():
                    one.sums = None
            found = self.sums[asked.by] = ExistingTermSums(asked.by)
        asked.by, asked.sums = found.by, found
        found.users += 1
        return found

    def _catch_up(self, sums: ExistingTermSums, pods: PodClasses, effort: Effort) -> None:
        sets, placed, nodes = self.sets, self.sets.placed, self._nodes
        came = sets.sets_born.since(sums.sets)
        if came is not None and not sums.stale(nodes, pods) and sum(len(of.carried) for of in came) <= _WEIGHED:
            if came:
                which = unpack(sums.by, len(sets.index))
                for of in came:
                    if not of.gone:
                        self._weigh(sums, of, which)
            sums.sets = sets.sets_born.count
            if placed.worth_following(sums.version):
                effort.count(1 + sums.follow(placed))
                return
        before = sums.size
        cost = 10 + self._begin_sums(sums)
        sums.add_up(placed)
        self._kept += sums.size - before
        sums.seen(placed.version, nodes, pods, sets.sets_born.count)
        effort.count(cost + len(placed) // 100)

    def _weigh(self, sums: ExistingTermSums, of: TermSet, which: Bools) -> None:
        """Add what a new set counts for. `which`: the terms that select the pod."""
        for carried in of.carried:
            if which[carried.number]:
                sums.weigh(carried.term.topology_key, carried.weight, of.number, self._nodes)

    def _begin_sums(self, sums: ExistingTermSums) -> int:
        """What each set counts for, by node label; returns about how many microseconds it took."""
        sums.begin()
        if not sums.by:
            return 1
        few = numbers(sums.by)
        if len(few) > _FEW:
            return self._begin_many(sums)
        terms, sets, times = self.sets.in_sets.of(few.tolist())
        keys, weights = self.sets.keys[terms], self.sets.weights[terms]
        for key in self._keys_on_nodes():
            of_key = keys == self.sets.key_codes[key]
            for kind in Kind:
                which = of_key & _of_kind(weights, kind)
                if which.any():
                    each = weights[which] * times[which] if kind >= Kind.ATTRACTS else times[which]
                    sums.weigh_all(key, kind, sets[which], each, self._nodes)
        return 10 + len(terms) // 100

    def _begin_many(self, sums: ExistingTermSums) -> int:
        """As `_begin_sums`, for terms too many to be looked up one by one: by a pass over all terms of all sets."""
        cost = 10
        state = self.sets.sets_born.count, self._nodes.key_changes
        if self._parts is None or self._parts[0] != state:
            parts = [self._part(key, kind) for key in self._keys_on_nodes() for kind in Kind]
            self._parts = state, [part for part in parts if len(part.terms)]
            cost += len(self.sets.index) // 60
        which = unpack(sums.by, len(self.sets.index))
        for part in self._parts[1]:
            means = which[part.terms]
            if means.any():
                # Sums of integers below 2^53, so the doubles that bincount adds up are exact.
                each = np.bincount(part.sets, weights=part.each * means).astype(np.int64)
                sums.weigh_each(part.key, part.kind, each, self._nodes)
            cost += len(part.terms) // 200
        return cost

    def _part(self, key: str, kind: Kind) -> "_Part":
        in_sets = self.sets.in_sets.everywhere()
        weights = self.sets.weights[in_sets.numbers]
        which = in_sets.counts != 0
        which &= self.sets.keys[in_sets.numbers] == self.sets.key_codes[key]
        which &= _of_kind(weights, kind)
        terms, sets, times = in_sets.at(which)
        each = times * weights[which] if kind >= Kind.ATTRACTS else times.astype(np.int64)
        return _Part(key, kind, terms, sets, each)

    def _keys_on_nodes(self) -> list[str]:
        """Label keys that terms name and nodes have."""
        few, many = sorted((self._nodes.label_keys, self.sets.key_codes), key=len)
        return [key for key in few if key in many]


class _Part(NamedTuple):
    """All terms of one topology key and kind, of sets that count: parallel arrays."""

    key: str
    kind: Kind
    terms: Codes
    sets: Codes
    each: Ints
    """What the term counts for in the set."""


def _of_kind(weights: Ints, kind: Kind) -> Bools:
    """Which terms are of this kind, by their weights (`kind_of`)."""
    which: Bools
    if kind is Kind.REPELS:
        which = weights == REPELS
    elif kind is Kind.HARD:
        which = weights == HARD
    else:
        which = weights < 0 if kind is Kind.AVOIDS else (weights > 0) & (weights != HARD)
    return which


_NOTHING = ExistingTermSums(NONE)
"""For pods that no term selects."""
