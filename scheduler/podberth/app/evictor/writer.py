"""Carries the evictor's instructions out: reads, intents, evictions, Events. Answers go back as stimuli."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from podberth.app.evictor import evictions
from podberth.app.evictor.evictions import regarding
from podberth.app.reporting import UnderWay, ref
from podberth.evictor.messages import (
    Answered,
    Evict,
    NotRead,
    Read,
    RecordEvictorEvent,
    RecordNodeEvent,
    RecordPodEvent,
    Stimulus,
    Turn,
    WasRead,
)
from podberth.kube import writes
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import MALFORMED
from podberth.kube.reflector import decoded
from podberth.kube.writes import Regarding, meta_time
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod

log = structlog.get_logger("evictor")

_WAITING_EVENTS = 5_000
_ASKS = 5
"""The number of times that the API is asked what became of an eviction whose answer was lost, a second apart,
doubling."""
_REMEMBERED = 50_000
INTENT_SECONDS = 300.0
"""An intent that is older is written again: the server keeps Events for an hour only, by its default."""


class Writer:
    """`leads` is asked before each write: whoever lost the Lease writes nothing. `about`: the evictor's own object."""

    def __init__(
        self,
        client: Client,
        answer: Callable[[Stimulus], None],
        decoder: Decoder,
        leads: Callable[[], bool],
        about: Regarding,
        instance: str,
        *,
        observe: bool,
        machine: Machine = MACHINE,
    ) -> None:
        self._client = client
        self._answer = answer
        self._leads = leads
        self._about = about
        self._instance = instance
        self._observe = observe
        self._decoder = decoder
        self._decoder_beside = decoder.beside()
        self._machine = machine
        self._under_way = UnderWay(machine.monotonic)
        self._events = 0
        self._meant: dict[str, _Intent] = {}

    def read(self, instruction: Read) -> None:
        """Read a node and its pods; `answer` gets WasRead or NotRead."""
        self._under_way.start(self._read(instruction.node))

    def evict(self, instruction: Evict) -> None:
        """Write the intent down and evict; `answer` gets Answered."""
        self._under_way.start(self._evict(instruction))

    def forget_intents(self) -> None:
        """The API server's data is that of a backup, which may not have them: the next evictions write them anew."""
        self._meant.clear()

    def tell(self, instruction: RecordPodEvent | RecordNodeEvent | RecordEvictorEvent) -> None:
        """Post an Event."""
        until, annotations = "", None
        match instruction:
            case RecordPodEvent(pod=pod, turn=turn):
                about = regarding(ref(pod))
                until = "" if instruction.until is None else f"; not evicted before {self._wall(instruction.until)}"
                annotations = None if turn is None else _annotations(turn, turn.asked_at)
            case RecordNodeEvent(node=node, uid=uid):
                about = Regarding("v1", "Node", "", node, uid)
            case RecordEvictorEvent():
                about = self._about
        note = f"{instruction.note}{until}"
        log.info("event posted", object=_named(about), reason=instruction.reason, note=note)
        if self._events >= _WAITING_EVENTS and annotations is None:
            log.warning("too many events wait to be written, one is dropped", reason=instruction.reason)
            return
        self._events += 1
        self._under_way.start(self._tell(about, instruction.kind, instruction.reason, note, annotations))

    async def tell_who_leads(self) -> str:
        """Post the Event that this process leads now; returns when that was, by the server's clock.

        Raises ApiError and Unreachable.
        """
        return await self._post(self._about, evictions.LEADS, f"{self._instance} became leader", action="Leading")

    async def drain(self, seconds: float) -> int:
        """Wait for the requests under way; return how many did not end in time and were cancelled."""
        return await self._under_way.drain(seconds)

    async def _read(self, node: str) -> None:
        try:
            raw, pods = await asyncio.gather(
                evictions.read_node(self._client, node), evictions.read_pods(self._client, node)
            )
            small, large = self._decoder, self._decoder_beside
            found = [one async for one in decoded([raw] if raw is not None else [], small.node, large.node)]
            there = {pod.uid: pod async for pod in decoded(pods, small.pod, large.pod)}
            read = WasRead(node, found[0] if found else None, there)
        except (ApiError, Unreachable, *MALFORMED) as error:
            log.warning("node not read", node=node, error=str(error)[:300])
            self._answer(NotRead(node))
            return
        self._answer(read)

    async def _evict(self, eviction: Evict) -> None:
        pod = eviction.pod
        facts = {"pod": pod.key, "uid": pod.uid, "node": eviction.node, "target": eviction.target}
        turn = eviction.turn
        log.info("evicting", **facts, owner=turn.owner, round=turn.round, breach=eviction.breach, dry_run=self._observe)
        asked_at = ""
        try:
            intent = None if self._observe or not self._leads() else await self._intend(eviction)
            if not self._leads():
                self._answer(Answered(pod.uid, 0, "not the leader any more"))
                return
            asked_at = "" if intent is None else intent.by_the_server(self._machine.monotonic())
            await evictions.evict(self._client, ref(pod), dry_run=self._observe)
        except ApiError as error:
            answered = Answered(
                pod.uid,
                error.status,
                error.message,
                budget=error.has_cause("DisruptionBudget"),
                retry_after=error.retry_after or 0.0,
                asked_at=asked_at,
            )
        except Unreachable as error:
            answered = await self._unanswered(pod, error, asked_at)
        else:
            said = "the API server would evict it" if self._observe else f"{eviction.target} can take it"
            answered = Answered(pod.uid, 201, said, asked_at=asked_at)
        log.info("answered", **facts, status=answered.status, message=answered.message)
        self._answer(answered)

    async def _intend(self, eviction: Evict) -> _Intent:
        """Without a written intent there is no eviction: what this raises is the answer."""
        pod, turn = eviction.pod, eviction.turn
        known = self._meant.get(pod.uid)
        now = self._machine.monotonic()
        if known is not None and known.holds_for(turn, now):
            return known
        note = f"from node {eviction.node}, {eviction.target} can take it: {eviction.breach}"
        created = await self._post(regarding(ref(pod)), evictions.INTENT, note, annotations=_annotations(turn))
        if len(self._meant) >= _REMEMBERED:
            self._meant.clear()
        known = self._meant[pod.uid] = _Intent(turn.round, created, self._machine.monotonic())
        return known

    async def _unanswered(self, pod: Pod, error: Unreachable, asked_at: str) -> Answered:
        """Find out what became of a pod that was asked to go, where no answer came."""
        asked_at = asked_at if error.sent else ""
        pause = 1.0
        for _ in range(_ASKS if asked_at else 0):
            try:
                if await evictions.is_leaving(self._client, ref(pod)):
                    return Answered(pod.uid, 201, "the answer was lost, and the pod is leaving", asked_at=asked_at)
                break
            except (ApiError, Unreachable) as again:
                log.warning("eviction unanswered, asking for the pod", pod=pod.key, error=str(again)[:300])
            await asyncio.sleep(pause)
            pause *= 2
        return Answered(pod.uid, 0, str(error), asked_at=asked_at)

    def _wall(self, at: float) -> str:
        """Return an engine time as RFC 3339, rounded up to a second."""
        return meta_time(math.ceil(self._machine.wall() + at - self._machine.monotonic()))

    async def _tell(
        self, about: Regarding, kind: str, reason: str, note: str, annotations: Mapping[str, str] | None
    ) -> None:
        try:
            await self._post(about, reason, note, kind=kind, annotations=annotations)
        except (ApiError, Unreachable) as error:
            log.warning("event not written", object=_named(about), reason=reason, error=str(error)[:300])
        finally:
            self._events -= 1

    async def _post(
        self,
        about: Regarding,
        reason: str,
        note: str,
        *,
        kind: str = "Normal",
        action: str = "Evicting",
        annotations: Mapping[str, str] | None = None,
    ) -> str:
        """Post an Event; returns when that was, by the server's clock. Raises ApiError and Unreachable."""
        event = writes.event(
            about,
            kind=kind,
            reason=reason,
            action=action,
            note=note,
            controller=evictions.CONTROLLER,
            instance=self._instance,
            moment=self._machine.wall(),
        )
        return await evictions.tell(self._client, event, annotations)


@dataclass(frozen=True, slots=True)
class _Intent:
    """The record that was written before a pod was asked to go: `created` by the server's clock, `at` by ours."""

    round: int
    created: str
    at: float

    def holds_for(self, turn: Turn, now: float) -> bool:
        """Return whether it need not be written again."""
        return self.round == turn.round and now < self.at + INTENT_SECONDS

    def by_the_server(self, now: float) -> str:
        """Return our time by the server's clock, or up to a second less."""
        return meta_time(evictions.seconds(self.created) + now - self.at)


def _named(about: Regarding) -> str:
    return f"{about.kind} {about.namespace}/{about.name}" if about.namespace else f"{about.kind} {about.name}"


def _annotations(turn: Turn, asked_at: str = "") -> dict[str, str]:
    return evictions.record(turn.owner.partition("/")[2], turn.round, turn.spared, asked_at)
