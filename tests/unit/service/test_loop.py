"""An event loop that is not held up: blocks of it, collections, memory that goes back, and errors nobody waited for."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from podberth.app.evictor import launch
from podberth.evictor.gates import Settings
from podberth.kube.connection import Connection
from podberth.service import loop
from podberth.service.loop import BEAT, MOST_TEXT, SLOWEST, Blocks
from podberth.service.run import run_service


@pytest.mark.parametrize(
    ("planned", "wall", "cpu", "held", "following"),
    [
        pytest.param(BEAT, 0.0041, 0.004, 0.004, BEAT, id="busy, in short pieces"),
        pytest.param(BEAT, 0.050, 0.048, 0.048, BEAT, id="one long callback"),
        pytest.param(BEAT, 0.500, 0.060, 0.060, BEAT, id="mostly somebody else's time"),
        pytest.param(BEAT, 0.005, 0.0001, 0.0001, 2 * BEAT, id="at rest"),
        pytest.param(SLOWEST, 0.064, 0.001, 0.001, SLOWEST, id="at rest for long"),
        pytest.param(SLOWEST, 0.065, 0.030, 0.005, BEAT, id="work after rest, in pieces"),
        pytest.param(SLOWEST, 0.094, 0.060, 0.034, BEAT, id="work after rest, one long callback"),
    ],
)
def test_beats(planned: float, wall: float, cpu: float, held: float, following: float) -> None:
    """How long the loop was held, and when the next beat is due."""
    blocks = Blocks()
    assert blocks.beat(planned, wall, cpu) == pytest.approx(following)
    assert blocks.longest == pytest.approx(held)
    assert blocks.longest_wall == pytest.approx(wall - planned + BEAT)
    assert blocks.busy.total == (following == BEAT)


async def test_it_beats_until_stopped() -> None:
    """Each beat reads both clocks once; between the second and the third lies a long callback."""
    done = asyncio.Event()
    walls, cpus = iter((0.0, 0.004, 0.204)), iter((0.0, 0.004, 0.104))

    def cpu() -> float:
        spent = next(cpus, None)
        if spent is None:
            done.set()
        return 0.104 if spent is None else spent

    blocks = Blocks(lambda: next(walls, 0.208), cpu)
    blocks.start()
    await done.wait()
    blocks.stop()
    assert blocks.longest == pytest.approx(0.1)
    assert blocks.longest_wall == pytest.approx(0.2)


# As uvloop 0.22 says it.
CUT = RuntimeError("unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed")


async def _tells(context: dict[str, object]) -> None:
    asyncio.get_running_loop().call_exception_handler(context)


async def _breaks() -> None:
    raise ValueError("broken")


async def _leaves_a_task() -> None:
    task = asyncio.ensure_future(_breaks())
    await asyncio.wait([task])
    del task
    gc.collect()


def test_a_connection_that_was_cut_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """No traceback, as nothing is wrong with Berth; the request is told by the connection."""
    with capture_logs() as said:
        run_service(_tells({"message": "Fatal error on SSL protocol", "exception": CUT, "protocol": 1, "transport": 2}))
    assert said == [
        {
            "event": "a connection was cut while it was written to",
            "where": "Fatal error on SSL protocol",
            "reason": str(CUT),
            "log_level": "warning",
        }
    ]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [CUT, ValueError("a protocol broke")])
def test_others_keep_their_traceback(error: Exception) -> None:
    """An error without a connection, or of another kind, is a bug."""
    context: dict[str, object] = {"message": "in a callback", "exception": error}
    if error is not CUT:
        context["protocol"] = 1
    with capture_logs() as said:
        run_service(_tells(context))
    (line,) = said
    assert (line["log_level"], line["where"], line["exc_info"]) == ("error", "in a callback", error)


def test_a_task_that_nobody_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    """Its error is a line of the log, with a traceback, and nothing else is printed."""
    with capture_logs() as said:
        run_service(_leaves_a_task())
    assert [(line["log_level"], str(line["exc_info"])) for line in said] == [("error", "broken")]
    assert capfd.readouterr().err == ""


def test_a_context_without_an_error() -> None:
    """It is told without a traceback, and of which task it speaks, at no great length."""
    with capture_logs() as said:
        run_service(_tells({"message": "a task was destroyed but it is pending", "task": "x" * 1000}))
    (line,) = said
    assert (line["where"], line["exc_info"]) == ("a task was destroyed but it is pending", None)
    assert line["about"] == {"task": "x" * MOST_TEXT}


CODE = """
import ctypes, sys
from bench.telling import heap
from podberth.app.evictor.launch import LARGE_BYTES
from podberth.service.loop import give_memory_back
if sys.argv[1] == "now":
    give_memory_back(LARGE_BYTES)
else:  # what glibc comes to by itself once a block of 32 MiB was freed, unless the environment forbids it
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
    mallopt(-1, 64 << 20)  # M_TRIM_THRESHOLD
large, stays = [], []
for _ in range(64):
    large.append(bytearray(256 << 10))
    stays.append(bytearray(64 << 10))
large.clear()
print(heap().get("heapFree", -1))
"""


TRIMMED = """
import os
from pathlib import Path
from podberth.service.loop import trim_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10

small, stays = [], []
for _ in range(256):
    small.append(bytearray(64 << 10))
    stays.append(bytearray(64 << 10))  # as large: the imports have left holes in which a smaller one would lie
small.clear()
held = resident()
trim_memory()
print(held - resident())
"""


def told(code: str, *arguments: str) -> int:
    """What a new process that runs this prints: its heap is nobody else's, and nothing around it tunes it."""
    command = [sys.executable, "-c", code, *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True, env=env)
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
    monkeypatch.setattr(launch, "give_memory_back", lambda _: None)  # of this process, which runs other tests
    await launch.keep_promises(
        Connection(host="http://127.0.0.1:1"), {}, Settings(), namespace="berth", lease="evictor"
    )
    monkeypatch.setattr(asyncio, "sleep", passes)
    monkeypatch.setattr(loop, "trim_memory", lambda: done.append("trimmed"))
    (beside,) = told["beside"]
    with pytest.raises(TimeoutError):
        await beside()
    assert done == [60.0, "trimmed", 60.0, "trimmed", 60.0]


SCRIPT = """
import asyncio
import gc
import weakref
from podberth.service import loop

loop.collect_briefly()
loop.collect_briefly()
seen = []

def young(phase, info):
    if phase == "start":
        seen.append(sum(map(len, map(gc.get_objects, range(info["generation"] + 1)))))

gc.callbacks.append(young)
kept = [[] for _ in range(20 * loop.YOUNG)]
assert len(seen) >= 15, len(seen)
assert max(seen) < 3.5 * loop.YOUNG, max(seen)
assert gc.get_freeze_count() > 15 * loop.YOUNG

seen.clear()
for i in range(len(kept)):
    kept[i] = []  # as many come as go
    if i % 2 == 0:
        loop.worked(1)
assert len(seen) >= 20, len(seen)
assert max(seen) < 3.5 * loop.YOUNG, max(seen)

class Node: pass

refs = []
for _ in range(10 * loop.AGED):
    one = Node()
    one.self = one
    refs.append(weakref.ref(one))
    loop.worked(loop.WORK)  # it is in use while a collection runs
    del one
for _ in range(loop.AGED):
    loop.worked(loop.WORK)
lost = sum(ref() is not None for ref in refs)
assert lost <= 10, lost

def garbage():
    for _ in range(3 * loop.YOUNG):
        one = Node()
        one.self = one

found = []
gc.callbacks.append(lambda phase, info: found.append(info["collected"]))
garbage()
assert sum(found) > loop.YOUNG, sum(found)

late = Node()
late.self = late
gc.collect()
gone = weakref.ref(late)
del late
gc.collect()
assert gone() is not None
loop.DAY_SECONDS = 0.0

async def a_day() -> None:
    daily = asyncio.create_task(loop.collect_daily())
    while gone() is not None:
        await asyncio.sleep(0)
    daily.cancel()

asyncio.run(asyncio.wait_for(a_day(), 120.0))
"""


def test_no_collection_looks_at_old_objects() -> None:
    """In a process of its own, since it holds until its end: 200,000 objects that stay, and garbage that does not."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
