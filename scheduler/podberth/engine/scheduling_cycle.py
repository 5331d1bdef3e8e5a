"""The scheduling cycle: the next pod of the queue is tried, and is assumed on its node or goes back to the queue.

Next stage: `podberth.engine.binding_cycle`. Pod groups have cycles of their own (`podberth.engine.pod_groups.cycle`).
Mirrors kube-scheduler `schedule_one.go` (ScheduleOne, schedulingCycle, handleSchedulingFailure).
"""

from typing import Any

from podberth.cache.cluster import Cluster
from podberth.engine import story_writer
from podberth.engine.attempts import Attempts, CallAnswer
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.choice import Choice
from podberth.engine.extender_calls import ExtenderCalls
from podberth.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE, AskExtenders, PostFilterWrite, VictimsChosen
from podberth.engine.no_fits import NoFit
from podberth.engine.nominator import Nominator
from podberth.engine.outbox import Outbox
from podberth.engine.pod_groups.cycle import GroupCycles
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import ExtendersAnswered, ExtendersFailed
from podberth.engine.victims import Victims
from podberth.framework.binding_plugins import Refusal
from podberth.framework.decision import Decision
from podberth.framework.extenders import EXTENDER, NodesQuestion, interested
from podberth.framework.plugin import PostFilterResult
from podberth.framework.status import PluginError
from podberth.model.pod_group import GroupKey


class SchedulingCycles:
    """Runs one cycle at a time, and does what follows from its outcome."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        attempts: Attempts,
        extender_calls: ExtenderCalls,
        binding: BindingCycles,
        nominator: Nominator,
        victims: Victims,
        outbox: Outbox,
        choice: Choice,
        *,
        binders: tuple[Any, ...],
        in_full: bool,
    ) -> None:
        """`binders`, `in_full`: as of `Engine`."""
        self._cluster = cluster
        self._queue = queue
        self._attempts = attempts
        self._extender_calls = extender_calls
        self._binding = binding
        self._nominator = nominator
        self._victims = victims
        self._outbox = outbox
        self._choice = choice
        self._binders = binders
        self._in_full = in_full
        self._at_hand: QueuedPod | None = None
        self.groups = GroupCycles(
            cluster, queue, attempts, binding, outbox, self.assume, choice.pick, nominator, victims.remove
        )

    @property
    def has_work(self) -> bool:
        """Return whether there is something to do besides the pods of the queue."""
        return self.groups.has_work or self._victims.has_work

    def run(self, now: float) -> None:
        """Try the next pod, or go on with the group of pods that is being tried."""
        self._at_hand = None
        if self._victims.take_turn():
            self._victims.remove_more(now)
        elif self.groups.attempt is None:
            self._try_next(now)
        else:
            self._try_beside_group(now)

    def _try_next(self, now: float) -> bool:
        """Try what comes next in the queue, if anything does: a pod, or a group."""
        queued = self._at_hand = self._queue.pop(now)
        if queued is None:
            return False
        if queued.entry is None:
            self._attempt(queued, now)
        else:
            self._at_hand = None
            self.groups.begin(queued.entry, now)
        return True

    def _try_beside_group(self, now: float) -> None:
        """Go on with the group that is being tried, or try what comes next, as their turns are."""
        groups = self.groups
        if groups.due:
            groups.go_on(now)
            return
        groups.others_come()
        if not self._try_next(now) and groups.has_work:
            groups.go_on(now)

    def _attempt(self, queued: QueuedPod, now: float, answer: CallAnswer | None = None) -> None:
        """Try a pod, and do what follows. `answer`: as in `Attempts.schedule_pod`."""
        try:
            outcome = self._attempts.schedule_pod(queued, now, answer)
        except PluginError as error:
            self._broken(queued, str(error), frozenset((error.plugin,)), now)
            return
        match outcome:
            case Decision():
                self.assume(queued, outcome, now)
            case AskExtenders():
                self._attempts.record.wait()
                story_writer.asked(queued, outcome.question, now)
                self._outbox.add(outcome)
            case NoFit():
                self._no_fit(queued, outcome, now)

    def assume(
        self, queued: QueuedPod, decision: Decision, now: float, group: GroupKey | None = None
    ) -> Refusal | PluginError | None:
        """Begin to bind the pod to one of the best nodes.

        With a `group` that is being tried, the pod waits for it, and why Reserve plugins refuse it is returned.
        """
        framework = self._queue.frameworks[queued.pod.scheduler_name]
        binders = self._binders
        if binders:
            binders = tuple(binder for binder in binders if interested(binder.extender, queued.pod))
        row = self._choice.row(decision)
        if not self._in_full:
            decision.settle(row)
        return self._binding.assume(queued, framework, decision, row, now, binders, group).refused

    def extenders_answered(self, answer: ExtendersAnswered, now: float) -> None:
        """Go on with a pod that waited for extenders."""
        call = self._extender_calls.take(answer.question)
        if call is not None and self.groups.trying(call.queued.pod.uid) is not None:
            self.groups.go_on(now, (call, answer.answer))
        elif call is not None:
            self._attempt(call.queued, now, (call, answer.answer))

    def extenders_failed(self, failure: ExtendersFailed, now: float) -> None:
        """An extender failed that is not ignorable: the pod is tried again; in preemption, it stays unschedulable."""
        call = self._extender_calls.take(failure.question)
        if call is None:
            return
        if self.groups.trying(call.queued.pod.uid) is not None:
            self.groups.go_on(now, (call, failure.message))
            return
        if isinstance(call.question, NodesQuestion):
            self._broken(call.queued, failure.message, frozenset((EXTENDER,)), now)
            return
        result = PostFilterResult(f"preemption: {failure.message}", in_the_way=frozenset((EXTENDER,)))
        self._no_fit(call.queued, NoFit(call.decision, result), now)

    def _no_fit(self, queued: QueuedPod, found: NoFit, now: float) -> None:
        pod, plugins, message, result = queued.pod, found.plugins, found.message, found.result
        waits_for = found.waits_for
        story_writer.failed(queued, UNSCHEDULABLE, message, plugins, now)
        missed = self._queue.missed(queued, waits_for)
        if result.node is not None and result.node != self._cluster.nominations.node_of(pod.uid):
            # Before the pod itself waits: the end of its own nomination must not wake it.
            self._nominator.end(pod, now, real=False)
        self._queue.add_unschedulable(queued, waits_for, now, missed=missed)
        self._outbox.failed(queued, UNSCHEDULABLE, message, plugins, found.decision, result.node)
        if result.writes:
            self._outbox.add(PostFilterWrite(pod, result.writes))
        if result.node:
            if result.victims and self._attempts.record.clock is not None:
                _, violations = result.candidates.get(result.node, ((), 0))
                self._outbox.add(VictimsChosen(pod, "pod", len(result.victims), 0, violations))
            self._victims.preempt(pod, result.node, result.victims, now)

    def _broken(self, queued: QueuedPod, message: str, plugins: frozenset[str], now: float) -> None:
        story_writer.failed(queued, SCHEDULER_ERROR, message, plugins, now)
        self._nominator.end(queued.pod, now, real=False)  # as in kube-scheduler, it gives up the node kept for it
        self._queue.requeue(queued, now)
        self._outbox.failed(queued, SCHEDULER_ERROR, message, plugins, nominated="")

    def broke(self, message: str, now: float) -> None:
        """Take back what the cycle that raised may have begun. Its instructions for other pods are kept."""
        queued, self._at_hand = self._at_hand, None
        if queued is None:
            self.groups.broke(message, now)
            return
        uid = queued.pod.uid
        self._binding.broke(uid, message, now)
        if uid not in self._queue and self._cluster.placement(uid) is None and self._binding.state(uid) is None:
            self._extender_calls.drop(uid)
            self._broken(queued, message, frozenset(), now)
