"""The numbers of a spread constraint's score. Upstream: plugins/podtopologyspread/scoring.go."""

import math
from typing import Any

import numpy as np

from podberth.cache.column import Codes, Ints
from podberth.model.spread import SpreadConstraint


def distinct(codes: Codes) -> int:
    """Return how many domains there are, with those that have no label as one."""
    return int(np.count_nonzero(np.bincount(1 + codes)))


def weighted(matching: Ints, domains: int, constraint: SpreadConstraint) -> Any:
    """The part of the score that matching pods are, where there are so many domains."""
    return matching.astype(np.float64) * math.log(domains + 2) + float(constraint.max_skew - 1)


def rounded(score: Any) -> Ints:
    """Go's math.Round for numbers that are not negative: halves go up."""
    whole = np.floor(score)
    found: Ints = (whole + (score - whole >= 0.5)).astype(np.int64)
    return found
