"""Answers without end, byte by byte: what a server, or what stands between, may do with a watch."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.http1 import MOST_WAITING
from tests.unit.kube.conftest import until

Say = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LONG = 60.0
"""Seconds of silence that no test comes to."""
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PACKED = CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
END = b"0\r\n\r\n"


class Raw:
    """A server of bytes; `say` is called for each request, with its head read, `gone` when a connection has ended."""

    def __init__(self, say: Say, gone: Callable[[asyncio.StreamWriter], None] = lambda _: None) -> None:
        self.say = say
        self.gone = gone
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client goes or `say` closes it."""
        self.connections += 1
        try:
            while not writer.is_closing():
                await reader.readuntil(b"\r\n\r\n")
                await self.say(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone(writer)
            writer.close()


@asynccontextmanager
async def serving(say: Say) -> AsyncIterator[tuple[Raw, Client]]:
    """Such a server, and a client of it."""
    raw = Raw(say)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(Connection(raw.url), qps=-1) as client:
        yield raw, client


def saying(*parts: bytes, close: bool = False) -> Say:
    """Writes these, each by itself."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return say


def chunk(body: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(body), body)


async def everything(client: Client) -> bytes:
    """Return what a stream brings to its proper end."""
    found = b""
    async with client.stream("/w", idle=LONG) as stream:
        while part := await stream.read():
            found += part
    return found


@pytest.mark.parametrize(
    ("say", "want"),
    [
        pytest.param(saying(CHUNKED, chunk(b"a\n"), chunk(b"b\n"), END), b"a\nb\n", id="chunks"),
        pytest.param(saying(CHUNKED[:9], CHUNKED[9:], b"2", b"\r\na", b"\n\r\n0\r\n\r", b"\n"), b"a\n", id="cut"),
        pytest.param(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", b"\n"), b"a\n", id="of a known length"),
        pytest.param(saying(b"HTTP/1.0 200 OK\r\n\r\na", b"\n", close=True), b"a\n", id="until the connection ends"),
        pytest.param(saying(HINTS, CHUNKED, chunk(b"a"), END), b"a", id="hints"),
        pytest.param(
            saying(PACKED, chunk(zlib.compress(b"packed", wbits=31)), END), b"packed", id="packed, though not asked for"
        ),
    ],
)
async def test_a_stream_to_its_end(say: Say, want: bytes) -> None:
    """All its bytes, then b"", however it is framed."""
    async with serving(say) as (_, client):
        assert await everything(client) == want


@pytest.mark.parametrize(
    "say",
    [
        pytest.param(saying(CHUNKED, chunk(b"a"), b"5\r\nhal", close=True), id="in a piece"),
        pytest.param(saying(CHUNKED, chunk(b"a"), close=True), id="between two"),
        pytest.param(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", close=True), id="before its length"),
        pytest.param(saying(CHUNKED, chunk(b"a"), b"no number\r\n"), id="by nonsense"),
        pytest.param(saying(b"HTTP/1.1 200", close=True), id="in its head"),
        pytest.param(saying(b"220 mail.example ESMTP\r\n"), id="no HTTP"),
        pytest.param(saying(PACKED, chunk(b"no gzip")), id="no gzip"),
    ],
)
async def test_a_stream_that_is_cut(say: Say) -> None:
    """It never looks like an end."""
    async with serving(say) as (_, client):
        with pytest.raises(Unreachable) as caught:
            await everything(client)
        assert not caught.value.timed_out


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", CHUNKED, CHUNKED + chunk(b"a")])
async def test_a_silent_stream_is_given_up(said: bytes) -> None:
    """Before its head, in it, and after it."""
    async with serving(saying(said)) as (_, client):
        with pytest.raises(Unreachable) as caught:
            async with client.stream("/w", idle=0.05) as stream:
                while await stream.read():
                    pass
        assert caught.value.timed_out


async def test_a_refusal_is_read_to_its_end() -> None:
    """The Status of an answer that is no stream comes with the error."""
    body = b'{"kind": "Status", "reason": "Expired", "message": "too old", "code": 410}'
    head = b"HTTP/1.1 410 Gone\r\nRetry-After: 3\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with serving(saying(head, body[:20], body[20:])) as (_, client):
        with pytest.raises(ApiError) as caught:
            await everything(client)
        assert (caught.value.status, caught.value.reason, caught.value.retry_after) == (410, "Expired", 3.0)


async def test_a_slow_reader_holds_the_server_up() -> None:
    """Bytes that nobody reads do not pile up here; once read, nothing is missing."""
    size, sent = 256 * 1024, 0
    total = 16 * MOST_WAITING

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        while sent < total:
            writer.write(chunk(b"x" * size))
            await writer.drain()
            sent += size
        writer.write(END)

    async with serving(say) as (_, client), client.stream("/w", idle=LONG) as stream:
        found = len(await stream.read())
        before = -1
        while before != sent:  # until the server gets no further
            before = sent
            for _ in range(100):
                await asyncio.sleep(0)
        assert sent < total / 2
        while part := await stream.read():
            found += len(part)
        assert found == total


async def test_a_watch_takes_over_the_connection_of_its_list() -> None:
    """No handshake of its own; a second one while it lasts gets another connection."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with serving(say) as (raw, client):
        assert await client.get("/list") == b"{}"
        async with client.stream("/w", idle=LONG) as stream:
            assert await stream.read() == b"{}"
            assert raw.connections == 1
            assert await client.get("/list") == b"{}"
            assert raw.connections == 2


async def test_a_connection_that_ends_as_it_is_taken_over_is_replaced() -> None:
    """The server closes it in the same moment: a GET is sent again on a new one."""
    asked = 0

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            writer.close()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with serving(say) as (raw, client):
        await client.get("/list")
        assert await everything(client) == b"{}"
        assert (raw.connections, asked) == (2, 3)


async def test_abort_wakes_the_reader() -> None:
    """Ended from our side, a waiting read raises, and the server sees the connection go."""
    async with serving(saying(CHUNKED)) as (_, client), client.stream("/w", idle=LONG) as stream:
        reading = asyncio.ensure_future(stream.read())
        await until(lambda: stream.status == 200)
        await asyncio.sleep(0)
        stream.abort()
        with pytest.raises(Unreachable):
            await reading
