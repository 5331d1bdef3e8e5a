"""The objects that a set of policies can tell apart, which is what makes the analysis exact.

A rule's predicate is a *box*: for each key the values it accepts, independent of the other keys. Values of a key that
are in the same boxes are alike for every rule, so one of them stands for all; a value that some rule writes stands for
itself, absent is a value too, and one fresh value stands for all that no rule mentions. What is kept is as much as the
rules mention: a box says which values it accepts, or which it does not, whichever is the shorter list.

Two worlds are looked at apart, because a pod's QoS annotation is the stamp and nothing else: pods, and all other
objects. Next stage: `podberth.policy.questions` asks about all objects of a space at once.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy import keys
from podberth.policy.qos import CLASSES
from podberth.policy.spec import Field, Rule, Write

World = Literal["pod", "other"]
WORLDS: tuple[World, ...] = ("pod", "other")
Axis = tuple[Field, str]
Value = str | None
"""None: the key is absent."""

AXIS = 40
"""Room that an axis takes, where a value takes 1."""
_AMOUNTS = {"cpu": "100m", "memory": "64Mi"}
_RESOURCES: Mapping[str, Any] = {
    "Guaranteed": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "Burstable": {"requests": _AMOUNTS},
    "BestEffort": None,
}
_STAMP: Axis = ("annotation", keys.QOS)
_ABSENT: frozenset[Value] = frozenset((None,))


class Among(NamedTuple):
    """Some values of a key: these, or (`all_but`) all but these."""

    values: frozenset[Value]
    all_but: bool = False

    def holds(self, value: Value) -> bool:
        """Return whether the value is one of them."""
        return (value in self.values) != self.all_but

    def also(self, other: "Among") -> "Among":
        """Return the values that are in both."""
        if self.all_but and other.all_but:
            return Among(self.values | other.values, all_but=True)
        if self.all_but:
            return Among(other.values - self.values)
        return Among(self.values - other.values if other.all_but else self.values & other.values)

    @property
    def empty(self) -> bool:
        """Return whether no value is among them. All but some is never empty, as values are infinite."""
        return not self.values and not self.all_but


Box = Mapping[Axis, Among]
"""Axis → the values inside; an axis that is not there is unbounded."""


def changed_by(write: Write) -> Among:
    """Return the old values that a write changes, if it is the last one to its axis."""
    return Among(frozenset((write.value,)), all_but=True)


def among(requirement: Requirement) -> Among:
    """Return the values that meet a requirement."""
    match requirement.operator:
        case "In":
            return Among(requirement.values)
        case "NotIn":
            return Among(requirement.values, all_but=True)
    return Among(_ABSENT, all_but=requirement.operator == "Exists")


class Space:
    """One world of objects, as far as these rules can tell them apart."""

    def __init__(
        self, rules: Sequence[Rule], world: World, owners: Iterable[LabelSelector] = (), like: "Space | None" = None
    ) -> None:
        """`like`: the space of these rules in the other world, which mostly lists the same values for each key."""
        self.world = world
        self.rules = rules
        self._only: Mapping[Axis, Sequence[Value]] = {}
        if world == "pod":  # the stamp is always there; a mirror pod would be exempt
            self._only = {_STAMP: [*reversed(CLASSES)], ("annotation", keys.MIRROR): [None]}
        raw = {id(rule): box for rule in rules if (box := self.meet(criteria(rule))) is not None}
        self.writers: dict[Axis, list[Write]] = {}
        for rule in rules:
            for write in rule.writes if id(rule) in raw else ():
                axis = write.field, write.key
                if world != "pod" or axis != _STAMP:
                    self.writers.setdefault(axis, []).append(write)
        self._places = {
            (axis, id(write.rule)): i for axis, found in self.writers.items() for i, write in enumerate(found)
        }
        selected = [self.meet(("label", one) for one in owner.requirements) for owner in owners if not owner.nothing]
        self.values: dict[Axis, Sequence[Value]] = {}
        self._alike: dict[Axis, Mapping[Value, Value]] = {}
        self._tell_apart([*raw.values(), *(box for box in selected if box is not None)])
        self.boxes: dict[int, Box] = {
            rule: self._in_short(box, {} if like is None else like.boxes.get(rule, {})) for rule, box in raw.items()
        }

    def can_match(self, rule: Rule) -> bool:
        """Return whether the rule can match any object of this world."""
        return id(rule) in self.boxes

    def gets_anywhere(self, write: Write) -> bool:
        """Return whether a write's rule can match, and policies may write its key here."""
        return ((write.field, write.key), id(write.rule)) in self._places

    def later(self, write: Write) -> list[Write] | None:
        """Return the writes that would overwrite this one; None when it has no effect."""
        axis = write.field, write.key
        place = self._places.get((axis, id(write.rule)))
        return None if place is None else self.writers[axis][place + 1 :]

    def box(self, wanted: Iterable[tuple[Field, Requirement]]) -> Box | None:
        """Return the box of ANDed criteria of a rule or an owner that this space was made for; None when it is
        empty.
        """
        met = self.meet(wanted)
        return None if met is None else self._in_short(met)

    def meet(self, wanted: Iterable[tuple[Field, Requirement]]) -> Box | None:
        """Return the box of any ANDed criteria, with all the values that they mention; None when it is empty."""
        found: dict[Axis, Among] = {}
        for field, requirement in wanted:
            axis = field, requirement.key
            inside = among(requirement)
            found[axis] = found[axis].also(inside) if axis in found else inside
        for axis in self._only.keys() & found.keys():
            found[axis] = Among(frozenset(value for value in self._only[axis] if found[axis].holds(value)))
        return None if any(inside.empty for inside in found.values()) else found

    def example(self, chosen: Mapping[Axis, Value]) -> dict[str, Any]:
        """Return the object with these values."""
        metadata: dict[str, Any] = {"name": "example", "namespace": "default"}
        for field, name in (("label", "labels"), ("annotation", "annotations")):
            held = {
                axis[1]: value
                for axis, value in sorted(chosen.items())
                if axis[0] == field and value is not None and not (self.world == "pod" and axis == _STAMP)
            }
            if held:
                metadata[name] = held
        if self.world == "other":
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        container: dict[str, Any] = {"name": "main", "image": "registry.example/app"}
        resources = _RESOURCES[chosen.get(_STAMP) or "BestEffort"]
        if resources is not None:
            container["resources"] = resources
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}

    def within(self, box: Box) -> dict[str, Any]:
        """Return the object with the first values that a box accepts."""
        return self.example({axis: self._first(axis, inside) for axis, inside in box.items()})

    def _first(self, axis: Axis, inside: Among) -> Value:
        if inside.all_but or axis in self._only:
            return next(value for value in self.values[axis] if inside.holds(value))
        return None if None in inside.values else min(value for value in inside.values if value is not None)

    def _tell_apart(self, boxes: Iterable[Box]) -> None:
        """Sort the values of each axis by the boxes that list them; one of each sort stands for it.

        Each box splits every sort that it lists a part of. Linear in what the boxes list.
        """
        kinds: dict[Axis, dict[Value, int]] = {}
        highest = 0
        for box in boxes:
            for axis, inside in box.items():
                known = kinds.setdefault(axis, {})
                split: dict[int, int] = {}
                for value in inside.values:
                    old = known.get(value, 0)  # 0: what nothing lists
                    if old not in split:
                        highest += 1
                        split[old] = highest
                    known[value] = split[old]
        for axis, writers in self.writers.items():
            known = kinds.setdefault(axis, {})
            for value in {write.value for write in writers}:
                highest += 1
                known[value] = highest
        for axis, known in sorted(kinds.items()):
            if axis in self._only:
                self.values[axis], self._alike[axis] = self._only[axis], {}
                continue
            first: dict[int, str] = {}
            listed = sorted(value for value in known if value is not None)
            self._alike[axis] = {value: first.setdefault(known[value], value) for value in listed}
            self.values[axis] = [None, *first.values(), _fresh(known.keys())]

    def _in_short(self, box: Box, like: Box | None = None) -> Box:
        """Return the box with the values that stand for others. Parts that are equal in `like` are taken from there."""
        short: dict[Axis, Among] = {}
        for axis, inside in box.items():
            alike = self._alike[axis]
            made = Among(frozenset(alike.get(value, value) for value in inside.values), inside.all_but)
            known = (inside, like.get(axis)) if like else (inside,)
            short[axis] = next((one for one in known if one == made), None) or made
        return short


def weigh(rules: Iterable[Rule], owners: Iterable[LabelSelector] = ()) -> int:
    """Return the size of the space of these rules, before it is made."""
    axes: set[Axis] = set()
    values = 0
    asked: Iterable[tuple[Field, Requirement]]
    for asked in (*map(criteria, rules), *([("label", one) for one in owner.requirements] for owner in owners)):
        axes.update((field, requirement.key) for field, requirement in asked)
        values += sum(1 + len(requirement.values) for _, requirement in asked)
    for write in (write for rule in rules for write in rule.writes):
        axes.add((write.field, write.key))
        values += 1
    return AXIS * len(axes) + values


def criteria(rule: Rule) -> list[tuple[Field, Requirement]]:
    """Return a rule's criteria with their field."""
    return [
        *(("label", requirement) for requirement in rule.predicate.labels),
        *(("annotation", requirement) for requirement in rule.predicate.annotations),
    ]


def _fresh(taken: Container[Value]) -> str:
    name = "other"
    number = 1
    while name in taken:
        number += 1
        name = f"other-{number}"
    return name
