"""Things that wait to be indexed or to be removed from an index, in one lane for each namespace that brought them."""

from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Backlog(Generic[Thing]):
    """The waiting things by namespace; lanes take turns. A thing may wait in several lanes."""

    def __init__(self) -> None:
        self._lanes: dict[str, dict[Thing, int]] = {}
        """Namespace → its things, the oldest first, and their sizes. In the order of the lanes' turns."""
        self.size = 0
        """The size of everything that waits."""

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def first(self, most: int) -> list[str]:
        """The first namespaces, at most so many, in the order of their turns."""
        return list(islice(self._lanes, most))

    def put(self, namespace: str, thing: Thing, size: int) -> None:
        """Add a thing to a lane."""
        lane = self._lanes.setdefault(namespace, {})
        if thing not in lane:
            lane[thing] = size
            self.size += size

    def done(self, namespace: str, thing: Thing) -> None:
        """A thing does not wait in a lane any more."""
        lane = self._lanes.get(namespace, {})
        self.size -= lane.pop(thing, 0)
        if not lane:
            self._lanes.pop(namespace, None)

    def of(self, namespace: str) -> Iterator[Thing]:
        """The things in a lane, the oldest first. Each has to be `done` before the next one is asked for."""
        while lane := self._lanes.get(namespace):
            yield next(iter(lane))

    def last(self, namespace: str) -> None:
        """A lane has had its turn."""
        lane = self._lanes.pop(namespace, None)
        if lane is not None:
            self._lanes[namespace] = lane
