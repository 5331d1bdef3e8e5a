"""Plugins' coroutines: each ends in one answer, in time, and a step that blocks can be seen."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from podberth.app.calls import Calls
from podberth.engine.instructions import CancelCall, RunCall
from podberth.engine.stimuli import CallEnded, CallFailed, Stimulus
from podberth.framework.binding import Call
from podberth.framework.guard import Guard, point_name
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import pod

POD = Decoder().pod(wire.encode(pod("web")))


class Own:
    name = "Own"


def call(work: Callable[[], Any], seconds: float = 30.0) -> Call:
    guard = Guard()
    guard.uninterrupted = True  # as under `berth run`
    return Call(POD, "n1", Own(), "pre_bind", seconds, work, guard)


async def answer_of(asked: Call) -> Stimulus:
    """Run a call to its end."""
    answers: asyncio.Queue[Stimulus] = asyncio.Queue()
    Calls(answers.put_nowait).start(RunCall(POD, asked))
    async with asyncio.timeout(30):
        return await answers.get()


async def fine() -> str:
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    loop.call_soon(done.set_result, "done")
    return await done


async def broken() -> None:
    await asyncio.sleep(0)
    raise LookupError("no such shelf")


async def late() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError as error:
        raise ValueError("I will not go") from error


async def exits() -> None:
    await asyncio.sleep(0)
    raise SystemExit(7)


async def interrupts() -> None:
    raise KeyboardInterrupt


async def gives_up() -> None:
    """As when something that it awaits was cancelled by somebody else."""
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    done.cancel()
    await done


@pytest.mark.parametrize(
    ("work", "seconds", "message"),
    [
        (exits, 30.0, "it tried to end the process (7)"),
        (interrupts, 30.0, "it was interrupted"),
        (gives_up, 30.0, "it was cancelled"),
        (broken, 30.0, "no such shelf"),
        (late, 0.01, "no answer within 10ms"),
        (stubborn, 0.01, "I will not go"),
    ],
    ids=["exits", "interrupts", "awaits what was cancelled", "raises", "hangs", "raises when cancelled"],
)
async def test_failures(work: Any, seconds: float, message: str) -> None:
    """What a coroutine raises, or that it did not end, is the answer."""
    asked = call(work, seconds)
    assert await answer_of(asked) == CallFailed(asked.pod.uid, asked, message)


async def test_an_answer() -> None:
    """The result of the coroutine; it may wait for anything on the way."""
    asked = call(fine)
    assert await answer_of(asked) == CallEnded(asked.pod.uid, asked, "done")


async def test_cancelled() -> None:
    """The coroutine is told, and nobody is answered."""
    answers: list[Stimulus] = []
    calls = Calls(answers.append)
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asked = call(work)
    calls.start(RunCall(POD, asked))
    await asyncio.sleep(0)
    calls.cancel(CancelCall(POD, asked))
    await ended.wait()
    await calls.close()
    assert (answers, len(calls)) == ([], 0)


async def test_each_step_is_guarded() -> None:
    """While a step of the coroutine runs, the guard names its plugin; while it waits, it does not."""
    seen: list[Any] = []

    async def work() -> None:
        assert asked.guard.running is not None
        seen.append((asked.guard.running[0].name, point_name(asked.guard.running)))
        await asyncio.sleep(0)
        assert asked.guard.running is not None
        seen.append((asked.guard.running[0].name, point_name(asked.guard.running)))

    asked = call(work)
    assert await answer_of(asked) == CallEnded(asked.pod.uid, asked, None)
    assert seen == [("Own", "PreBind")] * 2
    assert asked.guard.running is None
