"""A plan for a group whose attempt has failed: in a cluster of its own, which takes many turns, and within a cap."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.devices import SupposedDevices, supposed
from podberth.cache.rebuild import WithoutPods
from podberth.engine.extender_calls import ExtenderCall, ExtenderCalls
from podberth.engine.instructions import AskExtenders, Outbox
from podberth.engine.pod_groups.attempt import (
    A_TRY,
    GROUP_UNSCHEDULABLE,
    MOST_STEPS,
    Fitting,
    GroupAttempt,
    Member,
    StandIns,
    Turns,
    best_of,
    inhabited,
    running,
    unsatisfied,
)
from podberth.engine.pod_groups.room import fill_order, rank, room_of_all
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.binding import AssumedPod
from podberth.framework.decision import Decision, Rows
from podberth.framework.extenders import EXTENDER, NodesAnswer, NodesQuestion, VictimsAnswer
from podberth.framework.interface import Assignment, Placement, Plugin, PostFilterResult
from podberth.framework.runtime import Framework, Rotation
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.plugins.dynamic_resources.plugin import DynamicResources

_ROWS = 32
"""The number of rows that are copied in one go."""
_A_ROW, _A_POD = 50, 10
"""Steps of copying a row, and each pod on it."""
_LET_GO = 2
"""The number of entries of a copy that are freed in one step."""
MOVED = 20
"""Steps of a pod that is assumed in a dry run, or forgotten."""
Found = TypeVar("Found")
Steps = Generator[int, None, Found]
Assigned = list[tuple[Pod, int]]
"""Pods that find a node, in the order in which they were tried, with their rows."""


class ExtenderError(PluginError):
    """An extender that is not ignorable failed. The message names it."""

    def __init__(self, text: str) -> None:
        super().__init__(EXTENDER, text)

    def __str__(self) -> str:
        return self.text


class Consulting:
    """The questions of one plan to extenders, one after the other. Other pods are tried while they answer.

    As in kube-scheduler, where the cycle that is run without the victims asks them as any other does. They are told the
    names of nodes, and know nothing of the pods that are left out. So their answers are the same whoever is left out,
    and a plan that tries the group many times need not ask about a node more than once.
    """

    def __init__(
        self, calls: ExtenderCalls, cluster: Cluster, profile: str, framework: Framework, *, once: bool
    ) -> None:
        """`calls`: whose extenders are asked. `cluster`: in which the plan is made.

        `once`: extenders are asked about a pod again only for a node about which they were not asked.
        """
        self._calls = calls.about(cluster, profile, framework)
        self._known: dict[str, tuple[frozenset[str], NodesAnswer]] | None = {} if once else None
        """UID → the nodes about which extenders were asked, and their answer."""
        self._nodes: dict[PodShape, dict[str, None]] = {}
        """The nodes about which they were asked for pods of this shape."""
        self._said: NodesAnswer | VictimsAnswer | str | None = None
        self.waits_for: ExtenderCall | None = None
        """The question to which there is no answer yet."""

    def asks(self, queued: QueuedPod) -> bool:
        """Return whether extenders have a say in the nodes for a pod."""
        return bool(self._calls.on_nodes(queued.pod))

    def decision(self, queued: QueuedPod, within: Bools | None) -> Generator[int, None, Decision]:
        """Return the decision for a pod; yield 0 as long as there is no answer. Raises PluginError."""
        calls = self._calls
        step: Decision | AskExtenders | PostFilterResult
        step = calls.ask_about_nodes(queued, calls.on_nodes(queued.pod), within=within)
        while isinstance(step, AskExtenders):
            call = calls.take(step.question)
            assert call is not None
            said = yield from self._asked(call)
            step = calls.apply_answer(call, said, within)
        assert isinstance(step, Decision)
        return step

    def _asked(self, call: ExtenderCall) -> Generator[int, None, NodesAnswer]:
        """Ask the extenders about these nodes, perhaps among others; the generator returns their answer."""
        question = call.question
        assert isinstance(question, NodesQuestion)
        if self._known is None:
            return (yield from self._answer(call))
        pod = question.pod
        known, said = self._known.get(pod.uid, (frozenset(), None))
        if said is None or not known.issuperset(question.nodes):
            # A node on which an equal pod is now may be this one's the next time. All nodes are asked about together,
            # since only scores of one answer can be compared with each other.
            nodes = self._nodes.setdefault(pod.shape, {})
            nodes.update(dict.fromkeys(question.nodes))
            asked = ExtenderCall(call.queued, NodesQuestion(pod, question.extenders, tuple(nodes)), call.decision)
            said = yield from self._answer(asked)
            self._known[pod.uid] = frozenset(nodes), said
        return said

    def _answer(self, call: ExtenderCall) -> Generator[int, None, NodesAnswer]:
        """Put a question, and wait until the answer is there. Raises ExtenderError."""
        self._put(call)
        while (said := self._said) is None:
            yield 0
        if isinstance(said, str):
            raise ExtenderError(said)
        assert isinstance(said, NodesAnswer)
        return said

    def _put(self, call: ExtenderCall) -> None:
        # Apart from `_answer`, whose type checker would take the answer for None for good.
        self.waits_for, self._said = call, None

    def answered(self, call: ExtenderCall, said: NodesAnswer | VictimsAnswer | str) -> None:
        """Take the answer of the extenders; it is a text if one of them failed."""
        if call is self.waits_for:
            self.waits_for, self._said = None, said


class Trial:
    """The cycle of a group in a dry run: which nodes its pods would find in a cluster without any victim.

    As `podberth.engine.pod_groups.cycle` and `placements`, in a cluster that nobody else looks at: nothing but devices
    is reserved. Mirrors kube-scheduler `schedule_one_podgroup.go` (runRootSchedulingAlgorithm).
    """

    def __init__(
        self,
        attempt: GroupAttempt,
        live: Cluster,
        cluster: Cluster,
        framework: Framework,
        pick: Callable[[str, int], int],
        consulting: Consulting | None = None,
    ) -> None:
        """`live`: where the group's pods run; `cluster`: without the victims.

        `pick`: which of several equally good nodes or placements is taken. `consulting`: extenders are asked, too.
        """
        self._consulting = consulting
        self._attempt = attempt
        self._live = live
        self._cluster = cluster
        self._framework = framework
        self._pick = pick
        self._running = running(attempt, live)
        self._scheduled = live.pod_groups.scheduled(attempt.entry.key)
        self._rotation = Rotation()
        supposed = isinstance(cluster.devices, SupposedDevices)
        self._reserves = [
            one for one in framework.profile.plugins("reserve") if supposed and isinstance(one, DynamicResources)
        ]
        self._reserved: dict[str, list[tuple[Plugin, AssumedPod]]] = {}

    def run(self) -> Steps[tuple[str, Assigned]]:
        """Return (the reason for which the group does not fit, its pods with their rows); yields the steps that it
        took.

        Afterwards, the cluster is as it was. Raises PluginError.
        """
        plugins = self._framework.placements
        if not plugins.wanted:
            return (yield from self._on(None))
        cluster, group = self._cluster, self._attempt.group
        placements = plugins.generate(group, self._running, cluster)
        yield cluster.nodes.rows
        if not placements:
            return "no feasible placements found", []
        fitting: list[Fitting] = []
        fits: list[Assigned] = []
        first = ""
        for placement in placements:
            why, assigned = yield from self._on(placement)
            if why:
                first = first or why
                continue
            pods = [pod for pod, _ in assigned]
            scores = plugins.scores(Assignment(group, placement, pods, self._scheduled), cluster)
            domains = inhabited([one.rows for one in placement.domains], {row for _, row in assigned})
            fitting.append(Fitting(placement, domains, scores))
            fits.append(assigned)
            yield A_TRY + len(pods)
        if not fitting:
            number = len(placements)
            said = f"0/{number} placements are available, first placement status: {first}"
            return f"{GROUP_UNSCHEDULABLE}, {said}", []
        return "", fits[best_of(fitting, plugins, self._attempt.entry.key, self._pick)]

    def _on(self, placement: Placement | None) -> Steps[tuple[str, Assigned]]:
        """Do what `run` does on the nodes of one placement; None: on all nodes."""
        trial = GroupAttempt(self._attempt.entry, self._attempt.group, {})
        pods = [member.queued.pod for member in self._attempt.pods]
        trial.members = {member.queued.pod.uid: Member(member.queued) for member in self._attempt.pods}
        assigned: Assigned = []
        left = len(pods)
        why = unsatisfied(trial.group, self._scheduled, left)
        if why:
            trial.fail(why, early=True)
        else:
            if placement is not None and placement.domains:
                pods.sort(key=rank)
                yield A_TRY + self._cluster.nodes.rows + len(placement.domains)
            ahead = [*self._parts(placement, pods), None if placement is None else placement.rows]
            within = self._only(ahead[0])
            for pod in pods:
                row = yield from self._node_for(pod, within)
                while row is None and len(ahead) > 1:
                    del ahead[0]
                    within = self._only(ahead[0])
                    row = yield from self._node_for(pod, within)
                left -= 1
                if row is not None:
                    assigned.append((pod, row))
                why = unsatisfied(trial.group, self._scheduled + len(assigned), left)
                if why:
                    trial.fail(why)
                    break
            else:
                if not assigned:
                    trial.fail("", early=True)
        for i, (pod, _) in enumerate(reversed(assigned)):
            self._forget(pod)
            if i % 100 == 0:
                yield MOVED * 100
        if trial.ended is not Ended.REJECTED:
            return "", assigned
        return GROUP_UNSCHEDULABLE if placement is not None and trial.early else trial.message, []

    def _parts(self, placement: Placement | None, pods: Sequence[Pod]) -> list[Rows]:
        """Return the domains of a placement that prefers some, in the order in which they are filled."""
        if placement is None or not placement.domains:
            return []
        room = room_of_all([placement], pods, self._framework, self._cluster)
        here = {self._cluster.nodes.live_row(one.node) for one in self._running}
        return fill_order(placement, None if room is None else room.most, len(pods), here)[0]

    def _only(self, only: Rows | None) -> Bools | None:
        """Return bool[rows]: these rows without those that are reserved for another group; None: all."""
        nodes = self._cluster.nodes
        first, group = self._attempt.pods[0].queued.pod, self._attempt.entry.key
        kept = [
            room.rows[room.there]
            for room in self._cluster.reservations.by_profile.values()
            if room.group != group and room.priority >= first.priority
        ]
        if not kept and (only is None or len(only) == nodes.count):
            return None
        if only is None:
            mask = nodes.alive[: nodes.rows].copy()
        else:
            mask = np.zeros(nodes.rows, dtype=np.bool_)
            mask[only] = True
        for rows in kept:
            mask[rows] = False
        return mask

    def _node_for(self, pod: Pod, within: Bools | None) -> Steps[int | None]:
        """Return the row that a pod takes, beside those that were tried before it; None: it finds none."""
        cluster, searches = self._cluster, self._cluster.search_steps
        consulting, queued = self._consulting, self._attempt.members[pod.uid].queued
        searched = 0
        if consulting is None or not consulting.asks(queued):
            searches.taken = 0
            decision = self._framework.decide_quickly(pod, cluster, self._rotation, within=within)
            searched = searches.taken
        else:
            decision = yield from consulting.decision(queued, within)
        yield A_TRY + pod.shape.steps + searched
        if not len(decision.feasible):
            return None
        best = decision.best()
        row = int(best[self._pick(pod.uid, len(best))])
        self._assume(pod, row)
        return row

    def _assume(self, pod: Pod, row: int) -> None:
        """Assume a pod on a row, with its devices; its nomination ends. Raises PluginError."""
        cluster = self._cluster
        cluster.nominations.drop(pod.uid)
        cluster.assume(pod, row)
        for plugin in self._reserves:
            assumed = AssumedPod(pod, row, cluster.nodes.names[row] or "", reserved=plugin.reserve(pod, cluster, row))
            self._reserved.setdefault(pod.uid, []).append((plugin, assumed))

    def _forget(self, pod: Pod) -> None:
        """Take a pod out again, and restore its nomination."""
        self._cluster.forget(pod.uid)
        for plugin, assumed in self._reserved.pop(pod.uid, ()):
            plugin.unreserve(assumed, self._cluster)
        if pod.nominated_node_name:
            self._cluster.nominations.put(pod, pod.nominated_node_name)


class Copied(NamedTuple):
    """A copy of a cluster."""

    cluster: Cluster | None
    """The copy; None: no pod leaves, so that the original itself can be asked."""
    left_out: Mapping[int, list[Pod]]
    """Row → the pods that are left out."""
    version: int
    """The version of the log of the original's nodes, when it was copied."""


class Planning(ABC, Generic[Found]):
    """Makes the plan for one attempt."""

    what: ClassVar[str]
    """The name of what is searched for, as messages have it."""

    def __init__(
        self,
        attempt: GroupAttempt,
        framework: Framework,
        cluster: Cluster,
        pick: Callable[[str, int], int],
        *,
        extenders: ExtenderCalls | None,
    ) -> None:
        """`pick` chooses one of several equally good nodes or placements. `extenders` is None if they have no say in
        the nodes.
        """
        self._attempt = attempt
        self._framework = framework
        self._cluster = cluster
        self._pick = pick
        self._members = attempt.pods
        self._pods = [member.queued.pod for member in self._members]
        self._copy: WithoutPods | None = None
        self._extenders = extenders
        self._consulting: Consulting | None = None
        """The questions to extenders; None: they are not asked about the pods."""
        self.turns = 0
        """The number of times that others could be tried since the search began."""

    @abstractmethod
    def _made(self) -> Generator[int, None, Found]:
        """Make the plan; yields the steps that it took."""

    def make(self, queue: SchedulingQueue, outbox: Outbox) -> Turns[Found | None]:
        """Make the plan; None: it is of no use any more, as a pod of the group is gone, or the group has changed.

        Raises SearchCapError, and charges the group's namespace in any case.
        """
        attempt, key = self._attempt, self._attempt.entry.key
        search = self._cluster.search_steps.capped(f"{self.what} for podgroup {key}", MOST_STEPS)
        steps, made = self._made(), None
        try:
            while len(attempt.members) == len(self._members) and attempt.wants_room:
                try:
                    search.take(next(steps))
                except StopIteration as end:
                    made = end.value
                    break
                consulting = self._consulting
                if self._extenders is not None and consulting is not None and consulting.waits_for is not None:
                    question = self._extenders.ask(consulting.waits_for)
                    attempt.asking = question.question
                    outbox.add(question)
                self.turns += 1
                yield
                if attempt.answer is not None and consulting is not None:
                    consulting.answered(*attempt.answered())
        finally:
            queue.fair_share.charge(key.namespace, search.taken, attempt.now)
            steps.close()
        for _ in self._let_go():
            yield
        return made if attempt.wants_room else None

    def _let_go(self) -> Generator[int, None, None]:
        """Free the copy in steps: to free all of it at once takes long."""
        copied, self._copy = self._copy, None
        if copied is not None:
            for entries in copied.end():
                yield 1 + entries // _LET_GO

    def _walk(self, thought: Cluster, *, once: bool) -> tuple[Trial, Framework]:
        """Return the trial of the group in a copy, and the framework that it asks. `once` is that of `Consulting`."""
        framework = self._framework.apart()
        if self._extenders is not None:
            profile = self._pods[0].scheduler_name
            self._consulting = Consulting(self._extenders, thought, profile, framework, once=once)
        return Trial(self._attempt, self._cluster, thought, framework, self._pick, self._consulting), framework

    def _without(self, leaves: Callable[[Pod], bool]) -> Generator[int, None, Copied]:
        """Return a copy of the cluster without the pods that leave."""
        cluster = self._cluster
        while True:
            yield from self._let_go()
            copied = self._copy = WithoutPods(cluster, leaves)
            while not copied.lost and not copied.go_on(_ROWS):
                yield _ROWS * _A_ROW + _A_POD * copied.pods_copied
            if copied.lost:
                yield _ROWS * _A_ROW
                continue
            version, alive = cluster.nodes.log.version, cluster.nodes.alive
            left_out = {row: pods for row, pods in copied.left_out.items() if alive[row]}
            found = Copied(copied.cluster() if left_out else None, left_out, version)
            if found.cluster is not None:
                instead = StandIns(self._attempt, found.cluster, self._framework, len(self._pods)).of
                found.cluster.nominations.set_aside(self._pods, instead)
                yield from self._suppose_devices(found.cluster, left_out)
            yield _ROWS * _A_ROW + (cluster.nodes.rows if left_out else 0)
            return found

    def _suppose_devices(self, thought: Cluster, left_out: Mapping[int, list[Pod]]) -> Generator[int, None, None]:
        """Let claims be reserved in the copy, if pods of the group have some."""
        devices = thought.devices
        shapes = {id(pod.shape): pod.shape for pod in self._pods}.values()
        if not any(shape.claims or not devices.served.isdisjoint(shape.requests) for shape in shapes):
            return
        thought.devices = yield from supposed(devices, {pod.uid for pods in left_out.values() for pod in pods})
        for key in {pod.scheduling_group for pod in self._pods}:
            group = None if key is None else self._cluster.pod_groups.get(key)
            if group is not None and group.resource_claims:
                thought.pod_groups.put(group)
