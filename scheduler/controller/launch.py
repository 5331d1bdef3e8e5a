"""Start a scheduler, serve its health and metrics, stop it on SIGTERM or SIGINT."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from scheduler import __version__
from scheduler.controller.candidacy import candidate
from scheduler.controller.comparer import Comparer
from scheduler.controller.reload import Loaded, Reloader
from scheduler.controller.scheduler import Scheduler
from scheduler.controller.vitals import endpoints
from scheduler.framework.config import SchedulerConfiguration
from scheduler.framework.runtime import Framework
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.lease import LeaseLostError
from scheduler.kube.protobuf import MEDIA_TYPE as PROTOBUF
from scheduler.telemetry import collector
from scheduler.telemetry.serving import Address, Serving

SERVE_AFTER = 1.0
"""Seconds that serving waits for the first lists."""

log = structlog.get_logger("launch")


@dataclass(frozen=True, slots=True)
class Files:
    """Where the configuration is from (None: no file), and how to read it again."""

    path: str | None
    load: Callable[[], Loaded]


async def schedule(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    config: SchedulerConfiguration,
    files: Files,
    *,
    seed: int = 0,
    verify: int = 0,
    listen: Address | None = None,
) -> bool:
    """Schedule until SIGTERM or SIGINT, then finish the writes under way. False: another one leads now.

    Every `verify`th decision is verified; 0: none. SIGHUP reloads the configuration, SIGUSR2 has the cache compared.
    Raises ServingError.
    """
    collector.be_brief()
    limits = config.client_connection
    protobuf = limits.content_type in ("", PROTOBUF)
    async with Client(connection, qps=limits.qps, burst=limits.burst, protobuf=protobuf) as client:
        elector = candidate(client, config)
        scheduler = Scheduler(client, frameworks, config, seed=seed, elector=elector, verify=verify)
        reloader = Reloader(scheduler, elector, config, files.path, files.load)
        comparer = Comparer(client, scheduler)
        beside: list[Callable[[], Coroutine[Any, Any, None]]] = [
            reloader.run,
            comparer.run,
            collector.look_through_daily,
        ]
        if listen is not None:
            serving = Serving(listen, endpoints(client, scheduler, elector, reloader, comparer))
            serving.listen()
            beside.append(partial(_serve, serving, scheduler))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, scheduler.stop)
        loop.add_signal_handler(signal.SIGHUP, reloader.soon)
        loop.add_signal_handler(signal.SIGUSR2, comparer.soon)
        log.info("starting", version=__version__, server=connection.host, profiles=list(frameworks), seed=seed)
        kept = True
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(part()) for part in beside]
                await scheduler.run()
                for task in running:
                    task.cancel()
        except* LeaseLostError as lost:
            log.error("leads no longer, ends so that a new process can stand by", reason=_first(lost))
            kept = False
    return kept


async def _serve(serving: Serving, scheduler: Scheduler) -> None:
    """A start is for the first binding: serve once the first lists are in, or after a second."""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SERVE_AFTER):
                await scheduler.wait_synced()
        await serving.run()
    finally:
        serving.shut()


def _first(group: BaseExceptionGroup[LeaseLostError]) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
