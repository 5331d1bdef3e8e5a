"""A candidate that reads and renews its Lease on a thread of its own, so that a busy event loop does not lose it.

What leads works on one event loop, and a turn of that loop may take longer than the renew deadline. The thread has an
event loop and a connection of its own; it renews as long as the main loop turns now and then. A loop that has not
turned for `Elector.dead_after` is dead: the Lease is not renewed any more, and `on_dead` is told, on the thread.

A thread needs the interpreter. Python code gives it away every few milliseconds; C code that keeps it stops the thread,
too, and then the Lease ends by the clock, as it does for a process that is stopped as a whole.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import DURATION, RENEW_DEADLINE, RETRY, Elector, Found, LoopDeadError, here

SIGNS = 4.0
"""How often the event loop shows that it runs, in each retry period."""


class Candidate(Elector):
    """An Elector whose `run` waits, renews and releases on a thread, and does the work where it is called.

    `on_problem` and `on_dead` are called on that thread. `on_dead` gets the reason; the work may still be running.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = DURATION,
        renew_deadline: float = RENEW_DEADLINE,
        retry: float = RETRY,
        annotations: Mapping[str, str] | None = None,
        otherwise: str = "",
        on_problem: Callable[[str], None] | None = None,
        on_dead: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(
            Client(connection),
            namespace,
            name,
            identity,
            duration=duration,
            renew_deadline=renew_deadline,
            retry=retry,
            annotations=annotations,
            otherwise=otherwise,
            on_problem=on_problem,
            signs=lambda: self._beats,
        )
        self._connection = connection
        self._on_dead = on_dead
        self._beats = 0

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to lead, do the work while we do, and release the Lease, as an Elector does. Raises LeaseLostError."""
        beating = asyncio.create_task(self._beat())
        try:
            async with Aside(self._connection) as aside:
                self._client, self._there = aside.client, aside.call
                await super().run(work)
        finally:
            self._there = here
            beating.cancel()

    async def keep(self) -> None:
        """Renew the Lease as an Elector does; call `on_dead` when the event loop is stuck and can't do so itself."""
        try:
            await super().keep()
        except LoopDeadError as error:
            if self._on_dead is not None:
                self._on_dead(str(error))
            raise

    async def _beat(self) -> None:
        """On the main loop."""
        while True:
            self._beats += 1
            await asyncio.sleep(self._retry / SIGNS)


class Aside:
    """A thread with an event loop, and a client that belongs there; use as `async with`, from another loop."""

    def __init__(self, connection: Connection) -> None:
        self.client = Client(connection)
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._ended: Future[None] = Future()
        self._over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> Aside:
        threading.Thread(target=self._thread, name="lease", daemon=True).start()
        try:
            self._loop = await asyncio.wrap_future(self._ready)
        except asyncio.CancelledError:
            self._ready.add_done_callback(self._leave)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        await asyncio.wrap_future(self._ended)

    def call(self, work: Coroutine[Any, Any, Found]) -> Awaitable[Found]:
        """Run it there, from now on. Cancelled, it is cancelled there, before whatever is called next."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _leave(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        """Nobody came; a thread that has begun all the same ends."""
        if not ready.cancelled() and ready.exception() is None:
            ready.result().call_soon_threadsafe(self._over.set)

    def _thread(self) -> None:
        try:
            asyncio.run(self._stay())
        except BaseException as error:  # noqa: BLE001 - it goes on in whoever waits
            for waited_for in (self._ready, self._ended):
                if not waited_for.done():
                    waited_for.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _stay(self) -> None:
        self._over = asyncio.Event()
        async with self.client:
            if self._ready.set_running_or_notify_cancel():
                self._ready.set_result(asyncio.get_running_loop())
                await self._over.wait()
