"""What is said of errors that nobody waited for."""

from __future__ import annotations

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from podberth.service.run import run_service
from podberth.service.unhandled import MOST_TEXT

# As uvloop 0.22 says it.
CUT = RuntimeError("unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed")


async def _tells(context: dict[str, object]) -> None:
    asyncio.get_running_loop().call_exception_handler(context)


async def _breaks() -> None:
    raise ValueError("broken")


async def _leaves_a_task() -> None:
    task = asyncio.ensure_future(_breaks())
    await asyncio.wait([task])
    del task
    gc.collect()


def test_a_connection_that_was_cut_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """No traceback, as nothing is wrong with Berth; the request is told by the connection."""
    with capture_logs() as said:
        run_service(_tells({"message": "Fatal error on SSL protocol", "exception": CUT, "protocol": 1, "transport": 2}))
    assert said == [
        {
            "event": "a connection was cut while it was written to",
            "where": "Fatal error on SSL protocol",
            "reason": str(CUT),
            "log_level": "warning",
        }
    ]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [CUT, ValueError("a protocol broke")])
def test_others_keep_their_traceback(error: Exception) -> None:
    """An error without a connection, or of another kind, is a bug."""
    context: dict[str, object] = {"message": "in a callback", "exception": error}
    if error is not CUT:
        context["protocol"] = 1
    with capture_logs() as said:
        run_service(_tells(context))
    (line,) = said
    assert (line["log_level"], line["where"], line["exc_info"]) == ("error", "in a callback", error)


def test_a_task_that_nobody_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    """Its error is a line of the log, with a traceback, and nothing else is printed."""
    with capture_logs() as said:
        run_service(_leaves_a_task())
    assert [(line["log_level"], str(line["exc_info"])) for line in said] == [("error", "broken")]
    assert capfd.readouterr().err == ""


def test_a_context_without_an_error() -> None:
    """It is told without a traceback, and of which task it speaks, at no great length."""
    with capture_logs() as said:
        run_service(_tells({"message": "a task was destroyed but it is pending", "task": "x" * 1000}))
    (line,) = said
    assert (line["where"], line["exc_info"]) == ("a task was destroyed but it is pending", None)
    assert line["about"] == {"task": "x" * MOST_TEXT}
