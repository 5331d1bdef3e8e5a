"""Carry out what preemption has decided: pods are nominated for nodes, and their victims are told to go.

Mirrors kube-scheduler `framework/preemption` (prepareCandidate) and `backend/queue/nominator.go`. Victims count as
terminating from the moment when they are chosen.
"""

from collections import Counter, deque
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.instructions import ClearNomination, Outbox, Preempt
from podberth.engine.observers import Observers
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

_EACH = 8
"""Up to this many pods that were nominated for one node, others are asked about each; beyond, about all at once."""
_ENDED_AT_ONCE = 64
"""The number of nominations for a node that are ended in one turn."""
_ENDED = 20
"""Steps of each."""
_AT_ONCE = 32
"""The number of victims that are told to go in one turn."""


class _Ending(Struct, frozen=True):
    """Pods whose nominations for a node end."""

    node: str
    row: int | None
    pods: deque[Pod]
    few: bool


class Nominator:
    """Ends nominations, and follows the nominations that the API shows."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, outbox: Outbox, observers: Observers) -> None:
        self._cluster = cluster
        self._queue = queue
        self._outbox = outbox
        self._observers = observers
        self.ending: deque[_Ending] = deque()
        """Nominations that are still to be ended."""

    def nominate(self, pod: Pod, node: str, now: float) -> None:
        """Nominate a pod for a node. Where it was nominated for another one, others may fit there now."""
        if self._cluster.nominations.node_of.get(pod.uid) not in (None, node):
            self.end(pod, now, real=False)
        self._cluster.nominations.put(pod, node)

    def end(self, pod: Pod, now: float, *, real: bool = True) -> None:
        """End a pod's nomination. If the pod was not placed there, others may fit now. `real`: as in `wake`."""
        node = self._cluster.nominations.drop(pod.uid)
        row = None if node is None or node == pod.node_name else self._cluster.nodes.live_row(node)
        if row is not None:
            self._queue.wake_for_room(pod, row, now, real=real)

    def end_all(self, pods: list[Pod], node: str, row: int | None, now: float) -> None:
        """End the nominations of these pods for a node, and try them again (prepareCandidate); of many, some in a turn.

        `row`: the node's, where other pods may fit now; None when the node is being deleted.
        """
        if pods:
            self.ending.append(_Ending(node, row, deque(pods), few=len(pods) <= _EACH))
            if len(self.ending) == 1:
                self.end_more(now)

    def end_more(self, now: float) -> None:
        """End some more of them."""
        ending = self.ending[0]
        left = ending.pods
        some = [left.popleft() for _ in range(min(_ENDED_AT_ONCE, len(left)))]
        if not left:
            self.ending.popleft()
        nominations, row = self._cluster.nominations, ending.row
        pods = [pod for pod in some if nominations.node_of.get(pod.uid) == ending.node]
        for pod in pods:
            nominations.drop(pod.uid)
        why = "the node went" if row is None else "a pod of higher priority needs it"
        for hear in self._observers.nominations_cleared:
            hear(pods, why, now)
        if row is not None and ending.few:
            for pod in pods:
                self._queue.wake_for_room(pod, row, now, real=False)
        elif row is not None and not left:
            self._queue.wake_for_any_room(row, now)
        self._queue.retry([pod.uid for pod in pods], now)
        for pod in pods:
            queued = self._queue.get(pod.uid)
            if queued is not None and queued.written is not None:
                queued.written = (*queued.written[:2], "")
            self._outbox.add(ClearNomination(pod))
        for namespace, number in Counter(pod.namespace for pod in pods).items():
            self._queue.fair_share.charge(namespace, _ENDED * number, now)

    def follow(self, queued: QueuedPod, before: Pod, now: float) -> None:
        """Follow nominatedNodeName. A nomination of ours that the API does not show yet holds until that changes."""
        pod, nominations = queued.pod, self._cluster.nominations
        ours = kept = nominations.node_of.get(pod.uid)
        changed = pod.nominated_node_name != before.nominated_node_name
        if changed:
            kept = pod.nominated_node_name or None
        if ours != kept:
            queued.written = None  # another client has written the status
        if ours != kept or pod.shape is not before.shape:
            self.end(pod, now)
        if changed and (ours != kept or kept is None):
            # The pod does not wait any more for victims on the node that was named.
            self._queue.retry([pod.uid], now)
        if kept is not None:
            nominations.put(pod, kept)


class Victims:
    """Has victims removed, some at a time."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        binding: BindingCycles,
        nominator: Nominator,
        outbox: Outbox,
        observers: Observers,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding = binding
        self._nominator = nominator
        self._outbox = outbox
        self._observers = observers
        self._others_had = True
        """Since the last of those, somebody else had a turn."""
        self.leaving: deque[tuple[Pod, str, tuple[Pod, ...]]] = deque()
        """(preemptor, node, victims that are still to be told to go)."""
        self.told: set[str] = set()
        """UIDs of those that were told to go and that the API does not show as terminating yet."""

    def take_turn(self) -> bool:
        """Return whether this turn is theirs: every other one is, so that nobody waits until a large group is told to
        go.
        """
        theirs, self._others_had = self._others_had, True
        return theirs

    def preempt(self, pod: Pod, node: str, victims: tuple[Pod, ...], now: float) -> None:
        """Nominate the pod for the node and have its victims removed."""
        nominations = self._cluster.nominations
        self._nominator.nominate(pod, node, now)
        here = self._cluster.nodes.live_row(node)
        if len(victims) > _AT_ONCE:
            # Those of the node first: while they leave, the pod waits for them.
            victims = tuple(sorted(victims, key=lambda victim: victim.node_name != node))
            self.leaving.append((pod, node, victims[_AT_ONCE:]))
        self.remove(pod, node, victims[:_AT_ONCE], now)
        lower = [other for other in nominations.on(node) if other.priority < pod.priority]
        self._nominator.end_all(lower, node, here, now)

    def remove_more(self, now: float) -> None:
        """Have some more pods of a large group removed for a pod that took it as a whole; or end some nominations."""
        if self._nominator.ending:
            self._nominator.end_more(now)
        else:
            pod, node, victims = self.leaving.popleft()
            if self._cluster.nominations.node_of.get(pod.uid) != node:
                victims = tuple(self.begun(victims))
            if len(victims) > _AT_ONCE:
                self.leaving.appendleft((pod, node, victims[_AT_ONCE:]))
            if victims:
                self.remove(pod, node, victims[:_AT_ONCE], now)
        self._others_had = not (self.leaving or self._nominator.ending)

    def begun(self, victims: Sequence[Pod]) -> list[Pod]:
        """Return those that go though nobody waits for them any more: their group goes as a whole, and others of it
        were told to go.
        """
        wholes = {victim.scheduling_group: self._cluster.pod_groups.whole(victim) for victim in victims}
        begun = {
            key
            for key, whole in wholes.items()
            if whole is not None and any(one.terminating and one.preempted for one in whole.with_node)
        }
        return [victim for victim in victims if victim.scheduling_group in begun]

    def remove(self, pod: Pod, node: str, victims: tuple[Pod, ...], now: float, group: PodGroup | None = None) -> None:
        """Have victims removed for a pod, or for its group; from now on they count as terminating."""
        placements = (self._cluster.placement(victim.uid) for victim in victims)
        victims = tuple(placement.pod for placement in placements if placement is not None)
        there = [victim for victim in victims if not victim.terminating]
        for hear in self._observers.preempted:
            hear(pod, node, victims, group, now)
        # Victims that are not bound yet are reverted instead of deleted.
        reverted = tuple(victim for victim in there if self._binding.preempt(victim.uid, now))
        going = tuple(victim for victim in there if victim not in reverted)
        for victim in going:
            self.told.add(victim.uid)
            self._cluster.replace(replace(victim, terminating=True, preempted=True))
        if there:
            self._outbox.add(Preempt(pod, node, going, reverted, group))

    def shown(self, pod: Pod) -> Pod:
        """Return a placed pod that was told to go as it counts: it goes, although what the API shows first of that is
        only the condition that we write.
        """
        if pod.terminating:
            self.told.remove(pod.uid)
            return pod
        return replace(pod, terminating=True, preempted=True)

    def gone(self, uid: str) -> None:
        """Follow that a pod is gone."""
        self.told.discard(uid)

    def stays(self, victim: Pod, now: float) -> None:
        """A victim could not be removed, as far as is known: unless the API shows that it goes, it counts as before.

        Its room does not become free: pods that wait for it have to be tried again. They wait out their backoff, as the
        API server may refuse the next attempt's victims, too.
        """
        if victim.uid not in self.told:
            return
        self.told.remove(victim.uid)
        placement = self._cluster.placement(victim.uid)
        if placement is not None:
            was = replace(placement.pod, terminating=victim.terminating, preempted=victim.preempted)
            self._cluster.replace(was)
            self._queue.wake_for_room(was, placement.row, now, real=False)
