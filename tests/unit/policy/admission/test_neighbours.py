"""One namespace at its worst, and the others' reviews: costly policies, large bodies, and clients that hang up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from podberth.policy.admission import server
from podberth.policy.admission.review import BIG_BYTES, Bytes, Hint
from podberth.policy.admission.reviewer import Reviewer, ReviewReply
from podberth.policy.admission.server import BODIES
from podberth.policy.admission.turns import OverloadedError
from podberth.policy.options import Pass
from tests.unit.policy.admission.builders import Object, config_map, encoded, pod, policy, review, rule
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.admission.test_reviewer import DEFAULT_TEAM, reviewer
from tests.unit.policy.admission.test_server import Site, post

SPEAKS = {f"k{i}": "v" for i in range(32)}


def costly(count: int, namespace: str = "evil") -> list[Object]:
    """Policies in mode warn, each with 64 rules of 64 writes that match everything."""
    rules = [rule(labels=SPEAKS, annotations=SPEAKS) for _ in range(64)]
    return [policy(f"p{i}", *rules, namespace=namespace, mode="warn") for i in range(count)]


# -- policies that are dear to judge -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dear", ["policies", "body"])
async def test_nobody_waits_behind_costly_reviews(dear: str) -> None:
    """Ten costly reviews of a namespace come first, and another's small one after them: it is answered before all."""
    by = reviewer(DEFAULT_TEAM, *costly(1))
    done: list[str] = []
    evil = config_map() if dear == "policies" else {**config_map(), "data": {"blob": "x" * BIG_BYTES}}

    async def ask(name: str, document: Object) -> None:
        assert (await by.answer(encoded(document), "mutate")).status == 200
        done.append(name)

    many = [ask("evil", review(evil, namespace="evil")) for _ in range(10)]
    await asyncio.gather(*many, ask("team", review(config_map())))
    assert done == ["team", *["evil"] * 10]


async def test_dear_ones_are_judged_one_after_the_other() -> None:
    """Between two of them what is small has its turns, also when it comes later than all of them."""
    by = reviewer(DEFAULT_TEAM, *costly(1))
    done: list[str] = []

    async def ask(name: str, document: Object) -> None:
        assert (await by.answer(encoded(document), "mutate")).status == 200
        done.append(name)

    async def late() -> None:
        await until(lambda: "evil" in done)
        await ask("team", review(config_map()))

    many = [ask("evil", review(config_map(), namespace="evil")) for _ in range(10)]
    await asyncio.gather(*many, late())
    assert done.index("team") < 5


# -- large bodies ------------------------------------------------------------------------------------------------------


class Gate(Reviewer):
    """A reviewer whose answers for the namespaces `held` wait for the test."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun: list[str] = []
        self.held = {"evil"}
        self.gone = 0

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        """Wait if it is evil's."""
        namespace = json.loads(bytes(body))["request"]["namespace"]
        self.begun.append(namespace)
        try:
            if namespace in self.held:
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.gone += 1
            raise
        return ReviewReply(200, b"{}", "allowed")


@contextmanager
def opened(gate: Gate) -> Iterator[Gate]:
    """However a test ends, nobody is left waiting."""
    try:
        yield gate
    finally:
        gate.go_on.set()


def large(namespace: str, size: int = 1_200_000) -> bytes:
    """A review of an object of so many bytes."""
    obj: dict[str, Any] = {**config_map(), "data": {"blob": "x" * size}}
    obj["metadata"]["namespace"] = namespace
    return encoded(review(obj))


async def test_one_large_review_of_a_namespace_at_a_time() -> None:
    """However many large reviews of one namespace wait, another's is read and answered at once."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(12)]
            await until(lambda: len(gate.begun) == 1)
            async with asyncio.timeout(60):
                assert (await post(session, f"{made.url}/mutate", large("team")))[0] == 200
            assert gate.begun.count("evil") == 1
            gate.go_on.set()
            await asyncio.gather(*evil)
        await made.server.stop()


@pytest.mark.parametrize("size", [10, 1_200_000])
async def test_who_hangs_up_holds_nothing(size: int) -> None:
    """When a client goes away its review is given up, and what it held is free."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            asking = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil", size))) for _ in range(3)]
            begin = 3 if size < BIG_BYTES else 1
            await until(lambda: len(gate.begun) == begin and made.server.bodies.waiting == 3 - begin)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await until(lambda: gate.gone == len(gate.begun) and b'outcome="gone"} 3.0' in made.metrics.text())
            assert made.server.bodies.waiting == 0
            gate.go_on.set()
            assert (await post(session, f"{made.url}/mutate", large("evil", size)))[0] == 200
        await made.server.stop()


async def test_overload_is_the_own_namespaces() -> None:
    """Who stands in their own way is told no, which no failurePolicy turns into a yes; others get no answer."""
    by = reviewer(DEFAULT_TEAM)
    answer = by.overloaded(Hint("uid-1", "evil"), OverloadedError("evil", own=True))
    response = json.loads(answer.body)["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "uid-1", False)
    assert (response["status"]["code"], response["status"]["details"]) == (429, {"retryAfterSeconds": 1})
    assert "namespace evil" in response["status"]["message"]
    for hint, own in ((Hint("uid-1", "team"), False), (Hint("", "evil"), True)):
        answer = by.overloaded(hint, OverloadedError("x", own=own))
        assert (answer.status, answer.outcome) == (503, "overloaded")


@pytest.mark.parametrize(("held", "status"), [(["evil"], 200), ([f"other-{i}" for i in range(BODIES)], 503)])
async def test_a_body_whose_turn_does_not_come(monkeypatch: pytest.MonkeyPatch, held: list[str], status: int) -> None:
    """After a second it is refused: with a no where its own namespace is in the way, else without an answer."""
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    with opened(Gate()) as gate:
        gate.held = {*held, "evil"}
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            first = [asyncio.create_task(post(session, f"{made.url}/mutate", large(name))) for name in held]
            await until(lambda: sorted(gate.begun) == sorted(held))
            found, body = await post(session, f"{made.url}/mutate", large("evil"))
            assert found == status
            assert status != 200 or json.loads(body)["response"]["status"]["code"] == 429
            gate.go_on.set()
            assert [found for found, _ in await asyncio.gather(*first)] == [200] * len(first)
        await made.server.stop()


async def test_answers_outlive_a_session_that_is_closed() -> None:
    """A client that closes its session while others wait changes nothing for them."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session() as stays:
            async with made.session() as goes:
                lost = asyncio.create_task(post(goes, f"{made.url}/mutate", large("evil", 10)))
                await until(lambda: len(gate.begun) == 1)
            with pytest.raises((aiohttp.ClientError, asyncio.CancelledError)):
                await lost
            assert (await post(stays, f"{made.url}/mutate", large("team", 10)))[0] == 200
        await made.server.stop()


async def _pour(site: Site, body: bytes, most: int) -> tuple[bytes, int]:
    """POST a body in pieces until the server does not take it any more; its answer, and how much it took."""
    plain = socket.create_connection(("127.0.0.1", site.server.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
    context = ssl.create_default_context(cadata=site.material.bundle.decode())
    reader, writer = await asyncio.open_connection(sock=plain, ssl=context, server_hostname="127.0.0.1")
    head = f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {most}\r\n\r\n"
    writer.write(head.encode() + body)
    answered = asyncio.create_task(reader.readuntil(b"}}}}"))
    taken = 0
    try:
        while taken < most - len(body):
            writer.write(b"x" * (64 << 10))
            await writer.drain()
            taken += 64 << 10
    except ConnectionError:
        return await answered, taken
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
    return await answered, taken


async def test_a_refused_body_is_not_received() -> None:
    """Who is refused before their body has come has the answer, and the server takes nothing more of the body."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session() as session:
            holds = asyncio.create_task(post(session, f"{made.url}/mutate", large("evil")))
            await until(lambda: gate.begun == ["evil"])
            answer, taken = await _pour(made, large("evil", 20_000), 8 << 20)
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["response"]["status"]["code"] == 429
            assert taken <= 2 << 20
            assert gate.begun == ["evil"]
            gate.go_on.set()
            await holds
        await made.server.stop()


def _taken(site: Site, body: bytes) -> int:
    """How many bytes of a body are taken of a client whose review waits, its own buffer included."""
    context = ssl.create_default_context(cadata=site.material.bundle.decode())
    with socket.create_connection(("127.0.0.1", site.server.port)) as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 10)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
            head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
            client.settimeout(0.5)  # a server that is slow to take it makes the number smaller, never larger
            taken = 0
            with contextlib.suppress(TimeoutError, ConnectionError):
                while taken < len(body):
                    taken += client.send(body[taken : taken + 4096])
            return taken


async def test_little_is_kept_of_a_body_that_waits() -> None:
    """Forty that wait unread would keep forty times as much: for TLS, for its buffer, and for what was decrypted."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            held = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil")))]
            await until(lambda: gate.begun == ["evil"])
            taken = await asyncio.to_thread(_taken, made, large("evil"))
            gate.go_on.set()
            await asyncio.gather(*held)
        await made.server.stop()
    assert 0 < taken <= 192 << 10


async def test_small_ones_pass_by_large_ones() -> None:
    """While large reviews of one namespace are held, small ones of it and of others are answered."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(2)]
            await until(lambda: len(gate.begun) == 1 and made.server.bodies.waiting == 1)
            for _ in range(3):
                assert (await post(session, f"{made.url}/mutate", large("team", 10)))[0] == 200
            assert not any(task.done() for task in evil)
            gate.go_on.set()
            assert [status for status, _ in await asyncio.gather(*evil)] == [200] * 2
        await made.server.stop()


# -- objects with more in them than anybody needs ----------------------------------------------------------------------


def _containers(count: int, **resources: Object) -> Object:
    obj = pod()
    obj["spec"]["containers"] = [{"name": f"c{i}", "resources": resources} for i in range(count)]
    return obj


MANY = {f"example.com/r{i:03}": "1" for i in range(100)}
TINY: Object = {**pod(), "spec": {"containers": [{} for _ in range(3_000)]}}


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (_containers(2048), ""),
        (_containers(2049), "request.object: spec: 2049 containers, want at most 2048"),
        (TINY, "request.object: spec: 3000 containers, want at most 2048"),
        (_containers(100, requests=MANY), ""),
        (_containers(100, requests=MANY, limits=MANY), "spec: 502600 bytes of containers' resources, want at most"),
        (config_map(labels={f"k{i}": "v" * 60 for i in range(4_000)}), ""),
        (
            config_map(labels={f"k{i}": "v" * 60 for i in range(9_000)}),
            "metadata.labels: 655890 bytes, want at most 524288",
        ),
        (config_map(annotations={"a": "x" * (1 << 19)}), "metadata.annotations: 524297 bytes, want at most 524288"),
    ],
)
async def test_what_nobody_needs_is_refused(obj: Object, said: str) -> None:
    """Decoding and judging it would hold everybody up; nothing that the API server stores for real pods is near it."""
    answer = await reviewer().answer(encoded(review(obj)), "mutate")
    response = json.loads(answer.body)["response"]
    assert response["allowed"] == (not said)
    assert not said or said in response["status"]["message"]
