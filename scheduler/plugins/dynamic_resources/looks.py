"""Whether CEL expressions hold for devices: evaluated once for each expression and each distinct look, kept as bits."""

from collections.abc import Callable

from scheduler.model.devices import Look

_EXPRESSIONS = 64
"""What is known of so many is kept; one more, and the table begins afresh."""


class _Table:
    """The expressions that bits are about. One for the process, as looks may be shared by several clusters."""

    def __init__(self) -> None:
        self.number = 0
        self.bits: dict[str, int] = {}

    def bit(self, expression: str) -> int:
        """The bit of an expression."""
        found = self.bits.get(expression)
        if found is None:
            if len(self.bits) >= _EXPRESSIONS:
                self.bits = {}
                self.number += 1
            found = self.bits[expression] = 1 << len(self.bits)
        return found


_TABLE = _Table()


def known(expression: str, look: Look) -> bool | None:
    """Whether an expression holds for a look, if that was asked before."""
    bit = _TABLE.bits.get(expression)
    if bit is None or look.table != _TABLE.number or not look.known & bit:
        return None
    return bool(look.holds & bit)


def holds(expression: str, look: Look, evaluate: Callable[[str, Look], bool]) -> bool:
    """Whether an expression holds for a look, as is known, or as `evaluate` says. What that raises is not kept."""
    bit = _TABLE.bit(expression)
    if look.table != _TABLE.number:
        look.table, look.known, look.holds = _TABLE.number, 0, 0
    if look.known & bit:
        return bool(look.holds & bit)
    answer = evaluate(expression, look)
    look.known |= bit
    if answer:
        look.holds |= bit
    return answer
