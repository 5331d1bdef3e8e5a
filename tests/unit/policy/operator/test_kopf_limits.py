"""Liveness and readiness in virtual time, and when the operator begins."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any, cast

import aiohttp
import kopf
import msgspec
import pytest

from podberth.kube.client import Client
from podberth.kube.connection import Connection, Tls
from podberth.kube.errors import ApiError, Unreachable
from podberth.policy.operator import kopf_limits
from podberth.policy.operator.kopf_limits import (
    DEAD_SECONDS,
    STALE_SECONDS,
    Essence,
    Pulse,
    Session,
    until_served,
)
from tests.unit.kube.kubeconfigs import Authority
from tests.unit.kube.test_connection import serve_tls
from tests.unit.policy.operator.conftest import Clock


@pytest.fixture
def clock() -> Clock:
    """Virtual time."""
    return Clock()


def test_starts_alive_and_unready(clock: Clock) -> None:
    """A watch that nobody answered yet is no reason to restart, and none to be ready."""
    pulse = Pulse(["a"], clock)
    assert pulse.dead() is None
    assert pulse.age() is None
    assert pulse.unready() == "the watch of MetadataPolicies was not answered yet"


def test_fresh_then_stale(clock: Clock) -> None:
    """An answer makes ready; silence for longer than almost three streams makes unready."""
    pulse = Pulse(["a"], clock)
    pulse.heard("a")
    clock.now += STALE_SECONDS
    assert pulse.unready() is None
    clock.now += 1
    assert "no answer for 151 s" in str(pulse.unready())


def test_an_outage_is_no_death(clock: Clock) -> None:
    """While the API server is away it is alive, until that lasts so long that new certificates may help."""
    pulse = Pulse(["a"], clock)
    pulse.heard("a")
    until = clock.now + DEAD_SECONDS
    while clock.now < until:
        clock.now += 20
        assert pulse.dead() is None
    clock.now += 20
    assert "no answer for 620 s" in str(pulse.dead())


def test_the_oldest_stream_counts(clock: Clock) -> None:
    """With a stream for each namespace, one that fell silent is not hidden by the others."""
    pulse = Pulse(["a", "b"], clock)
    pulse.heard("a")
    assert pulse.age() is None
    pulse.heard("b")
    clock.now += 100
    pulse.heard("a")
    assert pulse.age() == 100
    clock.now += 60
    pulse.heard("a")
    assert pulse.unready() is not None
    clock.now += DEAD_SECONDS
    pulse.heard("a")
    assert pulse.dead() is not None


def test_strangers_do_not_count() -> None:
    """A request for another path proves nothing about ours."""
    pulse = Pulse(["/apis/podberth.dev/v1alpha1/metadatapolicies"])
    pulse.heard("/apis/podberth.dev/v1alpha1/namespaces/a/metadatapolicies")
    assert pulse.age() is None
    pulse.heard("/prefix/apis/podberth.dev/v1alpha1/metadatapolicies")
    assert pulse.age() is not None


def test_no_crd_is_alive_and_unready(clock: Clock) -> None:
    """An API server that says that there are no MetadataPolicies has answered; once there are some, all begins anew."""
    pulse = Pulse(["a"], clock)
    pulse.missing()
    clock.now += DEAD_SECONDS - 1
    pulse.missing()
    assert pulse.dead() is None
    assert "CRD is missing" in str(pulse.unready())
    clock.now += DEAD_SECONDS - 1
    pulse.begin()
    assert pulse.dead() is None
    assert pulse.unready() == "the watch of MetadataPolicies was not answered yet"


GROUP = "podberth.dev"
BEFORE: Any = {"groups": [{"name": "apps"}]}
LISTED: Any = {"groups": [{"name": "apps"}, {"name": GROUP}]}


@pytest.mark.parametrize(
    ("early", "told"),
    [
        ([BEFORE], "is not there"),
        ([LISTED, ApiError(404, "NotFound", "no such group")], "is not there"),
        ([LISTED, {"resources": [{"name": "metadatapolicies/status"}]}], "is not there"),
        ([Unreachable("gone")], "does not say which kinds it has"),
        ([b"<html>"], "does not say which kinds it has"),
    ],
)
async def test_kopf_begins_when_discovery_has_the_kind(
    early: list[Any], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as kopf would not find MetadataPolicies it is not begun, and why is said once."""
    monkeypatch.setattr(kopf_limits, "AGAIN_SECONDS", 0)
    left = [*early, *early, LISTED, {"resources": [{"name": "metadatapolicies"}]}]

    class Discovery:
        async def get(self, _path: str, *, tries: int = 0) -> bytes:
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)

    pulse = Pulse(["a"])
    await until_served(cast("Client", Discovery()), pulse)
    assert not left
    assert not pulse.absent
    assert capsys.readouterr().out.count(told) == 1


def body_of(generation: int = 1, **more: Any) -> kopf.Body:
    """An object as kopf has it."""
    raw: Any = {"metadata": {"generation": generation}, **more}
    return kopf.Body(raw)


def test_what_is_kept_of_a_spec() -> None:
    """The generation, so that a policy of a megabyte has no second megabyte in its status."""
    essence = Essence(name="kopf")
    body = body_of(generation=3, spec={"x": "y" * 1000})
    patch = kopf.Patch()
    essence.store(body=body, patch=patch, essence=essence.build(body=body))
    assert patch == {"status": {"kopf": {"last-handled-configuration": '{"generation":3}'}}}
    assert essence.fetch(body=body_of(**patch)) == {"generation": 3}


@pytest.mark.parametrize("status", ["text", {"kopf": "text"}, {"kopf": {"last-handled-configuration": "{"}}, None])
def test_malformed_statuses_are_none(status: Any) -> None:
    """What an older CRD let in is no reason for a handler to fail for ever."""
    assert Essence(name="kopf").fetch(body=body_of(status=status)) is None


async def test_a_session_that_kopf_has_closed_is_not_kept() -> None:
    """kopf asks for another one after each 401."""
    session = Session(Connection("http://127.0.0.1:1"), Pulse([]), 1)
    first = (await session.open()).aiohttp_session
    kept = weakref.ref(first)
    await first.close()
    del first
    await session.open()
    gc.collect()
    assert kept() is None
    await session.close()


async def test_kopf_is_given_the_servers_name(tmp_path: Path) -> None:
    """Where tls-server-name says so, the certificate is for another host than the URL's, in kopf's requests, too."""
    authority = Authority(tmp_path, "ca")
    runner, _, port = await serve_tls(*authority.issue("server", "DNS:kubernetes"))

    async def asks(server_name: str | None) -> int:
        connection = Connection(f"https://127.0.0.1:{port}", tls=Tls(ca=str(authority.cert)), server_name=server_name)
        given = (await Session(connection, Pulse([]), 1).open()).aiohttp_session
        async with given, given.get(f"{connection.host}/version") as answer:
            return answer.status

    assert await asks("kubernetes") == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await asks(None)
    await runner.cleanup()
