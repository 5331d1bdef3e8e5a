"""Carries the engine's instructions out: bindings, events, conditions. Answers of bindings go back as stimuli."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

from podberth.app.group_statuses import GroupStatuses
from podberth.app.objects import PluginWrites
from podberth.app.reporting import Events, Statuses, UnderWay, about, ref
from podberth.app.watch import Freshness
from podberth.engine.instructions import (
    Bind,
    BoundByPlugin,
    Carries,
    DeviceGivenTwice,
    Preempt,
    RecordConflict,
    RecordEvent,
    RecordFailure,
    Withdraw,
)
from podberth.engine.stimuli import BindFailed, BindWithdrawn, Bound, Stimulus, VictimStays
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import CONFIRM, EVICT
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.writes import (
    CHANGED,
    PodRef,
    bind,
    condition_patch,
    delete_pod,
    event,
    live_pod,
    meta_time,
    patch_status,
    pod_path,
)
from podberth.model.pod import Pod

log = structlog.get_logger("writer")

ASK_AGAIN = 1.0
"""Seconds between questions about a Binding whose fate is unknown, doubling to `ASK_AGAIN_MOST`."""
ASK_AGAIN_MOST = 30.0
ASK_SECONDS = 5.0
"""The timeout of one question."""
SEND_AGAIN = 10.0
"""Seconds after which a Binding is sent again that was not answered at all. One that was answered, in a way that leaves
open what happened, is sent again after the next question."""
MOST_SENT = 8
"""One Binding is sent at most so often."""
SETTLED = 75.0
"""Seconds after which a Binding that was sent can't be stored any more: API servers give up requests after 60 s."""

TAKEN, GONE, REFUSED, WITHDRAWN, NOT_SENT, LOST = "taken", "gone", "refused", "withdrawn", "not_sent", "lost"
FAILURES = (TAKEN, GONE, REFUSED, WITHDRAWN, NOT_SENT, LOST)
"""The reasons for which Bindings fail, in the words of the metric."""


class Writer:
    """Writes concurrently; how many at once is the client's business (lanes)."""

    def __init__(
        self,
        client: Client,
        answer: Callable[[Stimulus], None],
        instance: str,
        *,
        machine: Machine = MACHINE,
        freshness: Freshness | None = None,
    ) -> None:
        """`freshness`: says whether the view of the cluster may be decided on; without it, it always may."""
        self.bound = 0
        self.conflicts: Counter[str] = Counter()
        """Pods whose requirements another scheduler broke, by kind of requirement."""
        self.devices_given_twice = 0
        """Pods that are bound with a device that another claim has."""
        self._client = client
        self._answer = answer
        self._instance = instance
        self._machine = machine
        self._under_way = UnderWay(machine.monotonic)
        clock, wall = machine.monotonic, machine.wall
        self.events = Events(client, clock=clock)
        self.bindings = Bindings(
            client, answer, self._under_way, self._scheduled, freshness or Freshness(lambda: None), clock=clock
        )
        self.statuses = Statuses(client, answer, self._under_way, self.bindings, wall=wall, clock=clock)
        self.group_statuses = GroupStatuses(client, self._under_way, wall=wall, clock=clock)
        self.plugin_writes = PluginWrites(client, answer, self._under_way, machine)
        self.carries: Carries = {
            **self.statuses.carries,
            **self.group_statuses.carries,
            **self.plugin_writes.carries,
            Bind: self.bind,
            Withdraw: self.bindings.withdraw,
            BoundByPlugin: self._scheduled,
            RecordEvent: self.record_event,
            RecordFailure: self.record_failure,
            RecordConflict: self.record_conflict,
            DeviceGivenTwice: self.device_given_twice,
            Preempt: self.preempt,
        }

    def bind(self, instruction: Bind) -> None:
        """Post a Binding; `answer` gets Bound or BindFailed. The Scheduled event follows a success."""
        self.statuses.drop(instruction.pod)
        self.bindings.post(instruction)

    def record_event(self, instruction: RecordEvent) -> None:
        """Post an event about a pod."""
        kind, reason, note = instruction.kind, instruction.reason, instruction.note
        self._record(instruction.pod, kind=kind, reason=reason, action="Scheduling", note=note)

    def device_given_twice(self, instruction: DeviceGivenTwice) -> None:
        """Count and log it, and post a Warning: it can't be undone without ending one of the pods."""
        self.devices_given_twice += 1
        log.error("a device was given twice", **about(instruction.pod), message=instruction.note)
        self._warn(instruction.pod, "DeviceGivenTwice", instruction.note)

    def placed_too_large(self, pod: Pod, profile: str) -> None:
        """Post a Warning about a pod that has its node and is beyond a limit."""
        note = f"{pod.too_large}; what it requests counts in full, and of its terms those that are within the limits"
        self._record(pod, controller=profile, kind="Warning", reason="TooLarge", action="Scheduling", note=note)

    def record_failure(self, instruction: RecordFailure) -> None:
        """Post a FailedScheduling event."""
        self._warn(instruction.pod, "FailedScheduling", instruction.message)

    def record_conflict(self, instruction: RecordConflict) -> None:
        """Count and log what another scheduler broke, and post a PlacementConflict event."""
        self.conflicts[instruction.constraint] += 1
        told = {**about(instruction.pod), "node": instruction.node, "constraint": instruction.constraint}
        log.warning("placement conflict", **told, message=instruction.message)
        self._warn(instruction.pod, "PlacementConflict", instruction.message)

    def preempt(self, instruction: Preempt) -> None:
        """Remove each victim: DisruptionTarget condition, deletion by UID, Preempted event."""
        victims = [victim.key for victim in instruction.victims]
        log.info("preempting", **about(instruction.pod), node=instruction.node, victims=victims)
        for victim in instruction.victims:
            self._under_way.start(self._preempt(instruction, victim))
        for pod in instruction.reverted:
            self._preempted(instruction, pod)

    async def drain(self, seconds: float) -> int:
        """Wait for what is under way, and for what follows from it (the event of a Binding).

        Returns how many writes did not end in time and were cancelled, events that had to wait included.
        """
        until = self._machine.monotonic() + seconds
        late = await self._under_way.drain(seconds)
        return late + await self.events.drain(until - self._machine.monotonic())

    def _scheduled(self, bound: Bind | BoundByPlugin) -> None:
        """Log that a pod is bound, and have the event written."""
        self.bound += 1
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
            live = live_pod(answer).metadata
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

    def _warn(self, pod: Pod, reason: str, note: str) -> None:
        self._record(pod, kind="Warning", reason=reason, action="Scheduling", note=note)

    def _record(self, pod: Pod, *, controller: str = "", **what: str) -> None:
        self.events.write(
            event(
                PodRef(pod.namespace, pod.name, pod.uid, pod.resource_version),
                controller=controller or pod.scheduler_name,
                instance=self._instance,
                moment=self._machine.wall(),
                **what,
            )
        )


class _Failure(Struct, frozen=True):
    """The pod counts as not bound by us, which is certain, but after a fault of ours.

    `quietly`: the pod goes, which is nobody's failure.
    """

    why: str
    status: int
    message: str
    quietly: bool = False


_OF_BACKUP = "the API server's data is that of a backup"
_BY_ANOTHER = _Failure(TAKEN, 409, "another process has bound the pod to the same node", quietly=True)


class _Unknown(Struct, frozen=True):
    """It may be bound, or may still be.

    `silent`: there was no answer at all; to a question, none that says where the pod is.
    """

    message: str
    silent: bool


class _Recalled(Exception):  # noqa: N818 - no error: nobody is to send it any more
    """Raised by `_leaves`: the Binding was withdrawn before it was sent."""


class _Posting(Struct):
    """A Binding under way."""

    bind: Bind
    restores: int
    """etcd had been restored so many times when it was decided (`Freshness.restores`)."""
    sent: int = 0
    sent_at: float = 0.0
    objection: str = ""
    """The reason for which it must not be sent (again); empty: there is none."""
    doubtful: bool = False
    """One that was sent may be stored."""
    task: asyncio.Task[None] | None = None


class Bindings:
    """Posts Bindings, and does not let go of one before it is known what became of it.

    A Binding that was sent may be stored whatever came back: nothing, a 500, a proxy's page. "Unknown" is not "no", so
    the pod keeps its room, and is asked for until the API server says where it is. A single read that shows the pod
    unbound proves nothing: the Binding may still be on its way. Then it is sent again. That is safe, for it names the
    same pod (by UID) and the same node: one of the two is stored, the other gets a 409. Where that does not help, the
    Binding is given up once it is too old to be stored. It is not sent again either when the API server's data has
    become that of a backup: what was written for the pod before, as the allocations of its claims, is lost.

    `bound` is called for each that has succeeded, after `answer`.
    """

    def __init__(
        self,
        client: Client,
        answer: Callable[[Stimulus], None],
        under_way: UnderWay,
        bound: Callable[[Bind], None],
        freshness: Freshness,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self.failures: Counter[str] = Counter()
        """Reason → the number of Bindings that failed for it."""
        self.unanswered = 0
        """Bindings that were sent without an answer that says what became of them."""
        self._client = client
        self._answer = answer
        self._under_way = under_way
        self._bound = bound
        self._clock = clock
        self._sleep = sleep
        self._freshness = freshness
        self._postings: dict[str, _Posting] = {}

    def __len__(self) -> int:
        """Return the number of Bindings whose outcome is not known yet."""
        return len(self._postings)

    def post(self, instruction: Bind) -> None:
        """Post it; `answer` gets Bound or BindFailed."""
        log.debug("binding", **_about(instruction), attempt=instruction.attempts)
        posting = _Posting(instruction, self._freshness.restores)
        before = self._postings.get(instruction.pod.uid)
        if before is not None and before.task is not None:
            # The pod seemed to be gone, as after a restore, and was decided anew. Only one of the two answers.
            before.task.cancel()
            posting.sent = before.sent if before.bind.node == instruction.node else 0
        self._postings[instruction.pod.uid] = posting
        posting.task = self._under_way.start(self._post(posting))

    def withdraw(self, instruction: Withdraw) -> None:
        """Its node takes the pod no longer. If the Binding was not sent yet, it is not, and `answer` is told."""
        posting = self._postings.get(instruction.pod.uid)
        if posting is None:
            return
        posting.objection = instruction.message
        if posting.sent or posting.task is None:
            return  # what was sent can't be taken back, unless the server says that nothing was done (`_leaves`)
        del self._postings[instruction.pod.uid]
        posting.task.cancel()
        self._withdrawn(posting)

    def _withdrawn(self, posting: _Posting) -> None:
        self.failures[WITHDRAWN] += 1
        log.info("binding withdrawn before anything was done", **_about(posting.bind), why=posting.objection)
        self._answer(BindWithdrawn(posting.bind.pod.uid, posting.objection))

    async def _post(self, posting: _Posting) -> None:
        uid = posting.bind.pod.uid
        try:
            outcome = await self._send(posting)
            failure = await self._settle(posting, outcome) if isinstance(outcome, _Unknown) else outcome
        except _Recalled:
            self._withdrawn(posting)
            return
        except Exception:
            # A fault of ours, or of what answers in the API server's place: the pod is tried again all the same.
            log.exception("a Binding failed in an unexpected way", **_about(posting.bind))
            failure = _Failure(LOST, 0, "the Binding failed in an unexpected way, which the log of Berth shows")
        finally:
            if self._postings.get(uid) is posting:
                del self._postings[uid]
        if failure is None:
            self._answer(Bound(uid))
            self._bound(posting.bind)
        elif failure is _BY_ANOTHER:
            # A former leader, as both choose alike. The room stays taken; the event and the count are the other's.
            self.failures[failure.why] += 1
            log.info("bound by another process", **_about(posting.bind), attempt=posting.bind.attempts)
            self._answer(Bound(uid))
        else:
            self._failed(posting.bind, failure)

    def _failed(self, bind: Bind, failure: _Failure) -> None:
        self.failures[failure.why] += 1
        say = log.info if failure.quietly else log.warning
        told = {**_about(bind), "attempt": bind.attempts}
        say("binding failed", **told, status=failure.status, why=failure.why, error=failure.message)
        self._answer(BindFailed(bind.pod.uid, failure.status, failure.message, failure.quietly))

    async def _settle(self, posting: _Posting, outcome: _Unknown) -> _Failure | None:
        """Ask, and send it again, until it is known what became of it; return None when the pod is bound."""
        posting.doubtful = True
        self.unanswered += 1
        told = {**_about(posting.bind), "attempt": posting.bind.attempts}
        log.warning("binding unanswered, asking for the pod", **told, error=outcome.message)
        pause, refused = ASK_AGAIN, None
        while True:
            found = await self._ask(posting.bind)
            if not isinstance(found, _Unknown):
                return found
            age = self._clock() - posting.sent_at
            may_be_sent = refused is None and not self._objection(posting) and posting.sent < MOST_SENT
            # Between two streams nobody knows whether the API server's data is that of a backup.
            if may_be_sent and self._freshness.may_decide:
                if age >= (SEND_AGAIN if outcome.silent else ASK_AGAIN):
                    again = await self._send(posting)
                    if isinstance(again, _Unknown):
                        outcome = again
                    elif again is None or again.why in (TAKEN, GONE):
                        return again
                    elif again.why == REFUSED:
                        refused = again  # this one; the one before may still be on its way
            elif age >= SETTLED:  # not to be sent (again), and what was sent can't be stored any more
                return refused or _Failure(LOST, 0, posting.objection or outcome.message)
            await self._sleep(pause)
            pause = min(2 * pause, ASK_AGAIN_MOST)

    async def _send(self, posting: _Posting) -> _Failure | _Unknown | None:
        """Send it once; return None when the API server said yes."""
        try:
            decided = posting.bind
            leaves = partial(self._leaves, posting)
            await bind(self._client, ref(decided.pod), decided.node, on_send=leaves, since=decided.since)
        except ApiError as error:
            if error.status == 409:
                # Bound by another scheduler, replaced, not ready; or bound by us, and the answer to that was lost.
                found = await self._ask(posting.bind)
                if found is None and posting.sent == 1:
                    return _BY_ANOTHER
                return _Failure(REFUSED, 409, error.message, True) if isinstance(found, _Unknown) else found
            if error.status >= 500 and not error.by_webhook:
                return _Unknown(str(error), silent=False)
            if error.status == 404 or error.has_cause("NamespaceTerminating"):
                return _Failure(GONE, error.status, error.message, quietly=True)
            return _Failure(REFUSED, error.status, error.message)
        except Unreachable as error:
            return _Unknown(str(error), silent=error.timed_out) if error.sent else _Failure(NOT_SENT, 0, str(error))
        return None

    def _leaves(self, posting: _Posting) -> None:
        """Note that a Binding leaves at this moment.

        Raises _Recalled: what the client sends again by itself was answered in a way that says that nothing was done.
        """
        if self._objection(posting) and not posting.doubtful:
            raise _Recalled
        posting.sent += 1
        posting.sent_at = self._clock()

    def _objection(self, posting: _Posting) -> str:
        """Return why a Binding must not be sent (again), by what is known now; empty if it may."""
        if not posting.objection and (self._freshness.relisting or self._freshness.restores != posting.restores):
            posting.objection = _OF_BACKUP
        return posting.objection

    async def _ask(self, bind: Bind) -> _Failure | _Unknown | None:
        """Ask the API server where the pod is, until it says so.

        Returns None for our node, _Failure for another or where the pod is gone, _Unknown for a pod that is not bound.
        """
        pause = ASK_AGAIN
        while isinstance(found := await self._ask_once(bind), _Unknown) and found.silent:
            await self._sleep(pause)
            pause = min(2 * pause, ASK_AGAIN_MOST)
        return found

    async def _ask_once(self, bind: Bind) -> _Failure | _Unknown | None:
        """Return what `_ask` does, or _Unknown that is silent: there was no answer, or none that says where it is."""
        pod = bind.pod
        try:
            body = await self._client.get(pod_path(ref(pod)), lane=CONFIRM, tries=2, timeout=ASK_SECONDS)
            live = live_pod(body)
        except ApiError as error:
            if error.status == 404:
                return _Failure(GONE, 404, error.message, quietly=True)
            return _Unknown(str(error), silent=True)
        except Unreachable as error:
            return _Unknown(str(error), silent=True)  # asked again: the assumption holds until the API has spoken
        if live.metadata.uid != pod.uid:
            return _Failure(GONE, 409, "another pod has its name", quietly=True)
        if live.spec.node_name:
            elsewhere = f"the pod was bound to {live.spec.node_name} by somebody else"
            return None if live.spec.node_name == bind.node else _Failure(TAKEN, 409, elsewhere, quietly=True)
        if live.metadata.deletion_timestamp is not None:
            return _Failure(GONE, 409, "the pod is being deleted", quietly=True)
        return _Unknown("the pod is not bound", silent=False)


def _about(bind: Bind | Withdraw) -> dict[str, str]:
    return {**about(bind.pod), "node": bind.node}
