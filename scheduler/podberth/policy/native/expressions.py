"""Pieces of CEL: texts, criteria on labels and annotations, and lists of what may be there."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Literal, NamedTuple, TypeVar

from podberth.model.selectors import Requirement
from podberth.policy import keys

Field = Literal["labels", "annotations"]
Part = TypeVar("Part")

LONGEST = 90_000
"""Characters of one expression; CEL's parser stops at 100,000."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Scope(NamedTuple):
    """An expression's names of the object's labels, its annotations, its being a pod, and a pod's QoS class.

    Where nobody knows the class yet (`qos` is empty), what is asked about it holds for every pod.
    """

    labels: str
    annotations: str
    pod: str
    qos: str

    def map_of(self, field: Field) -> str:
        """Labels or annotations."""
        return self.labels if field == "labels" else self.annotations


NAMED = Scope("variables.labels", "variables.annotations", "variables.pod", "variables.qos")
"""Within a policy, where each is worked out when it is first asked for."""


def text(value: str) -> str:
    """A string literal."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in value) + '"'


def texts(values: Iterable[str]) -> str:
    """A list of string literals, sorted, so that equal policies give equal text."""
    return "[" + ", ".join(map(text, sorted(values))) + "]"


def held(whose: str, field: Field) -> str:
    """Labels or annotations of `object` or `oldObject` as a map, which is empty when there are none."""
    return f"(has({whose}.metadata.{field}) ? {whose}.metadata.{field} : {{}})"


def meets(field: Field, criterion: Requirement, scope: Scope = NAMED) -> str:
    """Return whether the object, as it came in, meets a criterion.

    The QoS class of a pod is read from the scope: the annotation that holds it is written at the same time.
    """
    held_key = scope.map_of(field)
    if (field, criterion.key) == ("annotations", keys.QOS):
        of_pod = _of_class(scope.qos, criterion) if scope.qos else "true"
        return f"({scope.pod} ? {of_pod} : {_of_map(held_key, criterion)})"
    return _of_map(held_key, criterion)


def every(conditions: Iterable[str]) -> str:
    """All of these. A list with `all` would be as short, and takes the API server many times as long."""
    return _balanced("&&", list(conditions)) or "true"


def some(conditions: Iterable[str]) -> str:
    """At least one of these."""
    return _balanced("||", list(conditions)) or "false"


def chunks(parts: Iterable[Part], size: Callable[[Part], int]) -> list[list[Part]]:
    """Parts in groups, each of which fits into an expression."""
    found: list[list[Part]] = []
    room = 0
    for part in parts:
        length = size(part) + 8
        if length > room:
            found.append([])
            room = LONGEST // 2
        found[-1].append(part)
        room -= length
    return found


def _balanced(operator: str, parts: list[str]) -> str:
    """Parts joined in pairs: a plain chain nests too deep for CEL's parser."""
    while len(parts) > 1:
        parts = [f"({' '.join(pair)})" if len(pair) > 1 else pair[0] for pair in _pairs(operator, parts)]
    return parts[0] if parts else ""


def _pairs(operator: str, parts: list[str]) -> Iterator[tuple[str, ...]]:
    for left, right in zip_longest(parts[::2], parts[1::2]):
        yield (left,) if right is None else (left, operator, right)


def _of_map(held_key: str, criterion: Requirement) -> str:
    key = text(criterion.key)
    match criterion.operator:
        case "Exists":
            return f"{key} in {held_key}"
        case "DoesNotExist":
            return f"!({key} in {held_key})"
    there = f"({key} in {held_key} && {_among(f'{held_key}[{key}]', criterion)})"
    return there if criterion.operator == "In" else f"!{there}"


def _of_class(qos: str, criterion: Requirement) -> str:
    match criterion.operator:
        case "Exists":
            return "true"
        case "DoesNotExist":
            return "false"
    among = _among(qos, criterion)
    return among if criterion.operator == "In" else f"!({among})"


def _among(value: str, criterion: Requirement) -> str:
    if len(criterion.values) == 1:
        return f"{value} == {text(next(iter(criterion.values)))}"
    return f"{value} in {texts(criterion.values)}"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
