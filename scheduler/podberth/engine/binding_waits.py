"""What pods in their binding cycle wait for: objects to change, and times at which they are given up."""

import heapq
from collections.abc import Callable, Iterator

from podberth.framework.binding import ObjectKey

_FEW = 1024


class ObjectWaits:
    """Which pods are asked about again when an object changes."""

    def __init__(self) -> None:
        self.uids: dict[ObjectKey | None, dict[str, None]] = {}
        """The object, or None for any → who waits for it."""

    def add(self, uid: str, on: frozenset[ObjectKey]) -> None:
        """A pod waits for these objects; for any, if there are none."""
        for key in on or (None,):
            self.uids.setdefault(key, {})[uid] = None

    def remove(self, uid: str, on: frozenset[ObjectKey]) -> None:
        """It waits for them no longer."""
        for key in on or (None,):
            uids = self.uids[key]
            del uids[uid]
            if not uids:
                del self.uids[key]

    def concerned(self, key: ObjectKey) -> tuple[str, ...]:
        """The pods that wait for an object."""
        return (*self.uids.get(key, ()), *self.uids.get(None, ()))


class Deadlines:
    """When pods are given up. If a pod's deadline changes or it waits no longer, its old entry is dropped later."""

    def __init__(self, deadline: Callable[[str], float | None], live: Callable[[], int]) -> None:
        """`deadline` returns a pod's deadline, None if it does not wait. `live`: how many pods there are."""
        self._deadline = deadline
        self._live = live
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, uid: str, deadline: float) -> None:
        """A pod may wait until then."""
        heapq.heappush(self._heap, (deadline, uid))
        if len(self._heap) > 4 * self._live() + _FEW:
            self._heap = sorted({entry for entry in self._heap if self._deadline(entry[1]) == entry[0]})

    def next(self) -> float | None:
        """The first deadline."""
        while self._heap and self._deadline(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def over(self, now: float) -> Iterator[str]:
        """The pods whose time is over."""
        while (deadline := self.next()) is not None and deadline <= now:
            yield heapq.heappop(self._heap)[1]
