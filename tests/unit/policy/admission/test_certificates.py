"""Certificates through their life: what is made when, that whoever connects trusts them at every moment, and the
Secret on an embedded API server: made once, rotated, put back, and never taken from others.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509

from podberth.kube.client import Client
from podberth.policy.admission import certificates
from podberth.policy.admission.certificates import OURS, ROTATE, Material, MountedFiles, SharedSecret, advance
from podberth.service.certificate import OWN_DAYS, Certificate, CertificateError
from tests.unit.policy.admission.conftest import NAMESPACE, Api, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("berth-admission.berth.svc", "127.0.0.1")


def step(material: Material | None, now: datetime, *, settled: bool = True, rotate: datetime | None = None) -> Material:
    """One look at it."""
    return advance(material, NAMES, now, settled=settled, rotate_before=rotate)


def trusted(material: Material, bundle: bytes, now: datetime) -> bool:
    """Whether a client that knows the bundle accepts the serving certificate, which signs itself."""
    leaf = x509.load_pem_x509_certificate(material.serving)
    return leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc and material.serving in bundle


def names(material: Material) -> list[str]:
    """Whom the newest certificate is good for."""
    leaf = x509.load_pem_x509_certificate(material.trusted[0])
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


def test_first_material() -> None:
    """From nothing comes a certificate for all names, good for clients whose clock is a little behind."""
    made = step(None, NOW)
    assert trusted(made, made.bundle, NOW - timedelta(minutes=4))
    assert names(made) == [*NAMES]
    assert step(made, NOW + timedelta(days=100)) is made


def test_names_are_kept_up() -> None:
    """A name that is wanted and not in the certificate leads to a new one at once; one that is too many does not."""
    made = step(None, NOW)
    wider = advance(made, (*NAMES, "other.example"), NOW, settled=False)
    assert (wider.trusted, wider.serving) == ((wider.serving, made.serving), wider.trusted[0])
    assert names(wider) == [NAMES[0], "other.example", NAMES[1]]
    assert step(wider, NOW, settled=False) is wider


def test_mounted_authorities_without_overlap(tmp_path: Path) -> None:
    """The bundle is what the file holds now: it is never empty, as API servers would then trust the system's CAs."""
    files = {name: tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")}

    def mount(material: Material) -> None:
        for path, content in zip(
            files.values(), (material.serving, material.serving_key, material.serving), strict=True
        ):
            path.write_bytes(content)

    first, second = step(None, NOW), step(None, NOW)
    mount(first)
    mounted = MountedFiles(files["tls.crt"], files["tls.key"], files["ca.crt"], Certificate(), overlap=timedelta(0))
    assert mounted.look()
    assert mounted.bundle == first.serving
    mount(second)
    assert mounted.look()
    assert mounted.bundle == second.serving


def test_it_is_renewed_with_overlap() -> None:
    """After two thirds of its year: a new one is trusted before it is served, and the old one while anybody may serve
    it.
    """
    made = step(None, NOW)
    later = NOW + timedelta(days=OWN_DAYS * 0.67)
    joined = step(made, later)
    assert (joined.trusted[1:], joined.serving) == (made.trusted, made.serving)
    assert step(joined, later + timedelta(days=1), settled=False) is joined  # not before everybody trusts it

    served = step(joined, later)
    assert (served.trusted, served.serving) == (joined.trusted, joined.trusted[0])
    assert step(served, later, settled=False) is served
    done = step(served, later)
    assert done.trusted == joined.trusted[:1]
    assert step(done, later) is done

    for before, after in pairwise([made, joined, served, done]):
        for one in (before, after):  # replicas and API servers may each be one stage behind
            for known in (before, after):
                assert trusted(one, known.bundle, later)


def test_rotation_on_demand() -> None:
    """A certificate made before the moment asked for is replaced with the same overlap, once."""
    made = step(None, NOW)
    asked = NOW + timedelta(hours=2)
    assert step(made, NOW + timedelta(minutes=1), rotate=asked) is made  # the moment has not come
    joined = step(made, asked, rotate=asked)
    assert len(joined.trusted) == 2
    assert step(joined, asked, settled=False, rotate=asked) is joined
    done = step(step(joined, asked, rotate=asked), asked, rotate=asked)
    assert len(done.trusted) == 1
    assert step(done, asked, rotate=asked) is done


def test_after_a_long_sleep() -> None:
    """When it has ended there is nothing to wait for: one step gives what can be served."""
    made = step(None, NOW)
    later = NOW + timedelta(days=OWN_DAYS + 1)
    woken = step(made, later, settled=False)
    assert trusted(woken, woken.bundle, later)
    joined = step(made, NOW + timedelta(days=OWN_DAYS * 0.7))
    assert trusted(step(joined, later, settled=False), joined.bundle, later)


def test_what_is_served_is_always_trusted() -> None:
    """Whatever the order of looks, publications and demands, the bundle has the served certificate."""
    material, now = step(None, NOW), NOW
    for i in range(60):
        now += timedelta(days=37, minutes=i)
        demand = now - timedelta(days=20) if i % 7 == 0 else None
        material = step(material, now, settled=i % 3 != 0, rotate=demand)
        assert trusted(material, material.bundle, now)
        assert len(material.trusted) <= 3


def test_read_gives_back_what_was_stored() -> None:
    """Stored parts make the same material; parts of two do not fit, and nothing of them is told."""
    made, other = step(None, NOW), step(None, NOW)
    assert certificates.read(made.bundle, made.newest_key, made.serving, made.serving_key) == made
    for broken in (
        replace(made, serving_key=other.serving_key),
        replace(made, newest_key=other.newest_key),
        replace(made, trusted=other.trusted, newest_key=other.newest_key),
        replace(made, serving=b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"),
        replace(made, serving_key=b""),
        replace(made, trusted=()),
    ):
        with pytest.raises(CertificateError) as error:
            certificates.read(broken.bundle, broken.newest_key, broken.serving, broken.serving_key)
        assert "BEGIN" not in str(error.value)


def test_bundle_is_split() -> None:
    """A bundle's certificates are told apart, whatever their line breaks; rubbish holds none."""
    made, other = step(None, NOW), step(None, NOW)
    text = made.bundle.replace(b"\n", b"\r\n") + b"\n\n" + other.bundle
    assert certificates.certificates(text) == [made.bundle, other.bundle]
    assert certificates.certificates(b"rubbish") == []


# -- the Secret --------------------------------------------------------------------------------------------------------

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ONE = f"{SECRETS}/tls"


class Clock:
    """Wall time that the test moves."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


def shared(client: Client, clock: Clock | None = None) -> SharedSecret:
    """A replica's view of the Secret `tls`."""
    overlap = timedelta(minutes=5)
    return SharedSecret(client, NAMESPACE, "tls", ("127.0.0.1",), Certificate(), overlap=overlap, now=clock or Clock())


async def test_one_of_many_makes_it(api: Api) -> None:
    """Of eight replicas that start at once, one makes the Secret and all serve what is in it."""
    async with api.client() as client:
        replicas = [shared(client) for _ in range(8)]
        await asyncio.gather(*(replica.ready() for replica in replicas))
    stored = await api.get(ONE)
    assert stored["metadata"]["labels"] == OURS
    assert set(stored["data"]) == {"ca.crt", "newest.key", "tls.crt", "tls.key"}
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
        damage = {"data": {"tls.key": before["tls.crt"]}}
        await api.call("PATCH", ONE, damage, "application/merge-patch+json")
        await replica.ensure()
        assert (await api.get(ONE))["data"] == before
        await api.call("PATCH", ONE, damage, "application/merge-patch+json")
        newcomer = shared(client)
        await newcomer.ensure()
        assert newcomer.bundle != replica.bundle
        assert (await api.get(ONE))["data"]["tls.key"] != before["tls.key"]


async def test_rotation_of_the_secret_on_demand(api: Api) -> None:
    """The annotation makes the leader add a certificate, serve it once it is published, and drop the old one."""
    clock = Clock()
    async with api.client() as client:
        leader, other = shared(client, clock), shared(client, clock)
        await leader.ready()
        await other.ready()
        first = leader.bundle
        clock.now += timedelta(hours=2)
        moment = (clock.now - timedelta(seconds=1)).isoformat()
        marked = {"metadata": {"annotations": {ROTATE: moment}}}
        await api.call("PATCH", ONE, marked, "application/merge-patch+json")

        await leader.advance(published=True)
        assert leader.bundle is not None and leader.bundle.endswith(first or b"-")
        assert leader.material is not None
        served = leader.material.serving
        await leader.advance(published=True)  # replicas may not know it yet
        clock.now += timedelta(minutes=6)
        await leader.advance(published=False)
        assert leader.material.serving == served
        await leader.advance(published=True)
        assert leader.material.serving != served
        await leader.advance(published=True)
        assert len(leader.material.trusted) == 2
        clock.now += timedelta(minutes=6)
        await leader.advance(published=True)
        assert leader.bundle is not None and first is not None and first not in leader.bundle
        await other.ensure()
        assert other.bundle == leader.bundle
        assert (await api.get(ONE))["metadata"]["annotations"] == {ROTATE: moment}


@pytest.mark.parametrize("demand", ["as soon as possible", "0001-01-01T00:00:00+14:00"])
async def test_unreadable_demand_is_ignored(api: Api, demand: str) -> None:
    """An annotation that is no time rotates nothing."""
    async with api.client() as client:
        replica = shared(client)
        await replica.ready()
        marked = {"metadata": {"annotations": {ROTATE: demand}}}
        await api.call("PATCH", ONE, marked, "application/merge-patch+json")
        before = replica.bundle
        await replica.advance(published=True)
        assert replica.bundle == before
