"""What an attempt may cost before other pods get their turn, and before it fails.

A step is about a microsecond of one core (`scheduler/state/effort.py`). An ordinary attempt takes a few hundred.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ORDINARY = 250
"""Steps that an ordinary attempt counts for."""
SHARE = 3
NOMINATED_PER_STEP = 4
"""A pod of a group is decided beside so many nominated pods in one more step."""
_AS_LONG = 16
"""How many slices in a row have the same length."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Steps of an attempt."""

    slice: int = 2_000
    """Steps of one slice. Results are kept, so the next slice gets further.

    Whoever comes while a slice is under way waits for its end, and a tenant with enough costly pods keeps one under way
    all the time.
    """
    longest_slice: int = 10_000
    whole: int = 2_000_000
    """Steps of all slices together: an attempt that takes more fails."""
    first_backoff: float = 10.0
    """Seconds until a pod is tried again after an attempt that cost too much; doubled each time."""
    longest_backoff: float = 300.0

    def next_slice(self, slices: int) -> int:
        """Steps of the next slice after this many. Later slices are longer, for work whose results can't be kept."""
        return max(self.slice, min(self.slice * (1 + slices // _AS_LONG), self.longest_slice))

    def backoff(self, failures: int) -> float:
        """Seconds to wait after this many attempts in a row that cost too much."""
        return float(min(self.first_backoff * 2 ** min(failures - 1, 16), self.longest_backoff))


class TooCostlyError(Exception):
    """An attempt has used up its whole budget."""

    def __init__(self, steps: int, causes: Mapping[str, int]) -> None:
        looked_at = " over ".join(f"{number:,} {what}" for what, number in causes.items())
        text = f"the pod costs more than {steps:,} steps (about {steps / 1e6:g} s of one core) to schedule"
        super().__init__(f"{text}: {looked_at}" if looked_at else text)
