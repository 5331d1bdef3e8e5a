"""Large bodies: one piece in each turn of the loop, and nothing of those that are refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections import Counter
from typing import Any

import pytest

from podberth.policy.admission.bodies import LargeBody, TooLargeError
from podberth.service.port import ANSWER_TURNS, MOST_TURNS, Turns
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.admission.test_neighbours import FIT, Gate, large, opened
from tests.unit.policy.admission.test_reviewer import DEFAULT_TEAM, reviewer
from tests.unit.policy.admission.test_server import Site, post

PIECE = 1000


class Sent:
    """A connection with a body to send: a piece of it comes in the turn after reading was resumed, and no more."""

    def __init__(self, name: str, pieces: int, seen: Seen) -> None:
        self.left = [name.encode() * PIECE for _ in range(pieces)]
        self.total_bytes = 0
        self.content = self.transport = self  # of a request, its body and its connection
        self._name = name
        self._seen = seen
        self._got = b""
        self._came = asyncio.Event()

    def pause_reading(self) -> None:
        self._seen.paused.add(self._name)

    def resume_reading(self) -> None:
        self._seen.paused.discard(self._name)
        self._seen.resumed.append((self._seen.turn, self._name))
        asyncio.get_running_loop().call_soon(self._receive)

    def _receive(self) -> None:
        self._got = self.left.pop(0)
        self.total_bytes += len(self._got)
        self._came.set()

    def is_eof(self) -> bool:
        return not self.left

    def at_eof(self) -> bool:
        return not self.left and not self._got

    async def readany(self) -> bytes:
        await self._came.wait()
        self._came.clear()
        got, self._got = self._got, b""
        return got


class Seen:
    """In which turn of the loop whose connection was resumed, and who is paused now."""

    def __init__(self) -> None:
        self.turn = 0
        self.paused: set[str] = set()
        self.resumed: list[tuple[int, str]] = []

    async def count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_one_piece_in_each_turn() -> None:
    """However many large bodies arrive at once, one of them is received in a turn, and all have their turn."""
    seen, turns = Seen(), Turns()
    sent: list[Any] = [Sent(name, 6, seen) for name in "abcd"]
    counting = asyncio.create_task(seen.count())
    bodies = [LargeBody(one, 6 * PIECE, turns) for one in sent]
    assert seen.paused == set("abcd")
    read = await asyncio.gather(*(body.read(10.0) for body in bodies))
    counting.cancel()
    assert [bytes(one) for one in read] == [name.encode() * 6 * PIECE for name in "abcd"]
    assert max(Counter(turn for turn, _ in seen.resumed).values()) == 1
    assert [name for _, name in seen.resumed] == [*"abcd"] * 6


async def test_a_small_request_goes_before_the_next_piece() -> None:
    """Where a small request has come, no large body is received in the turns in which it is answered."""
    seen, turns = Seen(), Turns()
    sent: list[Any] = [Sent(name, 20, seen) for name in "ab"]
    reading = [asyncio.create_task(LargeBody(one, 20 * PIECE, turns).read(10.0)) for one in sent]
    counting = asyncio.create_task(seen.count())
    await until(lambda: len(seen.resumed) > 4)
    turns.hold()
    begun, before = seen.turn, len(seen.resumed)
    while seen.turn < begun + ANSWER_TURNS:  # noqa: ASYNC110 - turns of the loop are what is counted
        await asyncio.sleep(0)
    assert len(seen.resumed) - before <= 1
    await asyncio.gather(*reading)
    counting.cancel()


async def test_small_requests_do_not_keep_large_bodies_out() -> None:
    """Requests in every turn hold a piece up for some turns, and not for ever."""
    seen, turns = Seen(), Turns()
    sent: Any = Sent("a", 3, seen)
    reading = asyncio.create_task(LargeBody(sent, 3 * PIECE, turns).read(10.0))
    for _ in range(3 * (MOST_TURNS + 8)):
        turns.hold()
        await asyncio.sleep(0)
    assert reading.done()
    await reading


async def test_who_goes_away_takes_no_turn() -> None:
    """A body that is given up while it waits for its turn leaves it to the next one."""
    turns = Turns()
    first, second = (asyncio.create_task(turns.next()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()
    await turns.next()


async def test_more_than_was_said() -> None:
    """A body that is longer than its length is refused, not kept."""
    sent: Any = Sent("a", 3, Seen())
    with pytest.raises(TooLargeError):
        await LargeBody(sent, PIECE, Turns()).read(10.0)


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
        made.server.bodies.most = 0
        gate.overloaded = reviewer(DEFAULT_TEAM).overloaded  # type: ignore[method-assign]
        await made.server.start("127.0.0.1", 0)
        answer, taken = await _pour(made, large("evil", 20_000), 8 << 20)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["response"]["status"]["code"] == 429
        assert taken <= 2 << 20
        assert gate.begun == []
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
            held = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(FIT)]
            await until(lambda: len(gate.begun) == FIT)
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
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(FIT + 1)]
            await until(lambda: len(gate.begun) == FIT and made.server.bodies.waiting == 1)
            for _ in range(3):
                assert (await post(session, f"{made.url}/mutate", large("team", 10)))[0] == 200
            assert not any(task.done() for task in evil)
            gate.go_on.set()
            assert [status for status, _ in await asyncio.gather(*evil)] == [200] * (FIT + 1)
            assert made.server.bodies.busy == 0
        await made.server.stop()


async def test_who_hangs_up_unread_leaves_the_line() -> None:
    """A client that goes away while its body waits unread is judged never, and its place and its room are free."""
    with opened(Gate()) as gate:
        made = Site(gate)
        gate.overloaded = reviewer(DEFAULT_TEAM).overloaded  # type: ignore[method-assign]
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            held = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(FIT)]
            await until(lambda: len(gate.begun) == FIT)
            goes = asyncio.create_task(post(session, f"{made.url}/mutate", large("evil")))
            await until(lambda: made.server.bodies.waiting == 1)
            goes.cancel()
            await asyncio.gather(goes, return_exceptions=True)
            await until(lambda: made.server.bodies.waiting == 0)
            gate.go_on.set()
            assert [status for status, _ in await asyncio.gather(*held)] == [200] * FIT
            assert (gate.begun, made.server.bodies.busy) == (["evil"] * FIT, 0)
        await made.server.stop()
