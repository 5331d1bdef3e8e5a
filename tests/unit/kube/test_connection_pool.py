"""A crowd of requests opens few connections; they are shared."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from podberth.kube import http1
from podberth.kube.connection import Connection
from podberth.kube.errors import Unreachable
from podberth.kube.http1 import CONNECTING, STRETCHING_BYTES, ConnectionPool, HttpConnection, Response
from tests.unit.kube.conftest import until
from tests.unit.kube.test_streams import Raw

LONG = 60.0


class Gated(ConnectionPool):
    """A pool whose connections are made when the test lets them; `begun` counts them."""

    def __init__(self, url: str) -> None:
        super().__init__(Connection(url), lambda: time.monotonic() + self.stood_still)
        self.stood_still = 0.0
        self.begun = 0
        self.hung_up: int | None = None
        """Requests that the server has read without an answer, closing the connection; None: it answers."""
        self.released = asyncio.Semaphore(0)
        self.refused = False
        self._create = asyncio.get_running_loop().create_connection

    async def create(self, *args: Any, **more: Any) -> Any:
        """As the loop's `create_connection`, once it is let."""
        self.begun += 1
        await self.released.acquire()
        if self.refused:
            raise ConnectionRefusedError("refused")
        return await self._create(*args, **more)

    def time_is_over(self, connection: HttpConnection) -> None:
        """The timer of a request on this connection has come."""
        self._late(connection, asked=0.0, deadline=0.0)

    def ask(
        self, within: float | None = None, verb: str = "GET", on_send: Callable[[], None] | None = None
    ) -> asyncio.Task[Response]:
        """A request under way."""
        message = self.message(verb, "/x", "", None, "")
        return asyncio.ensure_future(self.send(verb, message, LONG, within, on_send=on_send))


@pytest.fixture
async def gated(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gated]:
    """One with a server that answers at once."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if made.hung_up is None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        else:
            made.hung_up += 1
            writer.close()

    raw = Raw(say)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    async with server:
        made = Gated(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", made.create)
        yield made
        made.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, no handshake here counts as stuck."""
    monkeypatch.setattr(http1, "PATIENCE", LONG)


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
    await until(lambda: gated.waiting == 3)
    told, cancelled, last = asked[CONNECTING:]
    cancelled.cancel()
    await until(lambda: gated.waiting == 2)
    gated.released.release()  # when this connection is made, the first who waits may open one more
    while gated.waiting == 2:  # noqa: ASYNC110 - one turn of the loop at a time: it is told, and does not run yet
        await asyncio.sleep(0)
    told.cancel()
    with pytest.raises(asyncio.CancelledError):
        await told
    await until(lambda: gated.begun == CONNECTING + 1)
    for _ in range(CONNECTING):
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
    assert gated.begun == len(asked)
    assert all(isinstance(each, Unreachable) and str(each).endswith(": refused") for each in found)


async def test_stuck_handshakes_hold_nobody_up_for_long(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while a request opens a connection of its own; and its time is its time."""
    asked = [gated.ask() for _ in range(CONNECTING)]
    await until(lambda: gated.begun == CONNECTING)
    monkeypatch.setattr(http1, "PATIENCE", 0.01)
    asked.append(gated.ask())
    await until(lambda: gated.begun == CONNECTING + 1)
    for _ in asked:
        gated.released.release()
    await asyncio.gather(*asked)


async def test_those_that_lose_patience_open_connections_one_after_the_other(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They began together. All their handshakes in one turn of the loop would hold it up."""
    asked = [gated.ask() for _ in range(CONNECTING)]
    await until(lambda: gated.begun == CONNECTING)
    monkeypatch.setattr(http1, "PATIENCE", 0.0)
    monkeypatch.setattr(http1, "APART", LONG / 100)
    asked += [gated.ask() for _ in range(10)]
    await until(lambda: gated.begun == CONNECTING + 1)
    for _ in range(100):
        await asyncio.sleep(0)
    assert (gated.begun, gated.waiting) == (CONNECTING + 1, 9)
    for _ in asked:
        gated.released.release()
    await asyncio.gather(*asked)


async def test_what_is_held_back_leaves_the_connection_to_others(gated: Gated) -> None:
    """Nothing was sent over it: the next request uses it, and no other one is opened."""
    gated.released.release()
    assert (await gated.ask()).status == 200
    message = gated.message("GET", "/x", "", None, "")

    def hold_back() -> None:
        raise LookupError("not this one")

    with pytest.raises(LookupError):
        await gated.send("GET", message, LONG, on_send=hold_back)
    gated.released.release()
    assert (await gated.ask()).status == 200
    assert gated.begun == 1


async def test_who_waited_for_too_long_is_not_sent(gated: Gated) -> None:
    """A process that stood still wakes up with a connection at hand; a write whose time is over does not leave."""
    asked = [gated.ask() for _ in range(CONNECTING)]
    await until(lambda: gated.begun == CONNECTING)
    turned, handed = gated.ask(within=5.0), gated.ask(within=5.0)
    await until(lambda: gated.waiting == 2)
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


async def test_what_was_not_answered_is_not_sent_again_when_its_time_is_over(gated: Gated) -> None:
    """The server closes an idle connection as it is used; while another one is made, this process stands still."""
    gated.released.release()
    assert (await gated.ask()).status == 200
    gated.hung_up = 0
    asked = gated.ask(within=5.0, verb="DELETE")
    await until(lambda: gated.begun == 2)
    gated.stood_still = 10.0
    gated.released.release()
    with pytest.raises(Unreachable, match="its time is over") as caught:
        await asked
    assert caught.value.sent, "the server may have acted the first time"
    assert gated.hung_up == 1


@pytest.mark.parametrize(("verb", "acted"), [("DELETE", True), ("PUT", True), ("GET", False)])
async def test_what_may_have_been_done_is_told_so_when_it_can_not_be_sent_again(
    gated: Gated, verb: str, acted: bool
) -> None:
    """The connection is closed instead of an answer, and no other one can be made."""
    gated.released.release()
    assert (await gated.ask()).status == 200
    gated.hung_up, gated.refused = 0, True
    gated.released.release()
    with pytest.raises(Unreachable, match="refused") as caught:
        await gated.ask(verb=verb)
    assert caught.value.sent is acted
    assert gated.hung_up == 1


class Dying:
    """A server on whose first connections requests are read, and never answered once `dead` is set."""

    def __init__(self) -> None:
        self.dead = 0
        """So many of the connections that were opened first are dead."""
        self.heard: list[int] = []
        """The connection of each request."""
        self.ended: list[int] = []
        """The connections that the client has closed."""
        self._numbers: dict[asyncio.StreamWriter, int] = {}

    @property
    def opened(self) -> int:
        return len(self._numbers)

    def gone(self, writer: asyncio.StreamWriter) -> None:
        """The client has closed a connection."""
        self.ended.append(self._numbers[writer])

    async def say(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self._numbers.setdefault(writer, len(self._numbers))
        self.heard.append(number)
        if number >= self.dead:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@pytest.fixture
async def dying() -> AsyncIterator[tuple[Dying, ConnectionPool]]:
    """One, and a pool of connections with it."""
    server = Dying()
    raw = Raw(server.say, server.gone)
    listening = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    async with listening:
        made = ConnectionPool(Connection(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"), time.monotonic)
        yield server, made
        made.close()


async def test_when_one_connection_is_silent_the_idle_ones_are_not_used(dying: tuple[Dying, ConnectionPool]) -> None:
    """A path has died under a pool: one request finds out, and all others go over new connections."""
    server, made = dying
    message = made.message("POST", "/binding", "", b"{}", "application/json")
    crowd = [asyncio.ensure_future(made.send("POST", message, LONG)) for _ in range(CONNECTING)]
    await asyncio.gather(*crowd)
    server.dead = pool = server.opened
    assert pool == CONNECTING
    with pytest.raises(Unreachable) as caught:
        await made.send("POST", message, LONG, patience=0.01)
    assert (caught.value.sent, caught.value.timed_out, caught.value.heard) == (True, True, False)
    for _ in range(pool):
        assert (await made.send("POST", message, LONG)).body == b"ok"
    assert server.heard[-pool:] == [pool] * pool


async def test_an_answer_in_the_turn_in_which_its_time_is_over(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts, and its connection is not closed later, when it carries somebody else's request."""
    came = HttpConnection.on_message_complete

    def just_in_time(connection: HttpConnection) -> None:
        came(connection)
        gated.time_is_over(connection)

    monkeypatch.setattr(HttpConnection, "on_message_complete", just_in_time)
    gated.released.release()
    gated.released.release()
    for _ in range(2):
        assert (await gated.ask()).body == b"ok"
        await asyncio.sleep(0)
    assert gated.begun == 1


async def test_who_stops_waiting_does_not_stop_the_server(dying: tuple[Dying, ConnectionPool]) -> None:
    """After its patience a request lets others go on; its connection stays open for as long as the server may take."""
    server, made = dying
    server.dead = 2
    message = made.message("POST", "/binding", "", b"{}", "application/json")
    with pytest.raises(Unreachable):
        await made.send("POST", message, LONG, patience=0.01)
    with pytest.raises(Unreachable):
        await made.send("POST", message, 0.02, patience=0.01)
    await until(lambda: server.ended == [1])


async def test_a_watch_does_not_wait_on_a_connection_that_has_died(
    dying: tuple[Dying, ConnectionPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle connection that does not answer at all is replaced by a new one."""
    server, made = dying
    message = made.message("GET", "/watch", "", None, "")
    await made.send("GET", message, LONG)
    server.dead = 1
    monkeypatch.setattr(http1, "HEAD_SECONDS", 0.01)
    stream = await made.open(message, LONG)
    assert await stream.read() == b"ok"
    stream.abort()
    assert server.heard == [0, 0, 1]


async def test_long_answers_come_over_few_connections() -> None:
    """They stretch OpenSSL's buffers for good: one connection carries all lists, and no watch keeps it."""
    carried: list[set[bytes]] = []
    ended: list[set[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets = set[bytes]()
        carried.append(targets)
        with contextlib.suppress(ConnectionError):
            while head := await reader.read(4096):
                target = head.split()[1]
                targets.add(target)
                body = b"x" * (2 * STRETCHING_BYTES if target == b"/list" else 2)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.append(targets)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        made = ConnectionPool(Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), time.monotonic)

        async def ask(verb: str, target: str) -> Response:
            return await made.send(verb, made.message(verb, target, "", None, ""), LONG)

        for _ in range(4):
            await asyncio.gather(*(ask("POST", "/bind") for _ in range(CONNECTING)))
            assert len((await ask("GET", "/list")).body) == 2 * STRETCHING_BYTES
            stream = await made.open(made.message("GET", "/watch", "", None, ""), LONG)
            assert await stream.read() == b"xx"
            stream.abort()
        made.close()
        await until(lambda: len(ended) == len(carried))
    assert sum(b"/list" in targets for targets in carried) == 1
    assert not any({b"/list", b"/watch"} <= targets for targets in carried)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
async def test_tcp_gives_up_what_is_not_acknowledged(
    dying: tuple[Dying, ConnectionPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that swallows what we send is noticed by TCP in 15 s, and one that is silent in 30."""
    _, made = dying
    kept: list[socket.socket] = []
    keep_alive = http1.keep_alive

    def keeping(sock: socket.socket) -> None:
        kept.append(sock)
        keep_alive(sock)

    monkeypatch.setattr(http1, "keep_alive", keeping)
    await made.send("GET", made.message("GET", "/x", "", None, ""), LONG)
    (sock,) = kept
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


async def test_answers_to_several_requests_come_with_their_bodies_where_they_are_wanted(
    dying: tuple[Dying, ConnectionPool],
) -> None:
    server, made = dying
    messages = [made.message("PATCH", f"/{i}", "", b"{}", "application/json") for i in range(3)]
    found = await made.send_many(messages, LONG, bodies=True)
    assert [(one.status, one.body) for one in found] == [(200, b"ok")] * 3
    found = await made.send_many(messages, LONG)
    assert [(one.status, one.body) for one in found] == [(200, b"")] * 3
    assert server.heard == [0] * 6


@pytest.mark.parametrize(("verb", "acted"), [("DELETE", True), ("GET", False)])
async def test_what_was_not_answered_is_not_sent_again_when_it_may_not_leave(
    gated: Gated, verb: str, acted: bool
) -> None:
    """The server closes an idle connection as it is used; while another one is made, the Lease is lost."""
    gated.released.release()
    assert (await gated.ask()).status == 200
    gated.hung_up, leads = 0, [True, False]

    def may_leave() -> None:
        if not leads.pop(0):
            raise Unreachable("not sent: we do not lead", sent=False)

    asked = gated.ask(verb=verb, on_send=may_leave)
    gated.released.release()
    with pytest.raises(Unreachable, match="do not lead") as caught:
        await asked
    assert caught.value.sent is acted
    assert (gated.hung_up, gated.begun) == (1, 2)
