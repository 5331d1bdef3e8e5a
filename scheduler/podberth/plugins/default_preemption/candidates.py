"""Upstream: framework/preemption (preemption.go, util.go): which of the nodes to preempt on that extenders have left.

Without extenders, `DryRunResults.pick` chooses by the same rules, among all rows at once.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from podberth.model.pod import Pod
from podberth.plugins.default_preemption.importance import importance, started

PRIORITY_OFFSET = 1 << 31


class Candidate(Struct):
    """A node and the pods that would have to leave it, most important first."""

    row: int
    victims: list[Pod] = field(default_factory=list)
    violations: int = 0
    """Victims whose disruption budget would be overdrawn."""
    cost: tuple[int, int, int, int] = (0, 0, 0, 0)
    """What is to be as low as possible: violations, highest priority, sum of priorities, number."""
    start: str = ""
    """When the first of the most important victims started."""

    def settle(self) -> None:
        """All victims are known."""
        self.victims.sort(key=importance)
        if self.victims:
            total = sum(victim.priority + PRIORITY_OFFSET for victim in self.victims)
            highest = self.victims[0].priority
            self.cost = self.violations, highest, total, len(self.victims)
            self.start = started(self.victims[0])


def pick(candidates: Iterable[Candidate], names: list[str | None]) -> Candidate:
    """The node to preempt on (pickOneNodeForPreemption); the name decides what would be anyone's choice."""
    found = list(candidates)
    lowest = min(candidate.cost for candidate in found)
    cheapest = [candidate for candidate in found if candidate.cost == lowest]
    latest = max(candidate.start for candidate in cheapest)
    return min(
        (candidate for candidate in cheapest if candidate.start == latest),
        key=lambda candidate: names[candidate.row] or "",
    )
