"""Preemption for a pod group that found too few nodes: a plan names the pods to remove, and these are told to go.

Mirrors kube-scheduler `framework/preemption/podgrouppreemption.go`. In a dry run all pods of lower priority are left
out, and the group is tried once. If it fits, as many of them as possible are spared. All of this is one plan, in
a cluster of its own, which is thrown away afterwards.
"""

from collections.abc import Callable, Generator

from podberth.cache.cluster import Cluster
from podberth.cache.search_steps import SearchCapError
from podberth.engine.extender_calls import ExtenderCalls
from podberth.engine.instructions import Outbox, VictimsChosen
from podberth.engine.pod_groups.attempt import GroupAttempt, Plan, Turns, dismiss
from podberth.engine.pod_groups.planning import Planning
from podberth.engine.preemption import Victims
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import SchedulingCycle
from podberth.framework.binding import Write
from podberth.framework.interface import FailedGroup
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.plugins.default_preemption.sparing import Sparing
from podberth.plugins.default_preemption.victims import Budgets

NODE = "cluster"
"""The text in place of a node's name: a group makes room in the whole cluster."""
_NEVER = "not eligible due to preemptionPolicy=Never."
_NOBODY = "No preemption victims found for incoming preemptor"
_AT_ONCE = 32
"""The number of victims that are told to go in one turn."""


def failed_group(attempt: GroupAttempt, framework: Framework) -> FailedGroup:
    """Return the group as PostFilter plugins see it, after its pods have given back what they held."""
    by_topology = bool(attempt.group.topology_key) and framework.placements.wanted
    return FailedGroup(attempt.group, [member.queued.pod for member in attempt.pods], by_topology)


class GroupPreemption(Planning[Plan]):
    """Makes the plan for one attempt."""

    what = "victims"

    def __init__(
        self,
        attempt: GroupAttempt,
        framework: Framework,
        cluster: Cluster,
        pick: Callable[[str, int], int],
        budgets: Budgets,
        *,
        extenders: ExtenderCalls | None,
    ) -> None:
        """The arguments are those of `Planning`, and the disruption budgets."""
        super().__init__(attempt, framework, cluster, pick, extenders=extenders)
        self._budgets = budgets
        self.priority = self._pods[0].priority
        """The priority of the group, with which its pods agree."""

    def _made(self) -> Generator[int, None, Plan]:
        """Ask the plugins what they can do for the group (PodGroupPostFilter)."""
        plan, said, final = Plan(), [], False
        writes: list[tuple[Pod, Write]] = []
        misbehaved: list[PluginError] = []
        failed = failed_group(self._attempt, self._framework)
        for name, result in self._framework.post_filter_group(failed, self._cluster):
            if isinstance(result, PluginError):
                misbehaved.append(result)
                continue
            writes += result.writes
            if final:
                continue  # it only writes: what preemption says is the last word
            if result.text:
                said.append(result.text)
            if result.preempts:
                try:
                    plan, final = yield from self._preempting()
                except PluginError as error:
                    text = f"failed to schedule other pod from a pod group: {error}"
                    where = f'error in "{name}" PodGroupPostFilter plugins: pod group preemption'
                    return Plan(error=f"{where}: {text}")
                said = [plan.said] if final else [*said, plan.said]
        plan.said, plan.writes, plan.misbehaved = ", ".join(said), writes, misbehaved
        plan.stale = self.turns > 0
        return plan

    def _preempting(self) -> Generator[int, None, tuple[Plan, bool]]:
        """Run preemption; the generator returns the plan, and whether its message replaces all others."""
        plan, final = yield from self._found()
        plan.said = f"pod group preemption: {plan.said}"
        return plan, final

    def _found(self) -> Generator[int, None, tuple[Plan, bool]]:
        group, cluster = self._attempt.group, self._cluster
        if not (self._pods[0].preempts if group.preempts is None else group.preempts):
            return Plan(_NEVER), False
        nominated = self._nominated()
        if self._under_way(set(nominated.values())):
            return Plan("ongoing preemption on nominated nodes", True, nominated), True
        if not cluster.has_below(self.priority):
            return Plan(_NOBODY), True
        return (yield from self._planned())

    def _planned(self) -> Generator[int, None, tuple[Plan, bool]]:
        cluster = self._cluster
        while True:
            thought, left_out, version = yield from self._without(self._may_go)
            if thought is None:
                return Plan(_NOBODY), True
            walk, framework = self._walk(thought, once=False)
            why, assigned = yield from walk.run()
            if why:
                return Plan(why), False
            dismiss(self._attempt, thought, assigned, left_out)
            kinds = {id(pod.shape): pod for there in left_out.values() for pod in there}
            sparing = Sparing(thought, framework.filters, assigned, kinds.values())
            victims = yield from sparing.victims(left_out, self._budgets, cluster)
            going = yield from sparing.going(victims, self._budgets, cluster)
            going.sort(key=lambda victim: victim.importance)
            yield len(going)
            changed = cluster.nodes.log.since(version)
            rows = {row for _, row in assigned} | {row for victim in going for _, row in victim.pods}
            if changed is None or not changed.isdisjoint(rows):
                continue  # what was found may be wrong by now, and nobody is to be removed in vain
            pods = [pod for victim in going for pod, _ in victim.pods]
            text = f"found a placement for podgroup, preempting {len(pods)} victims"
            names = cluster.nodes.names
            nominated = {pod.uid: names[row] or "" for pod, row in assigned}
            groups = sum(cluster.pod_groups.whole(victim.pods[0][0]) is not None for victim in going)
            return Plan(text, True, nominated, pods, groups, sum(victim.violations for victim in going)), True

    def _may_go(self, pod: Pod) -> bool:
        groups = self._cluster.pod_groups
        return (pod.priority if pod.scheduling_group is None else groups.priority_of(pod)) < self.priority

    def _nominated(self) -> dict[str, str]:
        """Return UID → node for the pods of the group that are nominated already."""
        node_of = self._cluster.nominations.node_of.get
        return {pod.uid: node for pod in self._pods if (node := node_of(pod.uid) or pod.nominated_node_name)}

    def _under_way(self, nodes: set[str]) -> bool:
        """Return whether victims of an earlier attempt are still leaving these nodes."""
        cluster = self._cluster
        rows = (cluster.nodes.live_row(node) for node in nodes)
        return any(
            pod.terminating and pod.preempted and self._may_go(pod)
            for row in rows
            if row is not None
            for pod in cluster.pods_on(row)
        )


class Evictions:
    """Makes the plan of one attempt, and carries it out."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduling: SchedulingCycle,
        outbox: Outbox,
        pick: Callable[[str, int], int],
        victims: Victims,
    ) -> None:
        """`pick` chooses one of several equally good nodes or placements."""
        self._cluster = cluster
        self._queue = queue
        self._scheduling = scheduling
        self._outbox = outbox
        self._pick = pick
        self._victims = victims
        self._budgets = Budgets()

    def make_room(self, attempt: GroupAttempt) -> Turns[None]:
        """Search for victims of lower priority that make room for the group, and have them removed.

        Afterwards the attempt has its plan, if preemption was asked at all.
        """
        while attempt.plan is None:
            if not attempt.wants_room:
                return
            try:
                plan = yield from self._preemption(attempt).make(self._queue, self._outbox)
            except SearchCapError as error:
                plan = Plan(error=str(error))
            if plan is not None and plan.error:
                attempt.break_off(plan.error)
            elif plan is not None:
                attempt.plan = plan
                attempt.reasons.append(plan.said)
        yield from self._remove(attempt, attempt.plan)

    def _preemption(self, attempt: GroupAttempt) -> GroupPreemption:
        pods = [member.queued.pod for member in attempt.pods]
        return GroupPreemption(
            attempt,
            self._queue.frameworks[pods[0].scheduler_name],
            self._cluster,
            self._pick,
            self._budgets,
            extenders=self._scheduling.extenders_about(pods),
        )

    def _remove(self, attempt: GroupAttempt, plan: Plan) -> Turns[None]:
        victims = plan.victims
        if not (victims and attempt.wants_room):
            return
        pod = attempt.pods[0].queued.pod
        if self._scheduling.record.clock is not None:
            self._outbox.add(VictimsChosen(pod, "podgroup", len(victims), plan.groups, plan.violations))
        while victims:
            told, left = victims[:_AT_ONCE], victims[_AT_ONCE:]
            self._victims.remove(pod, NODE, tuple(told), attempt.now, attempt.group)
            if left:
                yield
            victims = left if attempt.wants_room else self._victims.begun(left)
