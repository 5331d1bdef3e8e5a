"""Start the evictor, lead by Lease, stop it on SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Mapping

import structlog

from scheduler.controller.eviction.vitals import Post, served
from scheduler.controller.eviction.watcher import Watcher
from scheduler.engine.eviction.settings import Settings
from scheduler.framework.runtime import Framework
from scheduler.kube.candidate import Candidate
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.evictions import Regarding
from scheduler.kube.lease import Elector, LeaseLostError, own_identity
from scheduler.kube.resources import LEASES
from scheduler.telemetry.ending import end_at_once
from scheduler.telemetry.serving import Address

log = structlog.get_logger("evictor")

_AGAIN_SECONDS = 5.0


async def keep_promises(
    connection: Connection,
    frameworks: Mapping[str, Framework],
    settings: Settings,
    *,
    namespace: str,
    lease: str,
    listen: Address | None = None,
) -> None:
    """Keep promises whenever we lead, until SIGTERM or SIGINT; `listen`: where health and metrics are served.

    Raises ServingError.
    """
    post = Post(lease)
    async with Client(connection) as client, served(listen, client, post):
        working = asyncio.create_task(lead(client, frameworks, settings, namespace, post))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, working.cancel)
        log.info(
            "starting",
            server=connection.host,
            lease=f"{namespace}/{lease}",
            profiles=list(frameworks),
            observe=settings.observe,
            grace=settings.grace,
        )
        await asyncio.wait((working,))
        if not working.cancelled():
            working.result()
        log.info("stopped")


async def lead(
    client: Client, frameworks: Mapping[str, Framework], settings: Settings, namespace: str, post: Post
) -> None:
    """Be a candidate, do the leader's work while elected, for ever."""
    identity = own_identity()
    while True:
        elector = Candidate(
            client.connection,
            namespace,
            post.lease,
            identity,
            on_problem=lambda said: log.error("lease not reached", lease=post.lease, error=said[:300]),
            on_dead=end_at_once,
        )
        post.elector = elector
        client.fence = elector.left

        async def work(elector: Elector = elector) -> None:
            log.info("leads", identity=identity)
            about = Regarding(LEASES.api_version, LEASES.kind, namespace, post.lease, "")
            watcher = Watcher(client, frameworks, settings, lambda: elector.leading, about, f"berth-evictor-{identity}")
            post.watcher = watcher
            try:
                await watcher.run()
            finally:
                post.watcher = None

        try:
            await elector.run(work)
        except LeaseLostError as error:
            log.warning("leads no longer", reason=str(error))
        except (ApiError, Unreachable) as error:
            log.error("term ended, trying again", error=str(error)[:300])
            await asyncio.sleep(_AGAIN_SECONDS)
