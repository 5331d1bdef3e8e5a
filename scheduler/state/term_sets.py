"""The affinity terms of placed pods, as sets: pods with equal terms share one set.

So placing or removing a pod is one change, however many terms it has. A set counts once all its terms are in the index.
For a pod that Berth places, this is done before the pod is assumed, and charged to its attempt (`prepare`). Sets of
pods that others placed wait in lanes, one for each namespace, until the engine has them indexed (`catch_up`).
"""

import numpy as np
from msgspec import Struct, field

from scheduler.model.affinity import AffinityTerm
from scheduler.model.shape import PodShape
from scheduler.state.arrivals import Arrivals
from scheduler.state.backlog import Backlog
from scheduler.state.column import Bools, Codes, Ints
from scheduler.state.effort import Effort
from scheduler.state.existing_term_sums import HARD, REPELS
from scheduler.state.row_counts import RowCounts
from scheduler.state.selector_index import TermIndex

IDLE = 256
"""How many sets without pods are kept: a dry run removes pods and puts them back."""
DEAD = 4096
"""How many numbers of removed terms or sets stay unused, before sums are dropped so that numbers can be used again."""
_IDLE_TERMS = 4096
"""How many terms those sets may have together, if they are more than one."""
_PREPARED_TERMS = 65_536
"""How many terms the sets may have together that are indexed before pods with them are placed."""
_SHAPES = 4096
_TOGETHER = 8
"""Sets of lanes begin to count together, once they have one new term for this many terms that count already."""

Terms = tuple[tuple[AffinityTerm, int], ...]
Key = tuple[tuple[object, ...], ...]


class IndexedTerm(Struct, eq=False):
    """A term that sets have, as required anti-affinity or for scoring (`weight`)."""

    number: int
    """In the index."""
    term: AffinityTerm
    weight: int
    sets: int = 0
    born: bool = False
    """A set counts that has it."""
    gone: bool = False


class TermSet(Struct, eq=False):
    """The terms of some placed pods."""

    number: int
    key: Key
    namespace: str
    """The namespace of the first pod that carried it: the lane in which the set waits to be indexed or taken out."""
    terms: Terms
    pods: int = 0
    carried: list["IndexedTerm"] = field(default_factory=list)
    """The first of the terms, those that are in the index."""
    whole: bool = False
    """Whether all of the terms are in the index, and so the set counts."""
    waiting: dict[int, int] = field(default_factory=dict)
    """Row → pods that carry it, until it counts."""
    gone: bool = False

    @property
    def indexed(self) -> int:
        """How many of the terms are in the index."""
        return len(self.carried)


class TermSets:
    """All sets, where the pods are that carry them, and the index of their terms."""

    def __init__(self) -> None:
        self.placed = RowCounts()
        """Pods that carry each set that counts, by row."""
        self.backlog: Backlog[TermSet] = Backlog()
        self.index = TermIndex()
        self.in_sets = RowCounts()
        """How often each term is in each set."""
        self.born: Arrivals[IndexedTerm] = Arrivals()
        """Terms in the order in which they began to count."""
        self.sets_born: Arrivals[TermSet] = Arrivals()
        """Sets in the order in which they began to count."""
        self.added = 0
        """Counts the terms of sets that were put into the index."""
        self.weights: Ints = np.zeros(64, dtype=np.int64)
        self.keys: Codes = np.zeros(64, dtype=np.int32)
        """The code of each term's topology key."""
        self.key_codes: dict[str, int] = {}
        self._key_users: dict[str, int] = {}
        """Topology key → how many terms have it."""
        self._codes = 0
        self.counting: Bools = np.zeros(64, dtype=np.bool_)
        """Which terms count."""
        self.whole: Bools = np.zeros(64, dtype=np.bool_)
        """Which sets count."""
        self._sets: list[TermSet | None] = []
        self._free: list[int] = []
        self._dead: list[int] = []
        self.known: dict[Key, TermSet] = {}
        """Every set, and some that nobody carries any more."""
        self._by_shape: dict[PodShape, TermSet] = {}
        self._idle: dict[TermSet, None] = {}
        self._idle_terms = 0
        self._prepared: dict[TermSet, None] = {}
        """Sets of pods that are to be placed; the one that was asked for last comes last."""
        self._prepared_terms = 0
        self.urgent: dict[TermSet, None] = {}
        """Sets that have to count before the next question is answered."""
        self._ready: dict[TermSet, None] = {}
        """Sets of lanes that are wholly in the index, and begin to count together with others."""
        self._ready_terms = 0
        self._terms: list[IndexedTerm | None] = []
        self._by_term: dict[tuple[AffinityTerm, int], IndexedTerm] = {}

    def __len__(self) -> int:
        """How many sets there are, some of which nobody carries any more."""
        return len(self.known)

    def all(self) -> list[TermSet]:
        """Every set, and some that nobody carries any more."""
        return list(self.known.values())

    def terms(self) -> list[IndexedTerm]:
        """Every term that is in the index."""
        return list(self._by_term.values())

    def term(self, number: int) -> IndexedTerm | None:
        """The term of a number; None when it is gone."""
        return self._terms[number]

    def get(self, term: tuple[AffinityTerm, int]) -> IndexedTerm | None:
        """A term that is in the index."""
        return self._by_term.get(term)

    def find(self, shape: PodShape) -> TermSet | None:
        """The set that pods of a shape carry, if any carries it."""
        of = self._by_shape.get(shape)
        return self.known.get(_key(shape)) if of is None or of.gone else of

    # -- pods that come and go -----------------------------------------------------------------------------------

    def add(self, shape: PodShape, row: int, amount: int, *, urgent: bool = False) -> None:
        """So many more pods of this shape on a row, or fewer. `urgent`: they count from the next question on."""
        if not (shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms):
            return
        of = self._of(shape)
        if not of.pods:
            if of in self._idle:
                del self._idle[of]
                self._idle_terms -= len(of.terms)
            elif of in self._prepared:
                del self._prepared[of]
                self._prepared_terms -= len(of.terms)
        of.pods += amount
        if of.whole:
            self.placed.add(of.number, row, amount)
        else:
            left = of.waiting[row] = of.waiting.get(row, 0) + amount
            if not left:
                del of.waiting[row]
            elif urgent:
                self.urgent[of] = None
            else:
                self.backlog.put(shape.namespace, of, len(of.terms))
        if not of.pods:
            self._keep_idle(of)

    def prepare(self, shape: PodShape, effort: Effort) -> None:
        """Index the terms of a pod that is to be placed, so that they count from the moment when it is.

        Raises SliceOver; asked again, it gets further.
        """
        if not (shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms):
            return
        found = self._by_shape.get(shape)
        if found is not None and found.whole:
            return
        of = self._of(shape)
        if of.whole:
            return
        if not of.pods and of not in self._idle:
            if self._prepared.pop(of, of) is of:
                self._prepared_terms += len(of.terms)
                while self._prepared and self._prepared_terms > _PREPARED_TERMS:
                    oldest = next(iter(self._prepared))
                    del self._prepared[oldest]
                    self._prepared_terms -= len(oldest.terms)
                    self._keep_idle(oldest)
            self._prepared[of] = None
        while not of.whole:
            effort.charge(self._go_on(of))

    def settle(self, effort: Effort, *, urgent_only: bool = False) -> None:
        """Have every set count that a pod carries; `urgent_only`: that somebody has to know of now.

        Raises SliceOver; asked again, it gets further.
        """
        while self.urgent:
            of = next(iter(self.urgent))
            while _has_work(of):
                effort.charge(self._go_on(of))
            self.urgent.pop(of, None)
        if urgent_only:
            return
        while namespaces := self.backlog.first(1):
            namespace = namespaces[0]
            for of in self.backlog.of(namespace):
                while _has_work(of):
                    effort.charge(self._go_on(of))
                self.backlog.done(namespace, of)
        effort.charge(self._have_count())

    def catch_up(self, namespace: str, steps: int) -> int:
        """Go on with the lane of a namespace for so many steps, or some more; returns how many it took."""
        spent = 0
        for of in self.backlog.of(namespace):
            while _has_work(of) and spent < steps and (of.gone or of.indexed < len(of.terms)):
                spent += self._go_on(of)
            if _has_work(of):
                if of.gone or of.indexed < len(of.terms):
                    break
                self._ready.setdefault(of)
                self._ready_terms += len(of.terms)
            self.backlog.done(namespace, of)
            spent += 1
            if spent >= steps:
                break
        self.backlog.last(namespace)
        if not self.backlog or self._ready_terms * _TOGETHER > len(self._by_term):
            spent += self._have_count()
        return spent

    @property
    def behind(self) -> bool:
        """Whether pods carry terms that do not count yet, or some that went are still in the index."""
        return bool(self.backlog or self._ready)

    def _have_count(self) -> int:
        """Let the sets count that are ready; returns about how many microseconds it took.

        All at once, because all sums have to be brought up to date after terms were added.
        """
        spent = sum(self._complete(of) for of in self._ready if _has_work(of) and of.indexed == len(of.terms))
        self._ready, self._ready_terms = {}, 0
        return spent

    @property
    def worn(self) -> bool:
        """Whether so many numbers are unused that it is worth while to use them again."""
        return self.index.dead > DEAD + self.index.alive or len(self._dead) > DEAD + len(self.known)

    def reuse(self) -> None:
        """Use numbers again; nothing may refer to their old meaning any more.

        It is done in one turn, so nothing here may depend on how many terms there are.
        """
        self.index.reuse()
        self._free += self._dead
        self._dead = []
        self.placed.forget_changes()

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
        found = self.known[key] = TermSet(number, key, shape.namespace, _terms_of(shape))
        if number == len(self._sets):
            self._sets.append(found)
            if number >= len(self.whole):
                self.whole = np.concatenate((self.whole, np.zeros_like(self.whole)))
        else:
            self._sets[number] = found
        return found

    def _keep_idle(self, of: TermSet) -> None:
        """No pod has this set any more: keep it for a while, as it may be needed again."""
        self._idle[of] = None
        self._idle_terms += len(of.terms)
        while len(self._idle) > 1 and (len(self._idle) > IDLE or self._idle_terms > _IDLE_TERMS):
            self._end(next(iter(self._idle)))

    def _end(self, idle: TermSet) -> None:
        del self._idle[idle]
        self._idle_terms -= len(idle.terms)
        del self.known[idle.key]
        idle.gone = True
        idle.whole = self.whole[idle.number] = False
        if idle.indexed:
            self.backlog.put(idle.namespace, idle, len(idle.terms))
        else:
            self._ended(idle)

    def _ended(self, gone: TermSet) -> None:
        self._sets[gone.number] = None
        self._dead.append(gone.number)

    # -- their terms ---------------------------------------------------------------------------------------------

    def _go_on(self, of: TermSet) -> int:
        """Do the next thing that has to be done about a set; returns about how many microseconds it took."""
        if of.gone:
            return self._take_out(of)
        return self._put_in(of) if of.indexed < len(of.terms) else self._complete(of)

    def _put_in(self, of: TermSet) -> int:
        """Put the next term of a set into the index; returns about how many microseconds it took."""
        pair = of.terms[of.indexed]
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
        carried.sets += 1
        self.added += 1
        self.in_sets.add(carried.number, of.number, 1)
        of.carried.append(carried)
        return self.index.cost(carried.term)

    def _code(self, key: str) -> int:
        """The code of a topology key that one more term has."""
        self._key_users[key] = self._key_users.get(key, 0) + 1
        code = self.key_codes.get(key)
        if code is None:
            self._codes += 1
            code = self.key_codes[key] = self._codes
        return code

    def _complete(self, of: TermSet) -> int:
        """All terms of a set are in the index: it counts from now on; returns about how many microseconds it took."""
        for carried in of.carried:
            if not carried.born:
                carried.born = self.counting[carried.number] = True
                self.born.add(carried)
        of.whole = self.whole[of.number] = True
        self.sets_born.add(of)
        for row, amount in of.waiting.items():
            self.placed.add(of.number, row, amount)
        steps = 1 + len(of.terms) // 8 + len(of.waiting)
        of.waiting = {}
        return steps

    def _take_out(self, of: TermSet) -> int:
        """Take the last term of a set out of the index; returns about how many microseconds it took."""
        carried = of.carried.pop()
        carried.sets -= 1
        self.in_sets.add(carried.number, of.number, -1)
        if not carried.sets:
            carried.gone = True
            del self._by_term[carried.term, carried.weight]
            self._terms[carried.number] = None
            self.counting[carried.number] = False
            self.index.remove(carried.number)
            key = carried.term.topology_key
            self._key_users[key] -= 1
            if not self._key_users[key]:
                del self._key_users[key], self.key_codes[key]
        if not of.carried:
            self._ended(of)
        return self.index.cost(carried.term)


def _has_work(of: TermSet) -> bool:
    """Whether a set that pods carry does not count yet, or one that has gone is still in the index."""
    return bool(of.carried) if of.gone else bool(of.pods) and not of.whole


def _key(shape: PodShape) -> Key:
    """What tells sets apart: tuples that are hashed once."""
    return shape.anti_affinity_terms, shape.affinity_terms, shape.preferred_pod_terms


def _terms_of(shape: PodShape) -> Terms:
    """What pods of a shape carry."""
    return (
        *((term, REPELS) for term in shape.anti_affinity_terms),
        *((term, HARD) for term in shape.affinity_terms),
        *((preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms),
    )
