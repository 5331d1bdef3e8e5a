"""The end of a group's attempt: its pods go on to Permit, or give back what they hold and are told why they failed.

Mirrors kube-scheduler `schedule_one_podgroup.go` (submitPodGroupAlgorithmResult), some pods at a time.
"""

from scheduler.engine import story_writer
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.binding_table import Event, State
from scheduler.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Misbehaved,
    PostFilterWrite,
    SetGroupCondition,
)
from scheduler.engine.nominator import Nominator
from scheduler.engine.outbox import Outbox
from scheduler.engine.places import ATTEMPT_FAILED, Cause
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.evicting import Evictions
from scheduler.engine.pod_groups.plan import Plan
from scheduler.engine.pod_groups.planning import PlanAnswer
from scheduler.engine.pod_groups.preemption import failed_group
from scheduler.engine.pod_groups.reservations import Reservations
from scheduler.engine.pod_groups.results import GroupAttempt, Member, unsatisfied, verdict
from scheduler.engine.queue import Queue
from scheduler.framework.events import ANY
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

_LARGE = 256
"""What follows from the attempt of a group with more pods begins in the next turn."""
_AT_ONCE = 128
"""How many pods go on to Permit, give back what they hold, or are told that they failed, in one slice."""
_FAILED = Cause(ATTEMPT_FAILED)


class Endings:
    """Does what is left to do with a group that is decided, a slice at a time."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        binding: BindingCycles,
        outbox: Outbox,
        nominator: Nominator,
        evictions: Evictions,
        reservations: Reservations,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._outbox = outbox
        self._nominator = nominator
        self._evictions = evictions
        self._reservations = reservations

    def lost(self, attempt: GroupAttempt) -> bool:
        """Whether a pod of the group is not assumed any more, although it was."""
        if attempt.next < 0:
            return True
        left = self._binding.left_deciding
        if attempt.looked_at == left:
            return False
        if any(
            member.fits and self._binding.state(uid) is not State.GROUP_DECIDING
            for uid, member in attempt.members.items()
        ):
            return True
        attempt.looked_at = left
        return False

    def begin(self, attempt: GroupAttempt, now: float) -> bool:
        """The attempt is decided: do the first part of what is left. Returns what `go_on` returns."""
        if attempt.ended is Ended.WITH_NODES:
            attempt.next = 0
        else:
            attempt.missed = any(one.queued.left_at != self._queue.events.number for one in attempt.pods[:1])
            attempt.holding = [uid for uid, member in attempt.members.items() if member.fits]
        if len(attempt.members) > _LARGE:
            attempt.events = self._queue.events.number
            return False  # to go through all of them was enough for one turn
        return self.go_on(attempt, now)

    def go_on(self, attempt: GroupAttempt, now: float, answer: PlanAnswer | None = None) -> bool:
        """Do a part of what is left to do. True: the attempt is over, and pods without a node are back in the queue.

        `answer`: of extenders, if a plan waited for them.
        """
        if attempt.ended is Ended.WITH_NODES:
            over = self._send(attempt, now)
        else:
            self.give_back(attempt, now, quietly=not attempt.noticed)
            over = (
                not attempt.holding
                and self._evictions.over(attempt, now, answer)
                and self._reservations.over(attempt, now, answer)
                and self._tell(attempt, now)
            )
        attempt.events = self._queue.events.number
        return over

    def give_back(self, attempt: GroupAttempt, now: float, *, quietly: bool) -> None:
        """Some pods that were assumed give back what they hold, the last one first."""
        for _ in range(min(_AT_ONCE, len(attempt.holding))):
            self._binding.give_back(attempt.holding.pop(), now, quietly=quietly)

    def _tell(self, attempt: GroupAttempt, now: float) -> bool:
        """Say of the group, and of each of its pods, why they failed."""
        back = attempt.pods
        if not attempt.said:
            attempt.said = True
            if attempt.ended is Ended.REJECTED and back and attempt.plan is not None:
                self._post_filter(attempt, back[0].queued.pod, attempt.plan)
            if back:
                reason = UNSCHEDULABLE if attempt.ended is Ended.REJECTED else SCHEDULER_ERROR
                self._say(attempt, "False", reason, attempt.message)
        for member in back[attempt.told : attempt.told + _AT_ONCE]:
            attempt.told += 1
            self._failed(member, *verdict(attempt, member), now)
        return attempt.told == len(back) and self._close(attempt, back, now)

    def _post_filter(self, attempt: GroupAttempt, first: Pod, plan: Plan) -> None:
        """Have written what plugins want. The group stays unschedulable if one of them fails."""
        writes, misbehaved = plan.writes, plan.misbehaved
        if attempt.preemption is not None and attempt.preemption.turns > 1:
            framework = self._queue.frameworks[first.scheduler_name]
            results = list(framework.post_filter_group(failed_group(attempt, framework), self._cluster))
            misbehaved = [result for _, result in results if isinstance(result, PluginError)]
            writes = [one for _, result in results if not isinstance(result, PluginError) for one in result.writes]
        for error in misbehaved:
            self._outbox.add(Misbehaved(first, error))
        for pod, write in writes:
            self._outbox.add(PostFilterWrite(pod, (write,)))

    def _send(self, attempt: GroupAttempt, now: float) -> bool:
        """Enough pods have a node: they go on to Permit, some at a time. Then the others are told why they failed."""
        pods = attempt.pods
        if not attempt.said:
            if self.lost(attempt) or self._has_too_few(attempt):
                attempt.ended, attempt.next = None, -1  # begin again from the start with the next slice
                return False
            self._reservations.started(attempt.entry.key, now)
            attempt.said = True
            self._say(attempt, "True", "Scheduled", "")
        if attempt.next < len(pods):
            for member in pods[attempt.next : attempt.next + _AT_ONCE]:
                attempt.next += 1
                if member.fits:
                    member.queued.entry = None
                    member.fits = self._binding.happens(member.queued.pod.uid, Event.GROUP_ON, None, now)
            if attempt.next < len(pods):
                return False
        left = _AT_ONCE
        for member in pods[attempt.told :]:
            if not left:
                return False
            attempt.told += 1
            if not member.fits and member.reason:
                left -= 1
                self._failed(member, member.reason, member.message, member.nominated, now)
        return self._close(attempt, [member for member in pods if not member.fits], now)

    def _has_too_few(self, attempt: GroupAttempt) -> bool:
        """Whether pods have gone since the attempt was decided, or more are asked for, so that the others would wait in
        vain."""
        groups = self._cluster.pod_groups
        group = groups.get(attempt.group.key)
        return not attempt.members or group is None or bool(unsatisfied(group, groups.scheduled(group.key), 0))

    def _failed(self, member: Member, reason: str, message: str, nominated: str | None, now: float) -> None:
        queued = member.queued
        queued.plugins = member.plugins
        if reason == SCHEDULER_ERROR:
            queued.errors += 1
        else:
            queued.errors, queued.rejections = 0, queued.rejections + 1
        queued.returned_at = now
        if nominated == "":
            self._nominator.end(queued.pod, now, real=False)
        elif nominated:
            self._nominator.nominate(queued.pod, nominated, now)
        story_writer.failed(queued, reason, message, member.plugins, now)
        self._outbox.failed(queued, reason, message, member.plugins, member.decision, nominated)

    def _close(self, attempt: GroupAttempt, back: list[Member], now: float) -> bool:
        assert attempt.ended is not None
        queued = [member.queued for member in back if member.queued.pod.uid not in self._queue]
        if attempt.missed and queued:
            attempt.entry.early |= self._queue.events.since(queued[0].left_at, ANY)[1]
        self._queue.group_tried(attempt.entry, queued, attempt.ended, now, _FAILED, missed=attempt.missed)
        return True

    def _say(self, attempt: GroupAttempt, status: str, reason: str, message: str) -> None:
        if attempt.group.uid:
            pod = next(iter(attempt.members.values())).queued.pod
            self._outbox.add(SetGroupCondition(pod, attempt.group, status, reason, message))
