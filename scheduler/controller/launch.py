"""Start a scheduler, stop it on SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Mapping

import structlog

from scheduler.controller.candidacy import candidate
from scheduler.controller.scheduler import Observer, Scheduler
from scheduler.framework.config import SchedulerConfiguration
from scheduler.framework.runtime import Framework
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.lease import LeaseLostError

log = structlog.get_logger("launch")


async def schedule(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    config: SchedulerConfiguration,
    *,
    seed: int = 0,
    observe: Observer | None = None,
) -> bool:
    """Schedule until SIGTERM or SIGINT, then finish the writes under way. False: another one leads now."""
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
        try:
            await scheduler.run()
        except* LeaseLostError as lost:
            for error in lost.exceptions:
                log.error("leads no longer, ends so that a new process can stand by", reason=str(error))
            kept = False
        else:
            kept = True
    return kept
