"""The cycle of a pod group: its pods are tried one after the other, and all of them go on, or none.

How the placements follow each other is in `placements`, and what happens once the group is decided in `ending`.
Mirrors kube-scheduler `schedule_one_podgroup.go` (scheduleOnePodGroup, podGroupSchedulingDefaultAlgorithm,
podGroupPodSchedulingAlgorithm), as a generator: between two pods others may be tried. What upstream assumes in a
snapshot is assumed in the columns.
"""

from collections.abc import Callable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import State
from podberth.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE, AskExtenders, GroupTried, Outbox
from podberth.engine.observers import Observers
from podberth.engine.pod_groups.attempt import A_TRY, Answer, GroupAttempt, Member, StandIns, Turns, unsatisfied
from podberth.engine.pod_groups.ending import Endings
from podberth.engine.pod_groups.placements import Placements
from podberth.engine.pod_groups.preemption import Evictions
from podberth.engine.pod_groups.reservations import Reservations
from podberth.engine.pod_groups.validation import disagreement, gap, no_profile
from podberth.engine.preemption import Nominator, Victims
from podberth.engine.queue.fair_share import FREE
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.queued import QueuedGroup, QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import CallAnswer, SchedulingCycle
from podberth.framework.decision import NO_NODES, Decision, fit_error
from podberth.framework.interface import PostFilterResult
from podberth.framework.status import PluginError, printable
from podberth.model.pod_group import GroupKey, PodGroup

_RESULTS: dict[Ended | None, str] = {Ended.WITH_NODES: "scheduled", Ended.REJECTED: "unschedulable"}
_MANY = 256
"""The number of pods, or of nodes whose labels are compared, that are looked at in one turn."""
_IN_A_ROW = 16
"""The number of turns that a group has in a row before pods that come after it in the queue have as many. Pods that
come before it are tried between any two of its own. Else a crowd of small pods would keep any gang from ever starting.
"""
AT_A_TURN = 16
"""The number of its pods that are tried in one turn while nothing else is active."""


class GroupCycles:
    """Tries one group at a time, in turns.

    In a turn one of its pods is tried, or up to `AT_A_TURN` while nothing else is active. Between two turns other pods
    are tried: those that come before the group in the queue at once, those that come after it once the group had
    `in_a_row` turns, and then as many of them (`due`). Before the next turn, `_after_changes` looks whether the attempt
    still holds. If not, it starts again (an assumed pod was lost) or ends (the group's object or profile is gone).

    While the group's pods are tried, their nominations are set aside (`_stand_in`). They count again whenever pods of
    others are tried (`let_others_see`).
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduling: SchedulingCycle,
        binding: BindingCycles,
        outbox: Outbox,
        observers: Observers,
        pick: Callable[[str, int], int],
        nominator: Nominator,
        victims: Victims,
    ) -> None:
        """`pick(group name, n)` returns the index of the one to take of n equally good placements."""
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._outbox = outbox
        self._scheduling = scheduling
        self.reservations = Reservations(cluster, queue, scheduling, outbox, pick)
        evictions = Evictions(cluster, queue, scheduling, outbox, pick, victims)
        self._endings = Endings(cluster, queue, binding, outbox, observers, nominator, evictions, self.reservations)
        self._placements = Placements(cluster, queue, scheduling, self._endings, pick)
        self.attempt: GroupAttempt | None = None
        """The group that is being tried."""
        self._turns: Turns[None] | None = None
        """The generator that continues the attempt. None during a turn, and after one that has raised."""
        self.in_a_row = _IN_A_ROW
        self._row = 0
        """The number of turns that the group still has in a row."""
        self._others = 0
        """The number of turns that others have before that."""
        self._left = 0
        """The number of pods that may still be tried in this turn."""
        self._standing_in = 0
        """The number of pods that are still tried beside those that stand in for others of the group now."""

    @property
    def has_work(self) -> bool:
        """Return whether a group is being tried and does not wait for extenders."""
        return self.attempt is not None and self.attempt.asking is None

    @property
    def due(self) -> bool:
        """Return whether the group's next turn is now: nothing else is active, or others had their turns and nothing
        that is active comes before it.
        """
        attempt = self.attempt
        if attempt is None or not self.has_work:
            return False
        return not self._queue.has_active or not (self._others or self._queue.groups.has_before(attempt.entry))

    def others_come(self) -> None:
        """Note that other pods are tried next: the nominations of the group's pods count again for them."""
        self.let_others_see()
        self._others = max(self._others - 1, 0)
        if self.attempt is not None:
            self.attempt.noticed = True

    def let_others_see(self) -> None:
        """Make the nominations of the group's pods count again, for pods of others."""
        if self._standing_in:
            self._standing_in = 0
            self._cluster.nominations.bring_back()

    def reconfigure(self) -> None:
        """Begin the attempt anew by other profiles; if it is decided, neither remove pods nor keep room by the old
        ones.
        """
        self.let_others_see()
        attempt = self.attempt
        if attempt is not None and attempt.decided:
            attempt.outdated = attempt.missed = True
        elif attempt is not None:
            attempt.lost = True

    def trying(self, uid: str) -> QueuedPod | None:
        """Return a pod of the group that is being tried; None: it is in no such group, or has left the attempt."""
        member = None if self.attempt is None else self.attempt.members.get(uid)
        return None if member is None or self._is_elsewhere(member.queued) else member.queued

    def begin(self, entry: QueuedGroup, now: float) -> None:
        """Begin the attempt of a group that was popped from the queue."""
        group = self._cluster.pod_groups.get(entry.key)
        members = {queued.pod.uid: Member(queued) for queued in entry.trying}
        entry.first_tried = min(entry.first_tried, now)
        once_more, entry.once_more = entry.once_more, False
        attempt = self.attempt = GroupAttempt(entry, group or _nobody(entry.key), members, began=self._time())
        attempt.now, self._row, self._others = now, self.in_a_row, 0
        self._take_turn(attempt, self._cycle(attempt, once_more=once_more))

    def _time(self) -> float:
        """Return the time of the record's clock, 0.0 if attempts are not measured."""
        clock = self._scheduling.record.clock
        return 0.0 if clock is None else clock()

    def go_on(self, now: float, answer: Answer | None = None) -> None:
        """Continue the attempt until others may be tried. `answer` is that of the extenders, if the group waited for
        them.
        """
        attempt, turns = self.attempt, self._turns
        if attempt is None or turns is None:
            return
        self._turns = None
        attempt.now, attempt.answer, attempt.asking = now, answer, None
        if attempt.decided:
            attempt.missed |= self._queue.events.number != attempt.events
        self._take_turn(attempt, self._after_changes(attempt, turns))

    def _goes_on(self, tried: Member) -> bool:
        """Return whether another pod may be tried in the same turn: the turn is not used up, and nothing else is
        active.
        """
        self._left -= 1 + tried.queued.pod.shape.steps // FREE
        if self._left <= 0 or self._queue.has_active:
            return False
        self._row -= 1
        return True

    def _take_turn(self, attempt: GroupAttempt, turns: Turns[None]) -> None:
        self._left = AT_A_TURN
        self._row -= 1
        if self._row <= 0:
            self._row = self._others = self.in_a_row
        try:
            next(turns)
        except StopIteration:
            self.attempt = None
            self._measure(attempt)
        else:
            self._turns, attempt.events = turns, self._queue.events.number

    def _after_changes(self, attempt: GroupAttempt, turns: Turns[None]) -> Turns[None]:
        """Return the generator that continues after other pods had their turns: the same one, or one that ends or
        restarts.
        """
        wrong = self._undecidable(attempt)
        if attempt.decided:
            if wrong:
                attempt.break_off(wrong)
            return turns  # room that was looked for is not wanted any more
        if not (wrong or self._endings.lost(attempt)):
            return turns
        turns.close()
        self.let_others_see()
        if wrong:
            attempt.break_off(wrong)
            return self._end(attempt)
        return self._again(attempt)

    def _undecidable(self, attempt: GroupAttempt) -> str:
        """Return the reason for which the group can't be decided any more (profile or object gone); empty: none."""
        if attempt.decided and attempt.ended is not Ended.REJECTED:
            return ""
        name = next((member.queued.pod.scheduler_name for member in attempt.pods[:1]), None)
        if name is not None and name not in self._queue.frameworks:
            return no_profile(name)
        group = self._cluster.pod_groups.get(attempt.entry.key)
        if group is None:
            return _not_found(attempt.entry.key)
        if attempt.decided and group.asks != attempt.group.asks:
            attempt.outdated = attempt.missed = True
        attempt.group = group
        return ""

    # -- what is done ------------------------------------------------------------------------------------------------

    def _cycle(self, attempt: GroupAttempt, *, once_more: bool) -> Turns[None]:
        """Try the group, and act on the outcome. `once_more` is that of `QueuedGroup`."""
        self._look_at_it_first(attempt, once_more=once_more)
        yield from self._try(attempt)
        yield from self._end(attempt)

    def _again(self, attempt: GroupAttempt) -> Turns[None]:
        """Start the attempt again after an assumed pod was lost, or the profiles changed: all give back what they hold,
        and are tried from the start.
        """
        attempt.noticed = True
        attempt.from_start()
        yield from self._endings.give_back(attempt)
        attempt.search = attempt.only_places = None
        if attempt.members:
            self._placements.begin(attempt)
        yield from self._try(attempt)
        yield from self._end(attempt)

    def _look_at_it_first(self, attempt: GroupAttempt, *, once_more: bool) -> None:
        """Find where the group may be. It fails here if no pod has to be tried to know that."""
        group, groups = attempt.group, self._cluster.pod_groups
        if groups.get(group.key) is None:
            # Only if the profile has no GangScheduling: it holds the pods of groups that are not known.
            attempt.break_off(_not_found(group.key))
            return
        why = unsatisfied(group, groups.scheduled(group.key), len(attempt.members))
        if once_more and why:
            attempt.short = True
            attempt.fail_at_once(why)
            return
        waiting = [member.queued.pod for member in attempt.pods]
        wrong = disagreement(group, waiting, groups.with_node_in(group.key), self._queue.frameworks)
        if wrong:
            attempt.break_off(wrong)
            return
        if lacking := gap(group, groups.state(group.key), self._cluster):
            attempt.fail_at_once(lacking)
            return
        self._placements.begin(attempt)
        if why and attempt.ended is None and attempt.search is None:  # on each placement it is another number of pods
            attempt.fail_at_once(why)

    def _try(self, attempt: GroupAttempt) -> Turns[None]:
        """Try all pods, on one placement after the other if there are several."""
        if attempt.ended is not None:
            return
        if max(len(attempt.members), 0 if attempt.search is None else self._cluster.nodes.count) > _MANY:
            yield
        if attempt.search is not None:
            yield from self._placements.search(attempt, attempt.search, self._try_all)
        else:
            yield from self._try_all(attempt)

    def _try_all(self, attempt: GroupAttempt) -> Turns[None]:
        """Try one pod after the other, until it is known whether the group fits."""
        if not attempt.members:
            attempt.fail("")
        while attempt.ended is None:
            if attempt.next < len(attempt.pods):
                member = attempt.pods[attempt.next]
                self._row -= member.queued.pod.shape.steps // FREE  # it has as many turns as it takes the time of
                yield from self.try_one(attempt, member)
                if attempt.next < len(attempt.pods) and attempt.ended is None and not self._goes_on(member):
                    yield
            elif any(member.fits for member in attempt.members.values()):
                attempt.ended = Ended.WITH_NODES
            else:
                attempt.fail("", early=True)
                attempt.enough = True
        self.let_others_see()

    def try_one(self, attempt: GroupAttempt, member: Member) -> Turns[None]:
        """Try one pod, with those before it assumed, to its end: only extenders have it wait."""
        try:
            step = self._decided(attempt, member.queued, None, self._within(attempt))
            while isinstance(step, AskExtenders):
                attempt.asking = step.question
                self._outbox.add(step)
                yield
                call, said = attempt.answered()
                if isinstance(said, str):
                    self._broke(attempt, member, said)
                    return
                step = self._decided(attempt, member.queued, (call, said), self._within(attempt))
        except PluginError as error:
            self._broke(attempt, member, str(error), error.plugin)
            return
        search = attempt.search
        if not len(step.feasible) and search is not None and search.fill_next(enough=self._starts(attempt)):
            return  # this pod is tried again in the next domain
        attempt.next += 1
        self._note(attempt, member, step)
        if attempt.ended is not None:
            return
        why = unsatisfied(
            attempt.group, self._cluster.pod_groups.scheduled(attempt.group.key), len(attempt.members) - attempt.next
        )
        if why:
            attempt.fail(why)
            attempt.untried = attempt.message

    def _note(self, attempt: GroupAttempt, member: Member, decision: Decision) -> None:
        """Assume a pod on one of the nodes that were found for it, and record the result."""
        member.decision = decision
        if not len(decision.feasible):
            member.reason, member.message = UNSCHEDULABLE, fit_error(decision)
            member.plugins = decision.unschedulable_plugins()
            member.nominated = "" if member.message == NO_NODES else None
            self._scheduling.settle(decision)
            return
        refused = self._scheduling.assume(member.queued, decision, attempt.now, attempt.entry.key)
        member.fits = refused is None
        if isinstance(refused, PluginError):
            self._broke(attempt, member, str(refused), refused.plugin)
        elif refused is not None:
            member.reason, member.plugins = UNSCHEDULABLE, frozenset((refused.plugin,))
            member.message = f"0/1 nodes are available: 1 {printable(refused.reason.text)}."
            member.nominated = ""

    def _starts(self, attempt: GroupAttempt) -> bool:
        """Return whether enough pods have a node by now."""
        return not unsatisfied(attempt.group, self._cluster.pod_groups.scheduled(attempt.group.key), 0)

    def _decided(
        self, attempt: GroupAttempt, queued: QueuedPod, answer: CallAnswer | None, within: Bools | None
    ) -> Decision | AskExtenders:
        """Return the decision of `SchedulingCycle.schedule_pod`, which tries the planned node of the pod first."""
        searches = self._cluster.search_steps
        attempt.tries += 1
        searches.taken = 0
        try:
            row = self._planned(attempt, queued) if answer is None else None
            if row is not None and (within is None or within[row]):
                only = np.zeros(self._cluster.nodes.rows, dtype=np.bool_)
                only[row] = True
                step = self._scheduling.schedule_pod(queued, None, only)
                if isinstance(step, AskExtenders) or (isinstance(step, Decision) and len(step.feasible)):
                    return step
            step = self._scheduling.schedule_pod(queued, answer, within)
            assert not isinstance(step, PostFilterResult)
            return step
        finally:
            steps = queued.pod.shape.steps + searches.taken
            if steps > FREE:
                self._queue.fair_share.charge(queued.pod.namespace, steps - FREE, attempt.now)

    def _planned(self, attempt: GroupAttempt, queued: QueuedPod) -> int | None:
        """The row on which room should be free by now for a pod of the group."""
        cluster = self._cluster
        room = cluster.reservations.of(attempt.entry.key) if cluster.reservations else None
        if room is None or room.until is None or room.until > cluster.devices.wall:
            return None
        name = room.planned.get(queued.pod.uid)
        return cluster.nodes.live_row(name) if name else None

    def _broke(self, attempt: GroupAttempt, member: Member, message: str, *plugins: str) -> None:
        """End the attempt, as a plugin or an extender failed for one of its pods."""
        member.reason, member.message, member.plugins = SCHEDULER_ERROR, message, frozenset(plugins)
        attempt.break_off(f"failed to schedule other pod from a pod group: {message}")

    def _within(self, attempt: GroupAttempt) -> Bools | None:
        """Return bool[rows]: the only nodes on which the next pod may be; None: all."""
        self._stand_in(attempt)
        return self._placements.within(attempt)

    def _stand_in(self, attempt: GroupAttempt) -> None:
        """Set the nominations of the group's pods aside, with stand-ins in their place, while its pods are tried."""
        if self._standing_in > 1:
            self._standing_in -= 1
            return
        self.let_others_see()
        nominations = self._cluster.nominations
        pods = [member.queued.pod for member in attempt.pods] if nominations else []
        if pods:
            framework = self._queue.frameworks[pods[0].scheduler_name]
            nominations.set_aside(pods, StandIns(attempt, self._cluster, framework, _IN_A_ROW).of)
            self._standing_in = _IN_A_ROW

    def _end(self, attempt: GroupAttempt) -> Turns[None]:
        """The group is decided: do what follows."""
        self.let_others_see()
        if not attempt.decided:
            attempt.decided, attempt.decided_at = True, self._time()
            self._charge(attempt)
            if attempt.ended is not Ended.WITH_NODES:
                attempt.missed = any(one.queued.left_at != self._queue.events.number for one in attempt.pods[:1])
            attempt.next = 0
        yield from self._endings.end(attempt)

    def _charge(self, attempt: GroupAttempt) -> None:
        """Charge the namespace for tries that start no pod, once the attempt is decided."""
        started = sum(member.fits for member in attempt.members.values()) if attempt.ended is Ended.WITH_NODES else 0
        vain = max(attempt.tries - started, 0)
        self._queue.fair_share.charge(attempt.entry.key.namespace, vain * A_TRY, attempt.now)
        attempt.tries = 0

    # -- what happens meanwhile --------------------------------------------------------------------------------------

    def drop(self, uid: str) -> QueuedPod | None:
        """Take a pod out of the attempt that is gone, or placed."""
        attempt = self.attempt
        if attempt is None or uid not in attempt.members:
            return None
        place = list(attempt.members).index(uid)
        member = attempt.members.pop(uid)
        if uid not in self._queue:  # where it waits with its group again, if it was sent on and has come back
            member.queued.group = None
        if attempt.decided:
            attempt.next -= place < attempt.next
            attempt.told -= place < attempt.told
        else:
            attempt.lost = True  # the others are tried again from the start
        self._ask_no_more(attempt)  # they are tried, or planned for, from the start
        return member.queued

    def _ask_no_more(self, attempt: GroupAttempt) -> None:
        """Withdraw the question to extenders, as their answer is not needed any more."""
        question, attempt.asking = attempt.asking, None
        if question is not None:
            self._scheduling.extender_calls.drop(question.pod.uid)

    def _measure(self, attempt: GroupAttempt) -> None:
        """Record the attempt, if attempts are measured and a pod of it is left."""
        clock = self._scheduling.record.clock
        if clock is not None and attempt.members:
            plan, result = attempt.plan, _RESULTS.get(attempt.ended, "error")
            if attempt.ended is Ended.REJECTED and plan is not None and plan.waits:
                result = "waiting_on_preemption"
            took = clock() - attempt.began, attempt.decided_at - attempt.began
            preempts = None if plan is None else bool(plan.victims)
            self._outbox.add(GroupTried(attempt.pods[0].queued.pod, result, *took, preempts))

    def broke(self, message: str, now: float) -> None:
        """The turn raised, which is a fault of Berth: the group is tried again after its backoff.

        Pods that went on before that are bound all the same, as pods are that are in no group.
        """
        attempt = self.attempt
        if attempt is None or self._turns is not None:
            return
        self.let_others_see()
        self._ask_no_more(attempt)
        self._binding.broke("", message, now)
        attempt.leave_out({uid for uid, member in attempt.members.items() if self._is_elsewhere(member.queued)})
        attempt.break_off(message)
        attempt.now = now
        self._take_turn(attempt, self._end(attempt))

    def _is_elsewhere(self, queued: QueuedPod) -> bool:
        """Return whether a pod has left the attempt: it went on, or is back in the queue."""
        uid = queued.pod.uid
        went_on = queued.group is None and self._binding.state(uid) is not State.GROUP_DECIDING
        return went_on or uid in self._queue


def _not_found(key: GroupKey) -> str:
    return f'podgroup.scheduling.k8s.io "{key.name}" not found'


def _nobody(key: GroupKey) -> PodGroup:
    """Return an empty group in place of one whose object is not known."""
    return PodGroup(key, "", "", 0, None)
