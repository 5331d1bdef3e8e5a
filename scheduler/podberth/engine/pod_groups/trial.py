"""The cycle of a pod group in a dry run: which nodes its pods would find in a cluster without any victim.

As `podberth.engine.pod_groups.cycle` and `placements`, in a cluster that nobody else looks at: nothing but devices is
reserved. Mirrors kube-scheduler `schedule_one_podgroup.go` (runRootSchedulingAlgorithm).
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.devices import SupposedDevices
from podberth.engine.pod_groups.consulting import Consulting
from podberth.engine.pod_groups.domains import fill_order, rank
from podberth.engine.pod_groups.results import GROUP_UNSCHEDULABLE, GroupAttempt, Member, running, unsatisfied
from podberth.engine.pod_groups.room import room_of_all
from podberth.engine.pod_groups.turns import A_TRY
from podberth.engine.queue.groups import Ended
from podberth.framework.binding import AssumedPod
from podberth.framework.decision import Rows
from podberth.framework.interface import Assignment, Placement, Plugin
from podberth.framework.runtime import Framework, Rotation
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources.plugin import DynamicResources

MOVED = 20
"""Steps of a pod that is assumed in a dry run, or forgotten."""
Found = TypeVar("Found")
Steps = Generator[int, None, Found]
Assigned = list[tuple[Pod, int]]
"""Pods that find a node, in the order in which they were tried, with their rows."""


class Trial:
    """Tries one group."""

    def __init__(
        self,
        attempt: GroupAttempt,
        live: Cluster,
        cluster: Cluster,
        framework: Framework,
        pick: Callable[[str, int], int],
        consulting: Consulting | None = None,
    ) -> None:
        """`live`: where the group's pods run; `cluster`: without the victims.

        `pick`: which of several equally good nodes or placements is taken. `consulting`: extenders are asked, too.
        """
        self._consulting = consulting
        self._attempt = attempt
        self._live = live
        self._cluster = cluster
        self._framework = framework
        self._pick = pick
        self._running = running(attempt, live)
        self._scheduled = live.pod_groups.scheduled(attempt.entry.key)
        self._rotation = Rotation()
        supposed = isinstance(cluster.devices, SupposedDevices)
        self._reserves = [
            one for one in framework.profile.plugins("reserve") if supposed and isinstance(one, DynamicResources)
        ]
        self._reserved: dict[str, list[tuple[Plugin, AssumedPod]]] = {}

    def run(self) -> Steps[tuple[str, Assigned]]:
        """(why the group does not fit, its pods with their rows); yields the steps that it took.

        Afterwards, the cluster is as it was. Raises PluginError.
        """
        plugins = self._framework.placements
        if not plugins.wanted:
            return (yield from self._on(None))
        cluster, group = self._cluster, self._attempt.group
        placements = plugins.generate(group, self._running, cluster)
        yield cluster.nodes.rows
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
            yield A_TRY + len(pods)
        if not fitting:
            number = len(placements)
            said = f"0/{number} placements are available, first placement status: {first}"
            return f"{GROUP_UNSCHEDULABLE}, {said}", []
        narrowest = min(placement.level for placement, _, _ in fitting)
        fitting = [one for one in fitting if one[0].level == narrowest]
        fewest = min(_parts_of(one[0], one[1]) for one in fitting)
        fitting = [one for one in fitting if _parts_of(one[0], one[1]) == fewest]
        totals = plugins.totals([scores for _, _, scores in fitting])
        best = [i for i, total in enumerate(totals) if total == max(totals)]
        return "", fitting[best[self._pick(str(self._attempt.entry.key), len(best))]][1]

    def _on(self, placement: Placement | None) -> Steps[tuple[str, Assigned]]:
        """Do what `run` does on the nodes of one placement; None: on all nodes."""
        trial = GroupAttempt(self._attempt.entry, self._attempt.group, {})
        pods = [member.queued.pod for member in self._attempt.pods]
        trial.members = {member.queued.pod.uid: Member(member.queued) for member in self._attempt.pods}
        assigned: Assigned = []
        left = len(pods)
        why = unsatisfied(trial.group, self._scheduled, left)
        if why:
            trial.fail(why, early=True)
        else:
            if placement is not None and placement.domains:
                pods.sort(key=rank)
                yield A_TRY + self._cluster.nodes.rows + len(placement.domains)
            ahead = [*self._parts(placement, pods), None if placement is None else placement.rows]
            within = self._only(ahead[0])
            for pod in pods:
                row = yield from self._node_for(pod, within)
                while row is None and len(ahead) > 1:
                    del ahead[0]
                    within = self._only(ahead[0])
                    row = yield from self._node_for(pod, within)
                left -= 1
                if row is not None:
                    assigned.append((pod, row))
                why = unsatisfied(trial.group, self._scheduled + len(assigned), left)
                if why:
                    trial.fail(why)
                    break
            else:
                if not assigned:
                    trial.fail("", early=True)
        for i, (pod, _) in enumerate(reversed(assigned)):
            self._forget(pod)
            if i % 100 == 0:
                yield MOVED * 100
        if trial.ended is not Ended.REJECTED:
            return "", assigned
        return GROUP_UNSCHEDULABLE if placement is not None and trial.early else trial.message, []

    def _parts(self, placement: Placement | None, pods: Sequence[Pod]) -> list[Rows]:
        """The domains of a placement that prefers some, in the order in which they are filled."""
        if placement is None or not placement.domains:
            return []
        room = room_of_all([placement], pods, self._framework, self._cluster)
        here = {self._cluster.nodes.live_row(one.node) for one in self._running}
        return fill_order(placement, None if room is None else room.most, len(pods), here)[0]

    def _only(self, only: Rows | None) -> Bools | None:
        """bool[rows]: these, without those whose room is kept for another group; None: all."""
        nodes = self._cluster.nodes
        first, group = self._attempt.pods[0].queued.pod, self._attempt.entry.key
        kept = [
            room.rows
            for room in self._cluster.reservations.by_profile.values()
            if room.group != group and room.priority >= first.priority
        ]
        if not kept and (only is None or len(only) == nodes.count):
            return None
        if only is None:
            mask = nodes.alive[: nodes.rows].copy()
        else:
            mask = np.zeros(nodes.rows, dtype=np.bool_)
            mask[only] = True
        for rows in kept:
            mask[rows] = False
        return mask

    def _node_for(self, pod: Pod, within: Bools | None) -> Steps[int | None]:
        """The row that a pod takes, beside those that were tried before it."""
        cluster, searches = self._cluster, self._cluster.search_steps
        consulting, queued = self._consulting, self._attempt.members[pod.uid].queued
        searched = 0
        if consulting is None or not consulting.asks(queued):
            searches.taken = 0
            decision = self._framework.decide_quickly(pod, cluster, self._rotation, within=within)
            searched = searches.taken
        else:
            decision = yield from consulting.decision(queued, within)
        yield A_TRY + pod.shape.steps + searched
        if not len(decision.feasible):
            return None
        best = decision.best()
        row = int(best[self._pick(pod.uid, len(best))])
        self._assume(pod, row)
        return row

    def _assume(self, pod: Pod, row: int) -> None:
        """Have a pod on this row from now on, with its devices. It keeps no other node. Raises PluginError."""
        cluster = self._cluster
        cluster.nominations.drop(pod.uid)
        cluster.assume(pod, row)
        for plugin in self._reserves:
            assumed = AssumedPod(pod, row, cluster.nodes.names[row] or "", reserved=plugin.reserve(pod, cluster, row))
            self._reserved.setdefault(pod.uid, []).append((plugin, assumed))

    def _forget(self, pod: Pod) -> None:
        """Have a pod nowhere again; it keeps the node that it did before."""
        self._cluster.forget(pod.uid)
        for plugin, assumed in self._reserved.pop(pod.uid, ()):
            plugin.unreserve(assumed, self._cluster)
        if pod.nominated_node_name:
            self._cluster.nominations.put(pod, pod.nominated_node_name)


def _parts_of(placement: Placement, assigned: Assigned) -> int:
    """In how many domains of its placement a group is."""
    rows = {row for _, row in assigned}
    return sum(not rows.isdisjoint(one.rows.tolist()) for one in placement.domains)
