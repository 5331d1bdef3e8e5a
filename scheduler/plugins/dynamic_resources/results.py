"""What the allocator found for each node and one request, kept until something changes on which it depends.

When a slice is used up, the next one goes on with the same node, and within its search.
"""

from collections.abc import Callable, Generator, Sequence

import numpy as np
from msgspec import Struct

from scheduler.model.devices import MOST_ALTERNATIVES, PoolID
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.pools_by_node import PoolsByNode
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

_NO_OTHER = "looking further found no other way"
_GIVEN_UP = "looking further was given up, as it took too many steps"
NO_OTHER_TEXT = f"cannot allocate all claims: {_NO_OTHER}"
GIVEN_UP_TEXT = f"cannot allocate all claims: {_GIVEN_UP}"

Ask = Callable[[Node], "Sequence[RequestedClaim] | None"]
"""The claims to allocate on a node; None: it can't serve the pod for another reason."""


class NodeAllocation(Struct, eq=False):
    """The outcome for one node, with the chosen devices of each claim."""

    code: int
    chosen: Sequence[Sequence[Chosen]] = ()
    text: str = ""

    @property
    def score(self) -> int:
        """More for earlier alternatives of `firstAvailable` (computeScore)."""
        used = {one.alternative for claim in self.chosen for one in claim}
        return sum(MOST_ALTERNATIVES - one.place for one in used if one.parent)


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
        self._answers: dict[int, NodeAllocation] = {}
        self._open: dict[int, None] = {}
        self._search: tuple[int, Search, NodeAllocation | None] | None = None
        """(row, the search under way, what kube-scheduler's search came to if this one looks further)."""
        self._alike: dict[tuple[int, ...], NodeAllocation] = {}
        self._idle: dict[tuple[int, int], _Judged] = {}
        """Claims and a pool, by identity → whether no claim can use a device of it."""
        self._searched_pools: set[PoolID] = set()
        """Pools with a device that a claim may use."""
        self._looking: _Looking | None = None

    def renew(self, cluster: Cluster) -> None:
        """Bring all rows up to date. Raises SliceOver."""
        self._reopen(cluster)
        nodes, effort = cluster.nodes, cluster.effort
        while self._open:
            row = next(iter(self._open))
            node = nodes.objects[row]
            answer = NodeAllocation(REFUSED) if node is None else self._answer(row, node, cluster, effort)
            self._answers[row] = answer
            self.codes[row], self.scores[row] = answer.code, answer.score
            del self._open[row]
            effort.charge(_NODE)

    def of(self, row: int) -> NodeAllocation:
        """The outcome for one row."""
        return self._answers[row]

    def _reopen(self, cluster: Cluster) -> None:
        pools, rows = self._pools_by_node, cluster.nodes.rows
        pools.renew(cluster)
        changed = pools.log.since(self._version) if self._epoch == pools.epoch else None
        if changed is None or rows != len(self.codes):
            self._epoch = pools.epoch
            self.codes = np.zeros(rows, dtype=np.int64)
            self.scores = np.zeros(rows, dtype=np.int64)
            self._answers.clear()
            self._idle.clear()
            self._searched_pools.clear()
            self._looking = None
            self._alike.clear()
            self._search = None
            self._open = dict.fromkeys(range(rows))
        elif changed:
            again: set[int] = set()
            for entry in changed:
                if isinstance(entry, int):
                    again.add(entry)
                elif entry in self._searched_pools:
                    again |= pools.rows_of(entry)
            if again:
                self._alike.clear()
                if self._search is not None and self._search[0] in again:
                    self._search = None
                self._open |= dict.fromkeys(sorted(again))
        self._version = pools.log.version

    def _answer(self, row: int, node: Node, cluster: Cluster, effort: Effort) -> NodeAllocation:
        wanted = self._ask(node)
        if wanted is None:
            return NodeAllocation(REFUSED)
        if not wanted:
            return NodeAllocation(FITS)
        pools = self._pools_by_node.of(row, node, cluster.devices)
        alike = (id(wanted), *map(id, pools))
        known = self._alike.get(alike)
        if known is None:
            known = self._alike[alike] = self._searched(row, wanted, pools, cluster, effort)
        return known

    def _searched(
        self, row: int, wanted: Sequence[RequestedClaim], pools: list[Pool], cluster: Cluster, effort: Effort
    ) -> NodeAllocation:
        if self._search is None or self._search[0] != row:
            looked_at = [pool for pool in pools if not self._is_idle(pool, wanted, effort)]
            self._searched_pools.update([pool.id for pool in looked_at])
            self._search = (row, Search(wanted, looked_at, cluster.devices.allocated, self._selects), None)
        _, search, usual = self._search
        if usual is None:
            usual = self._outcome_of(search, effort)
            self._search = None
            if usual.code == FITS or not self._further:
                return usual
            more = Search(wanted, search.pools, cluster.devices.allocated, self._selects, further=self._further)
            self._search, search = (row, more, usual), more
        found = search.go_on(effort)
        self._search = None
        if found:
            return NodeAllocation(FITS, search.result)
        if usual.code == FAILED:
            return NodeAllocation(FAILED, text=f"{usual.text}; {_GIVEN_UP if search.given_up else _NO_OTHER}")
        return NodeAllocation(GIVEN_UP if search.given_up else NO_OTHER)

    def _outcome_of(self, search: Search, effort: Effort) -> NodeAllocation:
        try:
            found = search.go_on(effort)
        except AllocationError as error:
            return NodeAllocation(FAILED, text=str(error))
        if found:
            return NodeAllocation(FITS, search.result)
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
