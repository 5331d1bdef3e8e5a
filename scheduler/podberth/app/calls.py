"""Runs plugins' coroutines (Permit, PreBind, Bind, PostBind), each with a time limit. Results become stimuli."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

import structlog

from podberth.engine.instructions import CancelCall, Carries, RunCall
from podberth.engine.stimuli import CallEnded, CallFailed, Stimulus
from podberth.framework.binding import Call
from podberth.framework.durations import text
from podberth.framework.guard import Guard, described
from podberth.framework.status import PluginError
from podberth.service.log import RateLimit

log = structlog.get_logger("plugins")


class Calls:
    """The coroutines that are running."""

    def __init__(self, answer: Callable[[Stimulus], None]) -> None:
        self._answer = answer
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._failures = RateLimit()
        self.carries: Carries = {RunCall: self.start, CancelCall: self.cancel}

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, instruction: RunCall) -> None:
        """Run a coroutine; `answer` gets CallEnded or CallFailed unless it is cancelled."""
        call = instruction.call
        task = self._tasks[call] = asyncio.create_task(self._run(call))
        task.add_done_callback(lambda _: self._tasks.pop(call, None))

    def cancel(self, instruction: CancelCall) -> None:
        """Cancel a coroutine whose result is no longer needed."""
        task = self._tasks.get(instruction.call)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel all of them and wait until they are gone; their pods stay pending for whoever schedules next."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for call in tasks:  # since Python 3.12 this comes before the callbacks of tasks that had ended already
            self._tasks.pop(call, None)

    async def _run(self, call: Call) -> None:
        limit = asyncio.timeout(call.seconds)
        try:
            async with limit:
                answer = await Guarded(call.guard, call.plugin, call.point, call.start)
        except PluginError as error:
            self._failed(call, error.text)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # nobody waits for it any more
            # The plugin's own: it waited for something that was cancelled, and its pod still waits for an answer.
            self._failed(call, described(error).removesuffix(": "))
        except TimeoutError:
            self._failed(call, f"no answer within {text(call.seconds)}")
        else:
            self._answer(CallEnded(call.pod.uid, call, answer))

    def _failed(self, call: Call, message: str) -> None:
        where = {"plugin": call.name, "point": call.point, "pod": call.pod.key}
        self._failures.write((call.name, call.point), log.warning, "plugin failed", **where, error=message)
        self._answer(CallFailed(call.pod.uid, call, message))


class Guarded:
    """Steps through a coroutine under its profile's guard, so that a step that blocks is seen, as at pure points."""

    def __init__(self, guard: Guard, plugin: Any, point: str, start: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._guard = guard
        self._plugin = plugin
        self._point = point
        self._start = start

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
            except BaseException as error:  # noqa: BLE001 (a cancellation is the coroutine's to see, as any other)
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
