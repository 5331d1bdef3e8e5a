"""Errors that end an evaluation without a result, and the meter of what it does beyond its price.

Some operations cost cel-go little and Python much (a long concatenation, equal lists of lists, a pattern): they spend
steps of the meter, and an evaluation that spends too many ends like one whose cost is over the limit. Evaluations
don't overlap, so that one meter is enough. Messages quote texts as Go's strconv does.
"""

from collections.abc import Callable
from typing import Any, Final


class EvaluationError(Exception):
    """An expression failed at run time; the text is cel-go's. `cost` and `steps` are what it had used by then."""

    cost: int = 0
    steps: int = 0


class AbortError(EvaluationError):
    """An error that `&&` and `||` do not absorb: cel-go panics there."""


class CostLimitError(AbortError):
    """An evaluation cost more than is allowed."""


class EffortError(AbortError):
    """An evaluation took more steps than its caller lets it take. Kubernetes would have gone on."""


def works(convert: Callable[..., Any]) -> Callable[..., bool]:
    """Return a function that tells whether a conversion takes its arguments; for others it fails with an
    EvaluationError.
    """

    def check(*args: Any) -> bool:
        try:
            convert(*args)
        except AbortError:
            raise
        except EvaluationError:
            return False
        return True

    return check


ESCAPES: Final = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 34: '\\"', 92: "\\\\"}


def quoted(text: str) -> str:
    """Return `%q` of a string."""
    return '"' + "".join(_quoted(character) for character in text) + '"'


def _quoted(character: str) -> str:
    code = ord(character)
    if code in ESCAPES:
        return ESCAPES[code]
    if code < 32 or code == 127:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text, as Python's surrogateescape has it
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


LIMIT: Final = 1_000_000
"""resource.k8s.io's CELSelectorExpressionMaxCost, in units of cel-go's cost."""
STEPS: Final = 1_000_000
"""The steps of one evaluation, beside its cost; one is about a third of a microsecond."""
PER_STEP: Final = 3
"""The steps of this meter for each step that a caller charges, which is a microsecond."""


class Meter:
    """Counts the steps of one evaluation."""

    __slots__ = ("most", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.most = STEPS

    def begin(self, most: int = STEPS) -> None:
        """Reset the meter, with this many steps as its limit."""
        self.spent = 0
        self.most = most

    def spend(self, steps: int) -> None:
        """Count steps; above the limit, the evaluation ends."""
        self.spent += steps
        if self.spent > self.most:
            raise stopped(0)

    def afford(self, steps: int) -> None:
        """Count the steps of work that is still to be done. If they are too many, it is not, nor counted in full."""
        self.spend(min(steps, self.most - self.spent + 1))


METER: Final = Meter()


def stopped(cost: int) -> AbortError:
    """Return the error that ends an evaluation of this cost: by Kubernetes' limit, or by the caller's."""
    return over_limit() if cost > LIMIT or METER.spent > STEPS else EffortError("the effort is used up")


def over_limit() -> CostLimitError:
    """Return the error of the cost limit, which nothing absorbs."""
    return CostLimitError("operation cancelled: actual cost limit exceeded")
