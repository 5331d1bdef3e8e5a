"""A label selector as one condition for each label key, which indexes can look up.

`app In (a, b), app NotIn (b), tier Exists` says the same as `app In (a)` and `tier` present: requirements on one key
are merged, so that a selector costs an index what its keys and values are, however often it names them.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from msgspec import Struct

from scheduler.model.parts import Parts, some_of, whole


class Kind(Enum):
    """What a condition asks of the value of its key."""

    IN = auto()
    """The key must be there, with one of the values."""
    NOT_IN = auto()
    """The key may be absent, but may not have one of the values."""
    PRESENT = auto()
    """The key must be there, and may not have one of the values. There may be no values."""
    ABSENT = auto()
    """The key may not be there."""


class Condition(Struct, frozen=True, gc=False):
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
    def asked(self) -> "list[_Asked]":
        """The requirements that this condition stands for."""
        match self.kind:
            case Kind.IN:
                return [_Asked(self.key, "In", self.values)]
            case Kind.ABSENT:
                return [_Asked(self.key, "DoesNotExist")]
        excluded = [_Asked(self.key, "NotIn", self.values)] if self.values else []
        return [_Asked(self.key, "Exists"), *excluded] if self.kind is Kind.PRESENT else excluded

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


class _Asked(NamedTuple):
    """What a condition asks, as a requirement."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()


def conditions_of(requirements: Sequence[_Requirement]) -> tuple[Condition, ...] | None:
    """The requirements (In, NotIn, Exists, DoesNotExist), all of which must hold, by key; None: they never do."""
    return whole(conditions_in_parts(requirements))


def conditions_in_parts(requirements: Sequence[_Requirement]) -> Parts[tuple[Condition, ...] | None]:
    """As `conditions_of`: there may be 100,000 requirements. Mostly there is one on each key, In or NotIn."""
    by_key: dict[str, _Requirement] = {}
    for some in some_of(requirements):
        known = len(by_key)
        by_key |= {requirement.key: requirement for requirement in some}
        if len(by_key) < known + len(some):
            return (yield from _by_key(requirements))
        if len(requirements) > len(some):
            yield len(some) // 2
    found: list[Condition] = []
    for some in some_of(requirements):
        simple = [Condition(one.key, _ALIKE[one.operator], one.values) for one in some if one.operator in _ALIKE]
        if len(simple) < len(some) or not all(one.values for one in simple):
            return (yield from _by_key(requirements))
        found += simple
        if len(requirements) > len(some):
            yield len(some) // 2
    return tuple(found)


def _by_key(requirements: Sequence[_Requirement]) -> Parts[tuple[Condition, ...] | None]:
    """As `conditions_in_parts`, also where there are several requirements on a key."""
    by_key: dict[str, list[_Requirement]] = {}
    for some in some_of(requirements):
        for requirement in some:
            by_key.setdefault(requirement.key, []).append(requirement)
        if len(requirements) > len(some):
            yield len(some)
    found: list[Condition] = []
    for keys in some_of(list(by_key)):
        for key in keys:
            condition = yield from _merged(key, by_key[key])
            if condition is None:
                return None
            found.append(condition)
        if len(by_key) > len(keys):
            yield len(keys)
    return tuple(found)


_PART = 250
"""Steps of merging values until it yields."""
_ALIKE = {"In": Kind.IN, "NotIn": Kind.NOT_IN}


def _merged(key: str, requirements: list[_Requirement]) -> Parts[Condition | None]:
    wanted: frozenset[str] | None = None
    excluded: set[str] = set()
    present = absent = False
    steps = 0
    for requirement in requirements:
        steps += len(requirement.values) // 8
        if steps >= _PART:
            yield steps
            steps = 0
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

    __slots__ = ("_by_key", "_exact", "_present", "_rest")

    def __init__(self, conditions: Sequence[Condition] = ()) -> None:
        self._by_key: dict[str, Condition] = {}
        self._exact: dict[str, str] = {}
        """The value that a key has to have: most conditions ask for one, and a tenant may write 100,000 such."""
        self._rest: dict[str, Condition] = {}
        """The other conditions."""
        self._present = 0
        """How many of the keys of the other conditions must be there."""
        self.add(conditions)

    def add(self, conditions: Sequence[Condition]) -> None:
        """Have more conditions."""
        self._by_key |= {condition.key: condition for condition in conditions}
        exact = {
            one.key: value for one in conditions if one.kind is Kind.IN and len(one.values) == 1 for value in one.values
        }
        self._exact |= exact
        if len(exact) == len(conditions):
            return
        for condition in conditions:
            if condition.key not in exact:
                self._rest[condition.key] = condition
                self._present += not condition.holds_without

    def beside(self, requirements: Iterable[_Requirement]) -> "ByKey | None":
        """These conditions and more requirements, of which there are few; None: no labels meet them all."""
        few = list(requirements)
        met = [self._by_key[key] for key in {one.key for one in few} if key in self._by_key]
        more = conditions_of([*few, *[asked for condition in met for asked in condition.asked]])
        if more is None:
            return None
        made = ByKey()
        made._by_key, made._exact, made._rest = dict(self._by_key), dict(self._exact), dict(self._rest)
        made._present = self._present
        for condition in met:
            if made._exact.pop(condition.key, None) is None:
                del made._rest[condition.key]
                made._present -= not condition.holds_without
        made.add(more)
        return made

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All of them."""
        return tuple(self._by_key.values())

    def hold(self, labels: Mapping[str, str]) -> bool:
        """Whether all conditions hold for these labels."""
        if len(labels) < len(self._exact) + self._present or not self._exact.items() <= labels.items():
            return False
        present = 0
        for key in labels if len(labels) <= len(self._rest) else [key for key in self._rest if key in labels]:
            condition = self._rest.get(key)
            if condition is not None:
                if not condition.accepts(labels[key]):
                    return False
                present += not condition.holds_without
        return present == self._present


def values_in(conditions: Iterable[_Requirement]) -> int:
    """How many conditions there are, and values that they name: what it costs to look them all up."""
    return sum([1 + len(condition.values) for condition in conditions])
