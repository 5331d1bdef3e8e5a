"""Puts the evictor together, runs it until it is told to end, and serves its health and figures over HTTPS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from podberth.app.evictor.watcher import Watcher
from podberth.evictor.gates import Settings
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import Elector
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.resources import LEASES
from podberth.kube.writes import Regarding
from podberth.model.limits import LIMITS, Limits
from podberth.service import election
from podberth.service.election import lease_namespace
from podberth.service.loop import give_memory_back, trim_memory_each_minute
from podberth.service.metrics import Asked, Family, Instrument, Labels
from podberth.service.pages import Checks
from podberth.service.run import until_told
from podberth.service.serving import Address, Endpoints

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
    """A replica has a candidate for the Lease, and a watcher while it leads."""

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
        """Return the kinds that it may not see and does without."""
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
        """Return the figures; those of promises only while it leads, and counted since then."""
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


LARGE_BYTES = 128 << 10
"""Blocks of so many bytes are mappings of their own: asyncio has one for each connection. Pages of lists and buffers of
TLS that come and go left holes between them, and the evictor, which kept nothing more, grew by a quarter in forty
minutes."""

log = structlog.get_logger("evictor")


async def keep_promises(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    settings: Settings,
    *,
    namespace: str,
    lease: str,
    listen: Address | None = None,
    limits: Limits = LIMITS,
) -> None:
    """Keep promises whenever we lead, until SIGTERM or SIGINT; `listen`: where health and metrics are served.

    `namespace`: of the Lease; empty: where `berth run` has its own.

    Raises ServingError.
    """
    give_memory_back(LARGE_BYTES)
    async with Client(connection) as client:
        namespace, otherwise = lease_namespace(connection, namespace)
        post = Post(lease, election.candidate(client, namespace, lease, otherwise=otherwise))
        await until_told(
            lambda: lead(client, frameworks, settings, post, limits=limits),
            client,
            listen=listen,
            endpoints=Endpoints(ready=post.ready(), notes=post.notes, instruments=post.instruments),
            beside=(trim_memory_each_minute,),
            lease=f"{namespace}/{lease}",
            profiles=list(frameworks),
            observe=settings.observe,
            grace=settings.grace,
        )
        log.info("stopped")


async def lead(
    client: Client,
    frameworks: Mapping[str, Framework],
    settings: Settings,
    post: Post,
    machine: Machine = MACHINE,
    *,
    limits: Limits = LIMITS,
) -> None:
    """Be a candidate, do the leader's work while elected, for ever."""
    elector = post.elector
    client.fence = elector.left
    identity = elector.term.identity

    async def work() -> None:
        log.info("leads", identity=identity)
        about = Regarding(LEASES.api_version, LEASES.kind, elector.place[0], post.lease, "")
        post.watcher = Watcher(
            client,
            frameworks,
            settings,
            lambda: elector.leading,
            about,
            f"berth-evictor-{identity}",
            limits=limits,
            machine=machine,
        )
        try:
            await post.watcher.run()
        finally:
            post.watcher = None

    await election.lead(elector, work)
