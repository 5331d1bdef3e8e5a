"""Counts what a port refuses, by reason, and logs each reason at most once a minute.

A request that is not HTTP, or a handshake that fails, is the client's fault and gets no traceback. A handler that
raises is a bug in Berth, and gets one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal

import structlog

from podberth.service.metrics import Counter, Family

LINE_SECONDS = 60.0
MOST_DETAIL = 200

Reason = Literal["tls", "malformed", "too-long", "late", "slow", "crowded", "busy", "no-descriptor"]
REFUSED = Family(
    "berth_port_refused_total",
    "counter",
    "Connections and requests that a port refused or closed, by reason. tls: the handshake failed; malformed: it was "
    "not HTTP, or its token was not ASCII; "
    "too-long: a line or header was over the limit; late: the request was not complete in time; slow: the "
    "client did not read the answer in time; crowded: closed to make room for a newer connection; busy: answered 429 "
    "or 503, because too many requests were in progress; no-descriptor: the process may open no more files.",
    ("port", "reason"),
)

log = structlog.get_logger("port")


class Complaints:
    """What one port has refused."""

    def __init__(self, port: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.refused = Counter(REFUSED)
        self._port = port
        self._clock = clock
        self._told: dict[Reason, tuple[float, int]] = {}
        """When each reason last had a line, and how often it was met since then."""

    def record(self, reason: Reason, peer: str, detail: object = "") -> None:
        """Count a refusal; log it if its reason had no line for a minute."""
        self.refused.add(1, self._port, reason)
        now = self._clock()
        told_at, times = self._told.get(reason, (float("-inf"), 0))
        if now - told_at < LINE_SECONDS:
            self._told[reason] = told_at, times + 1
            return
        self._told[reason] = now, 0
        said = str(detail)[:MOST_DETAIL]
        log.warning("refused", port=self._port, reason=reason, peer=peer, detail=said, times_since_last_line=times + 1)

    def logger(self) -> logging.Logger:
        """A logger for aiohttp, which would log each refusal with a traceback."""
        found = logging.Logger(f"port.{self._port}", logging.DEBUG)
        found.addHandler(_Heard(self))
        return found


class _Heard(logging.Handler):
    """What aiohttp has to say of one request."""

    def __init__(self, complaints: Complaints) -> None:
        super().__init__()
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        from aiohttp import web
        from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

        error = record.exc_info[1] if record.exc_info else None
        peer = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        if isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
            error.__traceback__ = None  # it would keep in memory what the client has sent
            self._complaints.record("too-long" if isinstance(error, LineTooLong) else "malformed", peer, _said(error))
        elif isinstance(error, ConnectionError):
            pass  # the client went away
        elif record.levelno >= logging.WARNING:
            log.error("a request failed, this is a bug of Berth", peer=peer, said=record.getMessage(), exc_info=error)


def _said(error: BaseException) -> str:
    """The first line of an error's text: it says what was wrong, and the other ones show it."""
    return next(iter(str(getattr(error, "message", "") or error).splitlines()), type(error).__name__)
