"""Variables and what is selected from them: `device.attributes["a"].b`, `x[0]`, `m.?field`, `has(a.b)`.

A chain is one step of the evaluation: it costs 1, and 1 for each qualifier that was looked up.
"""

from dataclasses import dataclass, field
from math import isinf

from podberth.cel.errors import AbortError, EvaluationError
from podberth.cel.frame import Code, Frame
from podberth.cel.gotext import shown
from podberth.cel.operators import no_overload
from podberth.cel.values import EMPTY, LISTS, MAPS, MISSING, NONE, Map, Optional, Uint, Value, go_type, type_name

KEYS = frozenset({str, int, bool, Uint, float})
"""The types of which the key of a lookup may be."""


@dataclass(slots=True)
class Qualifier:
    """One lookup: by a constant, or by what the code gives."""

    key: Value
    code: Code | None = None
    optional: bool = False
    test: bool = False


@dataclass(slots=True)
class Attribute:
    """A chain: where it begins (`base`) or a choice between two, and the lookups."""

    base: Code
    qualifiers: list[Qualifier] = field(default_factory=list)
    branches: "tuple[Attribute, Attribute] | None" = None
    device: bool = False
    tested: bool = False
    """A choice only: the question is whether its value has a field, not what is in it."""

    def add(self, qualifier: Qualifier) -> None:
        """One more lookup; both branches of a choice get it."""
        if self.branches is None:
            self.qualifiers.append(qualifier)
        else:
            self.tested = self.tested or qualifier.test
            for branch in self.branches:
                branch.add(qualifier)

    def resolved(self) -> Code:
        """The code of the lookups alone, as where the chain is a branch or a key."""
        if self.branches is not None:
            return _choice(self.base, self.branches[0].resolved(), self.branches[1].resolved())
        if not self.qualifiers:
            return self.base
        if self.device:
            fast = _of_device(self.qualifiers, 0)
            if fast is not None:
                return fast
        return _lookups(self.base, tuple(self.qualifiers))

    def code(self) -> Code:
        """The code of the chain as a step of its own."""
        if self.branches is not None:
            return self._chosen()
        if self.device:
            fast = _of_device(self.qualifiers, 1)
            if fast is not None:
                return fast
        resolved = self.resolved()
        test = bool(self.qualifiers) and self.qualifiers[-1].test
        if test:
            return lambda frame: _tested(resolved(frame))

        def run(frame: Frame) -> Value:
            frame.cost += 1
            return resolved(frame)

        return run

    def _chosen(self) -> Code:
        """A choice costs nothing itself; asked whether a field is there, cel-go takes back what the lookup cost."""
        resolved = self.resolved()
        if not self.tested:
            return resolved

        def run(frame: Frame) -> Value:
            value = resolved(frame)
            frame.cost -= 1
            return _tested(value)

        return run


def _tested(value: Value) -> bool:
    return value is not NONE if type(value) is Optional else bool(value)


def _choice(condition: Code, then: Code, otherwise: Code) -> Code:
    def run(frame: Frame) -> Value:
        chosen = condition(frame)
        if chosen is True:
            return then(frame)
        if chosen is False:
            return otherwise(frame)
        raise no_overload()

    return run


def no_such_key(key: Value) -> EvaluationError:
    """For what is not there."""
    return EvaluationError(f"no such key: {shown(key)}")


def _of_device(qualifiers: list[Qualifier], more: int) -> Code | None:
    """The code of the chains that are usual (the driver; an attribute or a capacity by name), without a loop over their
    lookups. None for any other chain. `more`: what it costs beyond its lookups.
    """
    keys = [part.key for part in qualifiers]
    if any(part.code or part.optional or part.test or type(part.key) is not str for part in qualifiers):
        return None
    cost = len(keys) + more
    if len(keys) == 1:
        name = keys[0]

        def run_field(frame: Frame) -> Value:
            frame.cost += cost
            return frame.device.items[name]

        return run_field
    if len(keys) != 3 or keys[0] not in ("attributes", "capacity"):
        return None
    which, domain, name = keys

    def run(frame: Frame) -> Value:
        frame.cost += cost
        value = frame.device.items[which].items.get(domain, EMPTY).items.get(name, MISSING)
        if value is MISSING:
            raise no_such_key(name)
        return value

    return run


def _lookups(base: Code, qualifiers: tuple[Qualifier, ...]) -> Code:
    def run(frame: Frame) -> Value:
        value = base(frame)
        optional = False
        if type(value) is Optional:
            if value is NONE:
                return value
            value, optional = value.value, True
        for part in qualifiers:
            optional = optional or part.optional
            found = _looked_up(frame, part, value, optional)
            if found is MISSING:
                return NONE
            value = found
        return Optional(value) if optional else value

    return run


def _looked_up(frame: Frame, part: Qualifier, value: Value, optional: bool) -> Value:
    """Return what one lookup gives, or MISSING; it costs 1 unless it was optional and there is nothing."""
    key = part.key
    try:
        if part.code is not None:
            key = part.code(frame)
            if type(key) not in KEYS:
                raise EvaluationError(f"invalid qualifier type: {go_type(key)}")
        found = find(value, key, lenient=optional or part.test)
    except AbortError:
        raise
    except EvaluationError:
        if not optional:
            frame.cost += 1
        raise
    if found is MISSING:
        if optional:
            return MISSING
        if part.test:
            frame.cost += 1
            return False
        frame.cost += 1
        raise missing(value, key)
    frame.cost += 1
    return True if part.test and not optional else found


def missing(value: Value, key: Value) -> EvaluationError:
    """The error for a lookup that found nothing."""
    if type(value) in LISTS:
        return EvaluationError(f"index out of bounds: {shown(key)}")
    return no_such_key(key)


def find(value: Value, key: Value, lenient: bool) -> Value:
    """Return what is at the key or index, or MISSING."""
    kind = type(value)
    if kind in MAPS:
        found: Value = value.find(key)
        return found
    if kind in LISTS:
        index = _index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def _index(key: Value) -> int:
    kind = type(key)
    if kind is int or kind is Uint:
        if kind is Uint and key >= 1 << 63:
            raise EvaluationError(f"unsupported index value {key} in list")
        return int(key)
    if kind is float:
        if not isinf(key) and key.is_integer() and -(2.0**63) <= key < 2.0**63:
            return int(key)
        raise EvaluationError(f"unsupported index value {shown(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def variable(slot: int) -> Code:
    """The code that reads a variable of a loop."""

    def run(frame: Frame) -> Value:
        return frame.slots[slot]

    return run


def device_of(frame: Frame) -> Map:
    """The code that reads `device`."""
    return frame.device
