"""A label selector as one condition for each label key, which indexes can look up.

`app In (a, b), app NotIn (b), tier Exists` says the same as `app In (a)` and `tier` present: requirements on one key
are merged, so that a selector costs an index what its keys and values are, however often it names them.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from msgspec import Struct


class Kind(Enum):
    """A test that a condition makes on the value of its key."""

    IN = auto()
    """The key must be there, with one of the values."""
    NOT_IN = auto()
    """The key may be absent, but may not have one of the values."""
    PRESENT = auto()
    """The key must be there, and may not have one of the values. There may be no values."""
    ABSENT = auto()
    """The key may not be there."""


class Condition(Struct, frozen=True, gc=False):
    """All that a selector asks of one label key, as one test."""

    key: str
    kind: Kind
    values: frozenset[str] = frozenset()

    def accepts(self, value: str | None) -> bool:
        """Return whether a label with this value (None: absent) meets the condition."""
        if value is None:
            return self.kind in WITHOUT
        if self.kind is Kind.ABSENT:
            return False
        return (value in self.values) == (self.kind is Kind.IN)

    @property
    def holds_without(self) -> bool:
        """Return whether the condition holds for things that have no label at all."""
        return self.kind in WITHOUT


WITHOUT = (Kind.NOT_IN, Kind.ABSENT)
"""Tests that a thing without the label passes."""


class _Requirement(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> frozenset[str]: ...


def conditions_of(requirements: Sequence[_Requirement]) -> tuple[Condition, ...] | None:
    """The requirements (In, NotIn, Exists, DoesNotExist), all of which must hold, by key; None: they never do."""
    by_key: dict[str, list[_Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    found: list[Condition] = []
    for key, of_key in by_key.items():
        one = of_key[0]
        # Mostly there is one on each key, In or NotIn.
        simple = len(of_key) == 1 and one.operator in _ALIKE and bool(one.values)
        condition = Condition(key, _ALIKE[one.operator], one.values) if simple else _merged(key, of_key)
        if condition is None:
            return None
        found.append(condition)
    return tuple(found)


_ALIKE = {"In": Kind.IN, "NotIn": Kind.NOT_IN}


def _merged(key: str, requirements: list[_Requirement]) -> Condition | None:
    wanted: frozenset[str] | None = None
    excluded: set[str] = set()
    present = absent = False
    for requirement in requirements:
        match requirement.operator:
            case "In":
                wanted = requirement.values if wanted is None else wanted & requirement.values
            case "NotIn":
                excluded |= requirement.values
            case "Exists":
                present = True
            case "DoesNotExist":
                absent = True
            case operator:
                raise ValueError(f"{operator} is no operator of a label selector")
    if wanted is not None:
        left = wanted - excluded
        return Condition(key, Kind.IN, frozenset(left)) if left and not absent else None
    if absent:
        return None if present else Condition(key, Kind.ABSENT)
    return Condition(key, Kind.PRESENT if present else Kind.NOT_IN, frozenset(excluded))


def hold(conditions: Iterable[Condition], labels: Mapping[str, str]) -> bool:
    """Return whether all conditions hold for these labels."""
    get = labels.get
    return all(condition.accepts(get(condition.key)) for condition in conditions)


def values_in(conditions: Iterable[_Requirement]) -> int:
    """Return how many conditions there are, and values that they name: what it costs to look them all up."""
    return sum([1 + len(condition.values) for condition in conditions])
