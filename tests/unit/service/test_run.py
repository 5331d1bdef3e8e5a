"""How a service runs: what is beside it, what signals do, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import Unreachable
from podberth.kube.lease import LeaseLostError
from podberth.service.certificate import Certificate
from podberth.service.run import LOST, only, run_service, until_told
from podberth.service.serving import Address, Endpoints, ServingError, listen

SOMEWHERE = Client(Connection(host="http://127.0.0.1:1"))


class Told:
    """A service that waits to be told, and what happened to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.begun = asyncio.Event()
        self._ending = asyncio.Event()

    def stop(self) -> None:
        """Hear a signal."""
        self.seen.append("stop")
        self._ending.set()

    async def run(self) -> None:
        """Work."""
        self.begun.set()
        try:
            await self._ending.wait()
            self.seen.append("done")
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            await asyncio.sleep(0)
            self.seen.append("ended")
            raise

    async def beside(self) -> None:
        """As long as the work goes on."""
        try:
            await asyncio.Event().wait()
        finally:
            self.seen.append("beside ends")


async def _send(*signals: signal.Signals) -> None:
    for number in signals:
        os.kill(os.getpid(), number)


async def _told(told: Told, *signals: signal.Signals, stop: Callable[[], None] | None = None) -> None:
    running = asyncio.create_task(
        until_told(
            told.run,
            SOMEWHERE,
            stop=stop,
            endpoints=Endpoints(),
            beside=(told.beside,),
            signals={signal.SIGUSR2: lambda: told.seen.append("own")},
        )
    )
    await told.begun.wait()
    await _send(*signals)
    await running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_without_stop_it_is_cancelled_once(number: signal.Signals) -> None:
    """A second signal does not disturb the end; what is beside it ends after it."""
    told = Told()
    await _told(told, number, number)
    assert told.seen == ["cancelled", "ended", "beside ends"]


async def test_stop_hears_each_signal() -> None:
    """The service ends itself, and may hurry when it is told again; signals of its own are its own."""
    told = Told()
    await _told(told, signal.SIGUSR2, signal.SIGTERM, signal.SIGTERM, stop=told.stop)
    assert told.seen[0] == "own"
    assert told.seen[1:] in (["stop", "stop", "done", "beside ends"], ["stop", "done", "stop", "beside ends"])


async def test_what_breaks_beside_ends_the_work() -> None:
    """No service goes on with a part missing."""
    told = Told()

    async def breaks() -> None:
        await told.begun.wait()
        raise ValueError("broken")

    with pytest.raises(ExceptionGroup) as caught:
        await until_told(told.run, SOMEWHERE, endpoints=Endpoints(), beside=(breaks,))
    assert str(only(caught.value)) == "broken"
    assert told.seen == ["cancelled", "ended"]


async def test_an_address_that_is_taken_is_told_before_anything_begins() -> None:
    """One line, and no work was done."""
    told = Told()
    (taken,) = listen("127.0.0.1", 0)
    address = Address("127.0.0.1", taken.getsockname()[1], Certificate())
    with taken, pytest.raises(ServingError, match="can't listen there"):
        await until_told(told.run, SOMEWHERE, listen=address, endpoints=Endpoints())
    assert not told.begun.is_set()


async def _grouped(*errors: Exception) -> None:
    raise ExceptionGroup("outer", [ExceptionGroup("inner", list(errors))])


async def _plainly(error: Exception) -> None:
    raise error


def test_exit_codes() -> None:
    """0 when told to end; 1 when the Lease is lost, which a line of the log says."""
    assert run_service(asyncio.sleep(0)) == 0
    with capture_logs() as said:
        for service in (_plainly(LeaseLostError("taken by b")), _grouped(LeaseLostError("taken by b"))):
            assert run_service(service) == LOST
    assert [(line["log_level"], line["reason"]) for line in said] == [("error", "taken by b")] * 2


def test_what_breaks_a_service_comes_out_by_itself() -> None:
    """However deep in groups, so that it is told in one line; several things come out as the group they are."""
    with pytest.raises(Unreachable, match="nobody there"):
        run_service(_grouped(Unreachable("nobody there")))
    with pytest.raises(ExceptionGroup):
        run_service(_grouped(Unreachable("nobody there"), ValueError("and this")))
    with pytest.raises(ExceptionGroup):
        run_service(_grouped(LeaseLostError("taken by b"), ValueError("and this")))
