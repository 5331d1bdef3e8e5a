"""structlog set up once: lines for people on a terminal, JSON elsewhere, always to standard error.

Whatever is said in a label or a name stays within its line: JSON escapes all that is not printable ASCII, and on a
terminal control characters are written out.
"""

import json
import logging
import re
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from podberth.service.log_writer import LogWriter


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
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")
_encode = json.JSONEncoder(default=repr).encode
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
    """Lines that could not be written since the start."""
    return 0 if _log_writer is None else _log_writer.dropped


def harmless(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide bearer tokens, wherever an error text may have picked one up."""
    for key, value in line.items():
        if isinstance(value, str) and "bearer" in value.lower():
            line[key] = _BEARER.sub(r"\1…", value)
    return line


def as_json(logger: object, method: str, line: MutableMapping[str, Any]) -> str:
    """The line as JSON, harmless. Looking for tokens in the whole of it takes a tenth of looking in each value."""
    text = _encode(line)
    if "bearer" not in text.lower():
        return text
    return _BEARER.sub(r"\1…", _encode(harmless(logger, method, line)))  # in lists, too


def written_out(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Control characters as `\\x1b`, but for the line breaks of a traceback."""
    for key, value in line.items():
        if key != "exception":
            line[key] = _plain(value)
    return line


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _rendered(processors: list[structlog.typing.Processor], count: int) -> str:
    """The line about dropped ones, made as any other."""
    line: Any = {"event": "log lines dropped", "count": count}
    for processor in processors:
        line = processor(None, "warning", line)
    return str(line)
