"""What `berth evictor` tells of itself over HTTPS: its role, its Lease, and what became of promises."""

from __future__ import annotations

from dataclasses import dataclass

from podberth.app.evictor.watcher import Watcher
from podberth.kube.lease import Elector
from podberth.service.metrics import Asked, Family, Instrument, Labels
from podberth.service.pages import Checks

LEADER = Family("leader_election_master_status", "gauge", "1 for the replica that evicts, 0 for the others.", ("name",))
EVICTIONS = Family(
    "berth_evictions_total",
    "counter",
    "Tries to evict a pod, by why its promise was broken and by what came of the try.",
    ("reason", "result"),
)
WAITING = Family(
    "berth_evictions_waiting", "gauge", "Pods whose promise is broken, by the stage of their eviction.", ("stage",)
)
HELD = Family(
    "berth_evictions_held",
    "gauge",
    "Pods that a gate holds back: the breaker, their owner's backoff, a rate.",
    ("gate",),
)
BREAKER = Family(
    "berth_eviction_breaker_open", "gauge", "1 while nothing is evicted, as too many nodes broke promises at once."
)
FOLLOWED = Family("berth_promises_followed", "gauge", "Pods on nodes that ask something of their node while they run.")
FAMILIES = (LEADER, EVICTIONS, WAITING, HELD, BREAKER, FOLLOWED)


@dataclass(slots=True)
class Post:
    """Who is at work: the candidate, and its watcher while it leads."""

    lease: str
    elector: Elector
    watcher: Watcher | None = None

    def unready(self) -> str | None:
        """Return why nobody can tell who leads; None: this replica leads, or it stands by and can read the Lease."""
        if self.elector.last_error is not None:
            return f"can't reach the Lease: {str(self.elector.last_error)[:300]}"
        return None if self.elector.reached else "the API server has not answered about the Lease yet"

    def ready(self) -> Checks:
        """A replica that stands by is ready without having seen anything: it looks when it leads."""
        return {"lease": self.unready, "informer-sync": self._missing, "watches": self._gap}

    def notes(self) -> dict[str, str]:
        """The kinds that it may not see and does without."""
        watcher = self.watcher
        without = "" if watcher is None else watcher.freshness.without()
        return {"watches": f"not allowed to follow, and evicting without: {without}"} if without else {}

    def _missing(self) -> str | None:
        watcher = self.watcher  # read once: this is asked on another thread
        missing = "" if watcher is None else watcher.freshness.missing()
        return f"not listed yet: {missing}" if missing else None

    def _gap(self) -> str | None:
        watcher = self.watcher
        return None if watcher is None else watcher.freshness.gap() or None

    def instruments(self) -> list[Instrument]:
        """The figures; those of promises only while it leads, and counted since then."""
        leading = self.elector.leading
        found: list[Instrument] = [Asked(LEADER, lambda: {(self.lease,): float(leading)})]
        if self.watcher is None:
            return found
        counts = self.watcher.counts()

        def evictions() -> dict[Labels, float]:
            return {labels: float(count) for labels, count in counts.evictions.items()}

        return [
            *found,
            Asked(EVICTIONS, evictions),
            Asked(WAITING, lambda: {(stage,): float(count) for stage, count in counts.waiting.items()}),
            Asked(HELD, lambda: {(gate,): float(count) for gate, count in counts.held.items()}),
            Asked(BREAKER, lambda: {(): float(counts.breaker_open)}),
            Asked(FOLLOWED, lambda: {(): float(counts.followed)}),
        ]
