"""Placed pods by what they ask of their node, as columns: a node's change is one pass over them, not a walk.

Keyed by the requirement rather than by the pod's shape: the cluster keeps a bound pod's old shape when only what it
asks of nodes changed, since its counts are the same; here that is all that counts.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.view import some_rows
from podberth.model.promise import NodeRequirement
from podberth.plugins.required_during_execution import meeting

Slots = NDArray[np.intp]
_FIRST = 256
_NOBODY = -1
LOOK = 20_000
"""What one look may cost, a pod counting 1 and a criterion of a distinct requirement `_CRITERION`: some 20 ms."""
_CRITERION = 10
_NOT_DUE = -1


class Due(NamedTuple):
    """A pod whose promise is broken: why it was looked at, and whether its node changed."""

    uid: str
    why: int
    by_node: bool


class Promises:
    """Slots of pods: their row, the number of their requirement, and whether it is known to be broken.

    Pods that have to be looked at are marked; each look takes as many as it may, by requirement: the one that waits
    longest, and then the cheapest, so that a tenant whose requirements are large or many waits for itself.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slot: dict[str, int] = {}
        self._uids: list[str] = []
        self._free: list[int] = []
        self._row = np.full(_FIRST, _NOBODY, dtype=np.int64)
        self._kind = np.zeros(_FIRST, dtype=np.int64)
        self._broken = np.zeros(_FIRST, dtype=np.bool_)
        self._why = np.full(_FIRST, _NOT_DUE, dtype=np.int64)
        self._by_node = np.zeros(_FIRST, dtype=np.bool_)
        self._waiting: dict[int, None] = {}
        """Numbers of requirements that are due, the one that waits longest first; some may not be due any more."""
        self._number: dict[NodeRequirement, int] = {}
        self._requirements: list[NodeRequirement] = []
        self._weight: list[int] = []
        self._users: list[int] = []
        self._spare: list[int] = []
        self._readers: dict[str, set[int]] = {}

    def put(self, uid: str, row: int, wanted: NodeRequirement) -> bool:
        """Add or update a pod; whether it has to be looked at."""
        slot = self._slot.get(uid)
        if slot is not None:
            if self._row[slot] == row and self._requirements[self._kind[slot]] == wanted:
                return False
            self._leave(int(self._kind[slot]))
        else:
            slot = self._take_slot(uid)
        self._row[slot] = row
        self._kind[slot] = self._join(wanted)
        return True

    def drop(self, uid: str) -> None:
        """A pod is gone, or asks for nothing any more."""
        slot = self._slot.pop(uid, None)
        if slot is None:
            return
        self._leave(int(self._kind[slot]))
        self._row[slot] = _NOBODY
        self._broken[slot] = False
        self._why[slot] = _NOT_DUE
        self._by_node[slot] = False
        self._free.append(slot)

    def mark(self, uid: str, *, broken: bool) -> None:
        """Remember that a pod's promise is known to be broken, or is not."""
        slot = self._slot.get(uid)
        if slot is not None:
            self._broken[slot] = broken

    def on(self, rows: Iterable[int], key: str | None = None) -> Slots:
        """The pods on these rows whose requirement reads a label key; None: whatever it reads."""
        here = np.zeros(self._cluster.nodes.rows + 1, dtype=np.bool_)
        here[list(rows)] = True
        here[_NOBODY] = False
        slots = np.flatnonzero(here[self._row[: len(self._uids)]])
        if key is None:
            return slots
        reads = np.zeros(len(self._requirements), dtype=np.bool_)
        reads[list(self._readers.get(key, ()))] = True
        read: Slots = slots[reads[self._kind[slots]]]
        return read

    def slots(self, uids: Iterable[str]) -> Slots:
        """The slots of pods that are here."""
        return np.array([self._slot[uid] for uid in uids if uid in self._slot], dtype=np.intp)

    @property
    def due(self) -> bool:
        """Return whether any pod has to be looked at."""
        return bool(self._waiting)

    def mark_due(self, slots: Slots, why: int, *, by_node: bool = False) -> None:
        """These pods have to be looked at, and why; who is to be looked at already keeps its reason."""
        if not len(slots):
            return
        self._why[slots] = np.where(self._why[slots] == _NOT_DUE, why, self._why[slots])
        self._by_node[slots] |= by_node
        self._waiting |= dict.fromkeys(
            kind for kind in np.unique(self._kind[slots]).tolist() if kind not in self._waiting
        )

    def look(self, most: int = LOOK) -> tuple[list[Due], list[str]]:
        """(broken promises, UIDs whose promise was known to be broken and holds again) of as many as one look may."""
        if not self._waiting:
            return [], []  # as most looks: asking of no pod costs NumPy as much as asking of some
        slots = self._some_due(most)
        holds = self._holding(slots)
        broken = [Due(self._uids[slot], int(self._why[slot]), bool(self._by_node[slot])) for slot in slots[~holds]]
        mended = [self._uids[slot] for slot in slots[holds & self._broken[slots]]]
        self._why[slots] = _NOT_DUE
        self._by_node[slots] = False
        return broken, mended

    def _some_due(self, most: int) -> Slots:
        slots = np.flatnonzero(self._why[: len(self._uids)] != _NOT_DUE)
        numbers, counts = np.unique(self._kind[slots], return_counts=True)
        cost = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._waiting = {kind: None for kind in self._waiting if kind in cost}
        chosen: set[int] = set()
        left = most
        oldest = next(iter(self._waiting), None)
        cheapest = sorted(cost, key=lambda kind: _CRITERION * self._weight[kind] + cost[kind])
        for kind in cheapest if oldest is None else (oldest, *cheapest):
            if kind in chosen:
                continue
            left -= _CRITERION * self._weight[kind] + cost[kind]
            if left < 0 and chosen:
                break
            chosen.add(kind)
            self._waiting.pop(kind, None)
        return slots[np.isin(self._kind[slots], list(chosen))]

    def _holding(self, slots: Slots) -> Bools:
        """bool[len(slots)]: one vectorised question for each distinct requirement, over the rows in question only.

        A pod whose node does not exist asks nothing of it.
        """
        holds = np.ones(len(slots), dtype=np.bool_)
        rows, where = np.unique(self._row[slots], return_inverse=True)
        some = some_rows(self._cluster, rows)
        kinds = self._kind[slots]
        order = np.argsort(kinds, kind="stable")
        starts = np.flatnonzero(np.diff(kinds[order], prepend=_NOBODY))
        for group in np.split(order, starts[1:]) if len(order) else ():
            meets = meeting(self._requirements[kinds[group[0]]], some.nodes) | ~some.nodes.alive
            holds[group] = meets[where[group]]
        return holds

    def _take_slot(self, uid: str) -> int:
        if self._free:
            slot = self._free.pop()
            self._uids[slot] = uid
        else:
            slot = len(self._uids)
            self._uids.append(uid)
            if slot == len(self._row):
                self._row = np.concatenate((self._row, np.full(slot, _NOBODY, dtype=np.int64)))
                self._kind = np.concatenate((self._kind, np.zeros(slot, dtype=np.int64)))
                self._broken = np.concatenate((self._broken, np.zeros(slot, dtype=np.bool_)))
                self._why = np.concatenate((self._why, np.full(slot, _NOT_DUE, dtype=np.int64)))
                self._by_node = np.concatenate((self._by_node, np.zeros(slot, dtype=np.bool_)))
        self._slot[uid] = slot
        return slot

    def _join(self, wanted: NodeRequirement) -> int:
        number = self._number.get(wanted)
        if number is None:
            if self._spare:
                number = self._spare.pop()
                self._requirements[number] = wanted
                self._weight[number] = size(wanted)
            else:
                number = len(self._requirements)
                self._requirements.append(wanted)
                self._weight.append(size(wanted))
                self._users.append(0)
            self._number[wanted] = number
            for key in wanted.reads():
                self._readers.setdefault(key, set()).add(number)
        self._users[number] += 1
        return number

    def _leave(self, number: int) -> None:
        self._users[number] -= 1
        if self._users[number]:
            return
        wanted = self._requirements[number]
        del self._number[wanted]
        for key in wanted.reads():
            readers = self._readers[key]
            readers.discard(number)
            if not readers:
                del self._readers[key]
        self._spare.append(number)


def size(wanted: NodeRequirement) -> int:
    """Return how many questions a requirement comes to."""
    terms = wanted.selector.terms if wanted.selector is not None else ()
    return 1 + len(wanted.labels) + sum(1 + len(term.labels) + len(term.fields) for term in terms)
