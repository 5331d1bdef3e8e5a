"""What the allocator says of each node for one question, kept until something changes that the answer may go by.

An attempt that has used up its slice goes on at the node, and within the search, where it was.
"""

from collections.abc import Callable, Generator, Sequence

import numpy as np
from msgspec import Struct

from scheduler.model.devices import MOST_ALTERNATIVES, PoolID
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.reach import Reach
from scheduler.plugins.dynamic_resources.search import Chosen, Search, Selects
from scheduler.plugins.dynamic_resources.wanted import AllocationError, UnfinishedError, WantedClaim
from scheduler.state.cluster import Cluster
from scheduler.state.column import Ints
from scheduler.state.effort import Effort

OPEN, FITS, NO_SOLUTION, INVALID, FAILED, REFUSED = range(6)
"""What is known of a row."""
_STEPS_AT_ONCE = 500
"""Beyond so many steps, a look at the devices of a pool is interrupted."""
_NODE = 8
"""Steps that a node takes besides its search."""

Ask = Callable[[Node], "Sequence[WantedClaim] | None"]
"""What is wanted of a node; None: it can't have what is wanted for another reason."""


class Answer(Struct, eq=False):
    """What was found for one node."""

    code: int
    chosen: Sequence[Sequence[Chosen]] = ()
    text: str = ""

    @property
    def score(self) -> int:
        """The earlier the alternatives that were chosen, the better (computeScore)."""
        used = {one.alternative for claim in self.chosen for one in claim}
        return sum(MOST_ALTERNATIVES - one.place for one in used if one.parent)


class _Judged(Struct, eq=False):
    """Whether no device of a pool is wanted. It keeps both alive, as they are known by identity."""

    pool: Pool
    wanted: Sequence[WantedClaim]
    idle: bool


class _Looking(Struct, eq=False):
    """A pool whose devices are being looked at, to find out whether one is wanted."""

    pool: Pool
    wanted: Sequence[WantedClaim]
    going_on: Generator[None, None, bool]


class Results:
    """The answers for all rows."""

    def __init__(self, ask: Ask, selects: Selects, reach: Reach) -> None:
        self._ask = ask
        self._selects = selects
        self._reach = reach
        self._epoch = -1
        self._version = -1
        self.codes: Ints = np.zeros(0, dtype=np.int64)
        self.scores: Ints = np.zeros(0, dtype=np.int64)
        self._answers: dict[int, Answer] = {}
        self._open: dict[int, None] = {}
        self._search: tuple[int, Search] | None = None
        self._alike: dict[tuple[int, ...], Answer] = {}
        self._idle: dict[tuple[int, int], _Judged] = {}
        """Of what is wanted and a pool, by identity: whether no device of it is wanted."""
        self._searched_pools: set[PoolID] = set()
        """Pools of which devices may be wanted."""
        self._looking: _Looking | None = None

    def renew(self, cluster: Cluster) -> None:
        """Be right for the cluster as it is. Raises SliceOver."""
        self._reopen(cluster)
        nodes, effort = cluster.nodes, cluster.effort
        while self._open:
            row = next(iter(self._open))
            node = nodes.objects[row]
            answer = Answer(REFUSED) if node is None else self._answer(row, node, cluster, effort)
            self._answers[row] = answer
            self.codes[row], self.scores[row] = answer.code, answer.score
            del self._open[row]
            effort.charge(_NODE)

    def of(self, row: int) -> Answer:
        """The answer for one row."""
        return self._answers[row]

    def _reopen(self, cluster: Cluster) -> None:
        reach, rows = self._reach, cluster.nodes.rows
        reach.renew(cluster)
        changed = reach.log.since(self._version) if self._epoch == reach.epoch else None
        if changed is None or rows != len(self.codes):
            self._epoch = reach.epoch
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
                    again |= reach.rows_of(entry)
            if again:
                self._alike.clear()
                if self._search is not None and self._search[0] in again:
                    self._search = None
                self._open |= dict.fromkeys(sorted(again))
        self._version = reach.log.version

    def _answer(self, row: int, node: Node, cluster: Cluster, effort: Effort) -> Answer:
        wanted = self._ask(node)
        if wanted is None:
            return Answer(REFUSED)
        if not wanted:
            return Answer(FITS)
        pools = self._reach.of(row, node, cluster.devices)
        alike = (id(wanted), *map(id, pools))
        known = self._alike.get(alike)
        if known is None:
            known = self._alike[alike] = self._searched(row, wanted, pools, cluster, effort)
        return known

    def _searched(
        self, row: int, wanted: Sequence[WantedClaim], pools: list[Pool], cluster: Cluster, effort: Effort
    ) -> Answer:
        if self._search is None or self._search[0] != row:
            looked_at = [pool for pool in pools if not self._is_idle(pool, wanted, effort)]
            self._searched_pools.update([pool.id for pool in looked_at])
            self._search = (row, Search(wanted, looked_at, cluster.devices.holders, self._selects))
        search = self._search[1]
        try:
            found = search.go_on(effort)
        except AllocationError as error:
            self._search = None
            return Answer(FAILED, text=str(error))
        self._search = None
        if found:
            return Answer(FITS, search.result)
        return Answer(INVALID if search.problem else NO_SOLUTION, text=search.problem)

    def _is_idle(self, pool: Pool, wanted: Sequence[WantedClaim], effort: Effort) -> bool:
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

    def _may_be_wanted(self, pool: Pool, wanted: Sequence[WantedClaim]) -> Generator[None, None, bool]:
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
                selected = self._selects(expression, whose, entry.device.look, entry.id)
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
