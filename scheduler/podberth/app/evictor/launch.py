"""Put the evictor together, and run it until it is told to end."""

from collections.abc import Mapping

import structlog

from podberth.app.evictor.vitals import Post
from podberth.app.evictor.watcher import Watcher
from podberth.evictor.settings import Settings
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.evictions import Regarding
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.resources import LEASES
from podberth.model.limits import LIMITS, Limits
from podberth.service import election
from podberth.service.election import lease_namespace
from podberth.service.loop import give_memory_back, trim_memory_each_minute
from podberth.service.run import until_told
from podberth.service.serving import Address, Endpoints

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
