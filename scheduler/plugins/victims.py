"""Upstream: framework/preemption (preemption.go, util.go) and defaultpreemption (SelectVictimsOnNode): whom to preempt.

All candidate nodes are tried at once, one victim of each per step, unless what happens on one node can change the
verdict on another (affinity, spread): then they are tried one by one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from scheduler.framework.decision import Rejected
from scheduler.framework.plugin import Filters
from scheduler.model.namespaced import Selecting
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.column import Bools
from scheduler.state.nodes import Nodes

_NOT_STARTED = "~"
"""Sorts after every RFC 3339 time: a pod that has not started starts now (GetPodStartTime)."""
_PRIORITY_OFFSET = 1 << 31
_KEPT_MOST = 16


@dataclass(slots=True)
class Candidate:
    """A node and the pods that would have to leave it, most important first."""

    row: int
    victims: list[Pod] = field(default_factory=list)
    violations: int = 0
    """Victims whose disruption budget would be overdrawn."""
    cost: tuple[int, int, int, int] = (0, 0, 0, 0)
    """What is to be as low as possible: violations, highest priority, sum of priorities, number."""
    start: str = ""
    """When the first of the most important victims started."""

    def settle(self) -> None:
        """All victims are known."""
        self.victims.sort(key=lambda victim: (-victim.priority, _started(victim)))
        if self.victims:
            total = sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims)
            highest = self.victims[0].priority
            self.cost = self.violations, highest, total, len(self.victims)
            self.start = min(_started(victim) for victim in self.victims if victim.priority == highest)


@dataclass(slots=True)
class DryRun:
    """What trying gave: nodes where preemption helps, and who rejected the pod even on an emptied node."""

    candidates: list[Candidate]
    rejected: list[Rejected]
    without_victims: int
    """Nodes where nobody has a lower priority."""


@dataclass(slots=True)
class _Trial:
    """One node under trial. `order`: the order in which victims are given back, budget breakers first."""

    candidate: Candidate
    order: list[tuple[Placement, bool]]


def dry_run(pod: Pod, cluster: Cluster, filters: Filters, rows: Bools, at_most: int) -> DryRun:
    """Try preemption on the given rows.

    `at_most`: how many nodes are looked at where they have to be tried one by one.
    """
    trials, without_victims = _trials(pod, cluster, rows)
    result = DryRun([], [], without_victims)
    victims = (placement.pod for trial in trials for placement, _ in trial.order)
    if filters.reads_other_rows(pod, cluster, victims):
        for trial in trials:
            _try([trial], pod, cluster, filters, result)
            if len(result.candidates) >= at_most:
                break
    elif trials:
        _try(trials, pod, cluster, filters, result, usage_only=filters.by_shape(pod))
    return result


def _trials(pod: Pod, cluster: Cluster, rows: Bools) -> tuple[list[_Trial], int]:
    """The nodes to try, and on how many of the rows nobody has a lower priority."""
    trials = []
    without_victims = 0
    for row in map(int, np.flatnonzero(rows)):
        lower = [placement for placement in cluster.placements_on(row) if placement.pod.priority < pod.priority]
        if lower:
            trials.append(_Trial(Candidate(row), _reprieve_order(lower, cluster)))
        else:
            without_victims += 1
    return trials, without_victims


class Trials:
    """What trying gave for pods of one shape and priority, kept from pod to pod.

    A queue of equal preemptors tries again only the nodes where something changed: pods, nominations, the node.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[PodShape, int], _Kept] = {}

    def candidates(self, pod: Pod, cluster: Cluster, filters: Filters, rows: Bools) -> list[Candidate] | None:
        """Where preemption helps, among the given rows; None when this can't be kept by row."""
        if not filters.by_shape(pod) or filters.reads_other_rows(pod, cluster, ()):
            return None
        nodes, key = cluster.nodes, (pod.shape, pod.priority)
        ahead = _ahead(pod, cluster)
        kept = self._kept.pop(key, None)
        changed = None
        if kept is not None and kept.nodes is nodes and kept.budgets == cluster.budget_changes:
            changed = nodes.log.since(kept.version)
        if kept is None or changed is None:
            kept = _Kept(nodes)
            again = rows
        else:
            changed |= {row for row in ahead.keys() | kept.ahead.keys() if ahead.get(row) != kept.ahead.get(row)}
            again = np.zeros_like(rows)
            again[list(changed)] = True
            again &= rows
            for row in changed:
                kept.candidates.pop(row, None)
        trials, _ = _trials(pod, cluster, again)
        if trials:
            # Together, though victims may repel others: terms that would repel this pod are asked about above.
            result = DryRun([], [], 0)
            _try(trials, pod, cluster, filters, result, usage_only=True)
            kept.candidates |= {candidate.row: candidate for candidate in result.candidates}
        kept.version, kept.budgets, kept.ahead = nodes.log.version, cluster.budget_changes, ahead
        if len(self._kept) >= _KEPT_MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
        return list(kept.candidates.values())


@dataclass(slots=True)
class _Kept:
    nodes: Nodes
    candidates: dict[int, Candidate] = field(default_factory=dict)
    version: int = 0
    budgets: int = 0
    ahead: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Row → UIDs of the nominated pods that were yielded to."""


def _ahead(pod: Pod, cluster: Cluster) -> dict[int, tuple[str, ...]]:
    found = {}
    for name, pods in cluster.nominations.ahead_of(pod):
        row = cluster.nodes.live_row(name)
        if row is not None:
            found[row] = tuple(other.uid for other in pods)
    return found


def pick(candidates: Iterable[Candidate], names: list[str | None]) -> Candidate:
    """The node to preempt on (pickOneNodeForPreemption); the name decides what would be anyone's choice."""

    found = list(candidates)
    lowest = min(candidate.cost for candidate in found)
    cheapest = [candidate for candidate in found if candidate.cost == lowest]
    latest = max(candidate.start for candidate in cheapest)
    return min(
        (candidate for candidate in cheapest if candidate.start == latest),
        key=lambda candidate: names[candidate.row] or "",
    )


def _started(pod: Pod) -> str:
    return pod.started or _NOT_STARTED


def _importance(placement: Placement) -> tuple[int, str]:
    """Sort key, most important first: higher priority, then the longer running."""
    return -placement.pod.priority, _started(placement.pod)


def _try(
    trials: list[_Trial], pod: Pod, cluster: Cluster, filters: Filters, result: DryRun, *, usage_only: bool = False
) -> None:
    """Take all victims away; where the pod then fits, give back one by one whoever need not go.

    `usage_only`: count them in `nodes`, and nowhere else.
    """
    lifted: dict[str, Placement] = {}

    def count(placements: list[Placement], sign: int) -> None:
        if usage_only:
            cluster.nodes.suppose_all([(placement.row, placement.pod.shape) for placement in placements], sign)
        elif sign < 0:
            for placement in placements:
                cluster.lift(placement)
        else:
            for placement in placements:
                cluster.lower(placement)

    def lift(placements: list[Placement]) -> None:
        count(placements, -1)
        lifted.update((placement.pod.uid, placement) for placement in placements)

    def lower(placements: list[Placement]) -> None:
        count(placements, 1)
        for placement in placements:
            del lifted[placement.pod.uid]

    try:
        lift([placement for trial in trials for placement, _ in trial.order])
        among = np.zeros(cluster.nodes.rows, dtype=np.bool_)
        among[[trial.candidate.row for trial in trials]] = True
        fits, rejected = filters.passing(pod, cluster, among)
        result.rejected.extend(rejected)
        going = [trial for trial in trials if fits[trial.candidate.row]]
        for step in range(max((len(trial.order) for trial in going), default=0)):
            trying = [trial for trial in going if step < len(trial.order)]
            lower([trial.order[step][0] for trial in trying])
            among[:] = False
            among[[trial.candidate.row for trial in trying]] = True
            fits, _ = filters.passing(pod, cluster, among)
            victims = []
            for trial in trying:
                if not fits[trial.candidate.row]:
                    placement, violating = trial.order[step]
                    victims.append(placement)
                    trial.candidate.victims.append(placement.pod)
                    trial.candidate.violations += violating
            lift(victims)
    finally:
        lower(list(lifted.values()))
    for trial in going:
        trial.candidate.settle()
        if trial.candidate.victims:
            result.candidates.append(trial.candidate)


def _reprieve_order(placements: list[Placement], cluster: Cluster) -> list[tuple[Placement, bool]]:
    """Who is given back first: those whose budget would break, then the rest, each by importance."""
    ordered = sorted(placements, key=_importance)
    budgets = cluster.selecting.get("PodDisruptionBudget")
    if not budgets:
        return [(placement, False) for placement in ordered]
    allowed = {budget.uid or budget.name: budget.allowed for found in budgets.values() for budget in found.values()}
    breaking = {p.pod.uid for p in ordered if _breaks(p.pod, budgets.get(p.pod.namespace, {}).values(), allowed)}
    return [(p, True) for p in ordered if p.pod.uid in breaking] + [
        (p, False) for p in ordered if p.pod.uid not in breaking
    ]


def _breaks(pod: Pod, budgets: Iterable[Selecting], allowed: dict[str, int]) -> bool:
    """Whether evicting the pod overdraws a budget; draws on it (FilterVictimsWithPDBViolation)."""
    if not pod.labels:
        return False
    for budget in budgets:
        selector = budget.selector
        if selector.nothing or selector.is_everything or not selector.matches(pod.labels):
            continue
        if pod.name in budget.disrupted:
            continue
        key = budget.uid or budget.name
        allowed[key] -= 1
        if allowed[key] < 0:
            return True
    return False
