"""Preemption for a group whose attempt has failed: a plan is made, then its victims are told to go."""

from collections.abc import Callable

from podberth.cache.cluster import Cluster
from podberth.cache.search_steps import SearchCapError
from podberth.engine.instructions import Outbox, VictimsChosen
from podberth.engine.pod_groups.plan import Plan
from podberth.engine.pod_groups.preemption import NODE, GroupPreemption
from podberth.engine.pod_groups.results import GroupAttempt
from podberth.engine.pod_groups.turns import Turns
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import SchedulingCycle
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.plugins.default_preemption.victims import Budgets

_AT_ONCE = 32
"""How many victims are told to go in one turn."""
Evict = Callable[[Pod, str, tuple[Pod, ...], float, PodGroup], None]
"""Has victims removed for a pod of a group."""


class Evictions:
    """Makes the plan of one attempt, and carries it out."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduling: SchedulingCycle,
        outbox: Outbox,
        pick: Callable[[str, int], int],
        evict: Evict,
    ) -> None:
        """`pick`: which of several equally good nodes or placements is taken."""
        self._cluster = cluster
        self._queue = queue
        self._scheduling = scheduling
        self._outbox = outbox
        self._pick = pick
        self._evict = evict
        self._budgets = Budgets()

    def make_room(self, attempt: GroupAttempt) -> Turns[None]:
        """Have pods of lower priority removed, if that helps the group.

        Then the attempt has its plan, if preemption was asked at all.
        """
        while attempt.plan is None:
            if attempt.ended is not Ended.REJECTED or attempt.short or not attempt.members:
                return
            try:
                plan = yield from self._preemption(attempt).make(self._queue, self._outbox)
            except SearchCapError as error:
                plan = Plan(error=str(error))
            if plan is not None and plan.error:
                attempt.break_off(plan.error)
            elif plan is not None:
                attempt.plan = plan
                attempt.reasons.append(plan.said)
        yield from self._remove(attempt, attempt.plan)

    def _preemption(self, attempt: GroupAttempt) -> GroupPreemption:
        pods = [member.queued.pod for member in attempt.pods]
        return GroupPreemption(
            attempt,
            self._queue.frameworks[pods[0].scheduler_name],
            self._cluster,
            self._pick,
            self._budgets,
            extenders=self._scheduling.extenders_about(pods),
        )

    def _remove(self, attempt: GroupAttempt, plan: Plan) -> Turns[None]:
        if plan.victims and self._scheduling.record.clock is not None:
            pod = attempt.pods[0].queued.pod
            self._outbox.add(VictimsChosen(pod, "podgroup", len(plan.victims), plan.groups, plan.violations))
        for start in range(0, len(plan.victims), _AT_ONCE):
            if start:
                yield
            if not attempt.members:
                return
            some = tuple(plan.victims[start : start + _AT_ONCE])
            self._evict(attempt.pods[0].queued.pod, NODE, some, attempt.now, attempt.group)
