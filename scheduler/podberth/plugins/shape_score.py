"""Scores by utilization, as a piecewise linear function. Upstream: plugins/helper/shape_score.go."""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from podberth.cache.column import Ints
from podberth.framework.config import Percent

SHAPE_SCALE = 10
"""Scores in a utilization shape go from 0 to 10."""


class ShapePoint(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Utilization 0..100 and the score 0..10 that it gets."""

    utilization: Percent = 0
    """Percent of what there is that is requested, rising from point to point."""
    score: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": 10})] = 0
    """The score at this point, 0 to 10."""


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
        if not 0 <= point.score <= SHAPE_SCALE:
            errors.append(f"{path}[{i}].score: Invalid value: {point.score}: not in valid range [0, {SHAPE_SCALE}]")
    return errors


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
