"""Writes log lines from a bounded queue in a thread, so that nothing that logs ever waits for a pipe.

When the reader of the pipe stops, or the disk is full, lines are dropped and counted, and the count is written as soon
as something can be written again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

MOST_CHARACTERS = 4 << 20
"""Waiting lines take at most this; beyond that the newest are dropped."""
FLUSH_SECONDS = 1.0
GATHER_SECONDS = 0.05
"""Lines that come within this of the last write are written together: waking a thread costs more than a line does."""


class LogWriter:
    """A structlog logger that never blocks; `told(count)` makes the line about dropped ones."""

    def __init__(self, stream: TextIO, told: Callable[[int], str]) -> None:
        self.dropped = 0
        self._put = _writer(stream)
        self._told = told
        self._lines: deque[str] = deque()
        self._size = 0
        self._untold = 0
        self._lock = threading.Lock()
        self._more = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._hurry = threading.Condition(self._lock)
        self._hurried = 0
        """Callers of `flush`."""
        self._asleep = False
        self._busy = False
        self._thread: threading.Thread | None = None

    def msg(self, line: str) -> None:
        """Queue a line, or drop it when too much waits."""
        with self._lock:
            if self._size + len(line) > MOST_CHARACTERS:
                self._drop(1)
                return
            self._lines.append(line)
            self._size += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="log", daemon=True)
                self._thread.start()
            if self._asleep:
                self._asleep = False
                self._more.notify()

    log = debug = info = warning = warn = error = critical = exception = fatal = msg

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait for what is queued to be written; False when it is not in time."""
        with self._lock:
            self._hurried += 1
            self._hurry.notify_all()
            done = self._idle.wait_for(lambda: not self._lines and not self._busy, seconds)
            self._hurried -= 1
            return done

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._untold += count

    def _write(self) -> None:
        written_at = 0.0
        while True:
            with self._lock:
                while not self._lines:
                    self._busy = False
                    self._idle.notify_all()
                    self._asleep = True
                    self._more.wait()
                self._busy = True
                early = written_at + GATHER_SECONDS - time.monotonic()
                if early > 0.0:
                    self._hurry.wait_for(lambda: self._hurried > 0, early)
                lines = list(self._lines)
                self._lines.clear()
                untold, self._untold = self._untold, 0
            if untold:
                lines.append(self._told(untold))
            try:
                self._put("\n".join(lines) + "\n")
                lost = 0
            except (OSError, ValueError):  # full, closed, gone: nobody can be told, but by the count
                lost = len(lines)
            written_at = time.monotonic()
            with self._lock:
                self._size -= sum(map(len, lines[: len(lines) - bool(untold)]))
                if lost:
                    self._drop(lost - bool(untold))
                    self._untold += untold


def _writer(stream: TextIO) -> Callable[[str], None]:
    """Straight to the descriptor where there is one: a stream that waits for its reader would hold up our own end."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):

        def through(text: str) -> None:
            stream.write(text)
            stream.flush()

        return through

    def straight(text: str) -> None:
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:
            left = left[os.write(descriptor, left) :]

    return straight
