"""Writes events about pods: those that come within a moment go out together, one behind the other on a connection.

There is an event for each pod that is bound and for each that is not, and nobody waits for it. Written one by one, it
costs as much as the Binding itself: a task, a record of TLS, two system calls and a turn of the loop each. So events
wait for a moment and share these. The server handles the requests of one connection one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable

import structlog
from msgspec import Struct, field

from podberth.app.under_way import UnderWay
from podberth.app.waiting_writes import MOST, share
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import EVENT
from podberth.kube.writes import Event, record, record_all

log = structlog.get_logger("writer")

GATHER_SECONDS = 0.02
"""How long a write waits for others, with which it shares a connection."""
TOGETHER = 16
"""Writes on one connection at a time."""
CONNECTIONS = 8
TRUST = 3
"""After so many connections in a row that did not answer everything, writes go one by one: what stands between may not
take a request before it has answered the one before."""
_ALREADY_EXISTS = "AlreadyExists"
"""It was written, and the answer lost."""
_LATER = frozenset((401, 406, 408, 409, 415, 429))
"""Answers after which the client knows what to do (renew its credentials, speak JSON, wait), or whose text has to be
read: a 409 may say that the event is there, or that a quota could not be charged."""


class Written(Struct):
    """Totals since the start."""

    bound: int = 0
    events: int = 0
    events_dropped: int = 0
    conflicts: Counter[str] = field(default_factory=Counter)
    """Pods whose requirements another scheduler broke, by kind of requirement."""
    devices_given_twice: int = 0
    """Pods that are bound with a device that another claim has."""


class _Waiting:
    """Events by namespace, each in the order in which they came. Namespaces take turns."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, deque[Event]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def crowds(self, namespace: str) -> bool:
        """Return whether no more of a namespace may wait once there are too many in all."""
        return len(self._by_namespace.get(namespace, ())) >= share(len(self._by_namespace))

    def add(self, event: Event) -> None:
        """It goes behind those of its namespace."""
        self._by_namespace.setdefault(event.about.namespace, deque()).append(event)
        self._count += 1

    def next(self) -> Event:
        """The first one of the namespace whose turn it is. There has to be one."""
        namespace, events = next(iter(self._by_namespace.items()))
        del self._by_namespace[namespace]
        event = events.popleft()
        if events:
            self._by_namespace[namespace] = events
        self._count -= 1
        return event

    def clear(self) -> None:
        """Drop all."""
        self._by_namespace.clear()
        self._count = 0


class Events:
    """The events that wait, and those under way. One namespace's crowd delays and displaces its own only."""

    def __init__(self, client: Client, written: Written, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._written = written
        self._under_way = UnderWay(clock)
        self._waiting = _Waiting()
        self._workers = 0
        self._sending = 0
        self._unanswered = 0
        """Connections in a row that did not answer everything."""

    def write(self, event: Event) -> None:
        """Write it soon, or drop and count it when too many wait, for pods matter more."""
        if len(self._waiting) + self._sending >= MOST and self._waiting.crowds(event.about.namespace):
            self._written.events_dropped += 1
            return
        self._waiting.add(event)
        if not self._workers or (self._workers < CONNECTIONS and len(self._waiting) >= TOGETHER * self._workers):
            self._workers += 1
            self._under_way.start(self._work())

    async def drain(self, seconds: float) -> int:
        """Wait until all are written; how many were not in time, or may not have been, and are dropped."""
        await self._under_way.drain(seconds)
        self._workers = 0  # one that was cancelled before it began says nothing
        left = len(self._waiting)
        self._waiting.clear()
        self._written.events_dropped += left
        return left

    async def _work(self) -> None:
        try:
            await asyncio.sleep(GATHER_SECONDS)
            while self._waiting:
                together = self._client.protobuf and self._unanswered < TRUST
                # An event that goes by itself waits for its turn when it is sent.
                turns = await self._client.turns(EVENT, min(len(self._waiting), TOGETHER)) if together else 1
                events = [self._waiting.next() for _ in range(min(turns, len(self._waiting)))]
                self._sending += len(events)
                try:
                    await self._write(events, together)
                except asyncio.CancelledError:  # some may be written: how many, nobody knows
                    for event in events:
                        self._waiting.add(event)
                    raise
                finally:
                    self._sending -= len(events)
        finally:
            self._workers -= 1

    async def _write(self, events: list[Event], together: bool) -> None:
        """Together, and those by themselves that were not taken that way."""
        statuses: list[int] = []
        if events and together:
            try:
                statuses = await record_all(self._client, events)
            except Unreachable as error:
                self._written.events_dropped += len(events)
                log.info("events not written", count=len(events), error=str(error))
                return
            self._unanswered = 0 if len(statuses) == len(events) else self._unanswered + 1
        again = events[len(statuses) :]
        for event, status in zip(events, statuses, strict=False):
            if status == 201:
                self._written.events += 1
            elif status >= 500 or 200 <= status < 300 or status in _LATER:  # 200 is a page of what stands between
                again.append(event)
            else:  # for good; most often its namespace is being deleted
                self._written.events_dropped += 1
                log.debug("event not written", **_about(event), status=status)
        for event in again:
            await self._write_one(event)

    async def _write_one(self, event: Event) -> None:
        try:
            await record(self._client, event)
        except (ApiError, Unreachable) as error:
            refused = error if isinstance(error, ApiError) else None
            if refused is not None and refused.reason == _ALREADY_EXISTS:
                self._written.events += 1
                return
            self._written.events_dropped += 1
            ending = refused is not None and refused.has_cause("NamespaceTerminating")
            (log.debug if ending else log.info)("event not written", **_about(event), error=str(error))
        else:
            self._written.events += 1


def _about(event: Event) -> dict[str, str]:
    return {"pod": f"{event.about.namespace}/{event.about.name}", "profile": event.controller}
