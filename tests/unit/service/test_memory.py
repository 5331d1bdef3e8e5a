"""What is freed goes back to the system, also where something that stays lies behind it."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from podberth.app.evictor import launch
from podberth.evictor.settings import Settings
from podberth.kube.connection import Connection
from podberth.service import memory

CODE = """
import sys
from bench.telling import heap
from podberth.app.evictor.launch import LARGE_BYTES
from podberth.service.memory import give_back
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


TRIMMED = """
import os
from pathlib import Path
from podberth.service.memory import trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10

small, stays = [], []
for _ in range(256):
    small.append(bytearray(64 << 10))
    stays.append(bytearray(2 << 10))
small.clear()
held = resident()
trim()
print(held - resident())
"""


def told(code: str, *arguments: str) -> int:
    """What a new process that runs this prints: its heap is nobody else's."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_nothing_is_left_between_large_blocks() -> None:
    """Sixteen megabytes were in use between small blocks that stay."""
    free = {when: told(CODE, when) for when in ("before", "now")}
    assert free["before"] > 12 << 10, "KiB that are free in the heap"
    assert free["now"] < 4 << 10


def test_pages_between_small_blocks_go_too() -> None:
    """Sixteen megabytes were in use in blocks that are no mappings of their own, between others that stay."""
    assert told(TRIMMED) > 12 << 10, "KiB less that are resident"


async def test_the_evictor_trims_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the evictor does beside its work."""
    told: dict[str, Any] = {}
    done: list[float | str] = []

    async def serve(*_: object, **more: object) -> None:
        told.update(more)

    async def passes(seconds: float) -> None:
        done.append(seconds)
        if len(done) > 4:
            raise TimeoutError

    monkeypatch.setattr(launch, "until_told", serve)
    monkeypatch.setattr(memory, "give_back", lambda _: None)  # of this process, which runs other tests
    await launch.keep_promises(
        Connection(host="http://127.0.0.1:1"), {}, Settings(), namespace="berth", lease="evictor"
    )
    monkeypatch.setattr(asyncio, "sleep", passes)
    monkeypatch.setattr(memory, "trim", lambda: done.append("trimmed"))
    (beside,) = told["beside"]
    with pytest.raises(TimeoutError):
        await beside()
    assert done == [60.0, "trimmed", 60.0, "trimmed", 60.0]
