"""Liveness and readiness in virtual time: silence, attempts and answers tell different things."""

from __future__ import annotations

from typing import Any

import kopf
import pytest

from podberth.policy.operator.kopf_limits import DEAD_SECONDS, FOLLOW_SECONDS, STALE_SECONDS, Essence, Pulse
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


def test_strangers_do_not_count() -> None:
    """A request for another path proves nothing about ours."""
    pulse = Pulse(["/apis/podberth.dev/v1alpha1/metadatapolicies"])
    assert pulse.followed("/prefix/apis/podberth.dev/v1alpha1/metadatapolicies") is not None
    assert pulse.followed("/apis/podberth.dev/v1alpha1/namespaces/a/metadatapolicies") is None


def test_no_crd_is_alive_and_unready(clock: Clock) -> None:
    """An API server that says that there are no MetadataPolicies has answered."""
    pulse = Pulse(["a"], clock)
    pulse.absent = True
    clock.now += DEAD_SECONDS - 1
    pulse.heard_all()
    assert pulse.dead() is None
    assert "CRD is missing" in str(pulse.unready())


def test_a_crd_that_comes_is_followed_soon_or_never(clock: Clock) -> None:
    """Each stream has to be tried since then: that it was tried while there was no CRD does not count."""
    pulse = Pulse(["a", "b"], clock)
    clock.now += 1000
    assert not pulse.overlooked()
    pulse.absent = True
    pulse.heard_all()
    clock.now += 1
    pulse.came()
    assert not pulse.absent
    pulse.tried("a")
    clock.now += FOLLOW_SECONDS
    assert not pulse.overlooked()
    clock.now += 1
    assert pulse.overlooked()
    pulse.tried("b")
    assert not pulse.overlooked()


def body_of(generation: int = 1, **more: Any) -> kopf.Body:
    """An object as kopf has it."""
    raw: Any = {"metadata": {"generation": generation}, **more}
    return kopf.Body(raw)


def test_what_is_kept_of_a_spec() -> None:
    """The generation, so that a policy of a megabyte has no second megabyte in its status."""
    essence = Essence(name="kopf")
    body = body_of(generation=3, spec={"x": "y" * 1000})
    patch = kopf.Patch()
    essence.store(body=body, patch=patch, essence=essence.build(body=body))
    assert patch == {"status": {"kopf": {"last-handled-configuration": '{"generation":3}'}}}
    assert essence.fetch(body=body_of(**patch)) == {"generation": 3}


@pytest.mark.parametrize("status", ["text", {"kopf": "text"}, {"kopf": {"last-handled-configuration": "{"}}, None])
def test_malformed_statuses_are_none(status: Any) -> None:
    """What an older CRD let in is no reason for a handler to fail for ever."""
    assert Essence(name="kopf").fetch(body=body_of(status=status)) is None
