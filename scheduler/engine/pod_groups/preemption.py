"""What preemption can do for a pod group that found too few nodes: whom it removes, and where the group waits then.

Mirrors kube-scheduler `framework/preemption/podgrouppreemption.go`. All pods of lower priority are left out in thought,
and the group is tried once. If it fits, as many of them as possible are spared. All of this is one plan, made in slices
in a cluster of its own, which is thrown away afterwards.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from scheduler.engine.pod_groups.results import GroupAttempt
from scheduler.engine.pod_groups.trial import Trial
from scheduler.framework.placement import Running
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.plugins.default_preemption.budgets import Budgets
from scheduler.plugins.default_preemption.plugin import DefaultPreemption
from scheduler.plugins.default_preemption.sparing import Sparing
from scheduler.plugins.default_preemption.victims_in_groups import gathered
from scheduler.state.cluster import Cluster
from scheduler.state.without_pods import WithoutPods

NODE = "cluster"
"""What is said in place of a node's name: a group makes room in the whole cluster."""
_ROWS = 64
"""So many rows are copied in one go."""
_A_ROW, _A_POD = 20, 6
"""Steps of copying a row, and each pod on it."""
_CLAIMS_GIVEN_BACK = "deallocation and deletion of ResourceClaims completed"
_NEVER = "not eligible due to preemptionPolicy=Never."
_NOBODY = "No preemption victims found for incoming preemptor"
_EXTENDERS = "not for pod groups in whose nodes extenders have a say"


@dataclass(slots=True)
class Plan:
    """What comes of preemption for a group."""

    said: str = ""
    """What the message of the group ends with."""
    waits: bool = False
    """The group waits for victims to leave."""
    nominated: dict[str, str] = field(default_factory=dict)
    """UID → node for which a pod of the group is nominated."""
    victims: list[Pod] = field(default_factory=list)
    """The most important first."""
    error: str = ""
    """A plugin has failed."""


class GroupPreemption:
    """Makes the plan for one attempt, a slice at a time."""

    def __init__(
        self,
        attempt: GroupAttempt,
        framework: Framework,
        cluster: Cluster,
        pick: Callable[[str, int], int],
        *,
        extenders: bool,
    ) -> None:
        """`pick`: which of several equally good ones is taken. `extenders`: they have a say in the nodes."""
        self._attempt = attempt
        self._framework = framework
        self._cluster = cluster
        self._pick = pick
        self._extenders = extenders
        self._members = attempt.pods
        self._pods = [member.queued.pod for member in self._members]
        self.priority = self._pods[0].priority
        """Of the group, since its pods agree with it."""
        self._steps = self._made()
        self.spent = 0
        """Steps that were taken so far."""

    @property
    def lost(self) -> bool:
        """Whether a pod of the group is gone for which the plan was made."""
        return len(self._attempt.members) != len(self._members)

    def go_on(self, most: int) -> Plan | None:
        """Take some more steps, not many more than `most`. None: the plan is not ready."""
        until = self.spent + most
        try:
            while self.spent < until:
                self.spent += next(self._steps)
        except StopIteration as end:
            plan: Plan = end.value
            return plan
        return None

    def _made(self) -> Generator[int, None, Plan]:
        """Ask the plugins that upstream asks at PodGroupPostFilter: of those of PostFilter, two may say something."""
        said = []
        group = self._attempt.group
        for plugin in self._framework.profile.plugins("post_filter"):
            if plugin.name == "DynamicResources" and not (group.topology_key and self._framework.placements.wanted):
                said.append(_CLAIMS_GIVEN_BACK)
            elif isinstance(plugin, DefaultPreemption):
                try:
                    plan, final = yield from self._preempting(plugin.dry_runs.budgets)
                except PluginError as error:
                    text = f"failed to schedule other pod from a pod group: {error}"
                    where = f'error in "{plugin.name}" PodGroupPostFilter plugins: pod group preemption'
                    return Plan(error=f"{where}: {text}")
                plan.said = f"pod group preemption: {plan.said}"
                if final:
                    return plan
                said.append(plan.said)
        return Plan(", ".join(said))

    def _preempting(self, budgets: Budgets) -> Generator[int, None, tuple[Plan, bool]]:
        """What comes of it, and whether nothing else is said beside it."""
        group, cluster = self._attempt.group, self._cluster
        if not (self._pods[0].preempts if group.preempts is None else group.preempts):
            return Plan(_NEVER), False
        nominated = self._nominated()
        if self._under_way(set(nominated.values())):
            return Plan("ongoing preemption on nominated nodes", True, nominated), True
        lowest = cluster.priorities.lowest
        if (lowest is None or lowest >= self.priority) and not cluster.pod_groups.below(self.priority):
            return Plan(_NOBODY), True
        if self._extenders:
            return Plan(_EXTENDERS), False
        return (yield from self._planned(budgets))

    def _planned(self, budgets: Budgets) -> Generator[int, None, tuple[Plan, bool]]:
        cluster = self._cluster
        while True:
            copied = WithoutPods(cluster, self._may_go)
            while not copied.lost and not copied.go_on(_ROWS):
                yield _ROWS * _A_ROW + _A_POD * copied.pods_copied
            if copied.lost:
                yield _ROWS * _A_ROW
                continue
            version, alive = cluster.nodes.log.version, cluster.nodes.alive
            left_out = {row: pods for row, pods in copied.left_out.items() if alive[row]}
            if not left_out:
                return Plan(_NOBODY), True
            thought = copied.cluster()
            yield _ROWS * _A_ROW + cluster.nodes.rows
            victims = yield from gathered(left_out, cluster.pod_groups)
            framework = self._framework.apart()
            trial = Trial(self._attempt, thought, framework, *self._running(), self._pick)
            why, assigned = yield from trial.run()
            if why:
                return Plan(why), False
            kinds: dict[PodShape, Pod] = {}
            for there in left_out.values():
                for pod in there:
                    kinds.setdefault(pod.shape, pod)
            sparing = Sparing(thought, framework.filters, assigned, kinds.values())
            going = yield from sparing.going(victims, budgets, cluster)
            going.sort(key=lambda victim: victim.importance)
            changed = cluster.nodes.log.since(version)
            rows = {row for _, row in assigned} | {row for victim in going for _, row in victim.pods}
            if changed is None or not changed.isdisjoint(rows):
                continue  # what was found may be wrong by now, and nobody is to be removed in vain
            pods = [pod for victim in going for pod, _ in victim.pods]
            text = f"found a placement for podgroup, preempting {len(pods)} victims"
            names = cluster.nodes.names
            return Plan(text, True, {pod.uid: names[row] or "" for pod, row in assigned}, pods), True

    def _may_go(self, pod: Pod) -> bool:
        groups = self._cluster.pod_groups
        return (pod.priority if pod.scheduling_group is None else groups.priority_of(pod)) < self.priority

    def _nominated(self) -> dict[str, str]:
        """UID → node for which a pod of the group is nominated already."""
        node_of = self._cluster.nominations.node_of
        return {pod.uid: node for pod in self._pods if (node := node_of(pod.uid) or pod.nominated_node_name)}

    def _under_way(self, nodes: set[str]) -> bool:
        """Whether victims of an earlier attempt are still leaving these nodes."""
        cluster = self._cluster
        rows = (cluster.nodes.live_row(node) for node in nodes)
        return any(
            pod.terminating and pod.preempted and self._may_go(pod)
            for row in rows
            if row is not None
            for pod in cluster.pods_on(row)
        )

    def _running(self) -> tuple[list[Running], int]:
        """The group's pods that run, and how many have a node."""
        state = self._cluster.pod_groups.state(self._attempt.entry.key)
        names, found = self._cluster.nodes.names, []
        for pod in () if state is None else state.with_node:
            placement = self._cluster.placement(pod.uid)
            if pod.uid not in self._attempt.members and placement is not None:
                found.append(Running(pod, names[placement.row] or ""))
        return found, 0 if state is None else state.scheduled
