"""`make soak` in small: everything changes for twenty seconds, and nothing is left over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak import CONNECTION_KIB, UNDER_LOAD, Soak, grown, more_kept, tracebacks, usual
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Process

SECONDS = 20.0
WARM = 2.0
"""Caches fill for minutes: how much memory is in use is what `make soak` is for."""


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("control_plane_binaries")
def test_in_small(tmp_path: Path) -> None:
    """The load ends twice, with a restart of the API server in between: nothing is left, and the cache is right."""
    with ControlPlane() as cluster:
        soak = Soak(cluster, tmp_path, seed=1, nodes=8, pods=60)
        try:
            wrong = soak.run(SECONDS, restart_every=SECONDS / 2, sample_every=5.0, growth=WARM, least=300)
        finally:
            soak.end()
    assert wrong == []
    assert [sample["when"] for sample in soak.samples].count("rest") == 2
    assert soak.churn.restarts >= 1  # a slow machine takes longer for the least number of acts
    assert {"create", "delete", "finish", "cordon", "relabel", "resize"} <= soak.churn.done.keys()


def test_growth_is_told() -> None:
    """Each bound has its line, with both figures and what was wanted."""
    before = {
        "heapUsed": 40_000,
        "objects": 100_000,
        "memory": 100.0,
        "evictor memory": 100.0,
        "descriptors": 40,
        "evictor descriptors": 40,
        "tasks": 60,
    }
    assert grown(before, {**before, "memory": 124.9, "tasks": 68}) == []
    assert grown(before, {**before, "heapUsed": 40_000 + 10 * CONNECTION_KIB, "descriptors": 50}) == []
    assert grown(before, {**before, "heapUsed": 42_000, "objects": 110_001, "memory": 125.1, "tasks": 69}) == [
        "in use: 27.81 after the first quarter, 29.77 at the end, want at most 29.2",
        "objects: 1e+05 after the first quarter, 1.1e+05 at the end, want at most 1.1e+05",
        "memory: 100 after the first quarter, 125.1 at the end, want at most 125",
        "tasks: 60 after the first quarter, 69 at the end, want at most 68",
    ]


def test_of_another_allocator_only_resident_memory_is_known() -> None:
    """jemalloc tells glibc nothing: what is in use counts as unknown, and not as less than nothing."""
    before = {"heapUsed": 0, "memory": 105.4, "objects": 90_000, "descriptors": 34, "tasks": 72}
    before |= {"evictor memory": 93.5, "evictor descriptors": 38}
    assert grown(before, {**before, "descriptors": 33, "memory": 103.4}) == []
    assert usual([before] * 10) is None


def test_one_sample_with_many_buffers_is_no_growth() -> None:
    """Under load, the median counts beside the looks at rest; too few samples say nothing."""
    samples = [{"heapUsed": 30_000 + more, "descriptors": 10} for more in (0, 40, 9_000, 20, 10)]
    assert usual(samples) == (30_020 - 10 * CONNECTION_KIB) / 1024
    assert usual(samples[1:]) is None
    assert grown({UNDER_LOAD: 26.0}, {UNDER_LOAD: 27.5}) == [
        "in use under load: 26 after the first quarter, 27.5 at the end, want at most 27.3"
    ]


def test_what_is_kept_is_told_by_type() -> None:
    """5 % more objects are too many, whichever process keeps them; and so is 5 % more of what C code has in use."""
    before = {"objects": 60_000, "types": {"builtins.dict": 30_000, "a.B": 100}, "heapUsed": 30_000, "descriptors": 10}
    assert more_kept("berth evictor", before, {**before, "objects": 63_000, "heapUsed": 30_900}) == []
    more = {**before, "objects": 63_001, "types": {"builtins.dict": 30_200, "a.B": 2_900, "a.C": 1}, "heapUsed": 32_000}
    assert more_kept("berth evictor", before, more) == [
        "berth evictor keeps 63001 objects, 60000 after the first quarter, want at most 63000: "
        "+2800 a.B, +200 builtins.dict, +1 a.C",
        "berth evictor has 28.44 MB in use, 26.48 after the first quarter, want at most 27.81",
    ]


def test_a_leak_is_seen() -> None:
    """A process that keeps more and more of something tells so when it is asked, also of what the collector skips."""
    leak = "import gc, bench.telling as t; a = t.kept(); b = [{1: []} for _ in range(5000)]; gc.freeze(); c = t.kept()"
    code = f"{leak}; print(c['objects'] - a['objects'], c['types']['builtins.dict'] - a['types']['builtins.dict'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    objects, dicts = map(int, done.stdout.split())
    assert objects >= 10_000
    assert dicts >= 5_000


def test_idle_connections_are_closed() -> None:
    """All clients' of the process, also those that the collector was told to leave alone."""
    code = (
        "import gc, time, bench.telling as t; from podberth.kube.http1 import ConnectionPool\n"
        "from podberth.kube.connection import Connection\n"
        "a, b = (ConnectionPool(Connection(f'http://{n}'), time.monotonic) for n in 'ab')\n"
        "gc.freeze(); print(t.close_idle(), t.close_idle())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 2\n"


def test_a_traceback_is_told(tmp_path: Path) -> None:
    """With the line before it: what was logged with it."""
    process = Process("berth", ["true"], tmp_path / "log")
    process.log.write_text('{"event": "odd"}\nTraceback (most recent call last):\n  File "a.py"\nValueError\n')
    assert tracebacks(process) == [
        'berth logged 1 tracebacks, the first of them:\n{"event": "odd"}\nTraceback (most recent call last):\n'
        '  File "a.py"\nValueError'
    ]
