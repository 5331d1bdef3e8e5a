"""What waits to be indexed, or taken out of an index: in lanes, one for each namespace that brought it."""

from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Backlog(Generic[Thing]):
    """What waits, by namespace; lanes take turns. A thing may wait in several lanes."""

    def __init__(self) -> None:
        self._lanes: dict[str, dict[Thing, int]] = {}
        """Namespace → what waits there, the oldest first, and its size. In the order of their turns."""
        self.size = 0
        """Of all that waits."""

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def first(self, most: int) -> list[str]:
        """The first namespaces, at most so many, in the order of their turns."""
        return list(islice(self._lanes, most))

    def put(self, namespace: str, thing: Thing, size: int) -> None:
        """Have a thing wait in a lane."""
        lane = self._lanes.setdefault(namespace, {})
        if thing not in lane:
            lane[thing] = size
            self.size += size

    def done(self, namespace: str, thing: Thing) -> None:
        """A thing waits in a lane no longer."""
        lane = self._lanes.get(namespace, {})
        self.size -= lane.pop(thing, 0)
        if not lane:
            self._lanes.pop(namespace, None)

    def of(self, namespace: str) -> Iterator[Thing]:
        """What waits in a lane, the oldest first. Each thing has to be done before the next one is asked for."""
        while lane := self._lanes.get(namespace):
            yield next(iter(lane))

    def last(self, namespace: str) -> None:
        """A lane has had its turn."""
        lane = self._lanes.pop(namespace, None)
        if lane is not None:
            self._lanes[namespace] = lane
