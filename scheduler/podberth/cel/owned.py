"""Things that are kept for several owners, bounded by their sizes.

When all of it takes too much, the owner that has most loses what it has not asked for longest, whoever added last. So
an owner that keeps less than an equal share loses nothing. A thing that several owners ask for is kept once, counts in
full for each of them, and stays for as long as one of them has it. An owner that is gone asks for nothing: of too many
owners, the one that has not asked for longest loses all that it has.
"""

from typing import Generic, TypeVar

Thing = TypeVar("Thing")

MOST_OWNERS = 10_000
"""The number of owners that are known. Each takes some 400 bytes, whatever it has."""


class _Kept(Generic[Thing]):
    __slots__ = ("owners", "size", "thing")

    def __init__(self, thing: Thing, size: int) -> None:
        self.thing = thing
        self.size = size
        self.owners: set[str] = set()


class Owned(Generic[Thing]):
    """A cache of things by text, with a share of it for each owner."""

    def __init__(self, most: int) -> None:
        """`most` is the largest size of all things together."""
        self._most = most
        self._kept: dict[str, _Kept[Thing]] = {}
        self._of: dict[str, dict[str, None]] = {}
        """Owner → the names of its things, both least recently used first."""
        self._sizes: dict[str, int] = {}
        """Owner → the size of its things."""
        self.size = 0
        """The size of everything, each thing counted once."""

    def __len__(self) -> int:
        return len(self._kept)

    def peek(self, name: str) -> Thing | None:
        """Return a thing, whoever has it, without a use of it."""
        kept = self._kept.get(name)
        return None if kept is None else kept.thing

    def get(self, name: str, owner: str) -> Thing | None:
        """Return a thing, which then belongs to this owner, too."""
        kept = self._kept.get(name)
        if kept is None:
            return None
        self._give(name, kept, owner)
        return kept.thing

    def put(self, name: str, thing: Thing, size: int, owner: str) -> None:
        """Add a thing that is not there yet."""
        kept = self._kept[name] = _Kept(thing, size)
        self.size += size
        self._give(name, kept, owner)
        self._make_room(name)

    def grow(self, name: str, more: int) -> None:
        """Add to the size of a thing."""
        kept = self._kept.get(name)
        if kept is None:
            return
        kept.size += more
        self.size += more
        for owner in kept.owners:
            self._sizes[owner] += more
        self._make_room(name)

    def clear(self) -> None:
        """Keep nothing."""
        self.__init__(self._most)  # type: ignore[misc]

    def _give(self, name: str, kept: _Kept[Thing], owner: str) -> None:
        """Note that an owner uses a thing, which it may have already."""
        own = self._of[owner] = self._of.pop(owner, {})
        own.pop(name, None)
        own[name] = None
        if owner not in kept.owners:
            kept.owners.add(owner)
            self._sizes[owner] = self._sizes.get(owner, 0) + kept.size
        if len(self._of) > MOST_OWNERS:
            oldest = next(iter(self._of))
            for one in tuple(self._of[oldest]):
                self._take(one, oldest)

    def _take(self, name: str, owner: str) -> None:
        """Take a thing from an owner; it is dropped if nobody else has it."""
        kept = self._kept[name]
        kept.owners.discard(owner)
        del self._of[owner][name]
        self._sizes[owner] -= kept.size
        if not self._of[owner]:
            del self._of[owner], self._sizes[owner]
        if not kept.owners:
            del self._kept[name]
            self.size -= kept.size

    def _make_room(self, but: str) -> None:
        """Drop things until the rest fits, but not this one, which may be larger than the limit."""
        while self.size > self._most:
            others = (owner for owner, own in self._of.items() if own.keys() != {but})
            owner = max(others, key=self._sizes.__getitem__, default=None)
            if owner is None or self._sizes[owner] * len(self._sizes) <= self._most:
                return
            self._take(next(name for name in self._of[owner] if name != but), owner)
