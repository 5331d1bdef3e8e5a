"""Processes and Dask give the answers that this process gives, and a lost worker loses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from multiprocessing import active_children
from typing import Any

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.search import Search
from podberth.lab.tune.space import packed
from podberth.lab.tune.trial import Course
from podberth.lab.tune.workers import with_workers
from tests.unit.lab.tune.courses import FRAGMENTATION, PACKING, course, small, varied

TRIALS = 8


@pytest.fixture(scope="module")
def there() -> Course:
    """A course of 24 pods."""
    return course()


def searched(there: Course, jobs: int, dask: str | None, progress: Callable[[int, int], None]) -> Any:
    """Return the trials of a search by such workers."""
    found = Search(there, varied(), (PACKING, FRAGMENTATION))
    with_workers(there, found.name, jobs, dask, lambda executor: found.go_on(executor, TRIALS, progress))
    return found.done


@pytest.fixture(scope="module")
def expected(there: Course) -> Any:
    """The trials of a search in this process."""
    return searched(there, 1, None, lambda done, of: None)


def killing(pid: Callable[[], int | None], killed: list[int]) -> Callable[[int, int], None]:
    """Return a progress that kills a process once two trials are done."""

    def progress(done: int, of: int) -> None:
        if done == 2 and not killed:
            killed.append(pid() or 0)
            os.kill(killed[0], signal.SIGKILL)

    return progress


def test_processes(there: Course, expected: Any) -> None:
    """Two processes find what one does, though one of them is killed on the way."""
    killed: list[int] = []
    assert searched(there, 2, None, killing(lambda: active_children()[0].pid, killed)) == expected
    assert killed


def test_processes_that_are_lost_again_and_again(there: Course) -> None:
    """It is given up, and said."""

    def dies(executor: Executor) -> None:
        executor.submit(os._exit, 1).result()

    with pytest.raises(ObjectError, match="worker processes were lost 3 times"):
        with_workers(there, "course", 2, None, dies)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A Dask cluster of two worker processes on this machine."""
    from distributed import LocalCluster

    anywhere = "127.0.0.1:0"  # without an address it takes port 8787, which another test may have
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=anywhere, host="127.0.0.1")  # type: ignore[no-untyped-call]
    with local as found:
        yield found


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_dask(there: Course, expected: Any, cluster: Any) -> None:
    """A cluster finds what one process does, though a worker is killed while it works."""
    killed: list[int] = []
    progress = killing(lambda: next(iter(cluster.workers.values())).pid, killed)
    assert searched(there, 0, cluster.scheduler_address, progress) == expected
    assert killed


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_worker_that_is_lost_at_the_end(there: Course, cluster: Any) -> None:
    """What was found is returned, though a worker can't be told any more to forget the course."""

    def work(executor: Executor) -> int:
        found = executor.submit(abs, -1).result()
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        return found

    assert with_workers(there, "course", 0, cluster.scheduler_address, work) == 1


def test_no_scheduler_there(there: Course) -> None:
    """An address that nobody answers is said in one line."""
    with pytest.raises(ObjectError, match="--dask: nonsense: expected the address of a Dask scheduler"):
        searched(there, 0, "nonsense", lambda done, of: None)


def test_what_is_sent() -> None:
    """A course is sent packed: pods that differ in little take a fraction of their JSON."""
    there = course(small(600))
    plain = sum(len(arrival.pod) for period in there.periods for arrival in period.world.arrivals)
    assert len(there.packed()) < plain / 10
    assert len(packed(varied().base)) < 1024
