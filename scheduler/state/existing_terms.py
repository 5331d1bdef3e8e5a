"""The affinity terms that placed pods carry, and what they say to a pod that they mean.

Upstream: the existing pods' half of plugins/interpodaffinity (existingAntiAffinityCounts, processExistingPod). Pods
whose terms are equal carry one set, so a pod that comes or goes is one change, however many terms it has. Terms are put
into the index, and taken out of it, when somebody is next asked about, some in each slice.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from scheduler.state.towards import HARD, REPELS, Towards

IDLE = 256
"""So many sets are kept that no pod carries: a dry run takes pods away and puts them back."""
DEAD = 4096
"""So many numbers of terms or sets are left unused before all that knows them is made anew."""
_IDLE_TERMS = 4096
"""Of all those sets, but for one."""
_SHAPES = 4096
_ASKED = 16_384
_KEPT_BYTES = 32 << 20
_ONE_BY_ONE = 4
_SOME = 1024
_CATCH_UP = 512

Terms = tuple[tuple[AffinityTerm, int], ...]


@dataclass(slots=True, eq=False)
class Carried:
    """A term that sets have, as required anti-affinity or for scoring (`weight`)."""

    number: int
    """In the index."""
    term: AffinityTerm
    weight: int
    sets: int = 0
    gone: bool = False


@dataclass(slots=True, eq=False)
class TermSet:
    """The terms of some placed pods."""

    number: int
    terms: Terms
    pods: int = 0
    indexed: int = 0
    """So many of the terms are in the index."""
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
    by: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """The numbers of the terms, ascending."""
    towards: Towards | None = None


class ExistingTerms:
    """All terms that placed pods carry."""

    def __init__(self, nodes: Nodes) -> None:
        self.placed = RowCounts()
        """Pods that carry each set, by row."""
        self._nodes = nodes
        self._sets: list[TermSet | None] = []
        self._free: list[int] = []
        self._dead: list[int] = []
        self._by_terms: dict[Terms, TermSet] = {}
        self._by_shape: dict[PodShape, TermSet] = {}
        self._idle: dict[int, TermSet] = {}
        self._idle_terms = 0
        self._to_index: dict[int, TermSet] = {}
        self._to_end: deque[TermSet] = deque()
        self._index = TermIndex()
        self._terms: list[Carried | None] = []
        self._by_term: dict[tuple[AffinityTerm, int], Carried] = {}
        self._in_sets = RowCounts()
        """How often each term is in each set."""
        self._born: list[Carried] = []
        """In the order in which terms were indexed, since numbers were last used again."""
        self._sets_born: list[TermSet] = []
        """As `_born`, of sets."""
        self._weights: Ints = np.zeros(64, dtype=np.int64)
        self._keys: Codes = np.zeros(64, dtype=np.int32)
        self._key_codes: dict[str, int] = {}
        self._asked: dict[tuple[str, int], Asked] = {}
        self._towards: dict[bytes, Towards] = {}
        self._kept = 0

    def __len__(self) -> int:
        """How many sets there are, some of which nobody carries any more."""
        return len(self._by_terms)

    def all(self) -> list[TermSet]:
        """Every set, and some that nobody carries any more."""
        return list(self._by_terms.values())

    def terms(self) -> list[Carried]:
        """Every term that is in the index."""
        return list(self._by_term.values())

    def add(self, shape: PodShape, row: int, amount: int) -> None:
        """So many more pods of this shape on a row, or fewer."""
        if not (shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms):
            return
        of = self._of(shape)
        if not of.pods and self._idle.pop(of.number, None) is not None:
            self._idle_terms -= len(of.terms)
        of.pods += amount
        self.placed.add(of.number, row, amount)
        if not of.pods:
            self._idle[of.number] = of
            self._idle_terms += len(of.terms)
            while len(self._idle) > 1 and (len(self._idle) > IDLE or self._idle_terms > _IDLE_TERMS):
                self._end(next(iter(self._idle.values())))

    def towards(self, pod: Pod, pods: PodClasses, effort: Effort) -> Towards:
        """What placed pods' terms add up to for a pod.

        Raises SliceOver; asked again, it gets further.
        """
        if not self._by_terms:
            return _NOTHING
        if self._to_index or self._to_end:
            self.settle(effort)
        asked = self._asked.get((pod.namespace, id(pod.labels)))
        if asked is None:
            if len(self._asked) >= _ASKED:
                self._forget()
            asked = self._asked[pod.namespace, id(pod.labels)] = Asked(pod.namespace, pod.labels)
        if asked.born != len(self._born) or asked.changes != pods.namespace_changes:
            self._match(asked, pods, effort)
        towards = asked.towards
        if towards is None:
            towards = self._shared(asked)
        if not towards.holds(self.placed, self._nodes, pods, len(self._sets_born)):
            self._catch_up(towards, pods, effort)
        return towards

    def settle(self, effort: Effort) -> None:
        """Put terms that came into the index, and take out those that went.

        Raises SliceOver; asked again, it gets further.
        """
        while self._to_end:
            of = self._to_end[0]
            while of.indexed:
                effort.charge(self._take_out(of))
            self._to_end.popleft()
        while self._to_index:
            of = next(iter(self._to_index.values()))
            while of.indexed < len(of.terms):
                effort.charge(self._put_in(of))
            del self._to_index[of.number]
            self._sets_born.append(of)

    def named_by(self, towards: Towards) -> list[AffinityTerm]:
        """The required anti-affinity terms by which placed pods keep a pod away from some node."""
        found = []
        for number in towards.by.tolist():
            carried = self._terms[number]
            if carried is None or carried.weight != REPELS:
                continue
            column = self._nodes.topology(carried.term.topology_key)
            rows = (row for of, _ in self._in_sets.rows_of(number) for row, _ in self.placed.rows_of(of))
            if column is not None and any(column.codes[row] >= 0 for row in rows):
                found.append(carried.term)
        return found

    def repulsion(self, shape: PodShape, row: int, towards: Towards) -> int:
        """How many of the terms that keep a pod away a placed pod of this shape carries, where they count on a row."""
        of = self._by_shape.get(shape)
        if of is None or of.gone:
            of = self._by_terms.get(_terms_of(shape))
        return 0 if of is None else towards.repulsion(of.number, row)

    @property
    def worn(self) -> bool:
        """Whether so many numbers are unused that it is worth while to use them again."""
        if self._to_end:
            return False  # their numbers are not free yet
        return self._index.dead > DEAD + self._index.alive or len(self._dead) > DEAD + len(self._by_terms)

    def reuse(self) -> None:
        """Use numbers again, and forget whatever went by what they meant before."""
        self._forget()
        self._index.reuse()
        self._free += self._dead
        self._dead = []
        self._born = list(self._by_term.values())
        self._sets_born = [of for of in self._by_terms.values() if of.number not in self._to_index]
        self.placed.forget_changes()
        used = {carried.term.topology_key for carried in self._by_term.values()}
        if 2 * len(used) < len(self._key_codes):
            self._key_codes = {key: code for code, key in enumerate(used)}
            for carried in self._by_term.values():
                self._keys[carried.number] = self._key_codes[carried.term.topology_key]

    def _forget(self) -> None:
        self._asked.clear()
        self._towards.clear()
        self._kept = 0

    # -- sets and their terms ------------------------------------------------------------------------------------

    def _of(self, shape: PodShape) -> TermSet:
        found = self._by_shape.get(shape)
        if found is None or found.gone:
            terms = _terms_of(shape)
            found = self._by_terms.get(terms) or self._begin(terms)
            if not shape.heavy:  # megabytes that nothing else may need any more
                if len(self._by_shape) >= _SHAPES:
                    self._by_shape.clear()
                self._by_shape[shape] = found
        return found

    def _begin(self, terms: Terms) -> TermSet:
        number = self._free.pop() if self._free else len(self._sets)
        found = self._by_terms[terms] = TermSet(number, terms)
        if number == len(self._sets):
            self._sets.append(found)
        else:
            self._sets[number] = found
        self._to_index[number] = found
        return found

    def _end(self, idle: TermSet) -> None:
        del self._idle[idle.number]
        self._idle_terms -= len(idle.terms)
        del self._by_terms[idle.terms]
        self._to_index.pop(idle.number, None)
        self._sets[idle.number] = None
        idle.gone = True
        if idle.indexed:
            self._to_end.append(idle)
        self._dead.append(idle.number)

    def _put_in(self, of: TermSet) -> int:
        """Put the next term of a set into the index; returns about how many microseconds it took."""
        term, weight = of.terms[of.indexed]
        carried = self._by_term.get((term, weight))
        if carried is None:
            number = self._index.add(term)
            carried = self._by_term[(term, weight)] = Carried(number, term, weight)
            if number == len(self._terms):
                self._terms.append(carried)
                if number >= len(self._weights):
                    self._weights = np.concatenate((self._weights, np.zeros_like(self._weights)))
                    self._keys = np.concatenate((self._keys, np.zeros_like(self._keys)))
            else:
                self._terms[number] = carried
            self._weights[number] = weight
            self._keys[number] = self._key_codes.setdefault(term.topology_key, len(self._key_codes))
            self._born.append(carried)
        carried.sets += 1
        self._in_sets.add(carried.number, of.number, 1)
        of.indexed += 1
        return self._index.cost(term)

    def _take_out(self, of: TermSet) -> int:
        """Take the last term of a set out of the index; returns about how many microseconds it took."""
        of.indexed -= 1
        carried = self._by_term[of.terms[of.indexed]]
        carried.sets -= 1
        self._in_sets.add(carried.number, of.number, -1)
        if not carried.sets:
            carried.gone = True
            del self._by_term[carried.term, carried.weight]
            self._terms[carried.number] = None
            self._index.remove(carried.number)
        return self._index.cost(carried.term)

    # -- who is asked about --------------------------------------------------------------------------------------

    def _match(self, asked: Asked, pods: PodClasses, effort: Effort) -> None:
        """Find the terms that mean the pods, of those that came since."""
        of_namespace = pods.labels_of_namespace(asked.namespace) or NO_LABELS
        if asked.changes != pods.namespace_changes:
            asked.by, asked.changes, asked.born = np.zeros(0, dtype=np.int32), pods.namespace_changes, 0
            self._leave(asked)
        fresh = len(self._born) - asked.born
        new: Sequence[int] | Ints
        if fresh <= _ONE_BY_ONE:
            new = [
                carried.number
                for carried in self._born[asked.born :]
                if not carried.gone and carried.term.selects(asked.namespace, of_namespace, asked.labels)
            ]
        else:
            start = min(carried.number for carried in self._born[asked.born :]) if fresh <= _SOME else 0
            means = self._index.select(asked.namespace, of_namespace, asked.labels, start)
            new = start + np.flatnonzero(means)
        asked.born = len(self._born)
        if len(new):
            # By hand: NumPy's set operations import a fifth of NumPy when they are first called.
            both = np.sort(np.concatenate((asked.by, np.array(new, dtype=np.int32))))
            by = both[np.concatenate(((True,), both[1:] != both[:-1]))]
            if len(by) != len(asked.by):
                asked.by = by
                self._leave(asked)
        effort.count(1 + min(fresh, 10 + len(self._index) // 300))

    def _leave(self, asked: Asked) -> None:
        """The sums that were right are not any more; if nobody else goes by them, they go."""
        towards, asked.towards = asked.towards, None
        if towards is not None:
            towards.users -= 1
            if not towards.users:
                self._kept -= towards.size
                self._towards.pop(towards.key, None)

    def _shared(self, asked: Asked) -> Towards:
        """The sums of all pods that the same terms mean."""
        key = asked.by.tobytes()
        found = self._towards.get(key)
        if found is None:
            if self._kept > _KEPT_BYTES:
                self._towards.clear()
                self._kept = 0
                for one in self._asked.values():
                    one.towards = None
            found = self._towards[key] = Towards(asked.by, key)
        asked.towards = found
        found.users += 1
        return found

    def _catch_up(self, towards: Towards, pods: PodClasses, effort: Effort) -> None:
        placed, nodes = self.placed, self._nodes
        behind = placed.version - towards.version
        changes = None
        if not towards.stale(nodes, pods):
            if towards.sets < len(self._sets_born):
                for of in self._sets_born[towards.sets :]:
                    if not of.gone:
                        self._weigh(towards, of)
            if behind <= _CATCH_UP or 20 * behind < len(placed):
                changes = placed.since(towards.version)
        cost = 1
        if changes is None:
            before = towards.size
            cost += self._begin_sums(towards)
            towards.add_up(placed)
            self._kept += towards.size - before
            cost += 10 + len(placed) // 100
        else:
            cost += towards.follow(changes)
        towards.seen(placed.version, nodes, pods, len(self._sets_born))
        effort.count(cost)

    def _weigh(self, towards: Towards, of: TermSet) -> None:
        """What a set that came counts for."""
        for term in of.terms:
            carried = self._by_term.get(term)
            if carried is not None and towards.means(carried.number):
                towards.weigh(carried.term.topology_key, carried.weight, of.number, self._nodes)

    def _begin_sums(self, towards: Towards) -> int:
        """What each set counts for, by node label; returns about how many microseconds it took."""
        towards.begin()
        if not len(towards.by):
            return 1
        terms, sets, times = towards.of_terms(self._in_sets)
        keys, weights = self._keys[terms], self._weights[terms]
        for key in self._keys_on_nodes():
            of_key = keys == self._key_codes[key]
            for kind in (REPELS, HARD, None):
                which = of_key & ((weights == kind) if kind is not None else (weights != REPELS) & (weights != HARD))
                if which.any():
                    each = weights[which] * times[which] if kind is None else times[which]
                    towards.weigh_all(key, kind, sets[which], each, self._nodes)
        return 10 + len(terms) // 100

    def _keys_on_nodes(self) -> list[str]:
        """Label keys that terms name and nodes have."""
        few, many = sorted((self._nodes.label_keys, self._key_codes), key=len)
        return [key for key in few if key in many]


def _terms_of(shape: PodShape) -> Terms:
    """What pods of a shape carry."""
    return (
        *((term, REPELS) for term in shape.anti_affinity_terms),
        *((term, HARD) for term in shape.affinity_terms),
        *((preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms),
    )


_NOTHING = Towards(np.zeros(0, dtype=np.int32), b"")
"""Nobody carries any term."""
