"""The sign of life of a scheduler that is not elected, on the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from podberth.apiserver import ApiServer
from podberth.app.lease import beat, heartbeat
from podberth.framework.config import SchedulerConfiguration, default_configuration
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError
from podberth.service.schedulers import LiveSchedulers, decode

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PATIENCE = 60.0


def configuration(*, leader_elect: bool) -> SchedulerConfiguration:
    """One profile."""
    config = default_configuration()
    election = replace(config.leader_election, leader_elect=leader_elect, resource_namespace="default")
    return replace(config, leader_election=election)


async def lease(client: Client, name: str = "berth-heartbeat") -> dict[str, Any] | None:
    """A Lease, or None."""
    try:
        found: dict[str, Any] = msgspec.json.decode(await client.get(f"{LEASES}/{name}"))
    except ApiError as error:
        assert error.status == 404
        return None
    return found


async def until(claim: Callable[[], bool]) -> None:
    """Wait for what is going on."""
    async with asyncio.timeout(PATIENCE):
        while not claim():  # noqa: ASYNC110 - what others do has no event
            await asyncio.sleep(0.01)


async def test_who_is_not_elected_gives_a_sign_of_life() -> None:
    """The Lease says whom it schedules for, others take it as live, and it is given back at the end."""
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1.0) as client:
        config = configuration(leader_elect=False)
        elector = heartbeat(client, config)
        assert elector is not None
        beating = asyncio.create_task(beat(elector, first=0.0))
        await until(lambda: elector.leading)
        found = await lease(client)
        live = LiveSchedulers("other")
        live.observe(decode(msgspec.json.encode(found)), now=0.0, wall=0.0)
        names = {profile.scheduler_name for profile in config.profiles}
        assert live.at(1.0) == names != set()
        assert await lease(client, "berth") is None, "another process may be waiting for that one"
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        found = await lease(client)
        assert found is not None
        assert found["spec"]["holderIdentity"] == ""


async def test_one_of_two_keeps_it() -> None:
    """Of two processes of one configuration one keeps the Lease, and the other waits for its end."""
    async with ApiServer() as server, Client(Connection(host=server.url), qps=-1.0) as client:
        first, second = (heartbeat(client, configuration(leader_elect=False)) for _ in range(2))
        assert first is not None
        assert second is not None
        beats = [asyncio.create_task(beat(first, first=0.0))]
        await until(lambda: first.leading)
        beats.append(asyncio.create_task(beat(second, first=0.0)))
        await until(lambda: second.reached)
        assert (first.leading, second.leading) == (True, False)
        for one in beats:
            one.cancel()
        await asyncio.gather(*beats, return_exceptions=True)


def test_who_is_elected_has_a_lease_already() -> None:
    """The Lease of the election says the same."""
    assert heartbeat(Client(Connection(host="http://127.0.0.1:1")), configuration(leader_elect=True)) is None
