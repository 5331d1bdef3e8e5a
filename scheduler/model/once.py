"""Tuples that may be long, since tenants write them, and are looked up often."""

from collections.abc import Iterable
from functools import cached_property
from typing import TypeVar

Item = TypeVar("Item", covariant=True)

_SHORT = 8
"""So few items are hashed sooner than a hash is kept."""


class Once(tuple[Item, ...]):
    """A tuple that is hashed once."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


def once(items: Iterable[Item]) -> tuple[Item, ...]:
    """A tuple, hashed once if it is long."""
    found = tuple(items)
    return found if len(found) <= _SHORT else Once(found)
