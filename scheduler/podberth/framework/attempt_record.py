"""The record of one attempt: each extension point that it passed, with its status and its time.

Metrics, the log and a pod's story read the same record. This room has no clock: a shell lends one to the record, and
nothing is recorded without it.
"""

from collections.abc import Callable, Iterator
from typing import Any

Trace = list[Any]
"""When the attempt began, and for each point that it passed: the point, its status, and when it was done.

One flat list, since one is kept for each attempt: [0.0, "PreFilter", "Success", 0.1, "Filter", "Success", 0.3].
"""
AGAIN = "Again"
"""Stands in place of a point: the attempt begins again from the start, and only what follows counts.

The quick way found no node, and the full way has to say why.
"""
SUCCESS = "Success"
EXTENDERS = "Extenders"
"""Stands for the time in which HTTP extenders were asked. It is no extension point, and has no metric."""


class AttemptRecord:
    """The attempt under way, as far as it has come."""

    __slots__ = ("_start", "clock", "profile", "trace")

    def __init__(self) -> None:
        self.clock: Callable[[], float] | None = None
        """Lent by the shell; None: nothing is measured."""
        self.profile = ""
        """The profile of the pod that is being tried."""
        self.trace: Trace | None = None
        """None: nothing is measured, or the record was taken."""
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
        """An extension point is done (`Framework.listen` reports it)."""
        trace, clock = self.trace, self.clock
        if trace is None or clock is None:
            return
        if point is AGAIN:
            del trace[self._start :]
        else:
            trace += (point, status, clock())

    def wait(self) -> None:
        """The attempt waits for extenders; `begin` continues it."""
        self.trace = None

    def take(self) -> Trace | None:
        """The points that the finished attempt passed. They can be taken once."""
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
