"""The cycle of a pod group in thought: which nodes its pods would find in a cluster without any victim.

As `scheduler.engine.pod_groups.cycle` and `placements`, in a cluster that nobody else looks at: nothing is reserved,
and nothing has to be given back. Mirrors kube-scheduler `schedule_one_podgroup.go` (runRootSchedulingAlgorithm).
"""

from collections.abc import Callable, Generator
from typing import TypeVar

import numpy as np

from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.results import GROUP_UNSCHEDULABLE, GroupAttempt, Member, unsatisfied
from scheduler.engine.turns import ORDINARY
from scheduler.framework.decision import Decision
from scheduler.framework.placement import Assignment, Placement, Running
from scheduler.framework.runtime import Framework
from scheduler.framework.sampling import Rotation
from scheduler.model.pod import Pod
from scheduler.plugins.default_preemption.sparing import asking
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools

_MOVED = 20
"""Steps of a pod that is assumed in thought, or forgotten."""
Found = TypeVar("Found")
Steps = Generator[int, None, Found]
Assigned = list[tuple[Pod, int]]
"""Pods that find a node, in the order in which they were tried, with their rows."""


class Trial:
    """Tries one group."""

    def __init__(
        self,
        attempt: GroupAttempt,
        cluster: Cluster,
        framework: Framework,
        running: list[Running],
        scheduled: int,
        pick: Callable[[str, int], int],
    ) -> None:
        """`cluster`: without the victims. `running`: the group's pods that run; `scheduled`: how many have a node.

        `pick`: which of several equally good nodes or placements is taken.
        """
        self._attempt = attempt
        self._cluster = cluster
        self._framework = framework
        self._running = running
        self._scheduled = scheduled
        self._pick = pick
        self._rotation = Rotation()

    def run(self) -> Steps[tuple[str, Assigned]]:
        """(why the group does not fit, its pods with their rows); yields the steps that it took.

        Afterwards, the cluster is as it was. Raises PluginError.
        """
        plugins = self._framework.placements
        if not plugins.wanted:
            return (yield from self._on(None))
        cluster, group = self._cluster, self._attempt.group
        placements = yield from asking(cluster, lambda: plugins.generate(group, self._running, cluster))
        if not placements:
            return "no feasible placements found", []
        fitting: list[tuple[Placement, Assigned, tuple[int, ...]]] = []
        first = ""
        for placement in placements:
            why, assigned = yield from self._on(placement)
            if why:
                first = first or why
                continue
            pods = [pod for pod, _ in assigned]
            scores = plugins.scores(Assignment(group, placement, pods, self._scheduled), cluster)
            fitting.append((placement, assigned, scores))
            yield ORDINARY + len(pods)
        if not fitting:
            number = len(placements)
            said = f"0/{number} placements are available, first placement status: {first}"
            return f"{GROUP_UNSCHEDULABLE}, {said}", []
        narrowest = min(placement.level for placement, _, _ in fitting)
        fitting = [one for one in fitting if one[0].level == narrowest]
        totals = plugins.totals([scores for _, _, scores in fitting])
        best = [i for i, total in enumerate(totals) if total == max(totals)]
        return "", fitting[best[self._pick(str(self._attempt.entry.key), len(best))]][1]

    def _on(self, placement: Placement | None) -> Steps[tuple[str, Assigned]]:
        """As `run`, on the nodes of one placement; None: on all."""
        trial = GroupAttempt(self._attempt.entry, self._attempt.group, {})
        pods = [member.queued.pod for member in self._attempt.pods]
        trial.members = {member.queued.pod.uid: Member(member.queued) for member in self._attempt.pods}
        assigned: Assigned = []
        running, left = self._scheduled, len(pods)
        why = unsatisfied(trial.group, running, left)
        if why:
            trial.fail(why, early=True)
        else:
            within = self._within(placement)
            for pod in pods:
                row = yield from self._node_for(pod, within)
                left -= 1
                if row is not None:
                    assigned.append((pod, row))
                why = unsatisfied(trial.group, running + len(assigned), left)
                if why:
                    trial.fail(why)
                    break
            else:
                if not assigned:
                    trial.fail("", early=True)
        for i, (pod, _) in enumerate(reversed(assigned)):
            self._cluster.forget(pod.uid)
            if pod.nominated_node_name:
                self._cluster.nominations.put(pod, pod.nominated_node_name)
            if i % 100 == 0:
                yield _MOVED * 100
        if trial.ended is not Ended.REJECTED:
            return "", assigned
        return GROUP_UNSCHEDULABLE if placement is not None and trial.early else trial.message, []

    def _within(self, placement: Placement | None) -> Bools | None:
        nodes = self._cluster.nodes
        if placement is None or len(placement.rows) == nodes.count:
            return None
        mask = np.zeros(nodes.rows, dtype=np.bool_)
        mask[placement.rows] = True
        return mask

    def _node_for(self, pod: Pod, within: Bools | None) -> Steps[int | None]:
        """The row that a pod takes, beside those that were tried before it."""
        cluster = self._cluster

        def decide() -> Decision:
            decision = self._framework.decide_quickly(pod, cluster, self._rotation, within=within)
            if len(decision.feasible):
                cluster.incidence.prepare(pod)
            return decision

        decision = yield from asking(cluster, decide)
        yield ORDINARY
        if not len(decision.feasible):
            return None
        best = decision.best()
        row = int(best[self._pick(pod.uid, len(best))])
        cluster.nominations.drop(pod.uid)
        cluster.assume(pod, row)
        return row
