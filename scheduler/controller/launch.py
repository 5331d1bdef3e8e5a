"""Start a scheduler, serve its health and metrics, stop it on SIGTERM or SIGINT."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping

import structlog

from scheduler.controller.candidacy import candidate
from scheduler.controller.scheduler import Observer, Scheduler
from scheduler.controller.vitals import endpoints
from scheduler.framework.config import SchedulerConfiguration
from scheduler.framework.runtime import Framework
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.lease import Elector, LeaseLostError
from scheduler.telemetry.serving import Address, Serving

SERVE_AFTER = 1.0
"""Seconds that serving waits for the first lists: a start is for the first binding, probes can wait so long."""

log = structlog.get_logger("launch")


async def schedule(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    config: SchedulerConfiguration,
    *,
    seed: int = 0,
    observe: Observer | None = None,
    listen: Address | None = None,
) -> bool:
    """Schedule until SIGTERM or SIGINT, then finish the writes under way. False: another one leads now.

    Raises ServingError.
    """
    limits = config.client_connection
    if config.extenders:
        log.warning("extenders are configured but not called yet", extenders=len(config.extenders))
    async with Client(connection, qps=limits.qps, burst=limits.burst) as client:
        elector = candidate(client, config)
        scheduler = Scheduler(client, frameworks, config, seed=seed, observe=observe, elector=elector)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, scheduler.stop)
        log.info("starting", server=connection.host, profiles=list(frameworks), seed=seed)
        async with _served(client, scheduler, elector, config, listen):
            try:
                await scheduler.run()
            except* LeaseLostError as lost:
                for error in lost.exceptions:
                    log.error("leads no longer, ends so that a new process can stand by", reason=str(error))
                kept = False
            else:
                kept = True
    return kept


@contextlib.asynccontextmanager
async def _served(
    client: Client,
    scheduler: Scheduler,
    elector: Elector | None,
    config: SchedulerConfiguration,
    listen: Address | None,
) -> AsyncIterator[None]:
    """Serve health and metrics while the block runs."""
    if listen is None:
        yield
        return
    serving = Serving(listen, endpoints(client, scheduler, elector, config))
    serving.listen()

    async def serve() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SERVE_AFTER):
                await scheduler.wait_synced()
        await serving.run()

    task = asyncio.create_task(serve())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        serving.shut()
