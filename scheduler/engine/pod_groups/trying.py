"""One pod of a group that is being tried: a node for it, with those before it assumed, and what that costs.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupPodSchedulingAlgorithm).
"""

from collections.abc import Callable

import numpy as np

from scheduler.engine.attempts import Attempts, CallAnswer
from scheduler.engine.budget import ORDINARY, Budget, TooCostlyError
from scheduler.engine.fair_share import FREE, IN_VAIN, ROWS_PER_STEP
from scheduler.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE, AskExtenders
from scheduler.engine.outbox import Outbox
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.further import other_row
from scheduler.engine.pod_groups.results import GroupAttempt, Member, Takes, unsatisfied
from scheduler.engine.queue import Queue
from scheduler.engine.queued import QueuedPod
from scheduler.framework.binding_plugins import Refusal
from scheduler.framework.decision import NO_NODES, Decision, fit_error
from scheduler.framework.status import PluginError, printable
from scheduler.model.pod_group import GroupKey
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools

_LONGEST_SEARCH = 8
"""How many times the cost of another attempt it may cost to try a group on many placements."""
Assume = Callable[[QueuedPod, Decision, float, GroupKey, int | None], "Refusal | PluginError | None"]
"""Assume a pod on this row, or on one of the best nodes; why a Reserve plugin keeps it from there."""


class Tries:
    """Tries the pods of a group, and knows what the attempt costs its namespace."""

    def __init__(
        self, cluster: Cluster, queue: Queue, attempts: Attempts, outbox: Outbox, budget: Budget, assume: Assume
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._attempts = attempts
        self._outbox = outbox
        self._budget = budget
        self._assume = assume

    def one(
        self,
        attempt: GroupAttempt,
        member: Member,
        now: float,
        answer: CallAnswer | None,
        within: Bools | None,
    ) -> int:
        """Try one pod, with those before it assumed; the steps that it took."""
        queued, searches = member.queued, self._cluster.search_steps
        searches.taken = 0
        try:
            step = self._decided(attempt, queued, now, answer, within)
        except PluginError as error:
            self._broke(attempt, member, error)
            return queued.pod.shape.steps + searches.taken
        steps = queued.pod.shape.steps + searches.taken
        search, whole = attempt.search, self._budget.whole
        again = attempt.retried or (search is not None and search.tried > 0)
        attempt.spent += steps + ORDINARY if again else max(steps - FREE, 0)
        if search is not None or attempt.of_tree:
            whole *= _LONGEST_SEARCH
        if attempt.spent >= whole:
            attempt.break_off(str(TooCostlyError(whole, self._cluster.effort.causes)), Ended.TOO_COSTLY)
            return steps
        if isinstance(step, AskExtenders):
            attempt.asking = step.question
            self._outbox.add(step)
            return steps
        if not len(step.feasible) and search is not None and search.fill_next(enough=self._starts(attempt)):
            attempt.spent += ORDINARY
            return steps  # this pod is tried again in the next domain
        attempt.next += 1
        self._take(attempt, member, step, now)
        if attempt.ended is not None:
            return steps
        why = unsatisfied(
            attempt.group, self._cluster.pod_groups.scheduled(attempt.group.key), len(attempt.members) - attempt.next
        )
        if why:
            attempt.fail(why)
            attempt.untried = attempt.message
        return steps

    def _take(self, attempt: GroupAttempt, member: Member, decision: Decision, now: float) -> None:
        """Assume a pod on one of the nodes that were found for it, if any were, and note what comes of that."""
        member.decision = decision
        if not len(decision.feasible):
            member.reason, member.message = UNSCHEDULABLE, fit_error(decision)
            member.plugins = decision.unschedulable_plugins()
            member.nominated = "" if member.message == NO_NODES else None
            self._attempts.settle(decision)
            return
        further = attempt.further
        row = None if further is None else other_row(decision, self._cluster, further)
        refused = self._assume(member.queued, decision, now, attempt.entry.key, row)
        member.fits = refused is None
        if isinstance(refused, PluginError):
            self._broke(attempt, member, refused)
        elif refused is not None:
            member.reason, member.plugins = UNSCHEDULABLE, frozenset((refused.plugin,))
            member.message = f"0/1 nodes are available: 1 {printable(refused.reason.text)}."
            member.nominated = ""

    def _starts(self, attempt: GroupAttempt) -> bool:
        """Whether enough pods have a node by now."""
        return not unsatisfied(attempt.group, self._cluster.pod_groups.scheduled(attempt.group.key), 0)

    def _decided(
        self,
        attempt: GroupAttempt,
        queued: QueuedPod,
        now: float,
        answer: CallAnswer | None,
        within: Bools | None,
    ) -> Decision | AskExtenders:
        """What `Attempts.of_group` finds. Once the room is free that is kept for the group, its pods go there."""
        further = attempt.further
        row = self._planned(attempt, queued) if answer is None else None
        if row is not None and (within is None or within[row]):
            only = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
            only[row] = True
            step = self._attempts.of_group(queued, None, only)
            if not isinstance(step, Decision) or len(step.feasible):
                return step
        all_rows = further is not None and further.takes is not Takes.BEST
        return self._attempts.of_group(queued, answer, within, all_rows=all_rows)

    def _planned(self, attempt: GroupAttempt, queued: QueuedPod) -> int | None:
        """The row on which room should be free by now for a pod of the group."""
        cluster = self._cluster
        room = cluster.kept_room.of(attempt.entry.key) if cluster.kept_room else None
        if room is None or room.until is None or room.until > cluster.devices.wall:
            return None
        name = room.planned.get(queued.pod.uid)
        return cluster.nodes.live_row(name) if name else None

    def _broke(self, attempt: GroupAttempt, member: Member, error: PluginError) -> None:
        member.reason, member.message = SCHEDULER_ERROR, str(error)
        member.plugins = frozenset((error.plugin,))
        attempt.break_off(f"failed to schedule other pod from a pod group: {error}")

    def decide(self, attempt: GroupAttempt) -> None:
        """All pods were tried, and enough have a node: by this attempt, or from before."""
        if any(member.fits for member in attempt.members.values()):
            attempt.ended = Ended.WITH_NODES
        else:
            attempt.fail("", early=True)
            attempt.enough = True

    def charged(self, attempt: GroupAttempt, now: float, used: int) -> int:
        """Charge the namespace for what goes beyond as many ordinary pods, or was in vain."""
        namespace = attempt.entry.key.namespace
        if attempt.spent:
            self._queue.fair_share.charge(namespace, min(attempt.spent, used), now)
        if attempt.decided and attempt.ended is not Ended.WITH_NODES:
            no_node = sum(bool(member.reason) for member in attempt.members.values())
            vain = ORDINARY * attempt.next + no_node * (IN_VAIN + self._cluster.nodes.rows // ROWS_PER_STEP)
            self._queue.fair_share.charge(namespace, max(vain, 0), now)
        return used
