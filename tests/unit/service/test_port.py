"""A port in virtual time: who is late, who is slow, and what happens when there are no descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from podberth.service import port
from podberth.service.certificate import Certificate
from podberth.service.metrics import read
from podberth.service.port import ACCEPT_AGAIN_SECONDS, Limits, Port, Stage, instruments
from podberth.service.serving import ServingError, listen
from tests.certificates import showing
from tests.unit.service import hostile

LIMITS = Limits(most=8, of_peer=4, kept=2, ask=10.0, idle=60.0, answer=30.0)
HEALTH = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
OTHER = b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
MORE = b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody"


class Harbour:
    """A port on loopback whose time the test moves, and whose handler waits for `go_on` unless asked for health."""

    def __init__(self, tls: bool, limits: Limits) -> None:
        self.now = 1000.0
        self.handled = 0
        self.raises: Exception | None = None
        """What the handler raises: it is broken."""
        self.go_on = asyncio.Event()
        self.answer = b"ok"
        self.clients: list[socket.socket] = []
        self.port = Port("test", self.handle, limits, clock=lambda: self.now, lingering_time=0.0)
        (self.listening,) = listen("127.0.0.1", 0)
        self.number: int = self.listening.getsockname()[1]
        certificate = Certificate()
        certificate.refresh()
        self.port.start([self.listening], lambda: certificate.context if tls else None)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Health at once, bodies when they are there, all else when the test lets it go."""
        self.handled += 1
        if self.raises is not None:
            raise self.raises
        if request.method == "POST" or request.body_exists:
            await request.read()
        if request.path == "/other":
            await self.go_on.wait()
        return web.Response(body=self.answer)

    async def client(self, said: bytes = b"") -> socket.socket:
        """One more that is connected, and has said this."""
        open_before = len(self.port.connections)
        client = await asyncio.to_thread(hostile.tcp, self.number)
        self.clients.append(client)
        client.sendall(said)
        await until(lambda: len(self.port.connections) != open_before or self.refused() != {})
        return client

    async def health(self) -> bytes:
        """The first line of the answer to a probe."""

        def asking() -> bytes:
            with contextlib.closing(hostile.tcp(self.number)) as client:
                client.sendall(HEALTH)
                return client.recv(4096).partition(b"\r\n")[0]

        return await asyncio.to_thread(asking)

    def pass_time(self, seconds: float) -> None:
        """It is so much later, and the port looks."""
        self.now += seconds
        self.port.look()

    def refused(self) -> dict[str, float]:
        """How often, by reason."""
        (found,) = (one for one in read(instruments([self.port])) if one.family.name == "berth_port_connections")
        assert found.values == {("test",): len(self.port.connections)}
        told = [one for one in read(instruments([self.port])) if one.family.name == "berth_port_refused_total"]
        return {labels[1]: times for one in told for labels, times in one.values.items()}


async def until(claim: Callable[[], bool]) -> None:
    """Wait for what the port does."""
    async with asyncio.timeout(hostile.SECONDS):
        while not claim():  # noqa: ASYNC110 - what others do has no event
            await asyncio.sleep(0.001)


@asynccontextmanager
async def harbour(*, tls: bool = False, limits: Limits = LIMITS) -> AsyncIterator[Harbour]:
    """One that is open while the block runs."""
    made = Harbour(tls, limits)
    try:
        yield made
    finally:
        made.go_on.set()
        await made.port.stop(1.0)
        for client in made.clients:
            client.close()


async def gone(client: socket.socket) -> bool:
    """The port has closed it."""
    return await asyncio.to_thread(hostile.ended, client)


STOPS = "a handshake that stops"
LATE = {
    "silence": b"",
    "half a line": b"GET /li",
    "headers without end": b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ",
    STOPS: bytes.fromhex("160301"),
}


@pytest.mark.parametrize(
    ("how", "tls"), [*((how, False) for how in LATE if how != STOPS), ("silence", True), (STOPS, True)]
)
async def test_ten_seconds_for_a_request(how: str, tls: bool) -> None:
    """Who has not asked by then is cut off, however the headers drip; who asks in time is answered."""
    said = LATE[how]
    async with harbour(tls=tls) as there:
        client = await there.client(said)
        there.pass_time(9.9)
        if said:
            client.sendall(said[-1:])
        there.pass_time(0.0)
        assert len(there.port.connections) == 1
        there.pass_time(0.2)
        assert await gone(client)
        await until(lambda: len(there.port.connections) == 0)
        assert there.refused() == {"late": 1.0}


async def test_silence_after_an_answer() -> None:
    """It may last, and ends without a complaint; the headers of another request have ten seconds again."""
    async with harbour() as there:
        idle, asking = await there.client(HEALTH), await there.client(HEALTH)
        await until(lambda: there.handled == 2)
        there.pass_time(50.0)
        asking.sendall(b"GET /livez HTTP/1.1\r\n")
        await until(lambda: [one.stage for one in there.port.connections] == [Stage.IDLE, Stage.ASKING])
        there.pass_time(9.9)
        assert len(there.port.connections) == 2
        there.pass_time(0.2)
        assert await gone(idle)
        assert await gone(asking)
        assert there.refused() == {"late": 1.0}


async def test_a_body_that_does_not_come() -> None:
    """It has as long as an answer, for what is read first may be waiting for its turn."""
    async with harbour() as there:
        client = await there.client(MORE)
        await until(lambda: there.handled == 1)
        there.pass_time(29.9)
        assert len(there.port.connections) == 1
        there.pass_time(0.2)
        assert await gone(client)
        assert there.refused() == {"slow": 1.0}


async def test_answers_that_nobody_reads() -> None:
    """Requests in a row are worked on one by one, no more than the client takes, and not for ever."""
    async with harbour() as there:
        there.answer = b"x" * (1 << 20)
        client = await there.client()
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                client.send(HEALTH * 1000)
        await until(lambda: there.handled > 0)
        await until(lambda: any(one.until == 1030.0 for one in there.port.connections))
        handled = there.handled
        assert handled < 100
        there.pass_time(29.9)
        assert (len(there.port.connections), there.handled) == (1, handled)
        there.pass_time(0.2)
        await until(lambda: len(there.port.connections) == 0)
        assert there.refused() == {"slow": 1.0}
        client.close()


async def test_one_who_goes() -> None:
    """Either side closed, before or after a request, leaves nothing behind."""
    async with harbour() as there:
        for said in (b"", b"GET /", HEALTH):
            for end in (socket.socket.close, lambda client: client.shutdown(socket.SHUT_WR)):
                client = await there.client(said)
                end(client)
                await until(lambda: len(there.port.connections) == 0)
                client.close()
        assert there.refused() == {}


async def test_all_busy() -> None:
    """When a peer's places are all being answered its probes are, too, and whatever else it asks is refused."""
    async with harbour() as there:
        busy = [await there.client(OTHER) for _ in range(LIMITS.of_peer)]
        await until(lambda: there.handled == LIMITS.of_peer)
        for _ in range(5):
            assert await there.health() == b"HTTP/1.1 200 OK"
        (more,) = [await there.client(OTHER)]
        assert (await asyncio.to_thread(more.recv, 4096)).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        there.go_on.set()
        for client in busy:
            assert (await asyncio.to_thread(client.recv, 4096)).startswith(b"HTTP/1.1 200 OK\r\n")
            client.close()
        more.close()
        assert there.refused() == {"busy": 1.0}


async def test_a_bug_is_said_as_such() -> None:
    """What a handler raises is a 500, a line with a traceback, and no complaint about the client."""
    async with harbour() as there:
        there.raises = KeyError("hunter2")
        with capture_logs() as lines:
            assert await there.health() == b"HTTP/1.1 500 Internal Server Error"
        assert [line["event"] for line in lines] == ["a request failed, this is a bug of Berth"]
        assert isinstance(lines[0]["exc_info"], KeyError)
        assert there.refused() == {}


async def test_a_reason_has_a_line_a_minute() -> None:
    """And the next line says how many there were."""
    async with harbour() as there:
        with capture_logs() as lines:
            for _ in range(3):
                (await there.client(b"\x16\x03\x01 what\r\n\r\n")).close()
            await until(lambda: there.refused() == {"malformed": 3.0})
            there.now += 61.0
            (await there.client(b"\x16\x03\x01 what\r\n\r\n")).close()
            await until(lambda: there.refused() == {"malformed": 4.0})
    assert [(line["reason"], line["times_since_last_line"]) for line in lines] == [("malformed", 1), ("malformed", 3)]
    assert lines[0]["peer"] == "127.0.0.1"


@pytest.fixture
def no_collections() -> Iterator[None]:
    """What is not freed by counts of references stays, as in a scheduler it does for up to a day."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
async def test_nothing_is_left_of_a_connection() -> None:
    """However it ended, before or after its handshake: its buffers go, without the garbage collector."""
    ends = (b"", b"no TLS", bytes.fromhex("1603010200") + b"\xff" * 512)
    huge = b"GET /livez HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"

    def attack() -> None:
        for said in ends * 5:
            with contextlib.closing(hostile.tcp(there.number)) as client:
                client.sendall(said)
        for said in (b"", HEALTH, huge) * 5:
            with contextlib.closing(hostile.tls(there.number)) as client, contextlib.suppress(OSError):
                client.sendall(said)  # who says too much may be cut off before it is all said
        with contextlib.closing(hostile.tls(there.number)) as client:  # the last one is accepted after all others
            client.sendall(HEALTH)
            client.recv(4096)

    def left() -> int:
        return sum(1 for one in gc.get_objects() if isinstance(one, (ssl.SSLObject, web.RequestHandler, memoryview)))

    async with harbour(tls=True) as there:
        before = left()
        await asyncio.to_thread(attack)
        there.pass_time(11.0)
        await until(lambda: len(there.port.connections) == 0)
        await until(lambda: left() <= before)


@pytest.fixture
def few_descriptors() -> Iterator[Callable[..., None]]:
    """`few_descriptors()`: from then on this process can open none, until it may again (`give_back`)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def use_up(*, give_back: bool = False) -> None:
        while give_back and taken:
            os.close(taken.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft if give_back else min(soft, 512), hard))
        with contextlib.suppress(OSError):
            while not give_back:
                taken.append(os.open(os.devnull, os.O_RDONLY))

    yield use_up
    use_up(give_back=True)


async def test_no_descriptors(few_descriptors: Callable[..., None]) -> None:
    """A probe gets a spare one; silent connections are closed to have it back, and accepting does not spin."""
    async with harbour() as there:
        silent = [await there.client() for _ in range(3)]
        probes = [socket.socket() for _ in range(6)]
        few_descriptors()
        with pytest.raises(OSError, match="Too many open files") as refused:
            socket.socket()
        assert refused.value.errno == errno.EMFILE
        for probe in probes:
            probe.settimeout(hostile.SECONDS)
            await asyncio.to_thread(probe.connect, ("127.0.0.1", there.number))
            probe.sendall(HEALTH)
            assert (await asyncio.to_thread(probe.recv, 4096)).startswith(b"HTTP/1.1 200 OK\r\n")
            probe.close()
            there.port.look()
        for client in silent:
            client.close()
        assert 1.0 <= there.refused()["no-descriptor"] <= 20.0


async def test_no_descriptor_at_all(few_descriptors: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing to give and nothing to close it waits before it tries again, and then goes on."""
    waits: list[float] = []
    monkeypatch.setattr(port, "SPARE_DESCRIPTORS", 0)
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def counted(delay: float, callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.TimerHandle:
        if args != (there.listening,):
            return call_later(delay, callback, *args, **more)
        waits.append(delay)
        return call_later(delay / 100, callback, *args, **more)

    async with harbour() as there:
        late = socket.socket()
        there.clients.append(late)
        monkeypatch.setattr(loop, "call_later", counted)
        few_descriptors()
        await asyncio.to_thread(late.connect, ("127.0.0.1", there.number))
        await until(lambda: len(waits) >= 3)
        assert set(waits) == {ACCEPT_AGAIN_SECONDS}
        few_descriptors(give_back=True)
        late.sendall(HEALTH)
        assert (await asyncio.to_thread(late.recv, 4096)).startswith(b"HTTP/1.1 200 OK\r\n")


MANY = Limits(most=128, of_peer=128, kept=2, ask=60.0, idle=60.0, answer=60.0)


def hello() -> bytes:
    """Return what a TLS client says first."""
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        showing(None).wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


def greeted(clients: Sequence[socket.socket]) -> int:
    """Return how many have got something from the port."""
    readable, _, _ = select.select(clients, [], [], 0)
    return len(readable)


async def test_those_who_are_connected_are_answered_before_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty say hello in the same instant, and while they are greeted one who is connected asks for something."""
    async with harbour(tls=True, limits=MANY) as there:
        kept = await asyncio.to_thread(hostile.tls, there.number)
        crowd = [await there.client() for _ in range(40)]
        before: list[int] = []
        handle = there.handle

        async def handled(request: web.BaseRequest) -> web.StreamResponse:
            before.append(greeted(crowd))
            return await handle(request)

        monkeypatch.setattr(there.port, "_handler", handled)
        first = hello()
        for client in crowd:
            client.sendall(first)
        await until(lambda: greeted(crowd) > 0)
        kept.sendall(HEALTH)
        await until(lambda: before != [])
        assert before[0] < 20
        await until(lambda: greeted(crowd) == len(crowd))
        kept.close()


async def test_who_stops_halfway_keeps_nobody_out() -> None:
    """Neither silence nor half a first message is waited for by others."""
    async with harbour(tls=True, limits=MANY) as there:
        first = hello()
        crowd = [await there.client(first[:-1]) for _ in range(20)] + [await there.client() for _ in range(20)]
        kept = await asyncio.to_thread(hostile.tls, there.number)
        assert greeted(crowd) == 0
        crowd[0].sendall(first[-1:])
        await until(lambda: greeted(crowd) == 1)
        kept.close()


@pytest.mark.parametrize("said", [b"", b"\x16", b"\x16\x03\x01\x02\x00half", HEALTH])
async def test_who_goes_before_the_handshake(said: bytes) -> None:
    """Nothing is left of who says half of it, or something else, and goes."""
    async with harbour(tls=True) as there:
        (await there.client(said)).shutdown(socket.SHUT_WR)
        await until(lambda: len(there.port.connections) == 0)


def test_an_empty_host_is_every_address() -> None:
    """IPv4 and, where there is one, IPv6; and a name is what it resolves to."""
    (everywhere,) = listen("", 0)
    with everywhere, socket.create_connection(("127.0.0.1", everywhere.getsockname()[1]), timeout=hostile.SECONDS):
        pass
    by_name = listen("localhost", 0)
    assert len({one.getsockname()[1] for one in by_name}) == 1
    for one in by_name:
        one.close()
    with pytest.raises(ServingError, match=r"no\.such\.host\.invalid:0: can't listen there: "):
        listen("no.such.host.invalid", 0)
