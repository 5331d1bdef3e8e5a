"""What an attempt may cost before other pods get their turn, and before it fails.

A step is about a microsecond of one core (`scheduler/state/effort.py`). An ordinary attempt takes some hundred of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Steps of an attempt."""

    slice: int = 5_000
    """At a time. What is computed is kept, so that the next slice gets further."""
    whole: int = 2_000_000
    """In all: an attempt that takes more fails."""
    first_backoff: float = 10.0
    """Seconds before a pod whose attempt failed so is tried again; doubled each time."""
    longest_backoff: float = 300.0

    def next_slice(self, slices: int) -> int:
        """Steps of the next slice after so many. Later ones are longer: what can't be kept is done in one."""
        return self.slice if slices < 8 else 2 * self.slice

    def backoff(self, failures: int) -> float:
        """Seconds to wait after so many attempts in a row that cost too much."""
        return float(min(self.first_backoff * 2 ** min(failures - 1, 16), self.longest_backoff))


class TooCostlyError(Exception):
    """An attempt has used up its whole budget."""

    def __init__(self, steps: int, causes: Mapping[str, int]) -> None:
        looked_at = " over ".join(f"{number:,} {what}" for what, number in causes.items())
        text = f"the pod costs more than {steps:,} steps (about {steps / 1e6:g} s of one core) to schedule"
        super().__init__(f"{text}: {looked_at}" if looked_at else text)
