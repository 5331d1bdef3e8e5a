"""Objects as the API has them, and our own versions of some of them that the API does not show yet.

Mirrors kube-scheduler `plugins/volumebinding/passive_assume_cache.go`.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar


class Versioned(Protocol):
    """Anything with a resourceVersion."""

    resource_version: str


Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing", bound=Versioned)


class OutOfSyncError(ValueError):
    """What was to be assumed is made from a version that is not the API's latest."""


class Assumed(Generic[Key, Thing]):
    """Objects by key: a name, or (namespace, name). An assumption ends when the API shows another version."""

    def __init__(self) -> None:
        self._stored: dict[Key, Thing] = {}
        self._assumed: dict[Key, Thing] = {}

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[Thing]:
        return iter(self._stored.values())

    def get(self, key: Key) -> Thing | None:
        """The assumed version, if there is one, else what the API has."""
        found = self._assumed.get(key)
        return self._stored.get(key) if found is None else found

    def stored(self, key: Key) -> Thing | None:
        """The object as the API has it."""
        return self._stored.get(key)

    @property
    def assumed(self) -> Mapping[Key, Thing]:
        """The assumed versions."""
        return self._assumed

    def put(self, key: Key, thing: Thing) -> Thing | None:
        """Add or update; returns what the API had before."""
        old = self._stored.get(key)
        self._stored[key] = thing
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.resource_version != thing.resource_version:
            del self._assumed[key]
        return old

    def drop(self, key: Key) -> Thing | None:
        """Remove; returns what the API had."""
        self._assumed.pop(key, None)
        return self._stored.pop(key, None)

    def assume(self, key: Key, thing: Thing) -> None:
        """Show our own version until the API has a newer one.

        Raises OutOfSyncError when ours is not made from the API's latest.
        """
        stored = self._stored.get(key)
        if stored is None:
            raise OutOfSyncError(f"{_named(key)} is gone")
        if stored.resource_version != thing.resource_version:
            versions = f"stored: {stored.resource_version}, assume: {thing.resource_version}"
            raise OutOfSyncError(f"{_named(key)} is out of sync ({versions})")
        self._assumed[key] = thing

    def restore(self, key: Key, resource_version: str) -> None:
        """Show the API's version again, unless what is assumed was made from another version than this."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.resource_version == resource_version:
            del self._assumed[key]


def _named(key: Hashable) -> str:
    return "/".join(key) if isinstance(key, tuple) else str(key)
