"""What the allocator found for each node and one request, kept until something changes on which it depends.

When a slice is used up, the next one goes on with the same node, and within its search.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from scheduler.cel.reads import attributes_read
from scheduler.model.devices import MOST_ALTERNATIVES, PoolID
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.pools_by_node import PoolsByNode
from scheduler.plugins.dynamic_resources.reading import Reading, expressions, reading_of
from scheduler.plugins.dynamic_resources.requested import AllocationError, RequestedClaim, UnfinishedError
from scheduler.plugins.dynamic_resources.search import Chosen, Search, Selects
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints
from scheduler.state.effort import Effort

OPEN, FITS, NO_SOLUTION, INVALID, FAILED, REFUSED, NO_OTHER, GIVEN_UP = range(8)
"""The outcome for a row; OPEN: not known yet. The last two: of looking further than kube-scheduler."""
_STEPS_AT_ONCE = 500
"""After so many steps, looking through the devices of a pool is interrupted."""
_NODE = 8
"""Steps for a node, besides its search."""
_KNOWN_NODE = 4
"""Steps for a node whose pools are as those of one that was searched."""
_SCANNED_PER_STEP = 50
"""So many characters of an expression are looked through in one step, to find what it reads."""
_LET_GO = 16
"""For each row that is judged, so many results are let go of that hold no longer."""
_MOST_KNOWN = 1 << 14
"""So many outcomes of different pools are remembered, for one request. With one more, all are forgotten."""

_NO_OTHER = "looking further found no other way"
_GIVEN_UP = "looking further was given up, as it took too many steps"
NO_OTHER_TEXT = f"cannot allocate all claims: {_NO_OTHER}"
GIVEN_UP_TEXT = f"cannot allocate all claims: {_GIVEN_UP}"

Ask = Callable[[Node], "Sequence[RequestedClaim] | None"]
"""The claims to allocate on a node; None: it can't serve the pod for another reason."""


class NodeAllocation(Struct, gc=False, eq=False):
    """The outcome for one node, with the chosen devices of each claim."""

    code: int
    chosen: Sequence[Sequence[Chosen]] = ()
    text: str = ""
    score: int = 0
    further: bool = False
    """kube-scheduler's search has found nothing; looking further has."""


class _Outcome(Struct, gc=False, eq=False):
    """What a search of these pools has found; true of all that differ from them in names, and in what is not read."""

    answer: NodeAllocation
    pools: Sequence[Pool]

    def for_pools(self, pools: Sequence[Pool]) -> NodeAllocation:
        """The same, with the devices of other pools."""
        if pools is self.pools or not self.answer.chosen:
            return self.answer
        places = {entry.id: (i, j) for i, pool in enumerate(self.pools) for j, entry in enumerate(pool.devices)}
        there = []
        for claim in self.answer.chosen:
            at = [places[one.entry.id] for one in claim]
            entries = [pools[i].devices[j] for i, j in at]
            there.append([Chosen(e, one.alternative, one.consumed) for e, one in zip(entries, claim, strict=True)])
        return replace(self.answer, chosen=there)


class _Judged(Struct, eq=False):
    """Whether no claim can use a device of a pool. Keeps both alive, as they are known by identity."""

    pool: Pool
    wanted: Sequence[RequestedClaim]
    idle: bool


class _Looking(Struct, eq=False):
    """A pool whose devices are being looked through, to find out whether a claim can use one."""

    pool: Pool
    wanted: Sequence[RequestedClaim]
    going_on: Generator[None, None, bool]


class AllocationsByNode:
    """The outcomes for all rows."""

    def __init__(self, ask: Ask, selects: Selects, pools_by_node: PoolsByNode, further: int = 0) -> None:
        """`further`: steps for looking further than kube-scheduler where its search has found nothing; 0: none."""
        self._ask = ask
        self._further = further
        self._selects = selects
        self._pools_by_node = pools_by_node
        self._epoch = -1
        self._version = -1
        self.codes: Ints = np.zeros(0, dtype=np.int64)
        self.scores: Ints = np.zeros(0, dtype=np.int64)
        self._answers: dict[int, tuple[_Outcome, Sequence[Pool]]] = {}
        """Row → an outcome, and the row's own pools."""
        self._open: dict[int, None] = {}
        self._search: tuple[int, Search, NodeAllocation | None] | None = None
        """(row, the search under way, what kube-scheduler's search came to if this one looks further)."""
        self._known: dict[tuple[Any, ...], _Outcome] = {}
        """Claims, and the states of the pools that they may use → the outcome."""
        self._reads: dict[str, frozenset[str] | None] = {}
        """Expression → the attributes that it reads."""
        self._readings: dict[Sequence[RequestedClaim], Reading] = {}
        self._failed: dict[tuple[int, ...], _Outcome] = {}
        """Claims and pools, by identity → a search that failed, as its message names devices."""
        self._idle: dict[tuple[int, int], _Judged] = {}
        """Claims and a pool, by identity → whether no claim can use a device of it."""
        self._searched_pools: set[PoolID] = set()
        """Pools with a device that a claim may use, of those that several nodes may reach."""
        self._looking: _Looking | None = None
        self._outdated: list[dict[Any, Any]] = []
        """What was found for devices, classes or taint rules that are different now."""
        self._steps = _NODE

    def renew(self, cluster: Cluster) -> None:
        """Bring all rows up to date. Raises SliceOver."""
        self._reopen(cluster)
        nodes, effort = cluster.nodes, cluster.effort
        for row in tuple(self._open):
            node = nodes.objects[row]
            self._steps = _NODE
            found = (_REFUSED, ()) if node is None else self._answer(row, node, cluster, effort)
            self._answers[row] = found
            answer = found[0].answer
            self.codes[row], self.scores[row] = answer.code, answer.score
            del self._open[row]
            self._let_go()
            effort.charge(self._steps + self._pools_by_node.take_steps())

    def _let_go(self) -> None:
        """Of some of what is outdated: all of it at once may take a long time."""
        for _ in range(_LET_GO):
            if not self._outdated:
                return
            if self._outdated[-1]:
                self._outdated[-1].popitem()
            else:
                self._outdated.pop()

    def of(self, row: int) -> NodeAllocation:
        """The outcome for one row."""
        outcome, pools = self._answers[row]
        return outcome.for_pools(pools)

    def alike(self) -> list[list[int]] | None:
        """The rows that pass and give devices, those together whose devices the claims can't tell apart.

        None: some devices are reached from several nodes, or a node could not be judged.
        """
        found: dict[int, list[int]] = {}
        for row, (outcome, _) in self._answers.items():
            code = outcome.answer.code
            if outcome is _FITS:
                continue
            if code == FAILED or (code == FITS and not self._pools_by_node.are_local(row)):
                return None
            if code == FITS:
                found.setdefault(id(outcome), []).append(row)
        return list(found.values())

    def without_devices(self) -> list[int]:
        """The rows that pass, and of whose devices nothing is asked."""
        return [row for row, (outcome, _) in self._answers.items() if outcome is _FITS]

    def _reopen(self, cluster: Cluster) -> None:
        pools, rows = self._pools_by_node, cluster.nodes.rows
        pools.renew(cluster)
        changed = pools.log.since(self._version) if self._epoch == pools.epoch else None
        if changed is None or rows != len(self.codes):
            self._epoch = pools.epoch
            self.codes = np.zeros(rows, dtype=np.int64)
            self.scores = np.zeros(rows, dtype=np.int64)
            if rows < len(self._answers):
                self._answers.clear()  # else each is replaced when its row is
            self._outdated += filter(None, (self._idle, self._known, self._failed, self._reads))
            self._idle, self._known, self._failed, self._reads = {}, {}, {}, {}
            self._readings.clear()
            self._searched_pools.clear()
            self._looking = None
            self._search = None
            self._open = dict.fromkeys(range(rows))
        elif changed:
            again: set[int] = set()
            for entry in changed:
                if isinstance(entry, int):
                    again.add(entry)
                elif entry in self._searched_pools or pools.is_local(entry):
                    again |= pools.rows_of(entry)
            if again:
                self._failed.clear()
                if self._search is not None and self._search[0] in again:
                    self._search = None
                self._open |= dict.fromkeys(sorted(again))
        self._version = pools.log.version

    def _answer(self, row: int, node: Node, cluster: Cluster, effort: Effort) -> tuple[_Outcome, Sequence[Pool]]:
        try:
            wanted = self._ask(node)
        except AllocationError as error:
            return _Outcome(NodeAllocation(FAILED, text=str(error)), ()), ()
        if wanted is None:
            return _REFUSED, ()
        if not wanted:
            return _FITS, ()
        by_node, devices = self._pools_by_node, cluster.devices
        pools = by_node.of(row, node, devices)
        if not by_node.are_local(row):
            pools = [pool for pool in pools if not self._is_idle(pool, wanted, effort)]
            self._searched_pools.update([pool.id for pool in pools])
        reading = self._reading(wanted, effort)
        states = (wanted, *[by_node.state_of(pool, devices, reading) for pool in pools])
        known = self._known.get(states)
        if known is not None:
            self._steps = _KNOWN_NODE
            return known, pools
        same = (id(wanted), *map(id, pools))
        known = self._failed.get(same)
        if known is not None:
            return known, pools
        found = _Outcome(self._searched(row, wanted, pools, cluster, effort), pools)
        if found.answer.code == FAILED:
            self._failed[same] = found
        else:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[states] = found
        return found, pools

    def _reading(self, wanted: Sequence[RequestedClaim], effort: Effort) -> Reading:
        """What of devices the claims read. Raises SliceOver, after which it goes on where it was."""
        found = self._readings.get(wanted)
        if found is None:
            for expression in expressions(wanted):
                if expression not in self._reads:
                    self._reads[expression] = attributes_read(expression)
                    effort.charge(1 + len(expression) // _SCANNED_PER_STEP)
            found = self._readings[wanted] = reading_of(wanted, self._reads)
        return found

    def _searched(
        self, row: int, wanted: Sequence[RequestedClaim], pools: Sequence[Pool], cluster: Cluster, effort: Effort
    ) -> NodeAllocation:
        if self._search is None or self._search[0] != row:
            self._search = (row, Search(wanted, pools, cluster.devices.allocated, self._selects), None)
        _, search, usual = self._search
        if usual is None:
            usual = self._outcome_of(search, wanted, effort)
            self._search = None
            if usual.code == FITS or not self._further:
                return usual
            more = Search(wanted, search.pools, cluster.devices.allocated, self._selects, further=self._further)
            self._search, search = (row, more, usual), more
        found = search.go_on(effort)
        self._search = None
        if found:
            return _found(wanted, search, further=True)
        if usual.code == FAILED:
            return NodeAllocation(FAILED, text=f"{usual.text}; {_GIVEN_UP if search.given_up else _NO_OTHER}")
        return NodeAllocation(GIVEN_UP if search.given_up else NO_OTHER)

    def _outcome_of(self, search: Search, wanted: Sequence[RequestedClaim], effort: Effort) -> NodeAllocation:
        try:
            found = search.go_on(effort)
        except AllocationError as error:
            return NodeAllocation(FAILED, text=str(error))
        if found:
            return _found(wanted, search)
        return NodeAllocation(INVALID if search.problem else NO_SOLUTION, text=search.problem)

    def _is_idle(self, pool: Pool, wanted: Sequence[RequestedClaim], effort: Effort) -> bool:
        """Whether no device of a pool is wanted, so that nothing that happens to it matters.

        Asked of pools that several nodes may reach: else one pod on a shared device would have all nodes asked again.
        Raises SliceOver, after which it goes on where it was.
        """
        if not pool.usable or not pool.devices or pool.devices[0].slice.place.node:
            return False
        key = (id(wanted), id(pool))
        known = self._idle.get(key)
        if known is None:
            looking = self._looking
            if looking is None or looking.pool is not pool or looking.wanted is not wanted:
                looking = self._looking = _Looking(pool, wanted, self._may_be_wanted(pool, wanted))
            known = self._idle[key] = _Judged(pool, wanted, not _outcome(looking.going_on, effort))
            self._looking = None
        return known.idle

    def _may_be_wanted(self, pool: Pool, wanted: Sequence[RequestedClaim]) -> Generator[None, None, bool]:
        """Whether a device of a pool is selected by a request. Others may have their turn after each expression."""
        every = {alternative.selectors for claim in wanted for request in claim.requests for alternative in request}
        for selectors in every:
            for entry in pool.devices:
                try:
                    for expression, whose in selectors:
                        if not (yield from self._is_selected(entry, expression, whose)):
                            break
                    else:
                        return True
                except AllocationError:
                    return True  # the search will come upon it, if it gets there
                yield
        return False

    def _is_selected(self, entry: PoolDevice, expression: str, whose: str) -> Generator[None, None, bool]:
        while True:
            try:
                selected = self._selects(expression, whose, entry.device.traits, entry.id)
            except UnfinishedError:
                yield
            else:
                yield
                return selected


def _found(wanted: Sequence[RequestedClaim], search: Search, *, further: bool = False) -> NodeAllocation:
    """What a search came to. The score is higher for earlier alternatives of `firstAvailable` (computeScore)."""
    score = 0
    for claim, chosen in zip(wanted, search.result, strict=True):
        used = {one.alternative.name for one in chosen if one.alternative.parent}
        for alternatives in claim.requests if used else ():
            score += sum(MOST_ALTERNATIVES - one.place for one in alternatives if one.parent and one.name in used)
    return NodeAllocation(FITS, search.result, score=score, further=further)


_REFUSED = _Outcome(NodeAllocation(REFUSED), ())
_FITS = _Outcome(NodeAllocation(FITS), ())


def _outcome(going_on: Generator[None, None, bool], effort: Effort) -> bool:
    """What comes of it in the end. Raises SliceOver, after which it may go on."""
    before = effort.spent
    while True:
        try:
            next(going_on)
        except StopIteration as ended:
            found: bool = ended.value
            return found
        if effort.spent - before > _STEPS_AT_ONCE:
            effort.charge(0)
