"""What is costly to get is got once, into the user's cache; whoever else wants it meanwhile waits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


class UnreachableError(Exception):
    """What is wanted can't be downloaded here; the only reason to skip the tests that want it."""


class BuildError(Exception):
    """It failed though the network did not."""


def cache() -> Path:
    """Where Berth keeps what is costly to make."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth"


def once(target: Path, what: str, make: Callable[[Path], None]) -> Path:
    """`target`, a directory of the cache that `make` has filled: it is given another one, which is then renamed."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent / "lock", what):
            if not target.exists():
                partial = target.with_suffix(".partial")  # whoever holds the lock owns it
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                make(partial)
                partial.rename(target)
    return target


@contextlib.contextmanager
def _alone(lock: Path, what: str) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another run is getting {what}; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def say(line: str) -> None:
    """Tell whoever waits, on standard error."""
    print(line, file=sys.stderr, flush=True)


def main(what: str, makers: Iterable[Callable[[], Path]]) -> int:
    """Get everything, and print where it is. Exit code 0: it is there, 1: that failed, 3: it can't be downloaded."""
    try:
        for make in makers:
            print(make())
    except UnreachableError as error:
        say(f"{what} can't be had here, what it takes is out of reach: {error}")
        return 3
    except BuildError as error:
        say(str(error))
        return 1
    return 0
