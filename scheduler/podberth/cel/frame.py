"""What one evaluation has: the device, the variables of loops, and the cost so far."""

from collections.abc import Callable
from typing import Final, TypeAlias

from podberth.cel.effort import LIMIT, stopped
from podberth.cel.values import Map, Value


class Frame:
    """One evaluation. `slots` are the variables of loops and bindings, by an index that the plan knows."""

    __slots__ = ("cost", "device", "most", "slots")

    def __init__(self, device: Map, slots: int, most: int = LIMIT) -> None:
        self.device = device
        self.most = most
        self.slots: list[Value] = [UNSET] * slots
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Count the cost of a call; too much of it ends the evaluation."""
        self.cost += cost
        if self.cost > self.most:
            raise stopped(self.cost)


class _Unset:
    __slots__ = ()


UNSET: Final = _Unset()
Code: TypeAlias = Callable[[Frame], Value]
