"""What an evaluation does beyond its price.

Some operations cost cel-go little and Python much (a long concatenation, equal lists of lists, a pattern): they spend
steps of this meter, and an evaluation that spends too many ends like one whose cost is over the limit. Evaluations
don't overlap, so that one meter is enough.
"""

from typing import Final

from scheduler.cel.errors import CostLimitError

STEPS: Final = 1_000_000
"""Steps for one evaluation, beside its cost; one is about a third of a microsecond."""
PER_INSTRUCTION: Final = 10
"""Steps for each instruction of a pattern that is compiled."""


class Meter:
    """Counts the steps of one evaluation."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count steps; too many of them end the evaluation."""
        self.spent += steps
        if self.spent > STEPS:
            raise over_limit()


METER: Final = Meter()


def over_limit() -> CostLimitError:
    """The error that nothing absorbs."""
    return CostLimitError("operation cancelled: actual cost limit exceeded")
