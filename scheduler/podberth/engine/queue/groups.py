"""Pod groups in the queue: their pods come and go, they are tried, and they come back.

All waiting pods of a group are in one place, and move together; while PreEnqueue plugins hold one of them, all wait.
Mirrors what kube-scheduler `backend/queue/scheduling_queue.go` does with pod groups.
"""

from collections.abc import Iterable
from enum import Enum, auto
from math import sqrt
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from podberth.engine.instructions import SCHEDULER_ERROR
from podberth.engine.queue.places import EARLY, FLUSH_AFTER, Cause, Places
from podberth.engine.queue.queued import Place, QueuedGroup, QueuedPod
from podberth.framework.events import ClusterEvent
from podberth.framework.status import PluginError
from podberth.model.limits import TOO_LARGE
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey, PodGroup

MOST_PODS = 10_000
"""The largest number of waiting pods with which a group is tried. To ask the plugins about so many takes 30 ms."""
_MANY = 256
"""The number of pods that move at once from which on observers are told that they are many."""
_SHORTEST_DEBT = 0.001
"""Seconds: a shorter wait would be lost when it is added to the time."""

_ARRIVAL, _ATTEMPTS, _PRIORITY = attrgetter("arrival"), attrgetter("attempts"), attrgetter("pod.priority")


class Ended(Enum):
    """The end of an attempt to schedule a group."""

    WITH_NODES = auto()
    """Enough pods have a node, though perhaps not all."""
    REJECTED = auto()
    BROKEN = auto()


def in_order(pods: Iterable[QueuedPod]) -> tuple[QueuedPod, ...]:
    """Return the pods in the order in which a group's pods are tried (PodGroupMemberPodsOrderingFunc)."""
    ordered = sorted(pods, key=_ARRIVAL)
    ordered.sort(key=_ATTEMPTS, reverse=True)
    ordered.sort(key=_PRIORITY, reverse=True)
    return tuple(ordered)


class QueuedGroups:
    """The entries of groups: all waiting pods of a group are in one place."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._entries: dict[GroupKey, QueuedGroup] = {}
        self._arrivals = 0
        self.under_way = False
        """True while a group is being tried: no other one is begun."""
        self.unchanged: dict[ClusterEvent, dict[GroupKey, QueuedGroup]] = {}
        """What may help → groups that found no room and back off, as no such event has happened meanwhile. What
        attempts give back does not count.
        """
        self._put_off: list[QueuedGroup] = []
        """Groups that came up while another one was being tried."""

    def entries(self) -> int:
        """Return the number of entries, for tests of what a tenant can make grow."""
        return sum(1 + len(entry.pods) + len(entry.held) for entry in self._entries.values())

    def entry(self, key: GroupKey) -> QueuedGroup | None:
        """Return the entry of a group of which pods wait, or are being tried."""
        return self._entries.get(key)

    # -- pods come and go --------------------------------------------------------------------------------------------

    def join(self, queued: QueuedPod, key: GroupKey, now: float, cause: Cause) -> None:
        """Add a pod that comes, or comes back, to the other waiting pods of its group."""
        entry = self._entries.get(key)
        longer = False
        if entry is None:
            entry = self._entries[key] = QueuedGroup(key, now)
            entry.attempts, entry.returned_at = queued.attempts, queued.returned_at
            entry.errors, entry.rejections = queued.errors, queued.rejections
        elif queued.errors:
            # Its binding failed, while others of the group waited: those that have no room, say.
            before = self.backoff(entry)
            entry.failed = entry.failed_before + 1
            entry.returned_at = max(entry.returned_at, queued.returned_at)
            longer = self.backoff(entry) > before
        self._add(entry, queued)
        ticket = entry.ticket
        self._ask_about(entry, queued, now)
        self._settle(entry, now, cause)
        if longer and not entry.trying and entry.place in (Place.ACTIVE, Place.BACKOFF):
            self._back_off(entry, now, cause)
        if entry.ticket == ticket and queued.group is entry:
            self._count(entry.place, cause, 1)
            self._tell(queued, entry, 0.0, cause, now, many=False)

    def _add(self, entry: QueuedGroup, queued: QueuedPod) -> None:
        self._arrivals += 1
        queued.arrival, queued.group, queued.place = self._arrivals, entry, entry.place
        self._places.pods[queued.pod.uid] = queued
        entry.pods[queued.pod.uid] = queued
        self._places.counts[entry.place] += 1

    def leave(self, queued: QueuedPod) -> None:
        """Remove a pod of a group from its place; with the last pod the group leaves as well."""
        entry, uid = queued.group, queued.pod.uid
        assert entry is not None
        self._places.counts[entry.place] -= 1
        self._release(entry, uid)
        entry.failing.discard(uid)
        queued.group = None
        if len(entry.pods) == 1 and not entry.trying:
            self._leave_place(entry)
            del self._entries[entry.key]
        del entry.pods[uid]

    def put(self, before: PodGroup | None, group: PodGroup, now: float) -> None:
        """Move a group whose object was added or updated."""
        event = "PodGroupAdd" if before is None else "PodGroupUpdate"
        self.changed(group.key, now, event, helps=before is None or before.asks != group.asks)

    def gone(self, group: PodGroup, now: float) -> None:
        """Gate a group whose object was deleted: its pods wait until there is one again."""
        self.changed(group.key, now, "PodGroupDelete")

    def changed(self, key: GroupKey, now: float, event: str = "UnscheduledPodAdd", *, helps: bool = False) -> None:
        """Ask again about a group of which the object or the number of pods changed, and move it. `helps`: it may fit
        now.
        """
        entry = self._entries.get(key)
        if entry is None or entry.trying:
            return
        cause = Cause(event, f"PodGroup {key}")
        waiting = next(iter(entry.held_by_group), None)
        if waiting is not None:
            plugin, _ = entry.held[waiting]
            self._ask_about(entry, entry.pods[waiting], now)
            if waiting in entry.held and entry.held[waiting][0] == plugin:
                pass
            elif plugin == TOO_LARGE:
                self._ask_all(entry, now)
            else:
                self._release_from(plugin, entry)
        if not (entry.held or entry.once_more) and entry.place is not Place.GATED and entry.pods and entry.ticket:
            self._ask_about(entry, entry.first, now)
        if helps and entry.place is Place.UNSCHEDULABLE:
            entry.early = True
            self.wake(entry, now, cause)
        else:
            self._settle(entry, now, cause)

    # -- attempts ----------------------------------------------------------------------------------------------------

    def begin(self, entry: QueuedGroup, event: int) -> bool:
        """Begin the attempt of a group: its pods leave the queue. Return False if another group is being tried.

        `event`: the number of the last event before that.
        """
        if self.under_way:
            self._put_off_until(entry)
            return False
        pods = entry.pods
        self._places.counts[entry.place] -= len(pods)
        for uid, queued in pods.items():
            del self._places.pods[uid]
            queued.attempts += 1
            queued.left_at = event
            queued.plugins = frozenset()  # until this attempt rejects it; what gated it has let it go
        entry.attempts += 1
        entry.early = False
        entry.trying, entry.pods = in_order(pods.values()), {}
        entry.place, entry.ticket = Place.GATED, 0
        self.under_way = True
        return True

    def has_before(self, entry: QueuedGroup) -> bool:
        """Return whether a pod or a group is active that comes before this group, which is being tried."""
        first = self._places.active.peek()
        return first is not None and first.order < entry.order

    def _put_off_until(self, entry: QueuedGroup) -> None:
        """Have a group wait until another one was tried."""
        self._shift(entry, Place.GATED)
        entry.ticket = 0
        self._put_off.append(entry)

    def _come_up_again(self) -> None:
        """Make the groups active again that were put off, with their old order."""
        put_off, self._put_off = self._put_off, []
        for entry in put_off:
            if self._entries.get(entry.key) is entry and entry.new and entry.pods and not entry.held:
                self._shift(entry, Place.ACTIVE)
                entry.ticket = self._places.new_ticket()
                self._places.active.push(entry.order, entry)

    def tried(
        self,
        entry: QueuedGroup,
        back: Iterable[QueuedPod],
        ended: Ended,
        now: float,
        cause: Cause,
        *,
        missed: bool = False,
    ) -> None:
        """End the attempt, and take these pods back. `missed`: something that may help them happened meanwhile."""
        came = list(entry.pods.values())
        entry.trying = ()
        self.under_way = False
        self._come_up_again()
        for queued in back:
            queued.flushed = False
            self._add(entry, queued)
        if not entry.pods:
            self._entries.pop(entry.key, None)
            return
        if ended is not Ended.WITH_NODES or not back:
            entry.queued_at = now
        entry.returned_at = now
        entry.rejections = entry.rejections + 1 if ended is Ended.REJECTED else 0
        entry.errors = entry.errors + 1 if ended is Ended.BROKEN else 0
        if ended is Ended.WITH_NODES:
            # Permit or Reserve may have refused some of them: these must not come back at once, over and over.
            entry.rejections = max((queued.rejections for queued in came), default=0)
            entry.errors = max((queued.errors for queued in came), default=0)
            entry.failed_before, entry.failed = entry.failed, 0
        elif not came:
            entry.failed = 0
        if ended is not Ended.REJECTED or missed or came:
            self._ask_all(entry, now)
            self._asked(entry, now, cause)
            if ended is Ended.REJECTED:
                self._note_if_unchanged(entry)
            return
        self._ask_about(entry, next(iter(entry.pods.values())), now)  # all are asked when something wakes them
        if entry.held or not entry.pods:
            self._settle(entry, now, cause)
        else:
            self._wait_together(entry, now, cause)

    def _wait_together(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        """Make the group unschedulable after an attempt from which no pod could go on.

        kube-scheduler tries it again after its backoff, without asking what may help. Whatever happened meanwhile may
        lead to another choice of nodes for the first pods, and with it to room for the last ones.
        """
        self._move(entry, Place.UNSCHEDULABLE, now + FLUSH_AFTER, now, cause)

    # -- changes of pods ---------------------------------------------------------------------------------------------

    def reconfigure(self) -> None:
        """Forget orders that other profiles have given. Groups that were put off find their places by `reenter`; the
        one that is being tried was the first of all, and is that until its attempt ends.
        """
        self._put_off.clear()
        for entry in self._entries.values():
            if entry.trying:
                entry.order = ()

    def update(self, queued: QueuedPod, pod: Pod, now: float, cause: Cause, *, helps: bool) -> None:
        """Replace a pod of a group by its changed version. `helps`: the group may fit now."""
        entry, asked = queued.group, queued.equals is not None
        assert entry is not None
        if asked:
            self._places.unschedulable.take(queued)
        queued.update(pod)
        if asked:
            self._places.unschedulable.put(queued)
        if pod.uid in entry.held or pod.too_large is not None:
            self._ask_about(entry, queued, now)
            self._settle(entry, now, cause)
        elif helps and not entry.trying:
            entry.early = True
            self.wake(entry, now, cause)

    def reenter(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Find a group's place again after the profiles changed, once the first of its pods comes up."""
        entry = queued.group
        assert entry is not None
        leads = queued is entry.first and not entry.trying
        self._ask_about(entry, queued, now)
        if not leads or not entry.pods:
            return
        self._ask_all(entry, now)
        if entry.held or not entry.pods:
            self._settle(entry, now, cause)
        elif entry.place is not Place.BACKOFF:
            self._ready(entry, now, cause)

    # -- what PreEnqueue plugins say ---------------------------------------------------------------------------------

    def _ask_about(self, entry: QueuedGroup, queued: QueuedPod, now: float) -> None:
        """Ask the PreEnqueue plugins about one pod; they are asked again when an event may change their answer."""
        uid = queued.pod.uid
        framework = self._places.frameworks.get(queued.pod.scheduler_name)
        if framework is None:
            self.leave(queued)
            self._places.profile_gone(queued, now)
            return
        self._release(entry, uid)
        entry.failing.discard(uid)
        if len(entry.pods) > MOST_PODS:
            self._hold_too_many(entry, queued)
            return
        try:
            held = framework.pre_enqueue(queued.pod, self._places.cluster)
        except PluginError as error:
            entry.failing.add(uid)
            entry.held[uid] = (error.plugin, str(error))
            queued.plugins = frozenset((error.plugin,))
            self._places.outbox.failed(queued, SCHEDULER_ERROR, str(error), queued.plugins)
            return
        if held is None:
            return
        entry.held[uid] = (held[0], held[1].text)
        queued.plugins = frozenset((held[0],))
        self._places.tell_limit(queued)
        plugin = framework.profile.by_name.get(held[0])
        if plugin is not None and plugin.for_groups:
            entry.held_by_group[uid] = None
        else:
            self._places.unschedulable.put(queued)

    def _hold_too_many(self, entry: QueuedGroup, queued: QueuedPod) -> None:
        """Hold a pod of a group that is beyond the limit. It is asked about again when pods of the group go."""
        text = f"too large for this scheduler: more than {MOST_PODS:,} waiting pods in one group"
        uid, queued.plugins = queued.pod.uid, frozenset((TOO_LARGE,))
        entry.held[uid], entry.held_by_group[uid] = (TOO_LARGE, text), None
        self._places.outbox.failed(queued, SCHEDULER_ERROR, text, queued.plugins)

    def _ask_all(self, entry: QueuedGroup, now: float) -> None:
        """Ask PreEnqueue plugins about all pods. One is enough for a group that is beyond the limit."""
        pods = list(entry.pods.values())
        for queued in pods if len(pods) <= MOST_PODS else pods[:1]:
            self._ask_about(entry, queued, now)
        self._places.fair_share.charge(entry.key.namespace, len(pods), now)

    def _release(self, entry: QueuedGroup, uid: str) -> None:
        """Note that no plugin holds a pod any more."""
        entry.held_by_group.pop(uid, None)
        if entry.held.pop(uid, None) is not None and entry.pods[uid].equals is not None:
            self._places.unschedulable.take(entry.pods[uid])

    def _release_from(self, plugin: str, entry: QueuedGroup) -> None:
        """Note that a plugin which decides by the group no longer holds any of its pods. It is asked after others."""
        for uid in [uid for uid in entry.held_by_group if entry.held[uid][0] == plugin]:
            self._release(entry, uid)

    # -- from place to place -----------------------------------------------------------------------------------------

    def backoff(self, entry: QueuedGroup) -> float:
        """Return the seconds for which a group backs off; the longest backoff grows with the root of the number of its
        pods.

        For pods that could not be bound it is no longer than that of a pod, as others of the group wait with them.
        """
        count = entry.errors or entry.rejections
        shortest, most = self._places.initial_backoff, self._places.max_backoff
        longest = most * sqrt(max(len(entry.pods), 1))
        together = min(shortest * 2 ** min(count - 1, 32), longest) if count else 0.0
        failed = min(shortest * 2 ** min(entry.failed - 1, 32), most) if entry.failed else 0.0
        return float(max(together, failed))

    def _settle(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        """Move the group to the place where it belongs, by whether any of its pods is held."""
        if entry.trying or not entry.pods:
            return
        if entry.failing:
            if entry.place is not Place.BACKOFF:
                self._fail(entry, now, cause)
        elif entry.held:
            if self._tries_once_more(entry):
                entry.early = False  # pods that are missing may come until its backoff is over
                self._ready(entry, now, cause)
            elif entry.new or entry.place is not Place.GATED:
                self._move(entry, Place.GATED, now + FLUSH_AFTER, now, cause)
        elif entry.place is Place.GATED:
            entry.early |= not entry.new  # pods that come back from their binding cycles are no change
            self._ready(entry, now, cause)

    def _tries_once_more(self, entry: QueuedGroup) -> bool:
        """Return whether a gated group is tried once more so that it gives up the nodes that its pods are nominated
        for. kube-scheduler also tries such a group, which lacks pods or its object by now.
        """
        uid, (held_by, _) = next(iter(entry.held.items()))
        if uid not in entry.held_by_group or not entry.attempts or (entry.place is Place.GATED and not entry.new):
            return False
        if not self.keeps_nodes(entry):
            return False
        self._release_from(held_by, entry)
        entry.once_more = not entry.held
        return entry.once_more

    def keeps_nodes(self, entry: QueuedGroup) -> bool:
        """Return whether any pod of the group is nominated for a node."""
        node_of = self._places.cluster.nominations.node_of
        return any(uid in node_of for uid in entry.pods)

    def ask_again(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Ask again what holds a pod of a group after an event that may help it; if nothing does, wake the group."""
        entry = queued.group
        assert entry is not None
        if queued.pod.uid in entry.held and queued.equals is not None:
            self._ask_about(entry, queued, now)
            self._settle(entry, now, cause)
        elif not entry.trying:
            self.wake(entry, now, cause)

    def wake(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        """Move a group from where it waits to where it belongs now."""
        if entry.place is Place.ACTIVE:
            return
        if entry.place is not Place.BACKOFF or entry.held or entry.failing:
            self._ask_all(entry, now)
        found_no_room = entry.place is Place.UNSCHEDULABLE
        self._asked(entry, now, cause)
        if found_no_room:
            self._note_if_unchanged(entry)

    def _note_if_unchanged(self, entry: QueuedGroup) -> None:
        """Remember a group that found no room and waits out its backoff, so that it is tried early after a change.

        A group that had nodes and gave them back is not remembered: it would take them again at once, over and over.
        """
        if entry.place is Place.BACKOFF and not entry.early:
            self.unchanged.setdefault(entry.helped_by, {})[entry.key] = entry

    def _asked(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        if entry.failing:
            self._fail(entry, now, cause)
        elif entry.held and entry.place is Place.GATED and not entry.new:
            self._places.flush.push(now + FLUSH_AFTER, entry)
        elif entry.held:
            self._settle(entry, now, cause)
        elif entry.pods:
            self._ready(entry, now, cause)

    def _ready(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        """Move a group that no plugin holds to backoff, or to the active queue if its backoff is over."""
        if entry.attempts and entry.returned_at + self.backoff(entry) > now:
            self._back_off(entry, now, cause)
        else:
            self._activate(entry, now, cause)

    def something_changed(self, event: ClusterEvent) -> None:
        """Let the groups be tried early that this event may help, and for which none had happened until now."""
        for kinds in [kinds for kinds in self.unchanged if kinds & event]:
            for entry in self.unchanged.pop(kinds).values():
                entry.early = True
                self._let_early(entry)

    def _let_early(self, entry: QueuedGroup) -> None:
        """Let a group in backoff be tried early, unless it failed by an error."""
        if not (entry.errors or entry.failed):
            self._places.early_groups.push(max(entry.returned_at, entry.early_again), entry)

    def take_early(self, now: float) -> None:
        """Activate the group that has waited longest in backoff, as nothing else is to be done.

        kube-scheduler takes any group that did not fail by an error (SchedulerPopFromBackoffQ). Here something must
        have happened that may help it, and its namespace must have paid for what it has cost. However much happens,
        tries that are early are apart by the shortest backoff.
        """
        entry = self._places.early_groups.pop_due(now)
        if not isinstance(entry, QueuedGroup):
            return
        debt = self._places.fair_share.seconds_beyond(entry.key.namespace, now)
        if debt:
            self._places.early_groups.push(now + max(debt, _SHORTEST_DEBT), entry)
        else:
            entry.early_again = now + self._places.initial_backoff
            self._activate(entry, now, EARLY)

    def _fail(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        """Back off after a plugin failed before the group was tried. That counts as an attempt, so that its backoff
        grows.
        """
        entry.attempts += 1
        entry.errors += 1
        entry.returned_at = now
        self._back_off(entry, now, cause)

    def _back_off(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        self._move(entry, Place.BACKOFF, max(entry.returned_at + self.backoff(entry), now), now, cause)

    def _activate(self, entry: QueuedGroup, now: float, cause: Cause) -> None:
        first = entry.first
        framework = self._places.frameworks.get(first.pod.scheduler_name)
        if framework is None:
            self._ask_all(entry, now)  # pods whose profile is gone leave
            self._asked(entry, now, cause)
            return
        group = self._places.cluster.pod_groups.get(entry.key)
        pod = first.pod
        if group is not None and group.priority not in (None, pod.priority):
            pod = replace(pod, priority=group.priority)
        try:
            key = framework.sort_key(pod, entry.queued_at)
            self._places.check_key(framework, key)
        except PluginError as error:
            self._fail(entry, now, cause)
            self._places.outbox.failed(first, SCHEDULER_ERROR, str(error), frozenset((error.plugin,)))
            return
        for queued in entry.pods.values():
            if queued.first_active is None:
                queued.first_active = now
        self._move(entry, Place.ACTIVE, key, now, cause)

    def _move(self, entry: QueuedGroup, place: Place, order: Any, now: float, cause: Cause) -> None:
        pods = entry.pods
        self._places.counts[entry.place] -= len(pods)
        self._places.counts[place] += len(pods)
        if place is not Place.GATED and entry.held:
            for uid in pods:
                self._release(entry, uid)
        self._leave_place(entry)
        self._count(place, cause, len(pods))
        entry.place, entry.order = place, order
        entry.ticket = self._places.new_ticket()
        until = order if place is Place.BACKOFF else 0.0
        for queued in pods.values():
            queued.place = place
            self._tell(queued, entry, until, cause, now, many=len(pods) > _MANY)
        self._stand(entry)
        self._places.fair_share.charge(entry.key.namespace, len(pods), now)

    def _shift(self, entry: QueuedGroup, place: Place) -> None:
        self._places.counts[entry.place] -= len(entry.pods)
        self._places.counts[place] += len(entry.pods)
        entry.place = place
        for queued in entry.pods.values():
            queued.place = place

    def _stand(self, entry: QueuedGroup) -> None:
        """Push a group into the heap of its place."""
        places = self._places
        match entry.place:
            case Place.ACTIVE:
                places.active.push(entry.order, entry)
            case Place.BACKOFF:
                places.strict_backoff.push(entry.order, entry)
                if entry.early:
                    self._let_early(entry)
            case Place.UNSCHEDULABLE:
                places.unschedulable.put(entry)
                places.flush.push(entry.order, entry)
            case Place.GATED:
                places.flush.push(entry.order, entry)

    def _leave_place(self, entry: QueuedGroup) -> None:
        """Remove a group from where it stands; its heap entries become stale."""
        entry.ticket = 0
        alike = self.unchanged.get(entry.helped_by, {})
        if alike.pop(entry.key, None) is not None and not alike:
            del self.unchanged[entry.helped_by]
        if entry.equals is not None:
            self._places.unschedulable.take(entry)

    def _count(self, place: Place, cause: Cause, pods: int) -> None:
        entered = (place, cause.event)
        self._places.incoming[entered] = self._places.incoming.get(entered, 0) + pods

    def _tell(
        self, queued: QueuedPod, entry: QueuedGroup, until: float, cause: Cause, now: float, *, many: bool
    ) -> None:
        """Tell observers the place of a pod, and what holds it or another pod of its group there."""
        reason = ""
        if entry.held and entry.place is Place.GATED:
            plugin, reason = entry.held.get(queued.pod.uid) or next(iter(entry.held.values()))
            queued.plugins = frozenset((plugin,))
        for hear in self._places.observers.queued:
            hear(queued, cause.event, cause.about, until, reason, now, many)
