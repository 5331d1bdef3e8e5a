"""Pod groups in the queue: their pods come and go, they are tried, and they come back.

All waiting pods of a group are in one place (`scheduler.engine.pod_groups.moving`). Mirrors what kube-scheduler
`backend/queue/scheduling_queue.go` does with pod groups.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from scheduler.engine.places import FLUSH_AFTER, Cause
from scheduler.engine.pod_groups.entry import Ended, Entry, in_order
from scheduler.engine.pod_groups.moving import GroupsMoved
from scheduler.engine.queued import Place, QueuedPod
from scheduler.model.pod import Pod
from scheduler.model.pod_group import COMPOSITE, COSCHEDULING, GroupKey, PodGroup

_POD_CAME = Cause("UnscheduledPodAdd")
_GROUP_ADDED, _GROUP_UPDATED, _GROUP_GONE = Cause("PodGroupAdd"), Cause("PodGroupUpdate"), Cause("PodGroupDelete")
REGROUPED_AT_ONCE = 64
"""How many pods move from one group's entry to another's in one turn."""
_REGROUPED = 25
"""Steps of each pod that moves to another entry."""


class _Regrouping(NamedTuple):
    """Pods whose tree has changed. Until all of them have moved, the tree is not tried."""

    cause: Cause
    left: dict[str, None]
    """UIDs of the pods that are still to be looked at."""


class GroupedPlaces(GroupsMoved):
    """Places in which the pods of a group stay together."""

    def __init__(self, *args: Any) -> None:
        """The arguments are those of `Places`."""
        super().__init__(*args)
        self._regrouping: dict[GroupKey, _Regrouping] = {}
        """By the root of the tree, or the group that was its root."""
        self._regrouped_last = False
        """Whether the last turn of `wake_some` was for such a tree, and not for a group that is being woken."""

    def entries(self) -> int:
        """How much is kept here, and the pods that are still to move."""
        return super().entries() + sum(1 + len(moving.left) for moving in self._regrouping.values())

    def group_of(self, pod: Pod) -> GroupKey | None:
        """The group with which a pod is scheduled, or the root of its tree; None: it is scheduled by itself."""
        key = None if pod.scheduling_group is None else self.cluster.pod_groups.of(pod)
        return None if key is None else self.cluster.pod_groups.trees.entry_of(key)

    # -- pods come and go --------------------------------------------------------------------------------------------

    def _join(self, queued: QueuedPod, key: GroupKey, now: float, cause: Cause, since: float | None = None) -> None:
        """A pod comes, or comes back, to the other waiting pods of its group. `since`: when it had its turn in the
        order of the queue, if it was in another group's entry."""
        entry = self._entries.get(key)
        longer = False
        if entry is None:
            entry = self._entries[key] = Entry(key, now if since is None else since)
            entry.attempts, entry.returned_at = queued.attempts, queued.returned_at
            entry.errors, entry.rejections = queued.errors, queued.rejections
        elif queued.errors:
            # Its binding failed, while others of the group waited: those that have no room, say.
            before = self.group_backoff(entry)
            entry.failed = entry.failed_before + 1
            entry.returned_at = max(entry.returned_at, queued.returned_at)
            longer = self.group_backoff(entry) > before
        self._add(entry, queued)
        ticket = entry.ticket
        self._ask_about(entry, queued, now)
        self._settle(entry, now, cause)
        if longer and not entry.trying and entry.place in (Place.ACTIVE, Place.BACKOFF):
            self._back_off(entry, now, cause)
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
        """A pod leaves its place. If it stood for its group, another pod does now."""
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
        if before is None or before.parent != group.parent:
            self._regroup(group.key, now, cause)
        self.group_changed(group.key, now, cause, helps=before is None or _asks(before) != _asks(group))

    def group_gone(self, group: PodGroup, now: float) -> None:
        """A group's object was deleted: its pods wait until there is one again."""
        self._regroup(group.key, now, _GROUP_GONE)
        self.group_changed(group.key, now, _GROUP_GONE)
        if group.parent is not None:
            self.group_changed(GroupKey(group.namespace, group.parent, COMPOSITE), now, _GROUP_GONE)

    def _regroup(self, key: GroupKey, now: float, cause: Cause) -> None:
        """The pods of a tree, or of what was one, wait with those that are in the same tree now."""
        groups = self.cluster.pod_groups
        if not groups.trees.wanted or key.api == COSCHEDULING:
            return
        states = [state for leaf in groups.trees.below(key) if (state := groups.state(leaf)) is not None]
        pods = [uid for state in states for uid in state.unscheduled]
        self._begin_regrouping(groups.trees.root_of(key) or key, pods, now, cause)

    def _begin_regrouping(self, key: GroupKey, pods: list[str], now: float, cause: Cause) -> None:
        """Have these pods wait where they belong: few of them now, many in the next turns."""
        if len(pods) <= REGROUPED_AT_ONCE:
            self._regroup_now(key, pods, now, cause)
        else:
            self._regrouping.setdefault(key, _Regrouping(cause, {})).left.update(dict.fromkeys(pods))

    def _regroup_now(self, key: GroupKey, pods: Iterable[str], now: float, cause: Cause) -> None:
        moved = 0
        for queued in map(self._pods.get, pods):
            there = None if queued is None else self.group_of(queued.pod)
            if queued is None or queued.entry is None or there is None or there == queued.entry.key:
                continue
            since = queued.entry.queued_at
            self._leave(queued)
            self._join(queued, there, now, cause, since)
            moved += 1
        self.fair_share.charge(key.namespace, _REGROUPED * moved, now)

    def _regroup_some(self, now: float) -> None:
        """Go on with one tree; the others have their turns before it has another one."""
        key = next(iter(self._regrouping))
        moving = self._regrouping[key] = self._regrouping.pop(key)
        some = list(islice(moving.left, REGROUPED_AT_ONCE))
        for uid in some:
            del moving.left[uid]
        self._regroup_now(key, some, now, moving.cause)
        if moving.left:
            return
        del self._regrouping[key]
        entry = self._entries.get(key)
        if entry is not None:
            self._settle(entry, now, moving.cause)
        self._come_up_again()

    @property
    def wakes_groups(self) -> bool:
        """Whether a large group is being woken, or the pods of a large tree move to where they belong."""
        return bool(self._being_woken or self._regrouping)

    def wake_some(self, now: float) -> None:
        """Do some of the work of `wakes_groups`: trees and woken groups take turns."""
        self._regrouped_last = bool(self._regrouping) and not (self._regrouped_last and self._being_woken)
        if self._regrouped_last:
            self._regroup_some(now)
        else:
            super().wake_some(now)

    def _being_asked(self, entry: Entry) -> bool:
        """Whether plugins are still to be asked about its pods, or pods of its tree are still to move."""
        return self._being_regrouped(entry) or super()._being_asked(entry)

    def _being_regrouped(self, entry: Entry) -> bool:
        """Whether pods are still to come to an entry, or to go from it."""
        moving, trees = self._regrouping, self.cluster.pod_groups.trees
        return bool(moving) and (entry.key in moving or trees.entry_of(entry.key) in moving)

    def group_changed(self, key: GroupKey, now: float, cause: Cause | None = None, *, helps: bool = False) -> None:
        """The group's object or the number of its pods has changed. `helps`: so that it may fit now."""
        cause = _POD_CAME if cause is None else cause
        trees = self.cluster.pod_groups.trees
        entry = self._entries.get((trees.root_of(key) or key) if trees.wanted else key)
        if entry is None or entry.trying:
            return
        waiting = next(iter(entry.held_by_group), None)
        if waiting is not None:
            plugin, _ = entry.held[waiting]
            self._ask_about(entry, entry.pods[waiting], now)
            if waiting not in entry.held or entry.held[waiting][0] != plugin:
                self._release_from(plugin, entry)
        if not (entry.held or entry.once_more) and entry.place is not Place.GATED and entry.leader is not None:
            self._ask_about(entry, entry.leader, now)
        if helps and entry.place is Place.UNSCHEDULABLE:
            entry.early = True
            self._wake_group(entry, now, cause)
        else:
            self._settle(entry, now, cause)

    # -- attempts ----------------------------------------------------------------------------------------------------

    def _begin(self, entry: Entry, event: int) -> bool:
        """Try a group: its pods leave the queue. False: another one is being tried, or not all of its pods are here.

        `event`: the number of the last event before that.
        """
        if self.group_under_way or self._being_regrouped(entry):
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
        entry.early = False
        entry.trying, entry.pods = in_order(pods.values()), {}
        entry.place, entry.leader = Place.GATED, None
        self.group_under_way = True
        return True

    def _put_off(self, entry: Entry) -> None:
        """Have a group wait until another one was tried, or until its pods are here."""
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

    def group_tried(
        self, entry: Entry, back: Iterable[QueuedPod], ended: Ended, now: float, cause: Cause, *, missed: bool = False
    ) -> None:
        """The attempt is over, and these pods come back. `missed`: something happened meanwhile that may help them."""
        came = list(entry.pods.values())
        entry.trying = ()
        self.group_under_way = False
        self._come_up_again()
        elsewhere = []
        waits_elsewhere: dict[GroupKey | None, bool] = {}
        for queued in back:
            queued.flushed = False
            self._add(entry, queued)
            of = queued.pod.scheduling_group
            if of not in waits_elsewhere:
                waits_elsewhere[of] = self.group_of(queued.pod) not in (None, entry.key)
            if waits_elsewhere[of]:
                elsewhere.append(queued.pod.uid)
        if elsewhere:
            self._begin_regrouping(entry.key, elsewhere, now, cause)
        if not entry.pods:
            self._entries.pop(entry.key, None)
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
            entry.failed_before, entry.failed = entry.failed, 0
        elif not came:
            entry.failed = 0
        if ended is not Ended.REJECTED or missed or came:
            self._ask_all_and_wake(entry, now, cause)
            return
        self._ask_about(entry, next(iter(entry.pods.values())), now)  # all are asked when something wakes them
        if entry.held or not entry.pods:
            self._settle(entry, now, cause)
        else:
            self._wait_together(entry, now, cause)

    def _wait_together(self, entry: Entry, now: float, cause: Cause) -> None:
        """No pod could go on: the group waits until something happens.

        kube-scheduler tries it again after its backoff, without asking what may help. Whatever happened meanwhile may
        lead to another choice of nodes for the first pods, and with it to room for the last ones.
        """
        self._move(entry, Place.UNSCHEDULABLE, now + FLUSH_AFTER, now, cause)

    # -- changes of pods ---------------------------------------------------------------------------------------------

    def _update_in_group(self, queued: QueuedPod, pod: Pod, now: float, cause: Cause, *, helps: bool) -> None:
        """A pod of a group changed. `helps`: so that it may fit now."""
        entry, asked = queued.entry, queued.equals is not None
        if asked:
            self.unschedulable.take(queued)
        queued.pod = entry.pods[pod.uid].pod = pod
        if asked:
            self.unschedulable.put(queued)
        if pod.uid in entry.held:
            self._ask_about(entry, queued, now)
            self._settle(entry, now, cause)
        elif helps and not entry.trying:
            entry.early = True
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
