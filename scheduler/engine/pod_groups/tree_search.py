"""A group of groups that is being tried in the columns. Next stage: `ending` tells what came of it.

What upstream does in a snapshot is done in the columns: if there is one placement only, its pods stay assumed; of
several, the best one is assumed again on the nodes that were found. If one of these is taken by then, all begins again.
"""

from collections.abc import Callable, Iterable

import numpy as np
from msgspec.structs import replace

from scheduler.engine.attempts import CallAnswer
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.budget import ORDINARY
from scheduler.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE
from scheduler.engine.pod_groups.entry import Ended
from scheduler.engine.pod_groups.placements import GIVEN_BACK
from scheduler.engine.pod_groups.plan import Plan
from scheduler.engine.pod_groups.results import GROUP_UNSCHEDULABLE, GroupAttempt, Member, unsatisfied
from scheduler.engine.pod_groups.tree import Part, Parts, TreeNode, built, completed
from scheduler.engine.pod_groups.tree_walk import Steps, TreeWalk
from scheduler.engine.pod_groups.trying import Tries
from scheduler.framework.decision import Rows
from scheduler.framework.runtime import Framework
from scheduler.model.pod_group import PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools


class TreeSearch(TreeWalk):
    """Tries the tree of one attempt."""

    def __init__(
        self,
        attempt: GroupAttempt,
        cluster: Cluster,
        framework: Framework,
        binding: BindingCycles,
        tries: Tries,
        pick: Callable[[str, int], int],
        slice_of_pod: int,
    ) -> None:
        """`slice_of_pod`: the steps that the attempt of one pod may take at once."""
        self._trees = cluster.pod_groups.trees
        super().__init__(attempt, built(attempt.group, self._trees), cluster, cluster, framework, pick)
        self._binding = binding
        self._tries = tries
        self._slice = slice_of_pod
        self._version, self._labels = self._trees.version, cluster.nodes.label_changes
        members = attempt.members
        attempt.members = {uid: members[uid] for uids in self._uids.values() for uid in uids}
        self.parts: Parts = {}
        """What came of each group, once that is known."""
        self._steps = self._whole()
        self._most, self._now = 0, 0.0
        self._answer: CallAnswer | None = None

    def go_on(self, most: int, now: float, answer: CallAnswer | None) -> int:
        """Take one more step of the search; how many steps of work it was. Not many more than `most`."""
        attempt = self._attempt
        if self._stale():
            attempt.next = -1  # the others are given back, and all is tried from the start
            return ORDINARY
        self._most, self._now, self._answer = most, now, answer
        try:
            return next(self._steps)
        except StopIteration:
            return ORDINARY

    def _stale(self) -> bool:
        """Whether the tree has changed, or the nodes on which its groups may be."""
        if self._constrained and self._cluster.nodes.label_changes != self._labels:
            return True
        if self._trees.version != self._version:
            self._version = self._trees.version
            root = self._cluster.pod_groups.get(self.root.key)
            return root is None or not self.root.same(built(root, self._trees))
        return False

    # -- the search --------------------------------------------------------------------------------------------------

    def _whole(self) -> Steps[None]:
        attempt, parts = self._attempt, Parts()
        part = yield from self._group(self.root, None, parts)
        if attempt.next < 0:
            return
        if part.fits and not part.any_scheduled:
            part.ended, part.early = Ended.REJECTED, True
        if part.broken:
            yield from self._give_back(self.root)
        self.parts = completed(self.root, parts)
        there = attempt.members
        members = {}
        for leaf in self.root.leaves:
            own = self.parts[leaf.key]
            for uid in self._uids[leaf.key]:
                if uid in there:
                    live, kept = there[uid], own.members.get(uid)
                    members[uid] = live if own.fits and live.fits else kept or Member(live.queued)
                    if part.fits and not own.fits:
                        if members[uid].fits:
                            members[uid].nominated = ""  # as in a group that fails by itself
                        members[uid].reason, members[uid].message = self._in_vain(own, members[uid])
                        members[uid].fits = False
        attempt.members = members
        attempt.ended, attempt.reasons, attempt.early = part.ended, list(part.reasons), part.early
        attempt.untried = attempt.message

    @property
    def _lost(self) -> bool:
        return self._attempt.next < 0

    def _pods(self, node: TreeNode, within: Rows | None, parts: Parts) -> Steps[Part]:
        attempt, groups = self._attempt, self._cluster.pod_groups
        members = {uid: attempt.members[uid] for uid in self._uids[node.key] if uid in attempt.members}
        one = attempt.part(node.group, members, retried=self._retried)
        one.from_start()
        why = unsatisfied(node.group, groups.scheduled(node.key), len(members))
        if why:
            one.fail(why, early=True)
        mask = self._mask(within)
        while one.ended is None and one.next < len(members):
            one.spent = attempt.spent
            used = self._tries.one(one, one.pods[one.next], self._now, self._answer, mask)
            attempt.spent, attempt.asking, self._answer = one.spent, one.asking, None
            one.asking = None
            yield used + ORDINARY
            if any(uid not in attempt.members for uid in members):
                attempt.next = -1
                return Part(Ended.REJECTED)
        part = Part(one.ended or Ended.WITH_NODES, one.reasons, one.early)
        for uid, member in list(members.items())[: one.next]:
            part.members[uid] = replace(member)
            placement = self._cluster.placement(uid) if member.fits else None
            if placement is not None:
                part.rows[uid] = placement.row
        if part.fits:
            part.any_scheduled = bool(part.rows)
        elif not part.broken:
            yield from self._give_back(node)
        parts[node.key] = part
        return part

    def _assume_again(self, node: TreeNode, parts: Parts) -> Steps[None]:
        for leaf in self._fitting_leaves(node, parts):
            for uid, row in parts[leaf.key].rows.items():
                member = self._attempt.members.get(uid)
                if member is None:
                    self._attempt.next = -1
                    return
                one = self._attempt.part(leaf.group, {uid: member}, retried=True)
                one.spent = self._attempt.spent
                mask = self._mask(np.array([row], dtype=np.intp))
                while one.ended is None and not one.next:
                    member.forget()
                    used = self._tries.one(one, member, self._now, self._answer, mask)
                    self._attempt.spent, self._attempt.asking, self._answer = one.spent, one.asking, None
                    one.asking = None
                    yield used + ORDINARY
                if not member.fits:
                    self._attempt.next = -1  # somebody else has the room by now
                    return

    def _give_back(self, node: TreeNode) -> Steps[None]:
        for leaf in reversed(list(node.leaves)):
            for uid in reversed(self._uids[leaf.key]):
                member = self._attempt.members.get(uid)
                if member is not None and member.fits:
                    member.fits = False
                    self._binding.give_back(uid, self._now, quietly=not self._attempt.noticed, untold=True)
                    yield GIVEN_BACK

    def _mask(self, within: Rows | None) -> Bools | None:
        if within is None:
            return None
        mask = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
        mask[within] = True
        return mask

    # -- what is said ------------------------------------------------------------------------------------------------

    @property
    def knows(self) -> bool:
        """Whether the search itself has ended as the attempt did, so that it can say what came of each group."""
        part = self.parts.get(self.root.key)
        return part is not None and part.ended is self._attempt.ended

    @property
    def starting(self) -> Iterable[TreeNode]:
        """The pod groups that fit, of a tree that does."""
        return self._fitting_leaves(self.root, self.parts)

    def conditions(self, plan: Plan) -> Iterable[tuple[PodGroup, str, str, str]]:
        """(group, status, reason, message) of each pod group. `plan`: what comes of preemption."""
        for leaf in self.root.leaves:
            part = self.parts.get(leaf.key) or Part(Ended.BROKEN, [self._attempt.message])
            if part.fits and self._attempt.ended is Ended.WITH_NODES:
                yield leaf.group, "True", "Scheduled", ""
            elif part.broken or (self._attempt.ended is not Ended.REJECTED and not self.knows):
                yield leaf.group, "False", SCHEDULER_ERROR, part.said() if part.broken else self._attempt.message
            else:
                yield leaf.group, "False", UNSCHEDULABLE, part.said(self._more(plan))

    def _more(self, plan: Plan) -> str:
        """What is said besides: of preemption, and of room that is kept."""
        return ", ".join(filter(None, (plan.said, self._attempt.of_room)))

    def verdict(self, member: Member, plan: Plan) -> tuple[str, str, str | None]:
        """(reason, message, nomination) for a pod of a tree that failed. `plan`: as in `conditions`."""
        key = member.queued.pod.scheduling_group
        part = None if key is None else self.parts.get(key)
        if part is None or part.broken:
            own = member.reason == SCHEDULER_ERROR
            return SCHEDULER_ERROR, member.message if own else part.said() if part else self._attempt.message, ""
        nominated = plan.node_for(member.queued.pod)
        if member.fits and plan.waits:
            return UNSCHEDULABLE, part.said(self._more(plan)), nominated
        if member.fits:
            return UNSCHEDULABLE, f"{GROUP_UNSCHEDULABLE}, {part.said(self._more(plan))}", ""
        if member.reason:
            return member.reason, member.message, member.nominated if nominated is None else nominated
        return UNSCHEDULABLE, part.said(), nominated

    def _in_vain(self, part: Part, member: Member) -> tuple[str, str]:
        """(reason, message) of a pod whose own group does not fit, though the tree does."""
        if member.reason:
            return member.reason, member.message
        return UNSCHEDULABLE, f"{GROUP_UNSCHEDULABLE}, {part.said()}" if member.fits else part.said()
