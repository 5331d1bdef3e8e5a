"""Carries the engine's instructions out: bindings, events, conditions. Answers of bindings go back as stimuli."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog

from scheduler.controller.objects import write_object
from scheduler.controller.under_way import UnderWay
from scheduler.engine.instructions import (
    Bind,
    BoundByPlugin,
    Carries,
    ClearNomination,
    Nominate,
    PatchCondition,
    PostFilterWrite,
    PreBindWrite,
    Preempt,
    RecordFailure,
)
from scheduler.engine.stimuli import (
    BindFailed,
    Bound,
    PreBindWriteFailed,
    PreBindWritten,
    Stimulus,
    Unwritten,
    VictimStays,
)
from scheduler.framework.binding import ObjectKey
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.writes import (
    PodRef,
    bind,
    condition_patch,
    delete_pod,
    event,
    micro_time,
    nomination_patch,
    patch_status,
    pod_path,
    record,
)
from scheduler.model.pod import Pod

log = structlog.get_logger("writer")

_WAITING_EVENTS = 20_000
"""Events that may wait to be written; beyond that they are dropped and counted, for pods matter more."""
_ASK_AGAIN = 1.0
"""Seconds between questions about a Binding whose answer was lost, doubling to `_ASK_AGAIN_MOST`."""
_ASK_AGAIN_MOST = 30.0


_NOBODY_LEFT = frozenset((404, 409, 422))
"""Answers to a status patch that say the pod is gone, or another of its name has come (422: its uid differs)."""


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PodMeta(msgspec.Struct):
    uid: str = ""


class _LivePod(msgspec.Struct):
    metadata: _PodMeta
    spec: _PodSpec


_live_pod = msgspec.json.Decoder(_LivePod)


@dataclass(slots=True)
class Written:
    """Totals since the start."""

    bound: int = 0
    bind_errors: int = 0
    events: int = 0
    events_dropped: int = 0
    conditions: int = 0


class Writer:
    """Writes concurrently; how many at once is the client's business (lanes)."""

    def __init__(self, client: Client, answer: Callable[[Stimulus], None], instance: str) -> None:
        self.written = Written()
        self._client = client
        self._answer = answer
        self._instance = instance
        self._under_way = UnderWay()
        self._waiting_events = 0
        self.carries: Carries = {
            Bind: self.bind,
            BoundByPlugin: self.bound_by_plugin,
            PreBindWrite: self.pre_bind_write,
            PostFilterWrite: self.post_filter_write,
            Nominate: self.nominate,
            ClearNomination: self.clear_nomination,
            RecordFailure: self.record_failure,
            PatchCondition: self.patch_condition,
            Preempt: self.preempt,
        }

    def bind(self, instruction: Bind) -> None:
        """Post a Binding; `answer` gets Bound or BindFailed. The Scheduled event follows a success."""
        log.debug("binding", **about(instruction.pod), node=instruction.node, attempt=instruction.attempts)
        self._under_way.start(self._bind(instruction))

    def bound_by_plugin(self, instruction: BoundByPlugin) -> None:
        """Post the Scheduled event of a pod that a plugin has bound."""
        self._under_way.start(self._scheduled(instruction))

    def pre_bind_write(self, instruction: PreBindWrite) -> None:
        """Write for a PreBind plugin; `answer` gets PreBindWritten or PreBindWriteFailed."""
        about_it = {**about(instruction.pod), "node": instruction.node, "plugin": instruction.plugin}
        log.debug("writing before the binding", **about_it)
        self._under_way.start(self._pre_bind_write(instruction))

    def post_filter_write(self, instruction: PostFilterWrite) -> None:
        """Write for a PostFilter plugin."""
        self._under_way.start(self._post_filter_write(instruction))

    def nominate(self, instruction: Nominate) -> None:
        """Set nominatedNodeName."""
        self._under_way.start(self._nominate(instruction.pod, instruction.node))

    def record_failure(self, instruction: RecordFailure) -> None:
        """Post a FailedScheduling event."""
        self._record(
            instruction.pod, kind="Warning", reason="FailedScheduling", action="Scheduling", note=instruction.message
        )

    def patch_condition(self, instruction: PatchCondition) -> None:
        """Set PodScheduled=False."""
        self._under_way.start(self._patch_condition(instruction))

    def preempt(self, instruction: Preempt) -> None:
        """Remove each victim: DisruptionTarget condition, deletion by UID, Preempted event."""
        victims = [victim.key for victim in instruction.victims]
        log.info("preempting", **about(instruction.pod), node=instruction.node, victims=victims)
        for victim in instruction.victims:
            self._under_way.start(self._preempt(instruction, victim))
        for pod in instruction.reverted:
            self._preempted(instruction, pod)

    def clear_nomination(self, instruction: ClearNomination) -> None:
        """Clear nominatedNodeName."""
        self._under_way.start(self._nominate(instruction.pod, ""))

    async def drain(self, seconds: float) -> int:
        """Wait for what is under way, and for what follows from it (the event of a Binding).

        Returns how many writes did not end in time and were cancelled.
        """
        return await self._under_way.drain(seconds)

    async def _bind(self, instruction: Bind) -> None:
        pod, node = instruction.pod, instruction.node
        try:
            await bind(self._client, _ref(pod), node)
        except ApiError as error:
            self._failed(instruction, error.status, error.message)
            return
        except Unreachable as error:
            if not error.sent:
                self._failed(instruction, 0, str(error))
                return
            if not await self._happened(instruction, str(error)):
                return
        self._answer(Bound(pod.uid))
        await self._scheduled(instruction)

    async def _scheduled(self, bound: Bind | BoundByPlugin) -> None:
        """Say it in the log, and post the event in the task that bound the pod: one task a pod."""
        self.written.bound += 1
        pod, decision = bound.pod, bound.decision
        log.info(
            "bound",
            **about(pod),
            node=bound.node,
            attempt=bound.attempts,
            evaluated_nodes=decision.nodes,
            feasible_nodes=decision.fitting,
            seconds=round(time.monotonic() - bound.first_seen, 3),
        )
        note = f"Successfully assigned {pod.key} to {bound.node}"
        await self._post(pod, kind="Normal", reason="Scheduled", action="Binding", note=note)

    async def _happened(self, bind: Bind, why: str) -> bool:
        """The answer to a Binding was lost: ask the API until it says whether the pod is bound."""
        pod, node, pause = bind.pod, bind.node, _ASK_AGAIN
        attempt = bind.attempts
        log.warning("binding unanswered, asking for the pod", **about(pod), node=node, attempt=attempt, error=why)
        while True:
            try:
                live = _live_pod.decode(await self._client.get(pod_path(_ref(pod))))
            except ApiError as error:
                if error.status == 404:
                    self._failed(bind, 404, error.message)
                    return False
            except Unreachable:
                pass  # asked again below: the assumption holds until the API has spoken
            else:
                if live.metadata.uid == pod.uid and live.spec.node_name == node:
                    return True
                taken = live.metadata.uid != pod.uid or live.spec.node_name != ""
                self._failed(bind, 409 if taken else 0, why)
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _ASK_AGAIN_MOST)

    def _failed(self, bind: Bind, status: int, message: str) -> None:
        self.written.bind_errors += 1
        told = {**about(bind.pod), "node": bind.node, "attempt": bind.attempts}
        log.warning("binding failed", **told, status=status, error=message)
        self._answer(BindFailed(bind.pod.uid, status, message))

    async def _patch_condition(self, instruction: PatchCondition) -> None:
        pod = instruction.pod
        was = pod.condition
        since = was[3] if was is not None and was[0] == "False" and was[3] else _now()
        path, body = condition_patch(
            _ref(pod),
            status="False",
            reason=instruction.reason,
            message=instruction.message,
            transition=since,
            generation=pod.generation or None,
            nominated=instruction.nominated,
        )
        try:
            await patch_status(self._client, path, body)
            self.written.conditions += 1
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status in _NOBODY_LEFT:
                return
            log.warning("condition not written", **about(pod), error=str(error))
            self._answer(Unwritten(pod.uid))

    async def _preempt(self, instruction: Preempt, victim: Pod) -> None:
        preemptor = instruction.pod
        path, body = condition_patch(
            _ref(victim),
            kind="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
            transition=_now(),
            generation=victim.generation or None,
        )
        try:
            await patch_status(self._client, path, body)
            await delete_pod(self._client, _ref(victim))
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status in _NOBODY_LEFT:
                return
            log.warning(
                "victim not removed",
                victim=victim.key,
                preemptor=preemptor.key,
                profile=preemptor.scheduler_name,
                error=str(error),
            )
            self._answer(VictimStays(victim))
            return
        self._preempted(instruction, victim)

    def _preempted(self, instruction: Preempt, victim: Pod) -> None:
        preemptor = instruction.pod
        note = f"Preempted by pod {preemptor.uid} on node {instruction.node}"
        self._record(
            victim,
            controller=preemptor.scheduler_name,
            kind="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
        )

    async def _nominate(self, pod: Pod, node: str) -> None:
        path, body = nomination_patch(_ref(pod), node)
        try:
            await patch_status(self._client, path, body)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status in _NOBODY_LEFT:
                return  # gone, or bound before it could be said where it would be
            log.warning("nomination not written", **about(pod), node=node, error=str(error))

    async def _pre_bind_write(self, instruction: PreBindWrite) -> None:
        pod, written = instruction.pod, dict[ObjectKey, str]()
        for write in instruction.writes:
            try:
                written[write.key] = await write_object(self._client, write)
            except (ApiError, Unreachable, TypeError) as error:
                # Whether it happened after all, the watch will tell: the next attempt sees it and goes on from there.
                status, message = (error.status, error.message) if isinstance(error, ApiError) else (0, str(error))
                kind, _, name = write.key
                told = {**about(pod), "plugin": instruction.plugin, "kind": kind, "object": name}
                log.warning("not written before the binding", **told, status=status, error=message)
                self._answer(PreBindWriteFailed(pod.uid, status, message, written))
                return
        self._answer(PreBindWritten(pod.uid, written))

    async def _post_filter_write(self, instruction: PostFilterWrite) -> None:
        for write in instruction.writes:
            try:
                await write_object(self._client, write)
            except (ApiError, Unreachable, TypeError) as error:
                kind, _, name = write.key
                log.warning(
                    "not written after filtering", **about(instruction.pod), kind=kind, object=name, error=str(error)
                )
                return

    def _record(self, pod: Pod, *, controller: str = "", **what: str) -> None:
        self._under_way.start(self._post(pod, controller=controller, **what))

    async def _post(self, pod: Pod, *, controller: str = "", **what: str) -> None:
        if self._waiting_events >= _WAITING_EVENTS:
            self.written.events_dropped += 1
            return
        made = event(
            _ref(pod), controller=controller or pod.scheduler_name, instance=self._instance, moment=time.time(), **what
        )
        self._waiting_events += 1
        try:
            await record(self._client, made)
            self.written.events += 1
        except (ApiError, Unreachable) as error:
            self.written.events_dropped += 1
            log.info("event not written", **about(pod), error=str(error))
        finally:
            self._waiting_events -= 1


def about(pod: Pod) -> dict[str, str]:
    """How a line of the log names a pod."""
    return {"pod": pod.key, "profile": pod.scheduler_name}


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid, pod.resource_version)


def _now() -> str:
    return f"{micro_time()[:19]}Z"
