"""Start a scheduler, stop it on SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Mapping

import structlog

from scheduler.controller.scheduler import Observer, Scheduler
from scheduler.framework.config import SchedulerConfiguration
from scheduler.framework.runtime import Framework
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection

log = structlog.get_logger("launch")


async def schedule(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    config: SchedulerConfiguration,
    *,
    seed: int = 0,
    observe: Observer | None = None,
) -> None:
    """Schedule until SIGTERM or SIGINT, then finish the writes under way."""
    limits = config.client_connection
    if config.leader_election.leader_elect:
        log.warning("leaderElection.leaderElect is true, but leader election does not exist yet: run one replica")
    async with Client(connection, qps=limits.qps, burst=limits.burst) as client:
        scheduler = Scheduler(client, frameworks, config, seed=seed, observe=observe)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, scheduler.stop)
        log.info("starting", server=connection.host, profiles=list(frameworks), seed=seed)
        await scheduler.run()
