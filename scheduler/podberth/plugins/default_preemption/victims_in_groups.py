"""Victims that may be groups: pods of a group with `disruptionMode: all` go all together, or none of them.

So do the pods of all groups below a group of groups that has it. Mirrors kube-scheduler `framework/preemption`
(types.go, util.go: getCrossNodesVictims, MoreImportantVictim, FilterVictimsWithPDBViolation).
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.groups import PodGroups
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.plugins.default_preemption.budgets import Budgets, Drawn
from podberth.plugins.default_preemption.importance import rank_of, started

Importance = tuple[int, int, int, str]


class Victim(Struct, eq=False):
    """A pod, or the pods of a group, with the rows they are on."""

    pods: list[tuple[Pod, int]]
    priority: int
    """The priority of the group, if the victim is one."""
    rank: int
    """As of `rank_of`."""
    violations: int = 0
    """How many of its pods would overdraw a disruption budget."""

    @property
    def importance(self) -> Importance:
        """Sort key, the most important first: higher priority, higher rank, more pods, the longer running."""
        start = min(started(pod) for pod, _ in self.pods)
        return -self.priority, -self.rank, -len(self.pods), start


def gathered(by_row: Mapping[int, Sequence[Pod]], groups: PodGroups) -> list[Victim]:
    """Return the victims that these pods are, the most important first."""
    victims: list[Victim] = []
    whole: dict[GroupKey, Victim] = {}
    for row, there in by_row.items():
        for pod in there:
            group = None if pod.scheduling_group is None else groups.whole(pod)
            victim = None if group is None else whole.get(group.key)
            if victim is not None:
                victim.pods.append((pod, row))
                continue
            victim = Victim([(pod, row)], groups.priority_of(pod), rank_of(pod))
            victims.append(victim)
            if group is not None:
                whole[group.key] = victim
    return sorted(victims, key=lambda victim: victim.importance)


def held_against_budgets(
    victims: Iterable[Victim], budgets: Budgets, cluster: Cluster
) -> tuple[list[Victim], list[Victim]]:
    """Return those that would overdraw a budget, and the others. `victims`: the most important first."""
    violating: list[Victim] = []
    others: list[Victim] = []
    drawn: Drawn = {}
    budgets.renew(cluster)
    for victim in victims:
        if budgets.any:
            flags = budgets.overdrawing([pod for pod, _ in victim.pods], cluster, drawn)
            victim.violations = sum(flags or ())
        (violating if victim.violations else others).append(victim)
    return violating, others
