"""One JSON file a recorded run: date, commit, cores, and every figure. Nothing of the machine's names or paths."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.run import Row

DIRECTORY = Path(__file__).with_name("history")


class Record(msgspec.Struct, rename="camel", frozen=True):
    """One run of the whole or a part of the table."""

    date: str
    commit: str
    cores: int
    python: str
    scale: float
    """What every count was multiplied by."""
    measured: float
    """What the number of measured pods was multiplied by."""
    seconds: float
    rows: list[Row]
    ceiling: bool = False
    """On a server that does almost nothing."""
    runs: int = 1
    """How often everything was measured."""


@dataclass(frozen=True, slots=True)
class Began:
    """When a run began, and what it measures. The recording itself changes the tree."""

    at: datetime
    commit: str


def begin() -> Began:
    """A run that begins now."""
    return Began(datetime.now(UTC), commit())


def record(
    began: Began,
    rows: Sequence[Row],
    scale: float,
    measured: float,
    seconds: float,
    *,
    ceiling: bool = False,
    runs: int = 1,
) -> Record:
    """Write the file of a run, or write it anew with more rows; the run as recorded so far."""
    made = Record(
        date=began.at.strftime("%Y-%m-%d %H:%M UTC"),
        commit=began.commit,
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        scale=scale,
        measured=measured,
        seconds=round(seconds),
        rows=list(rows),
        ceiling=ceiling,
        runs=runs,
    )
    place = DIRECTORY / "ceiling" if ceiling else DIRECTORY
    place.mkdir(exist_ok=True)
    file = place / f"{began.at:%Y-%m-%d-%H%M}-{made.commit.partition(' ')[0]}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    return made


def read(file: Path) -> Record:
    """A recorded run."""
    return msgspec.json.decode(file.read_bytes(), type=Record)


def commit() -> str:
    """The commit that was measured, short; says so when the tree had changes."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "--short=10", "HEAD") + changed
