"""Upstream: plugins/helper/normalize_score.go (DefaultNormalizeScore)."""

import numpy as np

from scheduler.framework.plugin import MAX_SCORE
from scheduler.state.column import Ints


def default_normalize(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scale non-negative scores to 0..100 by their maximum; `reverse` makes the smallest best."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled
