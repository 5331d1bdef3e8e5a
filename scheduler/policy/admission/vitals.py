"""What `berth admission` tells of itself on a port of its own, where who asks has to be allowed to."""

from __future__ import annotations

from scheduler.kube.client import Client
from scheduler.kube.reviews import Reviews
from scheduler.policy.admission.replica import Replica
from scheduler.telemetry.serving import Endpoints


def endpoints(client: Client, replica: Replica) -> Endpoints:
    """All that there is to serve about one replica."""
    reviews = Reviews(client)
    return Endpoints(
        reviews.authorize,
        reviews.authorities,
        ready={
            "policies": lambda: replica.cache.unready,
            "shutdown": lambda: "shutting down" if replica.server.draining else None,
        },
        pages=replica.server.page,
        ports=replica.server.ports,
    )
