"""Decides which gangs that wait behind smaller pods get a reservation of room, where, and for how long.

A profile has it if one of its plugins has a `reservation`, as GangScheduling by its argument of that name. A gang that
has waited for long, and fits nowhere now, gets room on the nodes on which it would start first if nobody else came.
Other pods of no higher priority may use that room only if they give it back in time (`podberth.cache.reservations`).
One gang of each profile has room at a time.
"""

from collections.abc import Callable, Collection, Generator, Mapping
from datetime import UTC, datetime
from heapq import merge
from math import inf

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.devices import SupposedDevices
from podberth.cache.reservations import ReservedRoom, ends_at
from podberth.cache.search_steps import SearchCapError
from podberth.engine.instructions import Outbox, RecordEvent
from podberth.engine.pod_groups.attempt import GroupAttempt, Turns
from podberth.engine.pod_groups.planning import Assigned, Planning
from podberth.engine.pod_groups.room import plain
from podberth.engine.queue.queued import QueuedGroup
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import SchedulingCycle
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import Reservation
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.node import Node
from podberth.model.pod import Pod, since_epoch
from podberth.model.pod_group import GroupKey

_AGAIN = 60.0
"""Seconds after which a reservation is searched again: pods may end sooner than they have said."""
_MANY = 1_000
"""The number of namespaces from which on those whose turn has come again are forgotten."""
OVERDUE = 30.0
"""Seconds that are given to a pod whose end is overdue: its kubelet is about to stop it."""
_MOVED = 20
"""Steps that it takes to put a pod back into the copy, or to remove it again."""
_MOVED_AT_ONCE = 100
_SORTED, _SORTED_AT_ONCE = 4, 256
"""Steps for each pod that is sorted by its end, and the number sorted in one go."""
Leaving = tuple[float, float, str, int, Pod]
"""(the pod's end, a number that orders pods whose end nobody knows, its UID, its row, the pod)."""


class Drained(Struct, frozen=True):
    """The rows on which a group would have room, and the time of that."""

    assigned: Assigned
    """The group's pods, with their rows."""
    until: float | None
    """Seconds since the epoch at which there is room at the latest; None: not known."""
    draining: Collection[str]
    """UIDs of the pods on these rows whose end is waited for."""
    objects: Mapping[int, Node | None]
    """Row → its node, as it was when this was looked for."""


class Draining(Planning[Drained | str]):
    """Finds out when and where a group would have room if running pods ended as they say and nobody took their place.

    Batch systems call this the "shadow time" of the job at the head of their queue (EASY backfill). On a copy of the
    cluster, pods are removed in the order of their ends, and a binary search finds the fewest with which the group
    fits. A text says why nothing was found.
    """

    what = "room"

    def _made(self) -> Generator[int, None, Drained | str]:
        try:
            return (yield from self._searched())
        except PluginError as error:
            return str(error)

    def _searched(self) -> Generator[int, None, Drained | str]:
        thought, left_out, _ = yield from self._without(self._ends)
        if thought is None:
            return "no running pod is known to end"
        leaving, ends = yield from self._in_order(left_out)
        if isinstance(thought.devices, SupposedDevices):
            for i, (_, _, uid, _, _) in enumerate(leaving):
                thought.devices.leave(uid)
                if i % _MOVED_AT_ONCE == 0:
                    yield _MOVED_AT_ONCE
        walk, _ = self._walk(thought, once=True)
        why, assigned = yield from walk.run()
        if why:
            return "there is too little room even if all pods end that may"
        first, last, gone = 0, len(ends) - 1, len(leaving)
        while first < last:
            middle = (first + last) // 2
            gone = yield from self._move(thought, leaving, gone, ends[middle])
            why, found = yield from walk.run()
            if why:
                first = middle + 1
            else:
                last, assigned = middle, found
        rows = {row for _, row in assigned}
        end = leaving[ends[last] - 1][0]
        waited_for: set[str] = set()
        for start in range(0, ends[last], _SORTED_AT_ONCE):
            some = leaving[start : min(start + _SORTED_AT_ONCE, ends[last])]
            waited_for.update(uid for _, _, uid, row, _ in some if row in rows)
            yield len(some)
        objects = {row: thought.nodes.objects[row] for row in rows}
        return Drained(assigned, None if end == inf else end, waited_for, objects)

    def _in_order(self, left_out: Mapping[int, list[Pod]]) -> Generator[int, None, tuple[list[Leaving], list[int]]]:
        """Return the pods by their ends, and how many have ended after each moment."""
        parts: list[list[Leaving]] = [[]]
        for row, pods in left_out.items():
            parts[-1] += ((*self._end(pod), pod.uid, row, pod) for pod in pods)
            if len(parts[-1]) >= _SORTED_AT_ONCE:
                parts[-1].sort()
                yield _SORTED * len(parts[-1])
                parts.append([])
        parts[-1].sort()
        leaving: list[Leaving] = []
        ends: list[int] = []
        for one in merge(*parts):
            if leaving and leaving[-1][:2] != one[:2]:
                ends.append(len(leaving))
            leaving.append(one)
            if len(leaving) % _SORTED_AT_ONCE == 0:
                yield _SORTED * _SORTED_AT_ONCE
        return leaving, [*ends, len(leaving)]

    def _move(self, thought: Cluster, leaving: list[Leaving], gone: int, wanted: int) -> Generator[int, None, int]:
        """Have the first `wanted` pods left out, instead of the first `gone`."""
        for i, (_, _, uid, row, pod) in enumerate(leaving[min(gone, wanted) : max(gone, wanted)]):
            if wanted < gone:
                thought.assume(pod, row)
            else:
                thought.forget(uid)
            if isinstance(thought.devices, SupposedDevices):
                (thought.devices.come_back if wanted < gone else thought.devices.leave)(uid)
            if i % _MOVED_AT_ONCE == 0:
                yield _MOVED * _MOVED_AT_ONCE
        return wanted

    def _ends(self, pod: Pod) -> bool:
        """Return whether a pod ends without being removed."""
        mine = pod.scheduling_group is not None and self._cluster.pod_groups.of(pod) == self._attempt.entry.key
        return (pod.lasts is not None or pod.terminating) and not mine

    def _end(self, pod: Pod) -> tuple[float, float]:
        """Return a sort key: when a pod ends. If nobody knows, the youngest comes first: most pods run for a short
        time, and one that has run for long is likely to go on.
        """
        wall = self._cluster.devices.wall
        if pod.terminating:
            return wall + OVERDUE, 0.0
        end = ends_at(pod, wall, trusting=True)
        if end is None:
            return inf, -((pod.started and since_epoch(pod.started)) or wall)
        return end if end > wall else wall + OVERDUE, 0.0


class Reservations:
    """Keeps room, and gives it up."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduling: SchedulingCycle,
        outbox: Outbox,
        pick: Callable[[str, int], int],
    ) -> None:
        """`pick` chooses one of several equally good nodes or placements."""
        self._cluster = cluster
        self._queue = queue
        self._scheduling = scheduling
        self._outbox = outbox
        self._pick = pick
        self._kept = cluster.reservations
        self._not_before: dict[str, float] = {}
        """Namespace → engine time from which on a gang of it may have a reservation again."""

    # -- after an attempt that failed --------------------------------------------------------------------------------

    def keep_room(self, attempt: GroupAttempt) -> Turns[None]:
        """Keep room for a group that found too few nodes, if it is to have some."""
        if not self._may_need_room(attempt):
            return
        framework = self._queue.frameworks[attempt.pods[0].queued.pod.scheduler_name]
        if framework.profile.reservation is None:
            return
        plugin, wanted = framework.profile.reservation
        if not self._due(attempt, wanted, attempt.now):
            self._say(attempt, self._kept.of(attempt.entry.key))
            return
        while attempt.wants_room:
            extenders = self._scheduling.extenders_about(member.queued.pod for member in attempt.pods)
            draining = Draining(attempt, framework, self._cluster, self._pick, extenders=extenders)
            found: Drained | str | None
            try:
                found = yield from draining.make(self._queue, self._outbox)
            except SearchCapError as error:
                found = str(error)
            if isinstance(found, str):
                self._found(attempt, wanted, None, found, attempt.now)
                return
            if found is not None and (yield from self._keep(attempt, plugin, wanted, found)):
                return

    def _may_need_room(self, attempt: GroupAttempt) -> bool:
        """Return whether the group is a gang that failed for lack of room, and that makes none by preemption."""
        plan = attempt.plan
        return (
            attempt.wants_room
            and not (attempt.kept or attempt.enough)
            and attempt.group.gang
            and (plan is None or not plan.waits)
        )

    def _due(self, attempt: GroupAttempt, wanted: Reservation, now: float) -> bool:
        """Return whether a reservation is to be searched, now that the group failed once more."""
        pod = attempt.pods[0].queued.pod
        entry, key = attempt.entry, attempt.entry.key
        room = self._kept.by_profile.get(pod.scheduler_name)
        if room is not None and room.group == key:
            return now - room.found >= _AGAIN or not self._stands(room, attempt)
        return (
            now - entry.first_tried >= wanted.after_seconds
            and pod.priority >= wanted.lowest_priority
            and (room is None or room.priority < pod.priority)
            and self._kept.of(key) is None
            and now >= self._not_before.get(key.namespace, now)
        )

    def _stands(self, room: ReservedRoom, attempt: GroupAttempt) -> bool:
        """Return whether the group's reservation is still valid."""
        late = room.until is not None and room.until <= self._cluster.devices.wall
        return not (late or room.lost or room.planned.keys() != attempt.members.keys())

    def _keep(self, attempt: GroupAttempt, plugin: str, wanted: Reservation, found: Drained) -> Turns[bool]:
        """Store the reservation that was found. Return False if a pod that it counts on has gone meanwhile."""
        cluster, nodes, count = self._cluster, self._cluster.nodes, len(attempt.members)
        room = self._room(attempt, plugin, wanted, found, attempt.now)
        for _ in room.prepare(found.assigned, nodes, cluster.pods_on, cluster.devices.wall):
            yield
            if len(attempt.members) != count or not attempt.wants_room:
                return False
        room.follow(nodes, cluster.pods_on, cluster.devices.wall)
        holds = room.holds(nodes)
        why = "" if holds else "its nodes have changed meanwhile"
        self._found(attempt, wanted, room if holds else None, why, attempt.now)
        return True

    def _found(
        self, attempt: GroupAttempt, wanted: Reservation, room: ReservedRoom | None, why: str, now: float
    ) -> None:
        """Keep this room, if it may be; None: `why` there is none."""
        cluster, key = self._cluster, attempt.entry.key
        pod = attempt.pods[0].queued.pod
        profile = pod.scheduler_name
        before = self._kept.of(key)
        if room is not None and 100 * len(room.rows) > wanted.percentage_of_nodes * cluster.nodes.count:
            most = wanted.percentage_of_nodes
            why, room = f"it needs {len(room.rows)} nodes, more than {most}% of all (percentageOfNodes)", None
        if before is None and now < self._not_before.get(key.namespace, now):
            why, room = "its namespace has just had room", None  # which has ended while the search went on
        if before is not None and self._stands(before, attempt) and not _sooner(room, before):
            before.found = now
            self._say(attempt, before)
            return
        if room is None:
            if before is not None:
                self._end(profile, now, f"room is no longer kept: {why}")
            attempt.reasons.append(f"no room is kept for it: {why}")
            return
        if before is None and profile in self._kept.by_profile:
            self._end(profile, now, f"room is kept for podgroup {key} of higher priority instead")
        self._kept.put(profile, room)
        self._say(attempt, room)
        if before is None:
            self._outbox.add(RecordEvent(pod, "Normal", "RoomKept", said(room)))
        else:
            self._queue.wake_everyone(ClusterEvent.KEPT_ROOM_GONE, now)  # it may be kept on other nodes now

    def _room(
        self, attempt: GroupAttempt, plugin: str, wanted: Reservation, found: Drained, now: float
    ) -> ReservedRoom:
        """Return the reservation before anything on its nodes is counted."""
        wall, nodes = self._cluster.devices.wall, self._cluster.nodes
        pod, key = attempt.pods[0].queued.pod, attempt.entry.key
        before = self._kept.of(key)
        expires = now + wanted.for_seconds if before is None else before.expires
        planned = {one.uid: nodes.names[row] or "" for one, row in found.assigned}
        return ReservedRoom(
            key,
            plugin,
            pod.priority,
            {**dict.fromkeys(attempt.members, ""), **planned},
            found.until,
            found.draining,
            whole=not all(map(plain, {one.shape for one, _ in found.assigned})),
            trusting=wanted.trust_expected_duration,
            since=now if before is None else before.since,
            found=now,
            expires=expires,
            expires_text=_text(wall + expires - now),
            objects=found.objects,
        )

    def _say(self, attempt: GroupAttempt, room: ReservedRoom | None) -> None:
        attempt.kept = True
        if room is not None:
            attempt.of_room = said(room)
            attempt.reasons.append(attempt.of_room)

    # -- when it ends ------------------------------------------------------------------------------------------------

    def started(self, key: GroupKey, now: float) -> None:
        """End the reservation of a group that has found enough nodes: its pods hold them by now."""
        for profile in [profile for profile, room in self._kept.by_profile.items() if room.group == key]:
            self._end(profile, now, "")

    def look(self, now: float, entry_of: Callable[[GroupKey], QueuedGroup | None]) -> None:
        """Give up what was kept for long enough, or for a group that does not wait any more."""
        for profile, room in list(self._kept.by_profile.items()):
            entry = entry_of(room.group)
            if room.expires <= now:
                self._end(profile, now, "room was kept for as long as forSeconds says, and is no longer", entry)
            elif entry is None or (entry.held and not entry.trying):
                self._end(profile, now, "")

    def follow(self, frameworks: Mapping[str, Framework], now: float) -> None:
        """Drop reservations of profiles that are gone."""
        for profile in list(self._kept.by_profile):
            framework = frameworks.get(profile)
            if framework is None or framework.profile.reservation is None:
                self._end(profile, now, "")

    def next_tick(self) -> float | None:
        """Return the engine time at which the first reservation ends."""
        return min((room.expires for room in self._kept.by_profile.values()), default=None)

    def _end(self, profile: str, now: float, note: str, entry: QueuedGroup | None = None) -> None:
        """End a reservation. Its namespace has none again for as long as it had this one."""
        room = self._kept.by_profile[profile]
        self._kept.drop(profile)
        namespace = room.group.namespace
        if len(self._not_before) >= _MANY:
            self._not_before = {name: at for name, at in self._not_before.items() if at > now}
        self._not_before[namespace] = max(self._not_before.get(namespace, now), 2 * now - room.since)
        waiting = () if entry is None else entry.trying or tuple(entry.pods.values())
        if note and waiting:
            self._outbox.add(RecordEvent(waiting[0].pod, "Warning", "RoomNotKept", note))
        self._queue.wake_everyone(ClusterEvent.KEPT_ROOM_GONE, now)


def _sooner(room: ReservedRoom | None, before: ReservedRoom) -> bool:
    return room is not None and room.until is not None and (before.until is None or room.until < before.until)


def said(room: ReservedRoom) -> str:
    """Return the part of the group's message about its reservation."""
    nodes = "1 node" if len(room.rows) == 1 else f"{len(room.rows)} nodes"
    by = "nobody knows when it has all of it" if room.until is None else f"it should have it all by {_text(room.until)}"
    return f"room is kept for it on {nodes} until {room.expires_text}, {by}"


def _text(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
