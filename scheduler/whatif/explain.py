"""Explains one decision: which plugin rejected which node and by how much, the scores, and what would free the pod.

Pure: from a pod, a framework and a cluster to an `Explanation`. `scheduler.report` draws it, `scheduler.cli` prints it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from scheduler.framework.changes import HOSTNAME, AllowPreemption, Uncordon
from scheduler.framework.decision import Decision, fit_error, narrowed_text
from scheduler.framework.explaining import Inquiry
from scheduler.framework.runtime import Framework
from scheduler.framework.status import UNRESOLVABLE, UNSCHEDULABLE, PluginError, Reason, Rejections
from scheduler.model.pod import Pod
from scheduler.model.quantity import BOUND, show
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools
from scheduler.whatif import explanation as shown
from scheduler.whatif.asking import Asking
from scheduler.whatif.commands import commands
from scheduler.whatif.explanation import Explanation
from scheduler.whatif.misspelt import misspelt
from scheduler.whatif.promises import Past, state_of
from scheduler.whatif.remedies import Obstacle, Stuck, remedies

_SHOWN_BEST = 4
_PINS = "NodeAffinity"
_ELSEWHERE = 1000.0
"""More than a node can lack otherwise."""


def explain(
    pod: Pod,
    framework: Framework,
    cluster: Cluster,
    *,
    node: str | None = None,
    notes: Sequence[str] = (),
    past: Past | None = None,
    claimed: bool = True,
) -> Explanation:
    """Decide for a pod that is not in the cluster, and say why.

    `node`: where the pod was before it was taken off for the question; `notes`: what to say besides; `past`: what
    evictors did lately; `claimed`: whether somebody runs the scheduler that the pod names. The cluster is changed and
    changed back while remedies are tried.
    """
    about = _Answer(pod, framework, node, [*notes, *_unknown_namespaces(pod, cluster)])
    try:
        gate = framework.pre_enqueue(pod, cluster)
        decision = framework.decide(pod, cluster, score_always=True)
        message, preemption = None, None
        if not len(decision.feasible):
            made = framework.post_filter_result(pod, cluster, decision)
            message = fit_error(decision, made.text)
            if made.node:
                preemption = shown.Preemption(node=made.node, victims=sorted(victim.key for victim in made.victims))
    except PluginError as error:
        return about.failed(error, cluster)
    asking = Asking(Inquiry(pod, cluster), framework)
    stuck = _stuck(asking, decision)
    if gate is not None:
        message = gate[1].text
    fits = shown.FITS if claimed else shown.UNCLAIMED
    outcome = shown.GATED if gate else fits if len(decision.feasible) else shown.UNSCHEDULABLE
    offered = remedies(asking, stuck) if outcome not in (shown.FITS, shown.UNCLAIMED) else []
    if outcome == shown.UNSCHEDULABLE:
        offered += _preempting(pod, framework, cluster, decision)
        about.notes += misspelt(pod, cluster)
    offered = [structs.replace(each, commands=commands(each.changes, pod)) for each in offered]
    about.notes += asking.notes.values()
    return about.answer(
        outcome,
        decision,
        cluster,
        message=message,
        verdict=decision.verdict or gate,
        rejected=[_rejected(each) for each in stuck],
        preemption=preemption,
        remedies=offered,
        promise=state_of(pod, node, framework, cluster, decision, past),
    )


def _preempting(pod: Pod, framework: Framework, cluster: Cluster, decision: Decision) -> list[shown.Remedy]:
    """What preemption would do for a pod that may not preempt."""
    if pod.preempts:
        return []
    try:
        made = framework.post_filter_result(structs.replace(pod, preempts=True), cluster, decision)
    except PluginError:
        return []
    if not made.node:
        return []
    change = AllowPreemption(len(made.victims))
    return [shown.Remedy(text=str(change), changes=[change], nodes=[made.node], instead=[])]


def _unknown_namespaces(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Dumps made without namespaces look right and answer wrong."""
    terms = (
        *pod.shape.affinity_terms,
        *pod.shape.anti_affinity_terms,
        *(w.term for w in pod.shape.preferred_pod_terms),
    )
    if not cluster.namespaces and any(term.namespace_selector.requirements for term in terms):
        yield "no Namespace is known, so the namespaceSelectors of the pod's terms select none"


class _Answer:
    """The parts of an explanation that every outcome has."""

    def __init__(self, pod: Pod, framework: Framework, node: str | None, notes: list[str]) -> None:
        self._framework = framework
        self.notes = notes + [
            f"{warning}: counts as 0" if "not a quantity" in warning else warning for warning in pod.shape.warnings
        ]
        self._facts = shown.PodFacts(
            namespace=pod.namespace,
            name=pod.name,
            node=node,
            scheduler_name=pod.scheduler_name,
            priority=pod.priority,
            requests={name: show(name, amount) for name, amount in pod.shape.requests.items() if amount},
        )

    def answer(
        self,
        outcome: str,
        decision: Decision,
        cluster: Cluster,
        *,
        message: str | None,
        verdict: tuple[str, Reason] | None,
        rejected: Sequence[shown.RejectedNode] = (),
        preemption: shown.Preemption | None = None,
        remedies: Sequence[shown.Remedy] = (),
        promise: shown.PromiseState | None = None,
    ) -> Explanation:
        feasible = _feasible(decision, cluster)
        return Explanation(
            outcome=outcome,
            pod=self._facts,
            profile=self._framework.profile.name,
            nodes=shown.NodeCounts(total=decision.nodes, feasible=len(feasible)),
            message=message,
            verdict=None
            if verdict is None
            else shown.EarlyRejection(plugin=verdict[0], code=verdict[1].code, reason=verdict[1].text),
            choice=_choice(feasible),
            scorers=[shown.Scorer(plugin=s.plugin, weight=s.weight) for s in decision.scores],
            feasible=feasible,
            rejected=list(rejected),
            summary=_summary(decision),
            preemption=preemption,
            remedies=list(remedies),
            notes=self.notes,
            promise=promise,
        )

    def failed(self, error: PluginError, cluster: Cluster) -> Explanation:
        """A plugin could not answer."""
        nothing = Decision(_NO_POD, cluster.nodes.count, np.zeros(0, dtype=np.intp))
        reason = Reason(error.text)
        return self.answer(shown.FAILED, nothing, cluster, message=str(error), verdict=(error.plugin, reason))


_NO_POD: Any = None


def _stuck(asking: Asking, decision: Decision) -> list[Stuck]:
    """Every rejected node with all that stands in its way, the ones closest to fitting first."""
    if decision.verdict is not None:
        return []
    found: dict[int, Stuck] = {}
    nodes = asking.inquiry.cluster.nodes
    if decision.left_out is not None:
        reason = Reason(narrowed_text(decision), unresolvable=True)
        for row in np.flatnonzero(decision.left_out).tolist():
            found[row] = Stuck(row, nodes.names[row] or "", decision.narrowed_by[0])
            found[row].obstacles.append(Obstacle(decision.narrowed_by[0], reason, True))
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            for row in np.flatnonzero(where).tolist():
                stuck = found.setdefault(row, Stuck(row, nodes.names[row] or "", rejected.plugin))
                stuck.obstacles.append(Obstacle(rejected.plugin, reason, True))
    for plugin, reason, where in _all_rejections(asking, decision):
        for row in np.flatnonzero(where).tolist():
            known = found.get(row)
            if known is not None and not _repeats(asking, known, plugin, reason):
                known.obstacles.append(Obstacle(plugin, reason, False))
    for stuck in found.values():
        for obstacle in stuck.obstacles:
            obstacle.detail, obstacle.numbers = asking.detail(stuck.row, obstacle.plugin, obstacle.reason)
        stuck.distance = _distance(asking, stuck)
    return sorted(found.values(), key=lambda stuck: (stuck.distance, stuck.node))


def _repeats(asking: Asking, stuck: Stuck, plugin: str, reason: Reason) -> bool:
    """Whether this was said of the node already: by the same plugin, or of a cordon, which is a mark and a taint."""
    if any(o.plugin == plugin and (o.first or o.reason == reason) for o in stuck.obstacles):
        return True
    if not asking.inquiry.cluster.nodes.unschedulable[stuck.row]:
        return False

    def only_cordoned(plugin: str, reason: Reason) -> bool:
        fixes = asking.fixes(stuck.row, plugin, [reason])
        return {change for fix in fixes for change in fix} == {Uncordon(stuck.node)}

    return only_cordoned(plugin, reason) and any(only_cordoned(o.plugin, o.reason) for o in stuck.obstacles)


def _all_rejections(asking: Asking, decision: Decision) -> Iterator[tuple[str, Reason, Bools]]:
    """What every filter says of every node, also of those that an earlier one had rejected."""
    if not decision.nodes:
        return
    inquiry, framework = asking.inquiry, asking.framework
    for plugin in framework.profile.plugins("filter"):
        try:
            found: Rejections = framework.guard(plugin, plugin.filter, inquiry.pod, inquiry.cluster)
        except PluginError:  # the decision itself never got to ask it
            continue
        for reason, where in found:
            yield plugin.name, reason, where & inquiry.cluster.nodes.alive[: len(where)]


def _distance(asking: Asking, stuck: Stuck) -> tuple[float, int]:
    """How far a node is from taking the pod: what is missing of each thing, as a share of what the pod asks for.

    What has no amount counts as one, and so does once more what the node would not have if it were empty. Of a pod that
    is pinned to some nodes, all others come after these. Second: the plugins whose rejection no preemption can help.
    """
    hopeless = len({o.plugin for o in stuck.obstacles if o.reason.unresolvable})
    pinned = asking.inquiry.once("pinned", lambda: _pinned(asking.inquiry.pod))
    total = 0.0
    for obstacle in stuck.obstacles:
        share = _missing(obstacle.numbers)
        total += 1.0 if share is None else share + obstacle.reason.unresolvable
        if pinned and obstacle.plugin == _PINS:
            total += _ELSEWHERE
    return total, hopeless


def _pinned(pod: Pod) -> bool:
    """Whether the pod asks for nodes by their names."""
    affinity = pod.shape.required_node_affinity
    terms = () if affinity is None else affinity.terms
    labels = [*pod.shape.node_selector, *(r for term in terms for r in term.labels)]
    return bool(affinity and affinity.names) or any(r.key == HOSTNAME and r.operator == "In" for r in labels)


def _missing(numbers: Mapping[str, Any]) -> float | None:
    """The share that is missing of what is needed; None where the numbers do not say."""
    needed, free = numbers.get("needed"), numbers.get("free")
    if isinstance(needed, int | float) and isinstance(free, int | float) and 0 < needed <= BOUND and abs(free) <= BOUND:
        return (needed - free) / needed
    return None


def _rejected(stuck: Stuck) -> shown.RejectedNode:
    findings = [
        (
            obstacle.first,
            shown.Finding(
                plugin=obstacle.plugin,
                reason=obstacle.reason.text,
                unresolvable=obstacle.reason.unresolvable,
                detail=obstacle.detail,
                numbers=obstacle.numbers,
            ),
        )
        for obstacle in stuck.obstacles
    ]
    own = [finding for first, finding in findings if first]
    return shown.RejectedNode(
        node=stuck.node,
        plugin=stuck.plugin,
        code=UNRESOLVABLE if any(finding.unresolvable for finding in own) else UNSCHEDULABLE,
        findings=own,
        also=[finding for first, finding in findings if not first],
    )


def _feasible(decision: Decision, cluster: Cluster) -> list[shown.FeasibleNode]:
    names = [cluster.nodes.names[row] or "" for row in decision.feasible]
    totals = [0] * len(names) if decision.totals is None else decision.totals.tolist()
    scores: list[dict[str, shown.Score]] = [{} for _ in names]
    for each in decision.scores:
        for i, (raw, weighted) in enumerate(zip(each.raw.tolist(), each.weighted.tolist(), strict=True)):
            scores[i][each.plugin] = shown.Score(raw=raw, weighted=weighted)
    ranks: dict[int, int] = {}
    found = []
    for place, i in enumerate(sorted(range(len(names)), key=lambda i: (-totals[i], names[i])), start=1):
        rank = ranks.setdefault(totals[i], place)
        found.append(shown.FeasibleNode(node=names[i], rank=rank, total=totals[i], scores=scores[i]))
    return found


def _choice(feasible: list[shown.FeasibleNode]) -> shown.Choice | None:
    """Why the first of these wins."""
    if not feasible:
        return None
    winner = feasible[0]
    best = [each.node for each in feasible if each.total == winner.total]
    after = next((each for each in feasible if each.total < winner.total), None)
    differences = []
    if after is not None:
        differences = [
            shown.Difference(plugin=plugin, difference=score.weighted - after.scores[plugin].weighted)
            for plugin, score in winner.scores.items()
            if score.weighted != after.scores[plugin].weighted
        ]
        differences.sort(key=lambda d: (-abs(d.difference), d.plugin))
    if len(feasible) == 1:
        text = "the only node that can take it"
    elif len(best) > 1:
        some = ", ".join(best[:_SHOWN_BEST]) + (", …" if len(best) > _SHOWN_BEST else "")
        text = f"{len(best)} nodes share {winner.total} points ({some}); Berth picks among them by its seed"
    elif after is not None:
        parts = ", ".join(f"{d.plugin} {d.difference:+d}" for d in differences)
        text = f"{winner.total - after.total} points ahead of {after.node}: {parts}"
    else:
        text = ""
    return shown.Choice(
        best=best,
        node=best[0] if len(best) == 1 else None,
        text=text,
        runner_up=after.node if after else None,
        lead=winner.total - after.total if after else 0,
        differences=differences,
    )


def _summary(decision: Decision) -> list[shown.ReasonCount]:
    """Nodes by plugin and reason, the most frequent first."""
    counts: dict[tuple[str, str], int] = {}
    if decision.left_out is not None and decision.left_out.any() and decision.verdict is None:
        counts[(decision.narrowed_by[0], narrowed_text(decision))] = int(np.count_nonzero(decision.left_out))
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            key = (rejected.plugin, reason.text)
            counts[key] = counts.get(key, 0) + int(np.count_nonzero(where))
    return [
        shown.ReasonCount(plugin=plugin, reason=reason, nodes=nodes)
        for (plugin, reason), nodes in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if nodes
    ]
