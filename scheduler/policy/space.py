"""The objects that a set of policies can tell apart: for each key the values that some rule mentions, absent, and one
fresh value. Everything else is equal to one of these for every rule, which is what makes the analysis exact.

A rule's predicate is a *box*: for each key the values it accepts, independent of the other keys. Two worlds are looked
at apart, because a pod's QoS annotation is the stamp and nothing else: pods, and all other objects.
Next stage: `scheduler.policy.questions` asks about all objects of a space at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from scheduler.model.selectors import LabelSelector, Requirement
from scheduler.policy import keys
from scheduler.policy.merge import may_write
from scheduler.policy.qos import CLASSES
from scheduler.policy.spec import Field, Rule, Write

World = Literal["pod", "other"]
WORLDS: tuple[World, ...] = ("pod", "other")
Axis = tuple[Field, str]
Value = str | None
"""None: the key is absent."""
Box = Mapping[Axis, frozenset[Value]]
"""Axis → the values inside; an axis that is not there is unbounded."""

_AMOUNTS = {"cpu": "100m", "memory": "64Mi"}
_RESOURCES: Mapping[str, Any] = {
    "Guaranteed": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "Burstable": {"requests": _AMOUNTS},
    "BestEffort": None,
}
_STAMP: Axis = ("annotation", keys.QOS)


class Writer(NamedTuple):
    """One rule's write on one axis, and what the values that are there turn into if it is the last to write."""

    write: Write
    turns: Mapping[Value, Value]

    @property
    def changes(self) -> list[Value]:
        """The old values that the write changes."""
        return [old for old, new in self.turns.items() if old != new]

    @property
    def kept_back(self) -> list[Value]:
        """The old values that the owner guard keeps it from changing."""
        return [old for old, new in self.turns.items() if old == new != self.write.value]


class Space:
    """One world of objects, as far as these rules can see."""

    def __init__(self, rules: Sequence[Rule], world: World, owners: Iterable[LabelSelector] = ()) -> None:
        self.world = world
        self.rules = rules
        self.values: dict[Axis, list[Value]] = {}
        self._collect(rules, owners)
        boxes = ((rule, self.box(criteria(rule))) for rule in rules)
        self.boxes: dict[int, Box] = {id(rule): box for rule, box in boxes if box is not None}
        self.writers: dict[Axis, list[Writer]] = {}
        for rule in rules:
            for write in rule.writes if self.can_match(rule) else ():
                axis = write.field, write.key
                if world != "pod" or axis != _STAMP:
                    turns = {old: _written(write, old) for old in self.values[axis]}
                    self.writers.setdefault(axis, []).append(Writer(write, turns))

    def can_match(self, rule: Rule) -> bool:
        """Whether anything in this world can match the rule."""
        return id(rule) in self.boxes

    def writer(self, write: Write) -> tuple[Writer, list[Writer]] | None:
        """This write's writer, and those that would overwrite it; None when it never gets anywhere."""
        writers = self.writers.get((write.field, write.key), [])
        for i, writer in enumerate(writers):
            if writer.write.rule is write.rule:
                return writer, writers[i + 1 :]
        return None

    def box(self, wanted: Iterable[tuple[Field, Requirement]]) -> Box | None:
        """The box of ANDed criteria; None when it is empty."""
        found: dict[Axis, frozenset[Value]] = {}
        for field, requirement in wanted:
            axis = field, requirement.key
            inside = frozenset(value for value in self.values[axis] if requirement.accepts(value))
            found[axis] = found.get(axis, inside) & inside
        return found if all(found.values()) else None

    def example(self, chosen: Mapping[Axis, Value]) -> dict[str, Any]:
        """The object with these values."""
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

    def _collect(self, rules: Sequence[Rule], owners: Iterable[LabelSelector]) -> None:
        mentioned: dict[Axis, set[str]] = {}
        for rule in rules:
            for field, requirement in criteria(rule):
                mentioned.setdefault((field, requirement.key), set()).update(requirement.values)
            for write in rule.writes:
                mentioned.setdefault((write.field, write.key), set()).add(write.value)
        for owner in owners:
            for requirement in owner.requirements:
                mentioned.setdefault(("label", requirement.key), set()).update(requirement.values)
        for axis, values in sorted(mentioned.items()):
            self.values[axis] = [None, *sorted(values), _fresh(values)]
        if self.world == "pod":
            for axis, only in ((_STAMP, [*reversed(CLASSES)]), (("annotation", keys.MIRROR), [None])):
                if axis in self.values:
                    self.values[axis] = [*only]  # the stamp is always there; a mirror pod would be exempt


def criteria(rule: Rule) -> list[tuple[Field, Requirement]]:
    """A rule's criteria with their field."""
    return [
        *(("label", requirement) for requirement in rule.predicate.labels),
        *(("annotation", requirement) for requirement in rule.predicate.annotations),
    ]


def _written(write: Write, old: Value) -> Value:
    allowed = write.field == "annotation" or may_write(write.key, old, write.value, ())
    return write.value if allowed else old


def _fresh(taken: set[str]) -> str:
    name = "other"
    number = 1
    while name in taken:
        number += 1
        name = f"other-{number}"
    return name
