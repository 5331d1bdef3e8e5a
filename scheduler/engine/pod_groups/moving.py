"""Moves of pod groups between the places of the queue: all waiting pods of a group are in one place, and move together.

One pod, the leader, stands for its group in the heaps. Moving a group takes some steps for each pod, with which its
namespace is charged. Next stage: `scheduler.engine.pod_groups.places`. Mirrors kube-scheduler
`backend/queue/scheduling_queue.go` (moveToActiveQ, moveToBackoffQ), for pod groups.
"""

from math import sqrt
from typing import Any

from msgspec.structs import replace

from scheduler.engine import story_entries
from scheduler.engine.budget import Budget
from scheduler.engine.instructions import SCHEDULER_ERROR
from scheduler.engine.places import FLUSH_AFTER, Cause
from scheduler.engine.pod_groups.asking import AT_ONCE, GroupsAsked
from scheduler.engine.pod_groups.entry import Entry
from scheduler.engine.queued import Place, QueuedPod
from scheduler.engine.story import Story
from scheduler.framework.status import PluginError

_EARLY = Cause("PopFromBackoffQ")
_SHORTEST_DEBT = 0.001
"""Seconds: what is less is lost when it is added to the time."""
_ANYTHING: frozenset[str] = frozenset()
"""No plugin: any event may help."""


class GroupsMoved(GroupsAsked):
    """Has each group in the place where it belongs."""

    def group_backoff(self, entry: Entry) -> float:
        """How long a group backs off; the longest backoff grows with the root of the number of its pods.

        For pods that could not be bound it is no longer than that of a pod, as others of the group wait with them.
        """
        if entry.overruns:
            return Budget().backoff(entry.overruns)
        count = entry.errors or entry.rejections
        longest = self.max_backoff * sqrt(max(len(entry.pods), 1))
        together = min(self.initial_backoff * 2 ** min(count - 1, 32), longest) if count else 0.0
        failed = min(self.initial_backoff * 2 ** min(entry.failed - 1, 32), self.max_backoff) if entry.failed else 0.0
        return float(max(together, failed))

    def _settle(self, entry: Entry, now: float, cause: Cause) -> None:
        """Have the group where it belongs, by whether any of its pods is held."""
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
        elif entry.place is Place.GATED and not self._being_asked(entry):
            entry.early |= not entry.new  # pods that come back from their binding cycles are no change
            self._ready(entry, now, cause)

    def _tries_once_more(self, entry: Entry) -> bool:
        """Whether a group that lacks pods by now, or has no object any more, is tried all the same: nodes are kept for
        it, and it gives them up then, as in kube-scheduler."""
        uid, (held_by, _) = next(iter(entry.held.items()))
        if uid not in entry.held_by_group or not entry.attempts or (entry.place is Place.GATED and not entry.new):
            return False
        if not self.keeps_nodes(entry):
            return False
        self._release_from(held_by, entry)
        entry.once_more = not entry.held
        return entry.once_more

    def keeps_nodes(self, entry: Entry) -> bool:
        """Whether nodes are kept for pods of the group."""
        node_of = self.cluster.nominations.node_of
        return any(node_of(uid) is not None for uid in entry.pods)

    def _wake(self, queued: QueuedPod, now: float, cause: Cause) -> None:
        """Wake a pod; with a pod of a group, the whole group is woken."""
        entry = queued.entry
        if entry is None:
            super()._wake(queued, now, cause)
        elif queued.pod.uid in entry.held and queued.equals is not None:
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
            self._ask_all_and_wake(entry, now, cause)
        else:
            self._asked(entry, now, cause)

    def _asked(self, entry: Entry, now: float, cause: Cause) -> None:
        if entry.failing:
            self._fail(entry, now, cause)
        elif entry.held and entry.place is Place.GATED and not entry.new:
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

    def _take_group_early(self, now: float) -> None:
        """Nothing else is to be done: the group that has waited longest need not wait for the end of its backoff.

        kube-scheduler takes any group that did not fail by an error (SchedulerPopFromBackoffQ). Here something must
        have changed since it was tried, and its namespace must have paid for that.
        """
        leader = self._early_groups.pop_due(now)
        if leader is None:
            return
        entry = leader.entry
        debt = self.fair_share.seconds_beyond(entry.key.namespace, now)
        if debt:
            self._early_groups.push(now + max(debt, _SHORTEST_DEBT), leader)
        else:
            self._activate(entry, now, _EARLY)

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
        for queued in entry.pods.values():
            if queued.first_active is None:
                queued.first_active = now
        self._move(entry, Place.ACTIVE, key, now, cause)

    def _move(self, entry: Entry, place: Place, order: Any, now: float, cause: Cause) -> None:
        pods = entry.pods
        self._counts[entry.place] -= len(pods)
        self._counts[place] += len(pods)
        if place is not Place.GATED and entry.held:
            for uid in pods:
                self._release(entry, uid)
        if entry.place is Place.UNSCHEDULABLE and entry.leader is not None:
            self._do_not_ask_about(entry.leader)
        self._count(place, cause, len(pods))
        entry.place = place
        self._ticket += 1
        entry.ticket = self._ticket
        note = Story.note_later if len(pods) > AT_ONCE else Story.note
        held = entry.held if place is Place.GATED else {}
        noted: dict[tuple[frozenset[str], str], story_entries.Queued] = {}
        plugins = reason = said = None
        for uid, queued in pods.items():
            queued.place = place
            about = held[uid][1] if uid in held else ""
            if said is None or queued.plugins is not plugins or about != reason:
                # Most of them are told what the one before was told.
                plugins, reason = queued.plugins, about
                said = noted.get((plugins, about))
                if said is None:
                    said = noted[plugins, about] = self._queued(queued, entry, now, cause, order)
            note(queued.story, said)
        self._lead(entry, order)
        self.fair_share.charge(entry.key.namespace, len(pods), now)

    def _shift(self, entry: Entry, place: Place) -> None:
        self._counts[entry.place] -= len(entry.pods)
        self._counts[place] += len(entry.pods)
        entry.place = place
        for queued in entry.pods.values():
            queued.place, queued.ticket = place, 0

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
                if entry.early and not (entry.errors or entry.failed or entry.overruns):
                    self._early_groups.push(entry.returned_at, leader)
            case _:
                self._flush.push(entry.order, leader)
        if entry.place is Place.UNSCHEDULABLE and leader.equals is None:
            leader.plugins = _ANYTHING
            self.unschedulable.put(leader)

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
