"""What came to some collection lately, for whoever keeps something of it and catches up."""

from typing import Generic, TypeVar

Thing = TypeVar("Thing")

REMEMBERED = 2048
"""The last things that came, and up to twice as many."""


class Arrivals(Generic[Thing]):
    """How many things ever came, and which were the last. Counts are what others remember; they never go back."""

    def __init__(self) -> None:
        self.count = 0
        self._latest: list[Thing] = []

    def add(self, thing: Thing) -> None:
        """One more came."""
        self.count += 1
        self._latest.append(thing)
        if len(self._latest) >= 2 * REMEMBERED:
            del self._latest[:REMEMBERED]

    def since(self, count: int) -> list[Thing] | None:
        """The things that came after so many, some of which may have gone; None: too many to be remembered."""
        came = self.count - count
        if came > len(self._latest):
            return None
        return self._latest[len(self._latest) - came :]
