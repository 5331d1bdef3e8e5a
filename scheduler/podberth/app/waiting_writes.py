"""What waits to be written of objects: the newest word of each, and namespaces take turns."""

from typing import Generic, TypeVar

MOST = 20_000
"""Objects for which something may wait to be written."""
FEW = 200
"""How many objects of any namespace may wait, however many wait in all: less where there are so many namespaces that
these would be more than `MOST` together."""
Wanted = TypeVar("Wanted")


def share(namespaces: int) -> int:
    """Return how many of each of so many namespaces may wait when `MOST` wait in all. So there are never twice as many,
    and one of each namespace.
    """
    return max(min(FEW, MOST // max(namespaces, 1)), 1)


class WaitingWrites(Generic[Wanted]):
    """By namespace and UID."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Wanted]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, namespace: str) -> int:
        """Return how many of a namespace."""
        return len(self._by_namespace.get(namespace, ()))

    def crowds(self, namespace: str) -> bool:
        """Return whether no more of a namespace may wait once there are too many in all."""
        return self.of(namespace) >= share(len(self._by_namespace))

    def put(self, namespace: str, uid: str, wanted: Wanted) -> None:
        """It takes the place of what waited before, if anything."""
        objects = self._by_namespace.setdefault(namespace, {})
        self._count += uid not in objects
        objects[uid] = wanted

    def get(self, namespace: str, uid: str) -> Wanted | None:
        """Return what waits to be written of an object."""
        return self._by_namespace.get(namespace, {}).get(uid)

    def take(self, namespace: str, uid: str) -> Wanted | None:
        """Have it wait no longer."""
        objects = self._by_namespace.get(namespace, {})
        found = objects.pop(uid, None)
        if found is not None:
            self._count -= 1
            if not objects:
                del self._by_namespace[namespace]
        return found

    def next(self, busy: set[str]) -> Wanted | None:
        """The first of the namespace whose turn it is. `busy`: objects for which something is just being written."""
        for namespace, objects in self._by_namespace.items():
            for uid in objects:
                if uid not in busy:
                    found = self.take(namespace, uid)
                    if namespace in self._by_namespace:
                        self._by_namespace[namespace] = self._by_namespace.pop(namespace)
                    return found
        return None
