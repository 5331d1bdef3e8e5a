"""Errors that end an evaluation without a result, and the meter of the work that it does.

Evaluations don't overlap, so that one meter is enough. Messages quote texts as Go's strconv does.
"""

from collections.abc import Callable
from typing import Any, Final


class EvaluationError(Exception):
    """An expression failed at run time; the text is cel-go's. `steps` is what it had taken by then."""

    steps: int = 0


class EffortError(EvaluationError):
    """An evaluation took more steps than its caller lets it take, which `&&` and `||` do not absorb. Kubernetes might
    have gone on.
    """


def works(convert: Callable[..., Any]) -> Callable[..., bool]:
    """Return a function that tells whether a conversion takes its arguments; for others it fails with an
    EvaluationError.
    """

    def check(*args: Any) -> bool:
        try:
            convert(*args)
        except EffortError:
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


STEPS: Final = 1_000_000
"""The most steps of what has no limit of its caller, such as compiling. A step is about a microsecond."""
UNITS: Final = 3
"""The units of the meter for a step, and for a lookup, a call, and a turn of a loop."""


class Meter:
    """Counts the units of one evaluation."""

    __slots__ = ("most", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.most = 0

    def begin(self, steps: int = STEPS) -> None:
        """Reset the meter, with this many steps as its limit."""
        self.spent = 0
        self.most = UNITS * steps

    def spend(self, units: int) -> None:
        """Count units; above the limit, the evaluation ends."""
        self.spent += units
        if self.spent > self.most:
            raise EffortError("the effort is used up")

    def afford(self, units: int) -> None:
        """Count the units of work that is still to be done. If they are too many, it is not, nor counted in full."""
        self.spend(min(units, self.most - self.spent + 1))

    @property
    def steps(self) -> int:
        """Return the steps that were taken."""
        return 1 + self.spent // UNITS


METER: Final = Meter()
