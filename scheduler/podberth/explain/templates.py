"""Where in an object of a kind that nobody knows the pod templates are.

A mapping with `spec.containers` under a field named `template`, or ending in `Template`, is one. How many pods it
stands for is not known: it counts once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from podberth.explain.controllers import KINDS, path_of
from podberth.explain.groups import makes_no_pods

Object = Mapping[str, Any]
_DEPTH = 8


class Template(NamedTuple):
    """A pod template: its path, the pod, and the mapping that it stands in."""

    path: str
    pod: dict[str, Any]
    beside: Object


def templates(kind: str, found: Object) -> list[Template]:
    """The pod templates of an object, as far as they are mappings."""
    if kind not in KINDS:
        return [] if makes_no_pods(kind, found.get("apiVersion")) else list(_found(found, "", _DEPTH))
    beside: Any = found
    pod: Any = found
    path = path_of(kind)
    for step in path.split(".") if path else ():
        beside, pod = pod, pod.get(step) if isinstance(pod, dict) else None
    return [Template(path, pod, beside)] if isinstance(pod, dict) else []


def _found(value: Any, path: str, depth: int) -> Iterator[Template]:
    if not isinstance(value, dict) or not depth:
        return
    for name, each in value.items():
        below = f"{path}.{name}" if path else name
        if name.lower().endswith("template") and _is_pod(each):
            yield Template(below, each, value)
        elif isinstance(each, dict):
            yield from _found(each, below, depth - 1)
        elif isinstance(each, list):
            for i, element in enumerate(each):
                yield from _found(element, f"{below}[{i}]", depth - 1)


def _is_pod(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("spec"), dict) and "containers" in value["spec"]
