"""Which devices of a large pool a search need not look at, by their places: those that are taken, or not selected.

A pool for all nodes may have thousands of devices, of which the first are taken first. To look at each of them again
for each pod would take longer than all else.
"""

from collections.abc import Iterator

from scheduler.model.devices import DeviceID
from scheduler.plugins.dynamic_resources.pools import Pool
from scheduler.state.allocated_devices import AllocatedDevices

LARGE = 64
"""Pools with fewer devices are looked through one by one."""
_SELECTORS = 16
"""So many lists of selectors are remembered. With one more, all are forgotten."""

Selectors = tuple[tuple[str, str], ...]


class TakenPlaces:
    """The devices of one pool."""

    def __init__(self, pool: Pool, allocated: AllocatedDevices) -> None:
        self._places = {entry.id: i for i, entry in enumerate(pool.devices)}
        self._taken = bytearray([allocated.is_taken(entry.id) for entry in pool.devices])
        self._not_selected: dict[Selectors, bytearray] = {}

    def note(self, device: DeviceID, *, taken: bool) -> None:
        """A claim has taken a device for itself, or has given it back."""
        place = self._places.get(device)
        if place is not None:
            self._taken[place] = taken

    def note_not_selected(self, selectors: Selectors, place: int) -> None:
        """A device is not selected, and never will be."""
        found = self._not_selected.get(selectors)
        if found is None:
            if len(self._not_selected) >= _SELECTORS:
                self._not_selected.clear()
            found = self._not_selected[selectors] = bytearray(len(self._taken))
        found[place] = 1

    def left(self, selectors: Selectors, begin: int) -> Iterator[int]:
        """The places from one on, without those that are taken, and those that are known not to be selected."""
        taken = self._taken
        place = taken.find(0, begin)
        while place >= 0:
            others = self._not_selected.get(selectors)
            selected = place if others is None else others.find(0, place)
            if selected == place:
                yield place
                selected += 1
            if selected < 0:
                return
            place = taken.find(0, selected)
