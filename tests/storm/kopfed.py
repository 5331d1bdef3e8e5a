"""kopf, unchanged, on a simulated loop: its requests go over the simulated network, in place of sockets.

What is left out of kopf: aiohttp's connector for real sockets (TLS, proxies, name resolution), the handling of signals,
and the SIGKILL by which it ends its thread a while after it was cancelled: the processes of a world have one thread,
and that of a test is not theirs to end. Its scans and watches of kinds begin in one order, and its tasks are cancelled
in one: kopf's own is that of sets, by hashes and by addresses in memory. And aiohttp counts by the loop's clock for how
long a connection has been idle: by the machine's, how long a run takes would decide what is closed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import CoroutineType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import aiohttp
from aiohttp import connector
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.tracing import Trace
from kopf._cogs.aiokits import aiotasks
from kopf._cogs.clients import api, scanning
from kopf._core.actions import progression
from kopf._core.reactor import orchestration, running

_BEGAN = datetime(2026, 9, 21, tzinfo=UTC)
"""The time at which each loop's clock was at zero: kopf works out its retries by both."""


def _in_order(coros: Iterable[CoroutineType[Any, Any, Any]]) -> Iterator[Any]:
    """`as_completed`, begun in the order of what is asked for: kopf's sets have the order of addresses in memory."""
    ranked = sorted(coros, key=lambda one: (one.__qualname__, str(inspect.getcoroutinelocals(one).get("url"))))
    return asyncio.as_completed([asyncio.ensure_future(one) for one in ranked])


_stop = aiotasks.stop


async def _stop_in_order(tasks: Collection[asyncio.Task[Any]], **how: Any) -> Any:
    return await _stop(sorted(tasks, key=asyncio.Task.get_name), **how)


_spawn_missing_watchers = orchestration.spawn_missing_watchers


async def _watch_in_order(watched_resources: Iterable[Any], **how: Any) -> None:
    await _spawn_missing_watchers(watched_resources=sorted(watched_resources, key=str), **how)


async def _lives_on(**_: Any) -> None:
    """In place of `ultimate_termination`."""
    await asyncio.Event().wait()


def _now() -> float:
    """The time on the clock of the process whose turn it is."""
    return asyncio.get_running_loop().time()


class _Asyncio:
    """asyncio for kopf's `stream`, whose callback asks for the current task: it has none, and an error is logged.

    Nothing else comes of that: what the callback would cancel is cancelled a moment later.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def current_task(self) -> Any:
        return asyncio.current_task() or SimpleNamespace(cancel=lambda: None)


@contextmanager
def simulated() -> Iterator[None]:
    """While this lasts, kopf's scan of kinds is the same in each run, and aiohttp looks at the simulated clock."""
    with (
        patch.object(scanning, "asyncio", SimpleNamespace(as_completed=_in_order)),
        patch.object(aiotasks, "stop", _stop_in_order),
        patch.object(orchestration, "spawn_missing_watchers", _watch_in_order),
        patch.object(progression, "_get_basetime", lambda: _BEGAN),
        patch.object(running, "ultimate_termination", _lives_on),
        patch.object(api, "asyncio", _Asyncio()),
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


def connector_of(loop: Any) -> aiohttp.BaseConnector:
    """How kopf's requests leave a process of this loop."""
    return Connector(limit=0, loop=loop)
