"""The way through a tree of pod groups: its groups one after the other, each on its placements, and all or none.

Mirrors kube-scheduler `schedule_one_podgroup.go` (podGroupSchedulingRecursiveAlgorithm, and what it calls). It is a
generator that yields the steps that it took, so that others have their share in between. How pods are tried and assumed
is left to those who go it: in the columns (`tree_search`), or in a dry run (`tree_trial`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from scheduler.engine.budget import ORDINARY
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.results import GroupAttempt, unsatisfied
from scheduler.engine.pod_groups.tree import Part, Parts, TreeNode
from scheduler.framework.decision import Rows
from scheduler.framework.placement import Assignment, Placement, Running
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.model.pod_group import COMPOSITE, GroupKey
from scheduler.state.cluster import Cluster

Found = TypeVar("Found")
Steps = Generator[int, None, Found]


class TreeWalk(ABC):
    """Goes through the tree of one attempt."""

    def __init__(
        self,
        attempt: GroupAttempt,
        root: TreeNode,
        live: Cluster,
        cluster: Cluster,
        framework: Framework,
        pick: Callable[[str, int], int],
    ) -> None:
        """`live`: where the groups' pods run; `cluster`: where those that wait are tried.

        `pick`: which of several equally good placements is taken.
        """
        self._attempt = attempt
        self._live = live
        self._cluster = cluster
        self._framework = framework
        self._pick = pick
        self._constrained = False
        """Some group may not be on all nodes."""
        self._retried = False
        """Some pods are tried on other nodes than before."""
        self.root = root
        self._uids: dict[GroupKey, list[str]] = {leaf.key: [] for leaf in root.leaves}
        """The pods of each pod group that are tried, in that order."""
        for uid, member in attempt.members.items():
            of = member.queued.pod.scheduling_group
            if of in self._uids:
                self._uids[of].append(uid)

    # -- what is left to others --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _lost(self) -> bool:
        """Whether what was found does not hold any more, so that all begins again."""

    @abstractmethod
    def _pods(self, node: TreeNode, within: Rows | None, parts: Parts) -> Steps[Part]:
        """Try the pods of a pod group on one placement, each with those before it assumed."""

    @abstractmethod
    def _assume_again(self, node: TreeNode, parts: Parts) -> Steps[None]:
        """Have the pods of a subtree on the nodes that were found for them."""

    @abstractmethod
    def _give_back(self, node: TreeNode) -> Steps[None]:
        """Have the assumed pods of a subtree give back what they hold."""

    # -- the way -----------------------------------------------------------------------------------------------------

    def _group(self, node: TreeNode, within: Rows | None, parts: Parts) -> Steps[Part]:
        """Try a group on each of its placements, within the one of its parent. If it fits, its pods stay assumed."""
        placements = self._generated(node, within)
        if isinstance(placements, Part):
            parts[node.key] = placements
            return placements
        yield ORDINARY + len(placements)
        if not placements:
            parts[node.key] = Part(Ended.REJECTED, ["no feasible placements found"])
            return parts[node.key]
        first: Parts | None = None
        fitting: list[tuple[Placement | None, Parts]] = []
        for placement in placements:
            found: Parts = {}
            rows = within if placement is None else placement.rows
            part = yield from (self._groups if node.key.api == COMPOSITE else self._pods)(node, rows, found)
            if self._lost:
                return part
            if part.broken:
                parts[node.key] = part  # what came of its groups is forgotten, as in kube-scheduler
                return part
            if part.fits and len(placements) == 1:
                parts.update(found)
                return part
            first = found if first is None else first
            if part.fits:
                fitting.append((placement, found))
            yield from self._give_back(node)
            self._retried = True
        assert first is not None
        if not fitting:
            parts.update(first)
            said = f"0/{len(placements)} placements are available, first placement status: {first[node.key].status}"
            parts[node.key] = replace(first[node.key], reasons=[said], early=True, any_scheduled=False)
            return parts[node.key]
        best = self._best(node, fitting)
        if isinstance(best, Part):
            parts[node.key] = best
            return best
        yield ORDINARY * len(fitting)
        parts.update(best)
        yield from self._assume_again(node, best)
        return best[node.key]

    def _groups(self, node: TreeNode, within: Rows | None, parts: Parts) -> Steps[Part]:
        """Try the groups of a group on one placement, one after the other."""
        scheduled, remaining, any_scheduled = 0, len(node.children), False
        why = unsatisfied(node.group, scheduled, remaining)
        for child in () if why else node.children:
            part = yield from self._group(child, within, parts)
            if self._lost:
                return part
            if part.broken:
                text = f"composite pod group evaluation failed due to child error: {part.said()}"
                parts[node.key] = Part(part.ended, [text])
                return parts[node.key]
            any_scheduled |= part.any_scheduled
            scheduled, remaining = scheduled + part.fits, remaining - 1
            why = unsatisfied(node.group, scheduled, remaining)
            if why:
                break
        if why:
            parts[node.key] = Part(Ended.REJECTED, [why])
            yield from self._give_back(node)
        else:
            parts[node.key] = Part(Ended.WITH_NODES, any_scheduled=any_scheduled)
        return parts[node.key]

    def _fitting_leaves(self, node: TreeNode, parts: Parts) -> Iterable[TreeNode]:
        part = parts.get(node.key)
        if part is None or not part.fits:
            return
        if node.key.api != COMPOSITE:
            yield node
        for child in node.children:
            yield from self._fitting_leaves(child, parts)

    # -- placements --------------------------------------------------------------------------------------------------

    def _generated(self, node: TreeNode, within: Rows | None) -> list[Placement | None] | Part:
        """The placements of a group, within the placement of its parent. None among them: all nodes of the parent."""
        plugins = self._framework.placements
        if not plugins.wanted:
            return [None]
        try:
            found = plugins.generate(node.group, self._running(node), self._cluster)
        except PluginError as error:
            return Part(Ended.BROKEN, [error.text])
        if len(found) == 1 and len(found[0].rows) == self._cluster.nodes.count:
            return [None]
        self._constrained = True
        if within is not None:
            found = [_on(one, np.intersect1d(one.rows, within)) for one in found]
        return [one for one in found if len(one.rows)]

    def _running(self, node: TreeNode) -> list[Running]:
        """The pods of a subtree that have a node, and not by this attempt."""
        names, found = self._live.nodes.names, []
        for leaf in node.leaves:
            state = self._live.pod_groups.state(leaf.key)
            for pod in () if state is None else state.with_node:
                placement = self._live.placement(pod.uid)
                if pod.uid not in self._attempt.members and placement is not None:
                    found.append(Running(pod, names[placement.row] or ""))
        return found

    def _best(self, node: TreeNode, fitting: list[tuple[Placement | None, Parts]]) -> Parts | Part:
        """The best placement of those into which the group fits."""
        if len(fitting) == 1:
            return fitting[0][1]
        narrowest = min(placement.level for placement, _ in fitting if placement is not None)
        closest = [(placement, found) for placement, found in fitting if placement and placement.level == narrowest]
        plugins, running = self._framework.placements, len(self._running(node))
        try:
            scores = [
                plugins.scores(Assignment(node.group, placement, self._placed(node, found), running), self._cluster)
                for placement, found in closest
            ]
            totals = plugins.totals(scores)
        except PluginError as error:
            said = f'running PlacementScore plugins: plugin "{error.plugin}" failed with: {error.text}'
            return Part(Ended.BROKEN, [said])
        best = [i for i, total in enumerate(totals) if total == max(totals)]
        return closest[best[self._pick(str(self._attempt.entry.key), len(best))]][1]

    def _placed(self, node: TreeNode, parts: Parts) -> list[Pod]:
        members = self._attempt.members
        leaves = self._fitting_leaves(node, parts)
        return [members[uid].queued.pod for leaf in leaves for uid in parts[leaf.key].rows if uid in members]


def _on(one: Placement, rows: Rows) -> Placement:
    """A placement, on some of its nodes."""
    return Placement(one.name, rows, one.level)
