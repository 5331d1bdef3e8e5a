"""Which devices of a large pool a search need not look at, by their places: those that are taken, or not selected.

A pool for all nodes may have thousands of devices, of which the first are taken first. To look at each of them again
for each pod would take longer than all else.
"""

from collections.abc import Iterator

from podberth.cache.devices import AllocatedDevices
from podberth.model.devices import DeviceID
from podberth.plugins.dynamic_resources.pools import Pool

LARGE = 64
"""Pools with fewer devices are looked through one by one."""
_SELECTORS = 16
"""How many lists of selectors are remembered. With one more, all are forgotten."""
_TAKEN, _NOT_SELECTED = 1, 2

Selectors = tuple[tuple[str, str], ...]


class TakenPlaces:
    """The devices of one pool."""

    def __init__(self, pool: Pool, allocated: AllocatedDevices) -> None:
        self._places = {entry.id: i for i, entry in enumerate(pool.devices)}
        self._taken = bytearray([allocated.is_taken(entry.id) for entry in pool.devices])
        self._passed: dict[Selectors, bytearray] = {}
        """By selectors, a byte for each place: 0 for those that are left."""

    def note(self, device: DeviceID, *, taken: bool) -> None:
        """A claim has taken a device for itself, or has given it back."""
        place = self._places.get(device)
        if place is None:
            return
        self._taken[place] = taken
        for passed in self._passed.values():
            passed[place] = (passed[place] & _NOT_SELECTED) | (_TAKEN if taken else 0)

    def note_not_selected(self, selectors: Selectors, place: int) -> None:
        """A device is not selected, and never will be."""
        self._of(selectors)[place] |= _NOT_SELECTED

    def left(self, selectors: Selectors, begin: int) -> Iterator[int]:
        """The places from one on, without those that are taken, and those that are known not to be selected."""
        passed = self._of(selectors)
        place = passed.find(0, begin)
        while place >= 0:
            yield place
            place = passed.find(0, place + 1)

    def _of(self, selectors: Selectors) -> bytearray:
        found = self._passed.get(selectors)
        if found is None:
            if len(self._passed) >= _SELECTORS:
                self._passed.clear()
            found = self._passed[selectors] = bytearray(self._taken)
        return found
