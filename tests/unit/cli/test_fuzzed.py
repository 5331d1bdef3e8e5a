"""Mangled files: no traceback, no hang, and no more than 1 GiB of memory."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("seed", [1, 2])
def test_mangled_files_are_bounded(seed: int) -> None:
    """Each command ends with a code of its own, in a process whose address space and CPU time are limited."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}  # each takes address space that is never used
    command = [sys.executable, "-m", "tests.unit.cli.fuzzed", str(seed), "20"]
    done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "26 files\n"), done.stdout[-2000:] + done.stderr[-2000:]
