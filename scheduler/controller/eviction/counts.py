"""The evictor's figures under the names of their metrics; whoever serves metrics asks for them."""

from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]

EVICTIONS = "berth_evictions_total"
WAITING = "berth_evictions_waiting"
BREAKER = "berth_eviction_breaker_open"
FOLLOWED = "berth_promises_followed"


@dataclass(slots=True)
class Counts:
    """`evictions`: (reason, result) → since this process leads; the rest is as of now."""

    evictions: dict[tuple[str, str], int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    breaker_open: bool = False
    followed: int = 0

    def samples(self) -> list[tuple[str, Labels, float]]:
        """(metric, labels, value) of all of them."""
        found: list[tuple[str, Labels, float]] = [
            (EVICTIONS, (("reason", reason), ("result", result)), count)
            for (reason, result), count in sorted(self.evictions.items())
        ]
        found += [(WAITING, (("stage", stage),), count) for stage, count in sorted(self.waiting.items())]
        found += [(BREAKER, (), float(self.breaker_open)), (FOLLOWED, (), self.followed)]
        return found
