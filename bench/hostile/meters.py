"""What a turn of the loop cost: CPU time, or a count of steps that is the same on every machine."""

from __future__ import annotations

import cProfile
import functools
import os
import signal
import sys
import time
from types import BuiltinFunctionType, CodeType, FrameType, MethodDescriptorType
from typing import Any, Protocol

STEP = 3e-8
"""Seconds that a step stands for, about what it takes on a usual machine."""
CALL = 4
"""Steps that a call of a function in C stands for."""
IN_C = (BuiltinFunctionType, MethodDescriptorType)
"""What sys.setprofile calls a function in C: no class, and no other object that can be called."""
_CALLS = 64
"""How often whether a turn takes too long is looked at, where that costs something: once in so many calls."""
NONE = 1 << 62
"""A limit that no count comes to."""


class Meter(Protocol):
    """Measures one turn at a time."""

    def begin(self, *, bounded: bool = True) -> None:
        """A turn begins; not `bounded`: what is measured may take as long as it does."""

    def end(self) -> float:
        """Seconds that it took."""


class Cpu:
    """CPU time of this thread."""

    def __init__(self) -> None:
        self._began = 0.0

    def begin(self, *, bounded: bool = True) -> None:
        """A turn begins."""
        self._began = time.thread_time()

    def end(self) -> float:
        """Seconds that it took."""
        return time.thread_time() - self._began


class Longest(Cpu):
    """CPU time of this thread, and a profile of the turn that took most of it."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = self._now = cProfile.Profile()
        self._spent = 0.0
        self._bounded = True

    def begin(self, *, bounded: bool = True) -> None:
        """A turn begins."""
        super().begin()
        self._bounded, self._now = bounded, cProfile.Profile()
        self._now.enable()

    def end(self) -> float:
        """Seconds that it took, the profile's own time included."""
        self._now.disable()
        spent = super().end()
        if self._bounded and spent > self._spent:
            self._spent, self.profile = spent, self._now
        return spent


class Steps:
    """Lines of Python and calls, as seconds of `STEP`.

    A call of a function in C counts the same whatever it does: decoding, or an operation on an array.
    A process whose turn takes more than `most` seconds, or whose turns take more than `in_all` together, is sent
    SIGPROF, as if its CPU time were over.

    `steps` gives the one for this version of Python.
    """

    def __init__(self, most: float, in_all: float) -> None:
        self._most = int(most / STEP)
        self._left = int(in_all / STEP)
        self._count = 0
        self._limit = NONE
        self._bounded = True

    def begin(self, *, bounded: bool = True) -> None:
        """A turn begins."""
        self._bounded = bounded
        self._limit = min(self._most, self._left) if bounded else NONE
        self._count = 0
        self._watch()

    def end(self) -> float:
        """Seconds that it took."""
        count = self._count
        self._limit = NONE
        self._left -= count if self._bounded else 0
        return count * STEP

    def stop(self) -> None:
        """Count no more."""
        raise NotImplementedError

    def _watch(self) -> None:
        raise NotImplementedError

    def _over(self) -> None:
        self._limit = NONE
        self.stop()
        os.kill(os.getpid(), signal.SIGPROF)


class Traced(Steps):
    """By sys.settrace and sys.setprofile, which every Python has."""

    def end(self) -> float:
        """Seconds that it took."""
        self.stop()
        return super().end()

    def stop(self) -> None:
        """Count no more."""
        sys.settrace(None)
        sys.setprofile(None)

    def _watch(self) -> None:
        sys.setprofile(self._call)
        sys.settrace(self._line)

    def _call(self, _frame: FrameType, event: str, _what: Any) -> None:
        if event == "c_call":
            self._count += CALL

    def _line(self, _frame: FrameType, _event: str, _what: Any) -> Any:
        self._count += 1
        if self._count > self._limit:
            self._over()
        return self._line


METERS: list[type[Steps]] = [Traced]
"""The ways to count, cheapest last."""

if sys.version_info >= (3, 12):

    class Monitored(Steps):
        """The same count by sys.monitoring, as CPython's legacy_tracing.c makes it of these events, for less.

        It goes on between turns, as to switch it costs more than to count: `stop` ends it. Whether a turn takes too
        long is looked at now and then.
        """

        def __init__(self, most: float, in_all: float) -> None:
            super().__init__(most, in_all)
            self._watches = False
            self._calls = 0
            # It is called with what an event tells, and counts in C how often; a slice may be made of anything.
            self._told = functools.lru_cache(maxsize=0)(slice)
            self._within: dict[tuple[int, int], CodeType] = {}
            """(id of the code, offset) of jumps that stay within their line; the code, so that its id stays its own."""

        def begin(self, *, bounded: bool = True) -> None:
            """A turn begins."""
            self._told.cache_clear()  # before there is a limit, as what was told since the last turn does not count
            super().begin(bounded=bounded)
            self._told.cache_clear()

        def end(self) -> float:
            """Seconds that it took."""
            self._limit = NONE  # what was told is in the count from here on, and would be seen twice
            self._count += self._told.cache_info().misses
            return super().end()

        def stop(self) -> None:
            """Count no more."""
            if self._watches:
                sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
                sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
                self._watches = False

        def _watch(self) -> None:
            if self._watches:
                return
            self._watches = True
            tool, events = sys.monitoring.PROFILER_ID, sys.monitoring.events
            sys.monitoring.use_tool_id(tool, type(self).__name__)
            counted = (
                *(events.LINE, events.PY_RESUME, events.PY_THROW, events.PY_RETURN, events.PY_YIELD),
                *(events.PY_UNWIND, events.RAISE, events.STOP_ITERATION),
            )
            for event in counted:
                sys.monitoring.register_callback(tool, event, self._told)
            sys.monitoring.register_callback(tool, events.PY_START, self._begun)
            sys.monitoring.register_callback(tool, events.JUMP, self._jump)
            for event in (events.C_RETURN, events.C_RAISE):
                sys.monitoring.register_callback(tool, event, self._called)
            # Without CALL, C_RETURN and C_RAISE are not told.
            sys.monitoring.set_events(tool, sum(counted) | events.PY_START | events.JUMP | events.CALL)

        def _begun(self, _code: CodeType, _offset: int) -> None:
            self._count += 1
            self._look()

        def _called(self, _code: CodeType, _offset: int, function: object, _first: object) -> None:
            if isinstance(function, IN_C):
                self._count += CALL
                self._look()

        def _look(self) -> None:
            self._calls += 1
            if not self._calls % _CALLS and self._count + self._told.cache_info().misses > self._limit:
                self._count += self._told.cache_info().misses
                self._told.cache_clear()
                self._over()

        def _jump(self, code: CodeType, origin: int, target: int) -> object:
            """A jump back within a line is a line to sys.settrace; any other one comes to a line of its own."""
            if (id(code), origin) not in self._within:
                if target > origin or _line_of(code, target) != _line_of(code, origin):
                    return sys.monitoring.DISABLE
                self._within[id(code), origin] = code
            self._count += 1
            return None

    METERS.append(Monitored)


def steps(most: float, in_all: float) -> Steps:
    """The cheapest meter of steps that there is."""
    return METERS[-1](most, in_all)


def _line_of(code: CodeType, offset: int) -> int | None:
    return next((line for start, end, line in code.co_lines() if start <= offset < end), None)
