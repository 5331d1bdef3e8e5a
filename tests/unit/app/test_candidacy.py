"""A scheduler's candidacy while its event loop is held: on the embedded API server, which has a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from podberth.apiserver import ApiServer
from podberth.app.lease import candidacy
from podberth.framework.config import SchedulerConfiguration, default_configuration
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import Unreachable
from podberth.kube.lease import LeaseLostError
from podberth.service import election

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/berth"
PATIENCE = 120.0
"""A generous bound on what the test waits for; a test that passes takes the time of some renewals."""


class Aside:
    """An API server that answers while this test's own event loop does not turn."""

    def __init__(self) -> None:
        self._ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    async def _serve(self) -> None:
        async with ApiServer() as server:
            self.url, self._loop, self._over = server.url, asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await self._over.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)

    def spec(self) -> dict[str, Any]:
        """Of the Lease, asked for without an event loop."""
        with contextlib.closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)) as connection:
            connection.request("GET", LEASE)
            found: dict[str, Any] = json.loads(connection.getresponse().read())["spec"]
            return found


@pytest.fixture
def server() -> Iterator[Aside]:
    """An embedded API server in a thread."""
    made = Aside()
    yield made
    made.close()


def configuration(duration: str, deadline: str, retry: str) -> SchedulerConfiguration:
    """One profile, elected with these times."""
    config = default_configuration()
    election = replace(
        config.leader_election,
        leader_elect=True,
        resource_namespace="default",
        lease_duration=duration,
        renew_deadline=deadline,
        retry_period=retry,
    )
    return replace(config, leader_election=election)


def hold(until: Callable[[], bool]) -> bool:
    """Let nothing else run on this loop; True when what is waited for came about."""
    end = time.monotonic() + PATIENCE
    while not until():
        if time.monotonic() > end:
            return False
    return True


async def test_a_held_loop_keeps_the_lease(server: Aside) -> None:
    """A loop that is held for longer than the renew deadline goes on as the leader, and gives the Lease back."""
    config = configuration("6s", "3s", "500ms")
    async with Client(Connection(host=server.url)) as client:
        elector = candidacy(client, config)
        assert elector is not None
        led: list[bool] = []

        async def work() -> None:
            seen: set[str] = set()

            def renewed() -> bool:
                """Ten times, half a second apart at least: longer than the deadline."""
                seen.add(server.spec()["renewTime"])
                return len(seen) > 10 or server.spec()["holderIdentity"] != elector.term.identity

            end = time.monotonic() + 20.0
            hold(lambda: renewed() or time.monotonic() > end)
            led.append(elector.leading)
            assert len(seen) > 10
            await asyncio.sleep(0)
            made = json.dumps({"metadata": {"name": "as-leader"}}).encode()
            await client.create("/api/v1/namespaces", made)
            led.append(elector.leading)

        await elector.run(work)
        assert led == [True, True]
    assert server.spec()["holderIdentity"] == ""


async def test_a_dead_loop_loses_the_lease(server: Aside, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is held beyond the bound: the end is called for, the Lease runs out, and nothing is written."""
    told: list[str] = []
    monkeypatch.setattr(election, "end_at_once", told.append)
    config = configuration("3s", "2s", "250ms")
    async with Client(Connection(host=server.url)) as client:
        elector = candidacy(client, config)
        assert elector is not None

        async def work() -> None:
            assert hold(lambda: bool(told))
            assert not elector.leading
            before = server.spec()["renewTime"]
            with pytest.raises(Unreachable, match="do not lead"):
                await client.create("/api/v1/namespaces", b'{"metadata": {"name": "ex-leader"}}')
            assert server.spec()["renewTime"] == before

        with pytest.raises(LeaseLostError, match="the event loop has not turned for"):
            await elector.run(work)
        assert len(told) == 1
        assert server.spec()["holderIdentity"] == elector.term.identity  # it runs out, it is not given back


STUCK = """
import threading, time
from podberth.service import log
from podberth.service.run import end_at_once

def stuck():
    threading.Thread(target=end_at_once, args=("the loop is dead",)).start()
    while True:
        time.sleep(0.01)

log.configure("info")
stuck()
"""


def test_the_end_says_where() -> None:
    """A process whose main thread is stuck ends with 1, and one line that says why and where."""
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["level"], said["reason"]) == ("critical", "the loop is dead")
    assert any(frame.endswith(" stuck") for frame in said["at"])
