"""The scheduler as a state machine: `handle(stimulus, now)` returns instructions.

It owns the cluster's columns and the queue, runs one cycle at a time, and assumes what it decides.
It never reads a clock, never logs and never waits. Mirrors kube-scheduler `eventhandlers.go`,
`schedule_one.go` and `scheduler.go`.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from scheduler.engine import story_writer, wakes
from scheduler.engine.attempts import Attempts, CallAnswer
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.budget import Budget, TooCostlyError
from scheduler.engine.changes import (
    key_of,
)
from scheduler.engine.extender_calls import ExtenderCalls
from scheduler.engine.given_twice import GivenTwice
from scheduler.engine.instructions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    AskExtenders,
    Instruction,
    PostFilterWrite,
    RecordConflict,
)
from scheduler.engine.left_claims import LeftClaims
from scheduler.engine.no_fits import NoFit
from scheduler.engine.nominator import Nominator
from scheduler.engine.object_changes import ObjectChanges
from scheduler.engine.outbox import Outbox
from scheduler.engine.placement_conflicts import PlacementConflicts
from scheduler.engine.pod_changes import PodChanges
from scheduler.engine.pod_groups.cycle import GroupCycles
from scheduler.engine.queue import Queue
from scheduler.engine.queued import QueuedPod
from scheduler.engine.stimuli import (
    Broke,
    Cycle,
    ExtendersAnswered,
    ExtendersFailed,
    Follows,
    Gone,
    OfBindingCycle,
    Put,
    Stimulus,
    Tick,
    Unwritten,
    VictimStays,
)
from scheduler.engine.story_writer import StoryWriter
from scheduler.engine.term_indexing import TermIndexing
from scheduler.engine.timeline import Timeline, told
from scheduler.engine.turns import ORDINARY
from scheduler.engine.victims import Victims
from scheduler.framework.binding_plugins import Rejected
from scheduler.framework.config import Extender
from scheduler.framework.decision import Decision
from scheduler.framework.extenders import EXTENDER, NodesQuestion, in_order, interested
from scheduler.framework.plugin import PostFilterResult
from scheduler.framework.runtime import Framework
from scheduler.framework.sampling import Rotation
from scheduler.framework.status import PluginError
from scheduler.framework.verify import Verifier
from scheduler.model.pod import Pod
from scheduler.model.pod_group import GroupKey
from scheduler.state.cluster import Cluster


class Engine:
    """One scheduler: several profiles, one queue, one cluster."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        *,
        seed: int = 0,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        in_full: bool = False,
        extenders: Iterable[Extender] = (),
        binders: Iterable[Any] = (),
        cluster: Cluster | None = None,
        verify: int = 0,
        budget: Budget | None = None,
    ) -> None:
        """`in_full`: keep in each decision who rejected what and how every plugin scored, at the cost of speed.

        `binders`: Bind plugins for the extenders that bind; each has its `extender`. `cluster`: the columns to start
        from; empty ones without it. `verify`: every so many decisions, one is verified; 0: none. `budget`: what an
        attempt may cost.
        """
        self.cluster = cluster if cluster is not None else Cluster()
        self.epoch: float | None = None
        """Seconds since the epoch at engine time 0, where a shell knows them."""
        budget = Budget() if budget is None else budget
        self._budget = budget
        self._outbox = Outbox()
        self.queue = Queue(frameworks, initial_backoff, max_backoff, self._outbox, budget, TermIndexing(self.cluster))
        self._frameworks = frameworks
        self._seed = seed
        self._at_hand: QueuedPod | None = None
        self._binders = tuple(binders)
        rotation = Rotation()
        self._extender_calls = ExtenderCalls(self.cluster, frameworks, rotation, in_order(extenders))
        self._attempts = Attempts(
            self.cluster,
            self.queue,
            frameworks,
            self._extender_calls,
            rotation,
            self._outbox,
            budget=budget,
            in_full=in_full,
            verifier=Verifier(frameworks, verify) if verify else None,
        )
        self._no_fits = self._attempts.no_fits
        self._story_writer = StoryWriter(self.queue.stories)
        self._nominator = Nominator(self.cluster, self.queue, self._outbox, self._story_writer)
        self.binding = BindingCycles(self.cluster, self.queue, self._outbox)
        self._victims = Victims(self.cluster, self.binding, self._nominator, self._outbox, self._story_writer)
        self.groups = GroupCycles(
            self.cluster,
            self.queue,
            self._attempts,
            self.binding,
            self._outbox,
            budget,
            self._assume_in_group,
            self.pick,
            self._victims.remove,
        )
        self.placement_conflicts = PlacementConflicts(self.cluster, frameworks)
        self.left_claims = LeftClaims(self.cluster, self._outbox)
        self._pods = PodChanges(
            self.cluster,
            self.queue,
            self.binding,
            self.groups,
            self._extender_calls,
            self._nominator,
            self.placement_conflicts,
            self._story_writer,
            self.left_claims,
        )
        self.queue.term_indexing.unread.ready = self._read
        self._given_twice = GivenTwice(self.cluster, self.binding, self._outbox)
        self._objects = ObjectChanges(
            self.cluster, self.queue, self.binding, self._nominator, self._given_twice, self.left_claims
        )

    @property
    def in_flight(self) -> int:
        """Writes for pods in their binding cycle, and questions to extenders, that have no answer yet."""
        return self.binding.writing + len(self._extender_calls)

    @property
    def attempts(self) -> Attempts:
        """What attempts have cost so far."""
        return self._attempts

    def story(self, uid: str) -> Timeline | None:
        """Everything that happened to a pod in this process, as far as it is kept; None where nothing is."""
        self.binding.note_assumed(uid)
        story, waiting = self.queue.stories.get(uid), self.queue.get(uid)
        if story is None and waiting is not None:
            story = waiting.story  # its entries were dropped to make room, but it knows how many
        return None if story is None else told(story)

    def story_of(self, namespace: str, name: str) -> Timeline | None:
        """As `story`, of the pod of this name that was seen last; it names the others."""
        found = self.queue.stories.named(namespace, name)
        if found:
            self.binding.note_assumed(found[0].uid)
        return told(found[0], tuple(story.uid for story in found[1:])) if found else None

    @property
    def has_work(self) -> bool:
        """Whether a Cycle would schedule a pod."""
        return self.queue.has_active or self.groups.has_work or self._victims.has_work

    def next_tick(self) -> float | None:
        """Engine time at which a Tick has something to do."""
        times = (self.queue.next_tick(), self.binding.next_tick(), self.placement_conflicts.next_look())
        return min((time for time in times if time is not None), default=None)

    def reconfigure(
        self, frameworks: Mapping[str, Framework], initial_backoff: float, max_backoff: float, now: float
    ) -> None:
        """Decide by other profiles from the next cycle on. Pods in their binding cycle go on as they were decided."""
        self._frameworks = frameworks
        self._attempts.follow(frameworks)
        self.placement_conflicts.follow(frameworks)
        self.cluster.pod_groups.keep(frameworks)
        self.queue.reconfigure(frameworks, initial_backoff, max_backoff, now)

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Apply one stimulus at engine time `now` (seconds, monotonic).

        Returns everything that is to be done about it, in the order in which it was decided.
        """
        if self.epoch is not None:
            self.cluster.devices.wall = self.epoch + now
        if self._no_fits and not self._changes_nothing(stimulus):
            self._no_fits.forget()
        match stimulus:
            case Cycle():
                self._cycle(now)
            case OfBindingCycle():
                self.binding.handle(stimulus, now)
                self._given_twice.answered(stimulus)
            case Put(thing):
                if isinstance(thing, Pod):
                    self._pods.put(thing, now)
                else:
                    self._objects.put(thing, now)
                self.binding.changed(key_of(thing), now)
            case Gone(kind, namespace, name):
                if kind == "Pod":
                    self._pods.gone(stimulus, now)
                else:
                    self._objects.gone(stimulus, now)
                self.binding.changed((kind, namespace, name), now)
            case Follows(api, followed):
                for pod in self.cluster.pod_groups.follow(api, followed=followed):
                    self._pods.leave(pod, now)
                    self._pods.put(pod, now)
            case VictimStays(victim):
                # The victim's room does not become free: pods that wait for it have to be tried again.
                placement = self.cluster.placement(victim.uid)
                if placement is not None:
                    was = replace(placement.pod, terminating=victim.terminating, preempted=victim.preempted)
                    self.cluster.replace(was)
                    wakes.for_room(self.queue, self.cluster, was, placement.row, now)
            case ExtendersAnswered():
                self._extenders_answered(stimulus, now)
            case ExtendersFailed():
                self._extenders_failed(stimulus, now)
            case Unwritten(uid):
                queued = self.queue.get(uid) or self.binding.queued(uid)
                if queued is not None:
                    queued.written = None
            case Broke(message):
                self._broke(message, now)
            case Tick():
                self.queue.tick(now)
                self.binding.tick(now)
                self._look_for_conflicts(now)
        if self.cluster.devices.users.released:
            self._no_fits.forget()
            self.binding.go_on_sharing(now)
        if self.binding.spoken_for or self.binding.gathering.released:
            self._no_fits.forget()
            self.binding.settle(now)
        return self._outbox.take()

    def _changes_nothing(self, stimulus: Stimulus) -> bool:
        """Whether equal pods find after this what they found before it, unless what follows from it says otherwise."""
        match stimulus:
            case Cycle() | Unwritten():
                return True
            case Put(Pod() as pod):
                return self._pods.only_waits(pod) and self.groups.trying(pod.uid) is None
        return False

    def _read(self, pod: Pod, now: float) -> None:
        """A large pod that others placed has been read."""
        self._pods.put(pod, now)
        self.binding.changed(key_of(pod), now)

    def _look_for_conflicts(self, now: float) -> None:
        """Tell of pods of ours that another scheduler's choice has broken; each look is charged to its namespace."""
        for pod, steps, conflict in self.placement_conflicts.look(now):
            self.queue.turns.account(pod.namespace, steps, now)
            if conflict is not None:
                self._outbox.add(RecordConflict(pod, conflict.node, conflict.constraint, conflict.text))

    def _cycle(self, now: float) -> None:
        self._at_hand = None
        if self._victims.take_turn():
            self._victims.remove_more(now)
            return
        if not self.queue.term_indexing.begin(self._budget.slice, now):
            return
        groups = self.groups
        if groups.has_work:
            self._no_fits.forget()
        if groups.due:
            groups.go_on(now)
            return
        queued = self._at_hand = self.queue.pop(now)
        if groups.has_work:
            groups.others_had(ORDINARY)
        if queued is None:
            if groups.has_work:
                groups.go_on(now)
        elif queued.entry is None:
            self._attempt(queued, now)
        else:
            self._at_hand = None
            self._no_fits.forget()
            groups.begin(queued.entry, now)

    def _attempt(self, queued: QueuedPod, now: float, answer: CallAnswer | None = None) -> None:
        """Try a pod, for one slice at most, and do what follows. `answer`: as in `Attempts.think`."""
        try:
            outcome = self._attempts.think(queued, now, answer)
        except PluginError as error:
            self._broken(queued, str(error), frozenset((error.plugin,)), now)
            return
        except TooCostlyError as error:
            # No error of Berth's, but not "Unschedulable" either: no node that an autoscaler adds would help.
            self._broken(queued, str(error), frozenset(), now)
            return
        match outcome:
            case Decision():
                self._assume(queued, outcome, now)
            case AskExtenders():
                self._attempts.record.wait()
                story_writer.asked(queued, outcome.question, now)
                self._outbox.add(outcome)
            case NoFit():
                self._no_fit(queued, outcome, now)

    def _assume(self, queued: QueuedPod, decision: Decision, now: float) -> None:
        """Begin to bind the pod to its node."""
        self._assume_in_group(queued, decision, now, None)

    def _assume_in_group(
        self, queued: QueuedPod, decision: Decision, now: float, group: GroupKey | None, row: int | None = None
    ) -> Rejected | PluginError | None:
        """As `_assume`; with a group that is being tried, the pod waits for it. Why Reserve plugins refuse it then."""
        self._no_fits.forget()
        framework = self._frameworks[queued.pod.scheduler_name]
        binders = self._binders
        if binders:
            binders = tuple(binder for binder in binders if interested(binder.extender, queued.pod))
        row = self.choose(decision) if row is None else row
        return self.binding.assume(queued, framework, decision, row, now, binders, group).refused

    def _extenders_answered(self, answer: ExtendersAnswered, now: float) -> None:
        """Go on with a pod that waited for extenders."""
        call = self._extender_calls.take(answer.question)
        if call is not None and self.groups.trying(call.queued.pod.uid) is not None:
            self.groups.go_on(now, (call, answer.answer))
        elif call is not None:
            self._attempt(call.queued, now, (call, answer.answer))

    def _extenders_failed(self, failure: ExtendersFailed, now: float) -> None:
        """An extender failed that is not ignorable: the pod is tried again; in preemption, it stays unschedulable."""
        call = self._extender_calls.take(failure.question)
        if call is None:
            return
        if self.groups.trying(call.queued.pod.uid) is not None:
            self.groups.extenders_failed(call.queued.pod.uid, failure.message, now)
            return
        if isinstance(call.question, NodesQuestion):
            self._broken(call.queued, failure.message, frozenset((EXTENDER,)), now)
            return
        result = PostFilterResult(f"preemption: {failure.message}", in_the_way=frozenset((EXTENDER,)))
        self._no_fit(call.queued, NoFit(call.decision, result), now)

    def choose(self, decision: Decision) -> int:
        """One of the best rows; which one depends on the seed and the pod only, so a run can be repeated."""
        best = decision.best()
        return int(best[self.pick(decision.pod.uid, len(best))])

    def pick(self, uid: str, equals: int) -> int:
        """Which of so many equally good ones a pod takes."""
        return zlib.crc32(f"{self._seed}/{uid}".encode()) % equals if equals > 1 else 0

    def _no_fit(self, queued: QueuedPod, found: NoFit, now: float) -> None:
        pod, plugins, message, result = queued.pod, found.plugins, found.message, found.result
        if result.node or self.cluster.nominations.node_of(pod.uid) is not None:
            self._no_fits.forget()  # nominations change
        waits_for = plugins | result.in_the_way
        story_writer.failed(queued, UNSCHEDULABLE, message, plugins, now)
        missed = self.queue.missed(queued, waits_for)
        if result.node is not None and result.node != self.cluster.nominations.node_of(pod.uid):
            # Before the pod itself waits: the end of its own nomination must not wake it.
            self._nominator.end(pod, now, real=False)
        self.queue.park(queued, waits_for, now, missed=missed)
        self._outbox.failed(queued, UNSCHEDULABLE, message, plugins, found.decision, result.node)
        if result.writes:
            self._outbox.add(PostFilterWrite(pod, result.writes))
        if result.node:
            self._victims.preempt(pod, result.node, result.victims, now)

    def _broken(self, queued: QueuedPod, message: str, plugins: frozenset[str], now: float) -> None:
        story_writer.failed(queued, SCHEDULER_ERROR, message, plugins, now)
        self.queue.put_back(queued, now)
        self._outbox.failed(queued, SCHEDULER_ERROR, message, plugins)

    def _broke(self, message: str, now: float) -> None:
        """Take back what the cycle that raised may have begun. Its instructions for other pods are kept."""
        queued, self._at_hand = self._at_hand, None
        if queued is None:
            self.groups.broke(message, now)
            return
        uid = queued.pod.uid
        self.binding.broke(uid, message, now)
        if uid not in self.queue and self.cluster.placement(uid) is None and self.binding.state(uid) is None:
            self._extender_calls.drop(uid)
            self._broken(queued, message, frozenset(), now)
