"""A service's candidacy for its Lease: what goes wrong is logged, and a process that is stuck ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.kubeconfig import IN_CLUSTER
from podberth.kube.lease import DURATION, RENEW_DEADLINE, RETRY, Candidate, Elector, LeaseLostError, own_identity
from podberth.service.run import end_at_once

AGAIN_SECONDS = 5.0

HOME = "berth"
"""The namespace of the Lease, of whoever does not run in a pod: the chart is installed there, too. Where there is no
such namespace, the context's is taken."""

log = structlog.get_logger("lease")


def lease_namespace(connection: Connection, wanted: str) -> tuple[str, str]:
    """Return the namespace of the Lease, and the one to use if that does not exist. `wanted`: what the user says, if
    anything.

    One default for the scheduler and the evictor: two that each took another namespace would both be leaders.
    """
    own = connection.namespace
    if wanted or connection.source == IN_CLUSTER:
        return wanted or own or "default", ""
    return HOME, own or "default"


def candidate(
    client: Client,
    namespace: str,
    lease: str,
    *,
    duration: float = DURATION,
    renew_deadline: float = RENEW_DEADLINE,
    retry: float = RETRY,
    annotations: Mapping[str, str] | None = None,
    otherwise: str = "",
) -> Candidate:
    """Return a candidate under a name that no other process has; `term.identity` tells it."""

    def problem(said: str) -> None:
        log.error("lease not reached", namespace=namespace, lease=lease, error=said[:300])

    return Candidate(
        client.connection,
        namespace,
        lease,
        own_identity(),
        duration=duration,
        renew_deadline=renew_deadline,
        retry=retry,
        annotations=annotations,
        otherwise=otherwise,
        on_problem=problem,
        on_dead=end_at_once,
    )


async def lead(elector: Elector, work: Callable[[], Awaitable[None]]) -> None:
    """Do this work in each term that is won, until cancelled; the Lease is given back between two terms."""
    while True:
        try:
            await elector.run(work)
        except LeaseLostError as error:
            log.warning("leads no longer", reason=str(error))
        except (ApiError, Unreachable) as error:
            log.error("term ended, trying again", error=str(error)[:300])
            await asyncio.sleep(AGAIN_SECONDS)
