"""Liveness and readiness in virtual time: silence, attempts and answers tell different things."""

from __future__ import annotations

import aiohttp
import pytest
from podberth.policy.operator.pulse import DEAD_SECONDS, STALE_SECONDS, Pulse

from podberth.policy.operator.probe import Probe
from tests.unit.policy.operator.conftest import Clock


@pytest.fixture
def clock() -> Clock:
    """Virtual time."""
    return Clock()


def test_starts_alive_and_unready(clock: Clock) -> None:
    """A watch that nobody answered yet is no reason to restart, and none to be ready."""
    pulse = Pulse(["a"], clock)
    assert pulse.dead() is None
    assert pulse.age() is None
    assert pulse.unready() == "the watch of MetadataPolicies was not answered yet"


def test_fresh_then_stale(clock: Clock) -> None:
    """An answer makes ready; silence for longer than almost three streams makes unready."""
    pulse = Pulse(["a"], clock)
    pulse.heard("a")
    clock.now += STALE_SECONDS
    assert pulse.unready() is None
    clock.now += 1
    assert "no answer for 151 s" in str(pulse.unready())


def test_a_watch_that_stopped_trying_is_dead(clock: Clock) -> None:
    """When nothing is even tried any more, kopf's loop hangs: only a new process helps."""
    pulse = Pulse(["a"], clock)
    pulse.heard("a")
    clock.now += STALE_SECONDS + 1
    assert "tried nothing for 151 s" in str(pulse.dead())


def test_an_outage_is_no_death(clock: Clock) -> None:
    """While the API server is away attempts go on: alive, until it lasts so long that new certificates may help."""
    pulse = Pulse(["a"], clock)
    pulse.heard("a")
    until = clock.now + DEAD_SECONDS
    while clock.now < until:
        clock.now += 20
        pulse.tried("a")
        assert pulse.dead() is None
    clock.now += 20
    pulse.tried("a")
    assert "no answer for 620 s" in str(pulse.dead())


def test_the_oldest_stream_counts(clock: Clock) -> None:
    """With a stream for each namespace, one that fell silent is not hidden by the others."""
    pulse = Pulse(["a", "b"], clock)
    pulse.heard("a")
    assert pulse.age() is None
    pulse.heard("b")
    clock.now += 100
    pulse.heard("a")
    assert pulse.age() == 100
    clock.now += 60
    pulse.heard("a")
    assert pulse.dead() is not None
    assert pulse.unready() is not None


def test_strangers_do_not_count(clock: Clock) -> None:
    """Events of another path prove nothing about ours."""
    pulse = Pulse(["a"], clock)
    pulse.heard("b")
    assert pulse.age() is None


def test_no_crd_is_alive_and_unready(clock: Clock) -> None:
    """An API server that says that there are no MetadataPolicies has answered."""
    pulse = Pulse(["a"], clock)
    pulse.absent = True
    clock.now += DEAD_SECONDS - 1
    pulse.heard_all()
    assert pulse.dead() is None
    assert "CRD is missing" in str(pulse.unready())


async def test_probe_answers(clock: Clock) -> None:
    """Both probes say in a line what they know, 503 when it is bad, 404 for anything else."""
    pulse = Pulse(["a"], clock)
    probe = Probe(pulse, lambda: True)
    await probe.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{probe.port}") as session:

            async def ask(path: str) -> tuple[int, str]:
                async with session.get(path) as answer:
                    return answer.status, await answer.text()

            assert await ask("/livez") == (200, "ok; watch never answered; leads\n")
            assert (await ask("/readyz"))[0] == 503
            pulse.heard("a")
            clock.now += 7
            assert await ask("/readyz") == (200, "ok; watch last answered 7.0 s ago; leads\n")
            clock.now += STALE_SECONDS
            assert (await ask("/livez"))[0] == 503
            assert (await ask("/metrics"))[0] == 404
    finally:
        await probe.stop()
