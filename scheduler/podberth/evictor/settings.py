"""The settings that say how careful the evictor is."""

from dataclasses import dataclass, fields

SYSTEM_CRITICAL = 2_000_000_000
"""Priority of system-cluster-critical and above (scheduling.SystemCriticalPriority)."""
OWNER_BACKOFF_MOST = 3000.0
"""Less than the hour for which API servers keep Events by default: all that the next process knows is in Events."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds, rates per second.

    Raises ValueError naming the field for a figure that makes no sense.
    """

    grace: float = 30.0
    """How long a promise has to be broken, without a pause, before the pod may be evicted."""
    changed_share: float = 0.1
    """The breaker opens when more than this share of the nodes break promises within `changed_window`."""
    changed_window: float = 300.0
    node_rate: float = 0.2
    node_burst: int = 5
    namespace_rate: float = 0.5
    namespace_burst: int = 10
    cluster_rate: float = 2.0
    cluster_burst: int = 20
    owner_backoff: float = 300.0
    """How long the successor of an evicted pod is left alone. Doubles each time, up to `owner_backoff_most`."""
    owner_backoff_most: float = OWNER_BACKOFF_MOST
    retry: float = 10.0
    """How long to wait after a refusal, with jitter. Doubles up to `retry_most`. The server may ask for more."""
    retry_most: float = 300.0
    rest: float = 600.0
    """How long to wait where trying again soon can't help: two budgets, or no right to evict."""
    bare_pods: bool = False
    """Evict pods without a controller too, which nothing creates again."""
    observe: bool = False
    """Ask the server what would happen (dry run), and evict nobody."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                continue
            if not value > 0:
                raise ValueError(f"{field.name}: Invalid value: {value:g}: must be greater than 0")
        if self.changed_window < self.grace:
            raise ValueError(f"changed_window: Invalid value: {self.changed_window:g}: must be no shorter than grace")
        if self.changed_share > 1:
            raise ValueError(f"changed_share: Invalid value: {self.changed_share:g}: must be at most 1")
