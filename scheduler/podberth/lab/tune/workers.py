"""Who carries out the runs of a search: this process, processes on all cores, or the workers of a Dask cluster.

All are executors of concurrent.futures. A worker gets the course (worlds and goals) once, when it begins; a task is a
configuration of about a kilobyte, and what comes back is a number for each goal.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any, TypeVar

from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.trial import Course, forget, learn

Done = TypeVar("Done")
_TRIES = 3
"""What loses its processes as often as this is given up: it may be what ends them."""


def with_workers(course: Course, name: str, jobs: int, dask: str | None, work: Callable[[Executor], Done]) -> Done:
    """Return what `work` returns, which submits tasks of the course under this name.

    `jobs`: processes; 1 is this one. `dask`: the address of a scheduler, tcp://HOST:PORT. Dask repeats the tasks of a
    lost worker. If a process of this machine is lost, all are begun anew, and `work` is called again, which knows what
    it has. Raises ObjectError when no Dask scheduler answers, and when workers are lost again and again.
    """
    for _ in range(_TRIES):
        with _dask(course, name, dask) if dask else _here(course, name, jobs) as executor:
            try:
                return work(executor)
            except BrokenExecutor:
                continue
    raise ObjectError(f"worker processes were lost {_TRIES} times: is there memory for --jobs?")


@contextmanager
def _here(course: Course, name: str, jobs: int) -> Iterator[Executor]:
    executor: Executor
    if jobs == 1:
        executor = ThreadPoolExecutor(1, initializer=learn, initargs=(name, course.packed()))
    else:
        executor = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (name, course.packed()))
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        forget(name)


def _begin(name: str, packed: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends the others
    learn(name, packed)


@contextmanager
def _dask(course: Course, name: str, address: str) -> Iterator[Executor]:
    from distributed import Client, KilledWorker, WorkerPlugin

    packed = course.packed()

    class Knows(WorkerPlugin):
        """Each worker knows the course, also one that comes later."""

        def setup(self, worker: Any) -> None:
            learn(name, packed)

        def teardown(self, worker: Any) -> None:
            forget(name)

    try:
        client = Client(address, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
        client.wait_for_workers(1, timeout=60)
    except (OSError, ValueError, TimeoutError) as error:
        raise ObjectError(
            f"--dask: {address}: expected the address of a Dask scheduler with workers: {error}"
        ) from None
    with client:
        client.register_plugin(Knows(), name=name)
        try:
            yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]
        except KilledWorker as error:
            raise ObjectError(f"--dask: the workers of one task were lost again and again: {error}") from None
        finally:
            with suppress(OSError):  # a worker that is lost at this moment has nothing to forget
                client.unregister_worker_plugin(name)  # type: ignore[no-untyped-call]
