"""The log: structlog set up once, and a thread that writes its lines, so that nothing that logs ever waits for a pipe.

Lines are for people on a terminal, JSON elsewhere, always to standard error. Whatever is said in a label or a name
stays within its line: JSON escapes all that is not printable ASCII, and on a terminal control characters are written
out. When the reader of the pipe stops, or the disk is full, lines are dropped and counted, and the count is written as
soon as something can be written again. `RateLimit` is for lines that may come thousands of times a second.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, TextIO


@contextmanager
def _without(package: str) -> Iterator[None]:
    """Have imports inside the block find this package missing, unless it is there already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment] # the import system's own sign for it
    try:
        yield
    finally:
        del sys.modules[package]


if sys.stderr.isatty():
    import structlog
else:
    # For terminals structlog imports rich: 5 MB, and two thirds of the time that all of structlog takes.
    with _without("rich"):
        import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
MOST_CHARACTERS = 4 << 20
"""Waiting lines take at most this; beyond that the newest are dropped."""
FLUSH_SECONDS = 1.0
GATHER_SECONDS = 0.05
"""Lines that come within this of the last write are written together: waking a thread costs more than a line does."""
MOST_LINES = 10
WHILE_SECONDS = 10.0
MOST_KINDS = 1024
"""The number of kinds of lines that are remembered. A namespace may be part of a kind; all beyond are one kind."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")
_encode = json.JSONEncoder(default=repr).encode
_OTHERS = object()
_log_writer: LogWriter | None = None


def configure(level: str = "info") -> None:
    """Choose renderer and level for this process. `level`: one of LEVELS."""
    global _log_writer
    on_terminal = sys.stderr.isatty()
    rendering: list[structlog.typing.Processor] = (
        [harmless, written_out, structlog.dev.ConsoleRenderer()] if on_terminal else [as_json]
    )
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        *rendering,
    ]
    log_writer = _log_writer = LogWriter(sys.stderr, lambda count: _rendered(processors, count))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: log_writer,
        cache_logger_on_first_use=True,
    )


def flush() -> None:
    """Wait a moment for the lines under way, before the process ends or something else is printed."""
    if _log_writer is not None:
        _log_writer.flush()


def dropped() -> int:
    """Return lines that could not be written since the start."""
    return 0 if _log_writer is None else _log_writer.dropped


def harmless(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide bearer tokens, wherever an error text may have picked one up."""
    for key, value in line.items():
        line[key] = _without_tokens(value)
    return line


def _without_tokens(value: Any) -> Any:
    if isinstance(value, str):
        return _BEARER.sub(r"\1…", value) if "bearer" in value.lower() else value
    if isinstance(value, list | tuple):
        return [_without_tokens(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_tokens(one) for key, one in value.items()}
    return value


def as_json(logger: object, method: str, line: MutableMapping[str, Any]) -> str:
    """Return the line as JSON, harmless. Looking for tokens in all of it takes a tenth of looking in each value."""
    text = _encode(line)
    if "bearer" not in text.lower():
        return text
    return _BEARER.sub(r"\1…", _encode(harmless(logger, method, line)))  # in lists, too


def written_out(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Write control characters as `\\x1b`, but for the line breaks of a traceback."""
    for key, value in line.items():
        line[key] = "\n".join(map(_plain, value.split("\n"))) if key == "exception" else _plain(value)
    return line


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _rendered(processors: list[structlog.typing.Processor], count: int) -> str:
    """Return the line about dropped ones, made as any other."""
    line: Any = {"event": "log lines dropped", "count": count}
    for processor in processors:
        line = processor(None, "warning", line)
    return str(line)


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
    """Write straight to the descriptor where there is one: a stream that waits for its reader would hold up our end."""
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


class RateLimit:
    """A limit of `MOST_LINES` lines for each kind in `WHILE_SECONDS`."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        """Kind → (when its while began, how many lines there would have been since); who began last stands last."""

    def write(self, kind: Hashable, say: Callable[..., object], event: str, /, **facts: Any) -> None:
        """Write a line with `say`, a method of a logger, unless this kind has had its lines.

        If lines were left out, the first one of the next while says how many: `lines_left_out`.
        """
        left_out = self._left_out(kind)
        if left_out is not None:
            say(event, **facts, **({"lines_left_out": left_out} if left_out else {}))

    def _left_out(self, kind: Hashable) -> int | None:
        """Return how many lines of this kind were left out before this one. None: do not write this one either."""
        now = self._clock()
        if len(self._kinds) >= MOST_KINDS and kind not in self._kinds:
            oldest, _ = next(iter(self._kinds.values()))
            kind = _OTHERS if now - oldest < WHILE_SECONDS else kind
        since, lines = self._kinds.get(kind, (-WHILE_SECONDS, 0))
        if now - since < WHILE_SECONDS:
            self._kinds[kind] = (since, lines + 1)
            return 0 if lines < MOST_LINES else None
        self._kinds[kind] = (now, 1)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)
        return max(lines - MOST_LINES, 0)
