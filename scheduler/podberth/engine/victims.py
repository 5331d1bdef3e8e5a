"""Pods that have to go so that others fit: they count as terminating from now on, and are told to go, some at a time.

Mirrors kube-scheduler `framework/preemption` (prepareCandidate).
"""

from collections import deque

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.instructions import Outbox, Preempt
from podberth.engine.nominator import Nominator
from podberth.engine.observers import Observers
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

_AT_ONCE = 32
"""How many victims are told to go in one turn."""


class Victims:
    """Has victims removed."""

    def __init__(
        self,
        cluster: Cluster,
        binding: BindingCycles,
        nominator: Nominator,
        outbox: Outbox,
        observers: Observers,
    ) -> None:
        self._cluster = cluster
        self._binding = binding
        self._nominator = nominator
        self._outbox = outbox
        self._observers = observers
        self._others_had = True
        """Since the last of those, somebody else had a turn."""
        self._leaving: deque[tuple[Pod, str, tuple[Pod, ...]]] = deque()
        """(preemptor, node, victims that are still to be told to go)."""

    @property
    def has_work(self) -> bool:
        """Return whether some are still to be told to go, or nominations are to end, of which a node may have
        thousands.
        """
        return bool(self._leaving or self._nominator.ending)

    def take_turn(self) -> bool:
        """Return whether this turn is theirs: every other one is, so that nobody waits until a large group is told to
        go.
        """
        if not (self._leaving or self._nominator.ending):
            return False
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
            self._leaving.append((pod, node, victims[_AT_ONCE:]))
        self.remove(pod, node, victims[:_AT_ONCE], now)
        lower = [other for other in nominations.on(node) if other.priority < pod.priority]
        self._nominator.end_all(lower, node, here, now)

    def remove_more(self, now: float) -> None:
        """Have some more pods of a large group removed for a pod that took it as a whole; or end some nominations."""
        if self._nominator.ending:
            self._nominator.end_more(now)
        else:
            pod, node, victims = self._leaving.popleft()
            if len(victims) > _AT_ONCE:
                self._leaving.appendleft((pod, node, victims[_AT_ONCE:]))
            self.remove(pod, node, victims[:_AT_ONCE], now)
        self._others_had = not self.has_work

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
            self._cluster.replace(replace(victim, terminating=True, preempted=True))
        if there:
            self._outbox.add(Preempt(pod, node, going, reverted, group))
