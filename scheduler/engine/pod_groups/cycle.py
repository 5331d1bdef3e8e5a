"""The cycle of a pod group: its pods are tried one after the other, and all of them go on, or none.

Mirrors kube-scheduler `schedule_one_podgroup.go` (scheduleOnePodGroup, podGroupSchedulingDefaultAlgorithm), in slices:
between two of them the others have their share. What upstream assumes in a snapshot is assumed in the columns.
"""

from collections.abc import Callable

from scheduler.engine import story_writer
from scheduler.engine.attempts import Attempts, CallAnswer
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.binding_table import Event, State
from scheduler.engine.budget import Budget, TooCostlyError
from scheduler.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE, AskExtenders, SetGroupCondition
from scheduler.engine.outbox import Outbox
from scheduler.engine.places import Cause
from scheduler.engine.pod_groups.agreement import disagreement
from scheduler.engine.pod_groups.entry import Ended, Entry
from scheduler.engine.pod_groups.placements import Placements
from scheduler.engine.pod_groups.preemption import said_of
from scheduler.engine.pod_groups.results import GroupAttempt, Member, unsatisfied, verdict
from scheduler.engine.queue import ATTEMPT_FAILED, Queue
from scheduler.engine.queued import QueuedPod
from scheduler.engine.turns import FREE, NO_NODE, ORDINARY, ROWS_PER_STEP, SHARE
from scheduler.framework.binding_plugins import Rejected
from scheduler.framework.decision import NO_NODES, Decision, fit_error
from scheduler.framework.status import PluginError, printable
from scheduler.model.pod_group import GroupKey, PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools

_AT_ONCE = 128
"""How many pods go on to Permit, give back what they hold, or are told that they failed, in one slice."""
_LONGEST_SEARCH = 8
"""A group that is tried on many placements may cost as much as so many other attempts."""
_FAILED = Cause(ATTEMPT_FAILED)
Assume = Callable[[QueuedPod, Decision, float, GroupKey], "Rejected | PluginError | None"]
"""Assume a pod on one of the best nodes; why a Reserve plugin keeps it from there."""


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
    ) -> None:
        """`pick`: which of several equally good placements is taken, by the name of the group."""
        self._cluster = cluster
        self._queue = queue
        self._attempts = attempts
        self._binding = binding
        self._outbox = outbox
        self._budget = budget
        self._assume = assume
        self._placements = Placements(cluster, queue, attempts, binding, pick)
        self._attempt: GroupAttempt | None = None
        self._owed = 0
        """Steps that others get before the next slice."""
        self._noticed = False
        """Others were tried while pods of the group were assumed."""
        self._in_slice = False

    @property
    def has_work(self) -> bool:
        """Whether a slice could be done now."""
        return self._attempt is not None and not self._attempt.asking

    @property
    def due(self) -> bool:
        """Whether the others have had their share."""
        return self._owed <= 0 and self.has_work

    def others_had(self, steps: int) -> None:
        """Others had a turn."""
        self._owed -= steps
        self._noticed = True

    def trying(self, uid: str) -> QueuedPod | None:
        """A pod of the group that is being tried."""
        member = None if self._attempt is None else self._attempt.members.get(uid)
        return None if member is None else member.queued

    def begin(self, entry: Entry, now: float) -> None:
        """A group has come up: try it, for one slice."""
        self._in_slice = True
        self._begin(entry, now)
        self._in_slice = False

    def _begin(self, entry: Entry, now: float) -> None:
        group = self._cluster.pod_groups.get(entry.key)
        members = {queued.pod.uid: Member(queued) for queued in entry.trying}
        self._owed, self._noticed = 0, False
        if group is None:
            # Only if the profile has no GangScheduling: it holds the pods of groups that are not known.
            attempt = GroupAttempt(entry, _nobody(entry.key), members)
            attempt.break_off(f'podgroup.scheduling.k8s.io "{entry.key.name}" not found')
            self._attempt = attempt
            self._end(attempt, now)
            return
        attempt = self._attempt = GroupAttempt(entry, group, members)
        waiting = [member.queued.pod for member in attempt.pods]
        state = self._cluster.pod_groups.state(entry.key)
        wrong = disagreement(group, waiting, () if state is None else state.with_node, self._queue.frameworks)
        if wrong:
            attempt.break_off(wrong)
            self._end(attempt, now)
            return
        self._placements.begin(attempt)
        why = "" if attempt.search is not None else unsatisfied(group, self._scheduled(attempt), len(members))
        if why and attempt.ended is None:
            attempt.fail(why, early=True)
            attempt.untried = attempt.message
        if attempt.decided:
            self._end(attempt, now)
        else:
            self._go_on(attempt, now, None)

    # -- what happens meanwhile --------------------------------------------------------------------------------------

    def drop(self, uid: str) -> QueuedPod | None:
        """A pod is gone, or placed."""
        attempt = self._attempt
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
        if attempt.asking == uid:
            attempt.asking = ""
        return member.queued

    def _lost(self, attempt: GroupAttempt) -> bool:
        """Whether a pod of the group is not assumed any more, although it was."""
        return attempt.next < 0 or any(
            member.fits and self._binding.state(uid) is not State.GROUP_DECIDING
            for uid, member in attempt.members.items()
        )

    # -- slices ------------------------------------------------------------------------------------------------------

    def go_on(self, now: float, answer: CallAnswer | None = None) -> None:
        """Do one slice. `answer`: of the extenders, if the group waited for them."""
        attempt = self._attempt
        if attempt is None:
            return
        self._in_slice = True
        self._go_on(attempt, now, answer)
        self._in_slice = False

    def _go_on(self, attempt: GroupAttempt, now: float, answer: CallAnswer | None) -> None:
        attempt.asking, decided = "", attempt.decided
        if decided:
            attempt.missed |= self._queue.events != attempt.events
            self._finish(attempt, now)
            return
        if attempt.again or self._lost(attempt):
            self._begin_again(attempt, now)
            return
        used = self._charged(attempt, now, self._slice(attempt, now, answer))
        self._owed = SHARE * used
        if attempt.decided:
            self._end(attempt, now)

    def _slice(self, attempt: GroupAttempt, now: float, answer: CallAnswer | None) -> int:
        """Try pods until the slice is used up, or the attempt is decided; the steps that were used."""
        most = left = self._budget.longest_slice // 2 or 1  # assuming and reserving take as long as deciding
        group = self._cluster.pod_groups.get(attempt.entry.key)
        if group is None:
            attempt.break_off(f'podgroup.scheduling.k8s.io "{attempt.entry.key.name}" not found')
            return ORDINARY
        attempt.group = group
        pods = attempt.pods
        if not pods:
            attempt.fail("")
            attempt.search = None
            return ORDINARY
        within = self._placements.within(attempt)
        while left > 0 and not attempt.decided and (attempt.searching or attempt.next < len(pods)):
            if attempt.search is not None and attempt.searching:
                used = self._placements.step(attempt, attempt.search, now, left, quietly=not self._noticed)
                attempt.spent += used
                left -= used
                if attempt.ended is None:
                    self._noticed = False
                    within = self._placements.within(attempt)
                continue
            steps = self._try(attempt, pods[attempt.next], max(left, self._budget.slice), now, answer, within)
            answer = None
            left -= steps + ORDINARY
            if attempt.asking:
                break
            if attempt.ended is None and attempt.next == len(pods):
                self._decide(attempt)
        return most - left

    def _begin_again(self, attempt: GroupAttempt, now: float) -> None:
        """Not all pods are assumed any more that were: all give back what they hold, and are tried from the start."""
        if not attempt.again:
            attempt.again = True
            attempt.holding = [uid for uid, member in attempt.members.items() if member.fits]
            attempt.spent += ORDINARY * len(attempt.members)
        self._give_back(attempt, now, quietly=False)
        self._owed = SHARE * ORDINARY
        if not attempt.holding:
            attempt.again = False
            attempt.from_start()
            if attempt.members:
                self._placements.begin(attempt)
            if attempt.decided:
                self._end(attempt, now)

    def _try(
        self,
        attempt: GroupAttempt,
        member: Member,
        most: int,
        now: float,
        answer: CallAnswer | None,
        within: Bools | None,
    ) -> int:
        """Try one pod, with those before it assumed; the steps that it took."""
        queued, before = member.queued, self._attempts.steps
        try:
            step, steps = self._attempts.of_group(queued, most, now, answer, within)
        except PluginError as error:
            self._broke(attempt, member, error)
            return self._attempts.steps - before
        search, whole = attempt.search, self._budget.whole
        attempt.spent += max(steps - FREE, 0) if search is None or not search.tried else steps + ORDINARY
        if search is not None:
            whole *= _LONGEST_SEARCH
        if attempt.spent >= whole:
            attempt.ended = Ended.TOO_COSTLY
            attempt.reasons = [str(TooCostlyError(whole, self._cluster.effort.causes))]
            return steps
        if step is None:
            return steps  # this pod is tried again with the next slice
        if isinstance(step, AskExtenders):
            attempt.asking = queued.pod.uid
            self._outbox.add(step)
            return steps
        attempt.next += 1
        member.decision = step
        if not len(step.feasible):
            member.reason, member.message = UNSCHEDULABLE, fit_error(step)
            member.plugins = step.unschedulable_plugins()
            member.nominated = "" if member.message == NO_NODES else None
        else:
            refused = self._assume(queued, step, now, attempt.entry.key)
            if isinstance(refused, PluginError):
                self._broke(attempt, member, refused)
                return steps
            if refused is not None:
                member.reason, member.plugins = UNSCHEDULABLE, frozenset((refused.plugin,))
                member.message = f"0/1 nodes are available: 1 {printable(refused.reason.text)}."
                member.nominated = ""
            member.fits = refused is None
        why = unsatisfied(attempt.group, self._scheduled(attempt), len(attempt.members) - attempt.next)
        if why:
            attempt.fail(why)
            attempt.untried = attempt.message
        return steps

    def _broke(self, attempt: GroupAttempt, member: Member, error: PluginError) -> None:
        member.reason, member.message = SCHEDULER_ERROR, str(error)
        member.plugins = frozenset((error.plugin,))
        attempt.break_off(f"failed to schedule other pod from a pod group: {error}")

    def _decide(self, attempt: GroupAttempt) -> None:
        """All pods were tried, and enough have a node: by this attempt, or from before."""
        if any(member.fits for member in attempt.members.values()):
            attempt.ended = Ended.WITH_NODES
        else:
            attempt.fail("", early=True)
            attempt.enough = True

    def _scheduled(self, attempt: GroupAttempt) -> int:
        state = self._cluster.pod_groups.state(attempt.entry.key)
        return 0 if state is None else state.scheduled

    def _charged(self, attempt: GroupAttempt, now: float, used: int) -> int:
        """Charge the namespace for what goes beyond as many ordinary pods, or was in vain."""
        namespace = attempt.entry.key.namespace
        if attempt.spent:
            self._queue.turns.account(namespace, FREE + min(attempt.spent, used), now)
        if attempt.decided and attempt.ended is not Ended.WITH_NODES:
            no_node = sum(bool(member.reason) for member in attempt.members.values())
            vain = ORDINARY * attempt.next + no_node * (NO_NODE + self._cluster.nodes.rows // ROWS_PER_STEP)
            self._queue.turns.account(namespace, FREE + max(vain, 0), now)
        return used

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end(self, attempt: GroupAttempt, now: float) -> None:
        """The attempt is decided."""
        if attempt.ended is Ended.WITH_NODES:
            attempt.next = 0
        else:
            attempt.missed = any(self._queue.anything_since(one.queued) for one in attempt.pods[:1])
            attempt.holding = [uid for uid, member in attempt.members.items() if member.fits]
        self._finish(attempt, now)

    def _finish(self, attempt: GroupAttempt, now: float) -> None:
        """Do a part of what is left to do with a group that is decided."""
        self._owed = SHARE * ORDINARY
        if attempt.ended is Ended.WITH_NODES:
            self._send(attempt, now)
        else:
            self._give_back(attempt, now, quietly=not self._noticed)
            if not attempt.holding:
                self._tell(attempt, now)
        attempt.events = self._queue.events

    def _give_back(self, attempt: GroupAttempt, now: float, *, quietly: bool) -> None:
        """Some pods that were assumed give back what they hold, the last one first."""
        for _ in range(min(_AT_ONCE, len(attempt.holding))):
            self._binding.give_back(attempt.holding.pop(), now, quietly=quietly)

    def _tell(self, attempt: GroupAttempt, now: float) -> None:
        """Say of the group, and of each of its pods, why they failed."""
        back = attempt.pods
        if not attempt.said:
            attempt.said = True
            if attempt.ended is Ended.REJECTED and back:
                first = back[0].queued.pod
                framework = self._queue.frameworks[first.scheduler_name]
                attempt.reasons.append(said_of(attempt.group, first, framework, self._cluster))
            if back:
                reason = UNSCHEDULABLE if attempt.ended is Ended.REJECTED else SCHEDULER_ERROR
                self._say(attempt, "False", reason, attempt.message)
        for member in back[attempt.told : attempt.told + _AT_ONCE]:
            attempt.told += 1
            self._failed(member, *verdict(attempt, member), now)
        if attempt.told == len(back):
            self._close(attempt, back, now)

    def _send(self, attempt: GroupAttempt, now: float) -> None:
        """Enough pods have a node: they go on to Permit, some at a time."""
        pods = attempt.pods
        if not attempt.next:
            if self._lost(attempt):
                attempt.ended, attempt.next = None, -1  # begin again from the start with the next slice
                return
            self._say(attempt, "True", "Scheduled", "")
        for member in pods[attempt.next : attempt.next + _AT_ONCE]:
            attempt.next += 1
            uid = member.queued.pod.uid
            if member.fits:
                member.queued.entry = None
                member.fits = self._binding.happens(uid, Event.GROUP_ON, None, now)
        if attempt.next < len(pods):
            return
        back = [member for member in pods if not member.fits]
        for member in back:
            if member.reason:
                self._failed(member, member.reason, member.message, member.nominated, now)
        self._close(attempt, back, now)

    def _failed(self, member: Member, reason: str, message: str, nominated: str | None, now: float) -> None:
        queued = member.queued
        queued.plugins = member.plugins
        if reason == SCHEDULER_ERROR:
            queued.errors += 1
        else:
            queued.errors, queued.rejections = 0, queued.rejections + 1
        queued.returned_at = now
        if nominated == "":
            self._cluster.nominations.drop(queued.pod.uid)
        story_writer.failed(queued, reason, message, member.plugins, now)
        self._outbox.failed(queued, reason, message, member.plugins, member.decision, nominated)

    def _close(self, attempt: GroupAttempt, back: list[Member], now: float) -> None:
        assert attempt.ended is not None
        self._attempt = None
        queued = [member.queued for member in back if member.queued.pod.uid not in self._queue]
        self._queue.group_tried(attempt.entry, queued, attempt.ended, now, _FAILED, missed=attempt.missed)

    def broke(self, message: str, now: float) -> None:
        """The slice raised, which is a fault of Berth: the group is tried again after its backoff."""
        attempt = self._attempt
        if attempt is None or not self._in_slice:
            return
        self._in_slice = False
        for uid in attempt.members:
            self._binding.broke(uid, message, now)
        attempt.break_off(message)
        self._end(attempt, now)

    def extenders_failed(self, uid: str, message: str, now: float) -> None:
        """An extender failed that is not ignorable."""
        attempt = self._attempt
        if attempt is not None:
            attempt.asking = ""
            member = attempt.members[uid]
            member.reason, member.message = SCHEDULER_ERROR, message
            attempt.break_off(f"failed to schedule other pod from a pod group: {message}")
            self._end(attempt, now)

    def _say(self, attempt: GroupAttempt, status: str, reason: str, message: str) -> None:
        if attempt.group.uid:
            pod = next(iter(attempt.members.values())).queued.pod
            self._outbox.add(SetGroupCondition(pod, attempt.group, status, reason, message))


def _nobody(key: GroupKey) -> PodGroup:
    """In place of a group that is not known."""
    return PodGroup(key, "", "", 0, "", False, None)
