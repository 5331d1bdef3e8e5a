"""TLS handshakes: those who are connected are answered first, peers have their turns, and nobody keeps a place."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from podberth.service import handshakes
from podberth.service.certificate import Certificate
from podberth.service.handshakes import Arrival, Handshakes
from podberth.service.port import Limits, Port
from podberth.service.serving import listen
from tests.certificates import showing
from tests.unit.service import hostile
from tests.unit.service.test_port import until

MANY = 40
LIMITS = Limits(most=128, of_peer=128, kept=2, ask=60.0, idle=60.0, answer=60.0)


def hello() -> bytes:
    """What a TLS client says first."""
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        showing(None).wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


def answered(clients: Sequence[socket.socket]) -> int:
    """How many have got something from the server."""
    readable, _, _ = select.select(clients, [], [], 0)
    return len(readable)


class Site:
    """A port with TLS, and silent clients of it."""

    def __init__(self) -> None:
        (listening,) = listen("127.0.0.1", 0)
        self.number: int = listening.getsockname()[1]
        self.clients: list[socket.socket] = []
        self.greeted_before: list[int] = []
        """For each request: how many of the clients the server had answered until then."""
        self.port = Port("test", self._handle, LIMITS)
        certificate = Certificate()
        certificate.refresh()
        self.port.start([listening], lambda: certificate.context)

    async def _handle(self, _: web.BaseRequest) -> web.StreamResponse:
        self.greeted_before.append(answered(self.clients))
        return web.Response()

    async def connect(self, count: int) -> None:
        """So many more who are connected, and say nothing yet."""
        before = len(self.port.connections)
        self.clients += [await asyncio.to_thread(hostile.tcp, self.number) for _ in range(count)]
        await until(lambda: len(self.port.connections) == before + count)
        for _ in range(10):
            await asyncio.sleep(0)  # the port now waits for what they say

    def refused(self) -> dict[str, float]:
        """How often, by reason."""
        return {labels[1]: times for labels, times in self.port.complaints.refused.read().values.items()}


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """One that is open while the block runs."""
    made = Site()
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        await made.port.stop(1.0)


async def test_those_who_are_connected_are_answered_first() -> None:
    """Forty say hello in the same instant, and one who is connected asks for something."""
    async with site() as made:
        kept = await asyncio.to_thread(hostile.tls, made.number)
        await made.connect(MANY)
        first = hello()
        for client in made.clients:
            client.sendall(first)
        kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: made.greeted_before != [])
        assert made.greeted_before[0] <= 2
        await until(lambda: answered(made.clients) >= handshakes.MOST)
        kept.close()


async def test_who_stops_halfway_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many handshakes are under way, and who stops in the middle keeps nobody out."""
    monkeypatch.setattr(handshakes, "STALLED_SECONDS", 3600.0)
    async with site() as made:
        await made.connect(MANY)
        first = hello()
        for client in made.clients:
            client.sendall(first)
        await until(lambda: answered(made.clients) == handshakes.MOST)
        for _ in range(100):
            await asyncio.sleep(0)
        assert answered(made.clients) == handshakes.MOST
        made.clients[0].close()
        made.clients.pop(0)
        await until(lambda: answered(made.clients) == handshakes.MOST)
    monkeypatch.setattr(handshakes, "STALLED_SECONDS", 0.0)
    async with site() as made:
        await made.connect(MANY)
        for client in made.clients:
            client.sendall(first)
        await until(lambda: answered(made.clients) == MANY)
        await until(lambda: made.refused() == {"crowded": MANY - handshakes.MOST})


async def test_a_first_message_in_pieces() -> None:
    """A handshake begins when all of its first message is there; others do not wait for it."""
    async with site() as made:
        await made.connect(MANY)
        first = hello()
        for client in made.clients:
            client.sendall(first[:3])
        for client in made.clients:
            client.sendall(first[3:-1])
        kept = await asyncio.to_thread(hostile.tls, made.number)
        assert answered(made.clients) == 0
        made.clients[0].sendall(first[-1:])
        await until(lambda: answered(made.clients[:1]) == 1)
        assert answered(made.clients) == 1
        kept.close()


@pytest.mark.parametrize("said", [b"", b"\x16", b"\x16\x03\x01\x02\x00half", b"GET / HTTP/1.1\r\n\r\n"])
async def test_who_goes_before_the_handshake(said: bytes) -> None:
    """Nothing is left of who says half of it, or something else, and goes."""
    async with site() as made:
        await made.connect(1)
        made.clients[0].sendall(said)
        made.clients[0].shutdown(socket.SHUT_WR)
        await until(lambda: len(made.port.connections) == 0)


async def turns(count: int) -> None:
    """So many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


class Line:
    """Arrivals that wait for their turn, and the order in which they have begun."""

    def __init__(self) -> None:
        self.handshakes = Handshakes(self._cut)
        self.begun: list[str] = []
        self.cut: list[str] = []
        self.arrivals: list[Arrival] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: list[socket.socket] = []

    def _cut(self, peer: str) -> None:
        self.cut.append(peer)

    def enter(self, peer: str) -> Arrival:
        """One more who has said hello."""
        ours, theirs = socket.socketpair()
        self._ends += [ours, theirs]
        arrival = Arrival(ours, peer)
        self.arrivals.append(arrival)
        self._tasks.append(asyncio.create_task(self._wait(arrival)))
        return arrival

    async def _wait(self, arrival: Arrival) -> None:
        if await self.handshakes.begin(arrival):
            self.begun.append(arrival.peer)

    async def end(self) -> None:
        """End those that wait, and forget all."""
        for arrival in self.arrivals:
            arrival.end()
            self.handshakes.leave(arrival)
        await asyncio.gather(*self._tasks)
        for one in self._ends:
            one.close()


async def test_peers_have_their_turns() -> None:
    """Who opens many connections waits behind himself."""
    line = Line()
    for peer in ["many"] * 10 + ["one", "other"]:
        line.enter(peer)
    await turns(100)
    assert line.begun[:4] == ["many", "one", "other", "many"]
    await line.end()


async def test_one_handshake_for_each_few_turns() -> None:
    """However many wait, one begins, and then requests have some turns of the loop for themselves."""
    line = Line()
    for _ in range(8):
        line.enter("peer")
    await turns(2)
    for expected in range(1, 5):
        await turns(handshakes.ANSWER_TURNS + 1)
        assert len(line.begun) <= expected + 1
    await line.end()


async def test_requests_do_not_keep_handshakes_out() -> None:
    """Requests in every turn hold the next one up for some turns, and not for ever."""
    line = Line()
    for _ in range(4):
        line.enter("peer")
    for _ in range(5 * (handshakes.MOST_TURNS + 2)):
        line.handshakes.asked()
        await asyncio.sleep(0)
    assert len(line.begun) == 4
    await line.end()


async def test_who_was_ended_while_waiting_does_not_begin() -> None:
    """Its place in the line is free at once."""
    line = Line()
    first, second, _ = (line.enter("peer") for _ in range(3))
    await turns(3)
    second.end()
    line.handshakes.leave(second)
    await turns(50)
    assert len(line.begun) == 2
    assert not first.ended
    await line.end()
