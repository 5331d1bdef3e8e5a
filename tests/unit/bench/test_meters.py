"""Meters of steps: two ways to count come to the same."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from types import FrameType

import pytest

from bench.hostile.meters import STEP, Steps, Traced, steps

Work = Callable[[], object]


def _numbers(count: int) -> Iterator[int]:
    try:
        yield from range(count)
    finally:
        str(count)


def _loops() -> int:
    total = 0
    for number in range(50):
        if number % 3:
            total += number
        else:
            total -= len([each for each in (1, 2, 3) if each > 1])
    while total > 7:
        total //= 2
    return total


def _generators() -> int:
    total = sum(_numbers(5))
    for number in _numbers(5):
        if number == 2:
            break
    with closing(_numbers(3)) as cut:  # type: ignore[type-var]
        next(cut)
    thrown = _numbers(3)
    next(thrown)
    with suppress(KeyError):
        thrown.throw(KeyError)  # type: ignore[attr-defined]
    return total


def _exceptions() -> int:
    for text in ("1", "x", "2"):
        try:
            int(text)
        except ValueError as error:
            str(error)
    try:
        return _fails()
    except LookupError:
        return 0


def _fails() -> int:
    try:
        return {"a": 1}["b"]
    finally:
        len("b")


def _library() -> object:
    json.dumps(json.loads('{"a": [1, 2, {"b": null}]}'), indent=1, sort_keys=True)
    return re.sub("a(b|c)*d", lambda found: found[0].upper(), "abd acd", flags=re.IGNORECASE)


def _nothing() -> None:
    pass


def counted(meter: Steps, work: Work) -> int:
    """Steps of some work; what the meter itself takes is in it."""
    work()  # what is done the first time only
    meter.begin()
    work()
    seconds = meter.end()
    meter.stop()
    return round(seconds / STEP)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring to compare with")
@pytest.mark.parametrize("work", [_loops, _generators, _exceptions, _library], ids=lambda work: work.__name__)
def test_both_ways_count_the_same(work: Work) -> None:
    """Each line, call, return and exception is one step, each call of a function in C several."""
    own, traced = (counted(make(1e9, 1e9), _nothing) for make in (steps, Traced))
    found = counted(steps(1e9, 1e9), work) - own
    assert found == counted(Traced(1e9, 1e9), work) - traced
    assert found > 20


@pytest.mark.parametrize("make", [steps, Traced])
def test_a_turn_that_takes_too_long_is_told_by_a_signal(make: Callable[[float, float], Steps]) -> None:
    """While it is under way, and once."""
    told: list[int] = []

    def over(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    before = signal.signal(signal.SIGPROF, over)
    meter = make(50 * STEP, 1.0)
    try:
        for bounded in (False, True):
            meter.begin(bounded=bounded)
            for _ in range(1000):
                assert os.getpid() > 0
                if told:
                    break
            meter.end()
            assert bool(told) == bounded
    finally:
        meter.stop()
        signal.signal(signal.SIGPROF, before)
    assert told == [signal.SIGPROF]


@pytest.mark.parametrize("make", [steps, Traced])
def test_a_turn_that_is_short_enough_is_never_told(make: Callable[[float, float], Steps]) -> None:
    """Whatever was counted in the turn before, and at whichever of its calls the count is looked at."""
    told: list[int] = []
    before = signal.signal(signal.SIGPROF, lambda number, _frame: told.append(number))
    try:
        for calls in range(64):
            meter = make(400 * STEP, 1.0)
            for number in (1000 + calls, 40):
                meter.begin(bounded=number == 40)
                for _ in range(number):
                    os.getpid()
                meter.end()
            meter.stop()
    finally:
        signal.signal(signal.SIGPROF, before)
    assert told == []
