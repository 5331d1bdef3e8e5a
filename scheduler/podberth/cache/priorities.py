"""How many placed pods, or groups, have each priority, so that nobody looks through all for one of lower priority."""


class Priorities:
    """Priorities come from PriorityClasses, which are few and an administrator's."""

    def __init__(self) -> None:
        self.pods: dict[int, int] = {}
        """Priority → how many have it."""

    def add(self, priority: int, amount: int) -> None:
        """So many more of this priority, or fewer."""
        left = self.pods[priority] = self.pods.get(priority, 0) + amount
        if not left:
            del self.pods[priority]

    @property
    def lowest(self) -> int | None:
        """The lowest priority of any of them; None: there are none."""
        return min(self.pods, default=None)
