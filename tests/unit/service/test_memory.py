"""What is freed goes back to the system, also where something that stays lies behind it."""

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from bench.telling import heap
from scheduler.controller.eviction.launch import LARGE_BYTES
from scheduler.service.memory import give_back
if sys.argv[1] == "now":
    give_back(LARGE_BYTES)
large = [bytearray(4 << 20)]
large.clear()  # from now on, glibc keeps what is smaller in its heap, unless it was told not to
stays = []
for _ in range(64):
    large.append(bytearray(256 << 10))
    stays.append(bytearray(64 << 10))
large.clear()
print(heap().get("heapFree", -1))
"""


def test_nothing_is_left_between_large_blocks() -> None:
    """Sixteen megabytes were in use between small blocks that stay."""
    free = {}
    for when in ("before", "now"):
        command = [sys.executable, "-c", CODE, when]
        done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
        free[when] = int(done.stdout)
    assert free["before"] > 12 << 10, "KiB that are free in the heap"
    assert free["now"] < 4 << 10
