"""Put the scheduler of `berth run` together, and run it until it is told to end."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from podberth.app.comparer import Comparer
from podberth.app.endpoints import endpoints
from podberth.app.lease import Rivals, beat, candidacy, heartbeat
from podberth.app.reload import Reloader, Source
from podberth.app.scheduler import Follower, Scheduler
from podberth.app.writer import TAKEN
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.writes import PROTOBUF
from podberth.service.loop import collect_briefly, collect_daily
from podberth.service.run import until_told
from podberth.service.serving import Address

if TYPE_CHECKING:
    from podberth.app.tracing import Tracing


async def schedule(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    config: SchedulerConfiguration,
    source: Source,
    *,
    seed: int = 0,
    verify: int = 0,
    listen: Address | None = None,
    tracing: Tracing | None = None,
    follower: Follower | None = None,
) -> None:
    """Schedule until SIGTERM or SIGINT, then finish the writes under way.

    Every `verify`th decision is verified; 0: none. SIGHUP reloads the configuration, SIGUSR2 has the cache compared.
    Raises ServingError, and LeaseLostError in a group when another one leads now.
    """
    collect_briefly()
    limits = config.client_connection
    protobuf = limits.content_type in ("", PROTOBUF)
    made = Client if tracing is None else tracing.client
    async with made(connection, qps=limits.qps, burst=limits.burst, protobuf=protobuf) as client:
        elector = candidacy(client, config)
        sign = heartbeat(client, config)
        beats = [] if sign is None else [partial(beat, sign)]
        scheduler = Scheduler(client, frameworks, config, seed=seed, elector=elector, verify=verify, follower=follower)
        if tracing is not None:
            tracing.follow_scheduler(scheduler)
        reloader = Reloader(scheduler, elector or sign, config, source)
        comparer = Comparer(client, scheduler)
        rivals = Rivals(
            client,
            elector or sign,
            lambda: scheduler.engine.queue.frameworks,
            lambda: scheduler.writer.bindings.failures[TAKEN],
        )
        await until_told(
            scheduler.run,
            client,
            stop=scheduler.stop,
            listen=listen,
            endpoints=endpoints(client, scheduler, elector, reloader, comparer, rivals),
            beside=(reloader.run, comparer.run, rivals.run, collect_daily, *beats),
            signals={signal.SIGHUP: reloader.soon, signal.SIGUSR2: comparer.soon},
            synced=scheduler.wait_synced,
            profiles=list(frameworks),
            seed=seed,
        )
