"""Runs the admission server until it is told to end."""

from __future__ import annotations

import gc

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.policy.admission.memory import give_back
from podberth.policy.admission.replica import Replica
from podberth.policy.admission.settings import Settings
from podberth.service.run import until_told
from podberth.service.serving import Address, Endpoints

QPS, BURST = 200.0, 400
"""Requests per second, and at once, mostly look-ups of owners; all others are a few a minute."""


async def admit(connection: Connection, settings: Settings, listen: Address | None = None) -> None:
    """Serve reviews until SIGTERM or SIGINT; `listen`: where health and metrics are served, besides the webhook's port.

    Raises ServingError.
    """
    give_back()
    gc.freeze()  # what was imported stays: no collection looks through it while reviews wait
    async with Client(connection, qps=QPS, burst=BURST) as client:
        replica = Replica(client, settings)
        await until_told(
            replica.run,
            client,
            stop=replica.end,
            listen=listen,
            endpoints=endpoints(replica),
            namespace=settings.namespace,
            exempt=settings.exempt,
        )


def endpoints(replica: Replica) -> Endpoints:
    """Return the pages about one replica, for a port whose clients have to be authorised."""
    return Endpoints(
        ready={
            "policies": lambda: replica.cache.unready,
            "shutdown": lambda: "shutting down" if replica.server.draining else None,
        },
        instruments=replica.metrics.instruments,
        ports=replica.server.ports,
    )
