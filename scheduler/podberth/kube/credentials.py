"""The current Authorization header, and when to fetch a newer one.

Where it comes from is a function: `config` gives one that reads the kubeconfig, a token file or an exec plugin's
output. `client` asks `due()` before each request, and renews after a 401.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct

RETRY_SECONDS = 10.0  # after a failed renewal, while the old header may still do


class Credential(Struct, frozen=True):
    """A header's value (None: the certificate says who we are) and for how many seconds to rely on it (None: ever)."""

    header: str | None
    good_for: float | None = None


class Credentials:
    """Renewed by `fetch`, which may block and raises ConfigError; `clock` is monotonic seconds."""

    def __init__(self, fetch: Callable[[], Credential], clock: Callable[[], float] = time.monotonic) -> None:
        self.header: str | None = None
        self.generation = 0
        self._fetch = fetch
        self._clock = clock
        self._due_at: float | None = clock()
        self._lock = threading.Lock()

    @property
    def due_in(self) -> float:
        """In how many seconds the header should be renewed."""
        return float("inf") if self._due_at is None else self._due_at - self._clock()

    def due(self) -> bool:
        """True when the header should be renewed before it is used."""
        return self.due_in <= 0.0

    def renew(self) -> None:
        """Fetch a new one (blocking: files, processes). On ConfigError the old header stays and is due again soon."""
        with self._lock:
            self._due_at = self._clock() + RETRY_SECONDS
            found = self._fetch()
            self.header = found.header
            self._due_at = None if found.good_for is None else self._clock() + max(found.good_for, 1.0)
            self.generation += 1


def anonymous() -> Credentials:
    """No header: for servers that ask for none, and for client certificates."""
    return Credentials(lambda: Credential(None))
