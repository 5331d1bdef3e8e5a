"""Values that are worked out once: of objects that may be large, since tenants write them, and are looked up often."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item", covariant=True)
Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 (reads as what it decorates)
    """A property that is worked out when it is first read. Unlike functools.cached_property it takes no lock.

    In Python 3.11, that lock is most of what it costs to read thousands of them.
    """

    def __init__(self, work_out: Callable[[Any], Value]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, one: None, owner: type) -> "once[Value]": ...

    @overload
    def __get__(self, one: object, owner: type) -> Value: ...

    def __get__(self, one: object | None, owner: type) -> "Value | once[Value]":
        if one is None:
            return self
        value = one.__dict__[self._name] = self._work_out(one)
        return value


class Once(tuple[Item, ...]):
    """A tuple that is hashed once."""

    @once
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash


_SHORT = 8
"""The number of items up to which hashing takes less time than keeping a hash."""


def hashed_once(items: Iterable[Item]) -> tuple[Item, ...]:
    """A tuple, hashed once if it is long."""
    found = tuple(items)
    return found if len(found) <= _SHORT else Once(found)
