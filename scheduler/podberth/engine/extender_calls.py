"""Pods whose decision waits for HTTP extenders. Scheduling goes on meanwhile; the answer is applied to the cluster as
it is by then.

Mirrors kube-scheduler `schedule_one.go` (findNodesThatPassExtenders) and `framework/preemption` (callExtenders), where
the scheduling cycle waits for each answer.
"""

from collections.abc import Mapping

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.instructions import AskExtenders
from podberth.engine.queue.queued import QueuedPod
from podberth.framework.config import Extender
from podberth.framework.decision import Decision
from podberth.framework.extenders import (
    EXTENDER,
    NodesAnswer,
    NodesQuestion,
    Question,
    VictimsAnswer,
    VictimsQuestion,
    add_scores,
    interested,
    keep_accepted,
)
from podberth.framework.interface import PostFilterResult
from podberth.framework.runtime import Framework, Rotation
from podberth.model.pod import Pod
from podberth.plugins.default_preemption.candidates import Candidate, pick


class ExtenderCall(Struct):
    """A pod that waits for extenders."""

    queued: QueuedPod
    question: Question
    decision: Decision
    nominated: bool = False
    """Only the pod's nominated node was asked about; the other nodes follow if extenders reject it."""


class ExtenderCalls:
    """Asks HTTP extenders, and keeps the pods that wait for their answers, by UID."""

    def __init__(
        self,
        cluster: Cluster,
        frameworks: Mapping[str, Framework],
        rotation: Rotation,
        extenders: tuple[Extender, ...],
    ) -> None:
        self._cluster = cluster
        self._frameworks = frameworks
        self._rotation = rotation
        self.extenders = extenders
        """All extenders that are configured."""
        self.waiting: dict[str, ExtenderCall] = {}
        """The pods that wait for an answer, by UID."""

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Decide by these profiles from now on. A pod that waits may be of none of them: its answer is not applied."""
        self._frameworks = frameworks

    def about(self, cluster: Cluster, profile: str, framework: Framework) -> "ExtenderCalls":
        """Return the same extenders, for questions about another cluster: one in which a plan is made."""
        return ExtenderCalls(cluster, {profile: framework}, Rotation(), self.extenders)

    def on_nodes(self, pod: Pod) -> tuple[Extender, ...]:
        """Return the extenders that want to be asked about the nodes for a pod."""
        if not self.extenders:
            return ()
        return tuple(e for e in self.extenders if (e.filter_verb or e.prioritize_verb) and interested(e, pod))

    def any_for(self, pod: Pod) -> bool:
        """Return whether any extender is asked anything about a pod."""
        return bool(self.on_nodes(pod) or self.on_victims(pod))

    def on_victims(self, pod: Pod) -> tuple[Extender, ...]:
        """Return the extenders that want to be asked about the victims of a pod."""
        return tuple(e for e in self.extenders if e.preempt_verb and interested(e, pod))

    def ask_about_nodes(
        self,
        queued: QueuedPod,
        extenders: tuple[Extender, ...],
        *,
        nominated: bool = True,
        within: Bools | None = None,
    ) -> Decision | AskExtenders:
        """Let extenders choose among the nodes that the filters leave; the decision, if they leave none.

        `within`: bool[rows], the only nodes that count. Raises PluginError.
        """
        pod, cluster = queued.pod, self._cluster
        framework = self._frameworks[pod.scheduler_name]
        decision = framework.find(pod, cluster, self._rotation, nominated=nominated, within=within)
        if not len(decision.feasible):
            return decision
        names = tuple([cluster.nodes.names[row] or "" for row in decision.feasible])
        only = nominated and names == (cluster.nominations.node_of.get(pod.uid) or pod.nominated_node_name,)
        return self.ask(ExtenderCall(queued, NodesQuestion(pod, extenders, names), decision, only))

    def ask_about_victims(
        self, queued: QueuedPod, extenders: tuple[Extender, ...], decision: Decision, result: PostFilterResult
    ) -> AskExtenders:
        """Let extenders choose among the nodes where preemption would help."""
        return self.ask(ExtenderCall(queued, VictimsQuestion(queued.pod, extenders, dict(result.candidates)), decision))

    def apply_answer(
        self, call: ExtenderCall, answer: NodesAnswer | VictimsAnswer, within: Bools | None = None
    ) -> Decision | AskExtenders | PostFilterResult:
        """Return what follows from an answer: a decision, another question, or victims to preempt.

        `within`: as for `ask_about_nodes`. Raises PluginError.
        """
        if not isinstance(answer, NodesAnswer):
            return preempting(answer, self._cluster)
        queued, question = call.queued, call.question
        if call.nominated and not answer.kept:
            return self.ask_about_nodes(queued, question.extenders, nominated=False, within=within)
        framework = self._frameworks[queued.pod.scheduler_name]
        decision = framework.find(queued.pod, self._cluster, nominated=False, within=within)
        asked = question.nodes if isinstance(question, NodesQuestion) else ()
        if not keep_accepted(decision, answer, asked, self._cluster):
            return self.ask_about_nodes(queued, question.extenders, nominated=False, within=within)
        if len(decision.feasible) > 1:
            framework.rank(decision, self._cluster)
            add_scores(decision, answer, self._cluster)
        return decision

    def ask(self, call: ExtenderCall) -> AskExtenders:
        """Have a pod wait here for the answer to its question, which may have been put together by `about`."""
        self.waiting[call.queued.pod.uid] = call
        return AskExtenders(call.queued.pod, call.question)

    def take(self, question: Question) -> ExtenderCall | None:
        """Take out and return the pod that waits for the answer to this very question; None: none does."""
        found = self.waiting.get(question.pod.uid)
        return self.waiting.pop(question.pod.uid) if found is not None and found.question is question else None

    def drop(self, uid: str) -> QueuedPod | None:
        """Take out and return a pod that is gone, or placed; None: it does not wait here."""
        found = self.waiting.pop(uid, None)
        return found.queued if found is not None else None


def preempting(answer: VictimsAnswer, cluster: Cluster) -> PostFilterResult:
    """Return the node to preempt on, of those that the extenders left.

    Pods that went away meanwhile need no removing; a node without victims is no candidate any more. Of a group that
    goes as a whole all pods have to go, on whichever nodes they are.
    """
    candidates = []
    for name, (uids, violations) in answer.items():
        row = cluster.nodes.live_row(name)
        there = [cluster.placement(uid) for uid in uids]
        victims: dict[str, Pod] = {}
        for placement in there:
            if placement is not None and placement.row == row:
                whole = cluster.pod_groups.whole(placement.pod)
                together = (placement.pod,) if whole is None else whole.with_node
                victims |= {pod.uid: pod for pod in together}
        if row is not None and victims:
            candidates.append(Candidate(row, list(victims.values()), violations))
            candidates[-1].settle()
    if not candidates:
        return PostFilterResult("preemption: no candidate node for preemption", in_the_way=frozenset((EXTENDER,)))
    chosen = pick(candidates, cluster.nodes.names)
    node = cluster.nodes.names[chosen.row] or ""
    text = f"found a potential placement for pod on node {node}, preempting {len(chosen.victims)} victims"
    return PostFilterResult(f"preemption: {text}", node, tuple(chosen.victims))
