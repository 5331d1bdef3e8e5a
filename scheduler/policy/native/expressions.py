"""Pieces of CEL: texts, criteria on labels and annotations, and lists of what may be there."""

from collections.abc import Iterable
from typing import Literal

from scheduler.model.selectors import Requirement
from scheduler.policy import keys

Field = Literal["labels", "annotations"]

LONGEST = 90_000
"""Characters of one expression; CEL's parser stops at 100,000."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text(value: str) -> str:
    """A string literal."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in value) + '"'


def texts(values: Iterable[str]) -> str:
    """A list of string literals, sorted, so that equal policies give equal text."""
    return "[" + ", ".join(map(text, sorted(values))) + "]"


def held(whose: str, field: Field) -> str:
    """Labels or annotations of `object` or `oldObject` as a map, which is empty when there are none."""
    return f"{whose}.?metadata.?{field}.orValue({{}})"


def meets(field: Field, criterion: Requirement) -> str:
    """Whether the object, as it came in, meets a criterion; `variables.labels` and `.annotations` are its maps.

    The QoS class of a pod is read from `variables.qos`: the annotation that holds it is written at the same time.
    """
    held_key = f"variables.{field}"
    if (field, criterion.key) == ("annotations", keys.QOS):
        return f"(variables.pod ? {_of_class(criterion)} : {_of_map(held_key, criterion)})"
    return _of_map(held_key, criterion)


def every(conditions: Iterable[str]) -> str:
    """All of these, as one list: a chain of && nests too deep for CEL's parser."""
    found = list(conditions)
    if not found:
        return "true"
    return found[0] if len(found) == 1 else f"[{', '.join(found)}].all(met, met)"


def _of_map(held_key: str, criterion: Requirement) -> str:
    key = text(criterion.key)
    match criterion.operator:
        case "Exists":
            return f"{key} in {held_key}"
        case "DoesNotExist":
            return f"!({key} in {held_key})"
    there = f"({key} in {held_key} && {_among(f'{held_key}[{key}]', criterion)})"
    return there if criterion.operator == "In" else f"!{there}"


def _of_class(criterion: Requirement) -> str:
    match criterion.operator:
        case "Exists":
            return "true"
        case "DoesNotExist":
            return "false"
    among = _among("variables.qos", criterion)
    return among if criterion.operator == "In" else f"!({among})"


def _among(value: str, criterion: Requirement) -> str:
    if len(criterion.values) == 1:
        return f"{value} == {text(next(iter(criterion.values)))}"
    return f"{value} in {texts(criterion.values)}"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
