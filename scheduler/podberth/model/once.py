"""Tuples that are hashed once: of items that may be large, since tenants write them, and are looked up often."""

from collections.abc import Iterable
from functools import cached_property
from typing import TypeVar

Item = TypeVar("Item", covariant=True)


class Once(tuple[Item, ...]):
    """A tuple that is hashed once."""

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash


_SHORT = 8
"""The number of items up to which hashing takes less time than keeping a hash."""


def hashed_once(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return a tuple, hashed once if it is long."""
    found = tuple(items)
    return found if len(found) <= _SHORT else Once(found)
