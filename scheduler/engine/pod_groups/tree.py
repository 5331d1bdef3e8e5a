"""A tree of pod groups as one attempt knows it, and what came of each group of it.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupAlgorithmResult, completeCompositePodGroupAlgorithmResult).
"""

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.results import GROUP_UNSCHEDULABLE, Member
from scheduler.model.pod_group import COMPOSITE, GroupKey, PodGroup
from scheduler.state.group_trees import LEVELS, GroupTrees


class TreeNode(Struct, eq=False):
    """A group of the tree."""

    group: PodGroup
    children: list["TreeNode"]

    @property
    def key(self) -> GroupKey:
        """The key of the group."""
        return self.group.key

    @property
    def leaves(self) -> Iterator["TreeNode"]:
        """The pod groups below it, in the order in which they are tried; for a pod group, itself."""
        if self.key.api != COMPOSITE:
            yield self
        for child in self.children:
            yield from child.leaves

    def same(self, other: "TreeNode") -> bool:
        """Whether what decides is the same in both trees."""
        mine, theirs = self.group, other.group
        return (
            (mine.key, mine.uid, mine.min_count, mine.topology_key, len(self.children))
            == (theirs.key, theirs.uid, theirs.min_count, theirs.topology_key, len(other.children))
        ) and all(one.same(another) for one, another in zip(self.children, other.children, strict=True))


def built(group: PodGroup, trees: GroupTrees, levels: int = LEVELS) -> TreeNode:
    """The tree below a group."""
    below = trees.children(group.key) if group.key.api == COMPOSITE and levels > 1 else []
    return TreeNode(group, [built(one, trees, levels - 1) for one in below])


class Part(Struct, eq=False):
    """What came of one group of the tree."""

    ended: Ended
    reasons: list[str] = field(default_factory=list)
    early: bool = False
    """The group failed before any of its pods was tried, as in `GroupAttempt`."""
    any_scheduled: bool = False
    """Some pod has found a node."""
    members: dict[str, Member] = field(default_factory=dict)
    """For a pod group: its pods as they were tried, by UID. Pods that were not tried are missing."""
    rows: dict[str, int] = field(default_factory=dict)
    """UID → the node of a pod that has found one."""

    @property
    def fits(self) -> bool:
        """Whether enough of it can start."""
        return self.ended is Ended.WITH_NODES

    @property
    def broken(self) -> bool:
        """Whether something is wrong with it, so that the whole tree fails."""
        return self.ended in (Ended.BROKEN, Ended.TOO_COSTLY)

    def said(self, more: str = "") -> str:
        """Why it failed. `more`: what preemption says of the whole tree."""
        reasons = [*self.reasons, more] if more else self.reasons
        return ", ".join([GROUP_UNSCHEDULABLE, *reasons] if self.early else reasons)

    @property
    def status(self) -> str:
        """The text for the message of another group that speaks of this one (upstream: AsError)."""
        return GROUP_UNSCHEDULABLE if self.early else self.said()


Parts = dict[GroupKey, Part]


def completed(root: TreeNode, parts: Parts) -> Parts:
    """What came of each group: one that was not tried, or fits into a group that does not, ends as that one does."""
    found: Parts = {}

    def walk(node: TreeNode, above: Part | None) -> None:
        part = parts.get(node.key)
        if above is not None and (part is None or (not above.fits and part.fits)):
            part = replace(above, members={}, rows={})
        assert part is not None
        found[node.key] = part
        for child in node.children:
            walk(child, part)

    walk(root, None)
    return found
