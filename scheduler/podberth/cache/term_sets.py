"""The affinity terms of placed pods, as sets: pods with equal terms share one set.

So placing or removing a pod is one change, however many terms it has.
"""

import numpy as np
from msgspec import Struct

from podberth.cache.column import Bools, Codes, Ints
from podberth.cache.existing_term_sums import HARD, REPELS
from podberth.cache.kept_results import ChangeLog
from podberth.cache.row_counts import RowCounts
from podberth.cache.selector_index import TermIndex
from podberth.model.affinity import AffinityTerm
from podberth.model.shape import PodShape

IDLE = 256
"""How many sets without pods are kept: a dry run removes pods and puts them back."""
DEAD = 4096
"""How many numbers of removed terms or sets stay unused, before sums are dropped so that numbers can be used again."""
_SHAPES = 4096
_BORN = 64
"""So many new sets are remembered: of more, sums are added up again."""

Terms = tuple[tuple[AffinityTerm, int], ...]
Key = tuple[tuple[object, ...], ...]


class IndexedTerm(Struct, eq=False):
    """A term that sets have, as required anti-affinity or for scoring (`weight`)."""

    number: int
    """In the index."""
    term: AffinityTerm
    weight: int
    sets: int = 0
    gone: bool = False


class TermSet(Struct, eq=False):
    """The terms of some placed pods."""

    number: int
    key: Key
    carried: list[IndexedTerm]
    """The terms, in the order of the shape."""
    pods: int = 0
    gone: bool = False


class TermSets:
    """All sets, where the pods are that carry them, and the index of their terms."""

    def __init__(self) -> None:
        self.placed = RowCounts()
        """Pods that carry each set, by row."""
        self.index = TermIndex()
        self.in_sets = RowCounts()
        """How often each term is in each set."""
        self.born = 0
        """How many terms ever came."""
        self.sets_born: ChangeLog[TermSet] = ChangeLog(kept=_BORN)
        """Sets that came."""
        self.weights: Ints = np.zeros(64, dtype=np.int64)
        self.keys: Codes = np.zeros(64, dtype=np.int32)
        """The code of each term's topology key."""
        self.key_codes: dict[str, int] = {}
        self._key_users: dict[str, int] = {}
        """Topology key → how many terms have it."""
        self._codes = 0
        self.counting: Bools = np.zeros(64, dtype=np.bool_)
        """Which numbers are those of terms."""
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

    def add(self, shape: PodShape, row: int, amount: int) -> None:
        """So many more pods of this shape on a row, or fewer."""
        if not (shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms):
            return
        of = self._of(shape)
        self._idle.pop(of, None)
        of.pods += amount
        self.placed.add(of.number, row, amount)
        if not of.pods:
            self._keep_idle(of)

    @property
    def worn(self) -> bool:
        """Return whether so many numbers are unused that it is worth while to use them again."""
        return self.index.dead > DEAD + self.index.alive or len(self._dead) > DEAD + len(self.known)

    def reuse(self) -> None:
        """Use numbers again; nothing may refer to their old meaning any more."""
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
        found = self.known[key] = TermSet(number, key, [])
        if number == len(self._sets):
            self._sets.append(found)
        else:
            self._sets[number] = found
        found.carried = [self._carried(pair, number) for pair in _terms_of(shape)]
        self.sets_born.touch(found)
        return found

    def _keep_idle(self, of: TermSet) -> None:
        """No pod has this set any more: keep it for a while, as it may be needed again."""
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

    # -- their terms ---------------------------------------------------------------------------------------------

    def _carried(self, pair: tuple[AffinityTerm, int], of: int) -> IndexedTerm:
        """The term of a new set, put into the index if no set has it yet."""
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
        """A set that has the term is gone."""
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
        """The code of a topology key that one more term has."""
        self._key_users[key] = self._key_users.get(key, 0) + 1
        code = self.key_codes.get(key)
        if code is None:
            self._codes += 1
            code = self.key_codes[key] = self._codes
        return code


def _key(shape: PodShape) -> Key:
    """Return what tells sets apart: tuples that are hashed once."""
    return shape.anti_affinity_terms, shape.affinity_terms, shape.preferred_pod_terms


def _terms_of(shape: PodShape) -> Terms:
    """Return what pods of a shape carry."""
    return (
        *((term, REPELS) for term in shape.anti_affinity_terms),
        *((term, HARD) for term in shape.affinity_terms),
        *((preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms),
    )
