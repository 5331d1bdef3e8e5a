"""Carries the evictor's instructions out: reads, intents, evictions, Events. Answers go back as stimuli."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from scheduler.engine.eviction.messages import (
    Answered,
    Evict,
    NotRead,
    Read,
    Stimulus,
    TellAll,
    TellNode,
    TellPod,
    WasRead,
)
from scheduler.kube import evictions
from scheduler.kube.beside import decoded
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.evictions import Regarding, regarding
from scheduler.kube.wire import MALFORMED
from scheduler.kube.writes import PodRef
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod

log = structlog.get_logger("evictor")

_WAITING_EVENTS = 5_000
_ASKS = 5
"""How often the API is asked what became of an eviction whose answer was lost, a second apart, doubling."""
_REMEMBERED = 50_000


class Writer:
    """`leads` is asked before each write: whoever lost the Lease writes nothing. `about`: what TellAll is about."""

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
    ) -> None:
        self._client = client
        self._answer = answer
        self._leads = leads
        self._about = about
        self._instance = instance
        self._observe = observe
        self._decoder = decoder
        self._decoder_beside = decoder.beside()
        self._tasks: set[asyncio.Task[None]] = set()
        self._events = 0
        self._meant: set[str] = set()

    def read(self, instruction: Read) -> None:
        """Read a node and its pods; `answer` gets WasRead or NotRead."""
        self._start(self._read(instruction.node))

    def evict(self, instruction: Evict) -> None:
        """Write the intent down and evict; `answer` gets Answered."""
        self._start(self._evict(instruction))

    def tell(self, instruction: TellPod | TellNode | TellAll) -> None:
        """Post an Event."""
        match instruction:
            case TellPod(pod=pod):
                about = regarding(_ref(pod))
            case TellNode(node=node, uid=uid):
                about = Regarding("v1", "Node", "", node, uid)
            case TellAll():
                about = self._about
        log.info("told", object=f"{about.kind} {about.name}", reason=instruction.reason, note=instruction.note)
        if self._events >= _WAITING_EVENTS:
            log.warning("too many events wait, one dropped", reason=instruction.reason)
            return
        self._events += 1
        self._start(self._tell(about, instruction))

    async def drain(self, seconds: float) -> int:
        """Wait for what is under way; how many did not end in time and were cancelled."""
        until = time.monotonic() + seconds
        while self._tasks and (left := until - time.monotonic()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        late = [task for task in self._tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
            log.warning("not read", node=node, error=str(error)[:300])
            self._answer(NotRead(node))
            return
        self._answer(read)

    async def _evict(self, eviction: Evict) -> None:
        pod = eviction.pod
        facts = {"pod": pod.key, "uid": pod.uid, "node": eviction.node, "target": eviction.target}
        log.info("evicting", **facts, owner=eviction.owner, breach=eviction.breach, dry_run=self._observe)
        try:
            if not self._observe and pod.uid not in self._meant:
                await self._intend(eviction)
            if not self._leads():
                self._answer(Answered(pod.uid, 0, "not the leader any more"))
                return
            await evictions.evict(self._client, _ref(pod), dry_run=self._observe)
        except ApiError as error:
            answered = Answered(
                pod.uid,
                error.status,
                error.message,
                budget=error.has_cause("DisruptionBudget"),
                retry_after=error.retry_after or 0.0,
            )
        except Unreachable as error:
            answered = await self._unanswered(pod, error)
        else:
            said = "the API server would evict it" if self._observe else f"{eviction.target} can take it"
            answered = Answered(pod.uid, 201, said)
        log.info("answered", **facts, status=answered.status, message=answered.message)
        self._answer(answered)

    async def _intend(self, eviction: Evict) -> None:
        """Without a written intent there is no eviction: what this raises is the answer."""
        if not self._leads():
            return
        note = f"from node {eviction.node}, {eviction.target} can take it: {eviction.breach}"
        about = regarding(_ref(eviction.pod))
        path, body = evictions.event(
            about,
            kind="Normal",
            reason=evictions.INTENT,
            action="Evicting",
            note=note,
            instance=self._instance,
            owner=eviction.owner,
        )
        await evictions.tell(self._client, path, body)
        if len(self._meant) >= _REMEMBERED:
            self._meant.clear()
        self._meant.add(eviction.pod.uid)

    async def _unanswered(self, pod: Pod, error: Unreachable) -> Answered:
        """No answer came: find out what became of the pod."""
        pause = 1.0
        for _ in range(_ASKS if error.sent and not self._observe else 0):
            try:
                if await evictions.is_leaving(self._client, _ref(pod)):
                    return Answered(pod.uid, 201, "the answer was lost, and the pod is leaving")
                break
            except (ApiError, Unreachable) as again:
                log.warning("eviction unanswered, asking for the pod", pod=pod.key, error=str(again)[:300])
            await asyncio.sleep(pause)
            pause *= 2
        return Answered(pod.uid, 0, str(error))

    async def _tell(self, about: Regarding, what: TellPod | TellNode | TellAll) -> None:
        path, body = evictions.event(
            about, kind=what.kind, reason=what.reason, action="Evicting", note=what.note, instance=self._instance
        )
        try:
            await evictions.tell(self._client, path, body)
        except (ApiError, Unreachable) as error:
            log.warning("event not written", object=f"{about.kind} {about.name}", error=str(error)[:300])
        finally:
            self._events -= 1


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)
