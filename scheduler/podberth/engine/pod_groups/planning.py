"""A plan for a group whose attempt has failed: in a cluster of its own, which takes many turns, and within a cap."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import ClassVar, Generic, NamedTuple, TypeVar

from podberth.cache.cluster import Cluster
from podberth.cache.devices import supposed
from podberth.cache.rebuild import WithoutPods
from podberth.engine.extender_calls import ExtenderCalls
from podberth.engine.instructions import Outbox
from podberth.engine.pod_groups.consulting import Consulting
from podberth.engine.pod_groups.results import GroupAttempt
from podberth.engine.pod_groups.stand_ins import StandIns
from podberth.engine.pod_groups.trial import Trial
from podberth.engine.pod_groups.turns import MOST_STEPS, Turns
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod

_ROWS = 32
"""How many rows are copied in one go."""
_A_ROW, _A_POD = 50, 10
"""Steps of copying a row, and each pod on it."""
_LET_GO = 2
"""How many entries of a copy are let go of in a step."""
Found = TypeVar("Found")


class Copied(NamedTuple):
    """A copy of a cluster."""

    cluster: Cluster | None
    """None: no pod leaves, so that the original itself can be asked."""
    left_out: Mapping[int, list[Pod]]
    """Row → the pods that are left out."""
    version: int
    """The version of the log of the original's nodes, when it was copied."""


class Planning(ABC, Generic[Found]):
    """Makes the plan for one attempt."""

    what: ClassVar[str]
    """What is looked for."""

    def __init__(
        self,
        attempt: GroupAttempt,
        framework: Framework,
        cluster: Cluster,
        pick: Callable[[str, int], int],
        *,
        extenders: ExtenderCalls | None,
    ) -> None:
        """`pick`: which of several equally good nodes or placements is taken. `extenders`: if they have a say in the
        nodes."""
        self._attempt = attempt
        self._framework = framework
        self._cluster = cluster
        self._pick = pick
        self._members = attempt.pods
        self._pods = [member.queued.pod for member in self._members]
        self._copy: WithoutPods | None = None
        self._extenders = extenders
        self._consulting: Consulting | None = None
        """If extenders are asked about the pods."""
        self.turns = 0
        """How often others could be tried since it was begun."""

    @abstractmethod
    def _made(self) -> Generator[int, None, Found]:
        """Make the plan; yields the steps that it took."""

    def make(self, queue: SchedulingQueue, outbox: Outbox) -> Turns[Found | None]:
        """Make the plan; None: a pod of the group is gone for which it was made.

        Raises SearchCapError, and charges the group's namespace in any case.
        """
        attempt, key = self._attempt, self._attempt.entry.key
        search = self._cluster.search_steps.capped(f"{self.what} for podgroup {key}", MOST_STEPS)
        steps, made = self._made(), None
        try:
            while len(attempt.members) == len(self._members):
                try:
                    search.take(next(steps))
                except StopIteration as end:
                    made = end.value
                    break
                consulting = self._consulting
                if self._extenders is not None and consulting is not None and consulting.waits_for is not None:
                    question = self._extenders.adopt(consulting.waits_for)
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
        return made

    def _let_go(self) -> Generator[int, None, None]:
        """The copy is of no use any more. To throw it away at once would take long."""
        copied, self._copy = self._copy, None
        if copied is not None:
            for entries in copied.end():
                yield 1 + entries // _LET_GO

    def _walk(self, thought: Cluster, *, once: bool) -> tuple[Trial, Framework]:
        """Return what tries the group in a copy, and the plugins that it asks. `once`: as `Consulting` takes it."""
        framework = self._framework.apart()
        if self._extenders is not None:
            profile = self._pods[0].scheduler_name
            self._consulting = Consulting(self._extenders, thought, profile, framework, once=once)
        return Trial(self._attempt, self._cluster, thought, framework, self._pick, self._consulting), framework

    def _without(self, leaves: Callable[[Pod], bool]) -> Generator[int, None, Copied]:
        """A copy of the cluster without the pods that leave."""
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
