"""Upstream: plugins/defaultpreemption and framework/preemption. Where it helps is found in dry_run.py."""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.framework.config import Percent
from podberth.framework.decision import Decision
from podberth.framework.interface import FailedGroup, Filters, GroupPostFilterResult, Plugin, PostFilterResult
from podberth.model.pod import Pod
from podberth.plugins.default_preemption.candidates import DryRunResults
from podberth.plugins.default_preemption.dry_run import DryRuns

_NAMED = 10
"""A message names at most so many nodes on which the pod fits without victims."""


class DefaultPreemptionArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Limits on the nodes that a dry run looks at where it has to take them one by one."""

    min_candidate_nodes_percentage: Percent = 10
    """Candidates in percent of all nodes that are enough for a pod with terms, constraints or volumes."""
    min_candidate_nodes_absolute: Annotated[int, Meta(extra_json_schema={"minimum": 0})] = 100
    """The least number of candidates; not 0 together with the percentage."""


class DefaultPreemption(Plugin):
    """Make room by removing pods of lower priority: as few PodDisruptionBudgets violated as possible, then as few and
    as unimportant pods as possible.
    """

    name = "DefaultPreemption"
    only_preempts = True
    Args = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs) -> None:
        self._args = args
        self.dry_runs = DryRuns()

    @staticmethod
    def check(args: DefaultPreemptionArgs, path: str) -> list[str]:
        """Errors of the arguments (ValidateDefaultPreemptionArgs)."""
        percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        of_percentage = f"{path}.minCandidateNodesPercentage: Invalid value: {percentage}"
        of_absolute = f"{path}.minCandidateNodesAbsolute: Invalid value: {absolute}"
        errors = []
        if not 0 <= percentage <= 100:
            errors.append(f"{of_percentage}: not in valid range [0, 100]")
        if absolute < 0:
            errors.append(f"{of_absolute}: not in valid range [0, inf)")
        if not percentage and not absolute:
            errors.append(f"{of_percentage}: cannot be zero at the same time as minCandidateNodesAbsolute")
            errors.append(f"{of_absolute}: cannot be zero at the same time as minCandidateNodesPercentage")
        return errors

    def post_filter(self, pod: Pod, cluster: Cluster, decision: Decision, filters: Filters) -> PostFilterResult:
        """Find a node where preemption helps, or say how many nodes it can't help on and why."""
        if not decision.nodes:
            return PostFilterResult("")
        nodes = cluster.nodes
        hopeless = decision.unresolvable(nodes.rows)
        refusal = self._not_eligible(pod, cluster, hopeless)
        if refusal:
            return PostFilterResult(f"preemption: {refusal}")
        rows = nodes.alive[: nodes.rows] & ~hopeless
        at_most = self._at_most(int(np.count_nonzero(rows)))
        results, chosen, gave_up = self.dry_runs.find(pod, cluster, filters, rows, at_most)
        if chosen is None and gave_up:
            return PostFilterResult(f"preemption: {gave_up}, and had found none")
        if chosen is None:
            text, in_the_way = _no_candidates(decision.nodes, results, rows)
            spared = results.spared(rows)
            if not len(spared):
                return PostFilterResult(f"preemption: {text}", node="", in_the_way=in_the_way)
            # As in kube-scheduler, this is an error, and a node that was kept for the pod before goes on being kept.
            by_name = spared[self.dry_runs.name_ranks(nodes)[spared].argsort()]
            text = _nobody_in_the_way([nodes.names[row] or "" for row in by_name[:_NAMED].tolist()], len(spared))
            return PostFilterResult(f"preemption: {text}", in_the_way=in_the_way)
        node, victims = nodes.names[chosen] or "", results.victims(chosen)
        text = f"found a potential placement for pod on node {node}, preempting {len(victims)} victims"
        offers = results.offers(results.helpful(rows), nodes.names)
        return PostFilterResult(f"preemption: {text}", node, victims, offers)

    def post_filter_group(self, failed: FailedGroup, cluster: Cluster) -> GroupPostFilterResult:
        """Have room made for a group, in the whole cluster (`podberth.engine.pod_groups.preemption`)."""
        return GroupPostFilterResult(preempts=True)

    def _at_most(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)

    def _not_eligible(self, pod: Pod, cluster: Cluster, hopeless: Bools) -> str:
        """Return why the pod may not preempt now (PodEligibleToPreemptOthers); empty when it may."""
        if not pod.preempts:
            return "not eligible due to preemptionPolicy=Never."
        kept = cluster.nominations.node_of.get(pod.uid) or pod.nominated_node_name
        row = cluster.nodes.live_row(kept) if kept else None
        if row is not None and not hopeless[row]:
            leaving = (other for other in cluster.pods_on(row) if other.terminating and other.preempted)
            if any(cluster.pod_groups.priority_of(other) < pod.priority for other in leaving):
                return "not eligible due to a terminating pod on the nominated node."
        return ""


def _nobody_in_the_way(named: list[str], count: int) -> str:
    """Return the message about a pod that fits so many nodes without any victim; an extender may have refused them.

    `named`: the first of them. kube-scheduler names all, in any order.
    """
    texts = [f'expected at least one victim pod on node "{node}"' for node in named]
    if count > len(named):
        texts.append(f"and on {count - len(named):,} more")
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _no_candidates(nodes: int, results: DryRunResults, rows: Bools) -> tuple[str, frozenset[str]]:
    """Return (the FitError of the dry runs, the plugins that reject a node even without its victims).

    It counts the nodes that are rejected even then, those without victims, and those where preemption is not helpful.
    """
    counts, plugins, failed = results.counts(rows)
    without_victims = results.without_victims(rows)
    if without_victims:
        counts["No preemption victims found for incoming pod"] = without_victims
    rest = nodes - failed - without_victims
    if rest:
        counts["Preemption is not helpful for scheduling"] = rest
    text = ", ".join(sorted(f"{n} {reason}" for reason, n in counts.items()))
    return f"0/{nodes} nodes are available: {text}.", plugins
