"""A connection that has ended is gone, and all that TLS keeps for it, without the garbage collector.

What has lived for a while is collected once a day only (`telemetry/collector`), and by others seldom: each connection
that was left to it took some 50 kB until then.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from scheduler.kube.exchange import Exchange, _Line
from tests.certificates import Authority
from tests.unit.kube.conftest import until

LONG = 60.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Only counts of references free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """A server with TLS that answers each piece it gets; its address, and a client's context."""
    authority = Authority(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(authority.client((x509.NameOID.COMMON_NAME, str(ip_address("127.0.0.1")))))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(4096):
                writer.write(ANSWER)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=own)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", ssl._create_unverified_context()


class Watched(Exchange):
    """An exchange that knows its connections without keeping them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, None, time.monotonic)
        self.lines: list[weakref.ref[_Line]] = []

    async def _handshake(self, context: ssl.SSLContext | None, seconds: float) -> _Line:
        line = await super()._handshake(context, seconds)
        self.lines.append(weakref.ref(line))
        return line


@pytest.mark.usefixtures("without_collector")
async def test_one_that_is_closed(served: tuple[str, ssl.SSLContext]) -> None:
    """It has carried a request."""
    url, context = served
    made = Watched(url)
    assert (await made.send("GET", made.message("GET", "/x", "", None, ""), context, LONG)).body == b"ok"
    (line,) = made.lines
    made.close()
    await until(lambda: line() is None)


@pytest.mark.usefixtures("without_collector")
async def test_one_that_carried_a_stream(served: tuple[str, ssl.SSLContext]) -> None:
    """A watch took it over."""
    url, context = served
    made = Watched(url)
    await made.send("GET", made.message("GET", "/x", "", None, ""), context, LONG)
    (line,) = made.lines
    stream = await made.open(made.message("GET", "/w", "", None, ""), context, LONG)
    assert await stream.read() == b"ok"
    assert line() is None
    stream.abort()
    carried = weakref.ref(stream)
    del stream
    await until(lambda: carried() is None)
