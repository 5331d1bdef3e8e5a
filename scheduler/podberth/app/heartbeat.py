"""A sign of life of a scheduler that is not elected: a Lease by which others see whom it schedules for.

Nothing here depends on holding it. It is not the Lease of the election, which another process may be waiting for.
"""

from __future__ import annotations

import asyncio

import structlog

from podberth.app.candidacy import lease_annotations
from podberth.framework.config import SchedulerConfiguration
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.lease import Elector, LeaseLostError, own_identity
from podberth.service.election import lease_namespace

SUFFIX = "-heartbeat"
DURATION, DEADLINE, RETRY = 30.0, 25.0, 10.0
FIRST_SECONDS = 5.0
"""A start is for the first bindings."""

log = structlog.get_logger("heartbeat")


def heartbeat(client: Client, config: SchedulerConfiguration) -> Elector | None:
    """Return who keeps the Lease; None where a scheduler is elected, whose own Lease says the same."""
    wanted = config.leader_election
    if wanted.leader_elect:
        return None
    namespace, otherwise = lease_namespace(client.connection, wanted.resource_namespace)
    name = wanted.resource_name + SUFFIX

    def problem(said: str) -> None:
        log.warning(
            "the heartbeat can't be written: policies that send pods here are said to have no live scheduler",
            namespace=namespace,
            lease=name,
            error=said[:300],
        )

    return Elector(
        client,
        namespace,
        name,
        own_identity(),
        duration=DURATION,
        renew_deadline=DEADLINE,
        retry=RETRY,
        annotations=lease_annotations(config),
        otherwise=otherwise,
        on_problem=problem,
    )


async def beat(elector: Elector, first: float = FIRST_SECONDS) -> None:
    """Keep the Lease until cancelled, then give it back; where another process keeps it, wait for its end."""
    await asyncio.sleep(first)
    while True:
        try:
            await elector.run(_for_ever)
        except (LeaseLostError, ApiError, Unreachable) as error:
            log.info("the heartbeat stopped, it goes on in some seconds", reason=str(error)[:300])
            await asyncio.sleep(RETRY)


async def _for_ever() -> None:
    await asyncio.Event().wait()
