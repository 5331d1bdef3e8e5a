"""The cycle of a pod group: its pods are tried one after the other, and all of them go on, or none.

How one pod is tried is in `trying`, how the placements follow each other in `placements`, and what happens once the
group is decided in `ending`. Mirrors kube-scheduler `schedule_one_podgroup.go` (scheduleOnePodGroup,
podGroupSchedulingDefaultAlgorithm), in slices: between two of them the others have their share. What upstream assumes
in a snapshot is assumed in the columns.
"""

from collections.abc import Callable

from scheduler.engine.attempts import Attempts, CallAnswer
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.binding_table import State
from scheduler.engine.budget import NOMINATED_PER_STEP, ORDINARY, SHARE, Budget
from scheduler.engine.extender_calls import ExtenderCall
from scheduler.engine.fair_share import ROWS_PER_STEP
from scheduler.engine.instructions import SCHEDULER_ERROR, GroupTried
from scheduler.engine.nominator import Nominator
from scheduler.engine.outbox import Outbox
from scheduler.engine.pod_groups.agreement import disagreement, no_profile
from scheduler.engine.pod_groups.asking import AT_ONCE
from scheduler.engine.pod_groups.ending import Endings
from scheduler.engine.pod_groups.entry import Ended, Entry
from scheduler.engine.pod_groups.evicting import Evict, Evictions
from scheduler.engine.pod_groups.further import FurtherOrders
from scheduler.engine.pod_groups.min_resources import gap
from scheduler.engine.pod_groups.placements import PODS_PER_STEP, Placements
from scheduler.engine.pod_groups.reservations import Reservations
from scheduler.engine.pod_groups.results import GroupAttempt, Member, Search, unsatisfied
from scheduler.engine.pod_groups.stand_ins import StandIns
from scheduler.engine.pod_groups.tree_search import TreeSearch
from scheduler.engine.pod_groups.trying import Assume, Tries
from scheduler.engine.queue import Queue
from scheduler.engine.queued import QueuedPod
from scheduler.model.pod_group import COMPOSITE, GroupKey, PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.group_trees import MOST_GROUPS

_RESULTS: dict[Ended | None, str] = {Ended.WITH_NODES: "scheduled", Ended.REJECTED: "unschedulable"}
MANY_NODES = 1_000
"""To read the labels of more is enough for one turn: 4 ms at 5,000. Pods that come meanwhile are tried before the
group, which they are not in kube-scheduler."""


class GroupCycles:
    """Tries one group at a time."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        attempts: Attempts,
        binding: BindingCycles,
        outbox: Outbox,
        budget: Budget,
        assume: Assume,
        pick: Callable[[str, int], int],
        nominator: Nominator,
        evict: Evict,
    ) -> None:
        """`pick`: which of several equally good placements is taken, by the name of the group."""
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._budget = budget
        self._outbox = outbox
        self._pick = pick
        self._attempts = attempts
        self._tries = Tries(cluster, queue, attempts, outbox, budget, assume)
        self.reservations = Reservations(cluster, queue, attempts, outbox, budget, pick)
        evictions = Evictions(cluster, queue, attempts, outbox, budget, pick, evict)
        self._endings = Endings(cluster, queue, binding, outbox, nominator, evictions, self.reservations)
        self._placements = Placements(cluster, queue, attempts, binding, pick)
        self._further = FurtherOrders(queue, attempts, budget.whole)
        self.attempt: GroupAttempt | None = None
        """The group that is being tried."""
        self._owed = 0
        """Steps that others get before the next slice."""
        self._in_slice = False
        self._labels = -1
        """`Nodes.label_changes` when placements were generated last."""

    @property
    def has_work(self) -> bool:
        """Whether a slice could be done now."""
        return self.attempt is not None and self.attempt.asking is None

    @property
    def due(self) -> bool:
        """Whether the others have had their share."""
        return self._owed <= 0 and self.has_work

    def others_had(self, steps: int) -> None:
        """Others had a turn."""
        self._owed -= steps
        if self.attempt is not None:
            self.attempt.noticed = True

    def trying(self, uid: str) -> QueuedPod | None:
        """A pod of the group that is being tried."""
        member = None if self.attempt is None else self.attempt.members.get(uid)
        return None if member is None else member.queued

    def begin(self, entry: Entry, now: float) -> None:
        """A group has come up: try it, for one slice."""
        self._in_slice = True
        self._begin(entry, now)
        self._in_slice = False

    def _begin(self, entry: Entry, now: float) -> None:
        group = self._cluster.pod_groups.get(entry.key)
        members = {queued.pod.uid: Member(queued) for queued in entry.trying}
        self._owed = 0
        entry.first_tried = min(entry.first_tried, now)
        once_more, entry.once_more = entry.once_more, False
        attempt = self.attempt = GroupAttempt(entry, group or _nobody(entry.key), members, began=self._time())
        if group is None:
            # Only if the profile has no GangScheduling: it holds the pods of groups that are not known.
            attempt.break_off(_not_found(entry.key))
        else:
            self._look_at_it_first(attempt, now, once_more=once_more)
        if attempt.decided:
            self._end(attempt, now)
        elif len(members) > AT_ONCE or (attempt.search is not None and self._looked_long(attempt.search)):
            self._owed = SHARE * ORDINARY  # to look at all of them, or at all placements, was enough for one turn
        else:
            self._go_on(attempt, now, None)

    def _time(self) -> float:
        """The time of who measures, if anybody does."""
        clock = self._attempts.record.clock
        return 0.0 if clock is None else clock()

    def _look_at_it_first(self, attempt: GroupAttempt, now: float, *, once_more: bool) -> None:
        """Find where the group may be. It fails here if no pod has to be tried to know that.

        `once_more`: as of `Entry`.
        """
        group, groups = attempt.group, self._cluster.pod_groups
        if once_more and (why := self._lacks(group, len(attempt.members))):
            attempt.short = True
            attempt.fail_at_once(why)
            return
        waiting = [member.queued.pod for member in attempt.pods]
        wrong = self._too_large(group) or disagreement(
            group, waiting, groups.with_node_in(group.key), self._queue.frameworks
        )
        if wrong:
            attempt.break_off(wrong)
            return
        if group.min_resources is not None:
            steps = (len(group.min_resources) + 1) * (1 + self._cluster.nodes.rows // ROWS_PER_STEP)
            self._queue.fair_share.charge(group.key.namespace, steps, now)
            if why := gap(group, groups.state(group.key), self._cluster):
                attempt.fail_at_once(why)
                return
        self._prepare(attempt)
        if attempt.ended is not None or attempt.search is not None or attempt.tree is not None:
            return  # on each placement, or in each group of a tree, it is another number of pods
        if why := unsatisfied(group, groups.scheduled(group.key), len(attempt.members)):
            attempt.fail_at_once(why)

    def _looked_long(self, search: Search) -> bool:
        """Whether there are many placements, or the labels of many nodes were read for them just now."""
        anew, self._labels = search.labels != self._labels, search.labels
        return (anew and self._cluster.nodes.count > MANY_NODES) or len(search.found) > AT_ONCE

    def _prepare(self, attempt: GroupAttempt) -> None:
        """Find where the group may be, or what its tree is."""
        if attempt.group.key.api != COMPOSITE:
            self._placements.begin(attempt)
            return
        framework, most = self._queue.frameworks[attempt.pods[0].queued.pod.scheduler_name], self._budget.slice
        attempt.tree = TreeSearch(attempt, self._cluster, framework, self._binding, self._tries, self._pick, most)

    def _lacks(self, group: PodGroup, waiting: int) -> str:
        """Why a group is not tried, if it has too few pods; empty: it has enough."""
        groups = self._cluster.pod_groups
        if group.key.api != COMPOSITE:
            return unsatisfied(group, groups.scheduled(group.key), waiting)
        return "" if groups.trees.ready(group.key) else "too few of its groups have enough pods"

    def _too_large(self, group: PodGroup) -> str:
        """What is wrong if a tree has too many groups; empty: nothing."""
        if group.key.api != COMPOSITE or not self._cluster.pod_groups.trees.too_large(group.key):
            return ""
        return f"its tree has more than {MOST_GROUPS:,} groups, which is not supported"

    # -- what happens meanwhile --------------------------------------------------------------------------------------

    @property
    def planning(self) -> bool:
        """Whether victims are looked for, for a group that did not fit."""
        attempt = self.attempt
        return attempt is not None and attempt.preemption is not None and attempt.plan is None

    def drop(self, uid: str) -> QueuedPod | None:
        """A pod is gone, or placed."""
        attempt = self.attempt
        if attempt is None or uid not in attempt.members:
            return None
        place = list(attempt.members).index(uid)
        member = attempt.members.pop(uid)
        member.queued.entry = None
        if not attempt.decided:
            attempt.next = -1  # the others are tried again from the start
        else:
            attempt.next -= place < attempt.next
            attempt.told -= place < attempt.told
        if uid in attempt.holding:
            attempt.holding.remove(uid)
        self._ask_no_more(attempt)  # the others are tried, or planned for, from the start
        return member.queued

    def _ask_no_more(self, attempt: GroupAttempt) -> None:
        """Nobody waits for what extenders are being asked: an answer that comes now is for nobody."""
        question, attempt.asking = attempt.asking, None
        if question is not None:
            self._attempts.extender_calls.drop(question.pod.uid)

    # -- slices ------------------------------------------------------------------------------------------------------

    def go_on(self, now: float, answer: CallAnswer | None = None) -> None:
        """Do one slice. `answer`: of the extenders, if the group waited for them."""
        attempt = self.attempt
        if attempt is None:
            return
        self._in_slice = True
        self._go_on(attempt, now, answer)
        self._in_slice = False

    def _go_on(self, attempt: GroupAttempt, now: float, answer: CallAnswer | None) -> None:
        attempt.asking, decided = None, attempt.decided
        gone = self._profile_gone(attempt)
        if gone:
            attempt.break_off(no_profile(gone))
        if gone and not decided:
            self._end(attempt, now)
            return
        if decided:
            attempt.missed |= self._queue.events.number != attempt.events
            self._finished(attempt, over=self._endings.go_on(attempt, now, answer))
            return
        if attempt.again or self._endings.lost(attempt):
            answer = None  # it is about one of the pods with those before it assumed
            if not self._began_again(attempt, now):
                return
        used = self._tries.charged(attempt, now, self._slice(attempt, now, answer))
        self._owed = SHARE * used
        if attempt.decided and not self._further.another(attempt):
            self._end(attempt, now)

    def _profile_gone(self, attempt: GroupAttempt) -> str:
        """The name of the group's profile, if that was removed: nobody can decide about the group any more.

        Empty: it is there, or the group is to start all the same, as pods do that are being bound.
        """
        name = next((member.queued.pod.scheduler_name for member in attempt.pods[:1]), None)
        starts = attempt.decided and attempt.ended is Ended.WITH_NODES
        return "" if name is None or name in self._queue.frameworks or starts else name

    def _slice(self, attempt: GroupAttempt, now: float, answer: CallAnswer | None) -> int:
        """Do what `_tried` does, while only stand-ins keep from the group the nodes that are kept for its pods."""
        nominations = self._cluster.nominations
        if not nominations:
            return self._tried(attempt, now, answer)
        pods = [member.queued.pod for member in attempt.pods]
        framework = self._queue.frameworks.get(pods[0].scheduler_name) if pods else None
        if framework is None:
            return self._tried(attempt, now, answer)
        at_once = self._budget.longest_slice // (2 * ORDINARY) + 1
        with nominations.aside(pods, StandIns(attempt, self._cluster, framework, at_once).of):
            return len(attempt.members) // PODS_PER_STEP + self._tried(attempt, now, answer)

    def _tried(self, attempt: GroupAttempt, now: float, answer: CallAnswer | None) -> int:
        """Try pods until the slice is used up, or the attempt is decided; the steps that were used."""
        most = left = self._budget.longest_slice // 2 or 1  # assuming and reserving take as long as deciding
        group = self._cluster.pod_groups.get(attempt.entry.key)
        if group is None:
            attempt.break_off(_not_found(attempt.entry.key))
            return ORDINARY
        attempt.group = group
        pods = attempt.pods
        if not pods:
            attempt.fail("")
            attempt.search = None
            return ORDINARY
        tree = attempt.tree
        while tree is not None and left > 0 and attempt.ended is None and attempt.asking is None and attempt.next >= 0:
            left -= tree.go_on(left, now, answer)
            answer = None
        if tree is not None:
            return most - left
        within = self._placements.within(attempt)
        while left > 0 and not attempt.decided and (attempt.searching or attempt.next < len(pods)):
            if attempt.search is not None and attempt.searching:
                used = self._placements.step(attempt, attempt.search, now, left, quietly=not attempt.noticed)
                attempt.spent += used
                left -= used
                if attempt.ended is None:
                    attempt.noticed = False
                    within = self._placements.within(attempt)
                continue
            domain = 0 if attempt.search is None else attempt.search.filled
            steps = self._tries.one(attempt, pods[attempt.next], now, answer, within)
            answer = None
            left -= steps + ORDINARY + len(self._cluster.nominations) // NOMINATED_PER_STEP
            if attempt.asking is not None:
                break
            if attempt.search is not None and attempt.search.filled != domain:
                within = self._placements.within(attempt)
            if attempt.ended is None and attempt.next == len(pods):
                self._tries.decide(attempt)
        return most - left

    def _began_again(self, attempt: GroupAttempt, now: float) -> bool:
        """Not all pods are assumed any more that were: all give back what they hold, and are tried from the start.

        False: that is all for this slice.
        """
        if not attempt.again:
            attempt.again = True
            attempt.holding = [uid for uid, member in attempt.members.items() if member.fits]
            attempt.spent += ORDINARY * len(attempt.members)
        self._endings.give_back(attempt, now, quietly=False)
        self._owed = SHARE * ORDINARY
        if attempt.holding:
            return False
        attempt.again = False
        if attempt.further is not None:
            self._further.begin(attempt, attempt.further)
        else:
            attempt.from_start()
            if attempt.members:
                self._prepare(attempt)
        if attempt.decided:
            self._end(attempt, now)
        return not attempt.decided

    def _end(self, attempt: GroupAttempt, now: float) -> None:
        """The attempt is decided."""
        attempt.decided_at = self._time()
        self._ask_no_more(attempt)
        self._finished(attempt, over=self._endings.begin(attempt, now))

    def _finished(self, attempt: GroupAttempt, *, over: bool) -> None:
        """A part was done of what is left to do with a group that is decided. `over`: nothing is left."""
        self._owed = SHARE * max(attempt.used, ORDINARY)
        attempt.used = 0
        if over:
            self.attempt = None
            self._measure(attempt)

    def _measure(self, attempt: GroupAttempt) -> None:
        """Have the attempt counted, if somebody measures and a pod of it is left."""
        clock = self._attempts.record.clock
        if clock is not None and attempt.members:
            plan, result = attempt.plan, _RESULTS.get(attempt.ended, "error")
            if attempt.ended is Ended.REJECTED and plan is not None and plan.waits:
                result = "waiting_on_preemption"
            took = clock() - attempt.began, attempt.decided_at - attempt.began
            preempts = None if plan is None else bool(plan.victims)
            self._outbox.add(GroupTried(attempt.pods[0].queued.pod, result, *took, preempts))

    def broke(self, message: str, now: float) -> None:
        """The slice raised, which is a fault of Berth: the group is tried again after its backoff.

        Pods that went on before that are bound all the same, as pods are that are in no group.
        """
        attempt = self.attempt
        if attempt is None or not self._in_slice:
            return
        self._in_slice = False
        self._binding.broke("", message, now)
        attempt.leave_out({uid for uid, member in attempt.members.items() if self._is_elsewhere(member.queued)})
        for uid, member in attempt.members.items():
            member.fits = self._binding.state(uid) is State.GROUP_DECIDING  # these give back what they hold
        attempt.break_off(message)
        self._end(attempt, now)

    def _is_elsewhere(self, queued: QueuedPod) -> bool:
        """Whether a pod of the group is no part of the attempt any more: it went on, or is back in the queue."""
        uid = queued.pod.uid
        went_on = queued.entry is None and self._binding.state(uid) is not State.GROUP_DECIDING
        return went_on or uid in self._queue

    def extenders_failed(self, call: ExtenderCall, message: str, now: float) -> None:
        """An extender failed that is not ignorable."""
        attempt, uid = self.attempt, call.queued.pod.uid
        if attempt is None:
            return
        attempt.asking = None
        if attempt.decided:
            self._finished(attempt, over=self._endings.go_on(attempt, now, (call, message)))
        else:
            member = attempt.members[uid]
            member.reason, member.message = SCHEDULER_ERROR, message
            attempt.break_off(f"failed to schedule other pod from a pod group: {message}")
            self._end(attempt, now)


def _not_found(key: GroupKey) -> str:
    return f'podgroup.scheduling.k8s.io "{key.name}" not found'


def _nobody(key: GroupKey) -> PodGroup:
    """In place of a group that is not known."""
    return PodGroup(key, "", "", 0, "", False, None)
