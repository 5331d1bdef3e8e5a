"""Finds calls of a plugin that block: a scheduler that waits for one of them schedules nobody meanwhile.

Python tells audit hooks when something sleeps, connects or starts a program. A hook can't be removed, so there is one,
which looks at nothing unless a plugin is being asked.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

LIMIT_SECONDS = 1.0
"""`berth run` names a plugin that takes longer in its log, and ends it after five."""
_BLOCKING = {
    "time.sleep": "it sleeps",
    "socket.connect": "it connects a socket",
    "socket.sendto": "it sends to a socket",
    "socket.getaddrinfo": "it looks up a host",
    "socket.gethostbyname": "it looks up a host",
    "subprocess.Popen": "it starts a program",
    "os.system": "it starts a program",
}
_INSTEAD = "while all pods wait: see Source in docs/plugins.md"


class Call:
    """A call of a plugin. `coroutine`: it may use sockets that do not block."""

    def __init__(self, *, coroutine: bool) -> None:
        self.coroutine = coroutine
        self.thread = threading.get_ident()
        self.found = ""
        """The way in which it blocks; empty: it does not."""

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """Something happens. Raises RuntimeError if it blocks."""
        if threading.get_ident() != self.thread:
            return
        about = args[0] if args else None
        if self.coroutine and isinstance(about, socket.socket) and about.gettimeout() == 0.0:
            return
        self.found = f"{_BLOCKING[event]} {_INSTEAD}"
        raise RuntimeError(self.found)


_call: Call | None = None
_hooked = False


@contextmanager
def watched(*, coroutine: bool = False) -> Iterator[Call]:
    """Raise RuntimeError where the block sleeps, uses the network or starts a program, or if it took a second."""
    global _call, _hooked
    if not _hooked:
        sys.addaudithook(_hear)
        _hooked = True
    before, began = _call, perf_counter()
    call = _call = Call(coroutine=coroutine)
    sleep = time.sleep
    if sys.version_info < (3, 13):
        time.sleep = _audited(sleep)
    try:
        yield call
    finally:
        _call, time.sleep = before, sleep
    if call.found:  # the plugin has swallowed it
        raise RuntimeError(call.found)
    took = perf_counter() - began
    if took > LIMIT_SECONDS and not coroutine:
        raise RuntimeError(f"it took {took:.1f} s {_INSTEAD}")


def _audited(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """`time.sleep` as it is from Python 3.13 on: audit hooks hear of it. A name that was imported before is not it."""

    def audited(seconds: float, /) -> None:
        sys.audit("time.sleep", seconds)
        sleep(seconds)

    return audited


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _call is not None and event in _BLOCKING:
        _call.hear(event, args)
