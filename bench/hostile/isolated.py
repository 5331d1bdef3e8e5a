"""Run something in a copy of this process, so that a large cluster is built once and each row finds it untouched."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_POPULATE_WRITE = 23
"""madvise(2), since Linux 5.14."""


def isolated(work: Callable[[], T], so_far: Callable[[], T], kind: type[T], seconds: float, *, timed: bool) -> T:
    """What `work` returns, run in a fork; what `so_far` returns once it has taken so many seconds of CPU time.

    `timed`: what it does is timed, and must not pay for the fork. Raises RuntimeError when it ends without a result.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:

                def tell(result: T) -> None:
                    pipe.write(msgspec.json.encode(result) + b"\n")
                    pipe.flush()

                def over(_number: int, _frame: FrameType | None) -> None:
                    tell(so_far())
                    os._exit(0)  # nothing that is under way may catch it

                if timed:
                    _own_pages()
                signal.signal(signal.SIGPROF, over)
                signal.setitimer(signal.ITIMER_PROF, seconds)
                done = work()
                signal.setitimer(signal.ITIMER_PROF, 0)
                tell(done)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        said = answers.read().splitlines()
    _, status = os.waitpid(child, 0)
    if not said:
        raise RuntimeError(f"it ended with status {status} and said nothing")
    return msgspec.json.decode(said[-1], type=kind)


def resident() -> float:
    """The resident set in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def _own_pages() -> None:
    """Copy now what the fork shares, so that no measured turn pays for it. Without it, first turns cost some more."""
    libc = ctypes.CDLL(None, use_errno=True)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, _, _, inode = line.split()[:5]
        if rights.startswith("rw-p") and inode == "0":
            start, end = (int(part, 16) for part in span.split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _POPULATE_WRITE)
