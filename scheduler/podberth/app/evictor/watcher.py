"""One leader's term: reflectors → inbox → the evictor's engine → writer, on one event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from podberth.app.evictor import evictions
from podberth.app.evictor.evictions import PastEviction
from podberth.app.evictor.writer import Writer
from podberth.app.watch import Freshness
from podberth.engine.stimuli import Gone, Put
from podberth.evictor.evictor import Evictor
from podberth.evictor.gates import Settings
from podberth.evictor.messages import Evict, Instruction, Look, Read, Restored, Stimulus, Turn
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Change, Deleted
from podberth.kube.resources import DEVICES, SCHEDULING, Resource
from podberth.kube.writes import Regarding
from podberth.model.kinds import Decoder
from podberth.model.limits import LIMITS, Limits


@dataclass(slots=True)
class Counts:
    """`evictions`: (reason, result) → since this process leads; the rest is as of now."""

    evictions: dict[tuple[str, str], int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    breaker_open: bool = False
    followed: int = 0


def restored(past: Iterable[PastEviction], now: float, *, by_settings: bool = True) -> list[Restored]:
    """Return earlier evictions as the engine is told of them.

    `now`: Unix time by the clock that the Events go by, or one that is behind. How long successors are left alone goes
    by the settings of whoever asks, or by what the Events say.
    """
    return [
        Restored(
            Gone("Pod", one.namespace, one.name, one.uid),
            Turn(f"{one.namespace}/{one.owner}", one.round, 0.0 if by_settings else one.spared, one.asked_at),
            one.ago(now),
        )
        for one in past
    ]


log = structlog.get_logger("evictor")

SLICE_SECONDS = 0.008
_IDLE_SECONDS = 10.0
SAY_MISSING_SECONDS = 10.0
"""After so long a first list that has not come is worth a line in the log."""
_NO_HURRY = 0.05
"""Between two looks at most one slice of news; a watch that floods costs one look for many changes."""


class Watcher:
    """Follows promises while this process leads. Each term gets a new one, as old state may be wrong."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        settings: Settings,
        leads: Callable[[], bool],
        about: Regarding,
        instance: str,
        *,
        limits: Limits = LIMITS,
        machine: Machine = MACHINE,
    ) -> None:
        self._machine, self._clock = machine, machine.monotonic
        self.engine = Evictor(frameworks, settings, machine.chance, self._clock())
        self._client = client
        self._inbox: deque[Stimulus] = deque()
        self._awake = asyncio.Event()
        self._decoder = Decoder(annotated(frameworks), limits=limits)
        self._decoder_beside = self._decoder.beside()
        self._writer = Writer(
            client, self._receive, self._decoder, leads, about, instance, observe=settings.observe, machine=machine
        )
        self.freshness = Freshness(self._awake.set, machine)
        for resource in (*SCHEDULING, *DEVICES):
            self._follow(client, resource)

    def counts(self) -> Counts:
        """Return the figures of this term."""
        engine = self.engine
        followed = len(engine.observed.followed)
        return Counts(dict(engine.evictions), engine.waiting(), engine.held(), engine.breaker.open, followed)

    async def run(self, *, drain_seconds: float = 10.0) -> None:
        """Work until cancelled; then what was asked of the API gets its answer.

        Raises ApiError and Unreachable when the Events about earlier evictions can't be read.
        """
        past, read_at = await self.remembered()
        async with asyncio.TaskGroup() as tasks:
            following = [tasks.create_task(reflector.run()) for reflector in self.freshness.reflectors]
            try:
                await self._sync()
                self._restore(past, read_at)
                await self._loop()
            finally:
                late = await self._writer.drain(drain_seconds)
                log.info("term over", writes_cut_off=late, evictions=_totals(self.counts()))
                for task in following:
                    task.cancel()

    async def remembered(self) -> tuple[list[Restored], float]:
        """Return the earlier evictions and intents, and the time (monotonic) at which their ages were right.

        The ages are differences of the server's clock, because ours may be wrong.
        """
        server_now = evictions.seconds(await self._writer.tell_who_leads())
        now = self._clock()
        past = await evictions.read_past_evictions(self._client)
        log.info("earlier evictions read from events", evictions=len(past))
        return restored(past, server_now), now

    def _restore(self, past: list[Restored], read_at: float) -> None:
        """Tell the engine of earlier evictions, so that it leaves the successors of those pods alone for a while."""
        now = self._clock()
        for one in past:
            ago = None if one.ago is None else one.ago + now - read_at
            self._carry_out(self.engine.handle(replace(one, ago=ago), now))

    async def _sync(self) -> None:
        """Wait until every kind is listed, or refused where it can be done without."""
        started, told = self._clock(), ""
        while missing := self.freshness.missing():
            if missing != told and self._clock() - started >= SAY_MISSING_SECONDS:
                log.error("the cluster can't be seen yet, so nothing is evicted", missing=missing)
                told = missing
            await self._wait(0.1)
            await self._apply()
        await self._apply()
        observed = self.engine.observed
        log.info(
            "synced",
            seconds=round(self._clock() - started, 3),
            nodes=observed.cluster.nodes.count,
            followed=len(observed.followed),
        )

    async def _loop(self) -> None:
        while True:
            await self._apply()
            now = self._clock()
            fresh = self._fresh()
            self._carry_out(self.engine.handle(Look(fresh), now))
            due = self.engine.next_look(now) if fresh else None
            seconds = _IDLE_SECONDS if due is None else min(max(due - now, _NO_HURRY), _IDLE_SECONDS)
            await self._wait(seconds if fresh else 1.0)

    def _fresh(self) -> bool:
        """Return whether what we know of nodes and pods is what there is, as far as anybody can tell."""
        self.freshness.tell()
        return not self.freshness.gap()

    async def _apply(self) -> None:
        """Apply the inbox in slices; answers are carried out at once."""
        while self._inbox:
            now = started = self._clock()
            while self._inbox and now - started < SLICE_SECONDS:
                for _ in range(min(len(self._inbox), 32)):
                    self._carry_out(self.engine.handle(self._inbox.popleft(), now))
                now = self._clock()
            if self.engine.observed.undone:
                self.engine.observed.undone = False
                self._restored()
            await asyncio.sleep(0)

    async def _wait(self, seconds: float) -> None:
        """Sleep until something arrives or the time is over."""
        self._awake.clear()
        if self._inbox:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._awake.wait()
        except TimeoutError:
            return

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Read():
                    self._writer.read(instruction)
                case Evict():
                    self._writer.evict(instruction)
                case _:
                    self._writer.tell(instruction)

    def _follow(self, client: Client, resource: Resource) -> None:
        self.freshness.follow(
            client,
            resource,
            self._decoder.of_kind(resource.kind),
            lambda changes, _replaced: self._deliver(resource.kind, changes),
            decode_large=self._decoder_beside.of_kind(resource.kind),
            on_restored=self._restored,
        )

    def _deliver(self, kind: str, changes: list[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self._receive(Gone(kind, change.namespace, change.name, change.uid))
            else:
                self._receive(Put(change.object))

    def _restored(self, resource: Resource | None = None) -> None:
        """The API server's data is that of a backup."""
        self.freshness.restored(resource)
        self._writer.forget_intents()

    def _receive(self, stimulus: Stimulus) -> None:
        self._inbox.append(stimulus)
        self._awake.set()


def _totals(counts: Counts) -> dict[str, int]:
    return {f"{reason}/{result}": count for (reason, result), count in sorted(counts.evictions.items())}
