"""Three exceptions say what can go wrong between us and an API server.

`ConfigError` is for a person (one line that names the file and what was expected), `ApiError` is the server's answer,
`Unreachable` is no answer at all. `client` raises the latter two and the reflector and the binder act on them.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from podberth.kube.objects import ListMeta

MESSAGE_LIMIT = 1024  # a proxy's HTML page is no message; events and logs take at most a kilobyte of it
LONGEST_PAUSE = 30.0
"""Seconds for which a Retry-After is obeyed. The API server asks for seconds; a maintenance page asks for an hour, and
may be gone the next minute."""


class ConfigError(Exception):
    """Connection settings that cannot work: one line that names the file and what was expected there."""


class Unreachable(Exception):  # noqa: N818 - it names a state of the world, as `Added` does
    """No complete answer came.

    `sent` is False only when the server has certainly not acted: there was no connection, the TLS handshake failed, or
    it is a read that could not be sent a second time. So a write whose answer was lost is not taken for one that never
    happened. `timed_out` tells silence from a reset, and `heard` whether some of the answer had come by then.
    """

    def __init__(self, message: str, *, sent: bool = True, timed_out: bool = False, heard: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.timed_out = timed_out
        self.heard = heard


AnyError = TypeVar("AnyError", bound=BaseException)


def without_trace(error: AnyError) -> AnyError:
    """Return the same error, to be kept: what it was raised in goes, with the connection on which it came.

    Traces refer to frames, and frames to all that was in use there. Where that refers to the error as well, only the
    garbage collector would free it, which looks through what has lived for a while once a day.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def described(error: BaseException) -> str:
    """Return why a connection failed, in the operating system's or the TLS library's words, without Python's around
    them.
    """
    # aiohttp's own text names its objects
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    if cause is not None:
        return f"cannot connect to {getattr(error, 'host', '')}:{getattr(error, 'port', '')}: {described(cause)}"
    if isinstance(error, ssl.SSLError):
        return _BY_TLS.sub("", str(error)) or "TLS failed"
    if isinstance(error, socket.gaierror):
        return (error.strerror or "the name is not known").lower()
    if isinstance(error, OSError):
        number = error.errno or next(map(int, _NUMBER.findall(str(error))), 0)  # several addresses failed: the first
        if number > 0:
            return os.strerror(number).lower()
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else "the connection ended")


_BY_TLS = re.compile(r"^\[[^\]]*\] | ?\(_ssl\.c:\d+\)")
_NUMBER = re.compile(r"\[Errno (\d+)\]")


class Cause(msgspec.Struct, frozen=True):
    """One entry of a Status' details.causes."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """A Status' details: which object, why, and when to come back (seconds, 0 = not said)."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[Cause] = msgspec.field(default_factory=list)
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """A metav1.Status, as answers and as ERROR events of a watch carry it."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None
    metadata: ListMeta | None = None


_status = msgspec.json.Decoder(Status)


class ApiError(Exception):
    """An answer other than 2xx.

    `status` is the HTTP code, `reason` the Status' word (`Conflict`, `NotFound`, …; empty when the body was none),
    `retry_after` seconds or None when the server did not ask for a pause. `next_page` is the token by which a list
    whose state is forgotten (410) may go on in the present state, "" when there is none. `warnings`: the values of its
    `Warning` headers.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: Details | None = None,
        retry_after: float | None = None,
        next_page: str = "",
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.next_page = next_page
        self.warnings = warnings

    @classmethod
    def from_answer(
        cls, code: int, body: bytes, retry_after: str | None = None, warnings: Sequence[str] = ()
    ) -> ApiError:
        """Read an answer's body (a Status, or whatever a proxy said) and its Retry-After and Warning headers."""
        return cls._of(code, read_status(body), seconds(retry_after), warnings)

    @classmethod
    def from_event(cls, status: Status) -> ApiError:
        """Read the object of a watch's ERROR event; it has no header, only details.retryAfterSeconds."""
        return cls._of(status.code, status, None)

    @classmethod
    def _of(cls, code: int, status: Status, retry_after: float | None, warnings: Sequence[str] = ()) -> ApiError:
        details = status.details
        if retry_after is None and details is not None and details.retry_after_seconds > 0:
            retry_after = min(float(details.retry_after_seconds), LONGEST_PAUSE)
        next_page = "" if status.metadata is None else status.metadata.next
        return cls(code, status.reason, one_line(status.message), details, retry_after, next_page, warnings)

    @property
    def by_webhook(self) -> bool:
        """Return whether an admission webhook could not be asked: the API server asks them before
        it stores anything.
        """
        return self.status == 500 and "failed calling webhook" in self.message

    def has_cause(self, reason: str) -> bool:
        """Return whether details.causes names this reason (`DisruptionBudget`, …)."""
        return self.details is not None and any(cause.reason == reason for cause in self.details.causes)


def read_status(body: bytes | msgspec.Raw) -> Status:
    """Decode a Status; priority and fairness' plain-text 429 and proxies' HTML become a Status with that message."""
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Status(message=bytes(body)[: 4 * MESSAGE_LIMIT].decode("utf-8", "replace"))
    return status


def one_line(text: str) -> str:
    """Fold white space and control characters and cut at MESSAGE_LIMIT characters."""
    folded = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * MESSAGE_LIMIT]).split())
    return folded if len(folded) <= MESSAGE_LIMIT else folded[: MESSAGE_LIMIT - 1] + "…"


def seconds(retry_after: str | None) -> float | None:
    """Return Retry-After in seconds, at most `LONGEST_PAUSE`. The API server never sends a date: that is none."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return min(float(retry_after[:9]), LONGEST_PAUSE)
