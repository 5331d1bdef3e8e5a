"""The objects that a set of policies can tell apart, which is what makes the analysis exact.

A rule is a *box*: for each axis (a label's key, an annotation's key, the object's kind) the values it accepts,
independent of the other axes. Values that are in the same boxes are alike for every rule, so one of them stands for
all; a value that some rule writes stands for itself, absent is a value too, and one fresh value stands for all that no
rule mentions. What is kept is as much as the rules mention: a box says which values it accepts, or which it does not,
whichever is the shorter list.

Next stage: `podberth.policy.questions` asks about all objects of a space at once.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy import exempt, keys
from podberth.policy.kinds import CORE, split
from podberth.policy.qos import CLASSES
from podberth.policy.spec import Field, Rule, Write

Axis = tuple[str, str]
"""A field and a key in it: ("label", "app")."""
Value = str | None
"""None: the key is absent."""

KIND: Axis = ("kind", "")
STAMP: Axis = ("annotation", keys.QOS)
MIRROR: Axis = ("annotation", keys.MIRROR)
POD = "Pod"
AXIS = 40
"""Weight of an axis, where a value weighs 1."""
MOST_WEIGHT = 150_000
"""The largest weight of a set of policies that is looked at: a space of some 10 MB."""
_AMOUNTS = {"cpu": "100m", "memory": "64Mi"}
_RESOURCES: Mapping[str, Any] = {
    "Guaranteed": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "Burstable": {"requests": _AMOUNTS},
    "BestEffort": None,
}
_ABSENT: frozenset[Value] = frozenset((None,))


class Among(NamedTuple):
    """Some values of an axis: these, or (`all_but`) all but these."""

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


def criteria(rule: Rule) -> list[tuple[Field, Requirement]]:
    """Return a rule's criteria with their field."""
    return [
        *(("label", requirement) for requirement in rule.predicate.labels),
        *(("annotation", requirement) for requirement in rule.predicate.annotations),
    ]


def meet(wanted: Iterable[tuple[Field, Requirement]], kinds: Sequence[str] = ()) -> Box | None:
    """Return the box of ANDed criteria and of kinds (none: all), or None when no object is in it."""
    found: dict[Axis, Among] = {}
    if kinds:
        found[KIND] = Among(frozenset(kind for kind in kinds if exempt.of_kind(*split(kind)) is None))
    for field, requirement in wanted:
        axis = field, requirement.key
        inside = _among(requirement)
        found[axis] = found[axis].also(inside) if axis in found else inside
    if any(inside.empty for inside in found.values()):
        return None
    only_pods = KIND in found and found[KIND].values == {POD}
    return None if only_pods and not _takes_pods(found) else found


class Space:
    """The objects, as far as these rules, and owners with these selectors, can tell them apart."""

    def __init__(self, rules: Sequence[Rule], owners: Iterable[LabelSelector] = ()) -> None:
        self.rules = rules
        raw = {id(rule): box for rule in rules if (box := meet(criteria(rule), rule.applies_to)) is not None}
        self.writers: dict[Axis, list[Write]] = {}
        for write in (write for rule in rules if id(rule) in raw for write in rule.writes):
            self.writers.setdefault((write.field, write.key), []).append(write)
        self._places = {
            (axis, id(write.rule)): i for axis, found in self.writers.items() for i, write in enumerate(found)
        }
        selected = [meet(("label", one) for one in owner.requirements) for owner in owners if not owner.nothing]
        self.values: dict[Axis, Sequence[Value]] = {}
        """Axis → one value of each sort; the first is that of an object about which nothing is said."""
        self._alike: dict[Axis, Mapping[Value, Value]] = {}
        self._tell_apart([*raw.values(), *(box for box in selected if box is not None)])
        self.boxes: dict[int, Box] = {rule: self._in_short(box) for rule, box in raw.items()}

    def can_match(self, rule: Rule) -> bool:
        """Return whether the rule can match any object."""
        return id(rule) in self.boxes

    def gets_anywhere(self, write: Write) -> bool:
        """Return whether a write's rule can match."""
        return ((write.field, write.key), id(write.rule)) in self._places

    def later(self, write: Write) -> list[Write] | None:
        """Return the writes that would overwrite this one; None when it has no effect."""
        axis = write.field, write.key
        place = self._places.get((axis, id(write.rule)))
        return None if place is None else self.writers[axis][place + 1 :]

    def box(self, wanted: Iterable[tuple[Field, Requirement]]) -> Box | None:
        """Return the box of ANDed criteria of an owner that this space was made for; None when it is empty."""
        met = meet(wanted)
        return None if met is None else self._in_short(met)

    def example(self, chosen: Mapping[Axis, Value]) -> dict[str, Any]:
        """Return the object with these values."""
        group, name = split(chosen[KIND] or POD)
        metadata: dict[str, Any] = {"name": "example", "namespace": "default"}
        is_pod = chosen[KIND] == POD
        for field, held in (("label", "labels"), ("annotation", "annotations")):
            keys_and_values = {
                axis[1]: value
                for axis, value in sorted(chosen.items())
                if axis[0] == field and value is not None and not (is_pod and axis == STAMP)
            }
            if keys_and_values:
                metadata[held] = keys_and_values
        found: dict[str, Any] = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": name, "metadata": metadata}
        if not is_pod:
            return found
        container: dict[str, Any] = {"name": "main", "image": "registry.example/app"}
        resources = _RESOURCES[chosen.get(STAMP) or "BestEffort"]
        if resources is not None:
            container["resources"] = resources
        return {**found, "spec": {"containers": [container]}}

    def _tell_apart(self, boxes: Iterable[Box]) -> None:
        """Sort the values of each axis by the boxes that list them; one of each sort stands for it.

        Each box splits every sort that it lists a part of. Linear in what the boxes list.
        """
        sorts: dict[Axis, dict[Value, int]] = {KIND: {}}
        highest = 0
        for box in boxes:
            for axis, inside in box.items():
                known = sorts.setdefault(axis, {})
                split: dict[int, int] = {}
                for value in inside.values:
                    old = known.get(value, 0)  # 0: what nothing lists
                    if old not in split:
                        highest += 1
                        split[old] = highest
                    known[value] = split[old]
        alone: list[tuple[Axis, Iterable[str]]] = [(KIND, (POD,))]
        alone += [(axis, {write.value for write in writers}) for axis, writers in self.writers.items()]
        alone += [(STAMP, CLASSES)] if STAMP in sorts or STAMP in self.writers else []
        for axis, values in alone:
            for value in values:
                highest += 1
                sorts.setdefault(axis, {})[value] = highest
        for axis, known in sorted(sorts.items()):
            first: dict[int, str] = {}
            listed = sorted(value for value in known if value is not None)
            self._alike[axis] = {value: first.setdefault(known[value], value) for value in listed}
            if axis == KIND:
                unnamed = next((kind for kind in CORE if kind not in known), None) or "Other.example.com"
                self.values[axis] = [unnamed, *first.values()]
            else:
                self.values[axis] = [None, *first.values(), _fresh(known.keys())]

    def _in_short(self, box: Box) -> Box:
        """Return the box with the values that stand for others."""
        return {
            axis: Among(frozenset(self._alike[axis].get(value, value) for value in inside.values), inside.all_but)
            for axis, inside in box.items()
        }


def weigh(rules: Sequence[Rule], owners: Iterable[LabelSelector] = ()) -> int:
    """Return the size of the space of these rules, before it is made."""
    axes: set[Axis] = set()
    values = 0
    asked: Iterable[tuple[Field, Requirement]]
    for asked in (*map(criteria, rules), *([("label", one) for one in owner.requirements] for owner in owners)):
        axes.update((field, requirement.key) for field, requirement in asked)
        values += sum(1 + len(requirement.values) for _, requirement in asked)
    for rule in rules:
        axes.update((write.field, write.key) for write in rule.writes)
        values += len(rule.writes) + len(rule.applies_to)
    return AXIS * len(axes) + values


def _among(requirement: Requirement) -> Among:
    """Return the values that meet a requirement."""
    match requirement.operator:
        case "In":
            return Among(requirement.values)
        case "NotIn":
            return Among(requirement.values, all_but=True)
    return Among(_ABSENT, all_but=requirement.operator == "Exists")


def _takes_pods(box: Box) -> bool:
    """Return whether a pod can be in a box: its stamp is always there, and a mirror pod would be exempt."""
    return (
        (KIND not in box or box[KIND].holds(POD))
        and (STAMP not in box or any(map(box[STAMP].holds, CLASSES)))
        and (MIRROR not in box or box[MIRROR].holds(None))
    )


def _fresh(taken: Container[Value]) -> str:
    name = "other"
    number = 1
    while name in taken:
        number += 1
        name = f"other-{number}"
    return name
