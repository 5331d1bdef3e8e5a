"""Metrics that every process has: its version, CPU, memory, open files, and dropped log lines."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from podberth import __version__
from podberth.service import log
from podberth.service.instruments import Asked, Family, Instrument, Labels

BUILD = Family(
    "berth_build_info", "gauge", "Always 1. The labels have the versions of Berth and Python.", ("version", "python")
)
CPU = Family("process_cpu_seconds_total", "counter", "CPU seconds that the process used, user and system.")
MEMORY = Family("process_resident_memory_bytes", "gauge", "Resident memory in bytes.")
START = Family("process_start_time_seconds", "gauge", "Start time of the process, in seconds since 1970.")
FILES = Family("process_open_fds", "gauge", "Open file descriptors.")
LOST_LINES = Family("berth_log_lines_dropped_total", "counter", "Log lines that could not be written.")
FAMILIES = (BUILD, CPU, MEMORY, START, FILES, LOST_LINES)

STARTED = time.time()
PYTHON = ".".join(map(str, sys.version_info[:3]))
_VERSION: Mapping[Labels, float] = {(__version__, PYTHON): 1.0}


def instruments() -> list[Instrument]:
    """Read when somebody asks."""
    return [
        Asked(BUILD, lambda: _VERSION),
        Asked(CPU, lambda: {(): time.process_time()}),
        Asked(MEMORY, lambda: {(): _resident()}),
        Asked(START, lambda: {(): STARTED}),
        Asked(FILES, lambda: {(): float(_open_files())}),
        Asked(LOST_LINES, lambda: {(): float(log.dropped())}),
    ]


def _resident() -> float:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return float(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # the peak, where nothing better is told


def _open_files() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        if Path(place).is_dir():
            return sum(1 for _ in Path(place).iterdir())
    return 0
