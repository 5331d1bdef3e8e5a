"""Runs plugins' coroutines: those at Permit, PreBind, Bind and PostBind, with a time limit, and those of sources.

The results of the former become stimuli. Sources are refreshed beside the scheduling loop, so that `filter` and `score`
never wait for what is outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from typing import Any

import structlog

from podberth.app.metrics import SOURCE_AGE, SOURCE_REFRESHES
from podberth.engine.instructions import CancelCall, Carries, RunCall
from podberth.engine.stimuli import CallEnded, CallFailed, Refreshed, Stimulus
from podberth.framework.binding import Call
from podberth.framework.config import duration_text
from podberth.framework.guard import Guard, described
from podberth.framework.interface import Source
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.service.log import RateLimit
from podberth.service.metrics import Asked, Counter, Instrument, Labels

log = structlog.get_logger("plugins")

CLOSE_SECONDS = 2.0
"""Seconds for which a coroutine that was cancelled may clean up. One that goes on all the same is ended where it is."""

Key = tuple[str, str, str]
"""(schedulerName, plugin, source)."""


class Calls:
    """The coroutines that are running."""

    def __init__(self, answer: Callable[[Stimulus], None], leads: Callable[[], bool] = lambda: True) -> None:
        """`leads`: whether we may act; what extenders and plugins write goes past the fence of our own client."""
        self._answer = answer
        self._leads = leads
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._failures = RateLimit()
        self.carries: Carries = {RunCall: self.start, CancelCall: self.cancel}

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, instruction: RunCall) -> None:
        """Run a coroutine; `answer` gets CallEnded or CallFailed unless it is cancelled."""
        call = instruction.call
        if not self._leads():
            self._answer(CallFailed(call.pod.uid, call, "not started: we do not lead (any longer)"))
            return
        task = self._tasks[call] = asyncio.create_task(self._run(call))
        task.add_done_callback(lambda _: self._tasks.pop(call, None))

    def cancel(self, instruction: CancelCall) -> None:
        """Cancel a coroutine whose result is no longer needed."""
        task = self._tasks.get(instruction.call)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel all of them and wait for their end; their pods stay pending for whoever schedules next."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for call in tasks:  # since Python 3.12 this comes before the callbacks of tasks that had ended already
            self._tasks.pop(call, None)

    async def _run(self, call: Call) -> None:
        try:
            answer = await within(call.seconds, Guarded(call.guard, call.plugin, call.point, call.start))
        except PluginError as error:
            self._failed(call, error.text)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # nobody waits for it any more
            # The plugin's own: it waited for something that was cancelled, and its pod still waits for an answer.
            self._failed(call, described(error))
        except TimeoutError:
            self._failed(call, _no_answer(call.seconds))
        else:
            self._answer(CallEnded(call.pod.uid, call, answer))

    def _failed(self, call: Call, message: str) -> None:
        where = {"plugin": call.name, "point": call.point, "pod": call.pod.key}
        self._failures.write((call.name, call.point), log.warning, "plugin failed", **where, error=message)
        self._answer(CallFailed(call.pod.uid, call, message))


async def within(seconds: float, guarded: Guarded) -> Any:
    """Return a coroutine's result. Raises TimeoutError if it takes longer, and otherwise what the coroutine raises.

    It is cancelled when its time is over, and when whoever waits here is. Both wait no longer than `CLOSE_SECONDS` for
    its end, so that a plugin holds up no pod, and the end of the process only with tasks of its own that go on.
    """
    running = asyncio.ensure_future(guarded)
    running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # perhaps nobody asks any more
    in_time: set[asyncio.Future[Any]] = set()
    try:
        in_time, _ = await asyncio.wait((running,), timeout=seconds)
    finally:
        if not running.done():
            running.cancel()
            try:
                await asyncio.wait((running,), timeout=CLOSE_SECONDS)
            finally:
                guarded.over = True
                running.cancel()
    if not running.done() or (running.cancelled() and not in_time):
        raise TimeoutError
    return running.result()


def _no_answer(seconds: float) -> str:
    return f"no answer within {duration_text(seconds)}"


class Guarded:
    """Steps through a coroutine under its profile's guard, so that a step that blocks is seen, as at pure points.

    Once it is `over`, a cancellation is not told to the coroutine any more: it ends where it is.
    """

    def __init__(self, guard: Guard, plugin: Any, point: str, start: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._guard = guard
        self._plugin = plugin
        self._point = point
        self._start = start
        self.over = False

    def __await__(self) -> Generator[Any, Any, Any]:
        """The coroutine's result.

        Raises PluginError for whatever it raises.
        """
        coroutine: Coroutine[Any, Any, Any] = self._guard(self._plugin, self._start)
        resume: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            step = _Step(resume, self._point)
            awaited = self._guard(self._plugin, step)
            if step.ended:
                if step.error is not None:
                    raise step.error
                return awaited
            try:
                value = yield awaited
            except BaseException as error:  # (a cancellation is the coroutine's to see, as any other)
                if self.over:
                    self._guard(self._plugin, _Step(coroutine.close, self._point))
                    raise
                resume = partial(coroutine.throw, error)
            else:
                resume = partial(coroutine.send, value)


class _Step:
    """One step: what the coroutine waits for, or, once it has ended, its result.

    `error`: that it was cancelled or closed, which is for asyncio to judge and no failure of the plugin yet.
    """

    def __init__(self, resume: Callable[[], Any], point: str) -> None:
        self._resume = resume
        self.__name__ = point
        self.ended = False
        self.error: BaseException | None = None

    def __call__(self) -> Any:
        try:
            return self._resume()
        except StopIteration as result:
            self.ended = True
            return result.value
        except (asyncio.CancelledError, GeneratorExit) as error:
            self.ended, self.error = True, error
            return None


class Sources:
    """The sources of all profiles. `answer` is told when one has another value, `asked` when one was called."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        answer: Callable[[Stimulus], None],
        clock: Callable[[], float],
        asked: Callable[[], None],
    ) -> None:
        self._frameworks = frameworks
        self._answer = answer
        self._clock = clock
        self._asked = asked
        self._followed: dict[Key, _Followed] = {}
        self._refreshes = Counter(SOURCE_REFRESHES)

    async def run(self) -> None:
        """Refresh them until cancelled."""
        self.follow(self._frameworks)
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [task for one in self._followed.values() if (task := one.end()) is not None]
            await asyncio.gather(*tasks, return_exceptions=True)

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Refresh the sources of these profiles from now on. One that was there before goes on from its last value."""
        before = self._followed
        self._followed = {}
        for profile, framework in frameworks.items():
            for (plugin, name), source in framework.profile.sources.items():
                key = (profile, plugin, name)
                source.clock = self._clock
                old = before[key].source if key in before else None
                if old is not None and old.age is not None:
                    source.set(old.value, old.age)
                followed = self._followed[key] = _Followed(source, framework.guard, framework.plugin(plugin))
                followed.task = asyncio.create_task(self._refresh(key, followed))
        for gone in before.values():
            gone.end()

    def awaited(self) -> bool:
        """Return whether a source of the present profiles was not called to its end yet, whatever came of it."""
        return any(not followed.asked for followed in self._followed.values())

    async def _refresh(self, key: Key, followed: _Followed) -> None:
        while True:
            error, at = await followed.fetch()
            self._called(key, followed, error, at)
            await asyncio.sleep(followed.source.interval)

    def _called(self, key: Key, followed: _Followed, error: str, at: str) -> None:
        """Say what came of a call."""
        profile, plugin, name = key
        where = {"plugin": plugin, "source": name}
        self._refreshes.add(1, *key, "error" if error else "success")
        if error and error != followed.error:
            at_line = {"at": at} if at else {}
            log.warning("a source is not refreshed, its last value counts", **where, **at_line, error=error)
        elif followed.error and not error:
            log.info("a source is refreshed again", **where)
        followed.error = error
        if followed.changed:
            self._answer(Refreshed(profile, plugin))
        followed.asked = True
        self._asked()

    def notes(self) -> dict[str, str]:
        """Return warnings for /readyz?verbose."""
        failing = [(key, one.error) for key, one in self._followed.items() if one.error]
        said = "; ".join(f"source {name} of plugin {plugin}: {error}" for (_, plugin, name), error in failing)
        return {"sources": said} if said else {}

    def instruments(self) -> list[Instrument]:
        """Return the metrics of sources: their ages, and how often they were refreshed."""
        ages = {key: one.source.age for key, one in self._followed.items()}
        known: dict[Labels, float] = {key: age for key, age in ages.items() if age is not None}
        return [self._refreshes, Asked(SOURCE_AGE, lambda: known)]


class _Followed:
    """A source that is refreshed."""

    def __init__(self, source: Source[Any], guard: Guard, plugin: Any) -> None:
        self.source = source
        self.asked = False
        """It was called once, whatever came of it."""
        self.error = ""
        """The error that the last question came to; empty: a value."""
        self.changed = False
        """The last question brought another value."""
        self.task: asyncio.Task[None] | None = None
        self._guard = guard
        self._plugin = plugin

    def end(self) -> asyncio.Task[None] | None:
        """Stop calling the source. Return the task that is to be awaited; None: there is none."""
        if self.task is not None:
            self.task.cancel()
        return self.task

    async def fetch(self) -> tuple[str, str]:
        """Call once. Return (what went wrong, and in which line); both empty: there is a value."""
        self.changed = False
        try:
            value = await within(self.source.timeout, Guarded(self._guard, self._plugin, "fetch", self.source.fetch))
        except PluginError as error:
            return error.text, error.at
        except TimeoutError:
            return _no_answer(self.source.timeout), ""
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return described(error), ""
        self.changed = self.source.set(value)
        return "", ""
