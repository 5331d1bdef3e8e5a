"""One pod of a group that is being tried: a node for it, with those before it assumed.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupPodSchedulingAlgorithm).
"""

from collections.abc import Callable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE, AskExtenders, Outbox
from podberth.engine.pod_groups.results import GroupAttempt, Member, unsatisfied
from podberth.engine.pod_groups.turns import A_TRY, Turns
from podberth.engine.queue.fair_share import FREE
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import CallAnswer, SchedulingCycle
from podberth.framework.decision import NO_NODES, Decision, fit_error
from podberth.framework.interface import PostFilterResult
from podberth.framework.status import PluginError, printable

Within = Callable[[GroupAttempt], Bools | None]
"""bool[rows]: the only nodes on which the next pod may be, as they are now; None: all."""


class Tries:
    """Tries the pods of a group, and knows what the attempt costs its namespace."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduling: SchedulingCycle,
        outbox: Outbox,
        within: Within,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._scheduling = scheduling
        self._outbox = outbox
        self._within = within

    def one(self, attempt: GroupAttempt, member: Member) -> Turns[None]:
        """Try one pod, with those before it assumed, to its end: only extenders have it wait."""
        try:
            step = self._decided(attempt, member.queued, None, self._within(attempt))
            while isinstance(step, AskExtenders):
                attempt.asking = step.question
                self._outbox.add(step)
                yield
                call, said = attempt.answered()
                if isinstance(said, str):
                    self._extenders_failed(attempt, member, said)
                    return
                step = self._decided(attempt, member.queued, (call, said), self._within(attempt))
        except PluginError as error:
            self._broke(attempt, member, error)
            return
        search = attempt.search
        if not len(step.feasible) and search is not None and search.fill_next(enough=self._starts(attempt)):
            return  # this pod is tried again in the next domain
        attempt.next += 1
        self._take(attempt, member, step)
        if attempt.ended is not None:
            return
        why = unsatisfied(
            attempt.group, self._cluster.pod_groups.scheduled(attempt.group.key), len(attempt.members) - attempt.next
        )
        if why:
            attempt.fail(why)
            attempt.untried = attempt.message

    def _extenders_failed(self, attempt: GroupAttempt, member: Member, message: str) -> None:
        """An extender failed that is not ignorable."""
        member.reason, member.message = SCHEDULER_ERROR, message
        attempt.break_off(f"failed to schedule other pod from a pod group: {message}")

    def _take(self, attempt: GroupAttempt, member: Member, decision: Decision) -> None:
        """Assume a pod on one of the nodes that were found for it, if any were, and note what comes of that."""
        member.decision = decision
        if not len(decision.feasible):
            member.reason, member.message = UNSCHEDULABLE, fit_error(decision)
            member.plugins = decision.unschedulable_plugins()
            member.nominated = "" if member.message == NO_NODES else None
            self._scheduling.settle(decision)
            return
        refused = self._scheduling.assume(member.queued, decision, attempt.now, attempt.entry.key)
        member.fits = refused is None
        if isinstance(refused, PluginError):
            self._broke(attempt, member, refused)
        elif refused is not None:
            member.reason, member.plugins = UNSCHEDULABLE, frozenset((refused.plugin,))
            member.message = f"0/1 nodes are available: 1 {printable(refused.reason.text)}."
            member.nominated = ""

    def _starts(self, attempt: GroupAttempt) -> bool:
        """Return whether enough pods have a node by now."""
        return not unsatisfied(attempt.group, self._cluster.pod_groups.scheduled(attempt.group.key), 0)

    def _decided(
        self, attempt: GroupAttempt, queued: QueuedPod, answer: CallAnswer | None, within: Bools | None
    ) -> Decision | AskExtenders:
        """Return what `SchedulingCycle.schedule_pod` says, first of the node that was planned for the pod."""
        searches = self._cluster.search_steps
        attempt.tries += 1
        searches.taken = 0
        try:
            row = self._planned(attempt, queued) if answer is None else None
            if row is not None and (within is None or within[row]):
                only = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
                only[row] = True
                step = self._scheduling.schedule_pod(queued, None, only)
                if isinstance(step, AskExtenders) or (isinstance(step, Decision) and len(step.feasible)):
                    return step
            step = self._scheduling.schedule_pod(queued, answer, within)
            assert not isinstance(step, PostFilterResult)
            return step
        finally:
            steps = queued.pod.shape.steps + searches.taken
            if steps > FREE:
                self._queue.fair_share.charge(queued.pod.namespace, steps - FREE, attempt.now)

    def _planned(self, attempt: GroupAttempt, queued: QueuedPod) -> int | None:
        """The row on which room should be free by now for a pod of the group."""
        cluster = self._cluster
        room = cluster.reservations.of(attempt.entry.key) if cluster.reservations else None
        if room is None or room.until is None or room.until > cluster.devices.wall:
            return None
        name = room.planned.get(queued.pod.uid)
        return cluster.nodes.live_row(name) if name else None

    def _broke(self, attempt: GroupAttempt, member: Member, error: PluginError) -> None:
        member.reason, member.message = SCHEDULER_ERROR, str(error)
        member.plugins = frozenset((error.plugin,))
        attempt.break_off(f"failed to schedule other pod from a pod group: {error}")

    def charge(self, attempt: GroupAttempt) -> None:
        """Charge the namespace for tries that start no pod, once the attempt is decided."""
        started = sum(member.fits for member in attempt.members.values()) if attempt.ended is Ended.WITH_NODES else 0
        vain = max(attempt.tries - started, 0)
        self._queue.fair_share.charge(attempt.entry.key.namespace, vain * A_TRY, attempt.now)
        attempt.tries = 0
