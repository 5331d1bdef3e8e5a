"""Who carries out the runs of a search: this process, processes on all cores, or the workers of a Dask cluster.

The course (worlds and goals) is sent to each worker once; a task is a configuration of about a kilobyte, and what comes
back is a number for each goal. A worker that is lost loses nothing: its tasks are carried out by others.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Protocol

from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.trial import Task, carried_out

Values = dict[str, float]
_TRIES = 3
"""A task whose worker is lost as often as this is given up: it may be what ends them."""


class Workers(Protocol):
    """Carry out tasks in any order; answers are asked for one by one."""

    def submit(self, task: Task) -> Any:
        """Begin a task, and return what its answer is asked for by."""

    def answer(self, handle: Any) -> Values:
        """Wait for the answer to a task."""


class Here:
    """This process, one task after the other, when its answer is asked for."""

    def __init__(self, course: bytes) -> None:
        self._course = course

    def submit(self, task: Task) -> Task:
        return task

    def answer(self, handle: Task) -> Values:
        return carried_out(self._course, handle)


class _Handle:
    """A task, and the future of its answer."""

    def __init__(self, task: Task, future: Any) -> None:
        self.task, self.future, self.tries = task, future, 1


class Processes:
    """Processes on this machine. If one is lost, all are begun anew, and what was not finished is begun again."""

    def __init__(self, course: bytes, count: int) -> None:
        self._course, self._count = course, count
        self._pool = self._begun()
        self._open: dict[int, _Handle] = {}

    def _begun(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._count, get_context("spawn"), _begin, (self._course,))

    def submit(self, task: Task) -> _Handle:
        try:
            future = self._pool.submit(_in_process, task)
        except BrokenProcessPool:
            self._begin_again()
            future = self._pool.submit(_in_process, task)
        handle = _Handle(task, future)
        self._open[id(handle)] = handle
        return handle

    def answer(self, handle: _Handle) -> Values:
        while True:
            try:
                found: Values = handle.future.result()
            except BrokenProcessPool:
                if handle.tries >= _TRIES:
                    raise ObjectError(
                        f"a worker process was lost {_TRIES} times: is there memory for --jobs?"
                    ) from None
                self._begin_again()
            else:
                del self._open[id(handle)]
                return found

    def _begin_again(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._begun()
        for handle in self._open.values():
            if not handle.future.done() or handle.future.cancelled() or handle.future.exception() is not None:
                handle.future = self._pool.submit(_in_process, handle.task)
                handle.tries += 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


_course: bytes = b""
"""What this process was begun with; empty in one that is no worker."""


def _begin(course: bytes) -> None:
    global _course
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends the others
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _course = course


def _in_process(task: Task) -> Values:
    return carried_out(_course, task)


class Dask:
    """The workers of a Dask cluster, which itself repeats the tasks of a lost worker.

    If the course is lost with the last worker that had it, it is sent again.
    """

    def __init__(self, course: bytes, client: Any) -> None:
        self._client, self._raw = client, course
        self._course = client.scatter(course, broadcast=True)

    def submit(self, task: Task) -> _Handle:
        return _Handle(task, self._submitted(task))

    def _submitted(self, task: Task) -> Any:
        return self._client.submit(carried_out, self._course, task, pure=False)

    def answer(self, handle: _Handle) -> Values:
        from distributed import CancelledError, KilledWorker

        while True:
            try:
                found: Values = handle.future.result()
            except (CancelledError, KilledWorker) as error:
                if handle.tries >= _TRIES:
                    raise ObjectError(f"--dask: workers were lost {_TRIES} times with one task: {error}") from None
                handle.tries += 1
                if self._course.status != "finished":
                    self._course = self._client.scatter(self._raw, broadcast=True)
                handle.future = self._submitted(handle.task)
            else:
                return found


@contextmanager
def workers(course: bytes, jobs: int, dask: str | None) -> Iterator[Workers]:
    """Begin workers, and end those of this machine at the end of the block.

    `jobs`: processes; 1 is this one. `dask`: the address of a scheduler, tcp://HOST:PORT. Raises ObjectError when none
    answers there.
    """
    if dask is not None:
        with _client(dask) as client:
            yield Dask(course, client)
    elif jobs == 1:
        yield Here(course)
    else:
        processes = Processes(course, jobs)
        try:
            yield processes
        finally:
            processes.close()


@contextmanager
def _client(address: str) -> Iterator[Any]:
    from distributed import Client

    try:
        client = Client(address, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
        client.wait_for_workers(1, timeout=60)
    except (OSError, ValueError, TimeoutError) as error:
        raise ObjectError(
            f"--dask: {address}: expected the address of a Dask scheduler with workers: {error}"
        ) from None
    with client:
        yield client
