"""The HTTPS side: probes, limits, certificates that change under load, and an end that fails nobody."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from podberth.policy.admission.certificates import Material, advance
from podberth.policy.admission.review import Bytes
from podberth.policy.admission.reviewer import Reviewer, ReviewReply
from podberth.policy.admission.server import LIMIT, AdmissionServer, Metrics
from podberth.policy.options import Pass
from podberth.service.certificate import Certificate, CertificateError
from tests.unit.policy.admission.builders import config_map, encoded, pod, policy, review, rule
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.admission.test_reviewer import DEFAULT_TEAM, ROUTE, reviewer

JSON = {"Content-Type": "application/json"}


def material(before: Material | None = None) -> Material:
    """A certificate for 127.0.0.1; or, from one, the next one, with both to trust."""
    now = datetime.now(UTC)
    made = advance(before, ("127.0.0.1",), now, settled=True, rotate_before=now if before else None)
    return made if before is None else advance(made, ("127.0.0.1",), now, settled=True)


class Site:
    """A running server and a client that trusts a bundle."""

    def __init__(self, by: Reviewer) -> None:
        self.tls = Certificate()
        self.material = material()
        self.tls.load(self.material.serving, self.material.serving_key, "first")
        self.why: str | None = None
        self.metrics = Metrics({})
        self.server = AdmissionServer(by, self.metrics, lambda: self.tls.context, lambda: self.why)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def session(self, bundle: bytes | None = None, **more: Any) -> aiohttp.ClientSession:
        """A client; one that trusts the first certificate unless told otherwise."""
        context = ssl.create_default_context(cadata=(bundle or self.material.bundle).decode())
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go does
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, **more))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A server with two policies for the namespace `team`."""
    made = Site(reviewer(DEFAULT_TEAM, ROUTE))
    await made.server.start("127.0.0.1", 0)
    yield made
    await made.server.stop()


async def post(session: aiohttp.ClientSession, url: str, body: Any, **more: Any) -> tuple[int, bytes]:
    """POST, read to the end."""
    body = io.BytesIO(body) if isinstance(body, bytes) else body
    async with session.post(url, data=body, headers={**JSON, **more.pop("headers", {})}, **more) as response:
        return response.status, await response.read()


async def test_reviews_and_probes(site: Site) -> None:
    """Reviews are answered as JSON, probes say ok, metrics count what was answered."""
    async with site.session() as session:
        for path in ("/mutate", "/validate"):
            status, body = await post(session, site.url + path, encoded(review(config_map())))
            assert (status, json.loads(body)["response"]["allowed"]) == (200, True)
        for path in ("/healthz", "/livez", "/readyz"):
            async with session.get(site.url + path) as response:
                assert (response.status, await response.text()) == (200, "ok\n")
        async with session.get(site.url + "/metrics") as response:
            text = await response.text()
        assert 'berth_admission_reviews_total{endpoint="mutate",operation="CREATE",outcome="mutated"} 1.0' in text


async def test_cold_replica_never_says_yes(site: Site) -> None:
    """Until the policies are known reviews are a 503, readiness says why, and liveness is fine."""
    site.why = "MetadataPolicies not listed yet"
    async with site.session() as session:
        status, body = await post(session, site.url + "/mutate", encoded(review(config_map())))
        assert status == 503 and b"allowed" not in body
        async with session.get(site.url + "/readyz") as response:
            assert (response.status, await response.text()) == (503, "MetadataPolicies not listed yet\n")
        async with session.get(site.url + "/livez") as response:
            assert response.status == 200


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/mutate", 405),
        ("POST", "/readyz", 405),
        ("POST", "/other", 404),
        ("GET", "/", 404),
        ("GET", "/mutate/", 404),
        ("PUT", "/validate", 405),
    ],
)
async def test_other_requests(site: Site, verb: str, path: str, status: int) -> None:
    """What is asked for wrongly is answered plainly."""
    async with site.session() as session, session.request(verb, site.url + path) as response:
        assert response.status == status


async def test_content_types(site: Site) -> None:
    """Only plain JSON is read: a packed body could unpack to anything."""
    async with site.session() as session:
        body = encoded(review(config_map()))
        for headers in ({"Content-Type": "application/yaml"}, {"Content-Encoding": "gzip"}):
            status, said = await post(session, site.url + "/mutate", body, headers=headers)
            assert status == 415 and b"allowed" not in said
        status, _ = await post(session, site.url + "/mutate", b"{")
        assert status == 400


async def test_eight_mebibytes(site: Site) -> None:
    """A review of exactly 8 MiB is answered; one byte more is a 413, with its length told or not."""
    padding = LIMIT - len(encoded(review({**config_map(), "data": {"blob": ""}})))
    body = encoded(review({**config_map(), "data": {"blob": "x" * padding}}))
    assert len(body) == LIMIT

    async def chunks(whole: bytes) -> AsyncIterator[bytes]:
        for i in range(0, len(whole), 1 << 20):
            yield whole[i : i + (1 << 20)]

    async with site.session() as session:
        status, said = await post(session, site.url + "/mutate", body)
        assert (status, json.loads(said)["response"]["allowed"]) == (200, True)
        assert (await post(session, site.url + "/mutate", chunks(body)))[0] == 200
    async with site.session() as session:
        status, said = await post(session, site.url + "/mutate", body + b" ")
        assert status == 413 and b"8388608" in said
    async with site.session() as session:
        assert (await post(session, site.url + "/mutate", chunks(body + b" ")))[0] == 413
    assert b'outcome="too-large"' in site.metrics.text()


async def test_many_big_reviews(site: Site) -> None:
    """Thirty reviews of 3 MiB at once are all answered, few at a time, while small ones pass by."""
    big = encoded(review({**config_map(), "data": {"blob": "x" * (3 << 20)}}))
    small = encoded(review(pod()))
    async with site.session() as session:
        jobs = [post(session, site.url + "/mutate", big if i % 2 else small) for i in range(60)]
        assert {status for status, _ in await asyncio.gather(*jobs)} == {200}


class Broken(Reviewer):
    """A reviewer with a bug."""

    def __init__(self) -> None:
        pass

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        raise KeyError("hunter2")


async def test_bug_is_no_answer() -> None:
    """A bug of ours is a 500 without details, for the failurePolicy to judge: never a yes."""
    made = Site(Broken())
    await made.server.start("127.0.0.1", 0)
    async with made.session() as session:
        status, body = await post(session, made.url + "/validate", encoded(review(pod())))
    await made.server.stop()
    assert status == 500
    assert b"allowed" not in body and b"hunter2" not in body


async def test_certificate_changes_under_load(site: Site) -> None:
    """While calls go on, old connections live on, new ones get the new certificate, and no call fails."""
    second = material(site.material)
    body = encoded(review(pod()))
    stop = asyncio.Event()

    async def caller(fresh: bool) -> int:
        count = 0
        async with site.session(second.bundle, force_close=fresh) as session:
            while not stop.is_set():
                status, said = await post(session, site.url + "/mutate", body)
                assert (status, json.loads(said)["response"]["allowed"]) == (200, True)
                count += 1
        return count

    async def swapper() -> None:
        for i in range(20):
            pair = (site.material, second)[i % 2]
            site.tls.load(pair.serving, pair.serving_key, "pair")
            async with site.session(pair.serving) as session:  # trusts nothing but this one
                assert (await post(session, site.url + "/validate", body))[0] == 200
        stop.set()

    counts = await asyncio.gather(caller(True), caller(False), caller(False), swapper())
    assert all(counts[:3])


async def test_bad_pair_changes_nothing(site: Site) -> None:
    """A key that does not fit its certificate is refused, and the old pair is served on."""
    other = material()
    with pytest.raises(CertificateError, match="expected a certificate in PEM form that fits its key"):
        site.tls.load(other.serving, site.material.serving_key, "other")
    with pytest.raises(CertificateError) as error:
        site.tls.load(b"rubbish", b"-----BEGIN PRIVATE KEY-----\nhunter2\n", "rubbish")
    assert "hunter2" not in str(error.value)
    async with site.session() as session:
        assert (await post(session, site.url + "/mutate", encoded(review(pod()))))[0] == 200


class Slow(Reviewer):
    """A reviewer whose answers wait for the test."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        self.begun.set()
        await self.go_on.wait()
        return ReviewReply(200, b"{}", "allowed")


async def test_drain_finishes_what_is_under_way() -> None:
    """Draining fails readiness at once, still answers, ends connections, and lets the last review finish."""
    slow = Slow()
    made = Site(slow)
    await made.server.start("127.0.0.1", 0)
    async with made.session() as session:
        asking = asyncio.create_task(post(session, made.url + "/mutate", b"{}"))
        await slow.begun.wait()
        draining = asyncio.create_task(made.server.drain(0.3))
        await until(lambda: made.server.draining)
        async with session.get(made.url + "/readyz") as response:
            assert response.status == 503
            assert response.headers["Connection"] == "close"
        async with session.get(made.url + "/livez") as response:
            assert response.status == 200
        asyncio.get_running_loop().call_later(0.5, slow.go_on.set)  # after it has stopped listening
        assert (await asking)[0] == 200
        await draining
        with pytest.raises(aiohttp.ClientConnectorError):
            await post(session, made.url + "/mutate", b"{}")


async def test_reject_all_is_a_403(site: Site) -> None:
    """A denial travels in a 200, as the API server wants it."""
    made = Site(reviewer(policy("all", rule(reject=True))))
    await made.server.start("127.0.0.1", 0)
    async with made.session() as session:
        status, body = await post(session, made.url + "/validate", encoded(review(pod())))
    await made.server.stop()
    assert (status, json.loads(body)["response"]["status"]["code"]) == (200, 403)
