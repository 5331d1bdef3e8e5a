"""Upstream: plugins/noderesources (resource_allocation.go and a file for each strategy)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct

from scheduler.framework.normalize import MAX_SCORE
from scheduler.model.pod import Pod
from scheduler.model.resources import is_scalar
from scheduler.state.column import Ints, Numbers, at
from scheduler.state.nodes import CPU, EPHEMERAL, MEMORY, Nodes

_DOUBLES_HOLD = 1 << 46
"""Capacities below it may be computed with as doubles; see `quotient`."""
_SHAPE_SCALE = 10
"""Scores in a utilization shape go from 0 to 10."""


class ResourceWeight(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """A resource and its share in the score."""

    name: str
    weight: int = 1


class ShapePoint(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Utilization 0..100 and the score 0..10 that it gets."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatio(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The piecewise linear function of utilization."""

    shape: list[ShapePoint] = []


class ScoringStrategy(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """LeastAllocated, MostAllocated or RequestedToCapacityRatio over weighted resources."""

    type: str = ""
    resources: list[ResourceWeight] = []
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    def weights(self) -> list[ResourceWeight]:
        """The resources with defaults: cpu 1 and memory 1; a weight of 0 stands for 1."""
        found = self.resources or [ResourceWeight("cpu"), ResourceWeight("memory")]
        return [ResourceWeight(resource.name, resource.weight or 1) for resource in found]

    def check(self, path: str) -> list[str]:
        """Errors (the part of ValidateNodeResourcesFitArgs that is about scoring)."""
        errors = []
        if self.type not in STRATEGIES:
            supported = ", ".join(f'"{name}"' for name in STRATEGIES)
            errors.append(f'{path}.type: Unsupported value: "{self.type}": supported values: {supported}')
        for i, resource in enumerate(self.resources):
            if not 0 <= resource.weight <= 100:
                errors.append(
                    f"{path}.resources[{i}].weight: Invalid value: {resource.weight}: "
                    f"resource weight of {resource.name} not in valid range (0, 100]"
                )
        ratio, where = self.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if self.type == "RequestedToCapacityRatio":
            if ratio is None:
                errors.append(f"{where}: Required value: must be specified when type is RequestedToCapacityRatio")
            else:
                errors.extend(check_shape(ratio.shape, f"{where}.shape"))
        elif ratio is not None:
            errors.append(f"{where}: Forbidden: must be nil when type is not RequestedToCapacityRatio")
        return errors


STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def check_shape(shape: list[ShapePoint], path: str) -> list[str]:
    """Errors of a utilization shape (validateFunctionShape)."""
    if not shape:
        return [f"{path}: Required value: at least one point must be specified"]
    errors = []
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            value = shape[i].utilization
            errors.append(f"{path}[{i}].utilization: Invalid value: {value}: values must be sorted in increasing order")
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            errors.append(f"{path}[{i}].utilization: Invalid value: {point.utilization}: not in valid range [0, 100]")
        if not 0 <= point.score <= _SHAPE_SCALE:
            errors.append(f"{path}[{i}].score: Invalid value: {point.score}: not in valid range [0, {_SHAPE_SCALE}]")
    return errors


@dataclass(slots=True)
class Amounts:
    """One resource over the feasible rows, in the scheduler's units. Where `capacity` is 0 it does not count.

    The caller's own arrays: doubles where all capacities are below 2**46, else integers, since NumPy computes with
    doubles several times as fast. What is used may be beyond what a double holds, but then it is far beyond any such
    capacity too.
    """

    weight: int
    capacity: Numbers
    used: Numbers
    asked: int


def counting(resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, *, nonzero: bool) -> Iterator[ResourceWeight]:
    """The resources that count for a pod: those that a node has, and of the scalar ones those that it asks for."""
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    for resource in resources:
        if resource.name in nodes.resources and (asks.get(resource.name, 0) or not is_scalar(resource.name)):
            yield resource


def amounts(
    resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, feasible: Any, *, nonzero: bool
) -> list[Amounts]:
    """What the feasible nodes have and have given of each resource that counts.

    `nonzero`: cpu and memory as scoring assumes them for containers that ask for none.
    """
    found, rows = [], nodes.rows
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    dtype = np.float64 if doubles_hold(nodes) else np.int64
    for resource in counting(resources, pod, nodes, nonzero=nonzero):
        index = nodes.resources[resource.name]
        capacity = at(nodes.allocatable[index, :rows], feasible).astype(dtype)
        used = at(_used(nodes, index, nonzero=nonzero)[:rows], feasible).astype(dtype)
        found.append(Amounts(resource.weight, capacity, used, asks.get(resource.name, 0)))
    return found


def doubles_hold(nodes: Nodes) -> bool:
    """Whether capacities may be computed with as doubles."""
    return nodes.largest < _DOUBLES_HOLD


def least_allocated(resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, feasible: Any) -> Ints:
    """The LeastAllocated strategy where doubles hold all capacities: most of it is kept from pod to pod."""
    asks = pod.shape.scoring
    counted = tuple(counting(resources, pod, nodes, nonzero=True))
    places = [(nodes.resources[resource.name], resource.weight) for resource in counted]
    many = len(places)
    if not many:
        return np.zeros(len(feasible), dtype=np.int64)

    def of_all(nodes: Nodes) -> Numbers:
        held = np.zeros((2 * many + 1, nodes.rows))
        for i, (index, weight) in enumerate(places):
            capacity = nodes.allocatable[index, : nodes.rows].astype(np.float64)
            has = capacity != 0
            left = capacity - _used(nodes, index, nonzero=True)[: nodes.rows]
            held[i] = np.where(has, MAX_SCORE * left, -1.0)
            held[many + i] = np.where(has, capacity, 1.0)
            held[2 * many] += np.where(has, weight, 0)
        np.maximum(held[2 * many], 1.0, out=held[2 * many])
        return held

    def of_row(nodes: Nodes, row: int) -> list[float]:
        left, capacities, weights = [], [], 0
        for index, weight in places:
            capacity = nodes.allocatable.item(index, row)
            used = _used(nodes, index, nonzero=True).item(row)
            left.append(MAX_SCORE * (float(capacity) - float(used)) if capacity else -1.0)
            capacities.append(float(capacity or 1))
            weights += weight if capacity else 0
        return [*left, *capacities, max(weights, 1)]

    held = nodes.derived(("left", tuple(places)), of_all, of_row)
    if len(feasible) != held.shape[1]:
        held = held.take(feasible, axis=1)
    scores = held[:many] - np.array([[float(MAX_SCORE * asks.get(resource.name, 0))] for resource in counted])
    quotient(scores, held[many : 2 * many])
    np.maximum(scores, 0.0, out=scores)
    total = scores[0]
    for i, (_, weight) in enumerate(places):
        if weight != 1:
            scores[i] *= weight
        if i:
            total += scores[i]
    total /= held[2 * many]
    mean: Ints = total.astype(np.int64)
    return mean


def _used(nodes: Nodes, index: int, *, nonzero: bool) -> Ints:
    used: Ints = nodes.nonzero[index] if nonzero and index in (CPU, MEMORY) else nodes.requested[index]
    return used


_NATIVE = (CPU, MEMORY, EPHEMERAL)
AmountOn = tuple[int, int, int, int]
"""(weight, capacity, used, asked) of one resource on one node."""


def amounts_on(
    resources: Sequence[ResourceWeight], pod: Pod, nodes: Nodes, row: int, *, nonzero: bool
) -> list[AmountOn]:
    """As `amounts`, for one row."""
    found = []
    asks = pod.shape.scoring if nonzero else pod.shape.requests
    indices = nodes.resources
    for resource in resources:  # as `counting` does
        name = resource.name
        index, asked = indices.get(name), asks.get(name, 0)
        if index is None or not (asked or index in _NATIVE or not is_scalar(name)):
            continue
        used = nodes.nonzero if nonzero and index in (CPU, MEMORY) else nodes.requested
        found.append((resource.weight, nodes.allocatable.item(index, row), used.item(index, row), asked))
    return found


Strategy = Callable[[list[Amounts], int], Ints]
"""(resources, number of feasible nodes) → scores."""


def strategy(config: ScoringStrategy) -> Strategy:
    """The scoring function of a strategy."""
    match config.type:
        case "MostAllocated":
            return lambda found, nodes: _weighted_mean(found, nodes, _most_allocated)
        case "RequestedToCapacityRatio":
            ratio = config.requested_to_capacity_ratio
            points = [(p.utilization, p.score * (MAX_SCORE // _SHAPE_SCALE)) for p in (ratio.shape if ratio else [])]
            return lambda found, nodes: _ratio_mean(found, nodes, points)
    return lambda found, nodes: _weighted_mean(found, nodes, _least_allocated)


def strategy_on(config: ScoringStrategy) -> Callable[[list[AmountOn]], int]:
    """The scoring function of a strategy for one row, over what `amounts_on` gives."""
    match config.type:
        case "MostAllocated":
            return lambda found: _mean_on(found, lambda used, capacity: min(used, capacity) * MAX_SCORE // capacity)
        case "RequestedToCapacityRatio":
            ratio = config.requested_to_capacity_ratio
            points = [(p.utilization, p.score * (MAX_SCORE // _SHAPE_SCALE)) for p in (ratio.shape if ratio else [])]
            return lambda found: _ratio_on(found, points)
    return lambda found: _mean_on(
        found, lambda used, capacity: 0 if used > capacity else (capacity - used) * MAX_SCORE // capacity
    )


def _mean_on(found: list[AmountOn], score: Callable[[int, int], int]) -> int:
    total = weights = 0
    for weight, capacity, used, asked in found:
        if capacity:
            total += score(used + asked, capacity) * weight
            weights += weight
    return total // weights if weights else 0


def _ratio_on(found: list[AmountOn], points: list[tuple[int, int]]) -> int:
    total = weights = 0
    for weight, capacity, used, asked in found:
        if capacity:
            utilization = 100 if used + asked > capacity else (used + asked) * 100 // capacity
            score = int(broken_linear(np.array([utilization]), points)[0])
            if score > 0:
                total += score * weight
                weights += weight
    return math.floor(total / weights + 0.5) if weights else 0


def _least_allocated(resource: Amounts, capacity: Numbers) -> Numbers:
    left = capacity - resource.used
    left -= resource.asked
    left *= MAX_SCORE
    scores = quotient(left, capacity)
    return np.maximum(scores, 0, out=scores)


def _most_allocated(resource: Amounts, capacity: Numbers) -> Numbers:
    taken = resource.used + resource.asked
    np.minimum(taken, capacity, out=taken)
    taken *= MAX_SCORE
    return quotient(taken, capacity)


def quotient(hundredfold: Numbers, capacity: Numbers) -> Numbers:
    """`hundredfold // capacity`, written over `hundredfold`; of one type, and at most 100 × capacity.

    Division of doubles takes a fraction of the time. With capacities below 2**46 it can't be wrong: what it divides is
    below 2**53 unless it is negative, and a true quotient under 100 that is no integer is farther from the next one
    (1 / 2**46) than it is rounded (2**-47).
    """
    if hundredfold.dtype == np.float64:
        hundredfold /= capacity
        return np.floor(hundredfold, out=hundredfold)
    hundredfold //= capacity
    return hundredfold


def _weighted_mean(found: list[Amounts], nodes: int, score: Callable[[Amounts, Numbers], Numbers]) -> Ints:
    total: Any = 0
    weights: Any = 0
    for resource in found:
        counted = resource.capacity != 0
        if np.count_nonzero(counted) == nodes:
            scores = score(resource, resource.capacity)
            if resource.weight != 1:
                scores *= resource.weight
            total = total + scores if isinstance(total, int) else np.add(total, scores, out=total)
            weights = weights + resource.weight
        else:
            # A capacity of one stands in where there is none; what it gives is left out by `counted`.
            capacity = np.where(counted, resource.capacity, 1)
            total = total + np.where(counted, score(resource, capacity) * resource.weight, 0)
            weights = weights + np.where(counted, resource.weight, 0)
    if isinstance(weights, int):
        if not weights:
            return np.zeros(nodes, dtype=np.int64)
    else:
        weights = np.where(weights == 0, 1, weights)
    if total.dtype == np.float64:
        total /= weights  # of numbers so small that rounding can't reach the next integer
        mean: Ints = total.astype(np.int64)
    else:
        mean = total // weights
    return mean


def _ratio_mean(found: list[Amounts], nodes: int, points: list[tuple[int, int]]) -> Ints:
    total = np.zeros(nodes, dtype=np.int64)
    weights = np.zeros(nodes, dtype=np.int64)
    for resource in found:
        counted = resource.capacity != 0
        capacity = np.where(counted, resource.capacity, 1)
        requested = resource.used + resource.asked
        over = requested > capacity
        np.minimum(requested, capacity, out=requested)
        requested *= 100
        utilization = np.where(over, 100, quotient(requested, capacity)).astype(np.int64)
        score = broken_linear(utilization, points)
        counted = counted & (score > 0)
        total += np.where(counted, score * resource.weight, 0)
        weights += np.where(counted, resource.weight, 0)
    mean = total.astype(np.float64) / np.where(weights == 0, 1, weights).astype(np.float64)
    # Go's math.Round: halves away from zero; the scores are never negative.
    return np.where(weights == 0, 0, np.floor(mean + 0.5).astype(np.int64))


def broken_linear(utilization: Ints, points: list[tuple[int, int]]) -> Ints:
    """The piecewise linear function, with Go's integer division, which truncates."""
    scores = np.full_like(utilization, points[-1][1] if points else 0)
    for i in range(len(points) - 1, -1, -1):
        at, score = points[i]
        if i == 0:
            value: Any = score
        else:
            before, low = points[i - 1]
            value = low + _truncate((score - low) * (utilization - before), at - before)
        scores = np.where(utilization <= at, value, scores)
    return scores


def _truncate(dividend: Ints, divisor: int) -> Ints:
    quotient: Ints = np.sign(dividend) * (np.abs(dividend) // divisor)
    return quotient
