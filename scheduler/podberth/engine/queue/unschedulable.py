"""Unschedulable and gated pods by namespace, by the plugins that rejected them, and in sets of equal pods.

An event asks the plugins once for each set, not for each pod, and for a bounded number of steps in each namespace. In
namespaces with more sets the event stays pending, and the rest is asked later, some steps at a time. So a namespace
with thousands of sets does not delay the pods of others. Nor do thousands of namespaces with one set each: what an
event may take at once is bounded in all, too, and comes back with the attempts of others. Which namespaces are behind
is noted once, however many events they miss. If more than `MOST_PENDING` events are pending, the oldest ones wake all
sets that they concern.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct, field

from podberth.cache.cluster import Cluster
from podberth.cache.view import row_with
from podberth.engine.instructions import Outbox
from podberth.engine.queue.queued import Queued
from podberth.engine.stimuli import EventObject
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import Plugin
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod

AT_ONCE = 8_000
"""Steps that events may take at once, in all namespaces together, if none took any lately."""
AN_ATTEMPT = 750
"""Steps of events that are forgotten with each attempt, while pods can be tried."""
PER_NAMESPACE = 2_000
_A_HINT = 10
"""Steps of asking about a pod without terms."""
MOST_PENDING = 16
"""The largest number of pending events. Beyond it, the oldest ones are merged into one that wakes all it concerns."""

Hint = Callable[[Framework, Plugin, Pod], bool]
Bucket = tuple[str, frozenset[str]]
"""(profile, the plugins that rejected the pods)."""


class Room:
    """One node with more room than before: a closer look than queueing hints take. Valid until the next stimulus.

    A waiting pod was rejected on every node by one of the plugins that it waits for, even with all pods of lower
    priority removed and with the nominated pods in place. Plugins that look at one node at a time can change their
    verdict only on the node that changed. While one of them still rejects the pod there, the pod need not be woken.
    """

    def __init__(self, cluster: Cluster, row: int) -> None:
        self._cluster = cluster
        self._row = row
        self._name = cluster.nodes.names[row] or ""
        self.kept_for = cluster.nominations.on(self._name)
        """The pods that are nominated for the node."""
        self._views: dict[tuple[int, bool], Cluster] = {}

    def again(self) -> "Room | None":
        """Return the same node as it is now, for a later look; None when it is gone."""
        return room_on(self._cluster, self._cluster.nodes.live_row(self._name))

    def rejects(self, framework: Framework, plugins: Collection[str], pod: Pod) -> bool:
        """Return whether one of the plugins rejects a pod on the node, even if it preempts all pods that it may.

        For pods that are not nominated for the node. Raises PluginError.
        """
        view = self._views.get((pod.priority, pod.preempts))
        if view is None:
            view = self._views[pod.priority, pod.preempts] = self._as_seen_by(pod, emptied=pod.preempts, stranger=True)
        return framework.filters.rejecting(pod, view, plugins) is not None

    def waits_on(self, framework: Framework, plugins: Collection[str], pod: Pod) -> bool:
        """Return whether a pod that is nominated for the node waits on, since victims of it are still there.

        Raises PluginError.
        """
        there = self._cluster.pods_on(self._row)
        priority = self._cluster.pod_groups.priority_of
        if not any(other.terminating and other.preempted and priority(other) < pod.priority for other in there):
            return False
        view = self._as_seen_by(pod, emptied=False, stranger=False)
        return framework.filters.rejecting(pod, view, plugins) is not None

    def _as_seen_by(self, pod: Pod, *, emptied: bool, stranger: bool) -> Cluster:
        there = self._cluster.pods_on(self._row) if emptied else []
        gone = [other for other in there if self._cluster.pod_groups.priority_of(other) < pod.priority]
        own = "" if stranger else pod.uid
        ahead = [other for other in self.kept_for if other.priority >= pod.priority and other.uid != own]
        return row_with(self._cluster, self._row, gone, ahead)


def room_on(cluster: Cluster, row: int | None) -> Room | None:
    """Return the room of a row; None if there is no node."""
    return Room(cluster, row) if row is not None and cluster.nodes.alive[row] else None


class EqualPods:
    """A set of equal pods, about which plugins are asked once."""

    __slots__ = ("asked", "bucket", "key", "pod", "pods", "price", "waiting")

    def __init__(self, waiting: "Waiting", bucket: Bucket, key: Any, pod: Pod, asked: int) -> None:
        self.waiting: Waiting | None = waiting
        """The namespace's pods; None: the pods of this set are being woken."""
        self.bucket = bucket
        self.key = key
        self.pod = pod
        """One of them."""
        self.pods: dict[int, Queued] = {}
        """The pods by identity: a group may lose the pod by which it is known."""
        self.asked = asked
        """The number of the last event about which plugins were asked."""
        self.price = _A_HINT + pod.shape.steps // _A_HINT
        """An estimate of the steps that it takes to ask plugins about one of them."""


class PendingEvent(Struct):
    """An event about which plugins have not been asked for all sets of a namespace yet."""

    number: int
    event: ClusterEvent
    hint: Hint
    room: Room | None
    real: bool
    about: EventObject | None = None
    """The object that the event is about; None for several events in one."""
    concerned: dict[Bucket, list[Plugin | None] | None] = field(default_factory=dict)
    """Bucket → the plugins to ask; None: the event does not concern its pods."""


class Woken(Struct):
    """A set that was woken. `real`: as in `wake`."""

    equals: EqualPods
    event: ClusterEvent
    real: bool
    about: EventObject | None = None
    """The object that the event is about, as in `PendingEvent`."""


class Waiting:
    """The waiting pods of one namespace."""

    __slots__ = ("asked", "buckets", "namespace", "since", "steps", "upto", "walk")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.buckets: dict[Bucket, dict[Any, EqualPods]] = {}
        self.asked = 0
        """The number of the last event about which plugins were asked at once."""
        self.steps = 0
        """The steps that this took."""
        self.since = 0
        """The number of the first pending event that it has not seen, if it is behind."""
        self.walk: deque[EqualPods] | None = None
        """The sets that are still to be asked about, of those that were there when the walk began."""
        self.upto = 0
        """The number of the last event that was pending when the walk began."""


class _OfBucket:
    """The namespaces with sets in a bucket."""

    __slots__ = ("current", "namespaces")

    def __init__(self) -> None:
        self.namespaces = 0
        """The number of them."""
        self.current: dict[str, Waiting] = {}
        """The namespaces that are not behind."""


class UnschedulablePods:
    """The unschedulable and gated pods of all namespaces."""

    def __init__(self, frameworks: Mapping[str, Framework], outbox: Outbox) -> None:
        self.frameworks = frameworks
        self._outbox = outbox
        self.by_namespace: dict[str, Waiting] = {}
        """The waiting pods; empty if there are none."""
        self._buckets: dict[Bucket, _OfBucket] = {}
        """Most events do not concern most buckets, however many sets and namespaces are in them."""
        self._pending: list[PendingEvent] = []
        """The events that namespaces which are behind have not seen, oldest first."""
        self.behind: OrderedDict[str, Waiting] = OrderedDict()
        """The namespaces with pending events, in the order of their turns."""
        self._number = 0
        self.taken = 0
        """Steps that events took at once lately. A burst of events must not delay pods that can be tried."""

    def entries(self) -> int:
        """Return the number of entries, for tests of what a tenant can make grow."""
        every = self.by_namespace.values()
        sets = sum(len(sets) for one in every for sets in one.buckets.values())
        return sets + len(every) + len(self._buckets) + len(self._pending) + len(self.behind)

    def put(self, queued: Queued) -> None:
        """Add a pod, or a group, to the set of its equals."""
        pod = queued.pod
        waiting = self.by_namespace.get(pod.namespace)
        if waiting is None:
            waiting = self.by_namespace[pod.namespace] = Waiting(pod.namespace)
        bucket = (pod.scheduler_name, queued.plugins)
        sets = waiting.buckets.get(bucket)
        if sets is None:
            sets = waiting.buckets[bucket] = {}
            self._enter(bucket, waiting)
        key = alike(pod)
        equals = sets.get(key)
        if equals is None:
            equals = sets[key] = EqualPods(waiting, bucket, key, pod, self._number)
        equals.pods[id(queued)] = queued
        queued.equals = equals

    def _enter(self, bucket: Bucket, waiting: Waiting) -> None:
        of = self._buckets.get(bucket)
        if of is None:
            of = self._buckets[bucket] = _OfBucket()
        of.namespaces += 1
        if waiting.namespace not in self.behind:
            of.current[waiting.namespace] = waiting

    def take(self, queued: Queued) -> None:
        """Remove a pod, or a group, from its set."""
        equals: EqualPods = queued.equals
        queued.equals = None
        del equals.pods[id(queued)]
        if not equals.pods and equals.waiting is not None:
            self._drop(equals, equals.waiting)

    def attempted(self) -> None:
        """Allow events some more steps, as a pod is being tried."""
        self.taken = max(self.taken - AN_ATTEMPT, 0)

    def idle(self) -> None:
        """Allow events all their steps, as no pod is to be tried."""
        self.taken = 0

    def ask(
        self, event: ClusterEvent, hint: Hint, room: Room | None, *, real: bool, about: EventObject | None = None
    ) -> list[Woken]:
        """Ask plugins about an event in all namespaces, each for a bounded number of steps; return the sets to wake.
        The arguments are those of `wake`.
        """
        self._number += 1
        pending = PendingEvent(self._number, event, hint, room, real, about)
        woken: list[Woken] = []
        concerned = [bucket for bucket in self._buckets if self._concerned(bucket, pending) is not None]
        for bucket in concerned:
            current = self._buckets[bucket].current
            late = [waiting for waiting in current.values() if not self._ask_at_once(waiting, bucket, pending, woken)]
            for waiting in late:
                self._put_off(waiting)
        if concerned and self.behind:
            self._remember(pending)
        for found in woken:
            self._detach(found.equals)
        return woken

    def _ask_at_once(self, waiting: Waiting, bucket: Bucket, pending: PendingEvent, woken: list[Woken]) -> bool:
        """Ask about all sets of a namespace in a bucket; return False if the steps ran out before."""
        if self.taken >= AT_ONCE:
            return False
        if waiting.asked != pending.number:
            waiting.asked, waiting.steps = pending.number, 0
        for equals in waiting.buckets[bucket].values():
            if waiting.steps >= PER_NAMESPACE:
                return False
            steps = self._ask(equals, pending, pending.room, woken)
            waiting.steps += steps
            self.taken += steps
        return True

    def _put_off(self, waiting: Waiting) -> None:
        """Mark a namespace as behind, from the latest event on."""
        waiting.since = self._number
        self.behind[waiting.namespace] = waiting
        for bucket in waiting.buckets:
            del self._buckets[bucket].current[waiting.namespace]

    def _remember(self, pending: PendingEvent) -> None:
        events = self._pending
        events.append(pending)
        if len(events) > MOST_PENDING:
            first, second = events[:2]
            both = first.event | second.event
            events[:2] = [PendingEvent(second.number, both, always, None, real=False)]

    def catch_up(self, most: int) -> tuple[list[Woken], str, int]:
        """Ask about the pending events of one namespace, for about this many steps.

        Returns the sets to wake, the namespace, and the steps that were taken.
        """
        namespace, waiting = next(iter(self.behind.items()))
        self.behind.move_to_end(namespace)
        rooms: dict[int, Room | None] = {}
        woken: list[Woken] = []
        events, steps = self._unseen(waiting), 0
        while steps < most and events:
            if waiting.walk is None:
                waiting.walk, waiting.upto = self._concerned_sets(waiting, events), events[-1].number
                steps += len(waiting.buckets)
            if not waiting.walk:
                waiting.walk, waiting.since = None, waiting.upto + 1
                events = self._unseen(waiting)
                continue
            equals = waiting.walk.popleft()
            steps += 1
            if equals.waiting is None or not equals.pods:
                continue
            for pending in events:
                if pending.number <= equals.asked:
                    continue
                if pending.number not in rooms:
                    rooms[pending.number] = None if pending.room is None else pending.room.again()
                before = len(woken)
                steps += self._ask(equals, pending, rooms[pending.number], woken)
                if len(woken) > before:
                    self._detach(equals)
                    break
        if not events and namespace in self.behind:
            self._catches_up(waiting)
        return woken, namespace, max(steps, 1)

    def _unseen(self, waiting: Waiting) -> list[PendingEvent]:
        """Return the pending events that a namespace has not seen."""
        return [pending for pending in self._pending if pending.number >= waiting.since]

    def _catches_up(self, waiting: Waiting) -> None:
        """Mark a namespace as not behind any more."""
        for bucket in waiting.buckets:
            self._buckets[bucket].current[waiting.namespace] = waiting
        self._not_behind(waiting)

    def _not_behind(self, waiting: Waiting) -> None:
        waiting.walk = None
        if self.behind.pop(waiting.namespace, None) is not None and not self.behind:
            self._pending.clear()

    def _ask(self, equals: EqualPods, pending: PendingEvent, room: Room | None, woken: list[Woken]) -> int:
        """Ask plugins about one set, and add it to `woken` if it is to be woken; return the steps that this took."""
        equals.asked = pending.number
        profile, plugins = equals.bucket
        framework = self.frameworks.get(profile)
        them = self._concerned(equals.bucket, pending)
        if framework is None or them is None:
            return 1
        if not plugins or self._worth_it(pending.hint, framework, them, plugins, equals.pod, room):
            woken.append(Woken(equals, pending.event, pending.real, pending.about))
        return equals.price

    def _concerned(self, bucket: Bucket, pending: PendingEvent) -> list[Plugin | None] | None:
        """Return the plugins to ask about the pods of a bucket; None: the event does not concern them."""
        concerned = pending.concerned
        if bucket not in concerned:
            profile, plugins = bucket
            framework = self.frameworks.get(profile)
            if framework is None:
                return None
            asked = [framework.plugin(name) for name in plugins if framework.events(name) & pending.event]
            concerned[bucket] = None if plugins and not asked else asked
        return concerned[bucket]

    def _concerned_sets(self, waiting: Waiting, events: list[PendingEvent]) -> deque[EqualPods]:
        """Return the sets that any of these events concerns."""
        return deque(
            equals
            for bucket, sets in waiting.buckets.items()
            if any(self._concerned(bucket, pending) is not None for pending in events)
            for equals in sets.values()
        )

    def says(self, hint: Hint, framework: Framework, plugin: Plugin | None, pod: Pod) -> bool:
        """Return whether a plugin thinks that the pod may fit now. A failing plugin counts as a yes."""
        if plugin is None:
            return True
        try:
            return hint(framework, plugin, pod)
        except PluginError as error:
            self._outbox.hint_failed(pod, error)
            return True

    def _worth_it(
        self,
        hint: Hint,
        framework: Framework,
        asked: list[Plugin | None],
        plugins: frozenset[str],
        pod: Pod,
        room: Room | None,
    ) -> bool:
        """Return whether one of these plugins thinks that the pod may fit now; if all look at one node, with room
        there.
        """
        willing = None
        for plugin in asked:
            if self.says(hint, framework, plugin, pod):
                if room is None or plugin is None or not framework.looks_at_one_node(plugin.name):
                    return True
                willing = plugin
        if room is None or willing is None:
            return False
        return self.says(lambda framework, _, pod: not room.rejects(framework, plugins, pod), framework, willing, pod)

    def _detach(self, equals: EqualPods) -> None:
        waiting = equals.waiting
        if waiting is not None:
            equals.waiting = None
            self._drop(equals, waiting)

    def _drop(self, equals: EqualPods, waiting: Waiting) -> None:
        """Drop a set without pods from its bucket."""
        sets = waiting.buckets[equals.bucket]
        del sets[equals.key]
        if not sets:
            del waiting.buckets[equals.bucket]
            self._leave(equals.bucket, waiting)
        if not waiting.buckets:
            del self.by_namespace[waiting.namespace]
            self._not_behind(waiting)

    def _leave(self, bucket: Bucket, waiting: Waiting) -> None:
        of = self._buckets[bucket]
        of.namespaces -= 1
        of.current.pop(waiting.namespace, None)
        if not of.namespaces:
            del self._buckets[bucket]


def alike(pod: Pod) -> tuple[Any, ...]:
    """Return a key that is equal for pods which are one set.

    Ephemeral claims have the pod's name, so such a pod is alone.
    """
    shape = pod.shape
    own = pod.uid if shape.volumes.ephemeral or shape.claims else ""
    return shape, pod.namespace, frozenset(pod.labels.items()), own, pod.priority, pod.preempts


def always(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
    """The hint for events after which all pods are woken that wait for such an event."""
    return True
