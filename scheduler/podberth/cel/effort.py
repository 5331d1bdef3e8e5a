"""What an evaluation does beyond its price.

Some operations cost cel-go little and Python much (a long concatenation, equal lists of lists, a pattern): they spend
steps of this meter, and an evaluation that spends too many ends like one whose cost is over the limit. Evaluations
don't overlap, so that one meter is enough.
"""

from typing import Final

from podberth.cel.errors import AbortError, CostLimitError, EffortError

LIMIT: Final = 1_000_000
"""resource.k8s.io's CELSelectorExpressionMaxCost, in units of cel-go's cost."""
STEPS: Final = 1_000_000
"""Steps for one evaluation, beside its cost; one is about a third of a microsecond."""
PER_STEP: Final = 3
"""Steps of this meter for each that a caller charges, which is a microsecond."""
PER_INSTRUCTION: Final = 10
"""Steps for each instruction of a pattern that is compiled."""


class Meter:
    """Counts the steps of one evaluation."""

    __slots__ = ("most", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.most = STEPS

    def begin(self, most: int = STEPS) -> None:
        """Count from nothing, up to so many steps."""
        self.spent = 0
        self.most = most

    def spend(self, steps: int) -> None:
        """Count steps; too many of them end the evaluation."""
        self.spent += steps
        if self.spent > self.most:
            raise stopped(0)


METER: Final = Meter()


def stopped(cost: int) -> AbortError:
    """The error of an evaluation of this cost that must not go on: by Kubernetes' limit, or by the caller's."""
    return over_limit() if cost > LIMIT or METER.spent > STEPS else EffortError("the effort is used up")


def over_limit() -> CostLimitError:
    """The error that nothing absorbs."""
    return CostLimitError("operation cancelled: actual cost limit exceeded")
