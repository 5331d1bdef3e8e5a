"""Requests and streams through a proxy, by aiohttp: CONNECT, TLS inside it, what the proxy itself refuses.

Imported only where there is a proxy: importing aiohttp takes a third of what a scheduler's start would take without it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import aiohttp
from yarl import URL

from podberth.kube.connection import Connection
from podberth.kube.errors import Unreachable, described
from podberth.kube.exchange import CONNECT_SECONDS, KEEPALIVE_SECONDS, keep_alive
from podberth.kube.line import Response


class Proxied:
    """Kept-alive connections to one server by way of its proxy; made and closed on the event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left: set[asyncio.Task[Response]] = set()
        """Requests for whose answers nobody waits any more."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the lanes limit
                keepalive_timeout=KEEPALIVE_SECONDS,
                ttl_dns_cache=10,
                socket_factory=_keepalive_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding", "Content-Type"),
            read_bufsize=1 << 20,  # a page of pods is megabytes; fewer pauses of the transport
        )

    async def close(self) -> None:
        """End every connection."""
        for task in self._left:
            task.cancel()
        await self._session.close()

    async def send(
        self,
        verb: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes | None,
        seconds: float,
        within: float | None,
        *,
        patience: float | None = None,
        on_send: Callable[[], None] | None = None,
    ) -> Response:
        """As `Exchange.send`; `on_send` is called before a connection is found, which aiohttp does by itself."""
        if on_send is not None:
            on_send()
        limits = aiohttp.ClientTimeout(total=seconds, connect=within, sock_connect=CONNECT_SECONDS)
        if patience is None:
            return await self._send(verb, target, headers, body, limits)
        task = asyncio.ensure_future(self._send(verb, target, headers, body, limits))
        try:
            await asyncio.wait((task,), timeout=patience)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return task.result()
        self._left.add(task)
        task.add_done_callback(self._answered)
        raise Unreachable(f"no answer in time from {self._connection.host}", timed_out=True)

    def _answered(self, task: asyncio.Task[Response]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it

    async def _send(
        self,
        verb: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes | None,
        limits: aiohttp.ClientTimeout,
    ) -> Response:
        response = await self._request(verb, target, headers, body, limits)
        try:
            found = await response.read()
        except TimeoutError as error:
            raise Unreachable("the answer stopped half way", timed_out=True, heard=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(described(error)) from error
        return Response(response.status, found, response.headers.get("Retry-After"))

    async def open(self, target: str, headers: list[tuple[str, str]], idle: float) -> ProxiedStream:
        """As `Exchange.open`."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle)
        return ProxiedStream(await self._request("GET", target, headers, None, limits))

    async def _request(
        self,
        verb: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes | None,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        connection = self._connection
        try:
            return await self._session.request(
                verb,
                URL(f"{connection.host}{target}", encoded=True),
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=limits,
                ssl=connection.context() or True,
                proxy=connection.proxy,
                server_hostname=connection.server_name,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ClientSSLError, aiohttp.ConnectionTimeoutError) as error:
            connection.recheck_tls()
            raise Unreachable(described(error), sent=False, timed_out=isinstance(error, TimeoutError)) from error
        except TimeoutError as error:
            raise Unreachable(f"no answer in time from {connection.host}", timed_out=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(described(error)) from error


class ProxiedStream:
    """The open end of an answer, as `streaming.Stream` describes it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.retry_after: str | None = response.headers.get("Retry-After")
        self._response = response

    async def read(self) -> bytes:
        """See Stream."""
        try:
            return await self._response.content.readany()
        except TimeoutError as error:
            raise Unreachable("the stream fell silent", timed_out=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(described(error)) from error

    def abort(self) -> None:
        """See Stream."""
        self._response.close()


def _keepalive_socket(address: tuple[object, ...]) -> socket.socket:
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
    keep_alive(sock)
    return sock
