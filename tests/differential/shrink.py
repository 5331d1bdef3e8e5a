"""Make a case that differs as small as it can be while it differs in the same field.

The cases are JSON, so this takes parts of the JSON away: objects in halves, quarters, …, one by one, then single
fields and list items. What the API server would refuse, or what no longer differs, was needed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.conformance.comparison import Case
from tests.differential.client import Oracle
from tests.differential.verdict import judge

BATCH = 48
ROUNDS = 400


def shrink(oracle: Oracle, case: Case, field: str) -> Case:
    """A vector of the smallest case found whose answers differ in `field`."""
    case = {key: value for key, value in case.items() if key != "want"}
    for _ in range(ROUNDS):
        smaller = _first(oracle, _without_objects(case), field) or _first(oracle, _without_parts(case), field)
        if smaller is None:
            break
        case = smaller
    return oracle.vectors([case])[0]


def _first(oracle: Oracle, candidates: Iterator[Case], field: str) -> Case | None:
    """The first candidate that still differs."""
    while batch := [case for case, _ in zip(candidates, range(BATCH), strict=False)]:
        for case, verdict in zip(batch, judge(oracle, oracle.vectors(batch)), strict=True):
            if verdict.kind == "different" and field in verdict.fields:
                return case
    return None


def _without_objects(case: Case) -> Iterator[Case]:
    objects = case["objects"]
    size = len(objects)
    while size := size // 2:
        for start in range(0, len(objects), size):
            yield {**case, "objects": objects[:start] + objects[start + size :]}


def _without_parts(case: Case) -> Iterator[Case]:
    for key in ("config", "nominees"):
        if key in case:
            yield {name: value for name, value in case.items() if name != key}
    for path in _paths({"objects": case["objects"], "pod": case["pod"]}, ()):
        if path not in (("objects",), ("pod",)):
            made = copy.deepcopy(case)
            inner: Any = made
            for step in path[:-1]:
                inner = inner[step]
            del inner[path[-1]]
            yield made


def _paths(value: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, outer before inner: what goes as a whole need not be taken apart."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*at, step)
        yield from _paths(inner, (*at, step))
