"""Finding out what becomes of a pod, a slice at a time. Nothing is decided for the cluster before the whole is known.

The slice ends anywhere inside a plugin (`SliceOver`). What was computed until then is kept where it was computed, and
the attempt begins again from the start when its turn comes: on the cluster as it is then.
"""

from collections.abc import Mapping

from scheduler.engine.budget import Budget, TooCostlyError
from scheduler.engine.consultations import Consultation, Consultations
from scheduler.engine.happenings import SetAside
from scheduler.engine.instructions import AskExtenders, Misbehaved, Verified
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue import Queue
from scheduler.engine.queued import Cost, QueuedPod
from scheduler.engine.turns import FREE, VAIN, VAIN_ROWS
from scheduler.framework.attempt_record import AttemptRecord
from scheduler.framework.decision import Decision
from scheduler.framework.extenders import NodesAnswer, VictimsAnswer
from scheduler.framework.plugin import PostFilterResult
from scheduler.framework.runtime import Framework
from scheduler.framework.sampling import Rotation
from scheduler.framework.status import PluginError
from scheduler.framework.verify import Verifier
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver

ExtendersAnswer = tuple[Consultation, NodesAnswer | VictimsAnswer]
"""What extenders said, and to whom."""
Outcome = AskExtenders | Decision | tuple[Decision, PostFilterResult]
"""A question, a decision for a node, or one for none and what PostFilter plugins make of that."""


class Attempts:
    """Thinks about one pod after another."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        frameworks: Mapping[str, Framework],
        consultations: Consultations,
        rotation: Rotation,
        outbox: Outbox,
        *,
        budget: Budget,
        in_full: bool,
        verifier: Verifier | None,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._consultations = consultations
        self._rotation = rotation
        self._outbox = outbox
        self._budget = budget
        self._in_full = in_full
        self._verifier = verifier
        self.steps = 0
        """Steps that all attempts took."""
        self.slices = 0
        """How often an attempt was set aside, to go on between other pods."""
        self.too_costly = 0
        """Attempts that cost too much."""
        self.record = AttemptRecord()
        """What the attempt under way has passed."""
        self.follow(frameworks)

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Ask these profiles from now on."""
        self._frameworks = frameworks
        self._consultations.follow(frameworks)
        if self._verifier is not None:
            self._verifier.follow(frameworks)
        for framework in frameworks.values():
            framework.guard.effort = self._cluster.effort

    def think(self, queued: QueuedPod, now: float, answer: ExtendersAnswer | None = None) -> Outcome | None:
        """What becomes of a pod; None: its slice is used up, and it was given back to the queue to go on later.

        `answer`: what extenders said, for one that waited for them. Raises PluginError, TooCostlyError.
        """
        effort, cost, start = self._cluster.effort, queued.cost, self._rotation.start
        self._queue.arrears.before(queued.pod.namespace, self._queue.turns, now)
        before = 0
        if cost is None:
            effort.begin(self._budget.slice)
        else:
            before = cost.spent
            effort.begin(self._budget.next_slice(cost.slices), before)
            answer = cost.answer if answer is None else answer
        if self.record.clock is not None:
            queued.trace = self.record.begin(queued.pod.scheduler_name, None if answer is None else queued.trace)
        try:
            outcome = self._decide(queued) if answer is None else self._heed(queued, answer)
            if isinstance(outcome, Decision):
                self._cluster.incidence.prepare(queued.pod)
        except SliceOver:
            self._rotation.start = start
            self._pause(queued, effort.end() - before, answer, now)
            return None
        except BaseException:
            self._done(queued, effort.end() - before, now)
            raise
        if effort.over:
            # A plugin has swallowed SliceOver, and more of them its answer.
            self._rotation.start = start
            self._pause(queued, effort.end() - before, answer, now)
            return None
        queued.steps = effort.end()
        spent = queued.steps - before
        if spent or cost is not None or queued.overruns:
            self._done(queued, spent, now)
            queued.overruns = 0
        if isinstance(outcome, tuple) and not outcome[1].node:
            # A tenant whose pods fit nowhere, and are woken time and again, pays for that with its place in the queue.
            self._queue.turns.account(queued.pod.namespace, FREE + VAIN + self._cluster.nodes.rows // VAIN_ROWS, now)
        return outcome

    def _done(self, queued: QueuedPod, spent: int, now: float) -> None:
        """An attempt has come to its end."""
        self.steps += spent
        self._queue.account(queued, spent, now)
        queued.cost = None

    def _pause(self, queued: QueuedPod, spent: int, answer: ExtendersAnswer | None, now: float) -> None:
        """The slice is used up.

        Raises TooCostlyError when the whole budget is.
        """
        cost = queued.cost = queued.cost or Cost()
        cost.spent += spent
        cost.slices += 1
        cost.answer = answer
        for what, number in self._cluster.effort.causes.items():
            cost.causes[what] = max(number, cost.causes.get(what, 0))
        queued.steps = cost.spent
        self.slices += 1
        if cost.spent >= self._budget.whole:
            self._done(queued, spent, now)
            queued.overruns += 1
            self.too_costly += 1
            raise TooCostlyError(self._budget.whole, cost.causes)
        self.steps += spent
        self._queue.account(queued, spent, now)
        self.record.set_aside()
        queued.story.set_aside(SetAside(now, queued.attempts, cost.slices, cost.spent))
        self._queue.set_aside(queued, now)

    def _decide(self, queued: QueuedPod) -> Outcome:
        """Raises PluginError, SliceOver."""
        pod = queued.pod
        framework = self._frameworks[pod.scheduler_name]
        extenders = self._consultations.on_nodes(pod)
        if extenders:
            return self._look_further(queued, self._consultations.ask_about_nodes(queued, extenders))
        start = self._rotation.start
        decide = framework.decide if self._in_full else framework.decide_quickly
        decision = decide(pod, self._cluster, self._rotation)
        if self._verifier is not None and self._verifier.due(self._cluster):
            decision = self._verified(self._verifier, decision, Rotation(start))
        return decision if len(decision.feasible) else self._look_further(queued, decision)

    def _heed(self, queued: QueuedPod, answer: ExtendersAnswer) -> Outcome:
        """Go on with a pod that waited for extenders, on the cluster as it is now.

        Raises PluginError, SliceOver.
        """
        consultation, said = answer
        step = self._consultations.heed(consultation, said)
        if isinstance(step, PostFilterResult):
            return consultation.decision, step
        return self._look_further(queued, step)

    def _look_further(self, queued: QueuedPod, step: Decision | AskExtenders) -> Outcome:
        """Where no node takes the pod, PostFilter plugins may help, and extenders have a say in whom to preempt."""
        if isinstance(step, AskExtenders) or len(step.feasible):
            return step
        result = self._post_filter(self._frameworks[queued.pod.scheduler_name], step)
        extenders = self._consultations.on_victims(queued.pod) if result.candidates else ()
        if not extenders:
            return step, result
        return self._consultations.ask_about_victims(queued, extenders, step, result)

    def _post_filter(self, framework: Framework, decision: Decision) -> PostFilterResult:
        """What PostFilter plugins make of it; one that fails is named, and the pod stays unschedulable."""
        try:
            return framework.post_filter_result(decision.pod, self._cluster, decision)
        except PluginError as error:
            return PostFilterResult(str(error))

    def _verified(self, verifier: Verifier, decision: Decision, before: Rotation) -> Decision:
        """The decision that counts. A plugin that fails when it is asked again costs the pod nothing.

        Nothing is kept for the second decision: one that takes too long is given up.
        """
        effort = self._cluster.effort
        spent, causes, end = effort.spent, effort.causes, effort.pause()
        effort.begin(2 * self._budget.slice)
        try:
            decision, difference = verifier.verify(decision, self._cluster, before)
        except PluginError as error:
            self._outbox.say(Misbehaved(decision.pod, error))
        except SliceOver:
            self._outbox.say(Verified(decision.pod, None, given_up=True))
        else:
            self._outbox.say(Verified(decision.pod, difference))
        finally:
            effort.end()
            effort.spent, effort.causes = spent, causes
            effort.resume(end)
        return decision
