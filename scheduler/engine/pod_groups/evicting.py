"""Preemption for a group whose attempt has failed: a plan is made in slices, then its victims are told to go."""

from collections.abc import Callable

from scheduler.engine.attempts import Attempts
from scheduler.engine.budget import Budget, TooCostlyError
from scheduler.engine.instructions import VictimsChosen
from scheduler.engine.outbox import Outbox
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.planning import PlanAnswer
from scheduler.engine.pod_groups.preemption import NODE, GroupPreemption
from scheduler.engine.pod_groups.results import GroupAttempt
from scheduler.engine.queue import Queue
from scheduler.model.pod import Pod
from scheduler.model.pod_group import COMPOSITE, PodGroup
from scheduler.plugins.default_preemption.budgets import Budgets
from scheduler.state.cluster import Cluster

_AT_ONCE = 32
"""How many victims are told to go in one slice."""
_LONGEST_PLAN = 8
"""How many times the cost of an attempt a plan may cost: it looks at all pods of lower priority."""
Evict = Callable[[Pod, str, tuple[Pod, ...], float, PodGroup], None]
"""Has victims removed for a pod of a group."""


class Evictions:
    """Makes the plan of one attempt, and carries it out."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        attempts: Attempts,
        outbox: Outbox,
        budget: Budget,
        pick: Callable[[str, int], int],
        evict: Evict,
    ) -> None:
        """`pick`: which of several equally good nodes or placements is taken."""
        self._cluster = cluster
        self._queue = queue
        self._attempts = attempts
        self._outbox = outbox
        self._budget = budget
        self._pick = pick
        self._evict = evict
        self._budgets = Budgets()

    def over(self, attempt: GroupAttempt, now: float, answer: PlanAnswer | None) -> bool:
        """Do a slice of the plan or of its evictions; whether nothing is left.

        Then the attempt has its plan, if preemption was asked at all.

        `answer`: of extenders, if the plan waited for them.
        """
        if attempt.ended is not Ended.REJECTED or attempt.short or not attempt.members:
            return self._let_go(attempt, now)
        if attempt.plan is None:
            self._go_on(attempt, now, answer)
        plan = attempt.plan
        if plan is None:
            return False
        pod, measured = attempt.pods[0].queued.pod, self._attempts.record.clock is not None
        if plan.victims and not attempt.evicted and measured:
            kind = "compositepodgroup" if attempt.group.key.api == COMPOSITE else "podgroup"
            self._outbox.add(VictimsChosen(pod, kind, len(plan.victims), plan.groups, plan.violations))
        some = tuple(plan.victims[attempt.evicted : attempt.evicted + _AT_ONCE])
        attempt.evicted += len(some)
        if some:
            self._evict(pod, NODE, some, now, attempt.group)
        return attempt.evicted == len(plan.victims)

    @property
    def _most(self) -> int:
        """Steps of one slice."""
        return max(self._budget.longest_slice // 2, 1)

    def _let_go(self, attempt: GroupAttempt, now: float) -> bool:
        """Free some of what a plan has that is not ready, and is not wanted any more; whether nothing is left."""
        preemption = attempt.preemption
        if preemption is None:
            return True
        before = preemption.spent
        done = preemption.let_go(self._most)
        attempt.used = preemption.spent - before
        if attempt.used:
            self._queue.fair_share.charge(attempt.entry.key.namespace, attempt.used, now)
        return done

    def _go_on(self, attempt: GroupAttempt, now: float, answer: PlanAnswer | None) -> None:
        """Go on with the plan. It is begun again if a pod of the group has gone."""
        preemption = attempt.preemption
        if preemption is not None and preemption.lost and not self._let_go(attempt, now):
            return
        if preemption is None or preemption.lost:
            pods = [member.queued.pod for member in attempt.pods]
            framework = self._queue.frameworks[pods[0].scheduler_name]
            extenders = self._attempts.extenders_about(pods)
            preemption = attempt.preemption = GroupPreemption(
                attempt, framework, self._cluster, self._pick, self._budgets, extenders=extenders
            )
        preemption.answered(answer)
        before, whole = preemption.spent, self._budget.whole * _LONGEST_PLAN
        plan = preemption.go_on(self._most)
        attempt.used = preemption.spent - before
        self._queue.fair_share.charge(attempt.entry.key.namespace, attempt.used, now)
        attempt.planning += attempt.used
        question = preemption.question()
        if question is not None:
            attempt.asking = question.question
            self._outbox.add(question)
            return
        if plan is None and attempt.planning >= whole:
            attempt.break_off(str(TooCostlyError(whole, self._cluster.effort.causes)), Ended.TOO_COSTLY)
        elif plan is not None and plan.error:
            attempt.break_off(plan.error)
        elif plan is not None:
            attempt.plan = plan
            attempt.reasons.append(plan.said)
