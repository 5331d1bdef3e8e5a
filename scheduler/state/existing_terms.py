"""The affinity terms that placed pods carry, and what they say to a pod that they mean.

Upstream: the existing pods' half of plugins/interpodaffinity (existingAntiAffinityCounts, processExistingPod). Which
terms there are, and who carries them, is kept by `term_sets`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.model.affinity import AffinityTerm
from scheduler.model.pod import NO_LABELS, Pod
from scheduler.model.shape import PodShape
from scheduler.state.column import Bools, Codes, Ints
from scheduler.state.effort import Effort
from scheduler.state.marks import NONE, numbers, pack, unpack
from scheduler.state.nodes import Nodes
from scheduler.state.pod_classes import PodClasses
from scheduler.state.term_sets import TermSet, TermSets
from scheduler.state.towards import HARD, REPELS, Towards

_ASKED = 16_384
_KEPT_BYTES = 32 << 20
_ONE_BY_ONE = 24
_SOME = 1024
_FEW = 1024
"""So many terms are looked up one by one; more of them are found by a pass over all."""
_CATCH_UP = 512
_WEIGHED = 256
"""So many terms of sets that came are weighed one by one; with more of them, adding up anew costs less."""


@dataclass(slots=True, eq=False)
class Asked:
    """Pods of one namespace and one map of labels: which terms mean them."""

    namespace: str
    labels: Mapping[str, str]
    born: int = 0
    """So many terms were looked at."""
    changes: int = -1
    """Namespaces had changed so often."""
    by: bytes = NONE
    """The numbers of the terms (`marks`)."""
    towards: Towards | None = None


class ExistingTerms:
    """All terms that placed pods carry."""

    def __init__(self, nodes: Nodes) -> None:
        self.sets = TermSets()
        self.by_turns = False
        """What others placed is indexed when somebody says so (`sets.catch_up`), not by whoever asks next."""
        self._nodes = nodes
        self._asked: dict[tuple[str, int], Asked] = {}
        self._towards: dict[bytes, Towards] = {}
        self._kept = 0
        self._parts: tuple[tuple[int, int], list[_Part]] | None = None
        """What sets had come, and how often label keys of nodes had; and the terms by topology key and kind."""

    def towards(self, pod: Pod, pods: PodClasses, effort: Effort) -> Towards:
        """What placed pods' terms add up to for a pod.

        Raises SliceOver; asked again, it gets further.
        """
        sets = self.sets
        if not sets.known:
            return _NOTHING
        if sets.urgent or (not self.by_turns and sets.behind):
            sets.settle(effort, urgent_only=self.by_turns)
        asked = self._asked.get((pod.namespace, id(pod.labels)))
        if asked is None:
            if len(self._asked) >= _ASKED:
                self._forget()
            asked = self._asked[pod.namespace, id(pod.labels)] = Asked(pod.namespace, pod.labels)
        if asked.born != len(sets.born) or asked.changes != pods.namespace_changes:
            self._match(asked, pods, effort)
        if not len(asked.by):
            return _NOTHING
        towards = asked.towards
        if towards is None:
            towards = self._shared(asked)
        if not towards.holds(sets.placed, self._nodes, pods, len(sets.sets_born)):
            self._catch_up(towards, pods, effort)
        return towards

    def named_by(self, towards: Towards) -> list[AffinityTerm]:
        """The required anti-affinity terms by which placed pods keep a pod away from some node."""
        found = []
        for number in numbers(towards.by).tolist():
            carried = self.sets.term(number)
            if carried is None or carried.weight != REPELS:
                continue
            column = self._nodes.topology(carried.term.topology_key)
            rows = (row for of, _ in self.sets.in_sets.rows_of(number) for row, _ in self.sets.placed.rows_of(of))
            if column is not None and any(column.codes[row] >= 0 for row in rows):
                found.append(carried.term)
        return found

    def repulsion(self, shape: PodShape, row: int, towards: Towards) -> int:
        """How many of the terms that keep a pod away a placed pod of this shape carries, where they count on a row."""
        of = self.sets.find(shape)
        return 0 if of is None else towards.repulsion(of.number, row)

    def reuse(self) -> None:
        """Use numbers again, and forget whatever went by what they meant before."""
        self._forget()
        self.sets.reuse()

    def _forget(self) -> None:
        self._asked.clear()
        self._towards.clear()
        self._kept = 0
        self._parts = None

    # -- who is asked about --------------------------------------------------------------------------------------

    def _match(self, asked: Asked, pods: PodClasses, effort: Effort) -> None:
        """Find the terms that mean the pods, of those that came since."""
        of_namespace = pods.labels_of_namespace(asked.namespace) or NO_LABELS
        if asked.changes != pods.namespace_changes:
            asked.by, asked.changes, asked.born = NONE, pods.namespace_changes, 0
            self._leave(asked)
        sets = self.sets
        came = sets.born[asked.born :]
        asked.born = len(sets.born)
        which = None
        if len(came) <= _ONE_BY_ONE:
            new = [
                carried.number
                for carried in came
                if not carried.gone and carried.term.selects(asked.namespace, of_namespace, asked.labels)
            ]
            if new:
                which = unpack(asked.by, len(sets.index))
                which[new] = True
        else:
            start = min(carried.number for carried in came) if len(came) <= _SOME else 0
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
        effort.count(1 + min(len(came), 10 + len(sets.index) // 300))

    def _leave(self, asked: Asked) -> None:
        """The sums that were right are not any more; if nobody else goes by them, they go."""
        towards, asked.towards = asked.towards, None
        if towards is not None:
            towards.users -= 1
            if not towards.users:
                self._kept -= towards.size
                self._towards.pop(towards.by, None)

    def _shared(self, asked: Asked) -> Towards:
        """The sums of all pods that the same terms mean."""
        found = self._towards.get(asked.by)
        if found is None:
            if self._kept > _KEPT_BYTES:
                self._towards.clear()
                self._kept = 0
                for one in self._asked.values():
                    one.towards = None
            found = self._towards[asked.by] = Towards(asked.by)
        asked.by, asked.towards = found.by, found
        found.users += 1
        return found

    def _catch_up(self, towards: Towards, pods: PodClasses, effort: Effort) -> None:
        sets, placed, nodes = self.sets, self.sets.placed, self._nodes
        came = [of for of in sets.sets_born[towards.sets :] if of.whole]
        if not towards.stale(nodes, pods) and sum(len(of.terms) for of in came) <= _WEIGHED:
            behind = placed.version - towards.version
            if came:
                which = unpack(towards.by, len(sets.index))
                for of in came:
                    self._weigh(towards, of, which)
            towards.sets = len(sets.sets_born)
            if placed.remembers(towards.version) and (behind <= _CATCH_UP or 20 * behind < len(placed)):
                effort.count(1 + towards.follow(placed))
                return
        before = towards.size
        cost = 10 + self._begin_sums(towards)
        towards.add_up(placed)
        self._kept += towards.size - before
        towards.seen(placed.version, nodes, pods, len(sets.sets_born))
        effort.count(cost + len(placed) // 100)

    def _weigh(self, towards: Towards, of: TermSet, which: Bools) -> None:
        """What a set that came counts for; `which`: the terms that mean the pod."""
        for carried in of.carried:
            if which[carried.number]:
                towards.weigh(carried.term.topology_key, carried.weight, of.number, self._nodes)

    def _begin_sums(self, towards: Towards) -> int:
        """What each set counts for, by node label; returns about how many microseconds it took."""
        towards.begin()
        if not towards.by:
            return 1
        few = numbers(towards.by)
        if len(few) > _FEW:
            return self._begin_many(towards)
        terms, sets, times = self.sets.in_sets.of(few.tolist())
        keys, weights = self.sets.keys[terms], self.sets.weights[terms]
        whole = self.sets.whole[sets]
        for key in self._keys_on_nodes():
            of_key = whole & (keys == self.sets.key_codes[key])
            for kind in _KINDS:
                which = of_key & _of_kind(weights, kind)
                if which.any():
                    each = weights[which] * times[which] if kind is None else times[which]
                    towards.weigh_all(key, kind, sets[which], each, self._nodes)
        return 10 + len(terms) // 100

    def _begin_many(self, towards: Towards) -> int:
        """As `_begin_sums`, for terms too many to be looked up one by one: by a pass over all terms of all sets."""
        cost = 10
        state = len(self.sets.sets_born), self._nodes.key_changes
        if self._parts is None or self._parts[0] != state:
            parts = [self._part(key, kind) for key in self._keys_on_nodes() for kind in _KINDS]
            self._parts = state, [part for part in parts if len(part.terms)]
            cost += len(self.sets.index) // 60
        which = unpack(towards.by, len(self.sets.index))
        for part in self._parts[1]:
            means = which[part.terms]
            if means.any():
                # Sums of integers below 2^53, so the doubles that bincount adds up are exact.
                each = np.bincount(part.sets, weights=part.each * means).astype(np.int64)
                towards.weigh_each(part.key, part.kind, each, self._nodes)
            cost += len(part.terms) // 200
        return cost

    def _part(self, key: str, kind: int | None) -> "_Part":
        in_sets = self.sets.in_sets.everywhere()
        weights = self.sets.weights[in_sets.numbers]
        which = self.sets.whole[in_sets.rows] & (in_sets.counts != 0)
        which &= self.sets.keys[in_sets.numbers] == self.sets.key_codes[key]
        which &= _of_kind(weights, kind)
        terms, sets, times = in_sets.at(which)
        return _Part(key, kind, terms, sets, times * weights[which] if kind is None else times.astype(np.int64))

    def _keys_on_nodes(self) -> list[str]:
        """Label keys that terms name and nodes have."""
        few, many = sorted((self._nodes.label_keys, self.sets.key_codes), key=len)
        return [key for key in few if key in many]


class _Part(NamedTuple):
    """All terms of one topology key and kind, of sets that count: parallel arrays."""

    key: str
    kind: int | None
    """REPELS, HARD, or None for terms with a weight."""
    terms: Codes
    sets: Codes
    each: Ints
    """What the term counts for in the set."""


_KINDS = (REPELS, HARD, None)


def _of_kind(weights: Ints, kind: int | None) -> Bools:
    which: Bools = weights == kind if kind is not None else (weights != REPELS) & (weights != HARD)
    return which


_NOTHING = Towards(NONE)
"""Nobody carries any term."""
