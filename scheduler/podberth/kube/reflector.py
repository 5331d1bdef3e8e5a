"""Lists and watches one kind, and calls back with every change.

`listwatch` decides what to do next; this sends the requests and sleeps. A batch is a part of a complete list, or one
read from the stream; the controller gives it to the engine.

Objects are decoded in slices, so that nothing else in the process waits for long: in each turn of the event loop that
takes at most 4 ms and one object more. Large objects are decoded beside the loop, in one thread for all kinds, and what
comes after one waits for it, so that the order stays. A tenant may write an object that takes 100 ms to decode. The
interpreter lets one thread work at a time and changes over every 5 ms (`sys.getswitchinterval`), so the loop goes on
meanwhile, in turns with that thread, and with one at most, however many large objects come at a time.

Silence: kube-apiserver sends a bookmark about each minute (storage/cacher: one minute plus 1.25 s of timer jitter at
most), so 67 s without a byte means that the path is dead, and it is found within 70 s. It sends none, though, while
nothing of the kind happened since the version the watch began at (cache_watcher.go passes only what is newer), so
streams of quiet kinds are given up every 67 s as well: measured on 1.37, nine of fifteen in a cluster at rest. That
costs one request a kind and minute from the same version, no list, and is what tells a quiet stream from a dead one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Executor
from functools import cache
from typing import Generic, TypeVar

import msgspec

from podberth.kube.client import Client
from podberth.kube.cross_check import Back, CrossCheck, Lost
from podberth.kube.errors import ApiError, Unreachable, without_trace
from podberth.kube.flow import CHECK, WATCH
from podberth.kube.http1 import Stream
from podberth.kube.listwatch import (
    PAGE_SIZE,
    AskVersion,
    Counts,
    FetchPage,
    ListWatch,
    OpenWatch,
    Pause,
    Phase,
    object_of,
)
from podberth.kube.objects import MALFORMED, Change, Key, T, older, read_version
from podberth.kube.resources import Resource

IDLE_SECONDS = 67.0
LISTS_FIRST_SECONDS = 1.0
"""The longest time for which a first watch waits for the lists of other kinds."""
BATCH_OBJECTS = 1000  # a list is delivered in parts, with a turn for the event loop between them
SLICE_SECONDS = 0.004
SLICE_OBJECTS = 32
"""The clock is looked at after so many objects,"""
SLICE_BYTES = 16 << 10
"""or after so many bytes of them."""
LARGE_BYTES = 64 << 10
"""An object of more bytes is large: the dearest legal one of this size takes some 10 ms, of 128 KiB more than 20."""

Given = TypeVar("Given")
Found = TypeVar("Found")
Bytes = TypeVar("Bytes", bytes, msgspec.Raw)


class Reflector(Generic[T]):
    """One kind, from the first list until cancelled.

    `decode(raw)` makes an object of bytes, and so does `decode_large(raw)` for large ones, in another thread: it must
    share nothing that changes with `decode`. Without it, large ones are decoded on the loop, too.
    `deliver(changes, replaced)` gets them in order, on the loop's thread, `replaced` True for the batches of a list:
    the difference to what was delivered before, first everything that is gone, and at the end that for which
    `last(change)` is True. `on_malformed(resource, key, error)` is called for objects that can't be decoded,
    `on_refused(resource, error)` for a 403 or 404 on the kind (None: allowed again). `sleep` takes seconds.

    `check_seconds`: how often what is known is compared with a list of metadata (`cross_check`); None: never.
    `on_lost(resource, objects)` is called when so many differed and the kind is listed again, `on_restored(resource)`
    when the server turns out to have been restored from a backup, `on_trust()` when `trusted` holds again.

    `listed` is set once the first lists of all kinds are in. The first watch waits for that, so that the lists share a
    few connections: a handshake takes 0.9 ms of CPU here and 1.9 of the API server's.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        decode: Callable[[msgspec.Raw], T],
        deliver: Callable[[list[Change[T]], bool], None],
        *,
        decode_large: Callable[[msgspec.Raw], T] | None = None,
        namespace: str | None = None,
        page_size: int = PAGE_SIZE,
        field_selector: str = "",
        idle: float = IDLE_SECONDS,
        on_malformed: Callable[[Resource, Key | None, Exception], None] | None = None,
        on_refused: Callable[[Resource, ApiError | None], None] | None = None,
        check_seconds: float | None = None,
        on_lost: Callable[[Resource, int], None] | None = None,
        on_restored: Callable[[Resource], None] | None = None,
        on_trust: Callable[[], None] | None = None,
        on_deleted: Callable[[msgspec.Raw], None] | None = None,
        last: Callable[[Change[T]], bool] | None = None,
        listed: asyncio.Event | None = None,
        rng: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.last_error: ApiError | Unreachable | None = None
        self._client = client
        self._path = resource.path(namespace)
        self._decode_large = decode_large
        self._redelivered = 0
        self._deliver = deliver
        self._last = last
        self._idle = idle
        self._on_refused = on_refused
        self._told_refused = False
        self._clock = clock
        self._sleep = sleep
        self._stream: Stream | None = None
        self._synced = asyncio.Event()
        self._listed = listed
        self._machine: ListWatch[T] = ListWatch(
            decode,
            rng=rng,
            page_size=page_size,
            field_selector=field_selector,
            on_malformed=None if on_malformed is None else lambda key, error: on_malformed(resource, key, error),
        )
        self._machine.objects.on_deleted = on_deleted
        self.counts: Counts = self._machine.counts
        """Totals since the start."""
        self._on_lost = on_lost
        self._on_restored = on_restored
        self._on_trust = on_trust
        self._told_back = 0
        self._nudged = asyncio.Event()
        self._compared = asyncio.Event()
        self._check: CrossCheck | None = None
        if check_seconds is not None:
            self._check = CrossCheck(self._machine, rng=rng, every=check_seconds)

    # -- what it knows of itself ---------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """Return whether the first list was delivered."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first list was delivered."""
        await self._synced.wait()

    @property
    def phase(self) -> Phase:
        """Return where list/watch stands."""
        return self._machine.phase

    @property
    def refused(self) -> ApiError | None:
        """Return the 403 or 404 for which this kind is not followed at the moment."""
        return self._machine.refused

    @property
    def trusted(self) -> bool:
        """Return whether the server's history goes on from what is known, as far as it said.

        Not while a stream is over and the server was not heard since, nor until a restored cluster is listed again.
        """
        return not (self._machine.doubtful or self._machine.astray)

    @property
    def astray(self) -> bool:
        """Return whether the server's data is that of a backup, and is not listed yet."""
        return self._machine.astray

    @property
    def position(self) -> str:
        """Return the resourceVersion up to which changes were delivered."""
        return str(self._machine.objects.position)

    def __len__(self) -> int:
        """Return how many objects are known."""
        return len(self._machine.objects.known)

    def knows(self, namespace: str, name: str) -> bool:
        """Return whether there is an object of this name now; that it came may still have to be delivered."""
        return (namespace, name) in self._machine.objects.known

    def outdated(self, thing: T) -> bool:
        """Return whether a later version than this of an object is known, or its deletion: this one is passed over."""
        objects, key = self._machine.objects, (thing.namespace, thing.name)
        known = objects.known.get(key)
        latest = objects.deleted_at(key) if known is None else known[1]
        return not self.astray and older(read_version(thing.resource_version), latest)

    def staleness(self) -> float | None:
        """Return the seconds since the server last said anything about the objects; None if it never did.

        That is an event, a bookmark, a page of a list, or a cross-check that found what was known. That a stream was
        opened says nothing. About a minute between bookmarks is normal.
        """
        heard = self._machine.heard_at
        return None if heard is None else self._clock() - heard

    def resync(self) -> None:
        """List again now and deliver the differences, to repair what a watch may have missed."""
        self._machine.resync()
        if self._stream is not None:
            self._stream.abort()

    def check_soon(self) -> None:
        """Compare what is known with a list now, if that was not asked for too often lately."""
        if self._check is not None and self._check.soon(self._clock()):
            self._nudged.set()

    async def compare(self, seconds: float) -> bool:
        """Compare what is known with a list now, and list again what differs, until nothing does.

        Return whether that was done within so many seconds. A kind that can't be followed, or is never checked, has
        nothing to compare.
        """
        if self._check is None or self.refused is not None:
            return True
        self._check.want(self._clock())
        self._compared.clear()
        self._nudged.set()
        try:
            async with asyncio.timeout(seconds):
                await self._compared.wait()
        except TimeoutError:
            self._check.give_up()
            return False
        return True

    def stray(self) -> None:
        """Another kind has shown that the server's data is that of a backup: list again, believe nothing known."""
        self._machine.stray()
        if self._stream is not None:
            self._stream.abort()

    def redeliver(self) -> None:
        """List again now and deliver everything as updated, for a receiver that now reads objects differently."""
        self._redelivered += 1
        self._machine.objects.doubt()
        self.resync()

    # -- what it does --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the kind until cancelled. What `deliver` raises comes out here: it is the caller's bug."""
        if self._check is None:
            await self._follow()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._cross_check(self._check))

    async def _follow(self) -> None:
        while True:
            await self.step(self._clock())

    async def step(self, now: float) -> None:
        """Do what comes next by `now`, a time of the clock: list a page, watch until the stream ends, or wait."""
        match self._machine.action(now):
            case Pause(seconds):
                await self._sleep(seconds)
            case FetchPage(query, seconds):
                await self._list(query, seconds)
            case AskVersion(query):
                await self._ask_version(query)
            case OpenWatch(query):
                await self._let_lists_go_first()
                await self._watch(query)

    async def _cross_check(self, check: CrossCheck) -> None:
        while True:
            match check.turn(self._clock()):
                case Pause(seconds):
                    if not check.wanted:
                        self._compared.set()
                    await self._nap(seconds)
                case FetchPage(query, seconds):
                    try:
                        body = await self._client.get(self._path, query=query, tries=1, lane=CHECK, timeout=seconds)
                    except (ApiError, Unreachable) as error:
                        check.failed(error, self._clock())
                        continue
                    check.page(body, self._clock())
                case Lost(objects):
                    if self._on_lost is not None:
                        self._on_lost(self.resource, objects)
                    self.resync()
                case Back():
                    self._machine.counts.went_back += 1
                    self.stray()
                    self._tell_back()

    async def _nap(self, seconds: float) -> None:
        """Wait until the time is over, or a check is asked for."""
        self._nudged.clear()
        alarm = asyncio.get_running_loop().call_later(seconds, self._nudged.set)
        try:
            await self._nudged.wait()
        finally:
            alarm.cancel()

    async def _ask_version(self, query: str) -> None:
        try:
            body = await self._client.get(self._path, query=query, tries=1, lane=WATCH)
        except (ApiError, Unreachable) as error:
            self._failed(error)
            return
        self._machine.version_came(body, self._clock())
        self._tell_back()
        self._tell_trust()

    async def _list(self, query: str, seconds: float) -> None:
        machine = self._machine
        try:
            body = await self._client.get(self._path, query=query, tries=1, timeout=seconds)
        except (ApiError, Unreachable) as error:
            self._failed(error)
            return
        items = machine.page(body, self._clock())
        self._tell_back()
        await self._in_slices(items, lambda item: item, machine.objects.listed)
        if machine.page_done():
            changes = machine.take()
            if self._last is not None:
                changes.sort(key=self._last)
            self._deliver(changes[:BATCH_OBJECTS], True)
            for start in range(BATCH_OBJECTS, len(changes), BATCH_OBJECTS):
                await asyncio.sleep(0)
                self._deliver(changes[start : start + BATCH_OBJECTS], True)
            self._synced.set()
            machine.delivered()
            self._tell_trust()
        else:
            self._tell_back()

    async def _let_lists_go_first(self) -> None:
        if self._listed is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LISTS_FIRST_SECONDS):
                    await self._listed.wait()
            self._listed = None

    async def _watch(self, query: str) -> None:
        machine = self._machine
        lost: Unreachable | None = None
        try:
            async with self._client.stream(self._path, query=query, idle=self._idle, lane=WATCH) as stream:
                machine.opened(self._clock())
                self._tell_refused()
                self._stream = stream
                try:
                    # Whoever asks for a list while the stream is being opened finds no stream to end.
                    while machine.phase is Phase.WATCHING and not machine.to_list and (chunk := await stream.read()):
                        await self._apply(machine.received(chunk, self._clock()))
                except Unreachable as error:
                    lost = self.last_error = without_trace(error)
                finally:
                    self._stream = None
        except (ApiError, Unreachable) as error:
            self._failed(error)
            return
        machine.ended(self._clock(), lost)

    async def _apply(self, lines: list[bytes]) -> None:
        machine = self._machine
        clock = self._clock

        def apply(line: bytes, decode: Callable[[msgspec.Raw], T] | None) -> None:
            if machine.phase is Phase.WATCHING:
                machine.line(line, clock(), decode)

        await self._in_slices(lines, object_of, apply, self._flush)

    async def _in_slices(
        self,
        things: Iterable[Bytes],
        object_in: Callable[[Bytes], msgspec.Raw | None],
        do: Callable[[Bytes, Callable[[msgspec.Raw], T] | None], None],
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """Do each thing, giving the event loop a turn after every slice; `flush` is called before each turn.

        `do` is given how to decode the object when that was done in the thread, else None.
        """
        started = self._clock()
        count = seen = 0
        for thing in things:
            size = len(thing) if isinstance(thing, bytes) else len(memoryview(thing))
            count += 1
            seen += size
            if size > LARGE_BYTES and self._decode_large is not None and (raw := object_in(thing)) is not None:
                flush()
                do(thing, await self._decoded_beside(raw, self._decode_large))
            else:
                do(thing, None)
            if count < SLICE_OBJECTS and seen < SLICE_BYTES:
                continue
            count = seen = 0
            if self._clock() - started > SLICE_SECONDS:
                flush()
                await asyncio.sleep(0)
                started = self._clock()
        flush()

    async def _decoded_beside(self, raw: msgspec.Raw, decode: Callable[[msgspec.Raw], T]) -> Callable[[msgspec.Raw], T]:
        """Decode an object in the thread. What comes back gives the object, or raises what made it malformed."""
        while True:
            before = self._redelivered
            done = beside(decode, raw)
            with contextlib.suppress(*MALFORMED):
                await done
            if before == self._redelivered:  # else it may have been read by rules that no longer hold
                return lambda _: done.result()

    def _flush(self) -> None:
        if changes := self._machine.take():
            self._deliver(changes, False)

    def _failed(self, error: ApiError | Unreachable) -> None:
        self.last_error = without_trace(error)
        if self._machine.failed(error, self._clock()):
            self._deliver(self._machine.take(), True)
        self._tell_refused()

    def _tell_back(self) -> None:
        if self._told_back != self.counts.went_back:
            self._told_back = self.counts.went_back
            if self._on_restored is not None:
                self._on_restored(self.resource)

    def _tell_trust(self) -> None:
        if self.trusted and self._on_trust is not None:
            self._on_trust()

    def _tell_refused(self) -> None:
        refused = self._machine.refused
        if self._on_refused is not None and (refused is not None) != self._told_refused:
            self._on_refused(self.resource, refused)
        self._told_refused = refused is not None


def beside(work: Callable[[Given], Found], given: Given) -> asyncio.Future[Found]:
    """Do this in the thread for large objects, after what was given to it before.

    Cancelled after it began, it ends without a result.
    """
    return asyncio.get_running_loop().run_in_executor(_thread(), work, given)


async def decoded(
    raws: Iterable[bytes], decode: Callable[[bytes], Found], decode_large: Callable[[bytes], Found]
) -> AsyncIterator[Found]:
    """Decode each object, large ones in the thread. After some bytes of small ones, let the event loop have a turn."""
    seen = 0
    for raw in raws:
        size = len(memoryview(raw))
        if size > LARGE_BYTES:
            yield await beside(decode_large, raw)
            continue
        seen += size
        if seen > LARGE_BYTES:
            await asyncio.sleep(0)
            seen = size
        yield decode(raw)


@cache
def _thread() -> Executor:
    from concurrent.futures import ThreadPoolExecutor  # most processes never see a large object

    return ThreadPoolExecutor(1, thread_name_prefix="decode")
