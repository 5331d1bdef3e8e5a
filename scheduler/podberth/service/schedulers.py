"""A scheduler is live if its Lease in one namespace is held and renewed in time.

One process schedules for several schedulerNames under one Lease, so the Lease lists them in its annotation
`podberth.dev/schedulers` (separated by commas). If the scheduler's own Lease has no such annotation, the caller says
which names it serves. As in `podberth.kube.lease`, the time of a Lease begins when *this process* saw the renewal, on
its own clock; only when it sees a Lease for the first time does renewTime count.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import structlog

from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.lease import DURATION
from podberth.kube.listwatch import Phase
from podberth.kube.machine import boottime
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import LEASES, Resource

SCHEDULERS = "podberth.dev/schedulers"
"""The annotation that the holder of a scheduler's Lease writes on it (`Elector(annotations=…)`)."""
TICK_SECONDS = 1.0
REFUSED_SECONDS = 30.0
"""A refusal counts when it lasts: an API server that has just started refuses until it has read its own roles."""
SURE_TICKS = 3
"""Ticks with an open stream that it takes before a Lease counts as over: after an outage the renewals come first."""

log = structlog.get_logger("schedulers")


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Partial):
    """The part of a coordination.k8s.io Lease that says who lives."""

    metadata: MarkedMeta
    spec: _Spec | None = None


decode = msgspec.json.Decoder(Lease).decode


def served(lease: Lease) -> frozenset[str] | None:
    """Return the schedulerNames that a Lease says its holder serves; None: it says nothing of that."""
    annotation = (lease.metadata.annotations or {}).get(SCHEDULERS)
    return None if annotation is None else frozenset(filter(None, map(str.strip, annotation.split(","))))


class _Seen(msgspec.Struct):
    names: frozenset[str]
    renewed: str
    until: float


class LiveSchedulers:
    """Says who lives at a time; give it the time, it keeps none. `own` is the Lease that stands for `profiles`."""

    def __init__(self, own: str, profiles: tuple[str, ...] = ()) -> None:
        self._own = own
        self._profiles = frozenset(profiles or (own,))
        self._seen: dict[str, _Seen] = {}

    def observe(self, lease: Lease, now: float, wall: float) -> None:
        """Take note of a Lease as it was just read; `wall` is seconds since the epoch."""
        spec = lease.spec or _Spec()
        names = served(lease)
        if names is None:
            names = self._profiles if lease.name == self._own else frozenset()
        if not names or not spec.holder_identity or not spec.renew_time:
            self.forget(lease.name)
            return
        before = self._seen.get(lease.name)
        duration = float(spec.lease_duration_seconds or DURATION)
        if before is None:
            until = now + duration - max(0.0, wall - _seconds(spec.renew_time))
        elif before.renewed != spec.renew_time:
            until = now + duration
        else:
            until = before.until
        self._seen[lease.name] = _Seen(names, spec.renew_time, until)

    def forget(self, name: str) -> None:
        """Take note that a Lease is gone, or that nobody holds it."""
        self._seen.pop(name, None)

    def at(self, now: float) -> frozenset[str]:
        """Return the names of the schedulers that live."""
        return frozenset(name for seen in self._seen.values() if now < seen.until for name in seen.names)

    def held(self) -> frozenset[str]:
        """Return the names that some held Lease stands for, renewed in time or not."""
        return frozenset(name for seen in self._seen.values() for name in seen.names)


class Schedulers:
    """Follows the Leases of one namespace. `live` is None while they can't be read; `on_change` hears of changes."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        known: LiveSchedulers,
        on_change: Callable[[], None],
        *,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.live: frozenset[str] | None = None
        self._ticks = 0
        """The number of ticks in a row that have found an open stream."""
        self._refused_since: float | None = None
        self._known = known
        self._on_change = on_change
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self.reflector: Reflector[Lease] = Reflector(
            client,
            LEASES,
            decode,
            self._deliver,
            namespace=namespace,
            on_refused=self._refused,
            rng=rng,
            clock=clock,
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reflector.run())
            tasks.create_task(self._tick())

    async def synced(self) -> None:
        """Wait until the Leases are known, or are known to be unreadable."""
        while not self.reflector.has_synced and self.reflector.refused is None:
            await self._sleep(0.05)

    async def _tick(self) -> None:
        """Notice what no event tells: that nobody renewed."""
        while True:
            await self._sleep(TICK_SECONDS)
            self._ticks = self._ticks + 1 if self.reflector.phase is Phase.WATCHING else 0
            if self._ticks >= SURE_TICKS:
                self._set(self._known.at(self._clock()))
            elif self._refused_since is not None and self._clock() - self._refused_since >= REFUSED_SECONDS:
                self._set(None)

    def _deliver(self, changes: list[Change[Lease]], _replaced: bool) -> None:
        now = self._clock()
        for change in changes:
            if isinstance(change, Deleted):
                self._known.forget(change.name)
            else:
                self._known.observe(change.object, now, self._wall())
        if self.reflector.refused is not None:
            return  # `_refused` says when they count again
        live = self._known.at(now)
        if self._ticks < SURE_TICKS and self.live is not None:
            live |= self.live & self._known.held()  # their renewals may be in the next batch
        self._set(live)

    def _refused(self, _: Resource, error: ApiError | None) -> None:
        if error is not None:
            log.error("Leases can't be watched, so it is not known which schedulers are live", error=str(error)[:300])
            self._refused_since = self._clock()
        else:
            self._refused_since = None
            self._set(self._known.at(self._clock()))

    def _set(self, live: frozenset[str] | None) -> None:
        if live != self.live:
            log.info("live schedulers", names=None if live is None else sorted(live))
            self.live = live
            self._on_change()


def _seconds(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time; what is none counts as long ago."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
