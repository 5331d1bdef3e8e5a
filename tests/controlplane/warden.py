"""End what a test run left behind, however it ended.

SIGTERM and SIGKILL skip atexit and fixtures' teardown, and PR_SET_PDEATHSIG follows the thread that forked rather than
the process. So the run keeps a pipe open to this small process; when the pipe closes, the process groups that were
named in it and not taken back are killed and the directories removed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

_started: subprocess.Popen[str] | None = None
_lock = threading.Lock()


def watch(group: int) -> None:
    """Kill this process group when the interpreter is gone."""
    _tell(f"watch {group}")


def forget(group: int) -> None:
    """Leave this process group alone: it ended, and its id may be given to somebody else."""
    _tell(f"forget {group}")


def sweep(directory: Path) -> None:
    """Remove this directory when the interpreter is gone."""
    _tell(f"sweep {directory}")


def _tell(line: str) -> None:
    global _started
    with _lock:
        if _started is None:
            _started = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
            atexit.register(_close, _started)
        assert _started.stdin is not None
        _started.stdin.write(line + "\n")
        _started.stdin.flush()


def _close(warden: subprocess.Popen[str]) -> None:
    warden.communicate()


def _serve() -> None:
    groups: set[int] = set()
    directories: list[Path] = []
    for line in sys.stdin:
        verb, _, what = line.rstrip("\n").partition(" ")
        if verb == "watch":
            groups.add(int(what))
        elif verb == "forget":
            groups.discard(int(what))
        else:
            directories.append(Path(what))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _serve()
