"""Decides when the affinity terms of pods that others placed are indexed: before the next attempt, or in turns.

A pod that another scheduler has placed, or that names its node itself, may bring thousands of terms at once. Ordinary
amounts are indexed before the next attempt, for whichever pod that is, so a decision knows everything that the watch
has shown. The terms of a namespace in debt wait for turns between attempts, like its pods (`engine/turns.py`). They
count from when they are indexed, as if the watch were behind. The namespace that brought the terms is charged.
"""

from scheduler.engine.turns import FREE, Turns
from scheduler.state.cluster import Cluster

AT_ONCE = 2_000
"""Steps that are taken before an attempt."""
_PER_LANE = 250
"""Steps of one lane before the next lane has its turn."""
_LANES = 64
"""Lanes that are looked at in one round."""
_A_TERM = 8
"""About how many steps one term takes."""
_NAMESPACES = 1024


class TermIndexing:
    """Has the terms of placed pods indexed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._put_off = False
        """Before the last attempt, some terms were left for later."""
        self._begun = False
        self._owed: dict[str, int] = {}
        """Namespace → steps with which it was not charged yet."""

    @property
    def late(self) -> bool:
        """Whether more terms wait than are indexed before the next attempt anyway."""
        size = self.cluster.incidence.terms.sets.backlog.size
        return size > 0 and (self._put_off or size * _A_TERM > AT_ONCE)

    def begin(self, steps: int) -> bool:
        """Before the first attempt: index what was there at the start. Returns whether nothing is left."""
        sets = self.cluster.incidence.terms.sets
        while not self._begun and steps > 0:
            lanes = sets.backlog.first(1)
            if lanes:
                steps -= sets.catch_up(lanes[0], steps)
            else:
                self._begun = True
        return self._begun

    def before(self, namespace: str, turns: Turns, now: float) -> None:
        """Before an attempt for a pod of this namespace: its own terms first, then those of namespaces not in debt."""
        terms = self.cluster.incidence.terms
        terms.by_turns = True
        backlog = terms.sets.backlog
        if not backlog.size:
            self._put_off = False
            return
        left = AT_ONCE - self._go_on(namespace, AT_ONCE, turns, now)
        went_on = True
        while went_on and left > 0 and backlog:
            went_on = False
            for lane in backlog.first(_LANES):
                if turns.in_debt(lane, now):
                    backlog.last(lane)
                elif left > 0:
                    left -= self._go_on(lane, min(left, _PER_LANE), turns, now)
                    went_on = True
        self._put_off = bool(backlog)

    def catch_up(self, steps: int, turns: Turns, now: float) -> int:
        """Go on with the lane whose turn it is; returns how many steps it took."""
        lanes = self.cluster.incidence.terms.sets.backlog.first(1)
        return self._go_on(lanes[0], steps, turns, now) if lanes else 0

    def _go_on(self, lane: str, steps: int, turns: Turns, now: float) -> int:
        spent = self.cluster.incidence.terms.sets.catch_up(lane, steps)
        if self._begun and spent:
            owed = self._owed.pop(lane, 0) + spent
            if owed > FREE:
                turns.account(lane, FREE + owed, now)
            else:
                if len(self._owed) >= _NAMESPACES:
                    self._owed.clear()
                self._owed[lane] = owed
        return spent
