"""Which extension points an attempt has passed, with what status, and when: written here, read by whoever tells of it.

Metrics, the log and a pod's story read the same record. Nothing here has a clock; a shell lends one to who keeps the
record, and without it nothing is recorded.
"""

from collections.abc import Callable, Iterator
from typing import Any

Trace = list[Any]
"""When the attempt began, and for each point that it passed: the point, its status, and when it was done.

One flat list, since one is kept for each attempt: [0.0, "PreFilter", "Success", 0.1, "Filter", "Success", 0.3].
"""
AGAIN = "Again"
"""Said in place of a point: the attempt begins again from the start, and only what follows counts.

The quick way has found no node, and the plain way says why.
"""
SUCCESS = "Success"
EXTENDERS = "Extenders"
"""Stands for the time in which HTTP extenders were asked. It is no extension point, and has no metric."""


class AttemptRecord:
    """The attempt under way, as far as it has come."""

    __slots__ = ("_start", "clock", "profile", "trace")

    def __init__(self) -> None:
        self.clock: Callable[[], float] | None = None
        """Lent by who measures; None: nobody does."""
        self.profile = ""
        """Of the pod whose attempt it is."""
        self.trace: Trace | None = None
        """None: nobody measures, or no attempt has come to its end."""
        self._start = 1

    def begin(self, profile: str, before: Trace | None = None) -> Trace | None:
        """An attempt begins, or goes on after extenders have answered: `before` is what it had passed until then."""
        if self.clock is None:
            return None
        self.profile = profile
        if before is None:
            self.trace = [self.clock()]
            self._start = 1
        else:
            self.trace = before
            self._start = len(before)
            before += (EXTENDERS, SUCCESS, self.clock())
        return self.trace

    def reached(self, point: str, status: str) -> None:
        """An extension point is done: as `Framework.listen` says it."""
        trace, clock = self.trace, self.clock
        if trace is None or clock is None:
            return
        if point is AGAIN:
            del trace[self._start :]
        else:
            trace += (point, status, clock())

    def set_aside(self) -> None:
        """The slice is used up. What was passed in it will be passed again, and counts then."""
        if self.trace is not None:
            del self.trace[self._start :]
            self.trace = None

    def wait(self) -> None:
        """The attempt waits for extenders: it goes on with `begin`."""
        self.trace = None

    def take(self) -> Trace | None:
        """What the attempt that has come to its end has passed, once."""
        trace, self.trace = self.trace, None
        return trace


def points(trace: Trace | None) -> Iterator[tuple[str, str, float]]:
    """(point, status, seconds) of each point that was passed."""
    if not trace:
        return
    before = trace[0]
    for i in range(1, len(trace), 3):
        yield trace[i], trace[i + 1], trace[i + 2] - before
        before = trace[i + 2]
