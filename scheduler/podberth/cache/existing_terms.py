"""The affinity terms of placed pods: which of them select a pod, and what they add up to for it.

Pods with equal terms share one set (`TermSets`), so placing or removing a pod is one change, however many terms it has.
Upstream: the existing pods' half of plugins/interpodaffinity (existingAntiAffinityCounts, processExistingPod).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from podberth.cache.column import Bools, Codes, Ints
from podberth.cache.kept_results import BoundedBytes, ChangeLog, KeptResult
from podberth.cache.label_index import TermIndex
from podberth.cache.nodes import Nodes
from podberth.cache.row_counts import ByTopology, RowCounts, Weights
from podberth.cache.selected_pods import PodClasses
from podberth.model.pod import NO_LABELS, Pod
from podberth.model.shape import PodShape
from podberth.model.terms import AffinityTerm

REPELS_WEIGHT = 0
"""The weight of required anti-affinity."""
HARD_WEIGHT = 1 << 20
"""The weight of required affinity, which scores with the plugin's hardPodAffinityWeight."""

NONE = b""
_FEW, _MANY = b"n", b"b"
"""The encodings of the numbers of terms: the numbers themselves, or one bit for each term."""
_NO_TERMS: Bools = np.zeros(0, dtype=np.bool_)
_ASKED = 16_384
_SUMS = 4096
_KEPT_BYTES = 32 << 20
IDLE = 256
"""The number of sets without pods that are kept: a dry run removes pods and puts them back."""
DEAD = 4096
"""The number of removed terms or sets from which on their numbers are used again, and sums are made again."""
_SHAPES = 4096
_BORN = 64
"""The number of new sets that are remembered; after more of them, sums are added up again."""

Terms = tuple[tuple[AffinityTerm, int], ...]
Key = tuple[tuple[object, ...], ...]


class Kind(IntEnum):
    """What the term of a placed pod means for the pod that it selects. Each kind is added up by itself.

    Preferences are two kinds, by their sign: where pods attract as much as they avoid, the sum of 0 counts as a score,
    which one sum of both could not tell from no term.
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
    """Return the kind of a term with this weight."""
    if weight in (REPELS_WEIGHT, HARD_WEIGHT):
        return Kind.REPELS if weight == REPELS_WEIGHT else Kind.HARD
    return Kind.ATTRACTS if weight > 0 else Kind.AVOIDS


class IndexedTerm(Struct, eq=False):
    """A term that sets have, as required anti-affinity or for scoring (`weight`)."""

    number: int
    """Its number in the index."""
    term: AffinityTerm
    weight: int
    sets: int = 0
    gone: bool = False


class TermSet(Struct, eq=False):
    """The affinity terms that pods of some shapes carry."""

    number: int
    key: Key
    carried: list[IndexedTerm]
    """The terms, in the order of the shape."""
    pods: int = 0
    gone: bool = False


class TermSets:
    """The sets of affinity terms, the rows of the pods that carry them, and the index of their terms."""

    def __init__(self) -> None:
        self.placed = RowCounts()
        """Pods that carry each set, by row."""
        self.index = TermIndex()
        self.in_sets = RowCounts()
        """The number of times that each term is in each set."""
        self.born = 0
        """The number of terms that ever came."""
        self.sets_born: ChangeLog[TermSet] = ChangeLog(kept=_BORN)
        """Sets that came. Each comes with a pod, so `placed` has another version then, too."""
        self.numbering = 0
        """How often the numbers of terms and sets that are gone were set free for new ones. What is known by number is
        valid until this changes.
        """
        self.weights: Ints = np.zeros(64, dtype=np.int64)
        self.keys: Codes = np.zeros(64, dtype=np.int32)
        """The code of each term's topology key."""
        self.key_codes: dict[str, int] = {}
        self._key_users: dict[str, int] = {}
        """Topology key → how many terms have it."""
        self._codes = 0
        self.counting: Bools = np.zeros(64, dtype=np.bool_)
        """The numbers that are those of terms."""
        self._sets: list[TermSet | None] = []
        self._free: list[int] = []
        self._dead: list[int] = []
        self.known: dict[Key, TermSet] = {}
        """Every set, and some that nobody carries any more."""
        self._by_shape: dict[PodShape, TermSet] = {}
        self._idle: dict[TermSet, None] = {}
        self._terms: list[IndexedTerm | None] = []
        self._by_term: dict[tuple[AffinityTerm, int], IndexedTerm] = {}

    def __len__(self) -> int:
        """Return how many sets there are, some of which nobody carries any more."""
        return len(self.known)

    def all(self) -> list[TermSet]:
        """Every set, and some that nobody carries any more."""
        return list(self.known.values())

    def terms(self) -> list[IndexedTerm]:
        """Return every term that is in the index."""
        return list(self._by_term.values())

    def term(self, number: int) -> IndexedTerm | None:
        """Return the term of a number; None when it is gone."""
        return self._terms[number]

    def find(self, shape: PodShape) -> TermSet | None:
        """Return the set that pods of a shape carry, if any do; None: it is not known."""
        of = self._by_shape.get(shape)
        return self.known.get(_key(shape)) if of is None or of.gone else of

    # -- pods that come and go -----------------------------------------------------------------------------------

    def add(self, shape: PodShape, row: int, amount: int) -> None:
        """Count this many more pods of a shape on a row, or fewer where negative. The shape has terms."""
        of = self._of(shape)
        self._idle.pop(of, None)
        of.pods += amount
        self.placed.add(of.number, row, amount)
        if not of.pods:
            self._keep_idle(of)

    def reuse(self) -> None:
        """Use the numbers of terms and sets that are gone for new ones."""
        self.index.reuse()
        self._free += self._dead
        self._dead = []
        self.numbering += 1

    # -- sets ----------------------------------------------------------------------------------------------------

    def _of(self, shape: PodShape) -> TermSet:
        found = self._by_shape.get(shape)
        if found is None or found.gone:
            key = _key(shape)
            found = self.known.get(key) or self._begin(key, shape)
            if not shape.heavy:  # megabytes that nothing else may need any more
                if len(self._by_shape) >= _SHAPES:
                    self._by_shape.clear()
                self._by_shape[shape] = found
        return found

    def _begin(self, key: Key, shape: PodShape) -> TermSet:
        number = self._free.pop() if self._free else len(self._sets)
        found = self.known[key] = TermSet(number, key, [])
        if number == len(self._sets):
            self._sets.append(found)
        else:
            self._sets[number] = found
        found.carried = [self._carried(pair, number) for pair in _terms_of(shape)]
        self.sets_born.touch(found)
        return found

    def _keep_idle(self, of: TermSet) -> None:
        """Keep a set that no pod carries any more for a while, as it may be needed again."""
        self._idle[of] = None
        if len(self._idle) > IDLE:
            self._end(next(iter(self._idle)))

    def _end(self, idle: TermSet) -> None:
        del self._idle[idle]
        del self.known[idle.key]
        idle.gone = True
        for carried in idle.carried:
            self._let_go(carried, idle.number)
        self._sets[idle.number] = None
        self._dead.append(idle.number)
        if self.index.dead > DEAD + self.index.alive or len(self._dead) > DEAD + len(self.known):
            self.reuse()

    # -- their terms ---------------------------------------------------------------------------------------------

    def _carried(self, pair: tuple[AffinityTerm, int], of: int) -> IndexedTerm:
        """Return the term of a new set, put into the index if no set has it yet."""
        carried = self._by_term.get(pair)
        if carried is None:
            term, weight = pair
            number = self.index.add(term)
            carried = self._by_term[pair] = IndexedTerm(number, term, weight)
            if number == len(self._terms):
                self._terms.append(carried)
                if number >= len(self.weights):
                    self.weights = np.concatenate((self.weights, np.zeros_like(self.weights)))
                    self.keys = np.concatenate((self.keys, np.zeros_like(self.keys)))
                    self.counting = np.concatenate((self.counting, np.zeros_like(self.counting)))
            else:
                self._terms[number] = carried
            self.weights[number] = weight
            self.keys[number] = self._code(term.topology_key)
            self.counting[number] = True
            self.born += 1
        carried.sets += 1
        self.in_sets.add(carried.number, of, 1)
        return carried

    def _let_go(self, carried: IndexedTerm, of: int) -> None:
        """Note that a set which has the term is gone."""
        carried.sets -= 1
        self.in_sets.add(carried.number, of, -1)
        if carried.sets:
            return
        carried.gone = True
        del self._by_term[carried.term, carried.weight]
        self._terms[carried.number] = None
        self.counting[carried.number] = False
        self.index.remove(carried.number)
        key = carried.term.topology_key
        self._key_users[key] -= 1
        if not self._key_users[key]:
            del self._key_users[key], self.key_codes[key]

    def _code(self, key: str) -> int:
        """Return the code of a topology key that one more term has."""
        self._key_users[key] = self._key_users.get(key, 0) + 1
        code = self.key_codes.get(key)
        if code is None:
            self._codes += 1
            code = self.key_codes[key] = self._codes
        return code


def _key(shape: PodShape) -> Key:
    """Return the key of a shape's set: tuples that are hashed once."""
    return shape.anti_affinity_terms, shape.affinity_terms, shape.preferred_pod_terms


def _terms_of(shape: PodShape) -> Terms:
    """Return the terms that pods of a shape carry, with their weights."""
    return (
        *((term, REPELS_WEIGHT) for term in shape.anti_affinity_terms),
        *((term, HARD_WEIGHT) for term in shape.affinity_terms),
        *((preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms),
    )


class ExistingTermSums(KeptResult[set[TermSet]]):
    """Sums for pods that the same terms select. Placed pods are counted by the set of terms that they have."""

    def __init__(self, by: bytes) -> None:
        """`by` holds the numbers of the terms (`pack`)."""
        self.by = by
        """The numbers of the terms that select the pods."""
        self.repelled: dict[str, ByTopology] = {}
        """Topology key → placed pods that keep the pod away (required anti-affinity), each as often as its terms do."""
        self.hard: dict[str, ByTopology] = {}
        """Topology key → placed pods that must be near the pod (required affinity)."""
        self.attracted: dict[str, ByTopology] = {}
        """Topology key → weights of placed pods that prefer to be near the pod."""
        self.avoided: dict[str, ByTopology] = {}
        """Topology key → weights, below 0, of placed pods that prefer to be away from the pod."""
        self._parts: list[tuple[Weights, ByTopology]] = []
        """The weight of each set, and the sum that it counts in."""
        self._by_sum: dict[int, Weights] = {}
        self._sets = 0
        """The version of the sets that came."""

    @property
    def preferred(self) -> list[ByTopology]:
        """Return the sums of weights of placed pods that prefer to be near the pod, or away from it."""
        return [*self.attracted.values(), *self.avoided.values()]

    @property
    def repels(self) -> bool:
        """Return whether any pod on a node keeps it away."""
        return bool(self.repelled) and any(one.total for one in self.repelled.values())

    @property
    def repulsions(self) -> int:
        """Return how many terms of pods on nodes keep it away, each counted for each pod that has it."""
        return sum(int(one.by_code().sum()) for one in self.repelled.values())

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""
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

    def follow(self, sets: TermSets, nodes: Nodes, pods: PodClasses) -> None:
        """Bring the sums up to date."""
        self.renew((sets.numbering, nodes.key_changes, pods.relabels), sets.placed, (sets, nodes))

    def changes(self, log: RowCounts, asked: Any) -> set[TermSet] | None:
        """Return the sets that came; None if computing anew costs less than following the changes."""
        sets: TermSets = asked[0]
        return sets.sets_born.since(self._sets) if log.worth_following(self.version) else None

    def apply(self, changes: set[TermSet], asked: Any) -> None:
        """Weigh the sets that came, and count the pods that came and went."""
        sets, nodes = asked
        which = unpack(self.by, len(sets.index)) if changes else _NO_TERMS
        for of in changes:
            for carried in () if of.gone else of.carried:
                if which[carried.number]:
                    kind = kind_of(carried.weight)
                    weights = self._part(carried.term.topology_key, kind, nodes)
                    if weights is not None:
                        each = 1 if kind in (Kind.REPELS, Kind.HARD) else carried.weight
                        weights.set(of.number, weights.get(of.number) + each)
        self._sets = sets.sets_born.version
        for weights, one in self._parts:
            for row, amount, weight in weights.since(sets.placed, self.version):
                one.count(row, amount, weight)

    def compute(self, asked: Any) -> None:
        """Weigh all sets, and add up all pods that are placed."""
        sets, nodes = asked
        self.repelled, self.hard, self.attracted, self.avoided = {}, {}, {}, {}
        self._parts, self._by_sum = [], {}
        self._sets = sets.sets_born.version
        self._weigh_all(sets, nodes)
        for weights, one in self._parts:
            found, each = weights.weighed(sets.placed)
            assert one.column is not None
            counts = (each != 0) & (one.column.codes[found.rows] >= 0)
            found, each = found.at(counts), each[counts]
            one.add_all(found.rows, found.counts * each, int(found.counts.sum()))

    def _weigh_all(self, sets: TermSets, nodes: Nodes) -> None:
        """Compute the weight of each set by node label."""
        in_sets = sets.in_sets.everywhere()
        selects = unpack(self.by, len(sets.index))
        terms, of, times = in_sets.at(selects[in_sets.numbers] & (in_sets.counts != 0))
        keys, weights = sets.keys[terms], sets.weights[terms]
        few, many = sorted((nodes.label_keys, sets.key_codes), key=len)
        for key in [key for key in few if key in many]:
            of_key = keys == sets.key_codes[key]
            for kind in Kind:
                which = of_key & _of_kind(weights, kind)
                part = self._part(key, kind, nodes) if which.any() else None
                if part is not None:
                    each = weights[which] * times[which] if kind >= Kind.ATTRACTS else times[which]
                    part.add_each(of[which], each)

    def _part(self, key: str, kind: Kind, nodes: Nodes) -> Weights | None:
        """Return the weights of sets in the sum of one kind by one label; None: no node has the label."""
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


class Asked(Struct, eq=False):
    """Pods of one namespace with the same labels, and the terms that select them."""

    namespace: str
    labels: Mapping[str, str]
    basis: tuple[int, int, int] | None = None
    """The versions of terms and namespaces for which `by` is right."""
    by: bytes = NONE
    """The numbers of the terms (`pack`)."""


class ExistingTerms:
    """The affinity terms of all placed pods, and the sums of those that select a pod."""

    def __init__(self, nodes: Nodes) -> None:
        self.sets = TermSets()
        self._nodes = nodes
        self.asked: dict[tuple[str, int], Asked] = {}
        """(namespace, identity of the labels) → what is known of pods that have them."""
        self.sums: BoundedBytes[bytes, ExistingTermSums] = BoundedBytes(_SUMS, _KEPT_BYTES)
        """The sums that are kept, by the numbers of the terms that select a pod. Pods that the same terms select share
        them.
        """

    def sums_for(self, pod: Pod, pods: PodClasses) -> ExistingTermSums | None:
        """Return the sums of the placed pods' terms that select a pod; None: none does."""
        sets = self.sets
        asked = self.asked.get((pod.namespace, id(pod.labels)))
        if asked is None:
            if len(self.asked) >= _ASKED:
                self.asked.clear()
            asked = self.asked[pod.namespace, id(pod.labels)] = Asked(pod.namespace, pod.labels)
        basis = sets.numbering, sets.born, pods.namespace_changes
        if asked.basis != basis:
            asked.by, asked.basis = self._selecting(asked, pods), basis
        if not asked.by:
            return None
        sums = self.sums.recall(asked.by)
        if sums is None:
            self.sums.keep(asked.by, sums := ExistingTermSums(asked.by))
        asked.by = sums.by  # equal bytes once for all: beside many terms they are some 10 KB
        sums.follow(sets, self._nodes, pods)
        return sums

    def _selecting(self, asked: Asked, pods: PodClasses) -> bytes:
        """Return the numbers of the terms that select the pods."""
        of_namespace = pods.labels_of_namespace(asked.namespace) or NO_LABELS
        which = self.sets.index.select(asked.namespace, of_namespace, asked.labels)
        return pack(which & self.sets.counting[: len(which)])

    def named_by(self, sums: ExistingTermSums) -> list[AffinityTerm]:
        """Return the required anti-affinity terms by which placed pods keep a pod away from some node."""
        found = []
        for number in numbers(sums.by).tolist():
            carried = self.sets.term(number)
            if carried is None or carried.weight != REPELS_WEIGHT:
                continue
            column = self._nodes.topology(carried.term.topology_key)
            rows = (row for of, _ in self.sets.in_sets.rows_of(number) for row, _ in self.sets.placed.rows_of(of))
            if column is not None and any(column.codes[row] >= 0 for row in rows):
                found.append(carried.term)
        return found


def _of_kind(weights: Ints, kind: Kind) -> Bools:
    """Return bool[terms]: which terms are of this kind, by their weights (`kind_of`)."""
    which: Bools
    if kind is Kind.REPELS:
        which = weights == REPELS_WEIGHT
    elif kind is Kind.HARD:
        which = weights == HARD_WEIGHT
    else:
        which = weights < 0 if kind is Kind.AVOIDS else (weights > 0) & (weights != HARD_WEIGHT)
    return which


def pack(which: Bools) -> bytes:
    """Return the numbers of the terms that are marked, as bytes, which are the same for the same terms."""
    count = int(np.count_nonzero(which))
    if not count:
        return NONE
    end = len(which) - int(which[::-1].argmax())
    if 32 * count < end:
        return _FEW + np.flatnonzero(which).astype(np.int32).tobytes()
    return _MANY + np.packbits(which[:end], bitorder="little").tobytes()


def unpack(packed: bytes, size: int) -> Bools:
    """Return bool[size]: which terms are marked. `size` is above every marked number."""
    which = np.zeros(size, dtype=np.bool_)
    if packed[:1] == _MANY:
        bits = _bits(packed)[:size]
        which[: len(bits)] = bits
    elif packed:
        which[np.frombuffer(packed, dtype=np.int32, offset=1)] = True
    return which


def numbers(packed: bytes) -> Codes:
    """Return the numbers of the terms, ascending."""
    if packed[:1] == _MANY:
        return np.flatnonzero(_bits(packed)).astype(np.int32)
    return np.frombuffer(packed, dtype=np.int32, offset=1) if packed else np.zeros(0, dtype=np.int32)


def _bits(packed: bytes) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8, offset=1), bitorder="little")
