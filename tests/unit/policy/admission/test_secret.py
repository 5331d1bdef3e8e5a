"""The shared Secret on an embedded API server: made once, rotated, put back, and never taken from others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from podberth.kube.client import Client
from podberth.policy.admission.certificates import OURS, ROTATE, CertificateError, ServingTls, SharedSecret
from tests.unit.policy.admission.conftest import NAMESPACE, Api, until

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ONE = f"{SECRETS}/tls"
NAMES = ("127.0.0.1",)


class Clock:
    """Wall time that the test moves."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


def shared(client: Client, clock: Clock | None = None) -> SharedSecret:
    """A replica's view of the Secret `tls`."""
    overlap = timedelta(minutes=5)
    return SharedSecret(client, NAMESPACE, "tls", NAMES, ServingTls(), overlap=overlap, now=clock or Clock())


async def test_one_of_many_makes_it(api: Api) -> None:
    """Of eight replicas that start at once, one makes the Secret and all serve what is in it."""
    async with api.client() as client:
        replicas = [shared(client) for _ in range(8)]
        await asyncio.gather(*(replica.ready() for replica in replicas))
    stored = await api.get(ONE)
    assert stored["metadata"]["labels"] == OURS
    assert set(stored["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert len({replica.bundle for replica in replicas}) == 1
    assert len({replica.material.serving for replica in replicas if replica.material}) == 1


async def test_empty_secret_is_filled(api: Api) -> None:
    """A Secret that a chart made empty is filled in place, and keeps its own annotations."""
    await api.create(SECRETS, {"metadata": {"name": "tls", "annotations": {"chart": "berth"}}})
    async with api.client() as client:
        await shared(client).ready()
    stored = await api.get(ONE)
    assert stored["metadata"]["annotations"] == {"chart": "berth"}
    assert len(stored["data"]) == 4


async def test_foreign_secret_is_not_touched(api: Api) -> None:
    """A Secret of our name with somebody else's content is an error, and stays as it is."""
    await api.create(SECRETS, {"metadata": {"name": "tls"}, "data": {"password": "aHVudGVyMg=="}})
    async with api.client() as client:
        with pytest.raises(CertificateError, match="does not have Berth's label") as error:
            await shared(client).ensure()
    assert "hunter" not in str(error.value)
    assert (await api.get(ONE))["data"] == {"password": "aHVudGVyMg=="}


async def test_deleted_secret_is_put_back(api: Api) -> None:
    """A Secret deleted by hand is put back as it was: no client loses its trust."""
    async with api.client() as client:
        replica = shared(client)
        await replica.ready()
        before = (await api.get(ONE))["data"]
        following = asyncio.create_task(replica.follow())
        try:
            await until(lambda: replica.reflector.has_synced)
            assert (await api.call("DELETE", ONE)).status == 200

            async def back() -> bool:
                return (await api.call("GET", ONE)).status == 200

            await until(back)
        finally:
            following.cancel()
        assert (await api.get(ONE))["data"] == before


async def test_damaged_secret_is_mended(api: Api) -> None:
    """What is in memory replaces what somebody broke; a replica that starts then makes everything anew."""
    async with api.client() as client:
        replica = shared(client)
        await replica.ready()
        before = (await api.get(ONE))["data"]
        damage = {"data": {"tls.key": before["ca.key"]}}
        await api.call("PATCH", ONE, damage, "application/merge-patch+json")
        await replica.ensure()
        assert (await api.get(ONE))["data"] == before
        await api.call("PATCH", ONE, damage, "application/merge-patch+json")
        newcomer = shared(client)
        await newcomer.ensure()
        assert newcomer.bundle != replica.bundle
        assert (await api.get(ONE))["data"]["tls.key"] != before["ca.key"]


async def test_rotation_on_demand(api: Api) -> None:
    """The annotation makes the leader add a CA, sign with it once it is published, and drop the old one."""
    clock = Clock()
    async with api.client() as client:
        leader, other = shared(client, clock), shared(client, clock)
        await leader.ready()
        await other.ready()
        first = leader.bundle
        clock.now += timedelta(minutes=1)
        moment = (clock.now - timedelta(seconds=1)).isoformat()
        marked = {"metadata": {"annotations": {ROTATE: moment}}}
        await api.call("PATCH", ONE, marked, "application/merge-patch+json")

        await leader.advance(published=True)
        assert leader.bundle is not None and leader.bundle.endswith(first or b"-")
        assert leader.material is not None
        served = leader.material.serving
        await leader.advance(published=False)
        assert leader.material.serving == served
        await leader.advance(published=True)
        assert leader.material.serving != served
        clock.now += timedelta(minutes=6)
        await leader.advance(published=True)
        assert leader.bundle is not None and first is not None and first not in leader.bundle
        await other.ensure()
        assert other.bundle == leader.bundle
        assert (await api.get(ONE))["metadata"]["annotations"] == {ROTATE: moment}


async def test_unreadable_demand_is_ignored(api: Api) -> None:
    """An annotation that is no time rotates nothing."""
    async with api.client() as client:
        replica = shared(client)
        await replica.ready()
        marked = {"metadata": {"annotations": {ROTATE: "as soon as possible"}}}
        await api.call("PATCH", ONE, marked, "application/merge-patch+json")
        before = replica.bundle
        await replica.advance(published=True)
        assert replica.bundle == before
