"""Signs that the watch is alive: when each of its streams was last answered, and last tried.

kopf keeps bookmarks to itself, so its streams are made to end every `STREAM_SECONDS`: each new one that is answered
proves the path, the credentials and kopf's own loop. An event proves it too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

STREAM_SECONDS = 55
STALE_SECONDS = 150.0
"""Almost three streams: not ready, and when nothing was even tried for so long, not alive."""
DEAD_SECONDS = 600.0
"""Tried but never answered for so long: a new process reads new certificates and may do better."""


class Pulse:
    """Ages of one or several streams, the oldest counting. Told by one thread, asked by another."""

    def __init__(self, streams: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        now = clock()
        self._tried = dict.fromkeys(streams, now)
        self._answered: dict[str, float | None] = dict.fromkeys(self._tried)
        self._started = now
        self.absent = False
        """The API server says that there are no MetadataPolicies: as good an answer as any, but not ready."""

    def tried(self, stream: str) -> None:
        """A request for this stream went out, or failed."""
        with self._lock:
            if stream in self._tried:
                self._tried[stream] = self._clock()

    def heard(self, stream: str) -> None:
        """The API server answered a request for this stream, or sent an event."""
        with self._lock:
            if stream in self._tried:
                self._tried[stream] = self._answered[stream] = self._clock()

    def heard_all(self) -> None:
        """The API server answered for all streams at once."""
        for stream in self._tried:
            self.heard(stream)

    def age(self) -> float | None:
        """Seconds since the stream that was silent longest was answered; None if one never was."""
        with self._lock:
            times = [when for when in self._answered.values() if when is not None]
            return self._clock() - min(times) if len(times) == len(self._answered) else None

    def dead(self) -> str | None:
        """Return why a new process should take over; None while there is life."""
        with self._lock:
            now = self._clock()
            tried = now - min(self._tried.values())
            answered = now - min(self._started if when is None else when for when in self._answered.values())
        if tried > STALE_SECONDS:
            return f"the watch of MetadataPolicies has tried nothing for {tried:.0f} s"
        if answered > DEAD_SECONDS:
            return f"the watch of MetadataPolicies has had no answer for {answered:.0f} s"
        return None

    def unready(self) -> str | None:
        """Return why what we know may be old; None when it is fresh."""
        age = self.age()
        if self.absent:
            return "there are no MetadataPolicies on this API server: the CRD is missing"
        if age is None:
            return "the watch of MetadataPolicies was not answered yet"
        if age > STALE_SECONDS:
            return f"the watch of MetadataPolicies has had no answer for {age:.0f} s"
        return None
