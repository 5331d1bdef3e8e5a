"""Does expensive work outside of the event loop: reviews that take long to judge, policies that take long to read.

In processes of their own (`worker`), as a thread would not help: decoding a megabyte holds Python's lock from the
beginning to the end, and pure Python gives it up every five milliseconds only (decision 31). A namespace has one slot
of them: whatever it sends, it never has more than one worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from podberth.policy import bounds
from podberth.policy.admission import jobs
from podberth.policy.admission.jobs import LENGTHS, Job, Parse, Parsed, Reply, Review, Start
from podberth.policy.admission.judging import KnownPolicies, Question, Ruling, Terms
from podberth.policy.admission.lanes import Lanes
from podberth.policy.admission.review import Bytes

THREADS = 2
"""The number of threads where there are no workers."""
EACH, WAITING = 1, 64
JOB_SECONDS = 5.0
"""After that a worker is replaced: the dearest review takes less than a tenth of it."""
START_SECONDS = 60.0
"""So long a worker may take to begin. It takes half a second of a processor, and where there is little of that, a
worker which is replaced for being slow would never begin."""
KEPT_UNITS = bounds.MOST
"""The largest price of the policies that one worker remembers. The namespace judged longest ago is forgotten first."""
MOST_KNOWN = 64
BYTES_A_UNIT = 256
"""Decoding so many bytes of a review costs a unit (`bounds`)."""
SPEC_BYTES_A_UNIT = 16
"""Reading a policy is dearer: every key is checked."""

_decode = msgspec.msgpack.Decoder(Reply).decode
log = structlog.get_logger("aside")


class WorkError(Exception):
    """A job that could not be done. `end`: it needed more than a worker has."""

    def __init__(self, text: str, *, end: bool = False) -> None:
        super().__init__(text)
        self.end = end


class Aside:
    """Lanes before `count` workers; 0 workers: threads of the server's own process. `start` before, `stop` after."""

    def __init__(self, terms: Terms, count: int = 0) -> None:
        self.terms = terms
        self.replaced = 0
        self._count = count
        self.idle: list[_Worker] = []
        """The workers without a job."""
        self.workers: set[_Worker] = set()
        """The running workers."""
        self._under_way: set[asyncio.Task[Reply]] = set()
        self.lanes = Lanes(count or THREADS, EACH, WAITING)

    async def start(self) -> None:
        """Start the processes."""
        for _ in range(self._count):
            self._hire()

    async def stop(self) -> None:
        """Finish what is under way, and end the processes; what waits for a process to begin is not finished."""
        for worker in self.workers.difference(self.idle):
            if not worker.has_begun:
                worker.kill()
        if self._under_way:
            await asyncio.wait(self._under_way)
        workers, self.workers = self.workers, set()
        self.idle.clear()
        for worker in workers:
            await worker.end()

    async def review(
        self, namespace: str, held: KnownPolicies, question: Question, body: Bytes, until: float
    ) -> Ruling:
        """Return the ruling on a review of this namespace.

        Raises OverloadedError, WorkError.
        """
        cost = held.units + len(body) // BYTES_A_UNIT

        async def work() -> Reply:
            if not self._count:
                return Reply(await asyncio.to_thread(jobs.ruled, body, namespace, held, self.terms, question))
            return await self._with(lambda worker: worker.review(namespace, held, question, body))

        reply = await self._in_turn(namespace, cost, until, work)
        assert reply.ruling is not None
        return reply.ruling

    async def parse(self, namespace: str, raw: bytes) -> Parsed:
        """Return the policy in an object of this namespace with its price, or the problem with it.

        Raises WorkError.
        """

        async def work() -> Reply:
            if not self._count:
                return Reply(parsed=await asyncio.to_thread(jobs.parsed, raw, self.terms.allowed_prefixes))
            return await self._with(lambda worker: worker.do(Parse(), raw))

        reply = await self._in_turn(namespace, len(raw) // SPEC_BYTES_A_UNIT, float("inf"), work)
        assert reply.parsed is not None
        return reply.parsed

    async def _in_turn(self, namespace: str, cost: float, until: float, work: Callable[[], Awaitable[Reply]]) -> Reply:
        """Wait for a slot, then do it. Who goes away while waiting leaves at once; work that began is finished.

        So a slot is only free when a worker is, and cancelling many reviews makes no more work than waiting for them.
        """
        await self.lanes.enter(namespace, cost=cost, until=until)

        async def held() -> Reply:
            try:
                return await work()
            finally:
                self.lanes.leave(namespace)

        task = asyncio.create_task(held())
        self._under_way.add(task)
        task.add_done_callback(self._done)
        reply = await asyncio.shield(task)
        if reply.failed:
            raise WorkError(reply.failed, end=reply.exhausted)
        return reply

    def _done(self, task: asyncio.Task[Reply]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may have gone away, and then nobody else looks at it

    async def _with(self, work: Callable[[_Worker], Awaitable[Reply]]) -> Reply:
        worker = self.idle.pop()  # the one that was last at work: what it took is warm, and the others stay small
        try:
            async with asyncio.timeout(START_SECONDS):
                await worker.begin()
            async with asyncio.timeout(JOB_SECONDS):
                reply = await work(worker)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
            log.error(
                "a worker is replaced: it did not answer", pid=worker.pid, error=str(error) or type(error).__name__
            )
            await self._replace(worker)
            raise WorkError("the worker that judged it did not answer", end=True) from error
        if reply.tired:
            await self._replace(worker)
        else:
            self.idle.append(worker)
        return reply

    async def _replace(self, worker: _Worker) -> None:
        self.replaced += 1
        self.workers.discard(worker)
        worker.kill()
        self._hire()
        await worker.end()

    def _hire(self) -> None:
        worker = _Worker(self.terms)
        self.workers.add(worker)
        self.idle.append(worker)


class _Worker:
    """One process, and what it was told already."""

    def __init__(self, terms: Terms) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            argv = [sys.executable, "-P", "-m", "podberth.policy.admission.worker", str(theirs.fileno())]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        self._socket = ours
        self.knows: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Namespace → version and size of the policies that it has been sent."""
        self._terms = terms
        self.has_begun = False
        """True once the worker reads jobs."""

    @property
    def pid(self) -> int:
        return self.process.pid

    async def review(self, namespace: str, held: KnownPolicies, question: Question, body: Bytes) -> Reply:
        known = self.knows.pop(namespace, None)
        news = known is None or known[0] != held.version
        self.knows[namespace] = (held.version, held.units)
        forget = []
        while sum(units for _, units in self.knows.values()) > KEPT_UNITS or len(self.knows) > MOST_KNOWN:
            forget.append(self.knows.popitem(last=False)[0])
        given = jobs.rules(held) if news else None
        reply = await self.do(Review(namespace, held.version, question, given, tuple(forget)), body)
        if reply.failed:
            self.knows.pop(namespace, None)
        return reply

    async def begin(self) -> None:
        """Wait until it reads jobs, which it has to before it is given one."""
        if not self.has_begun:
            await self.do(Start(self._terms), b"")
            self.has_begun = True

    async def do(self, job: Job, body: Bytes) -> Reply:
        loop = asyncio.get_running_loop()
        head = msgspec.msgpack.encode(job)
        await loop.sock_sendall(self._socket, LENGTHS.pack(len(head), len(body)) + head)
        if body:
            await loop.sock_sendall(self._socket, body)
        length, _ = LENGTHS.unpack(await self._read(LENGTHS.size))
        return _decode(await self._read(length))

    async def _read(self, length: int) -> bytearray:
        loop = asyncio.get_running_loop()
        buffer = bytearray(length)
        view = memoryview(buffer)
        while view:
            read = await loop.sock_recv_into(self._socket, view)
            if not read:
                raise EOFError("it ended")
            view = view[read:]
        return buffer

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def end(self) -> None:
        """Close the socket, at which the process ends by itself."""
        self._socket.close()
        try:
            await asyncio.to_thread(self.process.wait, JOB_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)
