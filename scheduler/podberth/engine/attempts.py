"""Attempts to schedule pods, one after another."""

from collections.abc import Iterable, Mapping

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.extender_calls import ExtenderCall, ExtenderCalls
from podberth.engine.instructions import AskExtenders, Misbehaved, Verified
from podberth.engine.keeping_away import away_from
from podberth.engine.no_fits import NoFit, NoFits
from podberth.engine.outbox import Outbox
from podberth.engine.queue.fair_share import FREE, IN_VAIN, ROWS_PER_STEP
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.attempt_record import AttemptRecord
from podberth.framework.decision import Decision
from podberth.framework.extenders import NodesAnswer, VictimsAnswer
from podberth.framework.plugin import PostFilterResult
from podberth.framework.runtime import Framework
from podberth.framework.sampling import Rotation
from podberth.framework.status import PluginError
from podberth.framework.verify import Verifier
from podberth.model.pod import Pod

CallAnswer = tuple[ExtenderCall, NodesAnswer | VictimsAnswer]
"""A call to extenders, and their answer."""
Outcome = AskExtenders | Decision | NoFit
"""A question to extenders, a decision for a node, or what is known when there is none."""


class Attempts:
    """Takes decisions, one pod after another."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        frameworks: Mapping[str, Framework],
        extender_calls: ExtenderCalls,
        rotation: Rotation,
        outbox: Outbox,
        no_fits: NoFits,
        *,
        in_full: bool,
        verifier: Verifier | None,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._extender_calls = extender_calls
        self._rotation = rotation
        self._outbox = outbox
        self._in_full = in_full
        self._verifier = verifier
        self.record = AttemptRecord()
        """The record of the attempt under way."""
        self.no_fits = no_fits
        self.follow(frameworks)

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Ask these profiles from now on."""
        self._frameworks = frameworks
        self._extender_calls.follow(frameworks)
        if self._verifier is not None:
            self._verifier.follow(frameworks)

    def schedule_pod(self, queued: QueuedPod, now: float, answer: CallAnswer | None = None) -> Outcome:
        """The outcome for a pod. `answer`: of the extenders, if the pod waited for them. Raises PluginError."""
        pod, searches = queued.pod, self._cluster.search_steps
        searches.taken = 0
        if self.record.clock is not None:
            queued.trace = self.record.begin(pod.scheduler_name, None if answer is None else queued.trace)
        try:
            outcome = self._decide(queued) if answer is None else self._with_their_answer(queued, answer)
        finally:
            steps = pod.shape.steps + searches.taken
            if steps > FREE:
                self._queue.fair_share.charge(pod.namespace, steps - FREE, now)
        if isinstance(outcome, NoFit) and not outcome.result.node:
            # Pods that fit nowhere may be woken again and again: their namespace is charged for it, and for what is
            # written of each.
            looked = 0 if outcome.taken_over else self._cluster.nodes.rows // ROWS_PER_STEP
            self._queue.fair_share.charge(pod.namespace, IN_VAIN + looked, now)
        return outcome

    def of_group(
        self, queued: QueuedPod, answer: CallAnswer | None = None, within: Bools | None = None
    ) -> Decision | AskExtenders:
        """The decision for one pod of a group that is being tried. Preemption is the group's.

        `answer`: as in `schedule_pod`. `within`: bool[rows], the only nodes on which it may be. Raises PluginError.
        """
        return self._find(queued, within) if answer is None else self._found(answer, within)

    def settle(self, decision: Decision) -> None:
        """No node takes the pod, and why has been read: keep no more of the decision, unless somebody looks at it."""
        if not self._in_full:
            decision.settle(None)

    def asks_extenders(self, pod: Pod) -> bool:
        """Return whether extenders have a say in the nodes for a pod."""
        return bool(self._extender_calls.on_nodes(pod))

    def extenders_about(self, pods: Iterable[Pod]) -> ExtenderCalls | None:
        """Return whose extenders have a say in the nodes for some of these pods; None: there are none."""
        return self._extender_calls if any(map(self.asks_extenders, pods)) else None

    @property
    def extender_calls(self) -> ExtenderCalls:
        """The pods that wait for extenders."""
        return self._extender_calls

    def _found(self, answer: CallAnswer, within: Bools | None) -> Decision | AskExtenders:
        """Return what follows from the answer of extenders about nodes."""
        step = self._applied(*answer, within)
        assert not isinstance(step, PostFilterResult)
        return step

    def _applied(
        self, call: ExtenderCall, said: NodesAnswer | VictimsAnswer, within: Bools | None = None
    ) -> Decision | AskExtenders | PostFilterResult:
        """As `ExtenderCalls.apply_answer`, without nodes whose room is kept for others."""
        if not self._cluster.kept_room:
            return self._extender_calls.apply_answer(call, said, within)
        away = away_from(call.queued.pod, self._cluster, within)
        step = self._extender_calls.apply_answer(call, said, away.within)
        if isinstance(step, Decision):
            away.tell(step)
        return step

    def _decide(self, queued: QueuedPod) -> Outcome:
        """The outcome of an attempt from its start: what an equal pod found, or filters, scores and PostFilter.

        Raises PluginError.
        """
        pod = queued.pod
        if self._extender_calls.extenders and self._extender_calls.any_for(pod):
            return self._or_post_filter(queued, self._find(queued))
        verifier = None if self._verifier is None else self._due()
        # A decision that is to be verified, or to be shown in full, has to be taken.
        if verifier is None and not self._in_full:
            found = self.no_fits.find(pod, self._frameworks[pod.scheduler_name], self.record)
            if found is not None:
                return found
        decision = self._decision(pod, verifier)
        if len(decision.feasible):
            return decision
        outcome = self._or_post_filter(queued, decision)
        if isinstance(outcome, NoFit) and not self._in_full:
            self.no_fits.keep(outcome, self._frameworks[pod.scheduler_name], self.record)
        return outcome

    def _find(self, queued: QueuedPod, within: Bools | None = None) -> Decision | AskExtenders:
        """The decision by filters and scores, or what extenders are to be asked first.

        Raises PluginError.
        """
        extenders = self._extender_calls.on_nodes(queued.pod)
        if extenders:
            away = away_from(queued.pod, self._cluster, within) if self._cluster.kept_room else None
            within = within if away is None else away.within
            step = self._extender_calls.ask_about_nodes(queued, extenders, within=within)
            if away is not None and isinstance(step, Decision):
                away.tell(step)
            return step
        return self._decision(queued.pod, self._due(), within)

    def _decision(self, pod: Pod, verifier: Verifier | None, within: Bools | None = None) -> Decision:
        """The decision of the profile's own filters and scores.

        Raises PluginError.
        """
        framework = self._frameworks[pod.scheduler_name]
        start = self._rotation.start
        decide = framework.decide if self._in_full else framework.decide_quickly
        if self._cluster.kept_room.by_profile:
            kept = away_from(pod, self._cluster, within)
            decision = decide(pod, self._cluster, self._rotation, within=kept.within)
            if verifier is not None:
                decision = self._verified(verifier, decision, Rotation(start), kept.within)
            kept.tell(decision)
            return decision
        decision = decide(pod, self._cluster, self._rotation, within=within)
        return decision if verifier is None else self._verified(verifier, decision, Rotation(start), within)

    def _due(self) -> Verifier | None:
        """The verifier, if it is to verify this decision."""
        verifier = self._verifier
        return verifier if verifier is not None and verifier.due(self._cluster) else None

    def _with_their_answer(self, queued: QueuedPod, answer: CallAnswer) -> Outcome:
        """Go on with a pod that waited for extenders, on the cluster as it is now.

        Raises PluginError.
        """
        call, said = answer
        step = self._applied(call, said)
        if isinstance(step, PostFilterResult):
            return NoFit(call.decision, step)
        return self._or_post_filter(queued, step)

    def _or_post_filter(self, queued: QueuedPod, step: Decision | AskExtenders) -> Outcome:
        """The decision, if a node takes the pod; else what PostFilter plugins do, or what to ask extenders about it."""
        if isinstance(step, AskExtenders) or len(step.feasible):
            return step
        result = self._post_filter(self._frameworks[queued.pod.scheduler_name], step)
        extenders = self._extender_calls.on_victims(queued.pod) if result.candidates else ()
        if not extenders:
            return NoFit(step, result)
        return self._extender_calls.ask_about_victims(queued, extenders, step, result)

    def _post_filter(self, framework: Framework, decision: Decision) -> PostFilterResult:
        """The result of PostFilter. If a plugin fails, the message names it, and the pod stays unschedulable."""
        try:
            return framework.post_filter_result(decision.pod, self._cluster, decision)
        except PluginError as error:
            return PostFilterResult(str(error))

    def _verified(self, verifier: Verifier, decision: Decision, before: Rotation, within: Bools | None) -> Decision:
        """The decision that counts. If a plugin fails in the second decision, the first one counts."""
        try:
            decision, difference = verifier.verify(decision, self._cluster, before, within)
        except PluginError as error:
            self._outbox.add(Misbehaved(decision.pod, error))
        else:
            self._outbox.add(Verified(decision.pod, difference))
        return decision
