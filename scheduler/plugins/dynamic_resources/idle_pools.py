"""Pools that several nodes reach and that a request does not care for: nothing that happens to them matters to it."""

from collections.abc import Generator, Sequence

from msgspec import Struct

from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.requested import AllocationError, RequestedClaim, UnfinishedError
from scheduler.plugins.dynamic_resources.search import Selects
from scheduler.state.effort import Effort

_STEPS_AT_ONCE = 500
"""After so many steps, looking through the devices of a pool is interrupted."""


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


class IdlePools:
    """For one request."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._judged: dict[tuple[int, int], _Judged] = {}
        """Claims and a pool, by identity → whether no claim can use a device of it."""
        self._looking: _Looking | None = None

    def clear(self) -> dict[tuple[int, int], _Judged]:
        """Forget all of it. What was known is the caller's to let go of."""
        known, self._judged, self._looking = self._judged, {}, None
        return known

    def is_idle(self, pool: Pool, wanted: Sequence[RequestedClaim], effort: Effort) -> bool:
        """Whether no device of a pool is wanted, so that nothing that happens to it matters.

        Asked of pools that several nodes may reach: else one pod on a shared device would have all nodes asked again.
        Raises SliceOver, after which it goes on where it was.
        """
        if not pool.usable or not pool.devices or pool.devices[0].slice.place.node:
            return False
        key = (id(wanted), id(pool))
        known = self._judged.get(key)
        if known is None:
            looking = self._looking
            if looking is None or looking.pool is not pool or looking.wanted is not wanted:
                looking = self._looking = _Looking(pool, wanted, self._may_be_wanted(pool, wanted))
            known = self._judged[key] = _Judged(pool, wanted, not _outcome(looking.going_on, effort))
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
