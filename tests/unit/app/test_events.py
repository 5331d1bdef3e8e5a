"""Events go out together; each is written once, whatever becomes of a connection."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from podberth.apiserver import protobuf
from podberth.app import reporting as room
from podberth.app.reporting import FEW, MOST, TOGETHER, TRUST, Events
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.writes import PodRef, event

MADE = b'{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"p.1","uid":"u","resourceVersion":"7"}}'
OK = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%b" % (len(MADE), MADE)
LAST = b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(MADE), MADE)

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<html>Hello.</html>"
"""What stands between says it to anything."""


def answer(status: int, *headers: bytes, reason: bytes = b"Because") -> bytes:
    body = b'{"kind":"Status","message":"no","reason":"%b"}' % reason
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 %d No\r\n%bContent-Length: %d\r\n\r\n%b" % (status, lines, len(body), body)


class ApiServer:
    """Takes one request of a connection after the other, and says to each what it is told; in the end, yes."""

    def __init__(self) -> None:
        self.says: Iterator[bytes] = iter(())
        self.taken: Counter[str] = Counter()
        """Names of events that were taken."""
        self.of: Counter[str] = Counter()
        """As many by namespace."""
        self.connections = 0
        self.together = 0
        """Most requests that came with one piece of data."""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        data = b""
        try:
            while True:
                come = await reader.read(1 << 20)
                if not come:
                    return
                data += come
                self.together = max(self.together, data.count(b"POST "))
                while (request := _first(data)) is not None:
                    data = data[len(request) :]
                    said = next(self.says, OK)
                    if not said:
                        return
                    if said in (OK, LAST):
                        self.taken[_name(request)] += 1
                        self.of[request.partition(b"/namespaces/")[2].partition(b"/")[0].decode()] += 1
                    writer.write(said)
                    if said is LAST:
                        return
        except ConnectionError:
            pass
        finally:
            writer.close()


def _first(data: bytes) -> bytes | None:
    """The first whole request."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return None
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return None if len(body) < length else data[: len(head) + 4 + length]


def _name(request: bytes) -> str:
    body = request.partition(b"\r\n\r\n")[2]
    name: str = protobuf.read(body)["metadata"]["name"] if body.startswith(b"k8s\0") else "json"
    return name


class World:
    """A client of such a server, and what was written."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server = server
        self.client = client
        self.events = Events(client)

    def write(self, count: int, namespace: str = "default") -> None:
        for i in range(count):
            pod = PodRef(namespace, f"p{i}", f"uid-{i}")
            said = {"kind": "Normal", "reason": "Scheduled", "action": "Binding", "note": "bound"}
            self.events.write(event(pod, **said, controller="berth", instance="berth-1", moment=1e9))

    async def written_all(self) -> tuple[int, int]:
        assert await self.events.drain(30.0) == 0
        return self.events.written, self.events.dropped


@asynccontextmanager
async def limited(qps: float, burst: int = 10) -> AsyncIterator[World]:
    """A world whose client has such a rate."""
    server = ApiServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening, Client(Connection(server.url), qps=qps, burst=burst, protobuf=True) as client:
        yield World(server, client)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with limited(-1) as made:
        yield made


async def test_events_of_a_moment_share_a_connection(world: World) -> None:
    world.write(TOGETHER)
    assert await world.written_all() == (TOGETHER, 0)
    assert world.server.connections == 1
    assert len(world.server.taken) == TOGETHER
    assert world.server.together > 1


async def test_many_take_several_connections_and_no_more_than_that(world: World) -> None:
    world.write(40 * TOGETHER)
    assert await world.written_all() == (40 * TOGETHER, 0)
    assert set(world.server.taken.values()) == {1}
    assert world.server.connections <= room.CONNECTIONS


async def test_one_alone(world: World) -> None:
    world.write(1)
    assert await world.written_all() == (1, 0)


async def test_an_event_takes_one_turn_of_the_rate() -> None:
    """Whether it goes alone or not: three are let through here, and a fourth would wait for a quarter of an hour."""
    async with limited(0.001, burst=3) as world:
        for i in range(3):
            world.write(1)
            assert await world.written_all() == (i + 1, 0)


async def test_events_that_are_cut_off_are_counted() -> None:
    """Also those that nobody has begun to write."""
    async with limited(0.001, burst=3) as world:
        world.write(3)
        assert await world.written_all() == (3, 0)
        world.write(40)
        assert await world.events.drain(0.0) == 40
        assert (world.events.written, world.events.dropped) == (3, 40)


@pytest.mark.parametrize("after", [0, 1, 7])
@pytest.mark.parametrize("how", [b"", LAST], ids=["closed", "closed after a last answer"])
async def test_what_a_connection_took_with_it_is_written_by_itself(world: World, after: int, how: bytes) -> None:
    """The events behind were not looked at, or their answers are lost."""
    world.server.says = iter((*(OK,) * after, how))
    world.write(TOGETHER)
    assert await world.written_all() == (TOGETHER, 0)
    assert len(world.server.taken) == TOGETHER
    assert set(world.server.taken.values()) == {1}


async def test_written_although_the_answer_was_lost(world: World) -> None:
    there = answer(409, reason=b"AlreadyExists")
    world.server.says = iter((OK, there, OK, there))
    world.write(3)
    assert await world.written_all() == (3, 0)


async def test_a_quota_that_can_not_be_charged_is_no_event_that_is_there(world: World) -> None:
    refused = answer(409, reason=b"Conflict")
    world.server.says = iter((OK, refused, OK, refused))
    world.write(3)
    assert await world.written_all() == (2, 1)


async def test_a_busy_server_is_asked_again(world: World) -> None:
    """429 says when, and what was refused then goes by itself."""
    later = answer(429, b"Retry-After: 0")
    world.server.says = iter((OK, later, OK, answer(500), later))
    world.write(4)
    assert await world.written_all() == (4, 0)
    assert len(world.server.taken) == 4


async def test_what_is_refused_for_good_is_dropped_and_counted(world: World) -> None:
    world.server.says = iter((OK, answer(403), OK))
    world.write(3)
    assert await world.written_all() == (2, 1)


@pytest.mark.parametrize(("pages", "dropped"), [(1, 0), (2, 1)])
async def test_a_page_for_people_is_no_event_that_was_taken(world: World, pages: int, dropped: int) -> None:
    """It is written once more by itself, and counted as dropped if that gets a page, too."""
    world.server.says = iter((OK, PAGE, OK, *(PAGE,) * (pages - 1)))
    world.write(3)
    assert await world.written_all() == (3 - dropped, dropped)
    assert len(world.server.taken) == 3 - dropped


async def test_nobody_listens(world: World) -> None:
    async with Client(Connection("http://127.0.0.1:1"), qps=-1, protobuf=True) as client:
        world.events = Events(client)
        world.write(3)
        assert await world.written_all() == (0, 3)


async def test_where_nothing_but_one_at_a_time_works_they_go_one_by_one(world: World) -> None:
    """A proxy that closes the connection when a second request comes before the first answer."""
    for _ in range(TRUST):
        world.server.says = iter((b"",))
        world.write(2)
        assert await world.written_all() == (world.events.written, 0)
    world.server.together = 0
    world.write(5)
    await world.written_all()
    assert world.server.together == 1
    assert world.events.written == 2 * TRUST + 5


async def test_too_many_are_dropped(world: World) -> None:
    world.write(MOST + 3)
    assert world.events.dropped == 3
    assert await world.events.drain(0.0) == MOST
    world.write(1)
    assert await world.written_all() == (1, MOST + 3)


async def test_a_crowd_drops_its_own_events_only(world: World) -> None:
    """As many as may wait are those of one namespace: another one's are written all the same."""
    world.write(MOST + 3, "crowd")
    assert world.events.dropped == 3
    world.write(FEW, "other")
    assert world.events.dropped == 3
    world.write(1, "other")
    assert world.events.dropped == 4
    assert await world.events.drain(0.0) == MOST + FEW


async def test_a_crowd_of_namespaces_is_bounded_as_well(world: World) -> None:
    """A tenant may have thousands of them: beyond the bound each may have its share of it, and no more."""
    for i in range(5 * MOST // (2 * FEW)):
        world.write(FEW, f"crowd-{i}")
    assert MOST <= await world.events.drain(0.0) <= 2 * MOST


async def test_namespaces_take_turns() -> None:
    """Five are let through here: those of the crowd that came first, and one that came behind a hundred of them."""
    async with limited(0.001, burst=5) as world:
        world.write(100, "crowd")
        world.write(1, "other")
        assert await world.events.drain(1.0) == 96
    assert world.events.written == 5
    assert sorted(world.server.of.values()) == [1, 4]


async def test_a_limited_rate_lets_a_few_through_at_once() -> None:
    """No more than the bucket holds go out together."""
    async with limited(1000.0, burst=3) as world:
        world.write(12)
        assert await world.written_all() == (12, 0)
    assert 1 <= world.server.together <= 4


async def test_a_server_that_speaks_json_alone(world: World) -> None:
    """It is told once, and all events are written."""
    world.server.says = iter((answer(415),) * 3)
    world.write(2)
    assert await world.written_all() == (2, 0)
    assert not world.client.protobuf
