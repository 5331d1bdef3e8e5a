"""How many connections a crowd of requests opens, and who gets them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from scheduler.kube import exchange
from scheduler.kube.errors import Unreachable
from scheduler.kube.exchange import CONNECTING, Exchange
from tests.unit.kube.conftest import until
from tests.unit.kube.test_streaming import Raw

LONG = 60.0


class Gated(Exchange):
    """An exchange whose handshakes each wait for a release; `begun` counts them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, None, lambda: time.monotonic() + self.stood_still)
        self.stood_still = 0.0
        self.begun = 0
        self.released = asyncio.Semaphore(0)
        self.refused = False

    async def _handshake(self, context: ssl.SSLContext | None, seconds: float) -> exchange._Line:
        self.begun += 1
        await self.released.acquire()
        if self.refused:
            raise Unreachable("refused", sent=False)
        return await super()._handshake(context, seconds)

    def ask(self, within: float | None = None) -> asyncio.Task[exchange.Response]:
        """A request under way."""
        message = self.message("GET", "/x", "", None, "")
        return asyncio.ensure_future(self.send("GET", message, None, LONG, within))


@pytest.fixture
async def gated() -> AsyncIterator[Gated]:
    """One with a server that answers at once."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    raw = Raw(say)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    async with server:
        made = Gated(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        yield made
        made.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, no handshake here counts as stuck."""
    monkeypatch.setattr(exchange, "PATIENCE", LONG)


async def test_a_crowd_shares_the_first_connection(gated: Gated) -> None:
    """While handshakes are under way, a connection that is there serves all who have none."""
    asked = [gated.ask() for _ in range(5 * CONNECTING)]
    await until(lambda: gated.begun == CONNECTING)
    gated.released.release()
    await asyncio.wait(asked[CONNECTING + 1 :])  # the first who waited got the turn to open one more
    assert gated.begun == CONNECTING + 1
    for _ in range(CONNECTING):
        gated.released.release()
    assert {(await each).body for each in asked} == {b"ok"}


async def test_who_is_cancelled_gives_back_its_turn(gated: Gated) -> None:
    """Cancelled while it waits, or just as it was told: the others lose nothing."""
    asked = [gated.ask() for _ in range(CONNECTING + 3)]
    await until(lambda: len(gated._waiting) == 3)
    told, cancelled, last = asked[CONNECTING:]
    cancelled.cancel()
    gated._pass_on(None, None)
    told.cancel()
    with pytest.raises(asyncio.CancelledError):
        await told
    await until(lambda: gated.begun == CONNECTING + 1)
    for _ in range(CONNECTING + 1):
        gated.released.release()
    assert {(await each).body for each in (*asked[:CONNECTING], last)} == {b"ok"}
    assert cancelled.cancelled()


async def test_a_refused_connection_is_everybodys_own(gated: Gated) -> None:
    """Those who waited try for themselves, and are told."""
    gated.refused = True
    asked = [gated.ask() for _ in range(CONNECTING + 3)]
    for _ in asked:
        gated.released.release()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(each) for each in found] == ["refused"] * len(asked)


async def test_stuck_handshakes_hold_nobody_up_for_long(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while a request opens a connection of its own; and its time is its time."""
    asked = [gated.ask() for _ in range(CONNECTING)]
    await until(lambda: gated.begun == CONNECTING)
    monkeypatch.setattr(exchange, "PATIENCE", 0.01)
    asked.append(gated.ask())
    await until(lambda: gated.begun == CONNECTING + 1)
    for _ in asked:
        gated.released.release()
    await asyncio.gather(*asked)


async def test_who_waited_for_too_long_is_not_sent(gated: Gated) -> None:
    """A process that stood still wakes up with a connection at hand; a write whose time is over does not leave."""
    asked = [gated.ask() for _ in range(CONNECTING)]
    await until(lambda: gated.begun == CONNECTING)
    turned, handed = gated.ask(within=5.0), gated.ask(within=5.0)
    await until(lambda: len(gated._waiting) == 2)
    gated.stood_still = 10.0
    gated.released.release()  # the first who waits gets the turn to open a connection, the second the one that is freed
    with pytest.raises(Unreachable) as caught:
        await handed
    assert not caught.value.sent
    for _ in asked:
        gated.released.release()
    with pytest.raises(Unreachable) as caught:
        await turned
    assert not caught.value.sent
    await asyncio.gather(*asked)
