"""kopf, unchanged, on a simulated loop: its requests go over the simulated network, in place of a thread and sockets.

What is left out of kopf: its thread (its loop is one more loop of the process), aiohttp's connector for real sockets
(TLS, proxies, name resolution), and the handling of signals, which the operator does itself in production as well. Its
scan of kinds is begun in one order: kopf's own is that of sets of coroutines, by their addresses in memory. And aiohttp
counts by the loop's clock for how long a connection has been idle: by the machine's, how long a run takes would decide
what is closed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CoroutineType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import aiohttp
from aiohttp import connector
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.tracing import Trace
from kopf._cogs.clients import scanning

from podberth.kube.connection import Connection
from podberth.policy.operator.pulse import Pulse
from podberth.policy.operator.watch import Kopf

if TYPE_CHECKING:
    from tests.storm.process import Process


def _in_order(coros: Iterable[CoroutineType[Any, Any, Any]]) -> Iterator[Any]:
    """`as_completed`, begun in the order of what is asked for: kopf's sets have the order of addresses in memory."""
    ranked = sorted(coros, key=lambda one: (one.__qualname__, str(inspect.getcoroutinelocals(one).get("url"))))
    return asyncio.as_completed([asyncio.ensure_future(one) for one in ranked])


def _now() -> float:
    """The time on the clock of the process whose turn it is."""
    return asyncio.get_running_loop().time()


@contextmanager
def simulated() -> Iterator[None]:
    """While this lasts, kopf's scan of kinds is the same in each run, and aiohttp looks at the simulated clock."""
    with (
        patch.object(scanning, "asyncio", SimpleNamespace(as_completed=_in_order)),
        patch.object(connector, "monotonic", _now),
    ):
        yield


class Connector(aiohttp.BaseConnector):
    """Connects over the simulated network."""

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own
    ) -> ResponseHandler:
        assert req.url.host is not None and req.url.port is not None
        try:
            _, protocol = await self._loop.create_connection(self._factory, req.url.host, req.url.port)
        except OSError as error:
            key: ConnectionKey = req.connection_key
            raise aiohttp.ClientConnectorError(key, error) from error
        return protocol


class Simulated(Kopf):
    """One run of kopf, in a loop of its process."""

    def __init__(
        self, process: Process, connection: Connection, watched: tuple[str, ...], paths: list[str], pulse: Pulse
    ) -> None:
        super().__init__(connection, watched, paths, pulse)
        self._loop.close()
        self._simulated = process.thread()
        self._loop: Any = self._simulated

    def start(self) -> None:
        self._simulated.create_task(self._live())

    def join(self, seconds: float) -> None:
        """It has ended when `finish` was called."""

    def connector(self) -> aiohttp.BaseConnector:
        return Connector(limit=0, loop=self._loop)

    async def _live(self) -> None:
        reason = "kopf stopped"
        try:
            await self._operate()
        except asyncio.CancelledError:
            reason = "kopf was cancelled"
        except Exception as error:  # noqa: BLE001 - as in `Kopf.run`
            reason = f"{type(error).__name__}: {error}"
        self.finish(reason)
