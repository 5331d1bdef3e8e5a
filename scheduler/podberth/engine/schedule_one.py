"""Schedule one pod: decide where it goes, assume it there and hand it over to the binding cycle, or say why not.

Mirrors kube-scheduler `schedule_one.go` (scheduleOnePod, schedulingCycle, schedulePod, selectHost,
handleSchedulingFailure). Next stage: `podberth.engine.binding_cycle`. A pod group has a cycle of its own
(`podberth.engine.pod_groups.cycle`), which takes from here how one pod is decided and assumed.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.reservations import ReservedRoom
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.extender_calls import ExtenderCall, ExtenderCalls
from podberth.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    AskExtenders,
    Misbehaved,
    Outbox,
    PostFilterWrite,
    Verified,
    VictimsChosen,
)
from podberth.engine.no_fits import NoFit, NoFits
from podberth.engine.observers import Observers
from podberth.engine.preemption import Nominator, Victims
from podberth.engine.queue.fair_share import FREE, IN_VAIN, ROWS_PER_STEP
from podberth.engine.queue.queued import Queued, QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.binding import Refusal
from podberth.framework.decision import AttemptRecord, Decision, Rejected
from podberth.framework.extenders import EXTENDER, NodesAnswer, NodesQuestion, VictimsAnswer, interested
from podberth.framework.interface import PostFilterResult
from podberth.framework.runtime import Framework, Rotation
from podberth.framework.status import PluginError, Unresolvable
from podberth.framework.verify import Verifier
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey

CallAnswer = tuple[ExtenderCall, NodesAnswer | VictimsAnswer]
"""A call to extenders, and their answer."""
Outcome = Decision | AskExtenders | NoFit
"""A decision for a node, a question to extenders, or what is known when there is no node."""


class Choice:
    """Chooses one of several equally good nodes by a seed and the pod alone, so that a run can be repeated."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def row(self, decision: Decision) -> int:
        """Return one of the best rows."""
        best = decision.best()
        return best.item(self.pick(decision.pod.uid, len(best)))

    def pick(self, uid: str, equals: int) -> int:
        """Return which of so many equally good ones a pod takes."""
        return zlib.crc32(f"{self._seed}/{uid}".encode()) % equals if equals > 1 else 0


class SchedulingCycle:
    """Takes one pod after another from the queue to its binding cycle, or back."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        extender_calls: ExtenderCalls,
        rotation: Rotation,
        binding: BindingCycles,
        nominator: Nominator,
        victims: Victims,
        outbox: Outbox,
        observers: Observers,
        no_fits: NoFits,
        choice: Choice,
        *,
        binders: tuple[Any, ...],
        in_full: bool,
        verifier: Verifier | None,
    ) -> None:
        """`binders`, `in_full`: as of `Engine`."""
        self._cluster = cluster
        self._queue = queue
        self.extender_calls = extender_calls
        self._rotation = rotation
        self._binding = binding
        self._nominator = nominator
        self._victims = victims
        self._outbox = outbox
        self._observers = observers
        self.no_fits = no_fits
        self._choice = choice
        self._binders = binders
        self._in_full = in_full
        self._verifier = verifier
        self.record = AttemptRecord()
        """The record of the attempt under way."""
        self.at_hand: QueuedPod | None = None
        """The pod that was tried in this turn, in case the turn raises; None: the turn is a group's, or victims'."""

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Ask these profiles from now on."""
        self.extender_calls.follow(frameworks)
        if self._verifier is not None:
            self._verifier.follow(frameworks)

    def run(self, now: float) -> Queued | None:
        """Schedule the next pod of the queue; return what was next, None if nothing was.

        If it is a group, nothing was done yet: it has a cycle of its own.
        """
        # 1. Pop what is next.
        queued = self._queue.pop(now)
        if isinstance(queued, QueuedPod):
            self.at_hand = queued
            self._schedule(queued, now)
        return queued

    def _schedule(self, queued: QueuedPod, now: float, answer: CallAnswer | None = None) -> None:
        """Decide about a pod, and do what follows. `answer`: of the extenders, if the pod waited for them."""
        # 2. Decide: filter, score, and if no node is left, ask the PostFilter plugins.
        try:
            outcome = self.decide(queued, now, answer)
        except PluginError as error:
            self._failed(queued, str(error), frozenset((error.plugin,)), now)
            return
        match outcome:
            case Decision():
                # 3. Assume the pod on one of the best nodes. 4. Its binding cycle begins with Reserve.
                self.assume(queued, outcome, now)
            case AskExtenders():
                self.record.wait()
                for hear in self._observers.asked:
                    hear(queued, outcome.question, now)
                self._outbox.add(outcome)
            case NoFit():
                # 5. Say why not, and have the pod wait for what may help.
                self._unschedulable(queued, outcome, now)

    # -- 2. decide ---------------------------------------------------------------------------------------------------

    def decide(self, queued: QueuedPod, now: float, answer: CallAnswer | None = None) -> Outcome:
        """Decide about a pod, charge its namespace for the work, and return the outcome. `answer`: as in `_schedule`.

        Raises PluginError.
        """
        pod, searches = queued.pod, self._cluster.search_steps
        searches.taken = 0
        if self.record.clock is not None:
            queued.trace = self.record.begin(pod.scheduler_name, None if answer is None else queued.trace)
        try:
            outcome = self._outcome(queued, answer)
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

    def _outcome(self, queued: QueuedPod, answer: CallAnswer | None) -> Outcome:
        """Return what an equal pod found, or what filters, scores and PostFilter plugins say. Raises PluginError."""
        pod = queued.pod
        ask = answer is not None or (bool(self.extender_calls.extenders) and self.extender_calls.any_for(pod))
        if ask:
            step = self.schedule_pod(queued, answer)
        else:
            verify = self._verifies()
            # A decision that is to be verified, or to be shown in full, has to be taken.
            shared = not (verify or self._in_full)
            if shared and self.no_fits.kept:
                known = self.no_fits.find(pod, self._queue.frameworks[pod.scheduler_name], self.record)
                if known is not None:
                    return known
            step = self._find(queued, None, verify=verify)
        if isinstance(step, PostFilterResult):
            assert answer is not None
            return NoFit(answer[0].decision, step)
        if isinstance(step, AskExtenders) or len(step.feasible):
            return step
        framework = self._queue.frameworks[pod.scheduler_name]
        try:
            result = framework.post_filter_result(pod, self._cluster, step)
        except PluginError as error:
            result = PostFilterResult(str(error))  # the message names the plugin; the pod stays unschedulable
        extenders = self.extender_calls.on_victims(pod) if result.candidates else ()
        if extenders:
            return self.extender_calls.ask_about_victims(queued, extenders, step, result)
        found = NoFit(step, result)
        if not (ask or self._in_full):
            self.no_fits.keep(found, framework, self.record)
        return found

    def schedule_pod(
        self, queued: QueuedPod, answer: CallAnswer | None = None, within: Bools | None = None
    ) -> Decision | AskExtenders | PostFilterResult:
        """Return the decision by filters, extenders and scores, or the question to extenders that comes first.

        `answer`: of the extenders, if the pod waited for them; a PostFilterResult only follows from one about victims.
        `within`: bool[rows], the only nodes on which the pod may be. Raises PluginError.
        """
        pod = queued.pod
        extenders = self.extender_calls.on_nodes(pod) if answer is None else ()
        if answer is None and not extenders:
            return self._find(queued, within, verify=self._verifies())
        reserved = ReservedNodes(pod, self._cluster, within) if self._cluster.reservations.by_profile else None
        if reserved is not None:
            within = reserved.within
        if answer is None:
            step: Decision | AskExtenders | PostFilterResult
            step = self.extender_calls.ask_about_nodes(queued, extenders, within=within)
        else:
            step = self.extender_calls.apply_answer(*answer, within)
        if reserved is not None and isinstance(step, Decision):
            reserved.report_in(step)
        return step

    def _find(self, queued: QueuedPod, within: Bools | None, *, verify: bool) -> Decision:
        """Return the decision of the profile's own filters and scores. Raises PluginError."""
        pod, cluster, rotation = queued.pod, self._cluster, self._rotation
        framework = self._queue.frameworks[pod.scheduler_name]
        reserved = ReservedNodes(pod, cluster, within) if cluster.reservations.by_profile else None
        if reserved is not None:
            within = reserved.within
        start = rotation.start
        decide = framework.decide if self._in_full else framework.decide_quickly
        decision = decide(pod, cluster, rotation, within=within)
        if verify:
            decision = self._verified(decision, Rotation(start), within)
        if reserved is not None:
            reserved.report_in(decision)
        return decision

    def _verifies(self) -> bool:
        """Return whether the next decision is to be verified."""
        return self._verifier is not None and self._verifier.due(self._cluster)

    def _verified(self, decision: Decision, before: Rotation, within: Bools | None) -> Decision:
        """Return the decision that counts. If a plugin fails in the second decision, the first one counts."""
        assert self._verifier is not None
        try:
            decision, difference = self._verifier.verify(decision, self._cluster, before, within)
        except PluginError as error:
            self._outbox.add(Misbehaved(decision.pod, error))
        else:
            self._outbox.add(Verified(decision.pod, difference))
        return decision

    def extenders_about(self, pods: Iterable[Pod]) -> ExtenderCalls | None:
        """Return the calls to extenders if one has a say in the nodes for any of these pods, else None."""
        return self.extender_calls if any(map(self.extender_calls.on_nodes, pods)) else None

    def settle(self, decision: Decision) -> None:
        """Let go of a decision without a node, once its reasons have been read, unless decisions are kept in full."""
        if not self._in_full:
            decision.settle(None)

    # -- 3. assume, and 4. hand over ---------------------------------------------------------------------------------

    def assume(
        self, queued: QueuedPod, decision: Decision, now: float, group: GroupKey | None = None
    ) -> Refusal | PluginError | None:
        """Assume the pod on one of the best nodes, and begin its binding cycle.

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

    # -- 5. or say why not -------------------------------------------------------------------------------------------

    def _unschedulable(self, queued: QueuedPod, found: NoFit, now: float) -> None:
        """Have a pod that fits no node wait for an event that may help, or for its victims to leave."""
        pod, message, result = queued.pod, found.message, found.result
        waits_for = found.waits_for
        for hear in self._observers.failed:
            hear(queued, UNSCHEDULABLE, message, found.plugins, now)
        missed = self._queue.missed(queued, waits_for)
        if result.node is not None and result.node != self._cluster.nominations.node_of.get(pod.uid):
            # Before the pod itself waits: the end of its own nomination must not wake it.
            self._nominator.end(pod, now, real=False)
        self._queue.add_unschedulable(queued, waits_for, now, missed=missed)
        self._outbox.failed(queued, UNSCHEDULABLE, message, found.plugins, found.decision, result.node)
        if result.writes:
            self._outbox.add(PostFilterWrite(pod, result.writes))
        if result.node:
            if result.victims and self.record.clock is not None:
                _, violations = result.candidates.get(result.node, ((), 0))
                self._outbox.add(VictimsChosen(pod, "pod", len(result.victims), 0, violations))
            self._victims.preempt(pod, result.node, result.victims, now)

    def _failed(self, queued: QueuedPod, message: str, plugins: frozenset[str], now: float) -> None:
        """Have a pod whose attempt broke wait out its backoff, without the node kept for it, as in kube-scheduler."""
        for hear in self._observers.failed:
            hear(queued, SCHEDULER_ERROR, message, plugins, now)
        self._nominator.end(queued.pod, now, real=False)
        self._queue.requeue(queued, now)
        self._outbox.failed(queued, SCHEDULER_ERROR, message, plugins, nominated="")

    def broke(self, message: str, now: float) -> bool:
        """Take back what the attempt that raised may have begun. Its instructions for other pods are kept.

        Returns False if no single pod was tried in this turn.
        """
        queued, self.at_hand = self.at_hand, None
        if queued is None:
            return False
        uid = queued.pod.uid
        self._binding.broke(uid, message, now)
        if uid not in self._queue and self._cluster.placement(uid) is None and self._binding.state(uid) is None:
            self.extender_calls.drop(uid)
            self._failed(queued, message, frozenset(), now)
        return True

    # -- extenders answer --------------------------------------------------------------------------------------------

    def extenders_answered(self, call: ExtenderCall, answer: NodesAnswer | VictimsAnswer, now: float) -> None:
        """Go on with a pod that waited for extenders, on the cluster as it is now."""
        self._schedule(call.queued, now, (call, answer))

    def extenders_failed(self, call: ExtenderCall, message: str, now: float) -> None:
        """Have a pod tried again when an extender failed that may not; in preemption, it stays unschedulable."""
        if isinstance(call.question, NodesQuestion):
            self._failed(call.queued, message, frozenset((EXTENDER,)), now)
            return
        result = PostFilterResult(f"preemption: {message}", in_the_way=frozenset((EXTENDER,)))
        self._unschedulable(call.queued, NoFit(call.decision, result), now)


class ReservedNodes:
    """The nodes whose room is reserved for pod groups, and is kept from one pod.

    They count as rejected by the plugin that asked for the room, before any filter.
    """

    def __init__(self, pod: Pod, cluster: Cluster, within: Bools | None) -> None:
        """`within`: bool[rows], the only nodes that may count; None: all."""
        nodes, wall = cluster.nodes, cluster.devices.wall
        left = nodes.alive[: nodes.rows] if within is None else within & nodes.alive[: nodes.rows]
        self._kept: list[tuple[str, str, Bools]] = []
        """(plugin, its reason, the nodes that are not left)."""
        for room in cluster.reservations.by_profile.values():
            room.follow(nodes, cluster.pods_on, wall)
            mask = room.from_pod(pod, cluster.pod_groups, nodes, wall)
            if mask is not None:
                mask &= left
                left = left & ~mask
                self._kept.append((room.plugin, _kept_for(room, pod), mask))
        self.within = left if self._kept else within
        """bool[rows]: those of them that are left to the pod; None: all nodes are."""

    def report_in(self, decision: Decision) -> None:
        """Count the nodes that are not left in a decision, and if it has no node, add who keeps the pod from them."""
        number = sum(int(np.count_nonzero(mask)) for _, _, mask in self._kept)
        if not number:
            return
        decision.nodes += number
        if not len(decision.feasible):
            plugins = dict.fromkeys(plugin for plugin, _, _ in self._kept)
            decision.rejected[:0] = [
                Rejected(plugin, [(Unresolvable(text), mask) for by, text, mask in self._kept if by == plugin])
                for plugin in plugins
            ]


def _kept_for(room: ReservedRoom, pod: Pod) -> str:
    """Return what is said to a pod; pods of other namespaces are not told the group's name."""
    group = room.group
    whom = f"podgroup {group}" if pod.namespace == group.namespace else "a podgroup of another namespace"
    return f"node(s) whose room is kept for {whom} until {room.expires_text}"
