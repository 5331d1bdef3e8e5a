"""What a turn of the loop cost: CPU time, or a count of steps that is the same on every machine."""

from __future__ import annotations

import cProfile
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, Protocol

STEP = 3e-8
"""Seconds that a step stands for, about what it takes on a usual machine."""
CALL = 4
"""Steps that a call of a function in C stands for."""


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
    """

    def __init__(self, most: float, in_all: float) -> None:
        self._most = int(most / STEP)
        self._left = int(in_all / STEP)
        self._count = 0
        self._bounded = True

    def begin(self, *, bounded: bool = True) -> None:
        """A turn begins."""
        self._count = 0
        self._bounded = bounded
        sys.setprofile(self._call)
        sys.settrace(self._line)

    def end(self) -> float:
        """Seconds that it took."""
        sys.settrace(None)
        sys.setprofile(None)
        self._left -= self._count if self._bounded else 0
        return self._count * STEP

    def _call(self, _frame: FrameType, event: str, _what: Any) -> None:
        if event == "c_call":
            self._count += CALL

    def _line(self, _frame: FrameType, _event: str, _what: Any) -> Any:
        self._count += 1
        if self._bounded and (self._count > self._most or self._count > self._left):
            sys.settrace(None)
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGPROF)
        return self._line
