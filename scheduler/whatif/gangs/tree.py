"""A tree of pod groups (CompositePodGroup) as one: what a scheduler's own attempt at it comes to.

The engine is asked, as in `scheduler.whatif.gangs.attempt`. That changes the cluster for good, so it is asked last.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from scheduler.framework.runtime import Framework
from scheduler.model.pod_group import PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.group_trees import MOST_GROUPS
from scheduler.whatif.gangs.answer import STARTS, UNSCHEDULABLE, GroupExplanation, GroupOfTree, Tree
from scheduler.whatif.gangs.attempt import MOST, preempted
from scheduler.whatif.gangs.gang import Gang, gang_of
from scheduler.whatif.simulation import Simulation


def with_tree(answer: GroupExplanation, group: PodGroup, framework: Framework, cluster: Cluster) -> GroupExplanation:
    """The answer about a group that is a part of a tree, with what becomes of the tree: it starts with that only."""
    tree, notes = _tree(group, framework, cluster)
    if tree is None:
        return replace(answer, notes=[*answer.notes, *notes])
    own = next(one for one in tree.groups if one.name == group.name)
    if answer.outcome == STARTS and not own.starts:
        said = f"enough of it fits, but its tree {tree.root} does not start"
        answer = replace(answer, outcome=UNSCHEDULABLE, cause=said, message=own.message)
    return replace(answer, tree=tree, notes=[*answer.notes, *notes])


def _tree(group: PodGroup, framework: Framework, cluster: Cluster) -> tuple[Tree | None, list[str]]:
    """What becomes of the tree, and what to say besides."""
    name = framework.profile.name
    simulation = Simulation({name: framework}, cluster)
    trees = cluster.pod_groups.trees
    root = trees.root_of(group.key)
    if root is None:
        return None, [f"it starts only together with its tree, which is not complete: {trees.missing(group.key)}"]
    leaves = islice(trees.below(root), MOST_GROUPS)
    gangs = [gang for key in leaves if (gang := gang_of(key, cluster)) is not None]
    pods = [replace(pod, scheduler_name=name) for gang in gangs for pod in gang.waiting]
    if len(pods) > MOST or trees.too_large(root):
        return None, [f"it starts only with its tree {root.name}, which was not tried (at most {MOST:,} pods are)"]
    simulation.put_all(pods)
    simulation.settle()
    found = [_group(gang, simulation) for gang in gangs]
    cause = "" if trees.ready(root) else "too few of its groups have enough pods"
    return Tree(root.name, cause, found), list(_preempts(simulation))


def _group(gang: Gang, simulation: Simulation) -> GroupOfTree:
    group, with_node = gang.group, len(gang.running)
    with_node += sum(pod.uid in simulation.bound or pod.uid in simulation.preparing for pod in gang.waiting)
    return GroupOfTree(
        name=group.name,
        part_of=group.parent or "",
        needed=group.needed,
        waiting=len(gang.waiting),
        running=len(gang.running),
        starts=with_node >= group.needed and not simulation.preempted,
        message=simulation.conditions.get(group.key, ""),
    )


def _preempts(simulation: Simulation) -> Iterator[str]:
    if victims := preempted(simulation):
        yield f"berth run would preempt for its tree (tried): {victims}"
