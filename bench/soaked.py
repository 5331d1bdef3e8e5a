"""`berth run` that tells of itself: `python -m bench.soaked CONFIG KUBECONFIG`, which `bench.soak` starts.

SIGUSR1 has it log a line with the sizes of all that it keeps, SIGWINCH one with what `validate` finds in its columns.
SIGUSR2 compares its cache with a fresh list, as of any `berth run`. SIGPROF is `bench.telling`'s.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

import structlog

from bench.telling import heap, tell_when_asked
from podberth.app.comparer import Comparer
from podberth.app.endpoints import endpoints
from podberth.app.lease import Rivals
from podberth.app.reload import Reloader, Source
from podberth.app.scheduler import Scheduler
from podberth.cache.validate import validate
from podberth.cli.inputs import configuration
from podberth.cli.services import log_at
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.kubeconfig import connect
from podberth.plugins.registry import registry
from podberth.service.loop import collect_briefly, collect_daily
from podberth.service.run import run_service, until_told

SIZES, COLUMNS = "sizes", "columns"
"""The events of both lines."""

log = structlog.get_logger("soak")


def sizes(scheduler: Scheduler) -> dict[str, int]:
    """How much there is of everything that could grow."""
    engine = scheduler.engine
    cluster = engine.cluster
    return {
        **heap(),
        "blocks": sys.getallocatedblocks(),
        "tasks": len(asyncio.all_tasks()),
        "objects": len(gc.get_objects()) + gc.get_freeze_count(),
        "nodes": cluster.nodes.count,
        "rows": cluster.nodes.rows,
        "pods": len(cluster),
        "assumed": cluster.assumed(),
        "inFlight": engine.in_flight,
        "pending": len(engine.queue),
        "queue": engine.queue.entries(),
        "binding": engine.binding.entries(),
        "stories": engine.history.stories.entries,
        "fairShare": engine.queue.fair_share.entries(),
        "conflictLooks": engine.placement_conflicts.entries(),
        "podClasses": len(cluster.affinity.pods),
        "sums": len(cluster.affinity.sums),
        "devices": len(cluster.devices.allocated),
        "statuses": len(scheduler.writer.statuses),
        "bindings": len(scheduler.writer.bindings),
        "calls": len(scheduler.calls),
        "watched": sum(len(reflector) for reflector in scheduler.watch.reflectors),
    }


async def schedule(config: str, kubeconfig: str) -> None:
    """As `podberth.app.run.schedule`, without a port, and with two signals more."""
    settings = configuration(config)
    frameworks = build(settings, registry())
    limits = settings.client_connection
    collect_briefly()
    async with Client(connect(kubeconfig, None), qps=limits.qps, burst=limits.burst, protobuf=True) as client:
        scheduler = Scheduler(client, frameworks, settings)
        comparer = Comparer(client, scheduler)
        reloader = Reloader(scheduler, None, settings, Source(config, lambda: settings, lambda _: frameworks))

        def tell_sizes() -> None:
            log.info(SIZES, **sizes(scheduler))

        def tell_columns() -> None:
            log.info(COLUMNS, wrong=validate(scheduler.engine.cluster)[:20])

        await until_told(
            scheduler.run,
            client,
            stop=scheduler.stop,
            endpoints=endpoints(client, scheduler, None, reloader, comparer, Rivals(client, None, lambda: frameworks)),
            beside=(comparer.run, collect_daily),
            signals={signal.SIGUSR1: tell_sizes, signal.SIGUSR2: comparer.soon, signal.SIGWINCH: tell_columns},
            synced=scheduler.wait_synced,
            profiles=list(frameworks),
        )


if __name__ == "__main__":
    log_at("info")
    tell_when_asked()
    sys.exit(run_service(schedule(*sys.argv[1:])))
