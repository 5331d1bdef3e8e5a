"""What is seen of other schedulers that give devices as well: where, and how long ago."""

from collections.abc import Collection

from podberth.model.devices import PoolID

POOL_SECONDS = 300.0
"""How long another scheduler counts as active in a pool after it gave a device of it."""
POD_SECONDS = 30.0
"""How long it counts as active in all pools after a pod of its own that claims devices was seen waiting, or changed."""
_MANY = 256


class Rivals:
    """Other schedulers. Times are in seconds since the epoch; if not known (0), what was seen counts forever."""

    def __init__(self) -> None:
        self._pools: dict[PoolID, float] = {}
        self._pod: float | None = None

    def gave(self, pools: Collection[PoolID], wall: float) -> None:
        """Another scheduler has given devices of these pools."""
        if len(self._pools) >= _MANY:
            self._pools = {pool: at for pool, at in self._pools.items() if wall - at < POOL_SECONDS}
        self._pools.update(dict.fromkeys(pools, wall))

    def has_pod(self, wall: float) -> None:
        """Another scheduler has a pod that claims devices and waits."""
        self._pod = wall

    def near(self, pools: Collection[PoolID], wall: float) -> bool:
        """Return whether another scheduler may be about to give a device of one of these pools."""
        if self._pod is not None and wall - self._pod < POD_SECONDS:
            return True
        seen = (self._pools.get(pool) for pool in pools)
        return any(at is not None and wall - at < POOL_SECONDS for at in seen)
