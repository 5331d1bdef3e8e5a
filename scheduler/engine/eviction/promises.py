"""Placed pods by what they ask of their node, as columns: a node's change is one pass over them, not a walk.

Keyed by the requirement rather than by the pod's shape: the cluster keeps a bound pod's old shape when only what it
asks of nodes changed, since its counts are the same; here that is all that counts.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.model.promise import NodeRequirement
from scheduler.plugins.required_during_execution import meeting
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools
from scheduler.state.view import some_rows

Slots = NDArray[np.intp]
_FIRST = 256
_NOBODY = -1


class Promises:
    """Slots of pods: their row, the number of their requirement, and whether it is known to be broken."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slot: dict[str, int] = {}
        self._uids: list[str] = []
        self._free: list[int] = []
        self._row = np.full(_FIRST, _NOBODY, dtype=np.int64)
        self._kind = np.zeros(_FIRST, dtype=np.int64)
        self._broken = np.zeros(_FIRST, dtype=np.bool_)
        self._number: dict[NodeRequirement, int] = {}
        self._requirements: list[NodeRequirement] = []
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

    def check(self, slots: Slots) -> tuple[list[str], list[str]]:
        """(UIDs whose promise is broken, UIDs whose promise was known to be and holds again)."""
        holds = self._holding(slots)
        mended = slots[holds & self._broken[slots]]
        return [self._uids[slot] for slot in slots[~holds]], [self._uids[slot] for slot in mended]

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
        self._slot[uid] = slot
        return slot

    def _join(self, wanted: NodeRequirement) -> int:
        number = self._number.get(wanted)
        if number is None:
            if self._spare:
                number = self._spare.pop()
                self._requirements[number] = wanted
            else:
                number = len(self._requirements)
                self._requirements.append(wanted)
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
