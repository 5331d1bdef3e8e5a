"""The affinity terms of placed pods: which of them select a pod, and what they add up to for it.

Upstream: the existing pods' half of plugins/interpodaffinity (existingAntiAffinityCounts, processExistingPod). Which
terms there are, and which pods have them, is kept by `term_sets`.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from podberth.cache.column import Bools, Codes, Ints
from podberth.cache.existing_term_sums import HARD, REPELS, ExistingTermSums, Kind
from podberth.cache.nodes import Nodes
from podberth.cache.pod_classes import PodClasses
from podberth.cache.term_sets import TermSet, TermSets
from podberth.model.affinity import AffinityTerm
from podberth.model.pod import NO_LABELS, Pod
from podberth.model.shape import PodShape

NONE = b""
_FEW, _MANY = b"n", b"b"
"""How the numbers of some terms are written: as they are, or as a bit for each term."""
_ASKED = 16_384
_KEPT_BYTES = 32 << 20


class Asked(Struct, eq=False):
    """Pods of one namespace with the same labels, and the terms that select them."""

    namespace: str
    labels: Mapping[str, str]
    born: int = 0
    """How many terms were looked at."""
    changes: int = -1
    """The count of namespace changes for which the terms are right."""
    by: bytes = NONE
    """The numbers of the terms (`pack`)."""
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

    def sums_for(self, pod: Pod, pods: PodClasses) -> ExistingTermSums:
        """The sums of the placed pods' terms that select a pod."""
        sets = self.sets
        if not sets.known:
            return _NOTHING
        asked = self._asked.get((pod.namespace, id(pod.labels)))
        if asked is None:
            if len(self._asked) >= _ASKED:
                self._forget()
            asked = self._asked[pod.namespace, id(pod.labels)] = Asked(pod.namespace, pod.labels)
        if asked.born != sets.born or asked.changes != pods.namespace_changes:
            self._match(asked, pods)
        if not asked.by:
            return _NOTHING
        sums = asked.sums
        if sums is None:
            sums = self._shared(asked)
        if not sums.holds(sets.placed, self._nodes, pods, sets.sets_born.version):
            self._catch_up(sums, pods)
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
        """Return how many of a placed pod's terms keep another pod away from a row. `shape`: the placed pod's."""
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

    # -- who is asked about --------------------------------------------------------------------------------------

    def _match(self, asked: Asked, pods: PodClasses) -> None:
        """Find the terms that select the pods."""
        of_namespace = pods.labels_of_namespace(asked.namespace) or NO_LABELS
        which = self.sets.index.select(asked.namespace, of_namespace, asked.labels)
        by = pack(which & self.sets.counting[: len(which)])
        asked.born, asked.changes = self.sets.born, pods.namespace_changes
        if by != asked.by:
            asked.by = by
            self._leave(asked)

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

    def _catch_up(self, sums: ExistingTermSums, pods: PodClasses) -> None:
        sets, placed, nodes = self.sets, self.sets.placed, self._nodes
        came = sets.sets_born.since(sums.sets)
        if came is not None and not sums.stale(nodes, pods):
            if came:
                which = unpack(sums.by, len(sets.index))
                for of in came:
                    if not of.gone:
                        self._weigh(sums, of, which)
            sums.sets = sets.sets_born.version
            if placed.worth_following(sums.version):
                sums.follow(placed)
                return
        before = sums.size
        self._begin_sums(sums)
        sums.add_up(placed)
        self._kept += sums.size - before
        sums.seen(placed.version, nodes, pods, sets.sets_born.version)

    def _weigh(self, sums: ExistingTermSums, of: TermSet, which: Bools) -> None:
        """Add what a new set counts for. `which`: the terms that select the pod."""
        for carried in of.carried:
            if which[carried.number]:
                sums.weigh(carried.term.topology_key, carried.weight, of.number, self._nodes)

    def _begin_sums(self, sums: ExistingTermSums) -> None:
        """What each set counts for, by node label."""
        sums.begin()
        in_sets = self.sets.in_sets.everywhere()
        selects = unpack(sums.by, len(self.sets.index))
        terms, sets, times = in_sets.at(selects[in_sets.numbers] & (in_sets.counts != 0))
        keys, weights = self.sets.keys[terms], self.sets.weights[terms]
        for key in self._keys_on_nodes():
            of_key = keys == self.sets.key_codes[key]
            for kind in Kind:
                which = of_key & _of_kind(weights, kind)
                if which.any():
                    each = weights[which] * times[which] if kind >= Kind.ATTRACTS else times[which]
                    sums.weigh_all(key, kind, sets[which], each, self._nodes)

    def _keys_on_nodes(self) -> list[str]:
        """Label keys that terms name and nodes have."""
        few, many = sorted((self._nodes.label_keys, self.sets.key_codes), key=len)
        return [key for key in few if key in many]


def _of_kind(weights: Ints, kind: Kind) -> Bools:
    """Return which terms are of this kind, by their weights (`kind_of`)."""
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


def pack(which: Bools) -> bytes:
    """The numbers of the terms that are marked, as bytes, which are the same for the same terms."""
    count = int(np.count_nonzero(which))
    if not count:
        return NONE
    end = len(which) - int(which[::-1].argmax())
    if 32 * count < end:
        return _FEW + np.flatnonzero(which).astype(np.int32).tobytes()
    return _MANY + np.packbits(which[:end], bitorder="little").tobytes()


def unpack(packed: bytes, size: int) -> Bools:
    """bool[size]: which terms are marked, `size` of which there are at least."""
    which = np.zeros(size, dtype=np.bool_)
    if packed[:1] == _MANY:
        bits = _bits(packed)[:size]
        which[: len(bits)] = bits
    elif packed:
        which[np.frombuffer(packed, dtype=np.int32, offset=1)] = True
    return which


def numbers(packed: bytes) -> Codes:
    """The numbers of the terms, ascending."""
    if packed[:1] == _MANY:
        return np.flatnonzero(_bits(packed)).astype(np.int32)
    return np.frombuffer(packed, dtype=np.int32, offset=1) if packed else np.zeros(0, dtype=np.int32)


def _bits(packed: bytes) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8, offset=1), bitorder="little")
