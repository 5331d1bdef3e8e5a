"""Quantiles of durations in constant memory: counts in buckets that grow by an eighth of a power of two."""

from __future__ import annotations

import math
from itertools import accumulate

_SMALLEST = 1e-6
_PER_OCTAVE = 8
_BUCKETS = 30 * _PER_OCTAVE


class Quantiles:
    """Durations of a microsecond to a quarter of an hour; what is outside counts as the nearest bound."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.total = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        octaves = math.log2(seconds / _SMALLEST) if seconds > _SMALLEST else 0.0
        self._counts[min(int(octaves * _PER_OCTAVE), _BUCKETS - 1)] += 1
        self.total += 1

    def at(self, part: float) -> float | None:
        """Seconds that this part of them does not exceed, within 5 %; None while there are none."""
        if not self.total:
            return None
        wanted = max(part * self.total, 1)
        bucket = next(i for i, seen in enumerate(accumulate(self._counts)) if seen >= wanted)
        return _SMALLEST * math.exp2((bucket + 0.5) / _PER_OCTAVE)
