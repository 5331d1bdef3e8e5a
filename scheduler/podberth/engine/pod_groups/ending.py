"""The end of a group's attempt: its pods go on to Permit, or give back what they hold and are told why they failed.

Mirrors kube-scheduler `schedule_one_podgroup.go` (submitPodGroupAlgorithmResult); others may be tried after some pods.
"""

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import Event, State
from podberth.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Misbehaved,
    Outbox,
    PostFilterWrite,
    SetGroupCondition,
)
from podberth.engine.observers import Observers
from podberth.engine.pod_groups.attempt import GroupAttempt, Member, Plan, Turns, verdict
from podberth.engine.pod_groups.preemption import Evictions, failed_group
from podberth.engine.pod_groups.reservations import Reservations
from podberth.engine.preemption import Nominator
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.places import ATTEMPT_FAILED, Cause
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.status import PluginError
from podberth.model.pod import Pod

_AT_ONCE = 128
"""The number of pods that go on to Permit, give back what they hold, or are told that they failed, in one turn."""
_FAILED = Cause(ATTEMPT_FAILED)


class Endings:
    """Carries out the outcome of a group that is decided."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        binding: BindingCycles,
        outbox: Outbox,
        observers: Observers,
        nominator: Nominator,
        evictions: Evictions,
        reservations: Reservations,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._outbox = outbox
        self._observers = observers
        self._nominator = nominator
        self._evictions = evictions
        self._reservations = reservations

    def lost(self, attempt: GroupAttempt) -> bool:
        """Return whether a pod of the group is not assumed any more, although it was."""
        if attempt.lost:
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

    def end(self, attempt: GroupAttempt) -> Turns[None]:
        """Carry out the outcome. Afterwards, pods without a node are back in the queue."""
        if attempt.ended is Ended.WITH_NODES:
            yield from self._send(attempt)
            return
        yield from self.give_back(attempt)
        yield from self._evictions.make_room(attempt)
        yield from self._reservations.keep_room(attempt)
        yield from self._tell(attempt)

    def give_back(self, attempt: GroupAttempt, *, untold: bool = False) -> Turns[None]:
        """Make all assumed pods give back what they hold, the last one first.

        `untold` is that of `BindingCycles.give_back`.
        """
        holding = [uid for uid in attempt.members if self._binding.state(uid) is State.GROUP_DECIDING]
        for i, uid in enumerate(reversed(holding)):
            if i and i % _AT_ONCE == 0:
                yield
            self._binding.give_back(uid, attempt.now, quietly=not attempt.noticed, untold=untold)

    def _tell(self, attempt: GroupAttempt) -> Turns[None]:
        """Write the failure to the group's condition and to each of its pods."""
        if not attempt.said:
            attempt.said = True
            back = attempt.pods
            if attempt.ended is Ended.REJECTED and back and attempt.plan is not None:
                self._post_filter(attempt, back[0].queued.pod, attempt.plan)
            if back:
                reason = UNSCHEDULABLE if attempt.ended is Ended.REJECTED else SCHEDULER_ERROR
                self._say(attempt, "False", reason, attempt.message)
        while attempt.told < len(attempt.pods):
            member = attempt.pods[attempt.told]
            attempt.told += 1
            self._failed(member, *verdict(attempt, member), attempt.now)
            if attempt.told % _AT_ONCE == 0:
                yield
        self._close(attempt, attempt.pods)

    def _post_filter(self, attempt: GroupAttempt, first: Pod, plan: Plan) -> None:
        """Have the writes made that plugins ask for. The group stays unschedulable if one of them fails."""
        writes, misbehaved = plan.writes, plan.misbehaved
        if plan.stale:
            framework = self._queue.frameworks[first.scheduler_name]
            results = list(framework.post_filter_group(failed_group(attempt, framework), self._cluster))
            misbehaved = [result for _, result in results if isinstance(result, PluginError)]
            writes = [one for _, result in results if not isinstance(result, PluginError) for one in result.writes]
        for error in misbehaved:
            self._outbox.add(Misbehaved(first, error))
        for pod, write in writes:
            self._outbox.add(PostFilterWrite(pod, (write,)))

    def _send(self, attempt: GroupAttempt) -> Turns[None]:
        """Send the pods that have a node on to Permit, then tell the others why they failed."""
        if not attempt.said:
            self._reservations.started(attempt.entry.key, attempt.now)
            attempt.said = True
            self._say(attempt, "True", "Scheduled", "")
        while attempt.next < len(attempt.pods):
            member = attempt.pods[attempt.next]
            attempt.next += 1
            uid = member.queued.pod.uid
            member.fits &= self._binding.state(uid) is State.GROUP_DECIDING
            if member.fits:
                member.queued.group = None
                self._binding.happens(uid, Event.GROUP_ON, None, attempt.now)
            if attempt.next % _AT_ONCE == 0:
                yield
        while attempt.told < len(attempt.pods):
            member = attempt.pods[attempt.told]
            attempt.told += 1
            if not member.fits and member.reason:
                self._failed(member, member.reason, member.message, member.nominated, attempt.now)
                if attempt.told % _AT_ONCE == 0:
                    yield
        self._close(attempt, [member for member in attempt.pods if not member.fits])

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
        for hear in self._observers.failed:
            hear(queued, reason, message, member.plugins, now)
        self._outbox.failed(queued, reason, message, member.plugins, member.decision, nominated)

    def _close(self, attempt: GroupAttempt, back: list[Member]) -> None:
        assert attempt.ended is not None
        queued = [member.queued for member in back if member.queued.pod.uid not in self._queue]
        if queued:
            self._queue.note_what_helps(attempt.entry, queued, missed=attempt.missed)
        self._queue.groups.tried(attempt.entry, queued, attempt.ended, attempt.now, _FAILED, missed=attempt.missed)

    def _say(self, attempt: GroupAttempt, status: str, reason: str, message: str) -> None:
        if attempt.group.uid:
            pod = next(iter(attempt.members.values())).queued.pod
            self._outbox.add(SetGroupCondition(pod, attempt.group, status, reason, message))
