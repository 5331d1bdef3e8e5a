"""A label selector as one condition for each label key, which indexes can look up.

`app In (a, b), app NotIn (b), tier Exists` says the same as `app In (a)` and `tier` present: requirements on one key
are merged, so that a selector costs an index what its keys and values are, however often it names them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol


class Kind(Enum):
    """What a condition asks of the value of its key."""

    IN = auto()
    """It is there and one of the values."""
    NOT_IN = auto()
    """It is none of the values; it may be absent."""
    PRESENT = auto()
    """It is there and none of the values, of which there may be none."""
    ABSENT = auto()


@dataclass(frozen=True, slots=True)
class Condition:
    """What a selector asks of one label key."""

    key: str
    kind: Kind
    values: frozenset[str] = frozenset()

    def accepts(self, value: str | None) -> bool:
        """Whether a label with this value (None: absent) meets the condition."""
        if value is None:
            return self.kind in WITHOUT
        if self.kind is Kind.ABSENT:
            return False
        return (value in self.values) == (self.kind is Kind.IN)

    @property
    def holds_without(self) -> bool:
        """Whether the condition holds for things that have no label at all."""
        return self.kind in WITHOUT


WITHOUT = (Kind.NOT_IN, Kind.ABSENT)
"""What holds for things that do not have the label."""


class _Requirement(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> frozenset[str]: ...


def conditions_of(requirements: Iterable[_Requirement]) -> tuple[Condition, ...] | None:
    """The requirements (In, NotIn, Exists, DoesNotExist), all of which must hold, by key; None: they never do."""
    by_key: dict[str, list[_Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    found = []
    for key, of_key in by_key.items():
        condition = _merged(key, of_key)
        if condition is None:
            return None
        found.append(condition)
    return tuple(found)


_KINDS = {"In": Kind.IN, "NotIn": Kind.NOT_IN, "Exists": Kind.PRESENT, "DoesNotExist": Kind.ABSENT}


def _merged(key: str, requirements: list[_Requirement]) -> Condition | None:
    if len(requirements) == 1:
        (only,) = requirements
        kind = _KINDS.get(only.operator)
        if kind is Kind.NOT_IN or (kind is Kind.IN and only.values):
            return Condition(key, kind, only.values)
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
    """Whether all conditions hold for these labels."""
    get = labels.get
    return all(condition.accepts(get(condition.key)) for condition in conditions)


class ByKey:
    """Conditions to be held against labels that are fewer: it costs what the labels are."""

    __slots__ = ("_by_key", "_present")

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._by_key = {condition.key: condition for condition in conditions}
        self._present = sum(not condition.holds_without for condition in self._by_key.values())
        """So many of the keys must be there."""

    def hold(self, labels: Mapping[str, str]) -> bool:
        """Whether all conditions hold for these labels."""
        present = 0
        for key in labels if len(labels) <= len(self._by_key) else [key for key in self._by_key if key in labels]:
            condition = self._by_key.get(key)
            if condition is not None:
                if not condition.accepts(labels[key]):
                    return False
                present += not condition.holds_without
        return present == self._present


def values_in(conditions: Iterable[Condition]) -> int:
    """How many values the conditions name: what it costs to look them all up."""
    return sum([1 + len(condition.values) for condition in conditions])
