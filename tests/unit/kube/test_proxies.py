"""Requests and watches through an HTTP proxy: tunnels for TLS, whole URLs without it."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podberth.kube.client import Client
from podberth.kube.connection import Connection, Tls
from podberth.kube.errors import Unreachable
from tests.certificates import Authority

LONG = 60.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An API server that says `{}` to everything."""
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction of a tunnel."""
    try:
        while part := await reader.read(65536):
            writer.write(part)
    except ConnectionError:
        pass
    finally:
        writer.close()


class Proxy:
    """A proxy that makes tunnels, refuses them with `refusal`, and answers whole URLs itself; `heads` of requests."""

    def __init__(self) -> None:
        self.heads: list[list[str]] = []
        self.refusal = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head.split("\r\n"))
            verb, target, _ = self.heads[-1][0].split(" ")
            if self.refusal or verb != "CONNECT":
                writer.write(self.refusal or ANSWER)
                await writer.drain()
                return
            host, _, port = target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            for piece in (b"HTTP/1.1 200 Connection ", b"established\r\nVia: us\r\n\r\n"):
                writer.write(piece)
                await writer.drain()
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        finally:
            writer.close()


@asynccontextmanager
async def listening(serve: Serve, certificate: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server's host and port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificate)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The CA that all servers here have their certificates from."""
    return Authority(tmp_path)


@pytest.fixture
def certificate(authority: Authority, tmp_path: Path) -> ssl.SSLContext:
    """A server at 127.0.0.1."""
    authority.server("127.0.0.1", tmp_path / "s.crt", tmp_path / "s.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "s.crt", tmp_path / "s.key")
    return context


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_tls_goes_through_a_tunnel(
    scheme: str, authority: Authority, certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list and its watch share one; the proxy is told who we are, and the server's certificate is checked."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))  # by which the proxy's own certificate is checked
    proxy = Proxy()
    async with (
        listening(answers, certificate) as server,
        listening(proxy.serve, certificate if scheme == "https" else None) as by,
    ):
        url, tls = f"{scheme}://ann:p%40ss@{by}", Tls(ca=str(authority.file))
        async with Client(Connection(f"https://{server}", tls=tls, proxy=url), qps=-1) as client:
            assert await client.get("/list") == b"{}"
            async with client.stream("/watch", idle=LONG) as stream:
                assert await stream.read() == b"{}"
    (head,) = proxy.heads
    assert head[0] == f"CONNECT {server} HTTP/1.1"
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'ann:p@ss').decode()}" in head


async def test_without_tls_the_proxy_is_asked_for_the_whole_url() -> None:
    """As curl and Go do: no tunnel."""
    proxy = Proxy()
    async with (
        listening(proxy.serve) as by,
        Client(Connection("http://api.test:8080/prefix", proxy=f"http://ann:secret@{by}"), qps=-1) as client,
    ):
        assert await client.get("/list", query="limit=1") == b"{}"
    (head,) = proxy.heads
    assert head[0] == "GET http://api.test:8080/prefix/list?limit=1 HTTP/1.1"
    assert head[1] == "Host: api.test:8080"
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'ann:secret').decode()}" in head


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy says HTTP/1.1 407 Proxy Authentication"),
        (b"220 mail.example ESMTP\r\n\r\n", "the proxy says 220 mail.example ESMTP"),
        (b"HTTP/1.1 200", "the proxy has ended the connection"),
    ],
)
async def test_a_tunnel_that_is_refused(refusal: bytes, said: str) -> None:
    """Nothing was sent, and the line says why."""
    proxy = Proxy()
    proxy.refusal = refusal
    async with listening(proxy.serve) as by:
        connection = Connection("https://api.test", tls=Tls(), proxy=f"http://{by}")
        async with Client(connection, qps=-1) as client:
            with pytest.raises(Unreachable, match=r"cannot connect to api\.test: ") as caught:
                await client.create("/x", b"{}")
    assert said in str(caught.value)
    assert not caught.value.sent


async def test_a_server_that_is_not_trusted_behind_a_tunnel(certificate: ssl.SSLContext) -> None:
    """The proxy can't stand in for the server."""
    proxy = Proxy()
    async with listening(answers, certificate) as server, listening(proxy.serve) as by:
        connection = Connection(f"https://{server}", tls=Tls(), proxy=f"http://{by}")
        async with Client(connection, qps=-1) as client:
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await client.get("/x")
