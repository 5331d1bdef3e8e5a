"""The evictor's figures; `vitals` gives them their names."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """`evictions`: (reason, result) → since this process leads; the rest is as of now."""

    evictions: dict[tuple[str, str], int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    breaker_open: bool = False
    followed: int = 0
