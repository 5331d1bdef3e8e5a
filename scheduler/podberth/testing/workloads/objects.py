"""The objects that every workload starts from, and objects with places to fill in.

A place is `$(run)`, `$(pool)`, or whole-number arithmetic such as `$(50 + i % 3000)`. `$int(8)$(i % 12)`, alone in its
text, is a number: its digits are those of all its places.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from podberth.kube.resources import BY_KIND, POD_GROUPS, RESOURCE_CLAIM_TEMPLATES, Resource

_INSIDE = r"(?:[^()]|\([^()]*\))*"
"""What stands in a place: brackets in brackets are not read."""
_PLACE = re.compile(rf"\$\(({_INSIDE})\)")
_NUMBER = re.compile(rf'"\$int(\({_INSIDE}\)(?:\$\({_INSIDE}\))*)"')
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
WORDS = ("run", "pool")
"""Names that stand for text: what all names of the run begin with, and what those of its nodes do."""
NUMBERS = ("i", "count", "nodes")
"""Names that arithmetic may use: the object's index, how many the step makes, how many nodes the workload has."""
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
KINDS: dict[str, Resource] = {
    **BY_KIND,
    "PriorityClass": PRIORITY_CLASSES,
    "ResourceClaimTemplate": RESOURCE_CLAIM_TEMPLATES,
}
"""Kinds that a workload may create."""
LABEL = "podberth.dev/bench"
"""The label of everything that a run creates; its value is the run."""
ZONES = 10


class TemplateError(ValueError):
    """A place that can't be filled in: the text says which and what was expected."""


def check(document: Any) -> None:
    """Raises TemplateError when a place of this document can't be filled in."""
    made = Template(document, dict.fromkeys(WORDS, ""), dict.fromkeys(NUMBERS, 1)).render(0)
    try:
        msgspec.json.decode(made)
    except msgspec.DecodeError:
        raise TemplateError(f"$int(): expected arithmetic in it, not {' or '.join(WORDS)}") from None


class Template:
    """One object, to be rendered by index. `words`, `numbers`: values of `WORDS` and `NUMBERS`."""

    def __init__(self, document: Any, words: Mapping[str, str], numbers: Mapping[str, int]) -> None:
        """Raises TemplateError."""
        pieces = _PLACE.split(_NUMBER.sub(r"$\1", msgspec.json.encode(document).decode()))
        self._numbers = numbers
        self._pieces: list[str | ast.expr] = [pieces[0]]
        for i in range(1, len(pieces), 2):
            asked = pieces[i].strip()
            self._pieces += [words[asked] if asked in words else _parse(asked), pieces[i + 1]]

    def render(self, index: int) -> bytes:
        """Return the JSON of the object with this index."""
        known = {**self._numbers, "i": index}
        return "".join(
            piece if isinstance(piece, str) else str(_value(piece, known)) for piece in self._pieces
        ).encode()


def _parse(text: str) -> ast.expr:
    expected = f"expected {', '.join(WORDS)}, or arithmetic of whole numbers with {', '.join(NUMBERS)}, + - * // and %"
    try:
        found = ast.parse(text, mode="eval").body
        _value(found, dict.fromkeys(NUMBERS, 1))
    except (SyntaxError, TemplateError):
        raise TemplateError(f"$({text}): {expected}") from None
    except ZeroDivisionError:
        raise TemplateError(f"$({text}): division by zero") from None
    return found


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.BinOp(left, how, right) if type(how) in _OPERATORS:
            return _OPERATORS[type(how)](_value(left, known), _value(right, known))
    raise TemplateError(ast.unparse(node))


def merged(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`under` with the fields of `over`: objects are merged field by field, null takes a field away, anything else is
    replaced.
    """
    found = under | {
        key: merged(under[key], value) if isinstance(value, dict) and isinstance(under.get(key), dict) else value
        for key, value in over.items()
    }
    return {key: value for key, value in found.items() if value is not None}


def node(over: dict[str, Any], allocatable: dict[str, Any]) -> dict[str, Any]:
    """4 CPU, 32Gi, 110 pods, ready, in one of ten zones, with `over` merged over it."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110", **allocatable}
    standard = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "$(pool)-node-$(i)",
            "labels": {
                LABEL: "$(pool)",
                "kubernetes.io/hostname": "$(pool)-node-$(i)",
                "topology.kubernetes.io/zone": f"zone-$(i % {ZONES})",
            },
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Bench"}],
        },
    }
    return merged(standard, over)


def pod(name: str, scheduler_name: str, over: dict[str, Any], requests: dict[str, Any]) -> dict[str, Any]:
    """Return one container of 100m and 500Mi, with `over` merged over it."""
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi", **requests}},
    }
    standard = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: "$(run)"}},
        "spec": {"schedulerName": scheduler_name, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return merged(standard, over)


def group(number: int, gang: int, over: dict[str, Any]) -> dict[str, Any]:
    """Return one of the pod groups of a step: all its pods start together. `over` is merged over it."""
    standard = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": f"group-{number}-$(i)", "labels": {LABEL: "$(run)"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": gang}}},
    }
    return merged(standard, over)


def in_group(document: dict[str, Any], number: int, gang: int) -> dict[str, Any]:
    """Return a pod's template, in one of the groups of its step."""
    named = {"spec": {"schedulingGroup": {"podGroupName": f"group-{number}-$(i // {gang})"}}}
    return merged(document, named)


def other(document: dict[str, Any], scheduler_name: str) -> dict[str, Any]:
    """Return an object as the file has it; nodes and pods are merged over the standard ones."""
    match document["kind"]:
        case "Node":
            return node(document, {})
        case "Pod":
            return pod("", scheduler_name, document, {})
    api_version = KINDS[document["kind"]].api_version
    return merged({"apiVersion": api_version, "metadata": {"labels": {LABEL: "$(run)"}}}, document)
