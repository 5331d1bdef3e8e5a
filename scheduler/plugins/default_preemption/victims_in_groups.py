"""Victims that may be groups: pods of a group with `disruptionMode: all` go all together, or none of them.

So do the pods of all groups below a group of groups that has it. Mirrors kube-scheduler `framework/preemption`
(types.go, util.go: getCrossNodesVictims, MoreImportantVictim, FilterVictimsWithPDBViolation).
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from msgspec import Struct

from scheduler.model.pod import Pod
from scheduler.model.pod_group import GroupKey
from scheduler.plugins.default_preemption.budgets import Budgets, Drawn
from scheduler.plugins.default_preemption.importance import rank_of, started
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver
from scheduler.state.pod_groups import PodGroups

_TOGETHER = 1_000
"""How many victims are gathered, sorted, or held against budgets in one go."""
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


def gathered(by_row: Mapping[int, Sequence[Pod]], groups: PodGroups) -> Generator[int, None, list[Victim]]:
    """The victims that these pods are; yields the steps that it took."""
    victims: list[Victim] = []
    whole: dict[GroupKey, Victim] = {}
    pods = ((pod, row) for row, there in by_row.items() for pod in there)
    while some := list(islice(pods, _TOGETHER)):
        for pod, row in some:
            group = None if pod.scheduling_group is None else groups.whole(pod)
            victim = None if group is None else whole.get(group.key)
            if victim is not None:
                victim.pods.append((pod, row))
                continue
            victim = Victim([(pod, row)], groups.priority_of(pod), rank_of(pod))
            victims.append(victim)
            if group is not None:
                whole[group.key] = victim
        yield 1 + len(some)
    return victims


def in_order(victims: Iterable[Victim]) -> Generator[int, None, Iterator[Victim]]:
    """The most important first; yields the steps that it took. What is returned takes a step for each victim."""
    left, runs = iter(victims), []
    while some := list(islice(left, _TOGETHER)):
        runs.append(sorted(((victim.importance, i, victim) for i, victim in enumerate(some)), key=_by_importance))
        yield 1 + 2 * len(some)
    return (victim for _, _, victim in merge(*runs, key=_by_importance))


def held_against_budgets(
    victims: Iterator[Victim], budgets: Budgets, cluster: Cluster
) -> Generator[int, None, tuple[list[Victim], list[Victim]]]:
    """(those that would overdraw a budget, the others); yields the steps that it took."""
    violating: list[Victim] = []
    others: list[Victim] = []
    drawn, effort = Drawn(), cluster.effort
    while some := list(islice(victims, _TOGETHER)):
        pods = [pod for victim in some for pod, _ in victim.pods]
        flags = None
        budgets.renew(cluster)
        while budgets.any:
            before = budgets.steps
            effort.begin(_TOGETHER)
            try:
                flags = budgets.overdrawing(pods, cluster, drawn)
                break
            except SliceOver:
                pass  # what was found is kept
            finally:
                steps = effort.end() + budgets.steps - before
            yield steps
        yield 1 + len(pods)
        place = 0
        for victim in some:
            if flags is not None:
                victim.violations = sum(flags[place : place + len(victim.pods)])
            place += len(victim.pods)
            (violating if victim.violations else others).append(victim)
    return violating, others


def _by_importance(one: tuple[Importance, int, Victim]) -> Importance:
    return one[0]
