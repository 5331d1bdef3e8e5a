"""Processes and Dask give the answers that this process gives, and a lost worker loses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from multiprocessing import active_children
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.search import Search
from podberth.lab.tune.space import packed
from podberth.lab.tune.trial import Course, Task
from podberth.lab.tune.workers import Workers, workers
from tests.unit.lab.tune.courses import FRAGMENTATION, PACKING, course, small, varied

TRIALS = 8


@pytest.fixture(scope="module")
def there() -> Course:
    """A course of 24 pods."""
    return course()


@pytest.fixture(scope="module")
def expected(there: Course) -> Any:
    """The trials of a search in this process."""
    with workers(there.packed(), 1, None) as here:
        return searched(there, here)


def searched(there: Course, on: Workers) -> Any:
    """Return the trials of a search."""
    found = Search(there, varied(), (PACKING, FRAGMENTATION))
    found.go_on(on, TRIALS, lambda done, of: None)
    return found.done


def test_processes(there: Course, expected: Any) -> None:
    """Two processes find what one does, though one of them is killed on the way."""
    with workers(there.packed(), 2, None) as processes:
        first = processes.submit(Task(packed(varied().base), 0, 0))
        processes.answer(first)
        os.kill(active_children()[0].pid or 0, signal.SIGKILL)
        assert searched(there, processes) == expected


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A Dask cluster of two worker processes on this machine."""
    from distributed import LocalCluster

    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")  # type: ignore[no-untyped-call]
    with local as found:
        yield found


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_dask(there: Course, expected: Any, cluster: Any) -> None:
    """A cluster finds what one process does, though a worker is killed while it works."""
    killed: list[int] = []

    def progress(done: int, of: int) -> None:
        if done == 2:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    with workers(there.packed(), 0, cluster.scheduler_address) as dask:
        found = Search(there, varied(), (PACKING, FRAGMENTATION))
        found.go_on(dask, TRIALS, progress)
    assert found.done == expected
    assert killed


def test_no_scheduler_there(there: Course) -> None:
    """An address that nobody answers is said in one line."""
    with (
        pytest.raises(ObjectError, match="--dask: nonsense: expected the address of a Dask scheduler"),
        workers(there.packed(), 0, "nonsense"),
    ):
        pass


def test_what_is_sent() -> None:
    """A course is sent packed: pods that differ in little take a fraction of their JSON."""
    there = course(small(600))
    plain = sum(len(arrival.pod) for period in there.periods for arrival in period.world.arrivals)
    assert len(there.packed()) < plain / 10
    assert len(packed(varied().base)) < 1024
