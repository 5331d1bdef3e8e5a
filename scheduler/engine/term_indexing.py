"""Decides when affinity terms of placed pods are indexed: before the next attempt, or in turns.

A pod that another scheduler has placed, or that names its node itself, may bring thousands of terms at once. Ordinary
amounts are indexed before the next attempt, for whichever pod that is, so a decision knows everything that the watch
has shown. The terms of a namespace in debt wait for turns between attempts, like its pods (`engine/turns.py`). They
count from when they are indexed, as if the watch were behind. The namespace that brought the terms is charged. Pods
that were active meanwhile have waited for these turns, and their stories say so.
"""

from scheduler.engine.queued import NOTHING_INDEXED, Indexed
from scheduler.engine.story_entries import MOST_NAMED, TermsIndexed
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
        self.begun = False
        """What was there at the start is indexed."""
        self._owed: dict[str, int] = {}
        """Namespace → steps with which it was not charged yet."""
        self._indexed = NOTHING_INDEXED
        self._turn_began: float | None = None
        """When the last turn began, if that is the last thing that was done: it has lasted until the next thing."""
        self._last_turn: dict[str, int] = {}
        """Namespace → the number of the last turn in which its terms were indexed. The latest one is at the end."""

    @property
    def late(self) -> bool:
        """Whether more terms wait than are indexed before the next attempt anyway.

        Until the first attempt any do: while the caches fill there is time, and the first pod should not wait for it.
        """
        size = self.cluster.incidence.terms.sets.backlog.size
        return size > 0 and (self._put_off or not self.begun or size * _A_TERM > AT_ONCE)

    def begin(self, steps: int, now: float) -> bool:
        """Before the first attempt: index what was there at the start. Returns whether nothing is left."""
        sets = self.cluster.incidence.terms.sets
        left, added, turn = steps, sets.added, self._indexed.turns + 1
        while not self.begun and left > 0:
            lanes = sets.backlog.first(1)
            if lanes:
                left -= sets.catch_up(lanes[0], left)
                self._note_lane(lanes[0], turn)
            else:
                self.begun = True
        if left < steps:
            self._note_turn(sets.added - added, steps - left, now)
        return self.begun

    def indexed(self, now: float) -> Indexed:
        """What was indexed in turns so far. While nothing is, it is the same object."""
        if self._turn_began is not None:
            took, self._turn_began = now - self._turn_began, None
            self._indexed = self._indexed._replace(seconds=self._indexed.seconds + took)
        return self._indexed

    def since(self, before: Indexed, now: float) -> TermsIndexed:
        """What was indexed in turns since then, for the story of a pod that has waited for it."""
        turns, terms, steps, seconds = (new - old for new, old in zip(self.indexed(now), before, strict=True))
        brought_by: list[str] = []
        for namespace in reversed(self._last_turn):
            if self._last_turn[namespace] <= before.turns or len(brought_by) == MOST_NAMED:
                break
            brought_by.append(namespace)
        return TermsIndexed(now, int(turns), int(terms), int(steps), seconds, tuple(brought_by))

    def before(self, namespace: str, turns: Turns, now: float) -> Indexed:
        """Before an attempt for a pod of this namespace: its own terms first, then those of namespaces not in debt.

        Returns what was indexed in turns so far.
        """
        terms = self.cluster.incidence.terms
        terms.by_turns = True
        if terms.sets.backlog.size:
            self._index_some(namespace, turns, now)
        else:
            self._put_off = False
        return self._indexed if self._turn_began is None else self.indexed(now)

    def _index_some(self, namespace: str, turns: Turns, now: float) -> None:
        backlog = self.cluster.incidence.terms.sets.backlog
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
        sets = self.cluster.incidence.terms.sets
        lanes = sets.backlog.first(1)
        if not lanes:
            return 0
        added = sets.added
        spent = self._go_on(lanes[0], steps, turns, now)
        self._note_lane(lanes[0], self._indexed.turns + 1)
        self._note_turn(sets.added - added, spent, now)
        return spent

    def _note_lane(self, lane: str, turn: int) -> None:
        self._last_turn.pop(lane, None)
        if len(self._last_turn) >= _NAMESPACES:
            del self._last_turn[next(iter(self._last_turn))]
        self._last_turn[lane] = turn

    def _note_turn(self, terms: int, steps: int, now: float) -> None:
        so_far = self.indexed(now)
        self._indexed = Indexed(so_far.turns + 1, so_far.terms + terms, so_far.steps + steps, so_far.seconds)
        self._turn_began = now

    def _go_on(self, lane: str, steps: int, turns: Turns, now: float) -> int:
        spent = self.cluster.incidence.terms.sets.catch_up(lane, steps)
        if self.begun and spent:
            owed = self._owed.pop(lane, 0) + spent
            if owed > FREE:
                turns.account(lane, FREE + owed, now)
            else:
                if len(self._owed) >= _NAMESPACES:
                    self._owed.clear()
                self._owed[lane] = owed
        return spent
