"""Explains one decision: which plugin rejected which node and by how much, the scores, and what would free the pod.

No I/O: from a pod, a framework and a cluster to an `Explanation`, which `explain.report` draws and `cli` prints.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from podberth.cache.cluster import Cluster
from podberth.explain import explanation as shown
from podberth.explain.changes import AllowPreemption, AwaitPod, MovePod, OnPod
from podberth.explain.commands import commands
from podberth.explain.doubts import counts_nobody, misspelt
from podberth.explain.explanation import Explanation
from podberth.explain.promises import Past, state_of
from podberth.explain.rejections import Asking, Stuck, cause, goes_after, rejections, stuck_at
from podberth.explain.remedies import SideEffects, remedies
from podberth.explain.report.wording import most_first
from podberth.explain.trial import Trial
from podberth.explain.written import Written
from podberth.framework.decision import Decision, fit_error
from podberth.framework.explaining import Detail, Inquiry
from podberth.framework.runtime import Framework
from podberth.framework.status import UNRESOLVABLE, UNSCHEDULABLE, PluginError, Reason
from podberth.model.pod import Pod
from podberth.model.quantity import show
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.scheduling_gates import SchedulingGates

_SHOWN_BEST = 4
_WITH_DEVICES = 10


def explain(
    pod: Pod,
    framework: Framework,
    cluster: Cluster,
    *,
    node: str | None = None,
    notes: Sequence[str] = (),
    past: Past | None = None,
    instead: Sequence[str] = (),
    others: Iterable[Pod] = (),
    written: Written | None = None,
    unheld: Sequence[str] = (),
) -> Explanation:
    """Decide for a pod that is not in the cluster, and say why.

    `node`: where the pod was before it was taken off for the question; `notes`: what to say besides; `past`: what
    evictors did lately; `instead`: schedulers that run and that the pod could name, where nobody runs the one that it
    names, and `framework` is theirs; `others`: pods that wait too, for what changes would do to them; `written`: the
    pod as it was written, for commands that change it; `unheld`: kinds that decide about it and of which the dump holds
    none. The cluster is changed and changed back while remedies are tried.
    """
    about = _Answer(pod, framework, node, [*notes, *_unknown_namespaces(pod, cluster)], unheld)
    if pod.terminating and node is None:
        return about.failed(f"skip schedule deleting pod: {pod.key}", None, cluster, outcome=shown.TERMINATING)
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
        return about.failed(str(error), (error.plugin, Reason(error.text)), cluster)
    asking = Asking(Inquiry(pod, cluster), framework)
    if gate is not None:
        message = gate[1].text
    fits = shown.UNCLAIMED if instead else shown.FITS
    outcome = shown.GATED if gate else fits if len(decision.feasible) else shown.UNSCHEDULABLE
    why = None if gate is None or gate[0] == SchedulingGates.name else gate[1].text
    stuck = stuck_at(asking, decision)
    offered: list[shown.Remedy] = []
    if outcome != shown.FITS:
        trial = Trial(asking, written, others)
        offered = remedies(asking, trial, stuck, instead)
        about.notes += dict.fromkeys(trial.notes)
    effects = SideEffects(asking, others)
    if outcome == shown.UNSCHEDULABLE:
        meant = list(misspelt(pod, cluster))
        offered += _preempting(pod, framework, cluster, effects, written, about.notes)
        why = cause(asking, decision, stuck, meant)
        if offered and all(isinstance(change, AwaitPod) for change in offered[0].changes):
            why = f"{why}; it has only to {offered[0].text}"
        elif after := goes_after(stuck):
            why = f"{why}; {after}"
        about.notes += meant
    offered = [structs.replace(each, effects=each.effects or effects.of(each.changes)) for each in offered]
    about.notes += counts_nobody(pod, cluster)
    about.notes += _unchangeable(pod, offered, in_file=bool(written and written.file))
    about.notes += _of_a_daemon(pod, cluster)
    about.notes += asking.notes.values()
    return about.answer(
        outcome,
        decision,
        cluster,
        message=message,
        verdict=decision.verdict or gate,
        detail=None if decision.verdict is None else asking.detail_of_pod(*decision.verdict),
        cause=why,
        rejected=[_rejected(each) for each in stuck],
        preemption=preemption,
        remedies=offered,
        promise=state_of(pod, node, framework, cluster, decision, past),
    )


def told(decision: Decision, framework: Framework, cluster: Cluster) -> Explanation:
    """Return what there is to say of a decision that was just made, but for the changes that would help."""
    asking, verdict = Asking(Inquiry(decision.pod, cluster), framework), decision.verdict
    return _Answer(decision.pod, framework, None, [], ()).answer(
        shown.FITS if len(decision.feasible) else shown.UNSCHEDULABLE,
        decision,
        cluster,
        message=None,
        verdict=verdict,
        detail=None if verdict is None else asking.detail_of_pod(*verdict),
        rejected=[_rejected(each) for each in stuck_at(asking, decision)],
    )


def _preempting(
    pod: Pod,
    framework: Framework,
    cluster: Cluster,
    effects: SideEffects,
    written: Written | None,
    notes: list[str],
) -> list[shown.Remedy]:
    """Return a remedy if the pod would get a node by preempting, which its preemptionPolicy forbids.

    Where a plugin fails, `notes` says so.
    """
    if pod.preempts:
        return []
    allowed = structs.replace(pod, preempts=True)
    try:
        # Decided again: nodes that were tried have left rows, which the first decision does not know.
        made = framework.post_filter_result(allowed, cluster, framework.find(allowed, cluster))
    except PluginError as error:
        notes.append(f"whether the pod would get a node if it might preempt is not known: {error}")
        return []
    if not made.node:
        return []
    change = AllowPreemption(len(made.victims))
    found = commands([change], pod, written)
    if found is None or not all(each.preempts for each in found.pods):
        return []
    leave = [MovePod(victim.key, made.node) for victim in made.victims]
    return [shown.Remedy(str(change), [change], [made.node], [], found.lines, effects.of(leave))]


def _unchangeable(pod: Pod, offered: Sequence[shown.Remedy], *, in_file: bool) -> Iterator[str]:
    """Yield a note on a template that can't be changed in place."""
    of_pod = any(isinstance(change, OnPod) for each in offered if not each.commands for change in each.changes)
    if of_pod and not in_file and pod.owner is not None and pod.owner[0] == "Job":
        yield f"the pods of a Job can't be changed: delete the Job {pod.owner[1]} and create it again with the change"


def _of_a_daemon(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield a note for a pod of a DaemonSet: it is for one node."""
    required = pod.shape.required_node_affinity
    if pod.owner is None or pod.owner[0] != "DaemonSet" or required is None:
        return
    for name in sorted(required.names or ()):
        gone = cluster.nodes.live_row(name) is None
        deletes = ": its controller deletes it when it sees that the node is gone" if gone else ""
        yield f"the DaemonSet {pod.owner[1]} makes a pod for each node; this one is for {name}{deletes}"


def _unknown_namespaces(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield a note if terms select namespaces by label and none is known: the answer would look right and be wrong."""
    terms = (
        *pod.shape.affinity_terms,
        *pod.shape.anti_affinity_terms,
        *(w.term for w in pod.shape.preferred_pod_terms),
    )
    if not cluster.namespaces and any(term.namespace_selector.requirements for term in terms):
        yield "no Namespace is known, so the namespaceSelectors of the pod's terms select none"


class _Answer:
    """The parts of an explanation that every outcome has."""

    def __init__(
        self, pod: Pod, framework: Framework, node: str | None, notes: list[str], unheld: Sequence[str]
    ) -> None:
        self._unheld = list(unheld)
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
        verdict: tuple[str, Reason] | None,
        detail: Detail | None = None,
        **parts: Any,
    ) -> Explanation:
        """Return the answer. `parts`: those of its fields that do not follow from the decision."""
        feasible = _feasible(decision, cluster)
        self._add_devices(feasible, decision, cluster)
        return Explanation(
            outcome=outcome,
            pod=self._facts,
            profile=self._framework.profile.name,
            nodes=shown.NodeCounts(total=decision.nodes, feasible=len(feasible)),
            verdict=None if verdict is None else _early(*verdict, detail),
            unheld=self._unheld,
            choice=_choice(feasible),
            scorers=[shown.Scorer(plugin=s.plugin, weight=s.weight) for s in decision.scores],
            feasible=feasible,
            summary=_summary(decision),
            notes=self.notes,
            **parts,
        )

    def _add_devices(self, feasible: list[shown.FeasibleNode], decision: Decision, cluster: Cluster) -> None:
        """Add to the first nodes the devices that the pod's claims would get there, and a note where kube-scheduler
        would not have found them.
        """
        plugin = self._framework.plugin("DynamicResources")
        if not isinstance(plugin, DynamicResources):
            return
        further = []
        for i, each in enumerate(feasible[:_WITH_DEVICES]):
            row = cluster.nodes.row_of(each.node)
            assert row is not None
            given = plugin.given(decision.pod, cluster, row) or {}
            devices = {claim: [str(device.id) for device in of_it] for claim, of_it in given.items()}
            feasible[i] = structs.replace(each, devices=devices)
            if plugin.looked_further(decision.pod, cluster, row):
                further.append(each.node)
        if further:
            where = f"node{'s' if len(further) > 1 else ''} {', '.join(further)}"
            self.notes.append(
                f"kube-scheduler's search finds no devices on {where}: looking further (furtherSearchSteps) did"
            )

    def failed(
        self, message: str, verdict: tuple[str, Reason] | None, cluster: Cluster, outcome: str = shown.FAILED
    ) -> Explanation:
        """Return the answer where nothing was decided. `verdict`: the plugin that failed, and why; None: none did."""
        nothing = Decision(_NO_POD, cluster.nodes.count, np.zeros(0, dtype=np.intp))
        return self.answer(outcome, nothing, cluster, message=message, verdict=verdict)


_NO_POD: Any = None


def _early(plugin: str, reason: Reason, detail: Detail | None) -> shown.EarlyRejection:
    text, numbers = detail or (reason.text, {})
    return shown.EarlyRejection(plugin=plugin, code=reason.code, reason=reason.text, detail=text, numbers=numbers)


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
    """Return the reason for which the first of these nodes wins."""
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
        text = f"{len(best):,} nodes share {winner.total:,} points ({some}); Berth picks among them by its seed"
    else:
        assert after is not None  # there are others, and none has as many points
        parts = ", ".join(f"{d.plugin} {d.difference:+d}" for d in differences)
        text = f"{winner.total - after.total} points ahead of {after.node}: {parts}"
    return shown.Choice(
        best=best,
        node=best[0] if len(best) == 1 else None,
        text=text,
        runner_up=after.node if after else None,
        lead=winner.total - after.total if after else 0,
        differences=differences,
    )


def _summary(decision: Decision) -> list[shown.ReasonCount]:
    """Return the number of nodes by plugin and reason, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    for plugin, reason, where in rejections(decision) if decision.verdict is None else ():
        counts[plugin, reason.text] += int(np.count_nonzero(where))
    return [
        shown.ReasonCount(plugin=plugin, reason=text, nodes=nodes)
        for (plugin, text), nodes in most_first(counts).items()
        if nodes
    ]
