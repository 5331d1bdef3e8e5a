"""A group of groups that is tried in a dry run: which nodes its pods would find in a cluster without any victim.

`scheduler.engine.pod_groups.trial` does the same for one group.
"""

import sys

from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.results import unsatisfied
from scheduler.engine.pod_groups.tree import Part, Parts, TreeNode
from scheduler.engine.pod_groups.tree_walk import Steps, TreeWalk
from scheduler.engine.pod_groups.trial import MOVED, Assigned, Trial
from scheduler.framework.decision import Rows

NEVER = sys.maxsize


class TreeTrial(TreeWalk):
    """Tries one tree."""

    def __init__(self, root: TreeNode, trial: Trial) -> None:
        """`trial`: of the tree's attempt. It finds the node of each pod."""
        super().__init__(trial.attempt, root, trial.live, trial.cluster, trial.framework, trial.pick)
        self._trial = trial
        self.seen_until: list[int] = []
        """For each pod that found a node, the first one that was tried when it had given back that node, since a group
        that it is in does not fit. `NEVER`: it has not. Empty: none has."""

    def run(self) -> Steps[tuple[str, Assigned]]:
        """Do what `Trial.run` does. Pods that find a node are among those with rows though their own group may not
        fit: a place is found for them as well, as in kube-scheduler."""
        parts = Parts()
        self.seen_until.clear()
        part = yield from self._group(self.root, None, parts)
        if part.fits and not part.any_scheduled:
            part.ended, part.early = Ended.REJECTED, True
        yield from self._give_back(self.root)
        if not part.fits:
            return part.said(), []
        assigned: Assigned = []
        self._assigned(self.root, parts, assigned)
        if min(self.seen_until, default=NEVER) == NEVER:
            self.seen_until.clear()
        return "", assigned

    def starting(self, assigned: Assigned) -> Assigned:
        """The pods that would start, of the ones for which `run` has found a node: those of groups that fit."""
        if not self.seen_until:
            return assigned
        return [one for one, until in zip(assigned, self.seen_until, strict=True) if until == NEVER]

    def _assigned(self, node: TreeNode, parts: Parts, found: Assigned) -> None:
        """Add the pods of a subtree that found a node, and until when each was seen."""
        part, start = parts.get(node.key), len(found)
        if part is not None:
            found += [(self._attempt.members[uid].queued.pod, row) for uid, row in part.rows.items()]
            self.seen_until += [NEVER] * len(part.rows)
        for child in node.children:
            self._assigned(child, parts, found)
        if part is None or not part.fits:
            self.seen_until[start:] = [min(until, len(found)) for until in self.seen_until[start:]]

    @property
    def _lost(self) -> bool:
        return False  # nobody else looks at this cluster

    def _pods(self, node: TreeNode, within: Rows | None, parts: Parts) -> Steps[Part]:
        pods = [self._attempt.members[uid].queued.pod for uid in self._uids[node.key]]
        scheduled, mask = self._live.pod_groups.scheduled(node.key), self._trial.only(within)
        rows: dict[str, int] = {}
        why, tried = unsatisfied(node.group, scheduled, len(pods)), 0
        while not why and tried < len(pods):
            pod = pods[tried]
            row = yield from self._trial.node_for(pod, mask)
            tried += 1
            if row is not None:
                rows[pod.uid] = row
            why = unsatisfied(node.group, scheduled + len(rows), len(pods) - tried)
        parts[node.key] = Part(Ended.WITH_NODES, any_scheduled=bool(rows), rows=rows)
        if why:
            parts[node.key] = Part(Ended.REJECTED, [why], early=not tried, rows=rows)
            yield from self._give_back(node)
        return parts[node.key]

    def _assume_again(self, node: TreeNode, parts: Parts) -> Steps[None]:
        for leaf in self._fitting_leaves(node, parts):
            for uid, row in parts[leaf.key].rows.items():
                self._trial.assume(self._attempt.members[uid].queued.pod, row)
                yield MOVED

    def _give_back(self, node: TreeNode) -> Steps[None]:
        for leaf in reversed(list(node.leaves)):
            for uid in reversed(self._uids[leaf.key]):
                if self._trial.forget(self._attempt.members[uid].queued.pod):
                    yield MOVED
