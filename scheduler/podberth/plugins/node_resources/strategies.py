"""The scoring strategies of NodeResourcesFit. Upstream: plugins/noderesources, a file for each strategy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from podberth.cache.column import Ints
from podberth.framework.interface import MAX_SCORE
from podberth.plugins.node_resources.amounts import ROWS, Amount, Arithmetic, Formula
from podberth.plugins.node_resources.arguments import SHAPE_SCALE, ScoringStrategy


def strategy(config: ScoringStrategy) -> Formula:
    match config.type:
        case "MostAllocated":
            return most_allocated
        case "RequestedToCapacityRatio":
            ratio = config.requested_to_capacity_ratio
            points = [(p.utilization, p.score * (MAX_SCORE // SHAPE_SCALE)) for p in (ratio.shape if ratio else [])]
            return lambda found, a: requested_to_capacity_ratio(found, a, points)
    return least_allocated


def least_allocated(found: Sequence[Amount], a: Arithmetic) -> Any:
    """The mean share that would be left."""
    total: Any = None
    weights = 0
    for weight, capacity, used, asked in found:
        left = capacity - used
        left -= asked
        left *= MAX_SCORE
        score = a.most(a.quotient(left, capacity), 0)
        if weight != 1:
            score *= weight
        if total is None:
            total = score
        else:
            total += score
        weights += weight
    return a.quotient(total, weights) if weights else 0


def most_allocated(found: Sequence[Amount], a: Arithmetic) -> Any:
    """The mean share that would be given."""
    total: Any = 0
    weights = 0
    for weight, capacity, used, asked in found:
        taken = a.least(used + asked, capacity)
        taken *= MAX_SCORE
        total += a.quotient(taken, capacity) * weight
        weights += weight
    return a.quotient(total, weights) if weights else 0


def requested_to_capacity_ratio(found: Sequence[Amount], a: Arithmetic, points: list[tuple[int, int]]) -> Any:
    """The mean of a function of utilization, over the resources for which it is above 0; halves go up, as in Go."""
    total: Any = 0
    weights: Any = 0
    for weight, capacity, used, asked in found:
        taken = a.least(used + asked, capacity)
        taken *= 100
        utilization = a.whole(a.quotient(taken, capacity))
        score = (
            broken_linear(utilization, points) if a is ROWS else int(broken_linear(np.array([utilization]), points)[0])
        )
        total = total + score * weight
        weights = weights + (score > 0) * weight
    return a.fraction(total, a.most(weights, 1)) + 0.5 if found else 0


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
