"""The client against a scripted server: answers, credentials, pauses, broken connections."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from podberth.kube import client as client_module
from podberth.kube.connection import RETRY_SECONDS, Connection, Credential, Credentials
from podberth.kube.errors import ApiError, ConfigError, Unreachable
from podberth.kube.flow import BIND, EVICT, LANES, LEASE, STATUS
from tests.unit.kube.conftest import ScriptedServer
from tests.unit.kube.wirekit import DONE, listing, status, stored

Until = Callable[..., Awaitable[None]]


def script(*answers: web.Response) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Give these answers in turn; the last one repeats."""
    left = list(answers)

    async def answer(_: web.Request) -> web.StreamResponse:
        found = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=found.status, body=found.body, headers=found.headers)

    return answer


@pytest.mark.parametrize("code", [200, 201, 202])
async def test_every_2xx_is_success(server: ScriptedServer, code: int) -> None:
    """200, 201 and 202 all give the body back (the typed client used to raise after a successful bind)."""
    server.answer = script(web.Response(status=code, body=DONE))
    async with server.client() as client:
        assert await client.create("/api/v1/namespaces/ns/pods/a/binding", b"{}", lane=BIND) == DONE
    assert server.seen == [("POST", "/api/v1/namespaces/ns/pods/a/binding")]
    assert server.bodies == [b"{}"]
    assert server.headers[0]["Content-Type"] == "application/json"
    assert server.headers[0]["User-Agent"] == "berth"
    assert "Accept-Encoding" not in server.headers[0]


@pytest.mark.parametrize("page", [b"<html>sign in</html>", b"ok", b""])
@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_page_is_no_answer(server: ScriptedServer, verb: str, page: bytes) -> None:
    """Of what is no JSON object the code is a proxy's: nobody knows what became of the request (seed 50397)."""
    server.answer = script(web.Response(body=page, content_type="text/html"))
    async with server.client() as client:
        for path in ("/api/v1/nodes/n", "/apis/apps/v1/namespaces/ns/deployments/d"):
            with pytest.raises(Unreachable, match="none of an API server's") as caught:
                await client.request(verb, path)
            assert caught.value.sent
    assert len(server.seen) == 2


async def test_other_paths_may_answer_in_text(server: ScriptedServer) -> None:
    """Only of the API it is known that it answers in JSON; white space before an object is no matter."""
    server.answer = script(web.Response(body=b"up 1"), web.Response(body=b" \n" + stored("Node", "n")))
    async with server.client() as client:
        assert await client.get("/metrics") == b"up 1"
        assert await client.get("/api/v1/nodes/n") == b" \n" + stored("Node", "n")


async def test_verbs_and_content_types(server: ScriptedServer) -> None:
    """Each thin method sends its verb, its media type and its query, and a path is sent as it was encoded."""
    server.answer = script(web.Response(body=listing(7)))
    async with server.client() as client:
        await client.get("/api/v1/pods", query="limit=1&continue=a%2Bb%3D")
        await client.request("PUT", "/x", body=b"{}")
        await client.patch("/x%2Fy", b"{}", client_module.STRATEGIC_MERGE_PATCH)
        await client.delete("/x", b"{}")
        await client.delete("/x")
    assert server.seen == [
        ("GET", "/api/v1/pods?limit=1&continue=a%2Bb%3D"),
        ("PUT", "/x"),
        ("PATCH", "/x%2Fy"),
        ("DELETE", "/x"),
        ("DELETE", "/x"),
    ]
    assert [headers.get("Content-Type") for headers in server.headers] == [
        None,
        "application/json",
        "application/strategic-merge-patch+json",
        "application/json",
        None,
    ]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (
            web.json_response(status(409, "Conflict", "pod a is\nalready assigned", name="a", kind="pods"), status=409),
            (409, "Conflict", "pod a is already assigned", None),
        ),
        (
            web.json_response(status(500, "ServerTimeout", "later", retryAfterSeconds=3), status=500),
            (500, "ServerTimeout", "later", 3.0),
        ),
        (web.Response(status=502, text="<html>\n<h1>Bad Gateway</h1>"), (502, "", "<html> <h1>Bad Gateway</h1>", None)),
        (web.Response(status=404, body=b"\xff\x00"), (404, "", "\ufffd", None)),
        (web.Response(status=302, headers={"Location": "http://elsewhere/"}), (302, "", "", None)),
        (web.Response(status=400, text="x" * 9000), (400, "", "x" * 1023 + "…", None)),
    ],
    ids=["status", "details", "html", "bytes", "redirect", "long"],
)
async def test_refusals_become_api_errors(
    server: ScriptedServer, answer: web.Response, want: tuple[int, str, str, float | None]
) -> None:
    """A Status is read; whatever else a proxy says is kept as one bounded line; redirects are not followed."""
    server.answer = script(answer)
    async with server.client() as client:
        with pytest.raises(ApiError) as caught:
            await client.get("/x")
    error = caught.value
    assert (error.status, error.reason, error.message, error.retry_after) == want
    assert len(server.seen) == 1


class Asleep:
    """Virtual time: who sleeps moves it, and goes on at once."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []
        self._sleep = asyncio.sleep

    async def sleep(self, seconds: float) -> None:
        """As `asyncio.sleep`."""
        self.pauses.append(seconds)
        self.now += seconds
        await self._sleep(0)


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> Asleep:
    """Everybody who sleeps does so in virtual time."""
    made = Asleep()
    monkeypatch.setattr(asyncio, "sleep", made.sleep)
    return made


async def test_a_refusal_has_its_warnings(server: ScriptedServer) -> None:
    """Each answer has its own, on a connection that is used again."""
    headers = [("Warning", '299 - "one"'), ("Warning", '299 - "two"')]
    server.answer = script(web.Response(status=403, headers=headers), web.Response(status=403))
    async with server.client() as client:
        for wanted in (['299 - "one"', '299 - "two"'], []):
            with pytest.raises(ApiError) as refused:
                await client.get("/x")
            assert list(refused.value.warnings) == wanted


async def test_429_with_retry_after_pauses_the_whole_lane(server: ScriptedServer, asleep: Asleep) -> None:
    """The refused request and its neighbours wait the time asked for, other lanes do not, and all get through."""
    server.answer = script(
        web.Response(status=429, text="Too many requests", headers={"Retry-After": "7"}), web.Response(body=b"{}")
    )
    async with server.client(clock=lambda: asleep.now, rng=lambda: 0.0) as client:
        await client.create("/x", b"{}", lane=STATUS)
        assert asleep.pauses == [7.0]
        assert client.retries == {429: 1}
        server.answer = script(web.Response(status=503, headers={"Retry-After": "2"}))
        with pytest.raises(ApiError, match="503"):
            await client.request("GET", "/x", lane=STATUS, tries=1)
        server.answer = script(web.Response(body=b"{}"))
        await client.get("/other")  # another lane
        assert asleep.pauses == [7.0]
        await client.request("GET", "/x", lane=STATUS)  # the neighbour
        assert asleep.pauses == [7.0, 2.0]


async def test_tries_are_bounded(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never recovers is asked ten times, then the error comes out; without Retry-After only once."""
    real_sleep = asyncio.sleep
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        await real_sleep(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    server.answer = script(web.Response(status=429, headers={"Retry-After": "0"}))
    async with server.client(clock=lambda: now) as client:
        with pytest.raises(ApiError, match="429"):
            await client.get("/x")
        assert len(server.seen) == 10
        server.answer = script(web.Response(status=503))
        with pytest.raises(ApiError, match="503"):
            await client.get("/x")
        assert len(server.seen) == 11


async def test_an_hour_is_not_obeyed(server: ScriptedServer, asleep: Asleep) -> None:
    """A maintenance page asks for an hour: writes pause for half a minute, and the Lease not at all."""
    page = web.Response(status=503, text="<html>back soon</html>", headers={"Retry-After": "3600"})
    async with server.client(clock=lambda: asleep.now, rng=lambda: 0.0) as client:
        server.answer = script(page)
        with pytest.raises(ApiError, match="503"):
            await client.request("PUT", "/lease", body=b"{}", lane=LEASE, tries=1)
        server.answer = script(page, web.Response(body=b"{}"))
        await client.create("/binding", b"{}", lane=BIND)
        assert asleep.pauses == [30.0]
        await client.request("PUT", "/lease", body=b"{}", lane=LEASE, tries=1)
        assert asleep.pauses == [30.0]


async def test_a_credential_plugin_may_fail_as_it_likes(server: ScriptedServer) -> None:
    """Whatever it raises, the request was not sent; the next one asks it again."""
    moods = [RuntimeError("boom"), OSError("no such program"), ValueError("not JSON")]

    def fetch() -> Credential:
        if moods:
            raise moods.pop()
        return Credential("Bearer good", 3600.0)

    server.answer = script(web.Response(body=b"{}"))
    now = 0.0
    credentials = Credentials(fetch, clock=lambda: now)
    for _ in range(3):
        with pytest.raises(Unreachable, match="no credentials") as caught:
            async with server.client(credentials):
                raise AssertionError("nothing was sent yet, so nobody may use it")
        assert not caught.value.sent
        now += RETRY_SECONDS
    async with server.client(credentials) as client:
        assert await client.get("/x", tries=1) == b"{}"
    assert server.authorizations == ["Bearer good"]


async def test_a_disruption_budget_is_no_overload(server: ScriptedServer) -> None:
    """An eviction's 429 for its budget is the caller's to handle at once, and stops no other eviction."""
    body = status(429, "TooManyRequests", "would violate", causes=[{"reason": "DisruptionBudget"}])
    server.answer = script(web.json_response(body, status=429, headers={"Retry-After": "10"}), web.Response(body=b"{}"))
    async with server.client() as client:
        with pytest.raises(ApiError) as caught:
            await client.create("/x", b"{}", lane=EVICT)
        assert caught.value.has_cause("DisruptionBudget")
        await client.create("/y", b"{}", lane=EVICT)


async def test_a_rotated_token_is_read_after_a_401(server: ScriptedServer, tmp_path: Path) -> None:
    """The token file changed under us: the 401 makes us read it again and the request succeeds; once for many."""
    token = tmp_path / "token"
    token.write_text("old\n")
    reads = 0

    def fetch() -> Credential:
        nonlocal reads
        reads += 1
        return Credential(f"Bearer {token.read_text().strip()}", 3600.0)

    async def answer(request: web.Request) -> web.StreamResponse:
        fresh = request.headers["Authorization"] == "Bearer new"
        return web.Response(body=b"{}") if fresh else web.json_response(status(401, "Unauthorized"), status=401)

    server.answer = answer
    async with server.client(Credentials(fetch)) as client:
        assert reads == 1
        with pytest.raises(ApiError, match="401"):
            await client.get("/x")
        assert reads == 2
        assert len(server.seen) == 2
        token.write_text("new\n")
        await asyncio.gather(*(client.get("/x") for _ in range(20)))
        assert reads == 3
        async with client.stream("/watch", idle=5) as stream:
            assert await stream.read() == b"{}"


async def test_a_watch_renews_the_token_too(server: ScriptedServer) -> None:
    """A 401 on opening a stream is renewed and tried once more."""
    tokens = iter(["old", "new"])
    server.answer = script(web.Response(status=401), web.Response(body=b"line\n"))
    async with (
        server.client(Credentials(lambda: Credential(next(tokens)))) as client,
        client.stream("/watch", idle=5) as stream,
    ):
        assert await stream.read() == b"line\n"
        assert await stream.read() == b""
    assert server.authorizations == ["old", "new"]


async def test_an_expiring_token_is_renewed_before_it_is_used(server: ScriptedServer) -> None:
    """A header that is due by the clock is fetched anew first; a failing renewal keeps the old header for a while."""
    now = 0.0
    tokens: list[str] = ["one", "two"]

    def fetch() -> Credential:
        if not tokens:
            raise ConfigError("plugin is broken")
        return Credential(tokens.pop(0), 60.0)

    server.answer = script(web.Response(body=b"{}"))
    async with server.client(Credentials(fetch, lambda: now)) as client:
        for at in (0.0, 59.0, 61.0, 130.0):
            now = at
            await client.get("/x")
    assert server.authorizations == ["one", "one", "two", "two"]


async def test_no_connection_is_unreachable_and_not_sent() -> None:
    """A refused connection raises Unreachable with sent=False: a bind surely did not happen."""
    async with client_module.Client(Connection(host="http://127.0.0.1:1"), qps=-1) as client:
        with pytest.raises(Unreachable) as caught:
            await client.create("/x", b"{}", lane=BIND)
    assert not caught.value.sent


async def test_a_reset_after_sending_is_unreachable_and_maybe_sent(server: ScriptedServer) -> None:
    """The server hangs up without an answer: whether it acted is open, and a POST is not repeated."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.answer = answer
    async with server.client() as client:
        with pytest.raises(Unreachable) as caught:
            await client.create("/x", b"{}", lane=BIND)
    assert caught.value.sent
    assert len(server.seen) == 1


@pytest.mark.parametrize("heard", [False, True])
async def test_a_slow_answer_times_out(server: ScriptedServer, heard: bool) -> None:
    """After the request's own timeout: Unreachable, timed_out, maybe sent; and it is told whether some of it came."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if heard:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"{")
        await asyncio.Event().wait()
        raise AssertionError

    server.answer = answer
    async with server.client() as client:
        with pytest.raises(Unreachable) as caught:
            await client.create("/x", b"{}", timeout=0.5)
    assert (caught.value.timed_out, caught.value.sent, caught.value.heard) == (True, True, heard)


@pytest.mark.parametrize("part", [b"", b'{"half":'])
async def test_an_answer_cut_short_is_unreachable(server: ScriptedServer, part: bytes) -> None:
    """A body shorter than announced is no answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(part)
        assert request.transport is not None
        request.transport.close()
        return response

    server.answer = answer
    async with server.client() as client:
        with pytest.raises(Unreachable):
            await client.request("POST", "/x", body=b"{}")


async def test_gzip_is_understood_though_not_asked_for(server: ScriptedServer) -> None:
    """A proxy that compresses anyway does no harm."""
    server.answer = script(web.Response(body=gzip.compress(b'{"a":1}'), headers={"Content-Encoding": "gzip"}))
    async with server.client() as client:
        assert await client.get("/x") == b'{"a":1}'


async def test_status_patches_never_hold_up_binds(server: ScriptedServer, until: Until) -> None:
    """A crowd of status patches fills its lane's places at a stuck server; a bind goes through at once."""
    stuck = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH":
            await stuck.wait()
        return web.Response(body=b"{}")

    server.answer = answer
    async with server.client() as client:
        crowd = [asyncio.create_task(client.patch("/status", b"{}", lane=STATUS)) for _ in range(50)]
        await until(lambda: len(server.seen) == STATUS.width)
        await client.create("/binding", b"{}", lane=BIND)
        assert len(server.seen) == STATUS.width + 1
        stuck.set()
        await asyncio.gather(*crowd)


async def test_the_rate_is_shared_but_for_a_few_lanes(server: ScriptedServer) -> None:
    """With a burst of one, the second API request has to wait; events, leases, reviews, checks have their own token."""
    own = {lane.name for lane in LANES if lane.own_bucket}
    assert own == {"event", "lease", "review", "check"}
    server.answer = script(web.Response(body=b"{}"))
    async with server.client(qps=0.001, burst=1) as client:
        for lane in LANES:
            if lane.own_bucket:
                await client.create("/x", b"{}", lane=lane)
        await client.get("/x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.get("/x")
    assert len(server.seen) == 1 + len(own)


async def test_a_fence_stops_writes_where_they_wait(server: ScriptedServer) -> None:
    """Once the term is over, no write leaves, not even one that waited for its turn; reads and the Lease go on."""
    server.answer = script(web.Response(body=b"{}"))
    async with server.client() as client:
        client.fence = lambda: 5.0
        await client.create("/binding", b"{}", lane=BIND)
        server.answer = script(
            web.Response(status=429, headers={"Retry-After": "0"}, body=b"{}"), web.Response(body=b"{}")
        )
        waits = asyncio.create_task(client.create("/waits", b"{}", lane=BIND))
        client.fence = lambda: 5.0 if len(server.seen) < 2 else 0.0
        with pytest.raises(Unreachable, match="do not lead") as caught:
            await waits
        assert not caught.value.sent
        for lane in LANES:
            if lane.fenced:
                with pytest.raises(Unreachable, match="do not lead"):
                    await client.patch("/x", b"{}", lane=lane)
        await client.get("/read")
        await client.create("/lease", b"{}", lane=LEASE)
    assert [path for _, path in server.seen] == ["/binding", "/waits", "/read", "/lease"]


@pytest.mark.parametrize("many", [False, True], ids=["one", "several"])
async def test_a_fence_stops_writes_that_waited_for_a_connection(server: ScriptedServer, many: bool) -> None:
    """It is open when their turn comes, and closed when they are about to leave."""
    left = [5.0, 0.0]
    async with server.client() as client:
        client.fence = lambda: left.pop(0)
        with pytest.raises(Unreachable, match="do not lead") as caught:
            if many:
                await client.create_many([("/a", b"{}"), ("/b", b"{}")], "application/json", lane=BIND)
            else:
                await client.create("/a", b"{}", lane=BIND)
    assert (caught.value.sent, server.seen) == (False, [])


async def test_impersonation_headers_go_with_each_request(server: ScriptedServer) -> None:
    """Repeated headers (groups) stay repeated."""
    server.answer = script(web.Response(body=b"{}"))
    headers = (("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    seen: list[list[str]] = []
    plain = server.answer

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.getall("Impersonate-Group"))
        return await plain(request)

    server.answer = answer
    async with client_module.Client(Connection(host=server.url, headers=headers), qps=-1) as client:
        await client.get("/x")
    assert seen == [["a", "b"]]
