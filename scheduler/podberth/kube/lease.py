"""One leader among replicas: hold a coordination.k8s.io Lease, or wait for it.

The rules and figures are client-go's (tools/leaderelection/leaderelection.go): a lease is good for 15 s from its last
renewal, its holder renews every 2 s and gives up when none succeeded for 10 s, and everybody else measures from the
moment when *they* saw the record change, on their own monotonic clock, so that wrong wall clocks do no harm. Unlike
there, a holder whose Lease was deleted or taken stops at once instead of taking it back. Whoever has seen it hold a
Lease that was deleted waits for the end of its time. And candidates look twice as often, and at the moment when a lease
ends: so one takes over within 17 s of a crash, where it may take 24 there.

`Term` is what decides, without a clock or a network; `Elector` reads, writes and sleeps. Long work asks `leading`
before each act: it looks at the clock, so that a process that was stopped for a while does nothing as ex-leader.

`Candidate` runs an Elector on a thread of its own. What leads works on one event loop, and a turn of that loop may take
longer than the renew deadline. The thread has an event loop and a connection of its own; it renews as long as the main
loop turns now and then. A loop that has not turned for `Elector.dead_after` is dead: the Lease is not renewed any more.
A thread needs the interpreter. Python code gives it away every few milliseconds; C code that keeps it stops the thread,
too, and then the Lease ends by the clock, as it does for a process that is stopped as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any

import msgspec

from podberth.kube.client import Client, read_answer
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable, without_trace
from podberth.kube.flow import LEASE
from podberth.kube.machine import boottime
from podberth.kube.resources import LEASES
from podberth.kube.writes import micro_time

DURATION = 15.0
RENEW_DEADLINE = 10.0
RETRY = 2.0
JITTER = 1.2  # after an error candidates wait up to this much more, so that they do not come as one
LOOK = 0.5  # of the retry period: how long a candidate waits between looks, and up to half of that more
RELEASE_SECONDS = 3.0
DEAD_DEADLINES = 3.0
"""A loop that gave no sign for so many renew deadlines is dead: 30 s by default. The longest turn ever seen took 25 s,
and whoever needs another replica to take over sooner sets shorter times for the Lease anyway."""
SIGNS = 4.0
"""Times in each retry period that the event loop shows that it runs."""

_NOWHERE = ("", "")
Record = dict[str, Any]


class LeaseLostError(Exception):
    """We led, and no longer do; the text says why."""


class LoopDeadError(LeaseLostError):
    """The Lease is not renewed any more, for whoever would act as its holder gives no sign of life."""


class Term:
    """Says who leads, as far as one candidate can know; give it the time, it keeps none.

    One thread tells it what happened; `left` may be asked by any, for it reads one number, which is put there whole.
    """

    def __init__(self, identity: str, *, duration: float = DURATION, renew_deadline: float = RENEW_DEADLINE) -> None:
        if not identity or not 0 < renew_deadline < duration:
            raise ValueError("a lease needs an identity, and a renew deadline that is shorter than it lasts")
        self.identity = identity
        self.duration = duration
        self.renew_deadline = renew_deadline
        self.holder = ""
        self._seen: tuple[str, str] = _NOWHERE  # uid and resourceVersion
        self._seen_at = 0.0
        self._good_for = 0.0
        self._led_from: float | None = None

    def observe(self, record: Record, now: float) -> None:
        """The Lease as it was just read."""
        meta, spec = record["metadata"], record.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        seen = (meta.get("uid", ""), meta.get("resourceVersion", ""))
        if seen != self._seen:
            self._seen = seen
            self._seen_at = now
            self._good_for = float(spec.get("leaseDurationSeconds") or self.duration)

    def missing(self, now: float) -> None:
        """There is no Lease. Who held it may have renewed it just before it was deleted, and does not know yet."""
        if self._seen != _NOWHERE:
            self._seen, self._seen_at = _NOWHERE, now

    def vacant(self, now: float) -> bool:
        """Return whether we may take the Lease as last observed: nobody holds it, or its holder's time is over.

        Held in our name it is ours to take: the answer to our claim was lost, or we had given up too early.
        """
        return self.holder in ("", self.identity) or now >= self._seen_at + self._good_for

    def until_vacant(self, now: float) -> float:
        """Return the seconds until the Lease as last observed is ours to take."""
        return 0.0 if self.vacant(now) else self._seen_at + self._good_for - now

    def renewed(self, sent_at: float) -> None:
        """A write of ours, begun at `sent_at`, was accepted."""
        self.holder = self.identity
        self._led_from = sent_at

    def lost(self) -> None:
        """We do not hold it (any longer)."""
        self._led_from = None

    def left(self, now: float) -> float:
        """Return the seconds until we must stop acting as leader; 0 when we are not."""
        led_from = self._led_from  # read once: another thread may put None there meanwhile
        return 0.0 if led_from is None else max(led_from + self.renew_deadline - now, 0.0)

    def spec(self, record: Record | None, moment: str) -> Record:
        """Return the spec to write to take the Lease, or to renew it."""
        before: Record = (record or {}).get("spec") or {}
        ours = before.get("holderIdentity") == self.identity
        transitions = int(before.get("leaseTransitions") or 0)
        return {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.duration),
            "acquireTime": before.get("acquireTime") or moment if ours else moment,
            "renewTime": moment,
            "leaseTransitions": transitions if ours or record is None else transitions + 1,
        }


class Elector:
    """A candidate for one Lease; `identity` must be this process' alone, also after a restart (`own_identity`).

    `on_problem` hears, once each, of reads and writes that failed; `last_error` keeps the latest until one succeeds.
    `annotations` are put on the Lease with each write of ours, others stay (`podberth.service.schedulers` reads one);
    put other ones in their place at any time. `otherwise`: the Lease's namespace if the named one does not exist.
    `signs` counts signs of life of whoever acts as the holder: without them a Lease is neither taken nor, after some
    time, renewed.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = DURATION,
        renew_deadline: float = RENEW_DEADLINE,
        retry: float = RETRY,
        annotations: Mapping[str, str] | None = None,
        otherwise: str = "",
        on_problem: Callable[[str], None] | None = None,
        signs: Callable[[], int] | None = None,
        rng: Callable[[], float] = random.random,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.term = Term(identity, duration=duration, renew_deadline=renew_deadline)
        self.last_error: ApiError | Unreachable | None = None
        self.reached = False
        """The API server has answered about the Lease at least once: until then nobody knows who leads."""
        self.annotations: Mapping[str, str] = dict(annotations or {})
        self.dead_after = DEAD_DEADLINES * renew_deadline
        self._client = client
        self._name = name
        self._namespace = namespace
        self._otherwise = otherwise
        self._retry = retry
        self._on_problem = on_problem
        self._rng = rng
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._record: Record | None = None
        self._signs = signs
        self._signs_seen: int | None = None
        self._seen_since = 0.0

    @property
    def leading(self) -> bool:
        """Return whether we may act as leader at this very moment."""
        return self.left() > 0

    @property
    def follows(self) -> bool:
        """Return whether somebody else has held the Lease before we did."""
        return self._record is not None and int(self._record["spec"].get("leaseTransitions") or 0) > 0

    @property
    def place(self) -> tuple[str, str]:
        """Return namespace and name of the Lease."""
        return self._namespace, self._name

    def left(self) -> float:
        """Return the seconds for which we may go on acting as leader; 0 when we are not."""
        return self.term.left(self._clock())

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to lead, do `work` while we do, release the Lease when it ends or this is cancelled.

        Raises LeaseLostError, after `work` was cancelled, when we stop leading before it is done.
        """
        try:
            await self.acquire()
            keeping = asyncio.ensure_future(self.keep())  # before the work may hold this loop
            working = asyncio.ensure_future(work())
            try:
                await asyncio.wait((working, keeping), return_when=asyncio.FIRST_COMPLETED)
                if keeping.done():
                    await _cancel(working)
                    keeping.result()
                working.result()
            finally:
                await _cancel(working)
                await _cancel(keeping)
        finally:
            await self.release()

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while not await self._try(self._acquire):
            await self._sleep(self._pause())

    def _pause(self) -> float:
        """Return the seconds until a candidate looks again."""
        chance = self._rng()
        if self.last_error is not None:
            return self._retry * (1 + JITTER * chance)
        look, end = self._retry * LOOK, self.term.until_vacant(self._clock())
        spread = look / 2 * chance
        return look + spread if end <= 0 else min(look, end) + spread * min(1.0, end / look)

    async def keep(self) -> None:
        """Renew until it fails for good; only ever ends by raising LeaseLostError."""
        while True:
            left = self.term.left(self._clock())
            await self._sleep(min(self._retry, left))
            now = self._clock()
            left = self.term.left(now)
            if left <= 0:
                self.term.lost()
                raise LeaseLostError(f"not renewed for {self.term.renew_deadline:g} s: {self.last_error}")
            # In this order: who was stopped as a whole has lost the Lease, and its loop is not dead for that.
            if (silent := self._silent(now)) >= self.dead_after:
                self.term.lost()
                raise LoopDeadError(f"the event loop has not turned for {silent:.0f} s")
            try:
                async with asyncio.timeout(left):
                    await self._try(self._renew)
            except TimeoutError:
                continue  # the next turn says so
            except LeaseLostError:
                self.term.lost()
                raise

    async def release(self) -> None:
        """Give the Lease back if we still hold it, so that nobody waits for its end."""
        record, leading = self._record, self.leading
        self.term.lost()
        if not leading or record is None:
            return
        with contextlib.suppress(ApiError, Unreachable, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                try:
                    await self._give_back(record)
                except ApiError as error:
                    now = await self._read() if error.status == 409 else None
                    if now is None or now["spec"].get("holderIdentity") != self.term.identity:
                        raise
                    # A renewal that was under way when we ended was accepted, and nobody waited for the answer.
                    await self._give_back(now)

    async def _give_back(self, record: Record) -> None:
        await self._write(
            "PUT", {**record, "spec": {**record["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
        )

    def _silent(self, now: float) -> float:
        """Return for how many seconds no sign of life came, as far as looks now and then can see."""
        if self._signs is None:
            return 0.0
        signs = self._signs()
        if signs != self._signs_seen:
            self._signs_seen, self._seen_since = signs, now
        return now - self._seen_since

    # -- one try -------------------------------------------------------------------------------------------------

    async def _try(self, step: Callable[[], Awaitable[bool]]) -> bool:
        try:
            done = await step()
        except (ApiError, Unreachable) as error:
            if self._on_problem is not None and str(error) != str(self.last_error):
                self._on_problem(str(error))
            self.last_error = without_trace(error)
            return False
        self.last_error = None
        self.reached = True
        return done

    async def _acquire(self) -> bool:
        record = await self._read()
        now = self._clock()
        # Who is busy would hold it without acting: another candidate may be free. One retry is several signs long.
        alive = self._silent(now) < self._retry
        if record is None:
            self._record = None
            self.term.missing(now)
            head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            meta = {"name": self._name, "namespace": self._namespace}
            return alive and self.term.vacant(now) and await self._claim("POST", {**head, "metadata": meta}, now)
        self.term.observe(record, now)
        return alive and self.term.vacant(now) and await self._claim("PUT", record, now)

    async def _claim(self, verb: str, record: Record, now: float) -> bool:
        spec = self.term.spec(record if verb == "PUT" else None, micro_time(self._wall()))
        try:
            self._record = await self._write(verb, {**self._annotated(record), "spec": spec})
        except ApiError as error:
            if error.status == 409:
                return False  # another was faster
            if error.status == 404 and verb == "POST" and self._otherwise:
                self._namespace, self._otherwise = self._otherwise, ""
                return False
            raise
        self.term.renewed(now)
        return True

    async def _renew(self) -> bool:
        try:
            await self._renew_now()
        except ApiError as error:
            if error.status == 404:
                raise LeaseLostError("the Lease was deleted") from error
            if error.status != 409:
                raise
            await self._look_again()
        return True

    async def _look_again(self) -> None:
        """Somebody wrote the Lease; unless they took it (an annotation, a lost answer of ours), go on from there."""
        record = await self._read()
        if record is None:
            raise LeaseLostError("the Lease was deleted")
        self.term.observe(record, self._clock())
        if self.term.holder != self.term.identity:
            raise LeaseLostError(f"the Lease was taken by {self.term.holder or 'nobody'}")
        self._record = record
        await self._renew_now()

    async def _renew_now(self) -> None:
        assert self._record is not None
        now = self._clock()
        spec = self.term.spec(self._record, micro_time(self._wall()))
        self._record = await self._write("PUT", {**self._annotated(self._record), "spec": spec})
        self.term.renewed(now)

    def _annotated(self, record: Record) -> Record:
        ours = self.annotations
        if not ours:
            return record
        meta = record["metadata"]
        return {**record, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **ours}}}

    async def _read(self) -> Record | None:
        path = LEASES.path(self._namespace, self._name)
        try:
            body = await self._client.request("GET", path, lane=LEASE, tries=1, timeout=self._patience)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return _decode(body)

    async def _write(self, verb: str, record: Record) -> Record:
        path = LEASES.path(self._namespace, None if verb == "POST" else self._name)
        body = msgspec.json.encode(record)
        answer = await self._client.request(verb, path, body=body, lane=LEASE, tries=1, timeout=self._patience)
        return _decode(answer)

    @property
    def _patience(self) -> float:
        """Return the seconds one request may take: two fit into the deadline."""
        return self.term.renew_deadline / 2


class Candidate(Elector):
    """An Elector that waits, renews and releases on a thread, while `run` does the work where it is called.

    `on_problem` and `on_dead` are called on that thread. `on_dead` gets the reason; the work may still be running.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = DURATION,
        renew_deadline: float = RENEW_DEADLINE,
        retry: float = RETRY,
        annotations: Mapping[str, str] | None = None,
        otherwise: str = "",
        on_problem: Callable[[str], None] | None = None,
        on_dead: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(
            Client(connection),
            namespace,
            name,
            identity,
            duration=duration,
            renew_deadline=renew_deadline,
            retry=retry,
            annotations=annotations,
            otherwise=otherwise,
            on_problem=on_problem,
            signs=lambda: self._beats,
        )
        self._connection = connection
        self._on_dead = on_dead
        self._beats = 0
        self._thread: _ClientThread

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """See Elector."""
        beating = asyncio.create_task(self._beat())
        try:
            async with _ClientThread(self._connection) as self._thread:
                self._client = self._thread.client
                await super().run(work)
        finally:
            beating.cancel()

    async def acquire(self) -> None:
        """See Elector."""
        await self._thread.call(super().acquire())

    async def keep(self) -> None:
        """Renew as an Elector does; call `on_dead` when the event loop is stuck and can't do so itself."""
        await self._thread.call(self._keep())

    async def _keep(self) -> None:
        try:
            await super().keep()
        except LoopDeadError as error:
            if self._on_dead is not None:
                self._on_dead(str(error))
            raise

    async def release(self) -> None:
        """See Elector."""
        await self._thread.call(super().release())

    async def _beat(self) -> None:
        """Show that the main loop turns."""
        while True:
            self._beats += 1
            await asyncio.sleep(self._retry / SIGNS)


class _ClientThread:
    """A thread with an event loop, and a client that belongs there; use as `async with`, from another loop."""

    def __init__(self, connection: Connection) -> None:
        self.client = Client(connection)
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._ended: Future[None] = Future()
        self._over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> _ClientThread:
        threading.Thread(target=self._thread, name="lease", daemon=True).start()
        try:
            self._loop = await asyncio.wrap_future(self._ready)
        except asyncio.CancelledError:
            self._ready.add_done_callback(self._leave)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        await asyncio.wrap_future(self._ended)

    def call(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Run it there, from now on. Cancelled, it is cancelled there, before whatever is called next."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _leave(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        """Nobody came; a thread that has begun all the same ends."""
        if not ready.cancelled() and ready.exception() is None:
            ready.result().call_soon_threadsafe(self._over.set)

    def _thread(self) -> None:
        try:
            asyncio.run(self._stay())
        except BaseException as error:  # noqa: BLE001 - it goes on in whoever waits
            for waited_for in (self._ready, self._ended):
                if not waited_for.done():
                    waited_for.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _stay(self) -> None:
        self._over = asyncio.Event()
        async with self.client:
            if self._ready.set_running_or_notify_cancel():
                self._ready.set_result(asyncio.get_running_loop())
                await self._over.wait()


def own_identity() -> str:
    """Return a name for this process that no other has, nor had: host name and something random."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None


class _Lease(msgspec.Struct):
    """The part of a Lease that is read; all else is written back as it was."""

    metadata: _Meta
    spec: _Spec | None = None


_lease = msgspec.json.Decoder(_Lease)
_record = msgspec.json.Decoder(Record)


def _decode(body: bytes) -> Record:
    """Return the Lease of an answer that says that all went well. Raises Unreachable for one that is none."""
    read_answer(body, _lease.decode)
    return _record.decode(body)


async def _cancel(task: asyncio.Future[None]) -> None:
    """End a task; what it raises on the way is its last word and not ours."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
