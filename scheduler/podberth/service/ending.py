"""Ends a process whose event loop is stuck, from another thread.

Writes in progress are not finished and the Lease is not given back: another replica takes over when the Lease expires,
and the kubelet restarts this one.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import NoReturn

import structlog

from podberth.service import log as lines

EXIT_CODE = 1
FRAMES = 12

log = structlog.get_logger("ending")


def end_at_once(reason: str) -> NoReturn:
    """Say why, and what the main thread is at, then end the process."""
    log.critical("the process is stuck and ends, so that another replica takes over", reason=reason, at=held_at())
    lines.flush()
    os._exit(EXIT_CODE)


def held_at() -> list[str]:
    """Return where the main thread is, from the outside in: file, line and function of the innermost frames."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return []
    return [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_stack(frame)[-FRAMES:]]
