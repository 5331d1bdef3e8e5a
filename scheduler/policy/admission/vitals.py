"""What `berth admission` tells of itself on a port of its own, where who asks has to be allowed to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.kube.client import Client
from scheduler.kube.reviews import Reviews
from scheduler.policy.admission.launch import Replica, Served, nowhere
from scheduler.telemetry.serving import Address, Endpoints, beside


def serving(address: Address | None) -> Served:
    """Serve there while the replica runs; None is nowhere."""
    if address is None:
        return nowhere

    @asynccontextmanager
    async def served(client: Client, replica: Replica) -> AsyncIterator[None]:
        reviews = Reviews(client)
        checks = {
            "policies": lambda: replica.cache.unready,
            "shutdown": lambda: "shutting down" if replica.server.draining else None,
        }
        what = Endpoints(
            reviews.authorize,
            reviews.authorities,
            ready=checks,
            pages=replica.server.page,
            ports=replica.server.ports,
        )
        async with beside(address, what):
            yield

    return served
