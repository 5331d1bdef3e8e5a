"""The reflector against a scripted server over real HTTP; pauses are virtual."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from podberth.kube.errors import ApiError
from podberth.kube.objects import Added, Change, Deleted
from podberth.kube.reflector import LARGE_BYTES, Reflector
from podberth.kube.resources import PODS, Resource
from tests.unit.kube.conftest import ScriptedServer
from tests.unit.kube.wirekit import Thing, bookmark, decode, event, listing, status, thing

Until = Callable[..., Awaitable[None]]


class Cluster:
    """A server that answers LISTs with `pages` (the last one repeats) and plays one of `streams` per WATCH."""

    def __init__(self) -> None:
        self.pages: list[bytes | int] = []
        self.streams: list[list[bytes | str]] = []
        self.hold = asyncio.Event()  # "hold" in a stream waits for it
        self.version: int | None = 1_000_000

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """LIST or WATCH by the query; one object alone is only asked for by who wants to know the version."""
        if "watch" not in request.query:
            if request.query.get("limit") == "1" and "continue" not in request.query and self.version is not None:
                return web.Response(body=listing(self.version), content_type="application/json")
            page = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
            if isinstance(page, int):
                return web.json_response(status(page, "Forbidden"), status=page)
            return web.Response(body=page, content_type="application/json")
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in self.streams.pop(0) if self.streams else ["hold"]:
            if part == "hold":
                await self.hold.wait()
            elif part == "reset":
                assert request.transport is not None
                request.transport.close()
                return response
            else:
                assert isinstance(part, bytes)
                await response.write(part)
        return response


class Told:
    """The changes that a reflector delivered: the mirror of the cluster that a cache would be."""

    def __init__(self) -> None:
        self.things: dict[str, Thing] = {}
        self.batches: list[tuple[list[Change[Thing]], bool]] = []
        self.refusals: list[int | None] = []
        self.pauses: list[float] = []
        self.malformed: list[object] = []

    def deliver(self, changes: list[Change[Thing]], replaced: bool) -> None:
        self.batches.append((changes, replaced))
        for change in changes:
            if isinstance(change, Deleted):
                assert self.things.pop(change.name).uid == change.uid
            else:
                assert (change.object.name in self.things) is not isinstance(change, Added)
                self.things[change.object.name] = change.object

    def refused(self, _: Resource, error: ApiError | None) -> None:
        self.refusals.append(None if error is None else error.status)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class Jumping:
    """A clock that a virtual pause moves."""

    def __init__(self, told: Told) -> None:
        self.told = told

    def __call__(self) -> float:
        return 1000.0 + sum(self.told.pauses)


@asynccontextmanager
async def reflecting(
    server: ScriptedServer, cluster: Cluster, **settings: Any
) -> AsyncIterator[tuple[Reflector[Thing], Told]]:
    """A reflector of pods running against the script."""
    server.answer = cluster.answer
    told = Told()
    async with server.client() as client:
        reflector = Reflector(
            client,
            PODS,
            decode,
            told.deliver,
            on_refused=told.refused,
            on_malformed=lambda _, key, error: told.malformed.append(key),
            sleep=told.pause,
            clock=Jumping(told),
            rng=lambda: 0.5,
            **settings,
        )
        task = asyncio.create_task(reflector.run())
        try:
            yield reflector, told
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_pages_then_watch(server: ScriptedServer, until: Until) -> None:
    """Two pages arrive as one batch marked as a replacement, then events as they come; has_synced in between."""
    cluster = Cluster()
    cluster.version = None
    cluster.pages = [listing(9, thing("a", 1), go_on="next"), listing(9, thing("b", 2))]
    cluster.streams = [[event("ADDED", thing("c", 10)) + event("DELETED", thing("a", 11)), "hold"]]
    async with reflecting(server, cluster, page_size=1) as (reflector, told):
        assert not reflector.has_synced
        assert reflector.staleness() is None
        await reflector.wait_synced()
        await until(lambda: reflector.position == "11")
        assert [(len(changes), replaced) for changes, replaced in told.batches] == [(2, True), (2, False)]
        assert set(told.things) == {"b", "c"}
        assert len(reflector) == 2
        assert reflector.staleness() == 0.0
    assert [path for _, path in server.seen[:2]] == ["/api/v1/pods?limit=1", "/api/v1/pods?limit=1&continue=next"]
    assert "watch=true&resourceVersion=9&allowWatchBookmarks=true&timeoutSeconds=450" in server.seen[2][1]


async def test_the_first_watch_waits_for_the_lists_of_others(server: ScriptedServer, until: Until) -> None:
    """It is opened once all kinds are listed; later ones wait for nothing."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("a", 1))]
    cluster.streams = [[event("ADDED", thing("b", 10))], [event("ADDED", thing("c", 11)), "hold"]]
    listed = asyncio.Event()
    async with reflecting(server, cluster, listed=listed) as (reflector, told):
        await reflector.wait_synced()
        async with server.client() as another:
            await another.get("/api/v1/pods")  # what was sent before this would have come
        assert not [path for _, path in server.seen if "watch=true" in path]
        listed.set()
        await until(lambda: reflector.position == "11")
        assert set(told.things) == {"a", "b", "c"}


async def test_a_list_that_does_not_come_holds_no_watch_back_for_long(
    server: ScriptedServer, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is opened when its time is over, though another kind is not listed."""
    monkeypatch.setattr("podberth.kube.reflector.LISTS_FIRST_SECONDS", 0.0)
    cluster = Cluster()
    cluster.pages = [listing(9)]
    cluster.streams = [[event("ADDED", thing("a", 10)), "hold"]]
    async with reflecting(server, cluster, listed=asyncio.Event()) as (_, told):
        await until(lambda: set(told.things) == {"a"})


async def test_a_long_list_comes_in_parts(server: ScriptedServer, until: Until) -> None:
    """All marked as a replacement, in order, with turns for other tasks between them; has_synced after the last."""
    cluster = Cluster()
    cluster.pages = [listing(9, *(thing(f"p{i}", i + 1) for i in range(2500)))]
    cluster.streams = [["hold"]]
    seen: set[tuple[int, bool]] = set()
    async with reflecting(server, cluster) as (reflector, told):

        async def bystander() -> None:
            while True:
                seen.add((len(told.batches), reflector.has_synced))
                await asyncio.sleep(0)

        beside = asyncio.create_task(bystander())
        await reflector.wait_synced()
        await until(lambda: (3, True) in seen)
        beside.cancel()
        assert [(len(changes), replaced) for changes, replaced in told.batches] == [
            (1000, True),
            (1000, True),
            (500, True),
        ]
        assert [one.object.name for changes, _ in told.batches for one in changes if not isinstance(one, Deleted)] == [
            f"p{i}" for i in range(2500)
        ]
        assert {(1, False), (2, False)} <= seen


async def test_410_repairs_a_missed_delete(server: ScriptedServer, until: Until) -> None:
    """After an ERROR 410 the relist's batch holds the deletion that no event told of."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("a", 1), thing("b", 2)), listing(20, thing("b", 2))]
    cluster.streams = [[event("ERROR", status(410, "Expired"))], [bookmark(21), "hold"]]
    async with reflecting(server, cluster) as (reflector, told):
        await until(lambda: reflector.position == "21")
        assert set(told.things) == {"b"}
        assert [replaced for _, replaced in told.batches] == [True, True]
        assert reflector.counts.missed_deletes == 1


async def test_a_cut_stream_is_resumed_from_the_last_whole_event(server: ScriptedServer, until: Until) -> None:
    """The connection breaks within a line: nothing of it is applied, the next watch starts after the last event."""
    cluster = Cluster()
    cluster.pages = [listing(9)]
    late = event("ADDED", thing("b", 11))
    cluster.streams = [[event("ADDED", thing("a", 10)) + late[:30], "reset"], [late, "hold"]]
    async with reflecting(server, cluster) as (reflector, told):
        await until(lambda: reflector.position == "11")
        assert set(told.things) == {"a", "b"}
        assert reflector.counts.cut == 1
        assert told.pauses == pytest.approx([0.4])
    assert "resourceVersion=10" in server.seen[3][1]


async def test_a_silent_stream_is_given_up(server: ScriptedServer, until: Until) -> None:
    """No byte for the idle time: the stream is dropped and a new one follows at once."""
    cluster = Cluster()
    cluster.pages = [listing(9)]
    cluster.streams = [["hold"], [bookmark(12), "hold"]]
    async with reflecting(server, cluster, idle=0.05) as (reflector, told):
        await until(lambda: reflector.position == "12")
        assert reflector.counts.stalls >= 1
        assert told.pauses == []


async def test_duplicates_and_unknown_events_are_ignored(server: ScriptedServer, until: Until) -> None:
    """A stream that repeats and invents is followed all the same."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("a", 5))]
    again = event("MODIFIED", thing("a", 10))
    cluster.streams = [[again + again + event("MYSTERY", thing("a", 11)) + bookmark(12), "hold"]]
    async with reflecting(server, cluster) as (reflector, told):
        await until(lambda: reflector.position == "12")
        assert [len(changes) for changes, _ in told.batches] == [1, 1]
        assert (reflector.counts.duplicates, reflector.counts.unknown) == (1, 1)


async def test_forbidden_then_allowed(server: ScriptedServer, until: Until) -> None:
    """A 403 is told once, asked again slowly, and its end is told too."""
    cluster = Cluster()
    cluster.pages = [403, 403, listing(9, thing("a", 1))]
    async with reflecting(server, cluster) as (reflector, told):
        await until(lambda: len(told.refusals) == 2)
        assert told.refusals == [403, None]
        assert all(pause >= 10 for pause in told.pauses)
        assert len(told.pauses) == 2
        assert reflector.has_synced
        assert reflector.refused is None


async def test_resync_repairs_a_dropped_delete(server: ScriptedServer, until: Until) -> None:
    """resync() ends the open stream, lists, and delivers the deletion that the stream never told."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("a", 1), thing("b", 2)), listing(30, thing("b", 2))]
    cluster.streams = [[bookmark(10), "hold"]]
    async with reflecting(server, cluster) as (reflector, told):
        await until(lambda: reflector.position == "10")
        reflector.resync()
        await until(lambda: reflector.counts.relists == 1)
        assert set(told.things) == {"b"}
        assert told.pauses == []


@pytest.mark.parametrize("ask", [Reflector.resync, Reflector.stray])
async def test_a_list_asked_for_while_a_stream_is_opened(
    server: ScriptedServer, until: Until, ask: Callable[[Reflector[Thing]], None]
) -> None:
    """There is no stream to end yet. Watching what is opened then would put the list off for minutes."""
    cluster, opening = Cluster(), asyncio.Event()
    cluster.pages = [listing(9, thing("a", 1)), listing(20)]
    answer = cluster.answer

    async def answer_late(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query and not opening.is_set():
            opening.set()
            await cluster.hold.wait()
            cluster.hold.clear()
        return await answer(request)

    cluster.answer = answer_late  # type: ignore[method-assign]
    async with reflecting(server, cluster) as (reflector, told):
        await opening.wait()
        ask(reflector)
        cluster.hold.set()
        await until(lambda: reflector.position == "20")
        assert told.things == {}
        assert reflector.trusted


async def test_a_malformed_object_is_reported(server: ScriptedServer, until: Until) -> None:
    """The bad one is named to the callback; its neighbours arrive."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("bad", 1, size="x"), thing("good", 2))]
    cluster.streams = [[event("ADDED", thing("bad2", 10, size={})) + event("ADDED", thing("good2", 11)), "hold"]]
    async with reflecting(server, cluster) as (reflector, told):
        await until(lambda: reflector.position == "11")
        assert set(told.things) == {"good", "good2"}
        assert told.malformed == [("ns", "bad"), ("ns", "bad2")]


async def longest_slice(server: ScriptedServer, page: bytes) -> tuple[int, int]:
    """(objects decoded between two turns of another task, objects told) of a list, every slice of which is overdue."""
    cluster = Cluster()
    cluster.pages = [page]
    server.answer = cluster.answer
    told = Told()
    decoded = 0
    turns: list[int] = []

    def counting(raw: Any) -> Thing:
        nonlocal decoded
        decoded += 1
        return decode(raw)

    async def bystander() -> None:
        while True:
            turns.append(decoded)
            await asyncio.sleep(0)

    ticks = iter(range(10**9))
    async with server.client() as client:
        reflector = Reflector(client, PODS, counting, told.deliver, clock=lambda: next(ticks) * 0.01)
        tasks = [asyncio.create_task(reflector.run()), asyncio.create_task(bystander())]
        await reflector.wait_synced()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return max(b - a for a, b in pairwise(sorted(set(turns)))), len(told.things)


async def test_a_long_list_never_holds_the_event_loop(server: ScriptedServer) -> None:
    """Other tasks get a turn at least every 32 objects."""
    longest, told = await longest_slice(server, listing(9, *(thing(f"p{i}", i + 1) for i in range(500))))
    assert longest <= 32
    assert told == 500


async def test_an_error_in_deliver_is_not_swallowed(server: ScriptedServer) -> None:
    """A bug in the consumer ends run() with that bug, not with silence."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("a", 1))]
    server.answer = cluster.answer

    def deliver(changes: list[Change[Thing]], replaced: bool) -> None:
        raise KeyError("consumer")

    async with server.client() as client:
        reflector = Reflector(client, PODS, decode, deliver)
        with pytest.raises(KeyError, match="consumer"):
            await reflector.run()


LARGE = "x" * LARGE_BYTES


def large(name: str, version: int, **settings: Any) -> dict[str, Any]:
    """A thing over the bound."""
    return {**thing(name, version, **settings), "data": LARGE}


class Gate:
    """Decodes large objects when it is let: each call waits for a turn of its own."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.decoded = 0
        self._turns = threading.Semaphore(0)

    def __call__(self, raw: Any) -> Thing:
        self.threads.append(threading.current_thread().name)
        assert self._turns.acquire(timeout=30.0)
        self.decoded += 1
        return decode(raw)

    def let(self, count: int = 1) -> None:
        """So many calls may go on."""
        self._turns.release(count)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Nobody is left waiting in the thread, which is shared by all tests."""
    gate = Gate()
    yield gate
    gate.let(100)


def names(told: Told) -> list[str]:
    """The changes that were delivered, in order."""
    return [
        change.name if isinstance(change, Deleted) else change.object.name
        for changes, _ in told.batches
        for change in changes
    ]


async def test_a_large_object_does_not_hold_the_loop(server: ScriptedServer, until: Until, gate: Gate) -> None:
    """While it is decoded, what came before it is delivered, other tasks go on, and what follows keeps its place."""
    cluster = Cluster()
    cluster.pages = [listing(9)]
    line = [event("ADDED", thing("a", 10)), event("ADDED", large("b", 11)), event("MODIFIED", large("b", 12))]
    cluster.streams = [[b"".join([*line, event("DELETED", large("b", 13)), event("ADDED", thing("c", 14))]), "hold"]]
    async with reflecting(server, cluster, decode_large=gate) as (reflector, told):
        await until(lambda: len(gate.threads) == 1)  # the condition is asked on the loop
        assert names(told) == ["a"]
        assert reflector.position == "10"
        gate.let()
        await until(lambda: len(gate.threads) == 2)
        assert reflector.position == "11"
        gate.let()
        await until(lambda: reflector.position == "14")
        assert names(told) == ["a", "b", "b", "b", "c"]
        assert set(told.things) == {"a", "c"}
        assert gate.decoded == 2, "of what is deleted only the metadata is read"
    assert threading.current_thread().name not in gate.threads
    assert len(set(gate.threads)) == 1


async def test_large_objects_of_a_list_are_decoded_beside(server: ScriptedServer, until: Until, gate: Gate) -> None:
    """One after the other, with turns for the loop between them; the order is the list's."""
    cluster = Cluster()
    cluster.pages = [listing(9, thing("a", 1), large("b", 2), large("c", 3), thing("d", 4))]
    async with reflecting(server, cluster, decode_large=gate) as (reflector, told):
        for decoded in (1, 2):
            await until(lambda decoded=decoded: len(gate.threads) == decoded)
            assert not reflector.has_synced
            gate.let()
        await reflector.wait_synced()
        assert names(told) == ["a", "b", "c", "d"]


async def test_a_large_malformed_object_is_reported(server: ScriptedServer, until: Until, gate: Gate) -> None:
    """As a small one is, in a list and in a watch: named to the callback, its neighbours arrive."""
    gate.let(4)
    cluster = Cluster()
    cluster.pages = [listing(9, large("bad", 1, size="x"), large("good", 2))]
    cluster.streams = [[event("ADDED", large("bad2", 10, size={})) + event("ADDED", large("good2", 11)), "hold"]]
    async with reflecting(server, cluster, decode_large=gate) as (reflector, told):
        await until(lambda: reflector.position == "11")
        assert set(told.things) == {"good", "good2"}
        assert told.malformed == [("ns", "bad"), ("ns", "bad2")]
        assert reflector.counts.malformed == 2
        assert gate.decoded == 4


async def test_a_large_line_that_is_no_event_ends_the_stream(server: ScriptedServer, until: Until, gate: Gate) -> None:
    """As a small one does."""
    cluster = Cluster()
    cluster.pages = [listing(9)]
    cluster.streams = [[b'{"type": 1, "object": "' + LARGE.encode() + b'"}\n', "hold"], [bookmark(12), "hold"]]
    async with reflecting(server, cluster, decode_large=gate) as (reflector, _):
        await until(lambda: reflector.position == "12")
        assert reflector.counts.garbled == 1
        assert gate.threads == []


async def test_an_error_of_decoding_that_is_our_bug_comes_out(server: ScriptedServer) -> None:
    """Also when it happens in the thread."""

    def broken(raw: Any) -> Thing:
        raise KeyError("decoder")

    cluster = Cluster()
    cluster.pages = [listing(9, large("a", 1))]
    server.answer = cluster.answer
    async with server.client() as client:
        reflector = Reflector(client, PODS, decode, Told().deliver, decode_large=broken)
        with pytest.raises(KeyError, match="decoder"):
            await reflector.run()


async def test_cancelled_while_a_large_object_is_decoded(server: ScriptedServer, until: Until, gate: Gate) -> None:
    """It ends at once, though the thread does not; what the thread finds then is nobody's, and the next one works."""
    cluster = Cluster()
    cluster.pages = [listing(9, large("a", 1))]
    async with reflecting(server, cluster, decode_large=gate) as (_, told):
        await until(lambda: len(gate.threads) == 1)
    assert told.batches == []
    gate.let(2)
    async with reflecting(server, cluster, decode_large=gate) as (reflector, told):
        await reflector.wait_synced()
        assert set(told.things) == {"a"}
    assert gate.decoded == 2


@pytest.mark.parametrize("first", [large("a", 1), thing("a", 1)], ids=["large", "small"])
async def test_redelivery_asked_for_while_a_large_object_is_decoded(
    server: ScriptedServer, until: Until, gate: Gate, first: dict[str, Any]
) -> None:
    """Objects that were read before that, or half read, are read again: they may mean something else by now."""
    cluster = Cluster()
    cluster.pages = [listing(9, first, large("b", 2))]
    async with reflecting(server, cluster, decode_large=gate) as (reflector, told):
        if "data" in first:
            gate.let()
        await until(lambda: len(gate.threads) == 1 + ("data" in first))
        reflector.redeliver()
        gate.let(10)
        await until(lambda: reflector.counts.relists == 1)
        assert names(told)[:2] == ["a", "b"]
        assert "a" in names(told)[2:]
        assert gate.decoded == (5 if "data" in first else 3)


async def test_slices_end_after_many_bytes(server: ScriptedServer) -> None:
    """A few objects just below the bound end one, not 32 of them."""
    large = ({**thing(f"p{i}", i + 1), "data": "x" * 12_000} for i in range(20))
    longest, told = await longest_slice(server, listing(9, *large))
    assert longest <= 2
    assert told == 20
