"""Virtual time: event loops that take turns on one timeline, without threads, sockets or sleep.

Each simulated process has a loop of its own and a clock of its own. The timeline always runs the loop that is due next
and moves its time there, so ten quiet minutes cost nothing. A loop that is stopped (SIGSTOP) takes no turns; one that
is dead (kill -9) never takes another.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, Protocol

TURN_SECONDS = 2e-5
"""What a turn of a loop takes at least, so that a loop that never sleeps does not hold up time."""
_TURNING = float("-inf")
"""When a loop wakes that takes its turn now: nothing needs to wake it."""
LOOK_SECONDS = 1e-5
"""What passes each time that a process looks at its clock: work takes time, and slices end."""


class Connects(Protocol):
    """Whatever connects a process to others."""

    async def connect(self, loop: Loop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Any: ...


class Timeline:
    """The time of the world, and whose turn is next."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0
        self._due: list[tuple[float, int, Loop]] = []
        self._order = 0

    def wake(self, loop: Loop, at: float) -> None:
        """Give this loop a turn at that time, in the world's seconds."""
        self._order += 1
        heappush(self._due, (at, self._order, loop))

    def run(self, until: float) -> None:
        """Let loops take turns until then."""
        due = self._due
        before = events._get_running_loop()
        try:
            while due and due[0][0] <= until:
                at, _, loop = heappop(due)
                if loop.wakes_at != at or loop.still:
                    continue  # it was woken earlier, or is stopped
                while True:
                    if at > self.now:
                        self.now = at
                    self.turns += 1
                    wants = loop.turn()
                    if wants is None:
                        break
                    at = wants
                    if at > until or (due and due[0][0] <= at):
                        loop.wakes_at = at
                        self.wake(loop, at)
                        break
                    # Nobody is due before it: most turns end with something that is ready.
        finally:
            events._set_running_loop(before)
        self.now = max(self.now, until)


class Handle(list[Any]):
    """A callback that was asked for: the callback, its arguments, its context, and when by the loop's own clock.

    A list, as it is made in one call of C: a run makes some 50,000.
    """

    __slots__ = ()

    def cancel(self) -> None:
        self[0] = None
        self[1] = ()

    def cancelled(self) -> bool:
        return self[0] is None

    def when(self) -> float:
        at: float = self[3]
        return at


_Abstract: Any = asyncio.AbstractEventLoop


class Loop(_Abstract):  # type: ignore[misc] # files, sockets and processes are not there
    """The loop of one process. Its clock begins at `offset` and goes `rate` times as fast as the world's."""

    def __init__(
        self, timeline: Timeline, name: str, *, offset: float = 0.0, rate: float = 1.0, network: Connects | None = None
    ) -> None:
        self.name = name
        self.life = 0
        """Which life of its process it is of."""
        self.timeline = timeline
        self.network = network
        self.dead = False
        self.stopped = False
        self.still = False
        """Whether it takes no turns: it is dead or stopped."""
        self.went_on_at = 0.0
        """When SIGCONT came last, in the world's seconds."""
        self.void = False
        """At the end of the world: nothing can be reached, and no time passes."""
        self.wakes_at: float | None = None
        self.broken: list[str] = []
        """What nobody handled."""
        self._rate = rate
        self._offset = offset
        self._spent = 0.0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._order = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def here(self) -> float:
        """The world's time, with what this turn has taken so far."""
        return self.timeline.now + self._spent

    def time(self) -> float:
        """The process' own monotonic clock."""
        return self._offset + self.here * self._rate

    def look(self) -> float:
        """The same, as the process' code asks for it: some time passes."""
        self._spent += LOOK_SECONDS
        return self._offset + (self.timeline.now + self._spent) * self._rate

    def turn(self) -> float | None:
        """One iteration, in asyncio's order: timers that are due join what is ready, and that runs once.

        When the next one is due, in the world's seconds; None: when somebody wakes it.
        """
        self.wakes_at = _TURNING
        timers, ready = self._timers, self._ready
        now = self.timeline.now
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])
        self._spent = TURN_SECONDS
        events._set_running_loop(self)
        for _ in range(len(ready)):
            callback, args, context, _ = ready.popleft()
            if callback is None:
                continue
            try:
                if context is None:
                    callback(*args)
                else:
                    context.run(callback, *args)
            except Exception as error:  # noqa: BLE001 - as asyncio does: it is told, and the loop goes on
                self.call_exception_handler({"message": f"in {callback!r}", "exception": error})
            if self.still:
                break
        free_at = now + self._spent
        self._spent = 0.0
        self.wakes_at = None
        return None if self.still else self._next(free_at)

    def _next(self, free_at: float) -> float | None:
        """When there is something to do, and it is free to do it; None: there is nothing yet."""
        if self._ready:
            return free_at
        timers = self._timers
        while timers and timers[0][2][0] is None:
            heappop(timers)
        if not timers:
            return None
        due = timers[0][0]
        return due if due > free_at else free_at

    def _wake(self, at: float) -> None:
        if not self.still and (self.wakes_at is None or at < self.wakes_at):
            self.wakes_at = at
            self.timeline.wake(self, at)

    def stop_turning(self) -> None:
        """SIGSTOP."""
        self.stopped = self.still = True

    def go_on(self) -> None:
        """SIGCONT: what became due meanwhile is done now."""
        self.stopped, self.still = False, self.dead
        self.went_on_at = self.timeline.now
        self.wakes_at = None
        self._sleep()

    def _sleep(self) -> None:
        """Until there is something to do."""
        at = self._next(self.timeline.now)
        if at is not None:
            self._wake(at)

    def kill(self) -> None:
        """SIGKILL: not another step."""
        self.dead = self.still = True

    # -- what asyncio asks of a loop -----------------------------------------------------------------------------

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        handle = Handle((callback, args, context, 0.0))
        self._ready.append(handle)
        wakes_at = self.wakes_at
        if wakes_at is not _TURNING:
            now = self.timeline.now + self._spent
            if wakes_at is None or wakes_at > now:
                self._wake(now)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        when = self._offset + (self.timeline.now + self._spent) * self._rate + delay
        handle = Handle((callback, args, context, when))
        self._keep((when - self._offset) / self._rate, handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle((callback, args, context, when))
        self._keep((when - self._offset) / self._rate, handle)
        return handle

    def at(self, world: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        """Call at a time of the world."""
        handle = Handle((callback, args, context, 0.0))
        self._keep(world, handle)
        return handle

    def _keep(self, world: float, handle: Handle) -> None:
        self._order = order = self._order + 1
        heappush(self._timers, (world, order, handle))
        wakes_at = self.wakes_at
        if (wakes_at is None or world < wakes_at) and not self.still:
            timeline = self.timeline
            at = world if world > timeline.now else timeline.now
            if wakes_at is None or at < wakes_at:
                self.wakes_at = at
                timeline.wake(self, at)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="" if name is None else str(name), context=context)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once, on this thread; the answer is seen in a later turn, as a thread's would be."""
        done = self.create_future()

        def answer() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits
                done.set_exception(error)

        self.call_later(0.001, answer)
        return done

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> Any:
        if self.network is None or self.void:
            raise ConnectionRefusedError(f"{host}:{port} refused")
        return await self.network.connect(self, protocol_factory, host, port)

    get_debug = bool  # which says False, without a call of Python: each future asks

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead and not self.void:
            error = context.get("exception")
            self.broken.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """For asyncio's own timers, of which there are none here."""

    # -- the end of the world ------------------------------------------------------------------------------------

    def wind_up(self) -> None:
        """Cancel every task and let it end, so that nothing is left half way."""
        self.void, self.dead, self.stopped, self.still = True, False, False, False
        timeline, self.timeline = self.timeline, Timeline()
        self.timeline.now = timeline.now
        self.wakes_at = None
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(1000):
                tasks = self.tasks | asyncio.all_tasks(self)
                for task in tasks:
                    task.cancel()
                if not tasks:
                    break
                self._sleep()
                self.timeline.run(self.timeline.now + 10.0)
        finally:
            events._set_running_loop(before)
        for task in self.tasks:
            raise RuntimeError(f"{self.name}: {task!r} does not end")
        self._ready.clear()
        self._timers.clear()
