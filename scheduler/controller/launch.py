"""Put the scheduler of `berth run` together, and run it until it is told to end."""

import signal
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from scheduler.controller.bindings import TAKEN
from scheduler.controller.candidacy import candidacy
from scheduler.controller.comparer import Comparer
from scheduler.controller.heartbeat import beat, heartbeat
from scheduler.controller.reload import Loaded, Reloader
from scheduler.controller.rivals import Rivals
from scheduler.controller.scheduler import Scheduler
from scheduler.controller.vitals import endpoints
from scheduler.framework.config import SchedulerConfiguration
from scheduler.framework.runtime import Framework
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.protobuf import MEDIA_TYPE as PROTOBUF
from scheduler.service.run import until_told
from scheduler.telemetry import collector
from scheduler.telemetry.serving import Address


class Files(Struct, frozen=True):
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
) -> None:
    """Schedule until SIGTERM or SIGINT, then finish the writes under way.

    Every `verify`th decision is verified; 0: none. SIGHUP reloads the configuration, SIGUSR2 has the cache compared.
    Raises ServingError, and LeaseLostError in a group when another one leads now.
    """
    collector.be_brief()
    limits = config.client_connection
    protobuf = limits.content_type in ("", PROTOBUF)
    async with Client(connection, qps=limits.qps, burst=limits.burst, protobuf=protobuf) as client:
        elector = candidacy(client, config)
        sign = heartbeat(client, config)
        beats = [] if sign is None else [partial(beat, sign)]
        scheduler = Scheduler(client, frameworks, config, seed=seed, elector=elector, verify=verify)
        reloader = Reloader(scheduler, elector or sign, config, files.path, files.load)
        comparer = Comparer(client, scheduler)
        rivals = Rivals(client, elector or sign, config, lambda: scheduler.writer.bindings.failures[TAKEN])
        await until_told(
            scheduler.run,
            client,
            stop=scheduler.stop,
            listen=listen,
            endpoints=endpoints(client, scheduler, elector, reloader, comparer, rivals),
            beside=(reloader.run, comparer.run, rivals.run, collector.look_through_daily, *beats),
            signals={signal.SIGHUP: reloader.soon, signal.SIGUSR2: comparer.soon},
            synced=scheduler.wait_synced,
            profiles=list(frameworks),
            seed=seed,
        )
