"""A connection that has ended is gone, and all that TLS keeps for it, without the garbage collector.

What has lived for a while is collected once a day only (`service/collector`), and by others seldom: each connection
that was left to it took some 50 kB until then.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from podberth.kube.connection import Connection, Tls
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.http1 import ConnectionPool, HttpConnection, Stream
from tests.certificates import Authority
from tests.unit.kube.conftest import ScriptedServer, until
from tests.unit.kube.test_reflector import Cluster, reflecting
from tests.unit.kube.test_streams import saying, serving
from tests.unit.kube.wirekit import bookmark, listing

LONG = 60.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Only counts of references free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Served:
    """A server with TLS that answers each piece it gets, or hangs up; and its address."""

    def __init__(self) -> None:
        self.url = ""
        self.says = ANSWER
        self.hangs_up = False
        self._open: set[asyncio.StreamWriter] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await reader.read(4096) and not self.hangs_up:
                writer.write(self.says)
        except ConnectionError:
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort() if self.hangs_up else writer.close()

    def cut(self) -> None:
        """End all connections, as a process does that is killed."""
        for writer in list(self._open):
            writer.transport.abort()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """It listens."""
    authority = Authority(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(authority.client((x509.NameOID.COMMON_NAME, str(ip_address("127.0.0.1")))))
    made = Served()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0, ssl=own)
    async with server:
        made.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made


class Watched(ConnectionPool):
    """A pool that knows its connections without keeping them."""

    def __init__(self, url: str, tls: Tls) -> None:
        super().__init__(Connection(url, tls=tls), time.monotonic)
        self.lines: list[weakref.ref[HttpConnection]] = []

    async def _handshake(self, seconds: float) -> HttpConnection:
        line = await super()._handshake(seconds)
        self.lines.append(weakref.ref(line))
        return line


@pytest.mark.usefixtures("without_collector")
async def test_one_that_is_closed(served: Served) -> None:
    """It has carried a request."""
    made = Watched(served.url, Tls(verify=False))
    assert (await made.send("GET", made.message("GET", "/x", "", None, ""), LONG)).body == b"ok"
    (line,) = made.lines
    made.close()
    await until(lambda: line() is None)


@pytest.mark.usefixtures("without_collector")
async def test_one_that_carried_a_stream(served: Served) -> None:
    """A watch took it over."""
    made = Watched(served.url, Tls(verify=False))
    await made.send("GET", made.message("GET", "/x", "", None, ""), LONG)
    (line,) = made.lines
    stream = await made.open(made.message("GET", "/w", "", None, ""), LONG)
    assert await stream.read() == b"ok"
    assert line() is None
    stream.abort()
    carried = weakref.ref(stream)
    del stream
    await until(lambda: carried() is None)


async def fails(wanted: Awaitable[object]) -> None:
    """It is Unreachable, and nobody keeps the exception."""
    try:
        await wanted
    except Unreachable:
        return
    raise AssertionError("it did not fail")


def lines() -> int:
    """Return how many connections of clients carry no stream, open or not. Other tests may have left some."""
    return sum(isinstance(one, HttpConnection) for one in gc.get_objects())


@pytest.mark.usefixtures("without_collector")
async def test_one_on_which_no_answer_came(served: Served) -> None:
    """The server hung up: who asked has its exception, and nobody has the connection."""
    served.hangs_up = True
    before = lines()
    made = Watched(served.url, Tls(verify=False))
    await fails(made.send("POST", made.message("POST", "/x", "", b"x", "text/plain"), LONG))
    await until(lambda: lines() <= before)


@pytest.mark.usefixtures("without_collector")
async def test_one_whose_stream_was_cut(served: Served) -> None:
    """Whoever read the stream was told."""
    served.says = ENDLESS
    made = Watched(served.url, Tls(verify=False))
    stream = await made.open(made.message("GET", "/w", "", None, ""), LONG)
    assert await stream.read() == b"ok"
    served.cut()
    await fails(read_on(stream))
    carried = weakref.ref(stream)
    del stream
    await until(lambda: carried() is None)


async def read_on(stream: Stream) -> None:
    """Until it is cut."""
    while await stream.read():
        pass


@pytest.mark.usefixtures("without_collector")
async def test_one_that_never_came_about(served: Served) -> None:
    """The server's certificate is nobody's that is trusted."""
    made = Watched(served.url, Tls())
    before = lines()
    for _ in range(3):
        await fails(made.open(made.message("GET", "/w", "", None, ""), LONG))
    await until(lambda: lines() <= before)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("streamed", [False, True], ids=["request", "stream"])
async def test_a_refusal_keeps_nothing(streamed: bool) -> None:
    """Once it was looked at, an error is gone, and the request whose frame it refers to."""
    async with serving(saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as (_, client):
        try:
            if streamed:
                async with client.stream("/w", idle=LONG):
                    pass
            else:
                await client.get("/x")
        except ApiError as error:
            told = weakref.ref(error)
        assert told() is None


def streams() -> int:
    """Return how many streams there are, open or not."""
    return sum(isinstance(one, Stream) for one in gc.get_objects())


@pytest.mark.usefixtures("without_collector")
async def test_watches_that_were_cut(server: ScriptedServer) -> None:
    """A reflector keeps its last error for people, and not the connection on which it came: after ten, one is open."""
    cluster = Cluster()
    cluster.pages = [listing(9)]
    for i in range(10):
        cluster.streams.append([bookmark(10 + i), "reset"])
    cluster.streams.append([bookmark(30), "hold"])
    async with reflecting(server, cluster) as (reflector, _):
        await until(lambda: reflector.position == "30")
        assert isinstance(reflector.last_error, Unreachable)
        await until(lambda: streams() == 1)
