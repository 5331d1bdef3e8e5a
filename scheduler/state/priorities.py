"""How many placed pods have each priority, so that nobody looks through all of them for one of lower priority."""


class Priorities:
    """Priorities come from PriorityClasses, which are few and an administrator's."""

    def __init__(self) -> None:
        self.pods: dict[int, int] = {}
        """Priority → placed pods."""

    def add(self, priority: int, amount: int) -> None:
        """So many more pods of this priority, or fewer."""
        left = self.pods[priority] = self.pods.get(priority, 0) + amount
        if not left:
            del self.pods[priority]

    @property
    def lowest(self) -> int | None:
        """The lowest priority of any placed pod; None: there are none."""
        return min(self.pods, default=None)
