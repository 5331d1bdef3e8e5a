"""Carries the engine's instructions out: bindings, events, conditions. Answers of bindings go back as stimuli."""

from collections.abc import Callable, Iterable

import structlog

from podberth.app.bindings import Bindings, Everything, View
from podberth.app.events import Events, Written
from podberth.app.group_statuses import GroupStatuses
from podberth.app.naming import about, ref
from podberth.app.objects import InTurn, write_object
from podberth.app.statuses import Statuses
from podberth.app.under_way import UnderWay
from podberth.engine.instructions import (
    Bind,
    BoundByPlugin,
    Carries,
    ClearNomination,
    DeviceGivenTwice,
    Nominate,
    PatchCondition,
    PostFilterWrite,
    PreBindWrite,
    Preempt,
    RecordConflict,
    RecordEvent,
    RecordFailure,
    UnreserveWrite,
    Withdraw,
)
from podberth.engine.stimuli import (
    PostFilterWriteFailed,
    PreBindWriteFailed,
    PreBindWritten,
    Stimulus,
    TakenOut,
    TakingOut,
    VictimStays,
)
from podberth.framework.binding import ObjectKey, Patch, Write
from podberth.kube import live_pod
from podberth.kube.answers import read_answer
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import CONFIRM, EVICT
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.writes import (
    CHANGED,
    PodRef,
    condition_patch,
    delete_pod,
    event,
    meta_time,
    patch_status,
    pod_path,
)
from podberth.model.pod import Pod

log = structlog.get_logger("writer")


class Writer:
    """Writes concurrently; how many at once is the client's business (lanes)."""

    def __init__(
        self,
        client: Client,
        answer: Callable[[Stimulus], None],
        instance: str,
        *,
        machine: Machine = MACHINE,
        view: Callable[[], View] = Everything,
    ) -> None:
        self.written = Written()
        self._client = client
        self._answer = answer
        self._instance = instance
        self._machine = machine
        self._under_way = UnderWay(machine.monotonic)
        self._in_turn = InTurn(client, machine.wall)
        self._after_filtering: dict[str, list[tuple[Write, ...]]] = {}
        """UID of a pod → what is being written after its attempts failed."""
        self._events = Events(client, self.written, clock=machine.monotonic)
        clock = machine.monotonic
        self.bindings = Bindings(client, answer, self._under_way, self._scheduled, clock=clock, view=view)
        self.statuses = Statuses(client, answer, self._under_way, self.bindings, wall=machine.wall, clock=clock)
        self.group_statuses = GroupStatuses(client, self._under_way, wall=machine.wall, clock=machine.monotonic)
        self.carries: Carries = {
            **self.group_statuses.carries,
            Bind: self.bind,
            Withdraw: self.bindings.withdraw,
            BoundByPlugin: self._scheduled,
            PreBindWrite: self.pre_bind_write,
            PostFilterWrite: self.post_filter_write,
            UnreserveWrite: self.unreserve_write,
            RecordEvent: self.record_event,
            DeviceGivenTwice: self.device_given_twice,
            Nominate: self.nominate,
            ClearNomination: self.clear_nomination,
            RecordFailure: self.record_failure,
            RecordConflict: self.record_conflict,
            PatchCondition: self.patch_condition,
            Preempt: self.preempt,
        }

    def bind(self, instruction: Bind) -> None:
        """Post a Binding; `answer` gets Bound or BindFailed. The Scheduled event follows a success."""
        self.statuses.drop(instruction.pod)
        self.bindings.post(instruction)

    def pre_bind_write(self, instruction: PreBindWrite) -> None:
        """Write for a PreBind plugin; `answer` gets PreBindWritten or PreBindWriteFailed."""
        about_it = {**about(instruction.pod), "node": instruction.node, "plugin": instruction.plugin}
        log.debug("writing before the binding", **about_it)
        self._under_way.start(self._pre_bind_write(instruction))

    def post_filter_write(self, instruction: PostFilterWrite) -> None:
        """Write for a PostFilter plugin; `answer` gets PostFilterWriteFailed if that fails.

        What the attempt before wanted as well may still be under way, and be sent again and again: that is enough.
        """
        under_way = self._after_filtering.setdefault(instruction.pod.uid, [])
        if instruction.writes not in under_way:
            under_way.append(instruction.writes)
            self._under_way.start(self._write_after_filtering(instruction))

    def unreserve_write(self, instruction: UnreserveWrite) -> None:
        """Write for plugins whose reservation has ended."""
        self._answer(TakingOut(instruction.pod.uid))
        self._under_way.start(self._take_out(instruction))

    def overtake(self, writes: Iterable[Write]) -> None:
        """Write these, each for itself: whoever was faster has overtaken what they were to overtake."""
        for write in writes:
            self._under_way.start(self._overtake(write))

    def record_event(self, instruction: RecordEvent) -> None:
        """Post an event about a pod."""
        kind, reason, note = instruction.kind, instruction.reason, instruction.note
        self._record(instruction.pod, kind=kind, reason=reason, action="Scheduling", note=note)

    def device_given_twice(self, instruction: DeviceGivenTwice) -> None:
        """Count and log it, and post a Warning: it can't be undone without ending one of the pods."""
        self.written.devices_given_twice += 1
        log.error("a device was given twice", **about(instruction.pod), message=instruction.note)
        self._warn(instruction.pod, "DeviceGivenTwice", instruction.note)

    def nominate(self, instruction: Nominate) -> None:
        """Set nominatedNodeName."""
        self.statuses.want(instruction.pod, None, instruction.node)

    def record_failure(self, instruction: RecordFailure) -> None:
        """Post a FailedScheduling event."""
        self._warn(instruction.pod, "FailedScheduling", instruction.message)

    def record_conflict(self, instruction: RecordConflict) -> None:
        """Count and log what another scheduler broke, and post a PlacementConflict event."""
        self.written.conflicts[instruction.constraint] += 1
        told = {**about(instruction.pod), "node": instruction.node, "constraint": instruction.constraint}
        log.warning("placement conflict", **told, message=instruction.message)
        self._warn(instruction.pod, "PlacementConflict", instruction.message)

    def patch_condition(self, instruction: PatchCondition) -> None:
        """Set PodScheduled=False."""
        condition = (instruction.reason, instruction.message)
        self.statuses.want(instruction.pod, condition, instruction.nominated)

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
        self.statuses.want(instruction.pod, None, "")

    async def drain(self, seconds: float) -> int:
        """Wait for what is under way, and for what follows from it (the event of a Binding).

        Returns how many writes did not end in time and were cancelled, events that had to wait included.
        """
        until = self._machine.monotonic() + seconds
        late = await self._under_way.drain(seconds)
        return late + await self._events.drain(until - self._machine.monotonic())

    def _scheduled(self, bound: Bind | BoundByPlugin) -> None:
        """Say it in the log, and have the event written."""
        self.written.bound += 1
        pod, decision = bound.pod, bound.decision
        log.info(
            "bound",
            **about(pod),
            node=bound.node,
            attempt=bound.attempts,
            evaluated_nodes=decision.nodes,
            feasible_nodes=decision.fitting,
            seconds=round(self._machine.monotonic() - bound.first_seen, 3),
        )
        note = f"Successfully assigned {pod.key} to {bound.node}"
        self._record(pod, kind="Normal", reason="Scheduled", action="Binding", note=note)

    async def _preempt(self, instruction: Preempt, victim: Pod) -> None:
        preemptor = instruction.pod
        told = {"victim": victim.key, "preemptor": preemptor.key, "profile": preemptor.scheduler_name}
        try:
            kind = "pod" if instruction.group is None else "podgroup"
            deleted = await self._remove(preemptor, kind, victim, told)
        except Exception as error:
            expected = isinstance(error, (ApiError, Unreachable))
            log.warning("victim not removed", **told, error=str(error), exc_info=not expected)
            self._answer(VictimStays(victim))
            return
        if deleted:
            self._preempted(instruction, victim)

    async def _remove(self, preemptor: Pod, kind: str, victim: Pod, told: dict[str, str]) -> bool:
        """Return whether we have deleted this very pod; False: it is gone, or going, without us.

        `kind`: of who needs the room, a pod or its group. Raises ApiError, Unreachable.
        """
        path, body = condition_patch(
            ref(victim),
            kind="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {kind}",
            transition=meta_time(self._machine.wall()),
            generation=victim.generation or None,
        )
        try:
            await patch_status(self._client, path, body, EVICT)
        except ApiError as error:
            if error.status == 404:
                return False
            if error.status not in CHANGED:
                raise
            # Neither answer says whether the victim is there; 422 may also say that the pod is invalid by now.
            # The condition says why the pod goes; that it goes is what counts, and its UID says which pod is meant.
            log.warning("victim's condition not written, the victim is deleted without it", **told, error=str(error))
        try:
            await delete_pod(self._client, ref(victim))
        except ApiError as error:
            if error.status == 404 or (error.status == 409 and await self._is_leaving(victim)):
                return False
            raise
        return True

    async def _is_leaving(self, pod: Pod) -> bool:
        """Return whether this very pod is gone, or being deleted. Raises ApiError, Unreachable."""
        try:
            answer = await self._client.get(pod_path(ref(pod)), lane=CONFIRM, tries=2)
            live = read_answer(answer, live_pod.decode).metadata
        except ApiError as error:
            if error.status == 404:
                return True
            raise
        return live.uid != pod.uid or live.deletion_timestamp is not None

    def _preempted(self, instruction: Preempt, victim: Pod) -> None:
        preemptor = instruction.pod
        group = instruction.group
        by = f"pod {preemptor.uid}" if group is None else f"podgroup {group.uid}"
        note = f"Preempted by {by} on node {instruction.node}"
        by_profile = preemptor.scheduler_name
        self._record(victim, controller=by_profile, kind="Normal", reason="Preempted", action="Preempting", note=note)

    async def _pre_bind_write(self, instruction: PreBindWrite) -> None:
        pod, written = instruction.pod, dict[ObjectKey, str]()
        for write in instruction.writes:
            try:
                written[write.key] = await write_object(self._client, write, self._machine.wall, instruction.since)
            except Exception as error:
                # Whether it happened after all, the watch will tell: the next attempt sees it and goes on from there.
                status, message = (error.status, error.message) if isinstance(error, ApiError) else (0, str(error))
                if isinstance(write, Patch) and write.purpose:
                    message = f"{write.purpose}: {message}"
                kind, _, name = write.key
                told = {**about(pod), "plugin": instruction.plugin, "kind": kind, "object": name}
                expected = isinstance(error, (ApiError, Unreachable, TypeError))
                log.warning(
                    "not written before the binding", **told, status=status, error=message, exc_info=not expected
                )
                self._answer(PreBindWriteFailed(pod.uid, status, message, written))
                return
        self._answer(PreBindWritten(pod.uid, written))

    async def _write_after_filtering(self, instruction: PostFilterWrite) -> None:
        uid = instruction.pod.uid
        try:
            left = await self._write_on(instruction, "not written after filtering", {})
        finally:
            self._after_filtering[uid].remove(instruction.writes)
            if not self._after_filtering[uid]:
                del self._after_filtering[uid]
        if left:
            self._answer(PostFilterWriteFailed(uid, left))

    async def _take_out(self, instruction: UnreserveWrite) -> None:
        written: dict[ObjectKey, str] = {}
        try:
            await self._write_on(instruction, "not written after a reservation has ended", written)
        finally:
            self._answer(TakenOut(instruction.pod.uid, written))

    async def _overtake(self, write: Write) -> None:
        try:
            await write_object(self._client, write, self._machine.wall)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status in (404, 409):
                return
            kind, namespace, name = write.key
            log.warning("not overtaken", kind=kind, namespace=namespace, name=name, error=str(error))

    async def _write_on(
        self, instruction: PostFilterWrite | UnreserveWrite, failure: str, written: dict[ObjectKey, str]
    ) -> tuple[Write, ...]:
        """Write one after the other, up to the first that fails; returns those that are left then."""
        for i, write in enumerate(instruction.writes):
            try:
                written[write.key] = await self._in_turn.write(write)
            except (ApiError, Unreachable, TypeError) as error:
                if isinstance(error, ApiError) and error.status == 404:
                    continue  # gone, and with it what was to be changed
                kind, _, name = write.key
                log.warning(failure, **about(instruction.pod), kind=kind, object=name, error=str(error))
                return instruction.writes[i:]
        return ()

    def _warn(self, pod: Pod, reason: str, note: str) -> None:
        self._record(pod, kind="Warning", reason=reason, action="Scheduling", note=note)

    def _record(self, pod: Pod, *, controller: str = "", **what: str) -> None:
        self._events.write(
            event(
                PodRef(pod.namespace, pod.name, pod.uid, pod.resource_version),
                controller=controller or pod.scheduler_name,
                instance=self._instance,
                moment=self._machine.wall(),
                **what,
            )
        )
