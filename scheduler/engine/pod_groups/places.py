"""The places of pod groups: all waiting pods of a group are in one place, and move together.

Mirrors what kube-scheduler `backend/queue/scheduling_queue.go` does with pod groups. One pod, the leader, stands for
its group in the heaps. Moving a group takes some steps for each pod, with which its namespace is charged.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Any

from msgspec.structs import replace

from scheduler.engine import story_entries
from scheduler.engine.instructions import SCHEDULER_ERROR
from scheduler.engine.places import FLUSH_AFTER, Cause, Places
from scheduler.engine.pod_groups.entry import Ended, Entry, in_order
from scheduler.engine.queued import Place, QueuedPod
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.model.pod_group import GroupKey, PodGroup

_POD_CAME = Cause("UnscheduledPodAdd")
_GROUP_ADDED, _GROUP_UPDATED, _GROUP_GONE = Cause("PodGroupAdd"), Cause("PodGroupUpdate"), Cause("PodGroupDelete")
GANG_SCHEDULING = "GangScheduling"
_NOT_HELD = ("", "")
_ANYTHING: frozenset[str] = frozenset()
"""No plugin: any event may help."""


class GroupedPlaces(Places):
    """Places in which the pods of a group stay together."""

    def __init__(self, *args: Any) -> None:
        """As of `Places`."""
        super().__init__(*args)
        self._entries: dict[GroupKey, Entry] = {}
        self._arrivals = 0
        self.group_under_way = False
        """Whether a group is being tried: no other one is begun."""
        self._put_off_groups: list[Entry] = []
        """Groups that came up meanwhile."""

    def entries(self) -> int:
        """As `Places.entries`, and what is kept of groups."""
        return super().entries() + sum(1 + len(entry.pods) + len(entry.held) for entry in self._entries.values())

    def group_entry(self, key: GroupKey) -> Entry | None:
        """What waits of a group."""
        return self._entries.get(key)

    def group_of(self, pod: Pod) -> GroupKey | None:
        """The group with which a pod is scheduled; None: it is scheduled by itself."""
        return None if pod.scheduling_group is None else self.cluster.pod_groups.of(pod)

    def group_backoff(self, entry: Entry) -> float:
        """As `backoff`, for a group; the longest one grows with the root of the number of its pods."""
        if entry.overruns:
            return self._budget.backoff(entry.overruns)
        count = entry.errors or entry.rejections
        longest = self.max_backoff * sqrt(max(len(entry.pods), 1))
        return float(min(self.initial_backoff * 2 ** min(count - 1, 32), longest)) if count else 0.0

    # -- pods come and go --------------------------------------------------------------------------------------------

    def _join(self, queued: QueuedPod, key: GroupKey, now: float, cause: Cause) -> None:
        """A pod comes, or comes back, to the other waiting pods of its group."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(key, now)
            entry.attempts, entry.returned_at = queued.attempts, queued.returned_at
            entry.errors, entry.rejections = queued.errors, queued.rejections
        self._add(entry, queued)
        ticket = entry.ticket
        self._ask_about(entry, queued, now)
        self._settle(entry, now, cause)
        if entry.ticket == ticket and queued.entry is entry:
            self._count(entry.place, cause, 1)
            queued.story.note(self._queued(queued, entry, now, cause))

    def _add(self, entry: Entry, queued: QueuedPod) -> None:
        self._arrivals += 1
        queued.arrival, queued.entry, queued.place = self._arrivals, entry, entry.place
        self._pods[queued.pod.uid] = queued
        entry.pods[queued.pod.uid] = queued
        self._counts[entry.place] += 1

    def _leave(self, queued: QueuedPod) -> None:
        """As `Places._leave`; of a group, one pod leaves, and another one stands for it if that did."""
        entry = queued.entry
        if entry is None:
            super()._leave(queued)
            return
        uid = queued.pod.uid
        self._counts[entry.place] -= 1
        self._release(entry, uid)
        self._do_not_ask_about(queued)
        entry.failing.discard(uid)
        del entry.pods[uid]
        queued.entry, queued.ticket = None, 0
        if not entry.pods and not entry.trying:
            del self._entries[entry.key]
        elif queued is entry.leader:
            self._lead(entry)

    def group_put(self, before: PodGroup | None, group: PodGroup, now: float) -> None:
        """A group's object was added or updated."""
        cause = _GROUP_ADDED if before is None else _GROUP_UPDATED
        self.group_changed(group.key, now, cause, helps=before is None or _asks(before) != _asks(group))

    def group_gone(self, key: GroupKey, now: float) -> None:
        """A group's object was deleted: its pods wait until there is one again."""
        self.group_changed(key, now, _GROUP_GONE)

    def group_changed(self, key: GroupKey, now: float, cause: Cause | None = None, *, helps: bool = False) -> None:
        """The group's object or the number of its pods has changed. `helps`: so that it may fit now."""
        cause = _POD_CAME if cause is None else cause
        entry = self._entries.get(key)
        if entry is None or entry.trying:
            return
        waiting = next((uid for uid, (plugin, _) in entry.held.items() if plugin == GANG_SCHEDULING), None)
        if waiting is not None:
            self._ask_about(entry, entry.pods[waiting], now)
            if entry.held.get(waiting, _NOT_HELD)[0] != GANG_SCHEDULING:
                self._release_from(GANG_SCHEDULING, entry)
        if not entry.held and entry.place is not Place.GATED and entry.leader is not None:
            self._ask_about(entry, entry.leader, now)
        if helps and entry.place is Place.UNSCHEDULABLE:
            self._wake_group(entry, now, cause)
        else:
            self._settle(entry, now, cause)

    def _release_from(self, plugin: str, entry: Entry) -> None:
        """This plugin does not hold the group any more, so none of its pods. It is the last one that is asked."""
        for uid in [uid for uid, (held_by, _) in entry.held.items() if held_by == plugin]:
            self._release(entry, uid)

    # -- PreEnqueue --------------------------------------------------------------------------------------------------

    def _ask_about(self, entry: Entry, queued: QueuedPod, now: float) -> None:
        """Ask the PreEnqueue plugins about one pod; they are asked again when an event may change their answer."""
        uid = queued.pod.uid
        framework = self.frameworks.get(queued.pod.scheduler_name)
        if framework is None:
            del self._pods[uid]
            self._leave(queued)
            queued.story.end(story_entries.Left(now, "its profile is not configured any more"))
            return
        self._release(entry, uid)
        entry.failing.discard(uid)
        try:
            held = framework.pre_enqueue(queued.pod, self.cluster)
        except PluginError as error:
            entry.failing.add(uid)
            entry.held[uid] = (error.plugin, str(error))
            queued.plugins = frozenset((error.plugin,))
            self._outbox.failed(queued, SCHEDULER_ERROR, str(error), queued.plugins)
            return
        if held is None:
            return
        entry.held[uid] = (held[0], held[1].text)
        queued.plugins = frozenset((held[0],))
        if held[0] != GANG_SCHEDULING:
            self.unschedulable.put(queued)

    def _release(self, entry: Entry, uid: str) -> None:
        """A pod is not held any more."""
        if entry.held.pop(uid, None) is not None:
            self._do_not_ask_about(entry.pods[uid])

    def _do_not_ask_about(self, queued: QueuedPod) -> None:
        """When something happens, nobody asks about this pod any more."""
        if queued.group is not None:
            self.unschedulable.take(queued)

    def _ask_all(self, entry: Entry, now: float) -> None:
        for queued in list(entry.pods.values()):
            self._ask_about(entry, queued, now)
        self.turns.account(entry.key.namespace, len(entry.pods), now)

    def _settle(self, entry: Entry, now: float, cause: Cause) -> None:
        """Have the group where it belongs, by whether any of its pods is held."""
        if entry.trying or not entry.pods:
            return
        if entry.failing:
            if entry.place is not Place.BACKOFF:
                self._fail(entry, now, cause)
        elif entry.held:
            if entry.new or entry.place is not Place.GATED:
                self._move(entry, Place.GATED, now + FLUSH_AFTER, now, cause)
        elif entry.place is Place.GATED:
            self._ready(entry, now, cause)

    # -- moves -------------------------------------------------------------------------------------------------------

    def _wake(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """As `Places._wake`; with a pod of a group, the whole group is woken."""
        entry = queued.entry
        if entry is None:
            super()._wake(queued, now, cause)
        elif queued.pod.uid in entry.held and queued.group is not None:
            self._ask_about(entry, queued, now)
            self._settle(entry, now, cause)
            if queued is entry.leader and entry.place is Place.GATED:
                self._lead(entry, now + FLUSH_AFTER)  # it may be its time that was over
        elif not entry.trying:
            self._wake_group(entry, now, cause)

    def _wake_group(self, entry: Entry, now: float, cause: Cause) -> None:
        if entry.place is Place.ACTIVE:
            return
        if entry.place is not Place.BACKOFF or entry.held or entry.failing:
            self._ask_all(entry, now)
        if entry.failing:
            self._fail(entry, now, cause)
        elif entry.held and entry.place is Place.GATED:
            self._lead(entry, now + FLUSH_AFTER)
        elif entry.held:
            self._settle(entry, now, cause)
        elif entry.pods:
            self._ready(entry, now, cause)

    def _ready(self, entry: Entry, now: float, cause: Cause) -> None:
        """Nothing holds the group but its backoff."""
        if entry.attempts and entry.returned_at + self.group_backoff(entry) > now:
            self._back_off(entry, now, cause)
        else:
            self._activate(entry, now, cause)

    def _fail(self, entry: Entry, now: float, cause: Cause) -> None:
        """A plugin failed before the group was tried. That counts as an attempt, so that its backoff grows."""
        entry.attempts += 1
        entry.errors += 1
        entry.returned_at = now
        self._back_off(entry, now, cause)

    def _back_off(self, entry: Entry, now: float, cause: Cause) -> None:
        self._move(entry, Place.BACKOFF, max(entry.returned_at + self.group_backoff(entry), now), now, cause)

    def _activate(self, entry: Entry, now: float, cause: Cause) -> None:
        first = next(iter(entry.pods.values()))
        framework = self.frameworks[first.pod.scheduler_name]
        group = self.cluster.pod_groups.get(entry.key)
        pod = first.pod
        if group is not None and group.priority not in (None, pod.priority):
            pod = replace(pod, priority=group.priority)
        try:
            key = framework.sort_key(pod, entry.queued_at)
            self._check_key(framework, key)
        except PluginError as error:
            self._fail(entry, now, cause)
            self._outbox.failed(first, SCHEDULER_ERROR, str(error), frozenset((error.plugin,)))
            return
        indexed = self.term_indexing.indexed(now)
        for queued in entry.pods.values():
            queued.indexed = indexed
            if queued.first_active is None:
                queued.first_active = now
        self._move(entry, Place.ACTIVE, key, now, cause)

    def _move(self, entry: Entry, place: Place, order: Any, now: float, cause: Cause) -> None:
        pods = entry.pods
        self._counts[entry.place] -= len(pods)
        self._counts[place] += len(pods)
        if place is not Place.GATED:
            for uid in pods:
                self._release(entry, uid)
        if entry.place is Place.UNSCHEDULABLE and entry.leader is not None:
            self._do_not_ask_about(entry.leader)
        self._count(place, cause, len(pods))
        entry.place = place
        self._ticket += 1
        entry.ticket = self._ticket
        noted: dict[tuple[frozenset[str], str], story_entries.Queued] = {}
        for queued in pods.values():
            queued.place = place
            told = queued.plugins, self._reason(queued, entry)
            if told not in noted:
                noted[told] = self._queued(queued, entry, now, cause, order)
            queued.story.note(noted[told])
        self._lead(entry, order)
        self.turns.account(entry.key.namespace, len(pods), now)

    def _count(self, place: Place, cause: Cause, pods: int) -> None:
        entered = (place, cause.event)
        self.incoming[entered] = self.incoming.get(entered, 0) + pods

    def _queued(
        self, queued: QueuedPod, entry: Entry, now: float, cause: Cause, order: Any = None
    ) -> story_entries.Queued:
        """What the story of a pod says of its group's place; the same for all pods with the same reasons."""
        until = order if entry.place is Place.BACKOFF and order is not None else 0.0
        reason = self._reason(queued, entry)
        return story_entries.Queued(now, entry.place, cause.event, cause.about, queued.plugins, until, reason)

    def _reason(self, queued: QueuedPod, entry: Entry) -> str:
        """Why PreEnqueue plugins hold a pod, or else another pod of its group."""
        if not entry.held or entry.place is not Place.GATED:
            return ""
        return entry.held.get(queued.pod.uid, next(iter(entry.held.values())))[1]

    def _lead(self, entry: Entry, order: Any = None) -> None:
        """Have one of the pods stand for the group in the heap of its place."""
        if entry.trying:
            return
        if order is not None:
            entry.order = order
        if entry.leader is not None:
            entry.leader.ticket = 0
        leader = entry.leader = next(iter(entry.pods.values()))
        leader.ticket = entry.ticket
        match entry.place:
            case Place.ACTIVE:
                leader.key = entry.order
                self._active.push(entry.order, leader)
            case Place.BACKOFF:
                self._strict_backoff.push(entry.order, leader)
            case _:
                self._flush.push(entry.order, leader)
        if entry.place is Place.UNSCHEDULABLE and leader.group is None:
            leader.plugins = _ANYTHING
            self.unschedulable.put(leader)

    # -- attempts ----------------------------------------------------------------------------------------------------

    def _begin(self, entry: Entry, event: int) -> bool:
        """Try a group: its pods leave the queue. False: another one is being tried, and this one is the next.

        `event`: the number of the last event before that.
        """
        if self.group_under_way:
            self._put_off(entry)
            return False
        pods = entry.pods
        self._counts[entry.place] -= len(pods)
        for uid, queued in pods.items():
            del self._pods[uid]
            queued.ticket = 0
            queued.attempts += 1
            queued.left_at = event
        entry.attempts += 1
        entry.trying, entry.pods = in_order(pods.values()), {}
        entry.place, entry.leader = Place.GATED, None
        self.group_under_way = True
        return True

    def _put_off(self, entry: Entry) -> None:
        """Have a group wait until another one was tried."""
        self._shift(entry, Place.GATED)
        entry.leader = None
        self._put_off_groups.append(entry)

    def _come_up_again(self) -> None:
        """The groups that were put off are active again, as they were."""
        put_off, self._put_off_groups = self._put_off_groups, []
        for entry in put_off:
            if self._entries.get(entry.key) is entry and entry.new and entry.pods and not entry.held:
                self._shift(entry, Place.ACTIVE)
                self._ticket += 1
                entry.ticket = self._ticket
                self._lead(entry)

    def _shift(self, entry: Entry, place: Place) -> None:
        self._counts[entry.place] -= len(entry.pods)
        self._counts[place] += len(entry.pods)
        entry.place = place
        for queued in entry.pods.values():
            queued.place, queued.ticket = place, 0

    def group_tried(
        self, entry: Entry, back: Iterable[QueuedPod], ended: Ended, now: float, cause: Cause, *, missed: bool = False
    ) -> None:
        """The attempt is over, and these pods come back. `missed`: something happened meanwhile that may help them."""
        came = list(entry.pods.values())
        entry.trying = ()
        self.group_under_way = False
        self._come_up_again()
        for queued in back:
            queued.flushed = False
            self._add(entry, queued)
        if not entry.pods:
            del self._entries[entry.key]
            return
        if ended is not Ended.WITH_NODES or not back:
            entry.queued_at = now
        entry.returned_at = now
        entry.rejections = entry.rejections + 1 if ended is Ended.REJECTED else 0
        entry.errors = entry.errors + 1 if ended is Ended.BROKEN else 0
        entry.overruns = entry.overruns + 1 if ended is Ended.TOO_COSTLY else 0
        if ended is Ended.WITH_NODES:
            # Permit or Reserve may have refused some of them: these must not come back at once, over and over.
            entry.rejections = max((queued.rejections for queued in came), default=0)
            entry.errors = max((queued.errors for queued in came), default=0)
        waits = ended is Ended.REJECTED and not (missed or came)
        if waits:
            self._ask_about(entry, next(iter(entry.pods.values())), now)  # all are asked when something wakes them
        else:
            self._ask_all(entry, now)
        if entry.held or not entry.pods:
            self._settle(entry, now, cause)
        elif waits:
            self._wait_together(entry, now, cause)
        else:
            self._ready(entry, now, cause)

    def _wait_together(self, entry: Entry, now: float, cause: Cause) -> None:
        """No pod could go on: the group waits until something happens.

        kube-scheduler tries it again after its backoff, without asking what may help. Whatever happened meanwhile may
        lead to another choice of nodes for the first pods, and with it to room for the last ones.
        """
        self._move(entry, Place.UNSCHEDULABLE, now + FLUSH_AFTER, now, cause)

    # -- changes -----------------------------------------------------------------------------------------------------

    def _update_in_group(self, queued: QueuedPod, pod: Pod, now: float, cause: Cause, *, helps: bool) -> None:
        """A pod of a group changed. `helps`: so that it may fit now."""
        entry, asked = queued.entry, queued.group is not None
        if asked:
            self.unschedulable.take(queued)
        queued.pod = entry.pods[pod.uid].pod = pod
        if asked:
            self.unschedulable.put(queued)
        if pod.uid in entry.held:
            self._ask_about(entry, queued, now)
            self._settle(entry, now, cause)
        elif helps and not entry.trying:
            self._wake_group(entry, now, cause)

    def _reenter_group(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Find a group's place again after the profiles changed, once its leader comes up."""
        entry = queued.entry
        leads = queued is entry.leader
        self._ask_about(entry, queued, now)
        if not leads or not entry.pods:
            return
        self._ask_all(entry, now)
        if entry.held or not entry.pods:
            self._settle(entry, now, cause)
        elif entry.place is not Place.BACKOFF:
            self._ready(entry, now, cause)


def _asks(group: PodGroup) -> tuple[Any, ...]:
    """What of a group decides whether it fits."""
    needed = None if group.min_resources is None else tuple(sorted(group.min_resources.items()))
    topology = group.topology_key, group.required_topology, group.preferred_topology
    return group.min_count, topology, group.priority, group.preempts, needed
