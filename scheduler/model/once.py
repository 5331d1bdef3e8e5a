"""Tuples that may be long, since tenants write them, and are looked up often."""

from functools import cached_property
from typing import TypeVar

Item = TypeVar("Item", covariant=True)


class Once(tuple[Item, ...]):
    """A tuple that is hashed once."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash
