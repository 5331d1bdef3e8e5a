"""The usual ways to bring scores to 0..100. Berth knows what they depend on, and so can keep normalised scores.

Upstream: plugins/helper/normalize_score.go (DefaultNormalizeScore) and plugins/interpodaffinity (NormalizeScore).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from podberth.cache.column import Ints

MAX_SCORE = 100


class Normalizer:
    """A way to normalise in which a result depends only on the score itself and on the lowest and highest score."""

    __name__ = "normalize"

    def __init__(self, name: str, of: Callable[[Ints], Ints]) -> None:
        self.name = name
        self._of = of

    def __call__(self, scores: Ints, *_: Any) -> Ints:
        """int64 in, int64 of 0..100 out; at least one."""
        return self._of(scores)

    def __repr__(self) -> str:
        return self.name


def _maximum(scores: Ints) -> Ints:
    highest = int(scores.max(initial=0))
    return scores if highest == 0 else MAX_SCORE * scores // highest


def _maximum_reversed(scores: Ints) -> Ints:
    return MAX_SCORE - _maximum(scores)


def _min_max(scores: Ints) -> Ints:
    """Floats and truncation as upstream."""
    lowest, highest = int(scores[scores.argmin()]), int(scores[scores.argmax()])
    if highest == lowest:
        return np.zeros_like(scores)
    above, span = scores - lowest, highest - lowest
    if span < len(scores):
        # Each possible score once, instead of that of each node.
        return _stretched(np.arange(span + 1), span).take(above)
    return _stretched(above, span)


def _stretched(above: Ints, span: int) -> Ints:
    stretched: Ints = (float(MAX_SCORE) * (above.astype(np.float64) / float(span))).astype(np.int64)
    return stretched


MAXIMUM = Normalizer("MAXIMUM", _maximum)
"""The highest of scores that are not negative becomes 100."""
MAXIMUM_REVERSED = Normalizer("MAXIMUM_REVERSED", _maximum_reversed)
"""The highest of scores that are not negative becomes 0, and 0 becomes 100."""
MIN_MAX = Normalizer("MIN_MAX", _min_max)
"""The lowest becomes 0 and the highest 100; where all are the same, they become 0."""
