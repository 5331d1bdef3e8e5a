"""Watches, from a thread of its own, for a plugin that blocks the event loop: names it in the log, and interrupts it.

All plugins run on the loop, so one that blocks holds up every pod, the Lease and the health endpoints. Only in-tree
plugins may write to the columns, and they are never interrupted; a third-party plugin is, by a signal to the main
thread, which raises `Overdue` in it. That reaches Python code, `time.sleep`, locks and sockets, but no C code that does
not return, and a plugin may swallow what is raised in it. Such a plugin is named in the log again and again, until the
liveness probes, which nobody answers, end the process.
"""

import signal
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any

import structlog

from podberth.framework.config import duration_text
from podberth.framework.declaration import Foreign
from podberth.framework.guard import Guard, Overdue, PluginCall, point_name

log = structlog.get_logger("watchdog")

SLOW_SECONDS = 1.0
"""A plugin that takes longer is named in the log."""
LIMIT_SECONDS = 5.0
"""A third-party plugin that takes longer is interrupted. Less than the leader's renew deadline (10 s)."""
_SAMPLE_SECONDS = 0.25
_SIGNAL = signal.SIGURG
"""The signal that interrupts a plugin. A process that does not handle it ignores it, so one that comes late does no
harm.
"""


class Watchdog:
    """Watches the guards of all profiles while its context lasts; interrupts only if entered in the main thread."""

    def __init__(self, guards: Iterable[Guard], *, limit: float = LIMIT_SECONDS) -> None:
        self._guards = tuple(guards)
        self._limit = limit
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._overdue: PluginCall | None = None
        self._before: Any = None
        self._armed = False
        self.held_seconds = 0.0
        """Seconds for which the plugin that runs now has been seen running; 0: none is running."""

    def __enter__(self) -> "Watchdog":
        self._armed = threading.current_thread() is threading.main_thread()
        if self._armed:
            self._before = signal.signal(_SIGNAL, self._interrupt)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._armed:
            signal.signal(_SIGNAL, self._before)

    def follow(self, guards: Iterable[Guard]) -> None:
        """Watch these guards from now on."""
        self._guards = tuple(guards)

    def _running(self) -> PluginCall | None:
        """Return the innermost call under way: preemption asks the filters in turn, in the same guard."""
        return next((guard.running for guard in self._guards if guard.running is not None), None)

    def _watch(self) -> None:
        seen: PluginCall | None = None
        since = due = 0.0
        told = False
        while not self._over.wait(_SAMPLE_SECONDS):
            now, call = time.monotonic(), self._running()
            if call is None or call is not seen:
                seen, since, due, told = call, now, self._limit, False
                self.held_seconds = 0.0
                continue
            self.held_seconds = now - since
            if self.held_seconds >= SLOW_SECONDS and not told:
                told = True
                log.warning("a plugin holds the loop", **_named(call))
            if self._armed and self.held_seconds >= due and isinstance(call[0], Foreign):
                if due > self._limit:
                    log.error("a plugin goes on although it was interrupted", **_named(call))
                # Not again soon: a plugin that is already ending must not be interrupted twice.
                due += self._limit
                self._overdue = call
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise `Overdue` in the main thread if the plugin that was seen is still running."""
        overdue, self._overdue = self._overdue, None
        if overdue is not None and self._running() is overdue:
            raise Overdue(f"held the scheduler for {duration_text(self._limit)} without an answer")


def _named(call: PluginCall) -> dict[str, str]:
    return {"plugin": call[0].name, "point": point_name(call)}
