"""What an evaluation does beyond its price.

Some operations cost cel-go little and Python much (a long concatenation, equal lists of lists, a pattern): they spend
steps of this meter, and an evaluation that spends too many ends like one whose cost is over the limit. Evaluations
don't overlap, so that one meter is enough.
"""

from typing import Final

from scheduler.cel.values import LISTS, MAPS, CostLimitError, Value

STEPS: Final = 1_000_000
"""Steps for one evaluation, beside its cost; one is about a tenth of a microsecond."""


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


def weigh(value: Value) -> None:
    """Spend a step for each item of a list or a map, and of those in it."""
    kind = type(value)
    if kind in LISTS:
        METER.spend(len(value))
        for item in value:
            weigh_nested(item)
    elif kind in MAPS:
        METER.spend(len(value))
        for key, item in value.pairs():
            weigh_nested(key)
            weigh_nested(item)


def weigh_nested(value: Value) -> None:
    """As `weigh`, for most items are neither."""
    if type(value) in LISTS or type(value) in MAPS:
        weigh(value)
