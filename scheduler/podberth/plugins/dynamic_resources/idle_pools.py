"""Pools that several nodes reach and that a request does not care for: nothing that happens to them matters to it."""

from collections.abc import Sequence

from msgspec import Struct

from podberth.cache.search_steps import CappedSearch
from podberth.plugins.dynamic_resources.pools import Pool
from podberth.plugins.dynamic_resources.requested import AllocationError, RequestedClaim
from podberth.plugins.dynamic_resources.search import Selects


class _Judged(Struct, eq=False):
    """Whether no claim can use a device of a pool. Keeps both alive, as they are known by identity."""

    pool: Pool
    wanted: Sequence[RequestedClaim]
    idle: bool


class IdlePools:
    """For one request."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._judged: dict[tuple[int, int], _Judged] = {}
        """Claims and a pool, by identity → whether no claim can use a device of it."""

    def clear(self) -> None:
        """Forget all of it."""
        self._judged.clear()

    def is_idle(self, pool: Pool, wanted: Sequence[RequestedClaim], steps: CappedSearch) -> bool:
        """Return whether no device of a pool is wanted, so that nothing that happens to it matters.

        Asked of pools that several nodes may reach: else one pod on a shared device would have all nodes asked again.
        Raises SearchCapError.
        """
        if not pool.usable or not pool.devices or pool.devices[0].slice.place.node:
            return False
        key = (id(wanted), id(pool))
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = _Judged(pool, wanted, not self._may_be_wanted(pool, wanted, steps))
        return known.idle

    def _may_be_wanted(self, pool: Pool, wanted: Sequence[RequestedClaim], steps: CappedSearch) -> bool:
        """Return whether a device of a pool is selected by a request."""
        every = [alternative.selectors for claim in wanted for request in claim.requests for alternative in request]
        for selectors in dict.fromkeys(every):
            for entry in pool.devices:
                steps.take(1)
                try:
                    if all(self._selects(one, whose, entry.device.traits, entry.id) for one, whose in selectors):
                        return True
                except AllocationError:
                    return True  # the search will come upon it, if it gets there
        return False
