"""Placed pods whose requirements another scheduler broke by placing a pod of its own about the same time.

Two schedulers that decide at one moment do not see each other's choice. A kubelet refuses what its own node can't
take, but it sees no other node: it takes a pod that must not be in its zone beside another one. So a pod with required
anti-affinity or a DoNotSchedule spread constraint is looked at again, a few times, after it was placed.

"About the same time" goes by the API server's clock, which writes into each pod when it was bound.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice

from msgspec import Struct

from podberth.cache.cluster import Cluster, Placement
from podberth.cache.selected_pods import Selected
from podberth.engine.instructions import Outbox, RecordConflict
from podberth.engine.observers import Observer
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.terms import AffinityTerm, SpreadConstraint
from podberth.plugins.inter_pod_affinity import InterPodAffinity
from podberth.plugins.pod_topology_spread import PodTopologySpread

ANTI_AFFINITY, TOPOLOGY_SPREAD = "anti_affinity", "topology_spread"
CONSTRAINTS = (ANTI_AFFINITY, TOPOLOGY_SPREAD)
AFTER = (1.0, 5.0, 15.0)
"""A pod is looked at so many seconds after it was placed."""
SAME_TIME = 15.0
"""Seconds between two Bindings that count as about the same time."""
STEPS = 2_000
"""Steps that all looks of one turn may cost together."""
_LEAST = 20
"""Steps of an ordinary look."""
_MOST_NEAR = 2_000
"""The number of others' pods with which one requirement is compared."""
_MOST_LOOKS = 20_000
"""The number of pods that may wait for one look; of more, those that waited longest are not looked at."""
OF_A_NAMESPACE, _NAMESPACES = 256, 512
"""Others' pods that are remembered: the latest of so many namespaces."""
_MOST_KEPT, _MOST_NAMED = 16, 3
"""The number of others' pods that are remembered for a conflict, and of those that its message names."""
_UNNAMED = "a pod of another namespace"


class Conflict(Struct, frozen=True):
    """A requirement that no longer holds for a placed pod. `others`: some of those placed there about the same time."""

    pod: Pod
    node: str
    constraint: str
    """ANTI_AFFINITY or TOPOLOGY_SPREAD."""
    topology_key: str
    domain: str
    others: tuple[Pod, ...]
    text: str


class PlacementConflicts:
    """Looks again at pods that were placed, for conflicts with pods that other schedulers placed.

    `all_others`: remember others' pods however long ago they were bound; otherwise those of the last seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        frameworks: Mapping[str, Framework],
        *,
        all_others: bool = False,
    ) -> None:
        self._cluster = cluster
        self._frameworks = frameworks
        self._all_others = all_others
        self._looks: list[deque[_Look]] = [deque(maxlen=_MOST_LOOKS) for _ in AFTER]
        """For each entry of AFTER, the pods that wait for that look, in the order in which they were placed."""
        self._others: dict[str, list[tuple[float, str]]] = {}
        """Namespace → a heap of (when it was bound, UID) of pods that others placed."""
        self._latest_in: dict[str, float] = {}
        """Namespace → when the latest of them was bound."""
        self._latest = 0.0
        """The time at which the latest pod was bound that was seen."""

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Look at pods of these profiles from now on."""
        self._frameworks = frameworks

    def entries(self) -> int:
        """Return how much is kept here, for tests of what a tenant can make grow."""
        return sum(map(len, self._looks)) + sum(map(len, self._others.values()))

    def other_placed(self, pod: Pod) -> None:
        """Remember a pod that another scheduler placed."""
        at, wall = bound_at(pod), self._cluster.devices.wall
        if at is None or (wall and at > wall + SAME_TIME):
            return  # who may write the status of pods may write any time, and nobody else's pod would count any more
        self._latest = max(self._latest, at)
        if not self._all_others and at < self._latest - 2 * SAME_TIME:
            return
        there = self._others.get(pod.namespace)
        if there is None:
            if len(self._others) >= _NAMESPACES:
                self._forget_in(min(self._latest_in, key=self._latest_in.__getitem__))
            there = self._others[pod.namespace] = []
        self._latest_in[pod.namespace] = max(self._latest_in.get(pod.namespace, at), at)
        if len(there) < OF_A_NAMESPACE:
            heapq.heappush(there, (at, pod.uid))
        else:
            heapq.heappushpop(there, (at, pod.uid))

    def placed(self, pod: Pod, now: float) -> None:
        """Look at a pod of ours from now on, if it has requirements that others may break."""
        if has_requirements(pod):
            self._looks[0].append(_Look(pod.uid, now))

    def next_look(self) -> float | None:
        """Return the engine time at which `look` has something to do."""
        times = (looks[0].since + after for looks, after in zip(self._looks, AFTER, strict=True) if looks)
        return min(times, default=None)

    def look(self, now: float) -> list[tuple[Pod, Conflict | None]]:
        """Look at the pods whose time has come, as many as one turn may: each, and what is wrong with it.

        A pod in which something is wrong is not looked at again.
        """
        self._forget_others()
        done: list[tuple[Pod, Conflict | None]] = []
        left = STEPS
        for stage, (looks, after) in enumerate(zip(self._looks, AFTER, strict=True)):
            while left > 0 and looks and looks[0].since + after <= now:
                one = looks.popleft()
                placement = self._cluster.placement(one.uid)
                found = None
                if placement is not None and self._others:
                    found = self._conflict(placement)
                    done.append((placement.pod, found))
                    left -= _LEAST + placement.pod.shape.steps
                else:
                    left -= 1
                if placement is not None and found is None and stage + 1 < len(AFTER):
                    self._looks[stage + 1].append(_Look(one.uid, one.since))
        return done

    def of(self, uid: str) -> Conflict | None:
        """Return what does not hold for this pod now; None: nothing that others have broken."""
        placement = self._cluster.placement(uid)
        return None if placement is None else self._conflict(placement)

    def _conflict(self, placement: Placement) -> Conflict | None:
        pod, framework = placement.pod, self._frameworks.get(placement.pod.scheduler_name)
        node = self._cluster.nodes.objects[placement.row]
        if framework is None or node is None or pod.terminating:
            return None
        affinity, spread = framework.plugin(InterPodAffinity.name), framework.plugin(PodTopologySpread.name)
        if isinstance(affinity, InterPodAffinity) and pod.shape.anti_affinity_terms:
            for terms, selected in affinity.crowded(pod, placement.row, self._cluster):
                if found := self._by_anti_affinity(placement, node.name, terms, selected):
                    return found
        if isinstance(spread, PodTopologySpread) and pod.shape.spread:
            for constraint, excess in spread.too_uneven(pod, placement.row, self._cluster):
                if found := self._by_spread(placement, node.name, constraint, excess):
                    return found
        return None

    def _by_anti_affinity(
        self, placement: Placement, node: str, terms: Sequence[AffinityTerm], selected: Selected
    ) -> Conflict | None:
        cluster, pod, key = self._cluster, placement.pod, terms[0].topology_key
        namespaces = {name for term in terms for name in term.namespaces}
        if any(not term.namespace_selector.nothing for term in terms):
            namespaces |= self._others.keys()
        near = self._others_near(placement, key, namespaces)
        others = [other for other in near if cluster.affinity.share(other, selected)]
        if not others:
            return None
        domain = self._domain(placement.row, key)
        text = f'pod anti-affinity does not hold: {_named(others, pod)} in {key} "{domain}" about the same time'
        return Conflict(pod, node, ANTI_AFFINITY, key, domain, tuple(others[:_MOST_KEPT]), text)

    def _by_spread(self, placement: Placement, node: str, constraint: SpreadConstraint, excess: int) -> Conflict | None:
        pod, key = placement.pod, constraint.topology_key
        near = self._others_near(placement, key, {pod.namespace})
        others = [other for other in near if not other.terminating and constraint.selector.matches(other.labels)]
        if len(others) < excess:
            return None  # without them it would not hold either: pods elsewhere went, or nodes
        domain = self._domain(placement.row, key)
        text = (
            f'topology spread does not hold (maxSkew {constraint.max_skew}): {key} "{domain}" has {excess} too many, '
            f"{_named(others, pod)} there about the same time"
        )
        return Conflict(pod, node, TOPOLOGY_SPREAD, key, domain, tuple(others[:_MOST_KEPT]), text)

    def _others_near(self, placement: Placement, key: str, namespaces: set[str]) -> Iterator[Pod]:
        """Yield others' pods in the same domain that were bound about the same time, among the first `_MOST_NEAR`."""
        at = bound_at(placement.pod)
        column = self._cluster.nodes.topology(key)
        if at is None or column is None:
            return
        here = column.codes.item(placement.row)
        everyone = chain.from_iterable(self._others[name] for name in sorted(namespaces & self._others.keys()))
        for when, uid in islice(everyone, _MOST_NEAR):
            if abs(when - at) > SAME_TIME or uid == placement.pod.uid:
                continue
            other = self._cluster.placement(uid)
            if other is None or other.pod.scheduler_name == placement.pod.scheduler_name:
                continue
            if column.codes.item(other.row) == here:
                yield other.pod

    def _domain(self, row: int, key: str) -> str:
        column = self._cluster.nodes.label(key)
        return str(column.values[column.codes.item(row)])

    def _forget_others(self) -> None:
        """Drop others' pods that were bound too long ago to be in conflict with a pod that is placed now."""
        if self._all_others:
            return
        for name in [name for name, there in self._others.items() if there[0][0] < self._latest - 2 * SAME_TIME]:
            there = self._others[name]
            while there and there[0][0] < self._latest - 2 * SAME_TIME:
                heapq.heappop(there)
            if not there:
                self._forget_in(name)

    def _forget_in(self, namespace: str) -> None:
        del self._others[namespace], self._latest_in[namespace]


class PlacementObserver(Observer):
    """Has the conflicts of pods of ours told; each look is charged to the namespace of the pod."""

    next_tick: float | None = None
    """The time of the next look."""

    def __init__(self, conflicts: PlacementConflicts, queue: SchedulingQueue, outbox: Outbox) -> None:
        self.conflicts = conflicts
        self._queue = queue
        self._outbox = outbox

    def may_conflict(self, pod: Pod, before: Placement | None, now: float) -> None:
        """Remember a pod of others, and look at one of ours from now on."""
        if pod.scheduler_name not in self._queue.frameworks:
            if before is None:
                self.conflicts.other_placed(pod)
        elif before is not None and before.assumed:
            self.conflicts.placed(pod, now)
            self.next_tick = self.conflicts.next_look()

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Look at pods of these profiles."""
        self.conflicts.follow(frameworks)

    def tick(self, now: float) -> None:
        """Look at the pods whose time has come."""
        for pod, conflict in self.conflicts.look(now):
            self._queue.fair_share.charge(pod.namespace, pod.shape.steps, now)
            if conflict is not None:
                self._outbox.add(RecordConflict(pod, conflict.node, conflict.constraint, conflict.text))
        self.next_tick = self.conflicts.next_look()


class _Look(Struct, frozen=True):
    uid: str
    since: float
    """The engine time at which the pod was placed."""


def has_requirements(pod: Pod) -> bool:
    """Return whether a pod asks for something that pods on other nodes may break."""
    shape = pod.shape
    return bool(shape.anti_affinity_terms or (shape.spread and any(constraint.hard for constraint in shape.spread)))


def bound_at(pod: Pod) -> float | None:
    """Return when a placed pod was bound, by the API server's clock (Unix time); None: nobody has written it down."""
    bound = pod.condition is not None and pod.condition[0] == "True"
    text = pod.condition[3] if bound and pod.condition is not None else pod.created
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _named(others: Sequence[Pod], pod: Pod) -> str:
    """Return who was placed there, as far as the pod's namespace may know."""
    known = [other for other in others if other.namespace == pod.namespace][:_MOST_NAMED]
    parts = [f"pod {other.key} of scheduler {other.scheduler_name}" for other in known]
    more = len(others) - len(known)
    if more:
        parts.append(f"{more} more" if known else f"{more} pods of other namespaces" if more > 1 else _UNNAMED)
    return f"{' and '.join(parts)} {'was' if len(others) == 1 else 'were'} placed"
