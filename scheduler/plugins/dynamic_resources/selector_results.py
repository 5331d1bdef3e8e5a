"""Results of CEL expressions for devices, kept as bits: evaluated once for devices with equal traits."""

from collections.abc import Callable

from scheduler.model.devices import DeviceTraits

_EXPRESSIONS = 64
"""Expressions whose results are kept. When one more comes, all results are dropped."""


class _Table:
    """Expression → bit. One table for the process, since clusters (of `--verify`, of tests) share traits."""

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


def known(expression: str, traits: DeviceTraits) -> bool | None:
    """Whether an expression holds for a device; None: not evaluated yet."""
    bit = _TABLE.bits.get(expression)
    if bit is None or traits.table != _TABLE.number or not traits.known & bit:
        return None
    return bool(traits.holds & bit)


def holds(expression: str, traits: DeviceTraits, evaluate: Callable[[str, DeviceTraits], bool]) -> bool:
    """Whether an expression holds for a device; `evaluate` is called the first time. Its errors are not kept."""
    bit = _TABLE.bit(expression)
    if traits.table != _TABLE.number:
        traits.table, traits.known, traits.holds = _TABLE.number, 0, 0
    if traits.known & bit:
        return bool(traits.holds & bit)
    answer = evaluate(expression, traits)
    traits.known |= bit
    if answer:
        traits.holds |= bit
    return answer
