"""What nodes have and have given of the resources that count for a pod: for all rows at once, or for one.

A formula is written once, for arrays and for plain numbers alike; where the two differ, it asks `ROWS` or `ONE`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from podberth.cache.column import Ints, Numbers, at
from podberth.cache.nodes import CPU, EPHEMERAL, MEMORY, Nodes
from podberth.model.pod import Pod
from podberth.model.resources import is_scalar
from podberth.plugins.node_resources.arguments import ResourceWeight

_DOUBLES_HOLD = 1 << 46
"""Capacities below it may be computed with as doubles; see `Arithmetic.quotient`."""
NATIVE = (CPU, MEMORY, EPHEMERAL)
"""They count for scores whether a pod asks for them or not."""
ASSUMED = (CPU, MEMORY)
"""The resources of which scoring assumes some for containers that ask for none."""
BITS = 62


Amount = tuple[int, Any, Any, int]
"""(weight, capacity, used, asked) of one resource, in the scheduler's units. Its arrays are not to be changed."""


class Arithmetic(NamedTuple):
    """What arrays and plain numbers do differently. A result is written over the first argument if that is an array."""

    quotient: Callable[[Any, Any], Any]
    """The floor of a division.

    Doubles are divided as such, which takes NumPy a fraction of the time. With capacities below 2**46 it can't be
    wrong: what is divided is at most 100 × capacity and below 2**53 unless it is negative, and a true quotient under
    100 that is no integer is farther from the next one (1 / 2**46) than it is rounded (2**-47).
    """
    fraction: Callable[[Any, Any], Any]
    """One by the other, as doubles; not written over anything."""
    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]
    root: Callable[[Any], Any]
    whole: Callable[[Any], Any]
    """The integers of numbers that are not negative, the rest cut off."""


def _quotient(dividend: Numbers, divisor: Any) -> Numbers:
    if dividend.dtype == np.float64:
        dividend /= divisor
        return np.floor(dividend, out=dividend)
    dividend //= divisor
    return dividend


def _whole(numbers: Any) -> Ints:
    return np.asarray(numbers).astype(np.int64)


ROWS = Arithmetic(
    _quotient,
    np.true_divide,
    lambda numbers, most: np.minimum(numbers, most, out=numbers),
    lambda numbers, least: np.maximum(numbers, least, out=numbers),
    np.sqrt,
    _whole,
)
ONE = Arithmetic(lambda a, b: a // b, lambda a, b: float(a) / float(b), min, max, math.sqrt, int)

Formula = Callable[[Sequence[Amount], Arithmetic], Any]
"""The score of rows, or of one row, by resources that all of these rows have."""


def counting(resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, *, nonzero: bool) -> Iterator[ResourceWeight]:
    """The resources that count for a pod: those that a node has, and of the scalar ones those that it asks for."""
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    for resource in resources:
        index = nodes.resources.get(resource.name)
        if index is not None and (asks.get(resource.name, 0) or index in NATIVE or not is_scalar(resource.name)):
            yield resource


def score_rows(
    resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, feasible: Any, formula: Formula, *, nonzero: bool
) -> Ints:
    """int64[len(feasible)]: a formula over the resources that count, for each row over those that it has.

    `nonzero`: cpu and memory as scoring assumes them for containers that ask for none.
    """
    found = _on_rows(resources, pod, nodes, nonzero=nonzero)
    if len(feasible) != nodes.rows:
        found = [(weight, at(has, feasible), at(used, feasible), asked) for weight, has, used, asked in found]
    lacking = [i for i, (_, capacity, _, _) in enumerate(found) if len(capacity) and not capacity[capacity.argmin()]]
    if not lacking:
        whole: Ints = ROWS.whole(formula(found, ROWS))
        return whole if whole.ndim else np.full(len(feasible), whole)
    scores = np.zeros(len(feasible), dtype=np.int64)
    # One bit for each resource that some rows lack: sorting rows of flags takes a hundred times as long.
    kinds = np.zeros(len(feasible), dtype=np.int64 if len(lacking) < BITS else object)
    for bit, i in enumerate(lacking):
        kinds += (found[i][1] != 0) * (1 << bit)
    for kind in set(kinds.tolist()):  # np.unique sorts, and imports masked arrays at its first use
        here = np.flatnonzero(kinds == kind)
        without = {i for bit, i in enumerate(lacking) if not kind >> bit & 1}
        left = [one for i, one in enumerate(found) if i not in without]
        some = [(weight, capacity[here], used[here], asked) for weight, capacity, used, asked in left]
        scores[here] = ROWS.whole(formula(some, ROWS))
    return scores


def score_row(
    resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, row: int, formula: Formula, *, nonzero: bool
) -> int:
    """As `score_rows`, for one row."""
    found = []
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    indices = nodes.resources
    for resource in resources:  # as `counting` does
        name = resource.name
        index, asked = indices.get(name), asks.get(name, 0)
        if index is None or not (asked or index in NATIVE or not is_scalar(name)):
            continue
        capacity = nodes.allocatable.item(index, row)
        if capacity:
            used = nodes.nonzero if nonzero and index in ASSUMED else nodes.requested
            found.append((resource.weight, capacity, used.item(index, row), asked))
    score: int = ONE.whole(formula(found, ONE))
    return score


def amount_of_row(resource: ResourceWeight, asked: int, nodes: Nodes, row: int, *, nonzero: bool) -> Amount | None:
    """One resource of one row, as `score_row` counts it; None if it does not count."""
    index = nodes.resources.get(resource.name)
    if index is None or not (asked or index in NATIVE or not is_scalar(resource.name)):
        return None
    capacity = nodes.allocatable.item(index, row)
    used = nodes.nonzero if nonzero and index in ASSUMED else nodes.requested
    return (resource.weight, capacity, used.item(index, row), asked) if capacity else None


def _on_rows(resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, *, nonzero: bool) -> list[Amount]:
    """Return what all rows have and have given of each resource that counts.

    As doubles where all capacities are small enough. What is used may be beyond what a double holds, but then it is
    far beyond any such capacity too.
    """
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    counted = list(counting(resources, pod, nodes, nonzero=nonzero))
    places = tuple([nodes.resources[resource.name] for resource in counted])
    if nodes.largest < _DOUBLES_HOLD:
        found = _as_doubles(nodes, places, nonzero=nonzero)
    else:
        found = [part[: nodes.rows] for index in places for part in _capacity_and_use(nodes, index, nonzero=nonzero)]
    return [
        (resource.weight, found[2 * i], found[2 * i + 1], asks.get(resource.name, 0))
        for i, resource in enumerate(counted)
    ]


def _as_doubles(nodes: Nodes, places: tuple[int, ...], *, nonzero: bool) -> Any:
    """float64[2 × resources, rows]: capacity and use of each, kept from pod to pod."""

    def of_all(nodes: Nodes) -> Numbers:
        rows = nodes.rows
        held = np.empty((2 * len(places), rows))
        for i, index in enumerate(places):
            held[2 * i], held[2 * i + 1] = (part[:rows] for part in _capacity_and_use(nodes, index, nonzero=nonzero))
        return held

    def of_row(nodes: Nodes, row: int) -> list[float]:
        held: list[float] = []
        for index in places:
            used = nodes.nonzero if nonzero and index in ASSUMED else nodes.requested
            held += (nodes.allocatable.item(index, row), used.item(index, row))
        return held

    return nodes.derived(("as doubles", places, nonzero), of_all, of_row)


def _capacity_and_use(nodes: Nodes, index: int, *, nonzero: bool) -> tuple[Ints, Ints]:
    used: Ints = nodes.nonzero[index] if nonzero and index in ASSUMED else nodes.requested[index]
    return nodes.allocatable[index], used
