"""Run a service: on one event loop, from its first line in the log to its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

import structlog

from podberth import __version__
from podberth.kube.client import Client
from podberth.kube.lease import LeaseLostError
from podberth.kube.machine import loop_factory
from podberth.service import log as lines
from podberth.service.loop import tell_unhandled
from podberth.service.reviews import Reviews
from podberth.service.serving import Address, Endpoints, Gate, Serving

LOST = STUCK = 1
FRAMES = 12
"""Innermost frames that are shown of where the main thread is stuck."""
SERVE_AFTER = 1.0
"""Seconds that serving waits for the first lists."""

Work = Callable[[], Coroutine[Any, Any, None]]

log = structlog.get_logger("service")


def run_service(service: Coroutine[Any, Any, None]) -> int:
    """Run a service to its exit code: 0 when it was told to end, 1 when it led and lost the Lease.

    What breaks it comes out by itself, not in a group, so that wrong input is told as such.
    """
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.get_loop().set_exception_handler(tell_unhandled)
            runner.run(service)
        return 0
    except (LeaseLostError, BaseExceptionGroup) as error:
        broke = only(error)
        if isinstance(broke, LeaseLostError):
            log.error("leads no longer, ends so that a new process can stand by", reason=str(broke))
            return LOST
    finally:
        lines.flush()
    raise broke


async def until_told(
    work: Work,
    client: Client,
    *,
    stop: Callable[[], None] | None = None,
    listen: Address | None = None,
    endpoints: Endpoints,
    beside: Iterable[Work] = (),
    signals: Mapping[signal.Signals, Callable[[], None]] | None = None,
    synced: Callable[[], Awaitable[None]] | None = None,
    **about: object,
) -> None:
    """Work until SIGTERM or SIGINT, and do what is `beside` it as long as it works. `about`: said at the start.

    Each of the two signals calls `stop`, after which the work is to end by itself. Without `stop` the first one cancels
    the work, and further ones do not disturb its end.
    `endpoints` are served at `listen` (None: nowhere), once `synced` returns, or after a second: the start of a service
    is for its work. The API server is asked who may see what. Raises ServingError before anything has begun.
    """
    parts = list(beside)
    if listen is not None:
        reviews = Reviews(client)
        serving = Serving(listen, Gate(reviews.authorize, reviews.authorities), endpoints)
        serving.listen()
        parts.append(partial(_serve, serving, synced))
    loop = asyncio.get_running_loop()
    log.info("starting", version=__version__, server=client.connection.host, **about)
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work())  # its requests go first
        running = [tasks.create_task(part()) for part in parts]
        end = stop or partial(_cancel_once, working)
        for number, act in {signal.SIGTERM: end, signal.SIGINT: end, **(signals or {})}.items():
            loop.add_signal_handler(number, act)
        await asyncio.wait((working,))
        for task in running:
            task.cancel()


def only(error: BaseException) -> BaseException:
    """Return the one exception that a group holds, however deep; the group itself when they are several."""
    found = error
    while isinstance(found, BaseExceptionGroup):
        if len(found.exceptions) > 1:
            return error
        found = found.exceptions[0]
    return found


def _cancel_once(task: asyncio.Task[None]) -> None:
    if not task.cancelling():
        task.cancel()


async def _serve(serving: Serving, synced: Callable[[], Awaitable[None]] | None) -> None:
    try:
        if synced is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SERVE_AFTER):
                    await synced()
        await serving.run()
    finally:
        serving.shut()


def end_at_once(reason: str) -> NoReturn:
    """End a process whose event loop is stuck, from another thread. Say why, and what the main thread is at.

    Writes in progress are not finished and the Lease is not given back: another replica takes over when the Lease
    expires, and the kubelet restarts this one.
    """
    structlog.get_logger("ending").critical(
        "the process is stuck and ends, so that another replica takes over", reason=reason, at=held_at()
    )
    lines.flush()
    os._exit(STUCK)


def held_at() -> list[str]:
    """Return where the main thread is, from the outside in: file, line and function of the innermost frames."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return []
    return [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_stack(frame)[-FRAMES:]]
