"""Values of expressions. Python's own types where they mean the same: None, bool, int, float, str, bytes and list.

An unsigned integer is a `Uint`, a map a `Map`, and there are classes for what Kubernetes adds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, TypeAlias

from podberth.cel.errors import METER
from podberth.cel.library.quantities import Quantity, Version

Value: TypeAlias = Any

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(x)` gives."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address."""

    ip: IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Prefix:
    """An IP address and the length of a prefix: the address may have bits beyond it."""

    ip: IPv4Address | IPv6Address
    bits: int


class Optional:
    """A value that may be absent."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


NONE: Final = Optional(None)
"""The absent value: told by identity, since null is a value."""


class _Missing:
    __slots__ = ()


MISSING: Final = _Missing()


def key_of(value: Value) -> Value:
    """Return the form in which a map key is stored: equal numbers are one key, and a bool is no number."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is bool:
        return (value,)
    if kind is Uint:
        return int(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    return (kind, value) if kind is not list and kind is not Map else (kind, id(value))


class Map:
    """A map. `items` has the values by `key_of`, `names` the keys themselves where that is not the same."""

    __slots__ = ("items", "names")

    def __init__(self, items: dict[Value, Value], names: dict[Value, Value] | None = None) -> None:
        self.items = items
        self.names = names

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.items if self.names is None else self.names.values())

    def find(self, key: Value) -> Value:
        """Return the value of a key, or MISSING."""
        return self.items.get(key if type(key) is str else key_of(key), MISSING)

    def pairs(self) -> Iterator[tuple[Value, Value]]:
        """Return keys and their values."""
        if self.names is None:
            return iter(self.items.items())
        return ((name, self.items[key]) for key, name in self.names.items())

    def put(self, key: Value, value: Value) -> None:
        """Add or replace an entry."""
        known = key_of(key)
        if type(key) is not str and self.names is None:
            self.names = {name: name for name in self.items}
        if self.names is not None:
            self.names[known] = key
        self.items[known] = value


class DefaultMap(Map):
    """The map of domains: one that is not there is found as an empty map, but is not in it."""

    __slots__ = ()

    def find(self, key: Value) -> Value:
        """Return the value of a key, an empty map by default."""
        found = Map.find(self, key)
        return EMPTY if found is MISSING else found


EMPTY: Final = Map({})


class GrowingList(list[Value]):
    """A list that a loop collects into: adding to it changes it."""

    __slots__ = ()


class GrowingMap(Map):
    """A map that a loop collects into: inserting changes it."""

    __slots__ = ()


_NAMES: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    GrowingList: "list",
    Map: "map",
    DefaultMap: "map",
    GrowingMap: "map",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
    Version: "kubernetes.Semver",
    Address: "net.IP",
    Prefix: "net.CIDR",
}
LISTS: Final = frozenset({list, GrowingList})
MAPS: Final = frozenset({Map, DefaultMap, GrowingMap})


def type_name(value: Value) -> str:
    """Return the name of the value's type."""
    return _NAMES[type(value)]


OWN: Final = frozenset({Quantity, Version, Address, Prefix})


def equal(left: Value, right: Value) -> bool | None:
    """Return whether two values are equal; None where cel-go has an error for it: a Kubernetes type
    and another type.
    """
    kind, other = type(left), type(right)
    if kind is other:
        if kind in LISTS or kind in MAPS or kind is Optional:
            return _equal_structures(left, right)
        if kind is Quantity and right.computed:
            return None
        return bool(left == right)
    if left is None or right is None:
        return False
    if kind in _NUMBERS and other in _NUMBERS:
        if kind is float or other is float:
            return float(left) == float(right)
        return int(left) == int(right)
    if kind in OWN:
        return None
    return _equal_structures(left, right)


_NUMBERS: Final = frozenset({int, Uint, float})


def _equal_structures(left: Value, right: Value) -> bool | None:
    """Return lists and maps whose items are not unequal (an error is not), and optional values."""
    kind, other = type(left), type(right)
    if kind in LISTS and other in LISTS:
        METER.spend(len(left))
        return len(left) == len(right) and all(equal(a, b) is not False for a, b in zip(left, right, strict=True))
    if kind in MAPS and other in MAPS:
        if len(left) != len(right):
            return False
        METER.spend(len(left))
        for key, value in left.pairs():
            found = right.find(key)
            if found is MISSING or equal(value, found) is False:
                return False
        return True
    if kind is Optional and other is Optional:
        if left is NONE or right is NONE:
            return left is right
        return equal(left.value, right.value)
    return False


def size_of(value: Value) -> int:
    """Return the units of the meter for going through the value once. What a loop collects into is not gone through."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) >> 6
    if kind is list or kind is Map:
        return len(value)
    return 0
